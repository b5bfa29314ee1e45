"""What Discord sends when somebody presses a button or submits a modal ("Interactions")."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.a2a import strict_json
from interlock.a2a.errors import InvalidRequest, Unauthenticated
from interlock.adapters.channels.discord import (
    PING,
    PONG,
    PRESSED,
    REASON,
    SUBMITTED,
    is_signed,
    reason_modal,
    whisper,
)
from interlock.adapters.channels.entries import DiscordEntry
from interlock.doors.channels.door import ELSEWHERE, MALFORMED, Door, members, route, text_of
from interlock.engine.press import DENY, MAX_COMMENT


def routes(door: Door) -> list[Route]:
    return [route("/channels/discord/{name}", partial(_handle, door))]


def _handle(door: Door, request: Request, body: bytes) -> Response:
    entry, headers = door.channel(request, DiscordEntry), request.headers
    signature, timestamp = headers.get("x-signature-ed25519", ""), headers.get("x-signature-timestamp", "")
    now = door.engine.clock.now().timestamp()
    if entry is None or not is_signed(entry.public_keys, timestamp, signature, body, now):
        raise Unauthenticated
    interaction = strict_json.loads(body)
    if not isinstance(interaction, dict):
        raise InvalidRequest("The body is no interaction")
    if interaction.get("type") == PING:
        return JSONResponse({"type": PONG})
    via = f"discord:{request.path_params['name']}"
    return JSONResponse(_answer(door, entry, via, interaction))


def _answer(door: Door, entry: DiscordEntry, via: str, interaction: dict[str, Any]) -> dict[str, Any]:
    data, user = members(interaction.get("data")), members(members(interaction.get("member")).get("user"))
    if not _is_ours(entry, interaction):
        return whisper(ELSEWHERE)
    who = door.person(entry, text_of(user.get("id")))
    custom_id = text_of(data.get("custom_id"))
    kind, reason = interaction.get("type"), None
    if kind == PRESSED:
        values = data.get("values")
        value = text_of(values[0]) if isinstance(values, list) and values else custom_id
        if who is not None and value.partition(".")[0] == DENY:
            return reason_modal(value)
    elif kind == SUBMITTED:
        value = custom_id
        reason = next((text for name, text in _fields(data) if name == REASON), "")[:MAX_COMMENT] or None
    else:
        return whisper(MALFORMED)
    return whisper(door.settle(via, who, value, reason).text)


def _is_ours(entry: DiscordEntry, interaction: dict[str, Any]) -> bool:
    return (
        interaction.get("application_id") == entry.application
        and interaction.get("guild_id") == entry.guild
        and interaction.get("channel_id") in entry.channels
    )


def _fields(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Those of a modal: each in a row, or in a label."""
    rows = data.get("components")
    for row in map(members, rows if isinstance(rows, list) else []):
        fields = row.get("components")
        for field in map(members, fields if isinstance(fields, list) else [row.get("component")]):
            yield text_of(field.get("custom_id")), text_of(field.get("value"))
