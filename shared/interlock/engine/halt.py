"""Declaring a halt and lifting it ("Halting"). One write decides; what runs is stopped by a walk after it."""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

from interlock.a2a.errors import InvalidParams, PermissionDenied, Unavailable
from interlock.engine.context import Engine, attempts, new_id
from interlock.engine.facts import HALT, Fact
from interlock.engine.halts import standing_halts
from interlock.engine.ports import (
    LAST,
    Clock,
    ConditionFailed,
    Equals,
    Item,
    Missing,
    OutcomeUnknown,
    Put,
    Table,
    Update,
    Write,
)
from interlock.engine.records import (
    SCHEMA_VERSION,
    SHARDS,
    Halt,
    Run,
    Stopped,
    instant,
    run_pk,
    stopped_pk,
    walk_key,
)
from interlock.engine.seal import registration
from interlock.engine.stop import stop_turn, stopped_for
from interlock.oversight.halts import Scope, check_reason, may_halt
from interlock.oversight.principals import Principal

MAX_TRIES = 600
PATIENCE = timedelta(seconds=20)
LONGEST_PAUSE_SECONDS = 0.02
LISTED = 200
"""Tasks that the record of a halt names; of more it has the number."""

T = TypeVar("T")
Each = Callable[[Callable[[T], object], Iterable[T]], Iterable[object]]
"""`map`, or that of a pool."""


class Lifted(StrEnum):
    LIFTED = "lifted"
    NOTHING = "nothing"
    """It was not halted."""
    HALTED_ANEW = "halted-anew"
    """Since then it was halted again, which stays."""


def declare(engine: Engine, by: Principal, scope: Scope, reason: str) -> Halt:
    """Once it has returned, nothing that it covers starts. A halt that holds already is replaced.

    Raises `PermissionDenied`, `InvalidParams`.
    """
    if not may_halt(by, scope):
        raise PermissionDenied("Only an operator may halt this")
    return declare_as(engine, by.id, scope, reason)


def declare_as(engine: Engine, by: str, scope: Scope, reason: str) -> Halt:
    """The same for who proved the right otherwise: with the deployment's own credentials (break-glass)."""
    try:
        check_reason(reason)
    except ValueError as error:
        raise InvalidParams(f"reason: {error}") from error
    op = new_id()
    for _ in _tries(engine.clock):
        now, before = engine.clock.now(), current(engine.table, scope)
        if before is not None and before.op == op:
            halt = before  # an earlier try, whose reply was lost
            break
        halt = Halt(
            scope=str(scope),
            generation=before.generation + 1 if before is not None else 1,
            reason=reason,
            by=by,
            halted_at=instant(now),
            op=op,
            on=True,
        )
        if before is not None:
            halt = replace(halt, rev=before.rev + 1, resumed_at=before.resumed_at, lift_op=before.lift_op)
        as_read = Equals("rev", before.rev) if before is not None else Missing("v")
        writes: list[Write] = [Put(key, halt.item(), (as_read,)) for key in halt.copies()]
        # The chain may be nobody's yet: who halts need not be of the tenant, nor come by a door.
        writes.append(registration(_chain(scope)))
        writes.append(_fact(by, "halt", halt, reason=reason).put(_chain(scope), now))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        break
    engine.waker.wake_walk(halt.scope, halt.generation)
    return halt


def _tries(clock: Clock) -> Iterator[int]:
    """Of a halt: more than `attempts`, with shorter pauses. Raises `Unavailable` after the last.

    Each answer has a condition on what covers it, so one that is being written just then is in the way.
    """
    end = clock.now() + PATIENCE
    for number in range(MAX_TRIES):
        if number:
            if clock.now() >= end:
                break
            clock.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # noqa: S311
        yield number
    raise Unavailable


def current(table: Table, scope: Scope) -> Halt | None:
    item = table.get(Halt.key_of(0, str(scope)))
    return Halt.read(item) if item is not None else None


def lift(engine: Engine, by: Principal, scope: Scope, generation: int | None = None) -> Lifted:
    """Lifts exactly this scope, once what it found running was stopped; which is done here where it was not.

    `generation`: the halt that the operator has seen. Raises `PermissionDenied`.
    """
    if not may_halt(by, scope):
        raise PermissionDenied("Only an operator may resume this")
    return lift_as(engine, by.id, scope, generation)


def lift_as(engine: Engine, by: str, scope: Scope, generation: int | None = None) -> Lifted:
    op = new_id()
    for _ in attempts(engine.clock):
        halt = current(engine.table, scope)
        if halt is not None and halt.lift_op == op:
            return Lifted.LIFTED
        if halt is None or halt.on is None:
            return Lifted.NOTHING
        if generation is None:
            generation = halt.generation
        if halt.generation != generation:
            return Lifted.HALTED_ANEW
        if halt.walked_at is None:
            for number in range(SHARDS):
                walk(engine, scope, generation, number)
            continue
        now = engine.clock.now()
        lifted: Item = {"lift_op": op, "resumed_at": instant(now), "resumed_by": by}
        writes = _changed(halt, lifted, ("on",))
        writes.append(_fact(by, "resume", halt).put(_chain(scope), now))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return Lifted.LIFTED
    raise AssertionError("attempts end by raising")


def _changed(halt: Halt, changes: Item, removed: tuple[str, ...] = ()) -> list[Write]:
    as_read = Equals("rev", halt.rev)
    return [Update(key, {**changes, "rev": halt.rev + 1}, removed, (as_read,)) for key in halt.copies()]


def _fact(by: str, action: str, halt: Halt, **detail: Any) -> Fact:
    named = {"action": action, "scope": halt.scope, "generation": halt.generation}
    return Fact(HALT, f"operator:{by}", detail={**named, **detail})


def _chain(scope: Scope) -> str:
    """A halt of everything is nobody's in particular."""
    return scope.tenant or ""


def walk(engine: Engine, scope: Scope, generation: int, number: int, each: Each[Run] = map) -> None:
    """Stops what runs in one shard. Any number of these may run at once, die, or come late.

    The rows come first and the halt after: they were there while this halt held. So a walk that is late
    stops nothing that was sent after the resume.
    """
    key = walk_key(f"{scope}#{generation}", number)
    if engine.table.get(key) is None:
        cursor: str | None = None
        while True:
            first = _prefix(scope)
            page = engine.table.query(run_pk(number), first=first, last=first + LAST, cursor=cursor)
            rows = [Run.read(item) for _, item in page.rows]
            left = [run for run in rows if _covers(scope, run)]
            if left:
                halt = current(engine.table, scope)
                if halt is None or halt.on is None or halt.generation != generation:
                    return
                left = [run for run in left if not stopped_for(run, halt)]

                def stop(run: Run, halt: Halt = halt) -> None:
                    stop_turn(engine, run, halt.reason, halt)

                list(each(stop, left))
            cursor = page.cursor
            if cursor is None:
                break
        engine.table.write(Put(key, {"v": SCHEMA_VERSION, "at": instant(engine.clock.now())}))
    _end_walk(engine, scope, generation)


def _prefix(scope: Scope) -> str:
    prefix = f"{scope.tenant}#" if scope.tenant is not None else ""
    return prefix if scope.agent is None else f"{prefix}{scope.agent}#"


def _covers(scope: Scope, run: Run) -> bool:
    return scope.covers(run.tenant, run.agent, run.skill)


def _end_walk(engine: Engine, scope: Scope, generation: int) -> None:
    """The last of the shards ends the walk."""
    name = f"{scope}#{generation}"
    for _ in attempts(engine.clock):
        halt = current(engine.table, scope)
        if halt is None or halt.generation != generation or halt.on is None or halt.walked_at is not None:
            return
        if None in engine.table.get_many([walk_key(name, number) for number in range(SHARDS)]):
            return
        stopped = [row.task_id for row in found_running(engine.table, halt)]
        now = engine.clock.now()
        writes = _changed(halt, {"walked_at": instant(now), "stopped": len(stopped)})
        detail = {"stopped": stopped[:LISTED], "count": len(stopped)}
        writes.append(_fact(halt.by, "stopped", halt, **detail).put(_chain(scope), now))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return


def found_running(table: Table, halt: Halt) -> Iterable[Stopped]:
    """What a halt stopped, so far."""
    for number in range(SHARDS):
        cursor: str | None = None
        while True:
            page = table.query(stopped_pk(halt.name, number), cursor=cursor)
            yield from (Stopped.read(item) for _, item in page.rows)
            cursor = page.cursor
            if cursor is None:
                break


def wake_walks(engine: Engine) -> None:
    """For halts whose walk is not complete: the sweeper's wake."""
    for halt in standing_halts(engine).values():
        if halt.walked_at is None:
            engine.waker.wake_walk(halt.scope, halt.generation)
