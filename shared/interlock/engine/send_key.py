"""The idempotency key of a send: in a header, or in the metadata of the message or of the request."""

import re
from typing import Any

from interlock.a2a.errors import InvalidParams

IDEMPOTENCY_METADATA = "a2a-rust.com/idempotency-key"
IDEMPOTENCY_KEY = re.compile(r"[A-Za-z0-9\-_.:]{16,255}")


def checked_key(key: Any) -> str | None:
    """Raises `InvalidParams`."""
    if key is None:
        return None
    if not isinstance(key, str) or not IDEMPOTENCY_KEY.fullmatch(key):
        raise InvalidParams("The idempotency key must be 16 to 255 of A-Z a-z 0-9 - _ . :")
    return key
