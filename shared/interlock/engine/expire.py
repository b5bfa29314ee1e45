"""A prompt whose time is over."""

from datetime import datetime

from interlock.a2a.models import TaskState
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask, of_due, wake_told
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, status
from interlock.engine.facts import PROMPT_EXPIRED, Fact
from interlock.engine.halts import halted_in, unless_halted
from interlock.engine.ports import ConditionFailed, Delete, Equals, Key, OutcomeUnknown, Write
from interlock.engine.records import Checkpoint, Due, Event, TaskMeta


def expire(engine: Engine, key: Key, due: Due) -> None:
    """The end of a prompt's time: nothing was decided, so nothing runs, and the task ends FAILED.

    The row goes in the same transaction; one of a prompt that is closed already, or has got more time since,
    is deleted. While halted
    nothing is done, and the row stays.
    """
    op = new_id()
    for _ in attempts(engine.clock):
        found = of_due(engine.table, due)
        if found is None:
            continue
        meta, ask = found
        writes: list[Write] = [Delete(key)]
        if ask.status == Checkpoint.OPEN and ask.deadline == due.at:
            text = "The deadline passed without an answer: nothing was run."
            writes += unanswered(meta, ask, text, engine.clock.now(), op)
            writes += unless_halted(meta)
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            if halted_in(failed, writes) is not None:
                return
            continue
        except OutcomeUnknown:
            continue
        wake_told(engine.waker, meta)
        if meta.delegates:
            engine.waker.wake_children(meta.tenant, meta.task_id)
        return


def unanswered(meta: TaskMeta, ask: Checkpoint, text: str, now: datetime, op: str) -> list[Write]:
    """Ends the task with its checkpoint, unless that has changed since it was read: it may have more time."""
    event = Event(status=status(TaskState.FAILED, now, agent_message(meta, text)))
    fact = Fact(PROMPT_EXPIRED, detail={"prompt": ask.ask_id, "requestedBy": ask.requested_by})
    _, writes = move(meta, event, now=now, op=op, changes={**NOTHING_ASKED}, fact=fact)
    return [
        *writes,
        *close_ask(meta, ask.ask_id, Checkpoint.EXPIRED, now, conditions=(Equals("rev", ask.rev),)),
    ]
