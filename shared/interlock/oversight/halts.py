"""Halts: what one covers, who may declare and lift it, and how it is named ("Halting")."""

import re
from dataclasses import dataclass
from typing import Self

from interlock.oversight.principals import Kind, Principal, Role, is_tenant

MAX_REASON = 500
"""Characters."""
ALL = "all"

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,126}[a-z0-9])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything; or one tenant; or in a tenant one agent, or one skill of whichever agent has it.

    Written `all`, `tenant:<tenant>`, `agent:<tenant>/<agent>`, `skill:<tenant>/<skill>`.
    """

    tenant: str | None = None
    agent: str | None = None
    skill: str | None = None

    def __str__(self) -> str:
        if self.agent is not None:
            return f"agent:{self.tenant}/{self.agent}"
        if self.skill is not None:
            return f"skill:{self.tenant}/{self.skill}"
        return ALL if self.tenant is None else f"tenant:{self.tenant}"

    @classmethod
    def parse(cls, text: str, tenant: str) -> Self:
        """`tenant` is that of an agent or a skill that names none. Raises `ValueError`, fit to be shown."""
        if text == ALL:
            return cls()
        kind, _, name = text.partition(":")
        if kind == "tenant" and is_tenant(name):
            return cls(name)
        of, slash, bare = name.rpartition("/")
        of = of if slash else tenant
        if kind in {"agent", "skill"} and is_tenant(of) and _NAME.fullmatch(bare):
            return cls(of, agent=bare) if kind == "agent" else cls(of, skill=bare)
        raise ValueError(
            "a scope is all, tenant:<tenant>, agent:[<tenant>/]<agent> or skill:[<tenant>/]<skill>"
        )

    def covers(self, tenant: str, agent: str, skill: str) -> bool:
        return self in scopes_of(tenant, agent, skill)


def scopes_of(tenant: str, agent: str, skill: str) -> tuple[Scope, Scope, Scope, Scope]:
    """All that cover a task. Where several are halted, the reason of the first is the one that is told."""
    return Scope(), Scope(tenant), Scope(tenant, agent=agent), Scope(tenant, skill=skill)


def may_halt(principal: Principal, scope: Scope) -> bool:
    """Also who may lift it. People only: no agent may, whatever its roles."""
    if principal.kind is not Kind.PERSON:
        return False
    if principal.has(Role.PLATFORM_OPERATOR):
        return True
    return principal.has(Role.OPERATOR) and scope.tenant == principal.tenant


def check_reason(reason: str) -> None:
    """Raises `ValueError`, fit to be shown."""
    if not 1 <= len(reason.strip()) <= MAX_REASON or not reason.isprintable():
        raise ValueError(f"a reason is one line of 1 to {MAX_REASON} characters")
