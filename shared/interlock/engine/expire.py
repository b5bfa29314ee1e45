"""A prompt whose time is over."""

from interlock.a2a.models import TaskState
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, status
from interlock.engine.facts import PROMPT_EXPIRED, Fact
from interlock.engine.halts import halted_in, unless_halted
from interlock.engine.ports import ConditionFailed, Delete, Key, OutcomeUnknown, Write
from interlock.engine.records import Checkpoint, Due, Event, TaskMeta


def expire(engine: Engine, key: Key, due: Due) -> None:
    """The end of a prompt's time: nothing was decided, so nothing runs, and the task ends FAILED.

    The row goes in the same transaction; one of a prompt that is closed already is deleted. While halted
    nothing is done, and the row stays.
    """
    op = new_id()
    for _ in attempts(engine.clock):
        meta_item, ask_item = engine.table.get_many(
            [
                TaskMeta.key_of(due.tenant, due.task_id),
                Checkpoint.key_of(due.tenant, due.task_id, due.id),
            ]
        )
        if meta_item is None or ask_item is None:
            raise AssertionError("a due row of a prompt that is not there")
        meta, ask = TaskMeta.read(meta_item), Checkpoint.read(ask_item)
        if ask.status == Checkpoint.OPEN and meta.ask != ask.ask_id:
            # Closed between the two reads.
            continue
        writes: list[Write] = (
            [Delete(key)] if ask.status != Checkpoint.OPEN else _expiry(engine, meta, ask, key, op)
        )
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            if halted_in(failed, writes) is not None:
                return
            continue
        except OutcomeUnknown:
            continue
        if meta.delegates:
            engine.waker.wake_children(meta.tenant, meta.task_id)
        return


def _expiry(engine: Engine, meta: TaskMeta, ask: Checkpoint, key: Key, op: str) -> list[Write]:
    now = engine.clock.now()
    message = agent_message(meta, "The deadline passed without an answer: nothing was run.")
    event = Event(status=status(TaskState.FAILED, now, message))
    fact = Fact(PROMPT_EXPIRED, detail={"prompt": ask.ask_id, "requestedBy": ask.requested_by})
    _, writes = move(meta, event, now=now, op=op, changes={**NOTHING_ASKED}, fact=fact)
    closed = close_ask(meta, ask.ask_id, Checkpoint.EXPIRED, now)
    return [*writes, closed, Delete(key), *unless_halted(meta)]
