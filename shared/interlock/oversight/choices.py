"""Questions that a button answers: one yes or no, or one of a few values. All others take a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.oversight.hitl_prompt import visible

MAX_CHOICES = 25
"""What a menu of Discord holds; one of Slack holds more."""
MAX_LABEL = 75
"""Characters on a button of Slack, the shortest of all."""

_PLAIN = frozenset({"type", "properties", "required", "additionalProperties", "title", "description"})
_OF_MEMBER = frozenset({"type", "enum", "title", "description"})


@dataclass(frozen=True, slots=True)
class Choice:
    label: str
    payload: dict[str, Any]


def choices_of(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    """The answers of a response schema whose one required member is a boolean or has few values; else none.

    What cannot be shown whole on a button is no choice.
    """
    required, members = schema.get("required"), schema.get("properties")
    if not schema.keys() <= _PLAIN or not isinstance(members, dict) or not isinstance(required, list):
        return ()
    if len(required) != 1 or not isinstance(members.get(required[0]), dict):
        return ()
    (name,), member = required, members[required[0]]
    if not member.keys() <= _OF_MEMBER:
        return ()
    if "enum" not in member and member.get("type") == "boolean":
        choices = [
            Choice(f"{visible(name)}: {word}", {name: value})
            for word, value in (("yes", True), ("no", False))
        ]
    elif isinstance(member.get("enum"), list) and all(isinstance(value, str) for value in member["enum"]):
        choices = [Choice(visible(value), {name: value}) for value in member["enum"]]
    else:
        return ()
    fits = 0 < len(choices) <= MAX_CHOICES and all(_is_label(choice.label) for choice in choices)
    return tuple(choices) if fits else ()


def _is_label(label: str) -> bool:
    return bool(label.strip()) and len(label) <= MAX_LABEL and label.isprintable()
