"""Stopping a turn: one that nobody claimed ends at once, one that runs is told to stop and fenced off.

A stop names the turn that was seen while halted, so it never touches a later one; a task without a RUN row
waits for somebody and is never stopped (I4).
"""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from interlock.a2a.models import TaskState
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, new_run, status
from interlock.engine.facts import RUN_STOPPING, Fact
from interlock.engine.halts import halt_keys
from interlock.engine.ports import (
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Missing,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)
from interlock.engine.records import Event, Halt, Run, SendKey, Stopped, TaskMeta, instant

ABANDONED = "The agent had been told to stop, and was not heard of again; what it does outside may go on."


def stop_turn(engine: Engine, seen: Run, why: str, halt: Halt | None = None) -> None:
    """On return the turn of `seen` is gone, or told to stop. `halt`: in whose report it is noted, also where
    another halt has told it already."""
    op, tried = new_id(), False
    for _ in attempts(engine.clock):
        meta, run = read_run(engine, seen)
        if meta is None:
            return
        if run is None or meta.task_state.terminal or run.turn != seen.turn or stopped_for(run, halt):
            if tried and meta.delegates:
                # By an earlier try, perhaps, whose reply was lost.
                engine.waker.wake_children(meta.tenant, meta.task_id)
            return
        now = engine.clock.now()
        if run.phase == Run.NEW:
            writes = withdrawal(meta, run, why, now, op)
        elif run.phase == Run.CLAIMED:
            writes = _stopping(engine, meta, run, why, halt, now, op)
        else:
            writes = []
        if halt is not None:
            writes.append(_noted(halt, run, now))
            if run.phase == Run.STOPPING:
                writes.append(Update(run.key, {"stopped_by": _with(run, halt)}, conditions=_as_seen(run)))
        tried = True
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        if meta.delegates:
            engine.waker.wake_children(meta.tenant, meta.task_id)
        return


def stopped_for(run: Run, halt: Halt | None) -> bool:
    """Whether nothing more is to be done to stop it, nor to note it for this halt."""
    return run.phase == Run.STOPPING and (halt is None or halt.name in (run.stopped_by or "").split())


def _with(run: Run, halt: Halt) -> str:
    return " ".join([*(run.stopped_by or "").split(), halt.name])


def read_run(engine: Engine, seen: Run) -> tuple[TaskMeta | None, Run | None]:
    """No snapshot: what is written is conditional on both."""
    meta_item, run_item = engine.table.get_many([TaskMeta.key_of(seen.tenant, seen.task_id), seen.key])
    meta = TaskMeta.read(meta_item) if meta_item is not None else None
    return meta, Run.read(run_item) if run_item is not None else None


def withdrawal(meta: TaskMeta, run: Run, why: str, now: datetime, op: str) -> list[Write]:
    """Ends a task whose turn did not start. If that was its first, the task was never accepted."""
    first = meta.turn == 1
    event = Event(status=status(TaskState.CANCELED, now, agent_message(meta, f"halted: {why}")))
    changes: dict[str, Any] = {"fence": meta.fence + 1, "halted": True, "withdrawn": first}
    _, writes = move(meta, event, now=now, op=op, changes=changes)
    writes.append(Delete(run.key, _as_seen(run)))
    if first:
        writes.extend(free_key(meta))
    return writes


def free_key(meta: TaskMeta) -> list[Write]:
    """The idempotency key may make another task. Only while it still names this one."""
    if meta.send_key is None:
        return []
    key = SendKey.key_of(meta.tenant, meta.owner, meta.send_key)
    return [Delete(key, (Equals("task_id", meta.task_id),))]


def _as_seen(run: Run) -> tuple[Equals, Equals]:
    return Equals("turn", run.turn), Equals("phase", run.phase)


def _stopping(
    engine: Engine, meta: TaskMeta, run: Run, why: str, halt: Halt | None, now: datetime, op: str
) -> list[Write]:
    """The fence is raised at once, so the run records nothing more, whatever its code does."""
    fact = Fact(RUN_STOPPING, detail={"reason": why, "halt": halt.name if halt is not None else None})
    moved, writes = move(meta, None, now=now, op=op, changes={"fence": meta.fence + 1}, fact=fact)
    stopping: Item = {
        "phase": Run.STOPPING,
        "fence": moved.fence,
        "reason": why,
        "grace_until": instant(now + timedelta(seconds=engine.limits.grace)),
    }
    if halt is not None:
        stopping["stopped_by"] = halt.name
    writes.append(Update(run.key, stopping, conditions=_as_seen(run)))
    return writes


def _ended(run: Run, at: Item) -> list[Write]:
    """In the reports of all halts that have told it to stop."""
    halts = (run.stopped_by or "").split()
    keys = [Stopped.key_of(halt, run.tenant, run.task_id, run.turn) for halt in halts]
    return [Update(key, at) for key in keys]


def _noted(halt: Halt, run: Run, now: datetime) -> Put:
    at, started = instant(now), run.phase != Run.NEW
    row = Stopped(run.tenant, run.task_id, run.turn, started, at, None if started else at)
    return Put(Stopped.key_of(halt.name, run.tenant, run.task_id, run.turn), row.item())


def finish_stop(engine: Engine, seen: Run, *, heard: bool) -> None:
    """Ends the task of a turn that was told to stop: its code returned (`heard`), or its grace is over."""
    op = new_id()
    for _ in attempts(engine.clock):
        meta, run = read_run(engine, seen)
        if meta is None:
            return
        if run is None or meta.task_state.terminal or run.turn != seen.turn or run.phase != Run.STOPPING:
            if heard:
                _note_end(engine, seen, meta)
            return
        now = engine.clock.now()
        text = f"halted: {run.reason}" if heard else f"halted: {run.reason}. {ABANDONED}"
        event = Event(status=status(TaskState.CANCELED, now, agent_message(meta, text)))
        _, writes = move(meta, event, now=now, op=op, changes={"halted": True})
        writes.append(Delete(run.key, _as_seen(run)))
        writes += _ended(run, {"ended_at" if heard else "abandoned_at": instant(now)})
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return


def _note_end(engine: Engine, seen: Run, meta: TaskMeta) -> None:
    """Of code that has ended although its task was ended by somebody else, as by a cancel: the reports of the
    halts that hold say so. Without it they say that it was not heard of."""
    ended: Item = {"ended_at": instant(engine.clock.now())}
    unheard = (Equals("turn", seen.turn), Missing("ended_at"))
    for item in engine.table.get_many(halt_keys(meta)):
        if item is not None and "on" in item:
            key = Stopped.key_of(Halt.read(item).name, seen.tenant, seen.task_id, seen.turn)
            with suppress(ConditionFailed):
                engine.table.write(Update(key, ended, conditions=unheard))


def back_out(engine: Engine, claimed: TaskMeta, why: str, halt: Halt | None) -> None:
    """Of a claimer that knows that it did not start the turn: also if somebody else stops it meanwhile.

    Then the send was not accepted, and its key is free, although the turn was claimed.
    """
    turn, op = claimed.turn, new_id()
    seen = new_run(claimed, engine.clock.now())
    for _ in attempts(engine.clock):
        meta, run = read_run(engine, seen)
        if meta is None or meta.turn != turn:
            return
        now = engine.clock.now()
        writes: list[Write] = []
        if meta.task_state.terminal:
            if meta.halted and turn == 1:
                writes = free_key(meta)
        elif run is None:
            continue  # it ended between the two reads
        elif run.turn == turn:
            writes = withdrawal(meta, run, run.reason or why, now, op)
            if halt is not None and run.phase == Run.CLAIMED:
                writes.append(_noted(halt, replace(run, phase=Run.NEW), now))
            else:
                writes += _ended(run, {"ended_at": instant(now), "started": False})
        if not writes:
            return
        try:
            engine.table.write(*writes)
        except ConditionFailed:
            if meta.task_state.terminal:
                return  # the key names another task by now, or was freed
        except OutcomeUnknown:
            pass
        else:
            return
