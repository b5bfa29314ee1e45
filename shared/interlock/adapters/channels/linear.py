"""Linear: comments on an issue, and what the platform signs.

A comment has no buttons: whoever decides there replies with a line that the comment has ready for it. All
text of others is in fenced blocks, whose fence is longer than any in it (CommonMark 0.31, section 4.5).
"""

import hmac
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from interlock.adapters.channels.api import Gone, call
from interlock.adapters.channels.entries import LinearEntry
from interlock.adapters.outbound import Outbound
from interlock.engine.channels import Button, Card
from interlock.engine.notices import RenderFailed

API = "https://api.linear.app/graphql"
FRESH_SECONDS = 60
"""Linear, "Webhooks", "Securing webhooks"."""
MAX_TEXT = 20_000
"""Characters of texts."""

PERSONAL = "lin_api_"
"""Begins keys that are sent as they are; all others are tokens of OAuth."""
QUICK_SECONDS = 2.0
"""For a reply while Linear waits, which it does for five seconds."""

_CREATE = "mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success comment { id } } }"
_UPDATE = (
    "mutation($id: String!, $input: CommentUpdateInput!) "
    "{ commentUpdate(id: $id, input: $input) { success } }"
)
_TICKS = re.compile("`+")


def is_signed(secrets: Sequence[str], signature: str, body: bytes) -> bool:
    """By any of the secrets; the time is in the body, which is read once this holds."""
    given = signature.encode()
    expected = [hmac.new(secret.encode(), body, sha256).hexdigest().encode() for secret in secrets]
    return any(hmac.compare_digest(each, given) for each in expected)


class LinearApi:
    """Implements `Surface`; the message is named `<issue>/<comment>`."""

    def __init__(self, outbound: Outbound, entry: LinearEntry) -> None:
        self._outbound, self._entry = outbound, entry

    def fits(self, texts: Sequence[str]) -> bool:
        return sum(len(_fenced(text)) for text in texts) <= MAX_TEXT

    def post(self, card: Card) -> str:
        issues = self._entry.issues
        issue = card.place if card.place in issues else issues[0]
        return self._create({"issueId": issue, "body": _body(card)})

    def edit(self, message: str, card: Card) -> None:
        _, _, comment = message.partition("/")
        try:
            self._call(_UPDATE, {"id": comment, "input": {"body": _body(card)}}, "commentUpdate")
        except Gone:
            return  # somebody has deleted it

    def follow_up(self, message: str, card: Card) -> str:
        issue, _, comment = message.partition("/")
        return self._create({"issueId": issue, "parentId": comment, "body": _body(card)})

    def reply(self, issue: str, comment: str, text: str) -> None:
        self._create({"issueId": issue, "parentId": comment, "body": text}, seconds=QUICK_SECONDS)

    def _create(self, given: dict[str, Any], seconds: float = 10.0) -> str:
        found = self._call(_CREATE, {"input": given}, "commentCreate", seconds)
        comment = found.get("comment")
        if not isinstance(comment, dict) or not isinstance(comment.get("id"), str):
            raise RenderFailed("the comment has no id")
        return f"{given['issueId']}/{comment['id']}"

    def _call(
        self, query: str, variables: dict[str, Any], name: str, seconds: float = 10.0
    ) -> dict[str, Any]:
        body = {"query": query, "variables": variables}
        url = self._entry.api or API
        token = self._entry.token
        authorization = token if token.startswith(PERSONAL) else f"Bearer {token}"
        answer = call(self._outbound, "POST", url, authorization, body, seconds=seconds, says_why=400)
        if _not_found(answer.get("errors")):
            raise Gone(f"{name} found no comment")
        data = answer.get("data")
        found = data.get(name) if isinstance(data, dict) else None
        if answer.get("errors") or not isinstance(found, dict) or found.get("success") is not True:
            raise RenderFailed(f"{name} was refused")
        return found


def _body(card: Card) -> str:
    facts = [("Agent", card.agent), ("Skill", card.skill), ("Mode", card.mode), ("For", card.requested_by)]
    lines = [f"**{card.title}**", "", *(f"- {label}: {_inline(value)}" for label, value in facts)]
    if card.required > 1:
        lines.append(f"- Approvals needed: {card.required}")
    if card.outcome is not None:
        lines.append(f"- {_inline(card.outcome)}")
    elif card.deadline is not None:
        lines.append(f"- Until: {card.deadline:%Y-%m-%d %H:%M} UTC")
    for text in card.texts:
        lines += ["", _fenced(text)]
    if card.withheld is not None:
        lines += ["", card.withheld]
    if card.shown is not None and any(button.style == Button.GO for button in card.buttons):
        code = card.shown.encoded()
        lines += ["", "To decide, reply with one of these lines; what follows the second is the reason.", ""]
        lines += [_fenced(f"/approve {code}"), "", _fenced(f"/deny {code}")]
    if card.link is not None:
        lines += ["", f"[Open the inbox]({card.link})"]
    return "\n".join(lines)


def _not_found(errors: Any) -> bool:
    return isinstance(errors, list) and "Entity not found" in str(errors)


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in _TICKS.findall(text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _inline(text: str) -> str:
    return f"`{text.replace('`', chr(92) + 'u0060')}`"
