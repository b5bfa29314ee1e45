"""A registered agent as its record has it: what its card says, and which mode holds for each skill."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Any

from interlock.a2a.errors import InvalidParams, Unavailable
from interlock.a2a.models import JsonObject, Message
from interlock.engine.context import Skill
from interlock.engine.records import Registered, parse_instant
from interlock.oversight.modes import (
    MAX_SKILLS,
    Declared,
    Mode,
    Policy,
    Radius,
    read_declarations,
    read_radii,
)

REFRESH_EVERY = timedelta(minutes=10)
EVERY_SKILL = "*"
"""What an override of all skills of an agent is filed under."""
MAX_SKILL_ID = 256

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,126}[A-Za-z0-9])?")
"""As halts name skills, and keys hold them."""


@dataclass(frozen=True, slots=True)
class RemoteSkill:
    """`id` is the card's, `name` what tasks and halts here call it; `listed`: it is among the card's skills.

    `mode` holds; `source` says what made it so: `declared`, `malformed` (a declaration that is, and so is
    gated), `undeclared`, `radius` or `override`.
    """

    id: str
    name: str
    listed: bool
    declared: Declared | None
    radius: Radius | None
    override: Mode | None
    mode: Declared
    source: str


@dataclass(frozen=True)
class RegisteredAgent:
    """Implements `Directory` for the agent's own address here."""

    record: Registered
    policy: Policy

    @cached_property
    def card(self) -> JsonObject | None:
        """As it was fetched last. It is another's: nothing of it is known to have its form."""
        return unpacked(self.record.card) if self.record.card is not None else None

    def stale(self, now: datetime) -> bool:
        """Whether what is known of it may not be true any more."""
        fetched = self.record.fetched_at
        if fetched is None or self.record.problem is not None:
            return True
        return now - parse_instant(fetched) > 2.5 * REFRESH_EVERY

    @cached_property
    def overrides(self) -> Mapping[str, Mode]:
        return {skill: Mode(mode) for skill, mode in json.loads(self.record.overrides).items()}

    @cached_property
    def skills(self) -> Mapping[str, RemoteSkill]:
        """By id: those that the card lists, then those that it only declares something of."""
        listed = set(islice(listed_ids(self.card or {}), MAX_SKILLS))
        known = dict.fromkeys([*listed_ids(self.card or {}), *self._declared, *self._radii])
        usable = [each for each in known if 0 < len(each) <= MAX_SKILL_ID][: 2 * MAX_SKILLS]
        return {each: self._skill(each, listed=each in listed) for each in usable}

    @cached_property
    def _extensions(self) -> list[dict[str, Any]]:
        capabilities = (self.card or {}).get("capabilities")
        listed = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []

    @cached_property
    def _declared(self) -> dict[str, Declared]:
        return read_declarations(self._extensions)

    @cached_property
    def _radii(self) -> dict[str, Radius]:
        return read_radii(self._extensions)

    def _skill(self, id: str, *, listed: bool) -> RemoteSkill:  # noqa: A002
        declared, radius = self._declared.get(id), self._radii.get(id)
        wanted = [self.overrides[key] for key in (id, EVERY_SKILL) if key in self.overrides]
        override = max(wanted, key=lambda mode: mode.order, default=None)
        plain, wide = self.policy.resolve(declared), self.policy.resolve(declared, radius)
        mode = self.policy.resolve(declared, radius, override)
        if mode.mode is not wide.mode:
            source = "override"
        elif wide.mode is not plain.mode:
            source = "radius"
        elif declared is None:
            source = "undeclared"
        else:
            source = "declared" if declared.problem is None else "malformed"
        return RemoteSkill(id, local_name(id), listed, declared, radius, override, mode, source)

    def resolve_mode(self, skill: str) -> Declared:
        """Of a skill by its id or its name here; of one that is not known, as of an undeclared one."""
        return (self.named(skill) or self._skill(skill, listed=False)).mode

    def named(self, skill: str) -> RemoteSkill | None:
        known = self.skills.get(skill)
        return known or next((found for found in self.skills.values() if found.name == skill), None)

    # What follows implements the engine's `Directory`.

    def reply(self, message: Message) -> Message | None:  # noqa: ARG002
        return None

    def route(self, message: Message, skill_hint: str | None) -> Skill:  # noqa: ARG002
        """Without a hint the agent may choose any of its skills: the strictest mode of all holds."""
        if not self.skills:
            raise Unavailable("The card of this agent is not known yet", retry_after=30)
        if skill_hint is not None:
            chosen = self.named(skill_hint)
            if chosen is None:
                raise InvalidParams("metadata.skillHint names no skill of this agent")
        else:
            chosen = max(self.skills.values(), key=lambda skill: skill.mode.mode.order)
        # Its turn can be run again: what it has sent is known by its key, and followed.
        return Skill(
            self.record.name,
            chosen.name,
            rerun=True,
            declared=chosen.mode,
            radius=chosen.radius.value if chosen.radius is not None else None,
        )


def local_name(id: str) -> str:  # noqa: A002
    """The id, or where it can not be part of a key, a digest of it."""
    return id if _NAME.fullmatch(id) else f"skill-{sha256(id.encode()).hexdigest()[:12]}"


def listed_ids(card: Mapping[str, Any]) -> Iterator[str]:
    skills = card.get("skills")
    for skill in skills if isinstance(skills, list) else []:
        id = skill.get("id") if isinstance(skill, dict) else None  # noqa: A001
        if isinstance(id, str) and 0 < len(id) <= MAX_SKILL_ID:
            yield id


def packed(card: JsonObject) -> bytes:
    return zlib.compress(json.dumps(card, ensure_ascii=False, separators=(",", ":")).encode())


def unpacked(card: bytes) -> JsonObject:
    read: JsonObject = json.loads(zlib.decompress(card))
    return read
