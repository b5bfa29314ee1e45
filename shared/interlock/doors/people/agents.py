"""Agents elsewhere that are put under oversight here, and the fleet with how much human is in it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Door, described
from interlock.engine.errors import store_errors
from interlock.engine.fleet import FleetAgent, FleetSkill, fleet, of, one
from interlock.engine.records import parse_instant
from interlock.engine.registered import MAX_SKILL_ID
from interlock.engine.registry import MAX_PEER, MAX_URL, Registry
from interlock.oversight.modes import Mode
from interlock.oversight.principals import Principal

MAX_NAME = 64
MODES = Literal["autonomous", "notification", "veto", "gated", "compound"]

Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME)]
NameText = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class AgentBody(Wire):
    """`url` is that of the agent's card, or what is before its well-known path. `peer` names the entry of the
    deployment's peers that the agent is, whose credential it is called with."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: NameText
    url: Annotated[str, Field(min_length=1, max_length=MAX_URL + 64)]
    peer: Annotated[str, Field(min_length=1, max_length=MAX_PEER)] | None = None


class OverrideBody(Wire):
    """`skill` is `*` for all of the agent. Without a `mode` the override is taken back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    skill: Annotated[str, Field(min_length=1, max_length=MAX_SKILL_ID)]
    mode: MODES | None = None


class SkillBody(Wire):
    """`mode` holds, and `source` says by what: `declared`, `malformed` (a declaration that is gated for that,
    as `problem` says), `undeclared`, `radius`, or `override`. `name` is what halts call the skill where that
    is not its id. `halted` is the scope of a halt that covers it."""

    skill: str
    name: str | None = None
    mode: str
    source: str
    declared: str | None = None
    radius: str | None = None
    override: str | None = None
    veto_ttl_ms: int | None = None
    reviewer: str | None = None
    note: str | None = None
    problem: str | None = None
    halted: str | None = None


class FleetAgentBody(Wire):
    """What has a `url` runs elsewhere. It is `stale` while its card could not be fetched lately; `problem`
    says why, and what is shown is older then. `questions` are open."""

    agent: str
    skills: list[SkillBody]
    url: str | None = None
    peer: str | None = None
    added_by: str | None = None
    added_at: str | None = None
    fetched_at: str | None = None
    tried_at: str | None = None
    stale: bool | None = None
    problem: str | None = None
    halted: str | None = None
    questions: int | None = None


class FleetBody(Wire):
    """`now` is the server's clock."""

    agents: list[FleetAgentBody]
    now: str


class RemovedBody(Wire):
    status: Literal["removed"] = "removed"


def router(door: Door, registry: Registry) -> APIRouter:
    routes = door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    def now() -> str:
        return timestamp(registry.engine.clock.now())

    @routes.get("/fleet", response_model_exclude_none=True)
    def get_fleet(who: Caller) -> FleetBody:
        """All agents of the caller's tenant, those that run here too, with the mode of each skill."""
        with store_errors():
            return FleetBody(agents=[_agent(agent) for agent in fleet(registry, who)], now=now())

    @routes.get("/agents", response_model_exclude_none=True)
    def list_agents(who: Caller) -> FleetBody:
        """The agents elsewhere that are registered."""
        with store_errors():
            found = [_agent(agent) for agent in fleet(registry, who) if agent.record is not None]
            return FleetBody(agents=found, now=now())

    @routes.post("/agents", response_model_exclude_none=True, openapi_extra=described(AgentBody))
    def add_agent(who: Caller, body: Annotated[AgentBody, Depends(door.body(AgentBody))]) -> FleetAgentBody:
        """Registers an agent. Its card is fetched right after, which shows in the agent."""
        with store_errors():
            registry.add(who, body.name, body.url, body.peer)
            return _agent(one(registry, who, body.name))

    @routes.get("/agents/{name}", response_model_exclude_none=True)
    def get_agent(who: Caller, name: Name) -> FleetAgentBody:
        """A registered agent, as it is now."""
        with store_errors():
            return _agent(one(registry, who, name))

    @routes.post("/agents/{name}/refresh", response_model_exclude_none=True)
    def refresh_agent(who: Caller, name: Name) -> FleetAgentBody:
        """Has the card fetched now. The agent is as it was: its `triedAt` changes once that was tried."""
        with store_errors():
            before = registry.ask_refresh(who, name)
            return _agent(of(registry, who, before))

    @routes.post(
        "/agents/{name}/override", response_model_exclude_none=True, openapi_extra=described(OverrideBody)
    )
    def override_mode(
        who: Caller, name: Name, body: Annotated[OverrideBody, Depends(door.body(OverrideBody))]
    ) -> FleetAgentBody:
        """Raises the mode of a skill, or takes that back. What the card declares is never lowered."""
        with store_errors():
            registry.override(who, name, body.skill, Mode(body.mode) if body.mode is not None else None)
            return _agent(one(registry, who, name))

    @routes.post("/agents/{name}/remove")
    def remove_agent(who: Caller, name: Name) -> RemovedBody:
        """The agent has no address here any more. What runs there already is followed to its end."""
        with store_errors():
            registry.remove(who, name)
        return RemovedBody()

    return routes


def _agent(agent: FleetAgent) -> FleetAgentBody:
    shown = FleetAgentBody(
        agent=agent.agent,
        skills=[_skill(skill) for skill in agent.skills],
        problem=agent.problem,
        halted=agent.halted,
        questions=agent.questions,
    )
    record = agent.record
    if record is None:
        return shown
    return shown.model_copy(
        update={
            "url": record.url,
            "peer": record.peer,
            "added_by": record.added_by,
            "added_at": _time(record.added_at),
            "fetched_at": _time(record.fetched_at),
            "tried_at": _time(record.tried_at),
            "stale": agent.stale,
        }
    )


def _skill(skill: FleetSkill) -> SkillBody:
    mode = skill.mode
    return SkillBody(
        skill=skill.skill,
        name=skill.name if skill.name != skill.skill else None,
        mode=mode.mode.value,
        source=skill.source,
        declared=skill.declared,
        radius=skill.radius,
        override=skill.override,
        veto_ttl_ms=mode.veto_ttl_ms if mode.mode is Mode.VETO else None,
        reviewer=mode.reviewer,
        note=mode.note,
        problem=mode.problem,
        halted=skill.halted,
    )


def _time(at: str | None) -> str | None:
    return timestamp(parse_instant(at)) if at is not None else None
