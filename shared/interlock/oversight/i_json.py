"""JSON values that every party reads alike: I-JSON (RFC 7493), measured within limits.

What comes from other parties is measured before anything recursive touches it. The walk is iterative and
holds at most `max_nodes` references, also when the same Python object occurs many times or within itself.
"""

import math
from dataclasses import dataclass
from typing import Any

MAX_INTEGER = 2**53 - 1
"""Integers beyond it are not exact in an IEEE 754 double (RFC 7493, section 2.2)."""


class NotIJson(ValueError):
    """Not I-JSON, or larger than the limits. The text names the rule and never the value."""


@dataclass(frozen=True, slots=True)
class Size:
    """`nodes` counts every value, containers included; `text` is UTF-8 bytes of strings and names."""

    nodes: int
    text: int


def measure(value: Any, *, max_depth: int, max_nodes: int, max_text: int) -> Size:
    """The size of `value`; depth counts nested arrays and objects. Raises `NotIJson`."""
    nodes, text = 1, 0
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        kind = type(item)
        if kind is dict or kind is list:
            depth += 1
            if depth > max_depth:
                raise NotIJson(f"nested deeper than {max_depth} levels")
            nodes += len(item)
            if nodes > max_nodes:
                raise NotIJson(f"more than {max_nodes} values")
            if kind is dict:
                for name in item:
                    text += _utf8(name, max_text)
                pending.extend((child, depth) for child in item.values())
            else:
                pending.extend((child, depth) for child in item)
        elif kind is str:
            text += _utf8(item, max_text)
        elif kind is int:
            if not -MAX_INTEGER <= item <= MAX_INTEGER:
                raise NotIJson("an integer beyond 2^53-1")
        elif kind is float:
            if not math.isfinite(item):
                raise NotIJson("a number that is not finite")
        elif kind is not bool and item is not None:
            raise NotIJson("a value of a type that JSON does not have")
        if text > max_text:
            raise NotIJson(f"more than {max_text} bytes of text")
    return Size(nodes, text)


def _utf8(text: Any, limit: int) -> int:
    if type(text) is not str:
        raise NotIJson("a member name that is not a string")
    if text.isascii():
        return len(text)
    if len(text) > limit:
        raise NotIJson(f"more than {limit} bytes of text")
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise NotIJson("a lone surrogate") from None
