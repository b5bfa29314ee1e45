"""The schema worker's own process: compiles and validates with jsonschema-rs, a line of JSON at a time.

It is started by `schema_worker` and imports little, because its start is waited for. Everything it is given
has passed the static gate. What it could still be made to do is bounded once more: memory, CPU time, and no
file descriptor beyond its socket, so neither files nor network.

A request is `{"schema", "regex_size"}` to compile, and also has `payload` to validate. The answers to one
request come as lines, each better than the one before, until one is `final`: a verdict never waits for its
explanation.
"""

import json
import resource
import signal
import sys
from collections.abc import Iterator
from functools import reduce
from itertools import chain, islice
from operator import getitem
from typing import Any, BinaryIO

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

MEMORY_BYTES = 256 << 20
"""Of address space; the process starts with about 32 MiB."""
CPU_SECONDS = 1.0
"""For one request. The deadline of whoever waits is shorter; this ends a request nobody waits for."""
MAX_VIOLATIONS = 100
MAX_PATH_LENGTH = 256
MAX_MESSAGE_LENGTH = 200
_DFA_BYTES = 1 << 20

Row = tuple[str, str, str]
"""Path, keyword and message of a violation."""

_SOMEWHERE: Row = ("", "", "does not match the schema")

# Applicators whose next step in a path is a name or an index, not a keyword.
_NAMING = frozenset(
    ["allOf", "anyOf", "dependentSchemas", "oneOf", "patternProperties", "prefixItems", "properties"]
)

# The expectation comes from the schema. What the payload holds is never in a message.
_EXPECTATIONS: dict[str, tuple[str, str | None]] = {
    "anyOf": ("matches none of the alternatives", None),
    "const": ("must be {}", "expected_value"),
    "contains": ("does not contain the required number of matching items", None),
    "enum": ("must be one of {}", "options"),
    "exclusiveMaximum": ("must be less than {}", "limit"),
    "exclusiveMinimum": ("must be greater than {}", "limit"),
    "falseSchema": ("is not allowed", None),
    "maxItems": ("must have at most {} items", "limit"),
    "maxLength": ("must have at most {} characters", "limit"),
    "maxProperties": ("must have at most {} members", "limit"),
    "maximum": ("must be at most {}", "limit"),
    "minItems": ("must have at least {} items", "limit"),
    "minLength": ("must have at least {} characters", "limit"),
    "minProperties": ("must have at least {} members", "limit"),
    "minimum": ("must be at least {}", "limit"),
    "multipleOf": ("must be a multiple of {}", "multiple_of"),
    "oneOf": ("matches none of the alternatives, or more than one", None),
    "not": ("matches what is excluded", None),
    "pattern": ("must match the pattern {}", "pattern"),
    "required": ("the member {} is required", "property"),
    "type": ("must be of type {}", "types"),
    "unevaluatedItems": ("has items that are not expected", None),
    "uniqueItems": ("must not have equal items", None),
}


def answers(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`{"refused"}` for what does not compile, else `{"violations"}` (none when only compiled)."""
    try:
        validator = compile_schema(request["schema"], request["regex_size"])
    except ValidationError as error:
        yield {"final": True, "refused": refusal(error)}
        return
    if "payload" not in request or validator.is_valid(request["payload"]):
        yield {"final": True, "violations": []}
        return
    for explain in (_somewhere, first_violation, all_violations):
        yield {
            "final": explain is all_violations,
            "violations": explain(validator, request["payload"]),
        }


def compile_schema(schema: Any, regex_size: int) -> Draft202012Validator:
    """Patterns compile to at most `regex_size` bytes, in linear time. Raises `ValidationError`."""
    return Draft202012Validator(
        schema,
        validate_formats=False,
        offline=True,
        # Errors in branches carry their texts: keep the payload out of them.
        mask="",
        pattern_options=RegexOptions(size_limit=regex_size, dfa_size_limit=_DFA_BYTES),
    )


def refusal(error: ValidationError) -> str:
    where = pointer(error.instance_path) or "its root"
    if error.kind.name == "format":
        return f"the pattern at {where} is not a linear regular expression, or is too large"
    return f"the schema is not valid draft 2020-12 at {where} ({keyword(error.schema_path) or '$ref'})"


def _somewhere(_validator: Draft202012Validator, _payload: Any) -> list[Row]:
    return [_SOMEWHERE]


def first_violation(validator: Draft202012Validator, payload: Any) -> list[Row]:
    try:
        validator.validate(payload)
    except ValidationError as error:
        return list(islice(rows(error, payload), MAX_VIOLATIONS))
    return [_SOMEWHERE]


def all_violations(validator: Draft202012Validator, payload: Any) -> list[Row]:
    """The engine builds every error before it hands out the first, so this may take long or not end."""
    found = chain.from_iterable(rows(error, payload) for error in validator.iter_errors(payload))
    return list(islice(dict.fromkeys(found), MAX_VIOLATIONS)) or [_SOMEWHERE]


def rows(error: ValidationError, payload: Any) -> Iterator[Row]:
    """A violation per unexpected member, otherwise one."""
    path, kind = error.instance_path, error.kind
    name, last = kind.name, keyword(error.evaluation_path)
    if name in ("additionalProperties", "unevaluatedProperties"):
        for member in kind.as_dict()["unexpected"]:
            yield pointer([*path, member]), name, "is not an expected member"
    elif name == "propertyNames":
        yield pointer([*path, kind.as_dict()["error"].instance]), name, "is not an allowed member name"
    elif name == "falseSchema" and last in ("additionalProperties", "propertyNames"):
        # The engine's shortcut where no member at all is allowed: one error, and no names in it.
        for member in reduce(getitem, path, payload):
            yield pointer([*path, member]), last, "is not an expected member"
    else:
        text, detail = _EXPECTATIONS.get(name, ("does not match the schema", None))
        if detail is not None:
            text = text.format(_schema_side(kind.as_dict()[detail]))
        yield pointer(path), last, _clip(text, MAX_MESSAGE_LENGTH)


def keyword(path: list[str | int]) -> str:
    """The last keyword on the way through a schema, which may end in a name or an index."""
    last, named = "", False
    for step in path:
        if named:
            named = False
        else:
            last, named = str(step), step in _NAMING
    return last


def pointer(path: list[str | int]) -> str:
    """RFC 6901, cut where it is long: member names come from the payload."""
    whole = "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)
    return _clip(whole, MAX_PATH_LENGTH)


def _schema_side(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(json.dumps(item, ensure_ascii=False) for item in value[:MAX_MESSAGE_LENGTH])
    return json.dumps(value, ensure_ascii=False)


def _clip(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def confine() -> None:
    """Gives up what is not needed, for good: memory beyond the limit, core dumps, files, and sockets."""
    for limit, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (value, value))


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Until the other side is gone, which is also how this process ends with its parent."""
    for line in requests:
        # The signal's default action ends the process, even where the engine never lets Python run.
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        for answer in answers(json.loads(line)):
            send(answer, replies)
        signal.setitimer(signal.ITIMER_PROF, 0)


def send(answer: dict[str, Any], replies: BinaryIO) -> None:
    replies.write(json.dumps(answer).encode() + b"\n")
    replies.flush()


def main() -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    confine()
    send({"final": True}, sys.stdout.buffer)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
