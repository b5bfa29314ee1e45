import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.a2a import strict_json
from interlock.a2a.errors import A2AError, ParseError, RequestTooLarge

DEEPEST = strict_json.MAX_DEPTH


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a": [1, -2.5, 1e3, true, false, null, "\\u00e9 \\" \\\\"]}',
        '"\\ud83d\\ude00"',
        '"\\\\ud800"',
        "18446744073709551615",
        "-9223372036854775808",
        "1e308",
        "[" * DEEPEST + "]" * DEEPEST,
        '"' + "[" * (DEEPEST + 1) + '"',
        '{"a": {"b": 1}, "c": {"b": 1}}',
        '["\\"", "]", "\\\\", "["]',
    ],
)
def test_json_is_read_as_everybody_reads_it(text: str) -> None:
    assert strict_json.loads(text.encode()) == json.loads(text)


def test_integers_stay_integers() -> None:
    value = strict_json.loads(b"[1, 9007199254740993]")
    assert isinstance(value, list)
    assert [type(number) for number in value] == [int, int]
    assert value[1] == 9007199254740993


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"[1,]",
        b"{'a': 1}",
        b"[01]",
        b"\x00",
        b'"\x01"',
        b'"\xff"',
        b'"\xed\xa0\x80"',  # a surrogate in UTF-8
        b"\xef\xbb\xbf{}",  # a byte order mark
        "{}".encode("utf-16"),
        b"NaN",
        b"[Infinity]",
        b"[-Infinity]",
        b"[1e999]",
        b"[-1e999]",
        b"9" * (strict_json.MAX_INTEGER_DIGITS + 1),
        b"-" + b"9" * 100_000,
        b'{"a": 1, "a": 1}',
        b'{"a": {"b": 1, "\\u0062": 2}}',
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b'{"\\udfff": 1}',
        b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
        b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1),
        b"[" * 500_000,
        b"[" * 500_000 + b"]" * 500_000,
        b'{"a":' * 100_000,
        b'"' + b'\\"' * 300_000,
    ],
)
def test_what_is_not_strict_json_is_refused(body: bytes) -> None:
    with pytest.raises(ParseError) as refused:
        strict_json.loads(body)
    assert len(str(refused.value)) < 100


def test_depth_counts_levels_and_not_brackets() -> None:
    wide: list[list[list[int]]] = [[[]] for _ in range(200)]
    assert strict_json.loads(json.dumps(wide).encode(), max_depth=3) == wide
    with pytest.raises(ParseError):
        strict_json.loads(json.dumps(wide).encode(), max_depth=2)


def test_brackets_in_strings_do_not_hide_depth() -> None:
    closed_in_a_string = '[["]]]]", ["\\"]]]"]]]'
    with pytest.raises(ParseError):
        strict_json.loads(closed_in_a_string.encode(), max_depth=2)


def test_a_body_over_the_limit_is_not_parsed() -> None:
    assert strict_json.loads(b"[1]", max_bytes=3) == [1]
    with pytest.raises(RequestTooLarge):
        strict_json.loads(b"[1] ", max_bytes=3)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Surrogates can not be encoded, so they do not get into a body this way.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=30,
)


@given(values, st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_json_value_comes_back(value: object, ascii_only: bool) -> None:
    assert strict_json.loads(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=60) | st.text('[]{}",:\\u0123dD89eE-.NaIfty \ud800', max_size=60))
@settings(max_examples=500, deadline=None)
def test_whatever_comes_in_only_the_protocols_errors_come_out(body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    try:
        value = strict_json.loads(raw)
    except A2AError:
        return
    assert value == json.loads(raw)
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
