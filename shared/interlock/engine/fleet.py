"""The agents of a tenant, here and elsewhere: how much human is in the loop for each of their skills."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from interlock.a2a.errors import PermissionDenied
from interlock.engine.canary import CANARY
from interlock.engine.context import Engine, Skill
from interlock.engine.halts import halt_of, standing_halts
from interlock.engine.records import Halt, Registered, inbox_view
from interlock.engine.registered import RegisteredAgent
from interlock.engine.registry import Registry
from interlock.oversight.halts import Scope
from interlock.oversight.modes import Declared, Mode, Radius
from interlock.oversight.principals import Principal, Role

COUNTED = 500
"""Open questions that are looked at; of an agent with more of them there are at least as many."""
PAGE = 100
UNKNOWN = Skill("", "")


@dataclass(frozen=True, slots=True)
class FleetSkill:
    """`source` says what made the mode what it is, as of a `RemoteSkill`; `halted` is the scope of a halt."""

    skill: str
    name: str
    mode: Declared
    source: str
    declared: Mode | None = None
    radius: Radius | None = None
    override: Mode | None = None
    halted: str | None = None


@dataclass(frozen=True, slots=True)
class FleetAgent:
    """`record` is of one that runs elsewhere. `questions` is None for who may not see them."""

    agent: str
    skills: tuple[FleetSkill, ...]
    record: Registered | None = None
    stale: bool = False
    problem: str | None = None
    halted: str | None = None
    questions: int | None = None


def fleet(registry: Registry, who: Principal) -> list[FleetAgent]:
    """Those that run here first. Raises `PermissionDenied`."""
    check_reader(who)
    engine = registry.engine
    halts, questions = standing_halts(engine), _questions(engine, who)
    return [
        *_here(registry, who.tenant, halts, questions),
        *(
            _shown(registry, agent, engine.clock.now(), halts, questions)
            for agent in registry.all(who.tenant)
        ),
    ]


def one(registry: Registry, who: Principal, name: str) -> FleetAgent:
    """A registered one. Raises `PermissionDenied`, `AgentNotFound`."""
    check_reader(who)
    return of(registry, who, registry.registered(who.tenant, name))


def of(registry: Registry, who: Principal, agent: RegisteredAgent) -> FleetAgent:
    engine = registry.engine
    return _shown(registry, agent, engine.clock.now(), standing_halts(engine), _questions(engine, who))


def _shown(
    registry: Registry,
    agent: RegisteredAgent,
    now: datetime,
    halts: dict[Scope, Halt],
    questions: Counter[str] | None,
) -> FleetAgent:
    tenant, name = agent.record.tenant, agent.record.name
    skills = tuple(
        FleetSkill(
            skill=skill.id,
            name=skill.name,
            mode=skill.mode,
            source=skill.source,
            declared=skill.declared.mode if skill.declared is not None else None,
            radius=skill.radius,
            override=skill.override,
            halted=_scope(halt_of(halts, tenant, name, skill.name)),
        )
        for skill in agent.skills.values()
    )
    taken = registry.runs_here(name)
    return FleetAgent(
        agent=name,
        skills=skills,
        record=agent.record,
        stale=agent.stale(now),
        problem="an agent of this name runs here" if taken else agent.record.problem,
        halted=_scope(halt_of(halts, tenant, name, UNKNOWN.id)),
        questions=questions[name] if questions is not None else None,
    )


def _here(
    registry: Registry, tenant: str, halts: dict[Scope, Halt], questions: Counter[str] | None
) -> Iterator[FleetAgent]:
    skills = [skill for skill in registry.here() if skill.agent != CANARY.agent]
    for name in dict.fromkeys(skill.agent for skill in skills):
        yield FleetAgent(
            agent=name,
            skills=tuple(
                FleetSkill(
                    skill=skill.id,
                    name=skill.id,
                    mode=skill.declared,
                    source="declared",
                    declared=skill.declared.mode,
                    halted=_scope(halt_of(halts, tenant, name, skill.id)),
                )
                for skill in skills
                if skill.agent == name
            ),
            halted=_scope(halt_of(halts, tenant, name, UNKNOWN.id)),
            questions=questions[name] if questions is not None else None,
        )


def _scope(halt: Halt | None) -> str | None:
    return halt.scope if halt is not None else None


def _questions(engine: Engine, who: Principal) -> Counter[str] | None:
    """By agent, from an index that may lag by a moment."""
    if not who.has(Role.APPROVER, Role.OPERATOR):
        return None
    found: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        page = engine.views.query_view(inbox_view(who.tenant), limit=PAGE, cursor=cursor)
        found.update(str(item["agent"]) for _, item in page.rows)
        cursor = page.cursor
        if cursor is None or found.total() >= COUNTED:
            return found


def check_reader(who: Principal) -> None:
    """Raises `PermissionDenied`."""
    if not who.has(Role.APPROVER, Role.OPERATOR, Role.PLATFORM_OPERATOR):
        raise PermissionDenied("Only approvers and operators see the agents of a tenant")
