"""Canonical JSON (RFC 8785) and the digests made of it."""

import hashlib
from typing import Any

import rfc8785

from interlock.oversight.i_json import NotIJson, measure

MAX_DEPTH = 64
MAX_NODES = 65_536
MAX_TEXT = 1 << 20
"""Bytes."""


class NotCanonical(ValueError):
    """The value has no canonical form, or is larger than the limits. The text never holds the value."""


def canonical(value: Any) -> bytes:
    """The one serialisation of `value`. Raises `NotCanonical`."""
    try:
        measure(value, max_depth=MAX_DEPTH, max_nodes=MAX_NODES, max_text=MAX_TEXT)
    except NotIJson as refused:
        raise NotCanonical(f"no canonical JSON: {refused}") from None
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """`sha256:` and the lower-case hex of SHA-256 over the canonical form. Raises `NotCanonical`."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()
