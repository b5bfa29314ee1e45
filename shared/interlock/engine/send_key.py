"""The idempotency key of a send: in a header, or in the metadata of the message or of the request."""

import json
import re
from hashlib import sha256
from typing import Any

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Message, SendMessageRequest
from interlock.engine.errors import SendCanceled
from interlock.engine.ports import Missing, Put
from interlock.engine.records import SendKey
from interlock.oversight.principals import Principal

IDEMPOTENCY_METADATA = "a2a-rust.com/idempotency-key"
IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9\-_.:]{16,255}")


def checked_key(key: Any) -> str | None:
    """Raises `InvalidParams`."""
    if key is None:
        return None
    if not isinstance(key, str) or not IDEMPOTENCY_KEY.fullmatch(key):
        raise InvalidParams("The idempotency key must be 16 to 255 of A-Z a-z 0-9 - _ . :")
    return key


def key_of_send(request: SendMessageRequest, header: str | None) -> str | None:
    metadata = request.metadata or {}
    named = (request.message.metadata or {}).get(IDEMPOTENCY_METADATA, metadata.get(IDEMPOTENCY_METADATA))
    return checked_key(header if header is not None else named)


def note_key(caller: Principal, key: str, task_id: str, message: Message) -> Put:
    row = SendKey(task_id=task_id, digest=_digest(message))
    return Put(SendKey.key_of(caller.tenant, caller.id, key), row.item(), (Missing("v"),))


def same_send(earlier: SendKey, message: Message) -> str:
    """The task of an earlier send under the same key. Raises `InvalidParams` if it was another message."""
    if earlier.canceled:
        raise SendCanceled(metadata={})
    if earlier.digest != _digest(message):
        raise InvalidParams("The idempotency key was used for another message")
    return earlier.task_id


def _digest(message: Message) -> str:
    text = json.dumps(message.wire(), sort_keys=True, separators=(",", ":"))
    return "sha256:" + sha256(text.encode()).hexdigest()
