"""JSON of untrusted bodies (RFC 8259), refused where readers may disagree (RFC 7493) or costs would explode.

The C scanner does the work. Only a body whose bytes say that it may be nested too deep, or may hold a lone
surrogate, is looked at a second time.
"""

import json
import re
from itertools import accumulate
from math import isinf
from typing import NoReturn

from pydantic import JsonValue

from interlock.a2a.errors import ParseError, RequestTooLarge

MAX_BYTES = 1024 * 1024
"""Default limit of a body."""
MAX_DEPTH = 64
"""Default limit of objects and arrays within each other."""
MAX_INTEGER_DIGITS = 20
"""Enough for every signed or unsigned 64 bit integer."""


def loads(body: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The value of a body in strict UTF-8.

    Raises `RequestTooLarge`, and `ParseError` for what is not JSON, for a byte order mark, a member name that
    occurs twice, a number that is not finite or has too many digits, a lone surrogate, or too many levels.
    """
    if len(body) > max_bytes:
        raise RequestTooLarge
    try:
        value: JsonValue = _DECODER.decode(body.decode())
    except RecursionError:
        raise ParseError(_TOO_DEEP) from None
    except ValueError:
        raise ParseError from None
    if body.count(b"[") + body.count(b"{") > max_depth and _depth(body) > max_depth:
        raise ParseError(_TOO_DEEP)
    if _ESCAPED_SURROGATE.search(body) and not _is_unicode(value):
        raise ParseError("A string holds half of a surrogate pair")
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ParseError("A member name occurs twice in an object")
    return members


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_INTEGER_DIGITS:
        raise ParseError("An integer has too many digits")
    return int(digits)


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ParseError("A number is out of range")
    return number


def _constant(_name: str) -> NoReturn:
    raise ParseError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_TOO_DEEP = "The body is nested too deep"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_A_STEP = bytes(set(range(256)) - set(b"[{]}"))


def _depth(body: bytes) -> int:
    """Levels of a body that is known to be JSON: +1 and -1 for its brackets outside strings, summed up."""
    steps = _STRING.sub(b"", body).translate(_STEPS, _NOT_A_STEP)
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _is_unicode(value: JsonValue) -> bool:
    """Whether every string is encodable: the scanner has joined the pairs, only lone halves are left."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
