"""How much human is in the loop, for each skill: hitl-mode-v1, and blast-v1 beside it.

A declaration is policy, and what breaks its rules is not dropped, which would make the skill autonomous: it
is gated, and the fleet view says why.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

URI = "https://proto-labs.ai/a2a/ext/hitl-mode-v1"
ALIAS = "https://protolabs.ai/a2a/ext/hitl-mode-v1"
"""An older form, read and never written."""
BLAST_URI = "https://proto-labs.ai/a2a/ext/blast-v1"
BLAST_ALIAS = "https://protolabs.ai/a2a/ext/blast-v1"
MODE_STAMP = "x-hitl-mode"
VETO_TTL_STAMP = "x-hitl-veto-ttl-ms"
STAMPS = frozenset({MODE_STAMP, VETO_TTL_STAMP})
"""In the metadata of a request: ours to set, so a caller's own are taken out first."""

DEFAULT_VETO_TTL_MS = 60_000
MAX_VETO_TTL_MS = 7 * 24 * 3600 * 1000
OPERATOR = "operator"
MAX_NOTE = 500
MAX_SKILLS = 1000
"""Of one agent."""


class Mode(StrEnum):
    AUTONOMOUS = "autonomous"
    NOTIFICATION = "notification"
    VETO = "veto"
    GATED = "gated"
    COMPOUND = "compound"

    @property
    def order(self) -> int:
        return _ORDER[self]


_ORDER: Mapping[Mode, int] = {mode: number for number, mode in enumerate(Mode)}


class Radius(StrEnum):
    """What a skill can touch."""

    SELF = "self"
    PROJECT = "project"
    REPO = "repo"
    FLEET = "fleet"
    PUBLIC = "public"

    @property
    def order(self) -> int:
        return list(Radius).index(self)


@dataclass(frozen=True, slots=True)
class Declared:
    """What holds for a skill. `reviewer`: a prompt goes straight to people. `problem`: what is wrong with the
    declaration, which is why it is gated."""

    mode: Mode
    veto_ttl_ms: int = DEFAULT_VETO_TTL_MS
    reviewer: str | None = None
    note: str | None = None
    problem: str | None = None

    def raised_to(self, mode: Mode) -> "Declared":
        return self if self.mode.order >= mode.order else replace(self, mode=mode)

    def stamps(self) -> dict[str, Any]:
        if self.mode is Mode.VETO:
            return {MODE_STAMP: self.mode.value, VETO_TTL_STAMP: self.veto_ttl_ms}
        return {MODE_STAMP: self.mode.value}

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"mode": self.mode.value}
        if self.mode is Mode.VETO:
            wire["vetoTtlMs"] = self.veto_ttl_ms
        if self.reviewer is not None:
            wire["reviewer"] = self.reviewer
        if self.note is not None:
            wire["note"] = self.note
        return wire


def read_entry(entry: Any) -> Declared:
    """One skill's entry. Never raises: what is not well formed is gated."""
    if not isinstance(entry, dict):
        return _gated("the entry is not an object")
    try:
        mode = Mode(str(entry.get("mode")))
    except ValueError:
        return _gated("the mode is not known")
    ttl = entry.get("vetoTtlMs", DEFAULT_VETO_TTL_MS)
    if isinstance(ttl, float) and ttl.is_integer():
        ttl = int(ttl)
    if type(ttl) is not int or not 0 < ttl <= MAX_VETO_TTL_MS:
        return _gated(f"vetoTtlMs is not a whole number of 1 to {MAX_VETO_TTL_MS}", mode)
    reviewer, note = entry.get("reviewer"), entry.get("note")
    if reviewer not in (None, OPERATOR):
        return _gated("the reviewer is not known", mode)
    if note is not None and not isinstance(note, str):
        return _gated("the note is not text", mode)
    return Declared(mode, ttl, reviewer, note[:MAX_NOTE] if note else None)


def _gated(problem: str, mode: Mode = Mode.GATED) -> Declared:
    """At least: what says compound and is broken elsewhere stays compound."""
    return Declared(Mode.GATED, problem=problem).raised_to(mode)


def read_declarations(extensions: Iterable[Mapping[str, Any]]) -> dict[str, Declared]:
    """By skill, of a card's extensions as they are on the wire. Of two that differ the stricter holds."""
    found: dict[str, Declared] = {}
    for skill, entry in _entries(extensions, (URI, ALIAS)):
        declared = read_entry(entry)
        before = found.get(skill)
        found[skill] = declared if before is None else max(before, declared, key=lambda d: d.mode.order)
    return found


def read_radii(extensions: Iterable[Mapping[str, Any]]) -> dict[str, Radius]:
    """By skill. What is not known has the widest radius."""
    found: dict[str, Radius] = {}
    for skill, entry in _entries(extensions, (BLAST_URI, BLAST_ALIAS)):
        try:
            radius = Radius(entry["radius"])
        except (ValueError, KeyError, TypeError):
            radius = Radius.PUBLIC
        found[skill] = max(found.get(skill, radius), radius, key=lambda one: one.order)
    return found


def _entries(extensions: Iterable[Mapping[str, Any]], uris: tuple[str, ...]) -> Iterable[tuple[str, Any]]:
    for extension in extensions:
        if extension.get("uri") in uris:
            params = extension.get("params")
            skills = params.get("skills") if isinstance(params, dict) else None
            if isinstance(skills, dict):
                yield from list(skills.items())[:MAX_SKILLS]


@dataclass(frozen=True, slots=True)
class Policy:
    """Of a deployment. `undeclared` is the mode of a skill that declares none; a skill of at least
    `wide` is raised to at least `wide_mode`."""

    undeclared: Mode = Mode.GATED
    wide: Radius | None = None
    wide_mode: Mode = Mode.GATED

    def resolve(
        self, declared: Declared | None, radius: Radius | None = None, override: Mode | None = None
    ) -> Declared:
        """What holds: each of the three can raise what is declared, and none can lower it."""
        found = declared or Declared(self.undeclared)
        if override is not None:
            found = found.raised_to(override)
        if self.wide is not None and radius is not None and radius.order >= self.wide.order:
            found = found.raised_to(self.wide_mode)
        return found


def compare(one: Mode, other: Mode) -> int:
    """Below zero: `one` has less of a human in the loop."""
    return one.order - other.order
