"""The static gate for response schemas that come from other parties (hitl-prompt/v1, S-2).

A schema is read, not run: what is left of draft 2020-12 here can not recurse, names nothing outside the
document, and is evaluated at most `Cost.paths` times for each value of a payload. With a payload's size that
bounds the work before any library sees either of them.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from interlock.oversight.i_json import NotIJson, measure

DIALECT = "https://json-schema.org/draft/2020-12/schema"

MAX_SCHEMA_BYTES = 64 * 1024
"""Of the schema as compact JSON in UTF-8."""
MAX_DEPTH = 32
"""Nested arrays and objects, of schemas and of payloads."""
MAX_SCHEMA_NODES = 8192
MAX_PATTERNS = 64
MAX_PATTERN_LENGTH = 512
"""Characters."""
MAX_PATHS = 20_000

MAX_PAYLOAD_NODES = 65_536
MAX_PAYLOAD_TEXT = 1 << 20
"""Bytes of UTF-8, in strings and member names."""
MAX_WORK = 2_000_000
"""Evaluation paths times payload nodes."""
NODE_BYTES = 256
"""Comparing or counting this much text is about as much work as one more node."""

REGEX_TIERS = ((64 << 10, 4 << 10), (8 << 10, 48 << 10))
"""Pairs of the largest compiled pattern in bytes, and the most pattern uses times bytes of text that may meet
it: a larger automaton takes longer for each byte."""
MAX_REGEX_SIZE = REGEX_TIERS[0][0]

_ANNOTATION_READERS = frozenset(["unevaluatedItems", "unevaluatedProperties"])
_ONE = _ANNOTATION_READERS | frozenset(
    ["additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"]
)
_LIST = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
_MAP = frozenset(["dependentSchemas", "patternProperties", "properties"])
_DEFINITIONS = frozenset(["$defs", "definitions"])
_COMPARED = frozenset(["const", "dependentRequired", "enum", "required"])
_REFUSED = frozenset(
    [
        "$anchor",
        "$dynamicAnchor",
        "$dynamicRef",
        "$id",
        "$recursiveAnchor",
        "$recursiveRef",
        "$vocabulary",
        "contentSchema",
        # It left the standard with 2019-09, and validators differ on whether it still holds.
        "dependencies",
    ]
)
_INDEX = re.compile(r"0|[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing wrong with a payload: JSON Pointer into it, the schema keyword, a bounded text."""

    path: str
    keyword: str
    message: str


class SchemaRefused(Exception):
    """A response schema breaks a limit. The text says which, and is fit to be shown."""


class PayloadUndecided(Exception):
    """A payload could not be judged within the limits: it is refused. The text is fit to be shown."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one value: at most `paths` evaluations, of which `pattern_uses` match a regular expression."""

    paths: int
    pattern_uses: int


@dataclass(slots=True)
class _Subschema:
    """What one schema object costs by itself, and the schemas evaluated wherever it is."""

    weight: int
    patterns: list[str] = field(default_factory=list)
    applied: list[Any] = field(default_factory=list)
    defined: list[Any] = field(default_factory=list)
    rereads: int = 0


def gate(schema: Any) -> Cost:
    """What evaluating `schema` can cost. Raises `SchemaRefused` for anything beyond the limits."""
    try:
        measure(schema, max_depth=MAX_DEPTH, max_nodes=MAX_SCHEMA_NODES, max_text=MAX_SCHEMA_BYTES)
    except NotIJson as refused:
        raise SchemaRefused(f"the schema has {refused}") from None
    if type(schema) is not dict or schema.get("type") != "object":
        raise SchemaRefused('the schema must be an object with "type": "object"')
    if len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()) > MAX_SCHEMA_BYTES:
        raise SchemaRefused(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    if schema.get("$schema", DIALECT) not in (DIALECT, DIALECT + "#"):
        raise SchemaRefused("$schema must be absent or draft 2020-12")
    subschemas = _read_all(schema)
    patterns = [pattern for subschema in subschemas.values() for pattern in subschema.patterns]
    if len(patterns) > MAX_PATTERNS:
        raise SchemaRefused(f"the schema has more than {MAX_PATTERNS} patterns")
    if any(len(pattern) > MAX_PATTERN_LENGTH for pattern in patterns):
        raise SchemaRefused(f"the schema has a pattern of more than {MAX_PATTERN_LENGTH} characters")
    return _expand(schema, subschemas)


def bound(cost: Cost, payload: Any) -> int:
    """The largest compiled pattern, in bytes, with which judging `payload` stays within the limits.

    Raises `PayloadUndecided` where no size would do.
    """
    try:
        size = measure(payload, max_depth=MAX_DEPTH, max_nodes=MAX_PAYLOAD_NODES, max_text=MAX_PAYLOAD_TEXT)
    except NotIJson as refused:
        raise PayloadUndecided(f"the payload has {refused}") from None
    if cost.paths * (size.nodes + size.text // NODE_BYTES) > MAX_WORK:
        raise PayloadUndecided("the payload is too large to be judged by this schema")
    for regex_size, most in REGEX_TIERS:
        if cost.pattern_uses * size.text <= most:
            return regex_size
    raise PayloadUndecided("the payload has too much text to be matched with this schema's patterns")


def _read_all(root: dict[str, Any]) -> dict[int, _Subschema]:
    """Every schema object that can be reached, by its `id`: each is read once, however often it is used."""
    found: dict[int, _Subschema] = {}
    pending: list[Any] = [root]
    while pending:
        schema = pending.pop()
        if type(schema) is bool or id(schema) in found:
            continue
        if type(schema) is not dict:
            raise SchemaRefused("a subschema must be an object or a boolean")
        if schema is not root and "$schema" in schema:
            raise SchemaRefused("$schema is only allowed at the root")
        subschema = found[id(schema)] = _read(schema, root)
        pending += subschema.applied
        pending += subschema.defined
    return found


def _read(schema: dict[str, Any], root: dict[str, Any]) -> _Subschema:
    subschema = _Subschema(weight=1 + len(schema))
    for keyword, value in schema.items():
        if keyword in _REFUSED:
            raise SchemaRefused(f"the keyword {keyword} is not allowed")
        if keyword in _ONE:
            subschema.applied.append(value)
        elif keyword in _LIST:
            if type(value) is not list:
                raise SchemaRefused(f"{keyword} must be an array")
            subschema.applied += value
        elif keyword in _MAP or keyword in _DEFINITIONS:
            if type(value) is not dict:
                raise SchemaRefused(f"{keyword} must be an object")
            (subschema.applied if keyword in _MAP else subschema.defined).extend(value.values())
            if keyword == "patternProperties":
                subschema.patterns += value
        elif keyword == "$ref":
            subschema.applied.append(_resolve(value, root))
        elif keyword == "pattern":
            if type(value) is not str:
                raise SchemaRefused("pattern must be a string")
            subschema.patterns.append(value)
        elif keyword in _COMPARED:
            # A comparison mostly ends at its first difference, so its parts weigh less than evaluations.
            subschema.weight += sum(1 for _ in _values(value)) // 8
        subschema.rereads += keyword in _ANNOTATION_READERS
    return subschema


def _values(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        item = pending.pop()
        yield item
        if type(item) is dict:
            pending += item.values()
        elif type(item) is list:
            pending += item


def _resolve(reference: Any, root: dict[str, Any]) -> Any:
    """The target of a JSON Pointer in a URI fragment (RFC 6901, section 6)."""
    if type(reference) is not str or not (reference == "#" or reference.startswith("#/")):
        raise SchemaRefused("$ref must be a JSON Pointer into the same document")
    try:
        pointer = unquote(reference[1:], errors="strict")
    except UnicodeDecodeError:
        raise SchemaRefused("$ref must be a JSON Pointer into the same document") from None
    target: Any = root
    for escaped in pointer.split("/")[1:]:
        token = escaped.replace("~1", "/").replace("~0", "~")
        if type(target) is dict and token in target:
            target = target[token]
        elif type(target) is list and _INDEX.fullmatch(token) and int(token) < len(target):
            target = target[int(token)]
        else:
            raise SchemaRefused("a $ref points at nothing")
    return target


def _expand(root: dict[str, Any], subschemas: dict[int, _Subschema]) -> Cost:
    """Follows every path through applicators and references, each schema object once, leaves first."""
    costs: dict[int, Cost] = {}
    entered: set[int] = set()
    pending: list[dict[str, Any]] = [root]
    while pending:
        schema = pending[-1]
        this = id(schema)
        subschema = subschemas[this]
        applied = [child for child in subschema.applied if type(child) is dict]
        if this not in entered:
            entered.add(this)
            unknown = [child for child in applied if id(child) not in costs]
            if any(id(child) in entered for child in unknown):
                raise SchemaRefused("a $ref that leads back to itself")
            pending += unknown
            continue
        pending.pop()
        # Whoever reads annotations evaluates everything below once more, so nested readers multiply.
        factor = 2**subschema.rereads
        parts = [costs[id(child)] for child in applied]
        booleans = len(subschema.applied) - len(applied)
        cost = Cost(
            paths=factor * (subschema.weight + booleans + sum(part.paths for part in parts)),
            pattern_uses=factor * (len(subschema.patterns) + sum(part.pattern_uses for part in parts)),
        )
        if cost.paths > MAX_PATHS:
            raise SchemaRefused(f"the schema expands to more than {MAX_PATHS} evaluations")
        costs[this] = cost
    return costs[id(root)]
