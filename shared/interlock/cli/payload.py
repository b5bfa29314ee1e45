"""What options say of JSON: `--set name=value` as a response schema asks for it, and whole objects."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from interlock.cli.output import Exit, Failure

MAX_REFERENCES = 8
_TRUE_FALSE = {"true": True, "false": False}


def payload_of(settings: Sequence[str], schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Raises `ValueError` with what is wrong. Whether it fits the schema is for the server to say."""
    payload: dict[str, JsonValue] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not name or not equals:
            raise ValueError(f"{setting} is not name=value")
        if name in payload:
            raise ValueError(f"{name} is set twice")
        payload[name] = _value(name, text, property_types(schema, name))
    return payload


def object_of(text: str, option: str) -> dict[str, JsonValue]:
    """Raises `Failure`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Failure(f"{option} is not a JSON object.", Exit.USAGE)
    return found


def property_types(schema: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The types that the schema names for a property of the payload, if any."""
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, Mapping) else None
    for _ in range(MAX_REFERENCES):
        if not isinstance(found, Mapping):
            return ()
        if "type" in found:
            types = found["type"]
            return tuple(types) if isinstance(types, list) else (str(types),)
        found = _resolve(schema, found.get("$ref"))
    return ()


def fields(schema: Mapping[str, Any]) -> list[str]:
    """What a payload may hold, for a person: `approved*: boolean`, where the star says required."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return []
    needed = required if isinstance(required, list) else []
    return [
        f"{name}{'*' if name in needed else ''}: {' | '.join(property_types(schema, name)) or 'any'}"
        for name in properties
    ]


def _resolve(schema: Mapping[str, Any], reference: object) -> object:
    """The part of the document that a local reference points to (RFC 6901)."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: object = schema
    for step in reference[2:].split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _value(name: str, text: str, types: tuple[str, ...]) -> JsonValue:
    if types == ("string",):
        return text
    if types == ("boolean",):
        if text.lower() not in _TRUE_FALSE:
            raise ValueError(f"{name} is true or false")
        return _TRUE_FALSE[text.lower()]
    parsed = _json(text)
    if types in (("number",), ("integer",)):
        if isinstance(parsed, bool) or not isinstance(parsed, int | float):
            raise ValueError(f"{name} is a number")
        return parsed
    # Several types or none: what reads as JSON is that, unless only a text is possible.
    if parsed is None and text != "null":
        return text
    if "string" in types and not _fits(parsed, types):
        return text
    return parsed


def _json(text: str) -> JsonValue:
    """None also where the text is no JSON."""
    try:
        parsed: JsonValue = json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    return parsed


def _fits(value: JsonValue, types: tuple[str, ...]) -> bool:
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, int):
        return not {"integer", "number"}.isdisjoint(types)
    if isinstance(value, float):
        return "number" in types
    return (
        "array" if isinstance(value, list) else "object" if isinstance(value, dict) else "string"
    ) in types
