"""The static gate for response schemas that come from other parties (hitl-prompt/v1, S-2)."""

from dataclasses import dataclass


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
