"""Whether a task is halted: its scopes are read as they were at one moment, and no answer means yes (I11).

A new task and the claim of a turn write first and read this after, so of a halt and what races with it one
always sees the other (I4). What a person decides carries the halt as a condition of its transaction instead,
so while halted it is refused and not consumed.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.a2a.errors import A2AError, Unavailable
from interlock.engine.context import Engine, Skill
from interlock.engine.ports import Check, ConditionFailed, Item, Key, Missing, Write
from interlock.engine.records import Halt, TaskMeta, halts_pk, shard
from interlock.oversight.halts import Scope, scopes_of

_log = logging.getLogger(__name__)

UNREADABLE = "the halt state can not be read"
HALTS = "HALT#"


class Halted(Unavailable):
    """Told with the reason that the operator gave ("Halting")."""

    reason = "HALTED"

    def __init__(self, reason: str) -> None:
        super().__init__(f"halted: {reason}")


@dataclass(frozen=True, slots=True)
class Moment:
    """A task, and what halts it, as they were at one moment.

    `why` is the reason of a halt, or that it is not known; None: not halted. `halt` is the halt, if it is
    known, and `meta` None if it is not.
    """

    why: str | None
    halt: Halt | None
    meta: TaskMeta | None
    resumed_at: str | None = None
    """When the last halt of any of its scopes was lifted."""

    def refuse(self) -> None:
        """Raises `Halted` if it is."""
        if self.why is not None:
            raise Halted(self.why)


def look(engine: Engine, meta: TaskMeta) -> Moment:
    keys = halt_keys(meta)
    try:
        *found, task = engine.table.snapshot([*keys, meta.key])
    except Exception:  # noqa: BLE001
        # Whatever it was: who can not read the halt state must not go on.
        _log.exception("the halt state could not be read")
        return Moment(UNREADABLE, None, None)
    halt = first_on(found)
    resumed = [str(item["resumed_at"]) for item in found if item is not None and "resumed_at" in item]
    return Moment(
        halt.reason if halt else None,
        halt,
        TaskMeta.read(task) if task is not None else None,
        max(resumed, default=None),
    )


def first_on(found: Sequence[Item | None]) -> Halt | None:
    return next((Halt.read(item) for item in found if item is not None and "on" in item), None)


def halt_keys(meta: TaskMeta) -> list[Key]:
    copy = shard(meta.task_id)
    return [Halt.key_of(copy, str(scope)) for scope in scopes_of(meta.tenant, meta.agent, meta.skill)]


def refuse_while_halted(engine: Engine, tenant: str, skill: Skill | None, message_id: str) -> None:
    """For a message that makes no task. Raises `Halted`."""
    scopes = scopes_of(tenant, skill.agent, skill.id) if skill is not None else (Scope(), Scope(tenant))
    keys = [Halt.key_of(shard(message_id), str(scope)) for scope in scopes]
    try:
        halt = first_on(engine.table.snapshot(keys))
    except Exception as error:
        _log.exception("the halt state could not be read")
        raise Halted(UNREADABLE) from error
    if halt is not None:
        raise Halted(halt.reason)


def unless_halted(meta: TaskMeta) -> list[Check]:
    """Go into the transaction of a decision."""
    return [Check(key, (Missing("on"),)) for key in halt_keys(meta)]


def halted_in(failed: ConditionFailed, writes: Sequence[Write]) -> Halted | None:
    """Whether the decision failed because it is halted: to be told once an own earlier try was looked for."""
    for position, old in sorted(failed.old.items()):
        if writes[position].key.pk.startswith(HALTS):
            return Halted(Halt.read(old).reason)
    return None


@contextmanager
def halted_comes_first(engine: Engine, meta: TaskMeta) -> Iterator[None]:
    """While halted, whatever else is wrong with a decision is not told."""
    try:
        yield
    except Halted:
        raise
    except A2AError as error:
        moment = look(engine, meta)
        if moment.why is not None:
            raise Halted(moment.why) from error
        raise


def standing_halts(engine: Engine) -> dict[Scope, Halt]:
    """All that hold now: good for stopping what was read before, not for finding that nothing is halted."""
    halts: dict[Scope, Halt] = {}
    cursor: str | None = None
    while True:
        page = engine.table.query(halts_pk(0), cursor=cursor)
        for _, item in page.rows:
            if "on" in item:
                halt = Halt.read(item)
                halts[Scope.parse(halt.scope, "")] = halt
        cursor = page.cursor
        if cursor is None:
            return halts


def halt_of(halts: dict[Scope, Halt], tenant: str, agent: str, skill: str) -> Halt | None:
    return next((halts[scope] for scope in scopes_of(tenant, agent, skill) if scope in halts), None)
