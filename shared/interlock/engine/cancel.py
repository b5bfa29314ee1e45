"""CancelTask (specification 3.1.5): decided here by one write, whatever the worker is doing."""

from interlock.a2a.errors import TaskNotCancelable
from interlock.a2a.models import CancelTaskRequest, Task, TaskState
from interlock.engine.checkpoints import close_ask
from interlock.engine.context import Engine, attempts, move, new_id, status
from interlock.engine.ports import ConditionFailed, Delete, OutcomeUnknown
from interlock.engine.records import Checkpoint, Event
from interlock.engine.view import load, present
from interlock.engine.visibility import check_tenant, not_found, visible_meta
from interlock.oversight.principals import Principal


def cancel_task(
    engine: Engine, caller: Principal, request: CancelTaskRequest, *, extensions: frozenset[str]
) -> Task:
    """The canceled task; the same again for a task that is canceled already.

    Raises `TaskNotFound`, and `TaskNotCancelable` for a task that ended otherwise.
    """
    check_tenant(caller, request.tenant)
    op = new_id()
    for _ in attempts(engine.clock):
        meta = visible_meta(engine, caller, request.id)
        if meta.task_state is TaskState.CANCELED:
            break
        if meta.task_state.terminal:
            raise TaskNotCancelable(metadata={"taskId": meta.task_id})
        now = engine.clock.now()
        event = Event(status=status(TaskState.CANCELED, now), by=caller.id)
        _, writes = move(meta, event, now=now, op=op, changes={"fence": meta.fence + 1, "ask": None})
        # The run, if there is one, can write nothing more: its fence is no longer the task's.
        writes.append(Delete(meta.run_key))
        if meta.ask is not None:
            writes.append(close_ask(meta, meta.ask, Checkpoint.CANCELED, now))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        break
    loaded = load(engine.table, caller.tenant, request.id)
    if loaded is None:
        raise not_found(request.id)
    return present(*loaded, extensions)
