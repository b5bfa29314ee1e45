from typing import Any

import pytest

from interlock.oversight.i_json import MAX_INTEGER, NotIJson, Size, measure


def size(value: Any, *, max_depth: int = 8, max_nodes: int = 100, max_text: int = 100) -> Size:
    return measure(value, max_depth=max_depth, max_nodes=max_nodes, max_text=max_text)


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Size(1, 0)),
        (True, Size(1, 0)),
        (-1.5, Size(1, 0)),
        ("é", Size(1, 2)),
        ([], Size(1, 0)),
        ({"ab": [1, "cd", {"é": None}]}, Size(6, 6)),
    ],
)
def test_values_and_text_are_counted(value: Any, expected: Size) -> None:
    assert size(value) == expected


def test_depth_counts_containers() -> None:
    assert size(nested(8))
    with pytest.raises(NotIJson, match="deeper than 8"):
        size(nested(9))


def test_nodes_and_text_are_limited() -> None:
    assert size([0] * 99).nodes == 100
    with pytest.raises(NotIJson, match="more than 100 values"):
        size([0] * 100)
    assert size({"a" * 50: "b" * 50}).text == 100
    for too_long in ({"a" * 50: "b" * 51}, {"a" * 101: 1}, ["é" * 51], "é" * 101):
        with pytest.raises(NotIJson, match="more than 100 bytes"):
            size(too_long)


@pytest.mark.parametrize("number", [MAX_INTEGER, -MAX_INTEGER, 1e300, 0, -0.0])
def test_numbers_within_the_limits_pass(number: float) -> None:
    assert size([number]) == Size(2, 0)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (MAX_INTEGER + 1, "integer beyond"),
        (-MAX_INTEGER - 1, "integer beyond"),
        (10**400, "integer beyond"),
        (float("nan"), "not finite"),
        (float("inf"), "not finite"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
        ({1: 1}, "not a string"),
        ((1,), "type that JSON does not have"),
        ({1}, "type that JSON does not have"),
        (b"x", "type that JSON does not have"),
        (object(), "type that JSON does not have"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [[value]], lambda value: {"a": value}])
def test_what_is_not_i_json_is_refused_at_any_depth(value: Any, rule: str, wrap: Any) -> None:
    with pytest.raises(NotIJson, match=rule):
        size(wrap(value))


def test_a_value_within_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(NotIJson, match="deeper"):
        size(loop)


def test_a_value_used_many_times_counts_each_time_and_costs_nothing_more() -> None:
    shared: Any = [0] * 9
    for _ in range(30):
        shared = [shared] * 9
    with pytest.raises(NotIJson, match="more than 1000 values"):
        size(shared, max_depth=64, max_nodes=1000)


def test_a_refusal_does_not_hold_the_value() -> None:
    with pytest.raises(NotIJson) as refused:
        size({"secret" * 30: "hidden" * 30})
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)
