"""Cursors of queries: where the next page begins, opaque and safe in a URL.

A cursor names the partition or view it was made for and is refused on any other, so one that was handed
out to a caller and comes back altered can move within what was asked for and never out of it.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from interlock.adapters.sizes import PARTITION_KEY_BYTES, SORT_KEY_BYTES, text_size
from interlock.engine.ports import Key

CURSOR_CHARACTERS = 16 * 1024
# Hash and range values take turns: view, view_at, pk, sk.
_BOUNDS = (PARTITION_KEY_BYTES, SORT_KEY_BYTES) * 2


def check_range(first: str, last: str, limit: int | None) -> bool:
    """Whether anything can lie in the range. Raises `ValueError` for what DynamoDB refuses."""
    if limit is not None and limit < 1:
        raise ValueError("a page has at least one row")
    if max(text_size(first), text_size(last)) > SORT_KEY_BYTES:
        raise ValueError(f"a sort key has at most {SORT_KEY_BYTES} bytes")
    return first <= last != ""


def key_cursor(key: Key) -> str:
    return _encode([key.pk, key.sk])


def parse_key_cursor(cursor: str, pk: str, first: str, last: str) -> str:
    """The sort key after which to go on. Raises `ValueError` for a cursor of another query."""
    at_pk, at_sk = _decode(cursor, 2)
    if at_pk != pk or not first <= at_sk <= last:
        raise ValueError("the cursor is of another query")
    return at_sk


def view_cursor(view: str, view_at: str, key: Key) -> str:
    return _encode([view, view_at, key.pk, key.sk])


def parse_view_cursor(cursor: str, view: str, first: str, last: str) -> tuple[str, Key]:
    """The place in the view after which to go on. Raises `ValueError` for a cursor of another query."""
    at_view, view_at, pk, sk = _decode(cursor, 4)
    if at_view != view or not first <= view_at <= last:
        raise ValueError("the cursor is of another query")
    return view_at, Key(pk, sk)


def _encode(parts: list[str]) -> str:
    return urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode()).decode().rstrip("=")


def _decode(cursor: str, count: int) -> list[str]:
    if len(cursor) > CURSOR_CHARACTERS or not cursor.isascii():
        raise ValueError("not a cursor")
    try:
        parts = json.loads(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        well_formed = isinstance(parts, list) and len(parts) == count and all(map(_fits, parts, _BOUNDS))
    except (ValueError, RecursionError):
        well_formed = False
    if not well_formed:
        raise ValueError("not a cursor")
    return list(parts)


def _fits(part: object, bound: int) -> bool:
    return isinstance(part, str) and 0 < text_size(part) <= bound
