"""Discord: messages with buttons, what the platform signs, and what an interaction is answered with.

All text of others is in code blocks, in which nothing is a mention, a link or a format. The message allows no
mention and shows no embed in any case (Discord, "Message Formatting" and "Create Message").
"""

from collections.abc import Sequence
from typing import Any

from interlock.adapters.channels.api import Gone, call
from interlock.adapters.channels.entries import DiscordEntry
from interlock.adapters.outbound import Outbound
from interlock.engine.channels import Button, Card
from interlock.engine.notices import RenderFailed

API = "https://discord.com/api/v10"
AGENT = "DiscordBot (interlock, 1)"
"""Discord refuses callers that do not name themselves in this form."""
FRESH_SECONDS = 300
MAX_TEXT = 1200
"""Characters of texts; with all the rest that is below the 2000 of a message."""
MAX_BUTTONS = 5
REASON = "reason"

PING, PRESSED, SUBMITTED = 1, 3, 5
"""Types of interactions."""
PONG, MESSAGE, MODAL = 1, 4, 9
"""Types of answers to them."""
EPHEMERAL, NO_EMBEDS = 1 << 6, 1 << 2
_ROW, _BUTTON, _MENU, _INPUT = 1, 2, 3, 4
_STYLES = {Button.GO: 3, Button.STOP: 4}
_GREY, _PARAGRAPH = 2, 2
_MENTIONS: dict[str, Any] = {"parse": []}


def is_signed(public_keys: Sequence[str], timestamp: str, signature: str, body: bytes, now: float) -> bool:
    """By any of the keys, over the time and the body, and within five minutes."""
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 12:
        return False
    if abs(now - int(timestamp)) > FRESH_SECONDS:
        return False
    return any(verifies(key, signature, timestamp.encode() + body) for key in public_keys)


def verifies(public_key: str, signature: str, message: bytes) -> bool:
    """Ed25519 (RFC 8032), key and signature in hex."""
    # Slow to load, and only a deployment with Discord needs it.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True


class DiscordApi:
    """Implements `Surface`; the message is named `<channel>/<id>`."""

    def __init__(self, outbound: Outbound, entry: DiscordEntry) -> None:
        self._outbound, self._entry = outbound, entry

    def fits(self, texts: Sequence[str]) -> bool:
        return sum(len(_fenced(text)) for text in texts) <= MAX_TEXT

    def post(self, card: Card) -> str:
        channels = self._entry.channels
        channel = card.place if card.place in channels else channels[0]
        once: dict[str, Any] = {}
        if card.shown is not None:
            # Posted again within minutes, it is the same message.
            once = {"nonce": card.shown.ask_id.replace("-", "")[:25], "enforce_nonce": True}
        return self._post(channel, {**_message(card), **once})

    def edit(self, message: str, card: Card) -> None:
        channel, _, number = message.partition("/")
        try:
            self._call("PATCH", f"channels/{channel}/messages/{number}", _message(card))
        except Gone:
            return  # somebody has deleted it

    def follow_up(self, message: str, card: Card) -> str:
        channel, _, number = message.partition("/")
        answered = {"message_id": number, "fail_if_not_exists": False}
        return self._post(channel, {**_message(card), "message_reference": answered})

    def _post(self, channel: str, body: dict[str, Any]) -> str:
        number = self._call("POST", f"channels/{channel}/messages", body).get("id")
        if not isinstance(number, str):
            raise RenderFailed("the message has no id")
        return f"{channel}/{number}"

    def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url = f"{self._entry.api or API}/{path}"
        return call(self._outbound, method, url, f"Bot {self._entry.token}", body, agent=AGENT)


def whisper(text: str) -> dict[str, Any]:
    """The answer that only who pressed sees."""
    data = {"content": text, "flags": EPHEMERAL | NO_EMBEDS, "allowed_mentions": _MENTIONS}
    return {"type": MESSAGE, "data": data}


def reason_modal(value: str) -> dict[str, Any]:
    field = {
        "type": _INPUT,
        "custom_id": REASON,
        "label": "Why? The agent is told.",
        "style": _PARAGRAPH,
        "required": False,
        "max_length": 2000,
    }
    rows = [{"type": _ROW, "components": [field]}]
    return {"type": MODAL, "data": {"custom_id": value, "title": "Deny", "components": rows}}


def _message(card: Card) -> dict[str, Any]:
    lines = [f"**{card.title}**"]
    for name, value in (
        ("Agent", card.agent),
        ("Skill", card.skill),
        ("Mode", card.mode),
        ("For", card.requested_by),
    ):
        lines.append(f"{name}: {_inline(value)}")
    if card.outcome is not None:
        lines.append(_inline(card.outcome))
    else:
        if card.required > 1:
            lines.append(f"Approvals needed: {card.required}")
        if card.deadline is not None:
            at = int(card.deadline.timestamp())
            lines.append(f"Until: <t:{at}:f>, <t:{at}:R>")
    lines += map(_fenced, card.texts)
    if card.withheld is not None:
        lines.append(card.withheld)
    if card.link is not None:
        lines.append(f"Inbox: <{card.link}>")
    return {
        "content": "\n".join(lines),
        "components": _rows(card.buttons),
        "allowed_mentions": _MENTIONS,
        "flags": NO_EMBEDS,
    }


def _fenced(text: str) -> str:
    # What would end the block is spelled out, as what can not be seen is.
    spelled = text.replace("```", "\\u0060" * 3)
    return f"```\n{spelled}\n```"


def _inline(text: str) -> str:
    return f"`{text.replace('`', chr(92) + 'u0060')}`"


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    if not buttons:
        return []
    if len(buttons) <= MAX_BUTTONS:
        return [{"type": _ROW, "components": [_button(button) for button in buttons]}]
    options = [{"label": button.label, "value": button.value} for button in buttons]
    menu = {"type": _MENU, "custom_id": "choose", "placeholder": "Choose", "options": options}
    return [{"type": _ROW, "components": [menu]}]


def _button(button: Button) -> dict[str, Any]:
    style = _STYLES.get(button.style or "", _GREY)
    return {"type": _BUTTON, "style": style, "label": button.label, "custom_id": button.value}
