"""Slack: messages of Block Kit, and what the platform signs of its requests.

All text of others is in `rich_text` elements, which are shown as they are: nothing in them is a mention, a
link or a format (Slack, "Rich text block"). What stands in the fallback is escaped.
"""

import hmac
import re
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from interlock.adapters.channels.api import Gone, call
from interlock.adapters.channels.entries import SlackEntry
from interlock.adapters.outbound import Outbound
from interlock.engine.channels import Button, Card
from interlock.engine.notices import RenderFailed

API = "https://slack.com/api"
FRESH_SECONDS = 300
"""Slack, "Verifying requests from Slack"."""
MAX_TEXT = 2800
"""Characters, below the 3000 of a block's text."""
MAX_BUTTONS = 5
MAX_LABEL = 75
ASK_REASON = "deny"
REASON = "reason"
QUICK_SECONDS = 1.0
"""For calls while the platform waits for its answer."""

_GONE = {"message_not_found", "channel_not_found", "is_archived", "cant_update_message", "edit_window_closed"}
_NAME = re.compile(r"[a-z_]{1,64}")


def is_signed(secrets: Sequence[str], timestamp: str, signature: str, body: bytes, now: float) -> bool:
    """By any of the secrets, and within five minutes."""
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        return False
    if abs(now - int(timestamp)) > FRESH_SECONDS:
        return False
    base = b":".join((b"v0", timestamp.encode(), body))
    given = signature.encode()
    expected = [b"v0=" + hmac.new(secret.encode(), base, sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(each, given) for each in expected)


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class SlackApi:
    """Implements `Surface`; the message is named `<channel>/<ts>`."""

    def __init__(self, outbound: Outbound, entry: SlackEntry) -> None:
        self._outbound, self._entry = outbound, entry

    def fits(self, texts: Sequence[str]) -> bool:
        return sum(map(len, texts)) <= MAX_TEXT

    def post(self, card: Card) -> str:
        channels = self._entry.channels
        channel = card.place if card.place in channels else channels[0]
        return self._said(self._call("chat.postMessage", {"channel": channel, **_message(card), **_QUIET}))

    def edit(self, message: str, card: Card) -> None:
        channel, _, ts = message.partition("/")
        try:
            self._call("chat.update", {"channel": channel, "ts": ts, **_message(card)})
        except Gone:
            return  # somebody has deleted it

    def follow_up(self, message: str, card: Card) -> str:
        channel, _, ts = message.partition("/")
        blocks = _message(card)
        where = {"channel": channel, "thread_ts": ts, "reply_broadcast": True}
        return self._said(self._call("chat.postMessage", {**where, **blocks, **_QUIET}))

    def whisper(self, channel: str, user: str, text: str) -> None:
        """Only that user sees it."""
        said = {"channel": channel, "user": user, "text": escaped(text)}
        self._call("chat.postEphemeral", said, seconds=QUICK_SECONDS)

    def ask_reason(self, trigger: str, value: str) -> None:
        """Opens a modal, whose submission has `value` as its metadata."""
        self._call("views.open", {"trigger_id": trigger, "view": reason_view(value)}, seconds=QUICK_SECONDS)

    def _call(self, method: str, body: dict[str, Any], seconds: float = 10.0) -> dict[str, Any]:
        url = f"{self._entry.api or API}/{method}"
        answer = call(self._outbound, "POST", url, f"Bearer {self._entry.token}", body, seconds=seconds)
        if answer.get("ok") is not True:
            error = str(answer.get("error"))
            why = error if _NAME.fullmatch(error) else "no reason"
            raise (Gone if error in _GONE else RenderFailed)(f"{method} was refused: {why}")
        return answer

    @staticmethod
    def _said(answer: dict[str, Any]) -> str:
        channel, ts = answer.get("channel"), answer.get("ts")
        if not isinstance(channel, str) or not isinstance(ts, str):
            raise RenderFailed("the message has no name")
        return f"{channel}/{ts}"


_QUIET = {"unfurl_links": False, "unfurl_media": False, "parse": "none"}


def _message(card: Card) -> dict[str, Any]:
    """`text` is what notifications show."""
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(card.title)},
        {"type": "rich_text", "elements": [_facts(card), *map(_literal, card.texts), *_notes(card)]},
    ]
    if card.buttons:
        blocks.append({"type": "actions", "elements": _controls(card.buttons)})
    said = card.outcome or card.title
    return {"text": escaped(f"{said}: {card.agent}, {card.skill}"[:300]), "blocks": blocks}


def _facts(card: Card) -> dict[str, Any]:
    needed = [("Approvals needed", str(card.required))] if card.required > 1 and not card.outcome else []
    lines = [
        ("Agent", card.agent),
        ("Skill", card.skill),
        ("Mode", card.mode),
        ("For", card.requested_by),
        *needed,
    ]
    elements: list[dict[str, Any]] = []
    for name, value in lines:
        elements += [_bold(f"{name}: "), _text(f"{value}\n")]
    if card.outcome is not None:
        elements.append(_bold(card.outcome))
    elif card.deadline is not None:
        elements += [_bold("Until: "), _date(card.deadline)]
    return {"type": "rich_text_section", "elements": elements}


def _notes(card: Card) -> list[dict[str, Any]]:
    elements = [_text(f"{card.withheld} ")] if card.withheld is not None else []
    if card.link is not None:
        elements.append({"type": "link", "url": card.link, "text": "Open the inbox"})
    return [{"type": "rich_text_section", "elements": elements}] if elements else []


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _bold(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "style": {"bold": True}}


def _date(at: datetime) -> dict[str, Any]:
    fallback = f"{at:%Y-%m-%d %H:%M} UTC"
    return {
        "type": "date",
        "timestamp": int(at.timestamp()),
        "format": "{date_short_pretty} {time}",
        "fallback": fallback,
    }


def _literal(text: str) -> dict[str, Any]:
    return {"type": "rich_text_preformatted", "elements": [_text(text)]}


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _controls(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    if len(buttons) <= MAX_BUTTONS:
        return [_button(number, button) for number, button in enumerate(buttons)]
    options = [{"text": _plain(button.label), "value": button.value} for button in buttons]
    return [
        {"type": "static_select", "action_id": "choose", "placeholder": _plain("Choose"), "options": options}
    ]


def _button(number: int, button: Button) -> dict[str, Any]:
    style = {Button.GO: {"style": "primary"}, Button.STOP: {"style": "danger"}}.get(button.style or "", {})
    return {
        "type": "button",
        "action_id": f"press-{number}",
        "text": _plain(button.label),
        "value": button.value,
        **style,
    }


def reason_view(value: str) -> dict[str, Any]:
    field = {"type": "plain_text_input", "action_id": REASON, "multiline": True, "max_length": 2000}
    return {
        "type": "modal",
        "callback_id": ASK_REASON,
        "private_metadata": value,
        "title": _plain("Deny"),
        "submit": _plain("Deny"),
        "close": _plain("Back"),
        "blocks": [
            {
                "type": "input",
                "block_id": REASON,
                "optional": True,
                "label": _plain("Why? The agent is told."),
                "element": field,
            }
        ],
    }
