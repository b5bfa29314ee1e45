"""Declaring an agent: its skills are async functions, and its card follows from them."""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Message, Part, Role
from interlock.engine.context import Skill, new_id
from interlock.oversight.approvals import Gate
from interlock.oversight.modes import Declared, Mode, read_entry

if TYPE_CHECKING:
    from interlock.agents.turn import Turn

AgentSkillFunction = Callable[["Turn"], Awaitable[None]]
Matches = Callable[[Message], bool]

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
"""Names of agents and skills are parts of keys."""


@dataclass(frozen=True, slots=True)
class DeclaredSkill:
    agent: str
    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]
    run: AgentSkillFunction
    matches: Matches | None
    rerun: bool
    listed: bool
    gate: Gate
    isolated: bool
    declared: Declared


@dataclass(slots=True)
class Agent:
    """An agent, or several behind one endpoint (`include`).

    `input_modes` and `output_modes` are media types. `isolated`: only its owner sees a task, no approver.
    """

    name: str
    description: str
    version: str = "1.0.0"
    input_modes: Sequence[str] = ("text/plain", "application/json")
    output_modes: Sequence[str] = ("text/plain", "application/json")
    skills: list[DeclaredSkill] = field(default_factory=list)
    gate: Gate | None = None
    isolated: bool = False
    _reply: Callable[[Message], str | None] | None = None

    def __post_init__(self) -> None:
        _check_name(self.name)

    def skill(
        self,
        id: str,  # noqa: A002
        description: str,
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        matches: Matches | None = None,
        rerun: bool = False,
        listed: bool = True,
        gate: Gate | None = None,
        mode: Mode = Mode.AUTONOMOUS,
        veto: timedelta = timedelta(minutes=1),
        reviewer: str | None = None,
        note: str | None = None,
    ) -> Callable[[AgentSkillFunction], AgentSkillFunction]:
        """Declares the decorated async function as a skill.

        A message goes to the skill that `metadata.skillHint` names, else to the first that `matches` it,
        else to the first without `matches`. `rerun` says that a turn may be run twice, because all it does
        outside is keyed by `turn.effect_key`: if its worker is lost it is then run again, and not FAILED.
        `gate` says who may approve what it asks leave for: without one, that of the agent, or else any
        approver of the tenant. One that is not `listed` is served like any other, but only the card for
        authenticated callers has it.

        `mode` says how much human is in the loop before it runs (hitl-mode-v1), and the card declares it:
        with `Mode.VETO` nothing runs before the window `veto` has ended, with `Mode.GATED` and
        `Mode.COMPOUND` only once those of the gate have approved the start. `reviewer="operator"` sends what
        it asks straight to people. `note` is shown to them. Raises `ValueError` for settings that contradict
        each other.
        """
        _check_name(id)
        if any(skill.id == id for skill in self.skills):
            raise ValueError(f"skill {id!r} is declared twice")

        chosen = gate or self.gate
        if chosen is not None or mode.order >= Mode.GATED.order:
            (chosen or Gate()).check(isolated=self.isolated)
        declared = read_entry(
            {
                "mode": mode.value,
                "vetoTtlMs": veto / timedelta(milliseconds=1),
                "reviewer": reviewer,
                "note": note,
            }
        )
        if declared.problem is not None:
            raise ValueError(declared.problem)

        def declare(function: AgentSkillFunction) -> AgentSkillFunction:
            self.skills.append(
                DeclaredSkill(
                    agent=self.name,
                    id=id,
                    name=name or id.replace("-", " ").replace("_", " ").capitalize(),
                    description=description,
                    tags=tuple(tags) or (id,),
                    examples=tuple(examples),
                    run=function,
                    matches=matches,
                    rerun=rerun,
                    listed=listed,
                    gate=chosen or Gate(),
                    isolated=self.isolated,
                    declared=declared,
                )
            )
            return function

        return declare

    def reply_with(self, function: Callable[[Message], str | None]) -> Callable[[Message], str | None]:
        """Declares a function that may answer a first message directly, without a task.

        It runs on the request path: it must be quick and must do nothing outside. None means: make a task.
        """
        self._reply = function
        return function

    def include(self, *agents: "Agent") -> None:
        """Serves the skills of other agents here too, after those that are declared already."""
        for agent in agents:
            for skill in agent.skills:
                if any(own.id == skill.id for own in self.skills):
                    raise ValueError(f"skill {skill.id!r} is declared twice")
                self.skills.append(skill)
            if agent._reply is not None:
                if self._reply is not None:
                    raise ValueError("two of the agents reply directly")
                self._reply = agent._reply

    # What follows implements the engine's `Directory`.

    def reply(self, message: Message) -> Message | None:
        text = self._reply(message) if self._reply is not None else None
        if text is None:
            return None
        return Message(
            message_id=new_id(),
            role=Role.AGENT,
            parts=[Part(text=text)],
            context_id=message.context_id or new_id(),
        )

    def route(self, message: Message, skill_hint: str | None) -> Skill:
        if skill_hint is not None:
            hinted = [skill for skill in self.skills if skill.id == skill_hint]
            if not hinted:
                raise InvalidParams("metadata.skillHint names no skill of this agent")
            return _known(hinted[0])
        for skill in self.skills:
            if skill.matches is not None and skill.matches(message):
                return _known(skill)
        for skill in self.skills:
            if skill.matches is None:
                return _known(skill)
        raise InvalidParams("No skill of this agent takes this message")

    @property
    def known(self) -> list[Skill]:
        """Its skills, and those of the agents that it includes, as the engine knows them."""
        return [_known(skill) for skill in self.skills]

    def declared(self, agent: str, skill: str) -> DeclaredSkill | None:
        return next((own for own in self.skills if (own.agent, own.id) == (agent, skill)), None)


def _known(skill: DeclaredSkill) -> Skill:
    return Skill(skill.agent, skill.id, skill.rerun, skill.isolated, skill.declared, skill.gate)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} must be 1 to 64 of a-z 0-9 - _, and begin and end with a letter or digit")
