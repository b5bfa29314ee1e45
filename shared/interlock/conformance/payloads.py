"""Payloads for a response schema: one that fits, and some that break it in known ways.

The generator knows the common keywords. What it makes is a guess until a validator has seen it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import JsonValue

from interlock.a2a.models import JsonObject

MAX_DEPTH = 8
MAX_ITEMS = 4
MAX_LENGTH = 10_000
"""A schema of somebody else may ask for more than there is memory for."""
TEXT = "conformance"
EXTRA_MEMBER = "extra_unknown_field"
_WRONG: Mapping[str, JsonValue] = {
    "string": 42,
    "boolean": "yes please",
    "integer": "many",
    "number": "many",
    "array": "none",
    "object": "none",
    "null": "none",
}


class NotGenerated(Exception):
    """The text says which part of the schema is beyond the generator."""


def valid_payload(schema: Mapping[str, Any]) -> JsonObject:
    """Raises `NotGenerated`."""
    payload = _value(schema, schema, 0)
    if not isinstance(payload, dict):
        raise NotGenerated("the schema is not that of an object")
    return payload


def invalid_payloads(schema: Mapping[str, Any], valid: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Candidates with what is wrong in each. The first breaks as much as it can at once."""
    properties = schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
    resolved = {name: _resolve(part, schema) for name, part in known.items() if isinstance(part, dict)}
    wrong = {name: _WRONG[_kind(part)] for name, part in resolved.items() if _kind(part) in _WRONG}
    yield "several at once", {**valid, **wrong, EXTRA_MEMBER: 42}
    for name, part in resolved.items():
        if name in wrong:
            yield f"wrong type of {name}", {**valid, name: wrong[name]}
        for keyword, value in _out_of_bounds(part):
            yield f"{keyword} of {name}", {**valid, name: value}
    for name in list(valid):
        yield f"no {name}", {member: value for member, value in valid.items() if member != name}
    yield "an extra member", {**valid, EXTRA_MEMBER: 42}


def _out_of_bounds(part: Mapping[str, Any]) -> Iterator[tuple[str, JsonValue]]:
    if "enum" in part or "const" in part:
        yield "enum" if "enum" in part else "const", "none of these"
    if isinstance(part.get("maxLength"), int) and part["maxLength"] < MAX_LENGTH:
        yield "maxLength", "x" * (part["maxLength"] + 1)
    if isinstance(part.get("minLength"), int) and part["minLength"] > 0:
        yield "minLength", ""
    if isinstance(part.get("maximum"), int | float):
        yield "maximum", part["maximum"] + 1
    if isinstance(part.get("minimum"), int | float):
        yield "minimum", part["minimum"] - 1


def _value(part: Any, root: Mapping[str, Any], depth: int) -> JsonValue:
    if depth > MAX_DEPTH:
        raise NotGenerated("the schema is nested too deeply")
    if part is True:
        return TEXT
    if not isinstance(part, dict):
        raise NotGenerated("a part of the schema allows nothing")
    part = _resolve(part, root)
    if "const" in part:
        return part["const"]  # type: ignore[no-any-return]
    if isinstance(part.get("enum"), list) and part["enum"]:
        return part["enum"][0]  # type: ignore[no-any-return]
    for keyword in ("oneOf", "anyOf"):
        if isinstance(part.get(keyword), list) and part[keyword]:
            first = part[keyword][0]
            rest = {name: value for name, value in part.items() if name != keyword}
            return _value({**rest, **first} if isinstance(first, dict) else rest, root, depth + 1)
    kind = _kind(part)
    if kind == "object":
        return _object(part, root, depth)
    if kind == "array":
        return _array(part, root, depth)
    if kind == "string":
        return _string(part)
    if kind in ("integer", "number"):
        return _number(part)
    return None if kind == "null" else True


def _kind(part: Mapping[str, Any]) -> str:
    """The first type that the part allows."""
    kind = part.get("type")
    if isinstance(kind, list) and kind:
        return str(kind[0])
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in part else "array" if "items" in part else "string"


def _object(part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> JsonObject:
    properties = part.get("properties", {})
    return {
        str(name): _value(properties.get(name, True), root, depth + 1) for name in part.get("required", [])
    }


def _array(part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> list[JsonValue]:
    count = int(part.get("minItems", 0))
    if count > MAX_ITEMS or (count > 1 and part.get("uniqueItems")):
        raise NotGenerated("a list of several items")
    return [_value(part.get("items", True), root, depth + 1) for _ in range(count)]


def _string(part: Mapping[str, Any]) -> str:
    shortest = int(part.get("minLength", 0))
    if "pattern" in part or "format" in part or shortest > MAX_LENGTH:
        raise NotGenerated("a text with a pattern or a format, or a very long one")
    text = TEXT.ljust(shortest, "x")
    return text[: int(part.get("maxLength", len(text)))]


def _number(part: Mapping[str, Any]) -> int | float:
    if "multipleOf" in part:
        raise NotGenerated("a multiple")
    for keyword, step in (("minimum", 0), ("exclusiveMinimum", 1), ("maximum", 0), ("exclusiveMaximum", -1)):
        if keyword in part:
            bound: int | float = part[keyword]
            return bound + step
    return 1


def _resolve(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follows local references (RFC 6901)."""
    for _ in range(MAX_DEPTH):
        reference = part.get("$ref")
        if reference is None:
            return part
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise NotGenerated("a reference out of the document")
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            raise NotGenerated("a reference to nothing")
        part = {**found, **{name: value for name, value in part.items() if name != "$ref"}}
    raise NotGenerated("references that lead to each other")
