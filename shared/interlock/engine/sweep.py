"""The sweeper: finds what nobody woke for. Every minute it walks the RUN and the DUE rows."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import ParamSpec

from interlock.a2a.models import TaskState
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, queue_turn, status
from interlock.engine.due import handle_due
from interlock.engine.halt import wake_walks
from interlock.engine.halts import halt_of, halted_in, standing_halts, unless_halted
from interlock.engine.ports import LAST, ConditionFailed, Delete, Equals, Item, Key, OutcomeUnknown, Table
from interlock.engine.records import (
    SHARDS,
    Due,
    Event,
    Halt,
    Run,
    TaskMeta,
    due_pk,
    instant,
    parse_instant,
    run_pk,
)
from interlock.engine.stop import finish_stop, stop_turn

logger = logging.getLogger(__name__)

LOST = "The worker that ran this turn was lost; what it had done outside may have happened."


def sweep(engine: Engine) -> int:
    """One pass over everything that waits. Returns how many rows could not be handled.

    Those stay, are logged, and are found again by the next pass: one bad row never hides the others.
    """
    failures = int(_failed(wake_walks, engine))
    soon = instant(engine.clock.now() + timedelta(seconds=engine.limits.arm_ahead))
    for number in range(SHARDS):
        for rows in _pages(engine.table, run_pk(number)):
            failures += look_at_runs(engine, rows)
        for rows in _pages(engine.table, due_pk(number), soon):
            failures += sum(_failed(look_at_due, engine, key, item) for key, item in rows)
    return failures


Rows = Sequence[tuple[Key, Item]]
P = ParamSpec("P")


def _pages(table: Table, pk: str, last: str = LAST) -> Iterator[Rows]:
    cursor: str | None = None
    while True:
        page = table.query(pk, last=last, cursor=cursor)
        if page.rows:
            yield page.rows
        cursor = page.cursor
        if cursor is None:
            return


def _failed(handle: Callable[P, None], *arguments: P.args, **options: P.kwargs) -> bool:
    try:
        handle(*arguments, **options)
    except Exception:
        logger.exception("a row could not be handled")
        return True
    return False


def look_at_due(engine: Engine, key: Key, item: Item) -> None:
    """What is due is handled here; what soon falls due gets a delayed wake."""
    due = Due.read(item)
    if instant(engine.clock.now()) >= due.at:
        handle_due(engine, key)
    else:
        engine.waker.wake_timer(key, parse_instant(due.at))


def look_at_runs(engine: Engine, rows: Rows) -> int:
    """Returns how many could not be handled. The rows come first and the halts after, as in a walk."""
    halts = standing_halts(engine)
    runs = [Run.read(item) for _, item in rows]
    return sum(
        _failed(look_at_run, engine, run, halt_of(halts, run.tenant, run.agent, run.skill)) for run in runs
    )


def look_at_run(engine: Engine, run: Run, halt: Halt | None) -> None:
    """What is halted is stopped. Else a turn that nobody claimed is woken for again, and one whose worker
    fell silent is given up for lost."""
    now = engine.clock.now()
    if run.phase == Run.STOPPING:
        if run.grace_until is not None and instant(now) >= run.grace_until:
            finish_stop(engine, run, heard=False)
    elif halt is not None:
        stop_turn(engine, run, halt.reason, halt)
    elif run.phase == Run.NEW:
        if instant(now - timedelta(seconds=engine.limits.wake_again)) >= run.queued_at:
            engine.waker.wake_turn(run.tenant, run.task_id, run.turn)
    elif run.lease_until is not None and instant(now) >= run.lease_until:
        give_up(engine, run)


def wake_waiting(engine: Engine, tenant: str, task_id: str, turn: int) -> None:
    """The stream's second wake, sent only if the turn is still to be claimed."""
    item = engine.table.get(TaskMeta.key_of(tenant, task_id))
    meta = TaskMeta.read(item) if item is not None else None
    if meta is not None and not meta.task_state.terminal and meta.turn == turn and meta.claimed < turn:
        engine.waker.wake_turn(tenant, task_id, turn)


def give_up(engine: Engine, lost: Run) -> None:
    """Ends the task FAILED, or queues the turn again if its skill says that running it twice does no harm.

    The fence rises, so a worker that was only slow records nothing more (I2, I5).
    """
    op = new_id()
    for _ in attempts(engine.clock):
        item = engine.table.get(TaskMeta.key_of(lost.tenant, lost.task_id))
        if item is None:
            raise AssertionError("a RUN row of a task that is not there")
        meta = TaskMeta.read(item)
        if meta.task_state.terminal or meta.fence != lost.fence:
            return
        now = engine.clock.now()
        again = meta.rerun and lost.attempt <= engine.limits.reruns
        state = TaskState.WORKING if again else TaskState.FAILED
        event = Event(status=status(state, now, agent_message(meta, LOST)))
        changes = {"fence": meta.fence + 1, **({"turn": meta.turn + 1} if again else {})}
        moved, writes = move(meta, event, now=now, op=op, changes=changes)
        # Lost only if it did not renew since the row was read: the lease decides in the write.
        silent = (Equals("fence", lost.fence), Equals("lease_until", lost.lease_until or ""))
        if again:
            queued = queue_turn(moved, now, lost.attempt + 1)
            writes.append(replace(queued, conditions=silent))
            # A halt that came meanwhile stops the turn that was lost, and would miss this one.
            writes.extend(unless_halted(meta))
        else:
            writes.append(Delete(lost.key, silent))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown) as error:
            if isinstance(error, ConditionFailed) and halted_in(error, writes) is not None:
                return
            run_item = engine.table.get(lost.key)
            if run_item is None or Run.read(run_item) != lost:
                return
            continue
        if again:
            engine.waker.wake_turn(lost.tenant, lost.task_id, moved.turn)
        if meta.delegates:
            engine.waker.wake_children(lost.tenant, lost.task_id)
        return
