"""What a caller says of a send beside the message: which skill is meant, and where the work came from."""

import json

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Message, SendMessageRequest
from interlock.oversight.modes import STAMPS

SKILL_HINT = "skillHint"
SOURCE = "source"
SOURCE_MEMBERS = ("interface", "channelId", "userId", "agentId")
MAX_SOURCE = 256
"""Characters of each."""


def skill_hint(request: SendMessageRequest) -> str | None:
    for metadata in (request.message.metadata, request.metadata):
        hint = (metadata or {}).get(SKILL_HINT)
        if hint is not None:
            if not isinstance(hint, str):
                raise InvalidParams(f"metadata.{SKILL_HINT} must be a string")
            return hint
    return None


def unstamped(message: Message) -> Message:
    """Without stamps of a mode, which a caller has no say in."""
    metadata = message.metadata or {}
    if STAMPS.isdisjoint(metadata):
        return message
    kept = {name: value for name, value in metadata.items() if name not in STAMPS}
    return message.model_copy(update={"metadata": kept or None})


def source_of(request: SendMessageRequest) -> str | None:
    """`{interface, channelId?, userId?, agentId?}`: where to tell of the work, never who may decide."""
    said = (request.message.metadata or {}).get(SOURCE, (request.metadata or {}).get(SOURCE))
    if not isinstance(said, dict):
        return None
    kept = {name: text for name in SOURCE_MEMBERS if isinstance(text := said.get(name), str)}
    if "interface" not in kept or any(len(value) > MAX_SOURCE for value in kept.values()):
        return None
    return json.dumps(kept)
