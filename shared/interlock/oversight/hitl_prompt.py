"""The prompt and the response of hitl-prompt/v1 (extension specification 1.0.0), and who may respond.

An envelope is read leniently, as another agent may send it, and checked strictly before ours is emitted.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from interlock.oversight.canonical_json import digest
from interlock.oversight.schema_gate import SchemaRefused, gate

URI = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
"""Key of the envelope in `TaskStatus.message.metadata`."""
RESPONSE_KEY = "hitl_response_for"
"""Key of the response in `Message.metadata`."""

MAX_PROMPT_LENGTH = 4096
"""Characters."""
MAX_RESPONDERS = 100
MAX_RESPONDER_LENGTH = 256
"""Characters. Both limits are ours: the specification has none."""
MAX_QUORUM = 1_000_000
"""What a larger N of `consensus:N` is read as: no tenant has that many people."""

ANY = "any"

_ENVELOPE = frozenset(["prompt_id", "prompt", "response_schema", "deadline", "allowed_responders"])
_ENVELOPE_REQUIRED = frozenset(["prompt_id", "prompt", "response_schema"])
_RESPONSE = frozenset(["prompt_id", "payload"])
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
# White space is what either Python or ECMAScript takes for it, so that no validator disagrees.
# Half of a surrogate pair can not be written down.
_RESPONDER = re.compile(r"any|specific:(?P<id>[^\s\ufeff\ud800-\udfff]+)|consensus:(?P<n>[1-9][0-9]*)")
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:)(\d\d)(?:\.(\d+))?(?:[Zz]|([+-]([01]\d|2[0-3]):[0-5]\d))", re.ASCII
)


class PromptRefused(ValueError):
    """The envelope breaks a rule. The text says which, and is fit to be shown."""


class MalformedResponse(ValueError):
    """`hitl_response_for` is there and not what it must be. The text is fit to be shown."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """`deadline` is in UTC. `response_schema` is shared, not copied: nobody may change it."""

    prompt_id: str
    prompt: str
    response_schema: Mapping[str, Any]
    deadline: datetime | None = None
    allowed_responders: tuple[str, ...] = (ANY,)

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            "prompt_id": self.prompt_id,
            "prompt": self.prompt,
            "response_schema": self.response_schema,
            "allowed_responders": list(self.allowed_responders),
        }
        if self.deadline is not None:
            wire["deadline"] = self.deadline.isoformat().removesuffix("+00:00") + "Z"
        return wire

    @classmethod
    def from_wire(cls, wire: Any) -> "Envelope":
        """Raises `PromptRefused`.

        Whether the deadline lies ahead and the schema keeps its limits is not looked at, and responders may
        follow patterns that are not known yet.
        """
        if type(wire) is not dict or not wire.keys() >= _ENVELOPE_REQUIRED or not wire.keys() <= _ENVELOPE:
            raise PromptRefused(
                "a prompt is an object with prompt_id, prompt, response_schema, and optionally deadline and "
                "allowed_responders"
            )
        if not is_prompt_id(wire["prompt_id"]):
            raise PromptRefused("prompt_id must be a UUID of RFC 4122")
        schema = wire["response_schema"]
        if type(schema) is not dict or schema.get("type") != "object":
            raise PromptRefused('response_schema must be an object with "type": "object"')
        return cls(
            prompt_id=wire["prompt_id"],
            prompt=_checked_prompt(wire["prompt"]),
            response_schema=schema,
            deadline=parse_timestamp(wire["deadline"]) if "deadline" in wire else None,
            allowed_responders=_checked_responders(wire.get("allowed_responders", [ANY])),
        )

    @property
    def responders(self) -> "Responders":
        return Responders.parse(self.allowed_responders)

    @property
    def digest(self) -> str:
        """What somebody who was shown the prompt and its schema has seen."""
        return digest({"prompt": self.prompt, "responseSchema": self.response_schema})


def is_prompt_id(value: Any) -> bool:
    """A UUID of RFC 4122, versions 1 to 5, as the published schemas take it."""
    return type(value) is str and _UUID.fullmatch(value) is not None


def validate_emission(
    *,
    prompt: str,
    response_schema: dict[str, Any],
    deadline: datetime | None,
    allowed_responders: Sequence[str] | None,
    now: datetime,
) -> Envelope:
    """A prompt that may be emitted at `now`, with a new id. Raises `PromptRefused`.

    The arguments come from agents' code and are not trusted to have their types. Without
    `allowed_responders`, any may respond.
    """
    prompt = _checked_prompt(prompt)
    if any(unicodedata.category(character) == "Cs" for character in prompt):
        raise PromptRefused("prompt must not hold a lone surrogate")
    if all(character.isspace() or _is_hidden(character) for character in prompt):
        raise PromptRefused("prompt must not be blank")
    try:
        gate(response_schema)
    except SchemaRefused as refused:
        raise PromptRefused(f"response_schema: {refused}") from None
    if deadline is not None:
        deadline = _checked_deadline(deadline, now)
    responders = _checked_responders((ANY,) if allowed_responders is None else allowed_responders)
    if not all(_RESPONDER.fullmatch(entry) for entry in responders):
        raise PromptRefused("each of allowed_responders must be any, specific:<id> or consensus:<n>")
    # Version 4: unique for ever, and nobody's guess.
    return Envelope(str(uuid4()), prompt, response_schema, deadline, responders)


def parse_timestamp(value: Any) -> datetime:
    """RFC 3339, in UTC, to the microsecond. Raises `PromptRefused`."""
    match = _RFC_3339.fullmatch(value) if type(value) is str else None
    if match is None:
        raise PromptRefused("deadline must be a timestamp of RFC 3339")
    date, minute, second, fraction, offset, _ = match.groups()
    leap = second == "60"
    try:
        at = datetime.fromisoformat(
            f"{date}T{minute}{'59' if leap else second}.{(fraction or '0')[:6]:0<6}{offset or '+00:00'}"
        )
        return (at + timedelta(seconds=leap)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PromptRefused("deadline must be a timestamp of RFC 3339") from None


def _checked_prompt(prompt: Any) -> str:
    if type(prompt) is not str or not 0 < len(prompt) <= MAX_PROMPT_LENGTH:
        raise PromptRefused(f"prompt must be text of 1 to {MAX_PROMPT_LENGTH} characters")
    return prompt


def _checked_deadline(deadline: Any, now: datetime) -> datetime:
    if not isinstance(deadline, datetime) or deadline.utcoffset() is None:
        raise PromptRefused("deadline must be a time with an offset from UTC")
    if deadline <= now:
        raise PromptRefused("deadline must be in the future")
    try:
        return deadline.astimezone(UTC)
    except OverflowError:
        raise PromptRefused("deadline must be before the year 10000") from None


def _checked_responders(responders: Any) -> tuple[str, ...]:
    if (
        type(responders) not in (list, tuple)
        or not 0 < len(responders) <= MAX_RESPONDERS
        or not all(type(entry) is str and len(entry) <= MAX_RESPONDER_LENGTH for entry in responders)
    ):
        raise PromptRefused(
            f"allowed_responders must be 1 to {MAX_RESPONDERS} texts of at most {MAX_RESPONDER_LENGTH} "
            "characters"
        )
    return tuple(responders)


@dataclass(frozen=True, slots=True)
class Response:
    """`prompt_id` is in lower case: UUIDs are equal whatever their case (RFC 4122, section 3)."""

    prompt_id: str
    payload: dict[str, Any]


def parse_response(metadata: Mapping[str, Any] | None) -> Response | None:
    """The response that a message's metadata carries, if any. Raises `MalformedResponse`."""
    if metadata is None or RESPONSE_KEY not in metadata:
        return None
    response = metadata[RESPONSE_KEY]
    if type(response) is not dict or response.keys() != _RESPONSE:
        raise MalformedResponse(
            f"{RESPONSE_KEY} must be an object of prompt_id and payload, and nothing else"
        )
    if not is_prompt_id(response["prompt_id"]):
        raise MalformedResponse(f"{RESPONSE_KEY}.prompt_id must be a UUID of RFC 4122")
    if type(response["payload"]) is not dict:
        raise MalformedResponse(f"{RESPONSE_KEY}.payload must be an object")
    return Response(response["prompt_id"].lower(), response["payload"])


@dataclass(frozen=True, slots=True)
class Responders:
    """What `allowed_responders` asks of whoever runs the deployment.

    `needed` is the number of distinct responders with equal payloads; `consensus:N` counts only people.
    Without a `recognised` entry nobody may respond.
    """

    needed: int
    open_to_any: bool
    named: frozenset[str]
    recognised: bool
    people_only: bool = False

    @classmethod
    def parse(cls, allowed_responders: Iterable[str]) -> "Responders":
        """Unknown patterns are ignored."""
        matches = [match for entry in allowed_responders if (match := _RESPONDER.fullmatch(entry))]
        named = frozenset(match["id"] for match in matches if match["id"])
        quorums = [_quorum(match["n"]) for match in matches if match["n"]]
        return cls(
            needed=max(quorums, default=1),
            open_to_any=any(match[0] == ANY for match in matches) or bool(quorums and not named),
            named=named,
            recognised=bool(matches),
            people_only=bool(quorums),
        )


def _quorum(digits: str) -> int:
    return int(digits) if len(digits) <= len(str(MAX_QUORUM)) else MAX_QUORUM


def may_respond(responders: Responders, principal_id: str, authorised: bool) -> bool:
    """`authorised`: this deployment lets the caller respond in general, as owner or approver."""
    return principal_id in responders.named or (responders.open_to_any and authorised)


def visible(text: str) -> str:
    r"""`text` with what can not be seen spelled out (`\u202e`), except line feeds and tabs.

    That is: controls, bidi and other format characters, line and paragraph separators, surrogates, and
    whatever Unicode lets a display leave out.
    """
    return "".join(_spelled(character) if _is_hidden(character) else character for character in text)


def _spelled(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_HIDDEN_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties) beyond the categories above: joiners and
# fillers, variation selectors, and code points reserved for more of them.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)


def _is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or _IGNORABLE.match(character) is not None
