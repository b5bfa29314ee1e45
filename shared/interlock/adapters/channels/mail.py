"""Mail by Amazon SES: plain text, to one person each, with a link of their own.

Nothing of others gets into a header but names that hold no line feed, and what would become a link in a
reader's program is spelled out.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from interlock.adapters.aws import create_client
from interlock.engine.channels import Card
from interlock.engine.links import new_link
from interlock.engine.notices import RenderFailed
from interlock.engine.ports import Clock, Table

MAX_TEXT = 16_000
"""Characters of texts."""
_LINKS = re.compile(r"(?i)(:)(?=//)|(?<=\bwww)(\.)")


def ses_client(endpoint_url: str | None = None) -> Any:
    """A client of Amazon SES that gives up early."""
    config = Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
    return create_client("sesv2", endpoint_url, config)


class MailSurface:
    """Implements `Surface`, for one person. What was sent stays as it is: its link says how it ended."""

    def __init__(
        self,
        ses: Callable[[], Any],
        table: Table,
        clock: Clock,
        *,
        name: str,
        sender: str,
        address: str,
        who: str,
        base: str | None,
    ) -> None:
        self._ses, self._table, self._clock = ses, table, clock
        self._name, self._sender, self._address, self._who, self._base = name, sender, address, who, base

    def fits(self, texts: Sequence[str]) -> bool:
        return sum(len(spelled(text)) for text in texts) <= MAX_TEXT

    def post(self, card: Card) -> str:
        subject = f"Interlock: {card.title} ({card.agent}, {card.skill})"
        content = {
            "Simple": {
                "Subject": {"Data": subject, "Charset": "UTF-8"},
                "Body": {"Text": {"Data": self._text(card), "Charset": "UTF-8"}},
            }
        }
        try:
            answer = self._ses().send_email(
                FromEmailAddress=self._sender, Destination={"ToAddresses": [self._address]}, Content=content
            )
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise RenderFailed(f"not sent: {type(error).__name__}") from error
        return str(answer["MessageId"])

    def edit(self, message: str, card: Card) -> None:
        pass

    def follow_up(self, message: str, card: Card) -> str:  # noqa: ARG002
        return self.post(card)

    def _text(self, card: Card) -> str:
        lines = [
            card.title,
            "",
            f"Agent: {spelled(card.agent)}",
            f"Skill: {spelled(card.skill)}",
            f"Mode:  {card.mode}",
            f"For:   {spelled(card.requested_by)}",
        ]
        if card.required > 1:
            lines.append(f"Approvals needed: {card.required}")
        if card.deadline is not None:
            lines.append(f"Until: {card.deadline:%Y-%m-%d %H:%M} UTC")
        for text in card.texts:
            lines += ["", *(f"| {line}" for line in spelled(text).split("\n"))]
        if card.withheld is not None:
            lines += ["", card.withheld]
        if card.buttons and card.shown is not None and self._base is not None:
            now = self._clock.now()
            token = new_link(self._table, card.tenant, card.shown, self._who, self._name, now, card.deadline)
            address = f"{self._base.rstrip('/')}/channels/mail/{self._name}?t={token}"
            lines += ["", "Decide here. The link is yours alone, opens a page, and counts once:", address]
        if card.link is not None:
            lines += ["", "Inbox:", card.link]
        return "\n".join([*lines, ""])


def spelled(text: str) -> str:
    return _LINKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
