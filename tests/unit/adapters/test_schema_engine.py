import io
import json
import socket
from typing import Any

import pytest

from interlock.adapters import schema_engine
from interlock.adapters.schema_engine import MAX_MESSAGE_LENGTH, MAX_PATH_LENGTH, MAX_VIOLATIONS, answers
from interlock.oversight.schema_gate import MAX_REGEX_SIZE


def answer(schema: Any, payload: Any, regex_size: int = MAX_REGEX_SIZE) -> dict[str, Any]:
    *_, final = answers({"schema": schema, "payload": payload, "regex_size": regex_size})
    assert final.pop("final")
    return final


def violations(schema: Any, payload: Any) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = answer(schema, payload)["violations"]
    return found


def refusal(schema: Any, regex_size: int = MAX_REGEX_SIZE) -> str:
    [only] = answers({"schema": schema, "regex_size": regex_size})
    text: str = only["refused"]
    assert len(text) < 1000
    return text


def test_the_worked_example_lists_both_violations() -> None:
    schema = {
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 1024}},
        "required": ["approved"],
        "additionalProperties": False,
    }
    assert violations(schema, {"approved": "yes please", "extra_unknown_field": 42}) == [
        ("/approved", "type", 'must be of type "boolean"'),
        ("/extra_unknown_field", "additionalProperties", "is not an expected member"),
    ]
    assert violations(schema, {"approved": True, "comment": "x" * 1024}) == []


@pytest.mark.parametrize(
    ("schema", "payload", "expected"),
    [
        ({"required": ["a", "b"]}, {}, [("", "required", '"a"'), ("", "required", '"b"')]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, [("", "dependentRequired", '"b"')]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, [("", "required", '"b"')]),
        ({"enum": ["a", 1]}, 2, [("", "enum", 'one of "a", 1')]),
        ({"const": {"a": 1}}, 2, [("", "const", '{"a": 1}')]),
        ({"minimum": 3, "multipleOf": 0.5}, 2.2, [("", "minimum", "3"), ("", "multipleOf", "0.5")]),
        ({"maximum": 1, "exclusiveMaximum": 0}, 2, [("", "exclusiveMaximum", "0"), ("", "maximum", "1")]),
        ({"exclusiveMinimum": 2}, 2, [("", "exclusiveMinimum", "greater than 2")]),
        ({"minLength": 3}, "ab", [("", "minLength", "at least 3 characters")]),
        ({"maxLength": 1, "pattern": "^x"}, "ab", [("", "maxLength", "1"), ("", "pattern", '"^x"')]),
        ({"minItems": 2}, [1], [("", "minItems", "at least 2 items")]),
        ({"maxItems": 1, "uniqueItems": True}, [1, 1], [("", "maxItems", "1"), ("", "uniqueItems", "equal")]),
        ({"minProperties": 1}, {}, [("", "minProperties", "at least 1")]),
        ({"maxProperties": 1}, {"a": 1, "b": 1}, [("", "maxProperties", "at most 1")]),
        ({"type": ["string", "null"]}, 1, [("", "type", '"null", "string"')]),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, 1, [("", "anyOf", "none of")]),
        ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 1, [("", "oneOf", "more than one")]),
        ({"not": {"type": "string"}}, "a", [("", "not", "excluded")]),
        ({"contains": {"type": "string"}}, [1], [("", "contains", "matching items")]),
        ({"contains": True, "minContains": 2}, [1], [("", "minContains", "matching items")]),
        ({"contains": True, "maxContains": 1}, [1, 2], [("", "maxContains", "matching items")]),
        (
            {"if": {"type": "string"}, "then": {"minLength": 9}, "else": {"minimum": 9}},
            1,
            [("", "minimum", "9")],
        ),
        ({"items": {"type": "string"}}, [1, "a", 2], [("/0", "type", ""), ("/2", "type", "")]),
        (
            {"prefixItems": [True, {"const": 1}], "items": False},
            [0, 0, 0],
            [("/1", "const", ""), ("/2", "items", "")],
        ),
        ({"prefixItems": [True], "unevaluatedItems": False}, [0, 0], [("", "unevaluatedItems", "")]),
        ({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1, "b": 1}, [("/ab", "type", "")]),
        ({"properties": {"items": False}}, {"items": 1}, [("/items", "properties", "not allowed")]),
        (
            {"additionalProperties": False},
            {"a": 1, "b": 1},
            [("/a", "additionalProperties", ""), ("/b", "additionalProperties", "")],
        ),
        (
            {"properties": {"o": {"additionalProperties": False}}},
            {"o": {"x": 1}},
            [("/o/x", "additionalProperties", "")],
        ),
        (
            {"additionalProperties": False, "patternProperties": {"^a": True}},
            {"a": 1, "b": 1, "c": 1},
            [("/b", "additionalProperties", ""), ("/c", "additionalProperties", "")],
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, [("/a", "type", "string")]),
        ({"unevaluatedProperties": False}, {"a": 1}, [("/a", "unevaluatedProperties", "")]),
        ({"propertyNames": {"maxLength": 1, "pattern": "^x"}}, {"ab": 1}, [("/ab", "propertyNames", "name")]),
        ({"propertyNames": False}, {"ab": 1}, [("/ab", "propertyNames", "")]),
        (
            {"properties": {"a/b": {"properties": {"c~d": {"type": "string"}}}}},
            {"a/b": {"c~d": 1}},
            [("/a~1b/c~0d", "type", "")],
        ),
        (
            {"$defs": {"s": {"type": "string"}}, "properties": {"v": {"$ref": "#/$defs/s"}}},
            {"v": 1},
            [("/v", "type", "")],
        ),
        (
            {"allOf": [{"minimum": 2}, {"minimum": 3}, {"minimum": 2}]},
            1,
            [("", "minimum", "2"), ("", "minimum", "3")],
        ),
    ],
)
def test_every_violation_has_its_pointer_and_keyword(
    schema: Any, payload: Any, expected: list[tuple[str, str, str]]
) -> None:
    found = sorted(violations(schema, payload))
    assert [(path, keyword) for path, keyword, _ in found] == [
        (path, keyword) for path, keyword, _ in expected
    ]
    for (_, _, message), (_, _, part) in zip(found, expected, strict=True):
        assert part in message


def test_violations_are_bounded_in_number_and_length() -> None:
    assert len(violations({"items": {"type": "string"}}, [0] * 1000)) == MAX_VIOLATIONS
    assert (
        len(violations({"additionalProperties": False}, {f"m{n}": 0 for n in range(1000)})) == MAX_VIOLATIONS
    )
    options = [f"option {n}" for n in range(1000)]
    [(_, _, message)] = violations({"enum": options}, 1)
    assert len(message) == MAX_MESSAGE_LENGTH
    [(path, _, _)] = violations({"additionalProperties": False}, {"m" * 5000: 1})
    assert len(path) == MAX_PATH_LENGTH


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "boolean"},
        {"enum": ["a"]},
        {"const": "a"},
        {"pattern": "^[0-9]+$"},
        {"maxLength": 1},
        {"not": {"type": "string"}},
        {"anyOf": [{"type": "integer"}, {"minLength": 100}]},
        {"oneOf": [{"type": "string"}, {"minLength": 1}]},
        {"allOf": [False]},
    ],
)
def test_messages_do_not_hold_the_payload(schema: Any) -> None:
    [(_, _, message)] = violations({"properties": {"v": schema}}, {"v": "hunter2 is the password"})
    assert "hunter2" not in message


def test_a_verdict_is_given_before_its_explanation() -> None:
    request = {"schema": {"items": {"type": "string"}}, "payload": [1, 2], "regex_size": MAX_REGEX_SIZE}
    given = list(answers(request))
    assert [len(one["violations"]) for one in given] == [1, 1, 2]
    assert [one["final"] for one in given] == [False, False, True]
    assert given[0]["violations"] == [("", "", "does not match the schema")]
    assert given[1]["violations"][0][0] == "/0"


def test_compiling_alone_judges_nothing() -> None:
    assert list(answers({"schema": {"type": "object"}, "regex_size": MAX_REGEX_SIZE})) == [
        {"final": True, "violations": []}
    ]


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"properties": {"v": {"multipleOf": 0}}}, "/properties/v/multipleOf"),
        ({"maxLength": "3"}, "/maxLength"),
        ({"required": "a"}, "/required"),
        ({"type": "strnig"}, "/type"),
        ({"allOf": []}, "/allOf"),
        ({"$defs": {"unused": {"minItems": -1}}}, "/$defs/unused/minItems"),
        ({"$ref": "#/nothing"}, "$ref"),
        ({"properties": {"v": {"pattern": "("}}}, "pattern at /properties/v/pattern"),
        ({"patternProperties": {"[": True}}, "pattern at /patternProperties"),
    ],
)
def test_what_is_not_draft_2020_12_is_refused_with_the_place(schema: Any, where: str) -> None:
    assert where in refusal(schema)


@pytest.mark.parametrize(
    "pattern", ["(?=a)a", "(?<!a)b", "(a+)\\1", "(?!x)", "((a{1,1000}){1,1000}){1,1000}"]
)
def test_patterns_that_are_not_linear_or_too_large_are_refused(pattern: str) -> None:
    assert "not a linear regular expression, or is too large" in refusal({"pattern": pattern})


@pytest.mark.parametrize(
    "pattern",
    [
        "^[\\w .,-]*$",
        "^\\d{4}-\\d{2}-\\d{2}$",
        "^[a-z0-9._%+-]+@[a-z0-9.-]+\\.[a-z]{2,}$",
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "^\\S+$",
    ],
)
def test_everyday_patterns_fit_the_tier_for_long_texts(pattern: str) -> None:
    assert [*answers({"schema": {"pattern": pattern}, "regex_size": 8 << 10})] == [
        {"final": True, "violations": []}
    ]


def test_catastrophic_patterns_are_matched_in_linear_time() -> None:
    assert len(violations({"pattern": "^(a+)+$"}, "a" * 4000 + "!")) == 1
    assert violations({"pattern": "^(a|a)*$"}, "a" * 4000) == []


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"format": "date-time"}, "x"),
        ({"format": "regex"}, "("),
        ({"contentMediaType": "application/json", "contentEncoding": "base64"}, "{"),
        ({"additionalItems": False, "prefixItems": [True]}, [1, 2]),
        ({"extends": False, "disallow": "any", "divisibleBy": 0, "$recursiveRef": "#"}, 1),
        ({"default": {"$ref": "http://127.0.0.1:9/"}, "examples": [{"$id": "x"}], "title": "x"}, 1),
    ],
)
def test_what_the_gate_does_not_follow_the_engine_does_not_assert(schema: Any, payload: Any) -> None:
    assert violations(schema, payload) == []


@pytest.mark.parametrize(
    ("reference", "name"),
    [("a%20b", "a b"), ("a~1b", "a/b"), ("a~0b", "a~b"), ("a~01b", "a~1b"), ("a%2525", "a%25"), ("", "")],
)
def test_references_are_unescaped_as_by_the_gate(reference: str, name: str) -> None:
    schema = {"$defs": {name: {"type": "string"}}, "$ref": f"#/$defs/{reference}"}
    assert violations(schema, "x") == []
    assert len(violations(schema, 1)) == 1


@pytest.mark.parametrize(
    "keywords",
    [
        lambda url: {"$ref": url},
        lambda url: {"$schema": url},
        lambda url: {"$dynamicRef": url},
        lambda url: {"$id": url, "$ref": "other.json"},
        lambda url: {"contentMediaType": "application/json", "contentSchema": {"$ref": url}},
    ],
)
def test_nothing_is_fetched_even_without_the_gate(keywords: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        list(answers({"schema": keywords(url), "payload": "{}", "regex_size": MAX_REGEX_SIZE}))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_requests_are_served_line_by_line_until_the_other_side_is_gone() -> None:
    requests = [
        {"schema": {"type": "object"}, "regex_size": MAX_REGEX_SIZE},
        {"schema": {"type": "nonsense"}, "regex_size": MAX_REGEX_SIZE},
        {"schema": {"type": "object"}, "payload": {"é": "\u2028"}, "regex_size": MAX_REGEX_SIZE},
    ]
    replies = io.BytesIO()
    schema_engine.serve(
        io.BytesIO(
            b"".join(json.dumps(request, ensure_ascii=False).encode() + b"\n" for request in requests)
        ),
        replies,
    )
    lines = [json.loads(line) for line in replies.getvalue().splitlines()]
    assert ["refused" in line for line in lines] == [False, True, False]
    assert all(line["final"] for line in lines)
