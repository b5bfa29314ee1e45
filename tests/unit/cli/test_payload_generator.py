"""Payloads that are made from a response schema."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from interlock.conformance.payloads import NotGenerated, invalid_payloads, valid_payload


def schema_of(part: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"it": part},
        "required": ["it"],
        "additionalProperties": False,
        **more,
    }


GENERATED = [
    {"type": "boolean"},
    {"type": "null"},
    {"type": "string"},
    {"type": "string", "minLength": 40},
    {"type": "string", "maxLength": 3},
    {"type": "integer"},
    {"type": "integer", "minimum": 7},
    {"type": "integer", "maximum": -7},
    {"type": "integer", "exclusiveMinimum": 7},
    {"type": "number", "exclusiveMaximum": 0.5},
    {"type": "number", "minimum": 0.25, "maximum": 0.75},
    {"type": "array"},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}]},
    {"items": {"type": "integer"}},
    {"type": "object", "properties": {"deep": {"type": "string"}}, "required": ["deep"]},
    {"properties": {"deep": {"type": "string"}}},
    {"type": "object", "required": ["free"]},
    {"type": ["integer", "null"]},
    {"enum": [3, "three"]},
    {"const": {"a": [1]}},
    {"oneOf": [{"type": "boolean"}, {"type": "string"}]},
    {"anyOf": [{"const": 1}, {"const": 2}]},
    {"anyOf": [True]},
    {"type": "string", "anyOf": [{"minLength": 20}, {"maxLength": 1}]},
    {"$ref": "#/$defs/a~1b"},
    {"$ref": "#/$defs/again", "minimum": 5},
    True,
    {},
]
DEFINITIONS = {"a/b": {"type": "boolean"}, "again": {"$ref": "#/$defs/number"}, "number": {"type": "integer"}}


@pytest.mark.parametrize("part", GENERATED, ids=str)
def test_a_payload_fits_its_schema(part: Any) -> None:
    schema = schema_of(part, **{"$defs": DEFINITIONS})
    payload = valid_payload(schema)
    assert list(payload) == ["it"]
    Draft202012Validator(schema).validate(payload)


@pytest.mark.parametrize(
    "part",
    [
        False,
        {"type": "string", "pattern": "^a$"},
        {"type": "string", "format": "date"},
        {"type": "integer", "multipleOf": 3},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "minItems": 10**9},
        {"type": "array", "minItems": 2, "uniqueItems": True},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "#/$defs/loop"},
        {"$ref": "https://example.com/"},
        {"$ref": "#/properties/it/properties/it", "properties": {"it": {"$ref": "#/properties/it"}}},
    ],
    ids=str,
)
def test_what_is_beyond_the_generator_is_said(part: Any) -> None:
    schema = schema_of(part, **{"$defs": {"loop": {"$ref": "#/$defs/loop"}}})
    with pytest.raises(NotGenerated):
        valid_payload(schema)


def test_a_schema_without_end_is_given_up() -> None:
    schema = schema_of({"$ref": "#"})
    with pytest.raises(NotGenerated):
        valid_payload(schema)


def test_only_what_is_required_is_filled_in() -> None:
    assert valid_payload({"type": "object", "properties": {"comment": {"type": "string"}}}) == {}


def test_invalid_payloads_break_one_thing_each_and_the_first_many() -> None:
    schema = {
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "comment": {"type": "string", "minLength": 2, "maxLength": 4},
            "level": {"$ref": "#/$defs/level"},
            "mood": {"enum": ["good", "bad"]},
            "note": {"type": ["string", "null"]},
        },
        "$defs": {"level": {"type": "integer", "minimum": 1, "maximum": 3}},
        "required": ["approved", "level"],
        "additionalProperties": False,
    }
    validator = Draft202012Validator(schema)
    found = {
        what: sorted(str(error.validator) for error in validator.iter_errors(payload))
        for what, payload in invalid_payloads(schema, {"approved": True, "level": 1})
    }
    assert found == {
        "several at once": ["additionalProperties", "enum", "type", "type", "type", "type"],
        "wrong type of approved": ["type"],
        "wrong type of comment": ["type"],
        "maxLength of comment": ["maxLength"],
        "minLength of comment": ["minLength"],
        "wrong type of level": ["type"],
        "maximum of level": ["maximum"],
        "minimum of level": ["minimum"],
        "wrong type of mood": ["enum"],
        "enum of mood": ["enum"],
        "wrong type of note": ["type"],
        "no approved": ["required"],
        "no level": ["required"],
        "an extra member": ["additionalProperties"],
    }
