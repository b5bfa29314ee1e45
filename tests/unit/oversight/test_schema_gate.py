import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.oversight.schema_gate import (
    DIALECT,
    MAX_PATHS,
    MAX_PATTERN_LENGTH,
    MAX_PATTERNS,
    MAX_SCHEMA_BYTES,
    MAX_WORK,
    Cost,
    PayloadUndecided,
    SchemaRefused,
    bound,
    gate,
)

FORM = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {"money": {"type": "string", "pattern": "^[0-9]+\\.[0-9]{2}$"}},
    "properties": {
        "approved": {"type": "boolean"},
        "comment": {"type": "string", "maxLength": 1024},
        "amount": {"$ref": "#/$defs/money"},
        "limit": {"$ref": "#/$defs/money"},
    },
    "required": ["approved"],
    "additionalProperties": False,
}


def schema(**keywords: Any) -> dict[str, Any]:
    return {"type": "object", **keywords}


def value_schema(**keywords: Any) -> dict[str, Any]:
    return schema(properties={"v": keywords})


def chain(levels: int, keyword: str = "allOf", **keywords: Any) -> dict[str, Any]:
    """Each of `levels` definitions uses the next one twice."""
    definitions: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2, **keywords} for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
    return schema(properties={"v": {"$ref": "#/$defs/d0"}}, **{"$defs": definitions})


def refused(candidate: Any) -> str:
    with pytest.raises(SchemaRefused) as refusal:
        gate(candidate)
    text = str(refusal.value)
    assert 0 < len(text) < 200
    return text


def test_a_form_passes_with_what_it_costs() -> None:
    cost = gate(FORM)
    assert cost.pattern_uses == 2, "a definition used twice is evaluated twice"
    assert 10 < cost.paths < 50


@pytest.mark.parametrize("candidate", [True, [], "object", None, {}, {"type": "array"}, {"type": ["object"]}])
def test_the_root_must_be_an_object_schema(candidate: Any) -> None:
    assert '"type": "object"' in refused(candidate)


def test_size_is_of_the_serialised_utf_8() -> None:
    empty = schema(title="")
    room = MAX_SCHEMA_BYTES - len(json.dumps(empty, separators=(",", ":")))
    assert gate(schema(title="é" * (room // 2)))
    assert "65536 bytes" in refused(schema(title="é" * (room // 2 + 1)))
    # Escapes count as well: a quotation mark takes two bytes.
    assert "65536 bytes" in refused(schema(title='"' * (room // 2 + 1)))


def test_depth_and_nodes_are_limited() -> None:
    deep: dict[str, Any] = {}
    for _ in range(15):
        deep = {"allOf": [deep]}
    assert gate(schema(**deep))
    assert "deeper than 32" in refused(value_schema(not_a_keyword=[deep]))
    assert gate(schema(enum=[1] * 8000))
    assert "8192 values" in refused(schema(enum=[1] * 8192))


@pytest.mark.parametrize("dialect", [DIALECT, DIALECT + "#"])
def test_the_dialect_may_be_named(dialect: str) -> None:
    assert gate(schema(**{"$schema": dialect}))


@pytest.mark.parametrize(
    "dialect", ["http://json-schema.org/draft-07/schema#", "http://127.0.0.1/meta", "", None, 1, [DIALECT]]
)
def test_other_dialects_are_refused(dialect: Any) -> None:
    assert "$schema" in refused(schema(**{"$schema": dialect}))


def test_a_dialect_below_the_root_is_refused() -> None:
    assert "$schema" in refused(value_schema(**{"$schema": DIALECT}))


@pytest.mark.parametrize(
    "keyword",
    [
        "$id",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
        "$vocabulary",
        "contentSchema",
        "dependencies",
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        lambda bad: schema(**bad),
        lambda bad: value_schema(**bad),
        lambda bad: schema(**{"$defs": {"unused": bad}}),
        lambda bad: schema(definitions={"unused": {"not": bad}}),
        lambda bad: schema(somewhere=bad, **{"$ref": "#/somewhere"}),
        lambda bad: schema(dependentSchemas={"a": {"if": bad}}),
        lambda bad: schema(prefixItems=[{"contains": bad}]),
        lambda bad: schema(patternProperties={"a": {"unevaluatedItems": bad}}),
    ],
)
def test_keywords_that_reach_beyond_are_refused_wherever_a_schema_is(keyword: str, place: Any) -> None:
    assert keyword in refused(place({keyword: "#"}))


def test_a_member_may_be_called_like_a_refused_keyword() -> None:
    assert gate(schema(properties={"$id": {"const": {"$id": "x"}}, "pattern": {"enum": [{"$ref": "x"}]}}))


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1/x",
        "//127.0.0.1/x",
        "file:///etc/hosts",
        "other.json#/a",
        "#anchor",
        "",
        "?#/a",
        "#/%ff",
        None,
        7,
        ["#"],
    ],
)
def test_references_to_anything_but_the_document_are_refused(reference: Any) -> None:
    assert "$ref must be" in refused(value_schema(**{"$ref": reference}))


@pytest.mark.parametrize(
    "reference",
    ["#/nothing", "#/$defs", "#/$defs/a/type", "#/list/00", "#/list/2", "#/list/-", "#/list/\u00b2"],
)
def test_references_must_lead_to_a_schema(reference: str) -> None:
    candidate: dict[str, Any] = schema(
        **{
            "$defs": {"a": {"type": "string"}},
            "list": [True, False],
            "properties": {"v": {"$ref": reference}},
        }
    )
    if reference == "#/$defs":
        assert gate(candidate), "any object is a schema; unknown keywords mean nothing"
    else:
        assert "points at nothing" in refused(candidate) or "subschema" in refused(candidate)


@pytest.mark.parametrize(
    ("reference", "name"),
    [("a%20b", "a b"), ("a~1b", "a/b"), ("a~0b", "a~b"), ("a~01b", "a~1b"), ("a%2525", "a%25"), ("", "")],
)
def test_references_are_unescaped_as_rfc_6901_says(reference: str, name: str) -> None:
    target = {"pattern": "x"}
    cost = gate(schema(**{"$defs": {name: target}, "properties": {"v": {"$ref": f"#/$defs/{reference}"}}}))
    assert cost.pattern_uses == 1


@pytest.mark.parametrize(
    "candidate",
    [
        schema(**{"$ref": "#"}),
        value_schema(**{"$ref": "#"}),
        schema(**{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        schema(
            **{
                "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}},
                "anyOf": [{"$ref": "#/$defs/a"}],
            }
        ),
        schema(**{"$defs": {"a": {"properties": {"x": {"$ref": "#"}}}}, "$ref": "#/$defs/a"}),
    ],
)
def test_recursion_is_refused(candidate: Any) -> None:
    assert "back to itself" in refused(candidate)


def test_sharing_without_recursion_is_not_mistaken_for_it() -> None:
    diamond = {
        "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/b"}]},
            "b": {"items": {"$ref": "#/$defs/c"}},
            "c": {"type": "string"},
        },
        "allOf": [{"$ref": "#/$defs/c"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    }
    assert gate(schema(**diamond))


def test_one_python_object_in_many_places_is_counted_in_each() -> None:
    shared = {"pattern": "x"}
    assert gate(schema(allOf=[shared] * 5)).pattern_uses == 5


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_evaluations_that_double_are_counted(keyword: str) -> None:
    few, more = gate(chain(5, keyword)), gate(chain(6, keyword))
    assert 1.8 * few.paths < more.paths < 2.2 * few.paths
    assert str(MAX_PATHS) in refused(chain(28, keyword))


@pytest.mark.parametrize("reader", ["unevaluatedProperties", "unevaluatedItems"])
def test_nested_readers_of_annotations_are_counted_as_doubling(reader: str) -> None:
    single = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}], reader: False} for level in range(26)
    }
    candidate = schema(**{"$defs": {**single, "d26": {"type": "string"}}, "$ref": "#/$defs/d0"})
    assert str(MAX_PATHS) in refused(candidate)


def test_lists_to_compare_with_cost_something() -> None:
    assert gate(schema(enum=list(range(4000)))).paths > gate(schema(enum=[1])).paths + 400
    assert gate(schema(required=[f"m{n}" for n in range(800)])).paths > 100
    assert gate(schema(allOf=[True] * 500)).paths > 500


def test_patterns_are_limited_in_number_and_length() -> None:
    assert gate(schema(allOf=[{"pattern": "x" * n} for n in range(MAX_PATTERNS)]))
    assert "64 patterns" in refused(schema(allOf=[{"pattern": "x" * n} for n in range(MAX_PATTERNS + 1)]))
    assert "64 patterns" in refused(
        schema(patternProperties={"x" * n: True for n in range(MAX_PATTERNS + 1)})
    )
    assert gate(value_schema(pattern="x" * MAX_PATTERN_LENGTH))
    assert "512 characters" in refused(value_schema(pattern="x" * (MAX_PATTERN_LENGTH + 1)))
    assert "512 characters" in refused(schema(patternProperties={"x" * (MAX_PATTERN_LENGTH + 1): True}))


@pytest.mark.parametrize(
    "keywords",
    [
        {"properties": []},
        {"properties": {"a": 1}},
        {"items": [True]},
        {"allOf": {}},
        {"anyOf": [None]},
        {"not": "x"},
        {"$defs": [1]},
        {"$defs": {"a": "x"}},
        {"pattern": 1},
        {"patternProperties": "x"},
    ],
)
def test_what_should_be_a_schema_and_is_not_is_refused(keywords: dict[str, Any]) -> None:
    refused(schema(**keywords))


_names = st.sampled_from(
    [
        "$ref",
        "$defs",
        "$id",
        "type",
        "properties",
        "items",
        "allOf",
        "not",
        "pattern",
        "enum",
        "a",
        "unevaluatedItems",
    ]
)
_leaves = st.none() | st.integers() | st.floats() | st.text() | st.sampled_from(["#", "#/$defs/a", "object"])
_garbage = st.recursive(
    _leaves, lambda children: st.lists(children, max_size=4) | st.dictionaries(_names, children, max_size=4)
)


@settings(deadline=None)
@given(st.dictionaries(_names, _garbage, max_size=5))
def test_anything_is_either_priced_or_refused(candidate: dict[str, Any]) -> None:
    try:
        cost = gate({**candidate, "type": "object"})
    except SchemaRefused as refusal:
        text = str(refusal)
        assert 0 < len(text) < 200
    else:
        assert 0 < cost.paths <= MAX_PATHS


def undecided(cost: Cost, payload: Any) -> str:
    with pytest.raises(PayloadUndecided) as refusal:
        bound(cost, payload)
    text = str(refusal.value)
    assert 0 < len(text) < 200
    return text


def test_work_is_paths_times_nodes() -> None:
    nodes = 1000
    payload = [0] * (nodes - 1)
    assert bound(Cost(MAX_WORK // nodes, 0), payload)
    assert "too large" in undecided(Cost(MAX_WORK // nodes + 1, 0), payload)


def test_long_text_is_work_too() -> None:
    assert bound(Cost(1000, 0), "x" * 100_000)
    assert "too large" in undecided(Cost(6000, 0), "x" * 100_000)


def test_the_more_text_meets_patterns_the_smaller_they_must_be() -> None:
    payload = ["x" * 1000]
    assert bound(Cost(1, 0), payload) == 64 << 10
    assert bound(Cost(1, 4), payload) == 64 << 10
    assert bound(Cost(1, 5), payload) == 8 << 10
    assert bound(Cost(1, 49), payload) == 8 << 10
    assert "patterns" in undecided(Cost(1, 50), payload)


def test_member_names_are_text_as_well() -> None:
    assert "patterns" in undecided(Cost(1, 1), {"k" * (48 << 10): "x"})


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        ({"a": 2**53}, "integer"),
        ({"a": float("nan")}, "finite"),
        ({"a": float("inf")}, "finite"),
        ({"a": "\ud83d"}, "surrogate"),
        ({"\ude00": 1}, "surrogate"),
        ({"a": [0] * 65_536}, "values"),
        ({"a": "x" * (1 << 20)}, "bytes of text"),
        (json.loads("[" * 33 + "]" * 33), "deeper than 32"),
    ],
)
def test_payloads_beyond_the_limits_are_undecided(payload: Any, rule: str) -> None:
    assert rule in undecided(Cost(1, 0), payload)
