import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.oversight.canonical_json import MAX_DEPTH, NotCanonical, canonical, digest

numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda children: st.lists(children) | st.dictionaries(text, children),
    max_leaves=20,
)


def test_the_digest_of_a_known_action() -> None:
    action = {"tool": "refund", "order": 1182, "amount": "40.00"}
    assert digest(action) == "sha256:9dfdaf0fdc48912f539a8dcef195052a1959f82f4880c2ec3d0730fa96ad538c"


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (4.50, "4.5"),
        (2e-3, "0.002"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (333333333.33333329, "333333333.3333333"),
        (2**53 - 1, "9007199254740991"),
        (-(2**53) + 1, "-9007199254740991"),
    ],
)
def test_numbers_are_printed_as_ecmascript_does(number: float, printed: str) -> None:
    assert canonical(number) == printed.encode()


def test_members_sort_by_utf_16_code_units() -> None:
    # As UTF-8 or as code points, U+FB33 would come before U+1F600.
    assert canonical({"\ufb33": 1, "\U0001f600": 2, "a": 3}) == '{"a":3,"\U0001f600":2,"\ufb33":1}'.encode()


def test_only_what_must_be_escaped_is() -> None:
    assert canonical("\u20ac$\u000f\nA'B\"\\/") == '"\u20ac$\\u000f\\nA\'B\\"\\\\/"'.encode()


@settings(deadline=None)
@given(values)
def test_equal_values_have_equal_digests_after_a_round_trip(value: Any) -> None:
    reread = json.loads(canonical(value), parse_int=float)
    assert reread == value, "every number is a double"
    assert digest(reread) == digest(value)


@settings(deadline=None)
@given(st.dictionaries(text, numbers))
def test_the_order_of_members_does_not_matter(value: dict[str, float]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), "\ud800", {"\udc00": 1}, 2**53, -(2**53), 10**400, {1: 2}, (1,), b""],
)
def test_what_has_no_canonical_form_is_refused_in_few_words(value: Any) -> None:
    with pytest.raises(NotCanonical) as refused:
        canonical([value])
    assert isinstance(refused.value, ValueError)
    assert len(str(refused.value)) < 100


def test_depth_is_limited() -> None:
    value: Any = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert canonical(value) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    with pytest.raises(NotCanonical, match="deeper than 64"):
        canonical([value])
