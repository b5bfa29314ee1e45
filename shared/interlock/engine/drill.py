"""A drill: a canary is started and only that is halted, which shows that halts work, and what they take."""

from dataclasses import dataclass, replace
from datetime import timedelta

from interlock.a2a.errors import PermissionDenied
from interlock.a2a.models import Message, Part, SendMessageRequest
from interlock.a2a.models import Role as MessageRole
from interlock.engine.canary import CANARY, canary_scope
from interlock.engine.context import Engine, Skill, new_id
from interlock.engine.create import create_task
from interlock.engine.facts import Fact
from interlock.engine.halt import current
from interlock.engine.halt_report import HaltNotFound
from interlock.engine.records import Halt, Stopped, TaskMeta, parse_instant
from interlock.engine.visibility import meta_key, not_found
from interlock.oversight.halts import may_halt
from interlock.oversight.principals import Principal, Role

DRILL = "drill"
"""The kind of its fact on the trail."""


class CanaryOnly:
    """Implements `Directory`: every message is for the canary."""

    def reply(self, message: Message) -> None:  # noqa: ARG002
        return None

    def route(self, message: Message, skill_hint: str | None) -> Skill:  # noqa: ARG002
        return CANARY


@dataclass(frozen=True, slots=True)
class Seen:
    """What the operator saw, in milliseconds since the halt was asked for.

    `declared`: it was said to hold. `refused`: a new canary was refused; None if none was.
    """

    declared: int
    refused: int | None


@dataclass(frozen=True, slots=True)
class Drill:
    """`signalled`: the canary's code was told to stop. `confirmed`: it was known to run no more. Both are in
    milliseconds since the halt was written, by the clocks of those who wrote it; None: it is not recorded."""

    task_id: str
    halt: Halt
    seen: Seen
    signalled: int | None
    confirmed: int | None


def start_canary(engine: Engine, caller: Principal) -> TaskMeta:
    """Raises `PermissionDenied` for who may not halt it, and `Halted`."""
    _check(caller)
    message = Message(
        message_id=new_id(), role=MessageRole.USER, parts=[Part(text="A drill: work until you are stopped.")]
    )
    # Whoever may stop the canary may start it, and nothing else.
    sender = replace(caller, roles=caller.roles | {Role.CALLER})
    return create_task(engine, CanaryOnly(), sender, SendMessageRequest(message=message), None).meta


def canary(engine: Engine, caller: Principal, task_id: str) -> TaskMeta:
    """Raises `PermissionDenied`, and `TaskNotFound` for whatever is not a canary of the caller's tenant."""
    _check(caller)
    item = engine.table.get(meta_key(caller, task_id))
    meta = TaskMeta.read(item) if item is not None else None
    if meta is None or (meta.agent, meta.skill) != (CANARY.agent, CANARY.id):
        raise not_found(task_id)
    return meta


def record(engine: Engine, caller: Principal, task_id: str, generation: int, seen: Seen) -> Drill:
    """Puts the figures on the trail. Raises what `canary` does, and `HaltNotFound`."""
    meta = canary(engine, caller, task_id)
    halt = current(engine.table, canary_scope(meta.tenant))
    if halt is None or halt.generation != generation:
        raise HaltNotFound
    item = engine.table.get(Stopped.key_of(halt.name, meta.tenant, meta.task_id, meta.turn))
    row = Stopped.read(item) if item is not None else None
    signalled = row.stopped_at if row is not None and row.started else None
    ended = row.ended_at if row is not None and row.started else None
    drill = Drill(task_id, halt, seen, _since(halt, signalled), _since(halt, ended))
    detail = {
        "scope": halt.scope,
        "generation": generation,
        "declaredMs": seen.declared,
        "refusedMs": seen.refused,
        "signalledMs": drill.signalled,
        "confirmedMs": drill.confirmed,
    }
    fact = Fact(DRILL, f"operator:{caller.id}", detail=detail).about(meta)
    engine.table.write(fact.put(meta.tenant, engine.clock.now()))
    return drill


def _check(caller: Principal) -> None:
    if not may_halt(caller, canary_scope(caller.tenant)):
        raise PermissionDenied("Only an operator may hold a drill")


def _since(halt: Halt, at: str | None) -> int | None:
    """Two machines wrote the two: what seems to have been before the halt was at once."""
    if at is None:
        return None
    passed = (parse_instant(at) - parse_instant(halt.halted_at)) / timedelta(milliseconds=1)
    return max(0, round(passed))
