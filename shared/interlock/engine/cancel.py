"""CancelTask (specification 3.1.5): decided here by one write, whatever the worker is doing."""

from interlock.a2a.errors import TaskNotCancelable
from interlock.a2a.models import CancelTaskRequest, Task, TaskState
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask
from interlock.engine.context import Engine, attempts, move, new_id, status
from interlock.engine.facts import CANCEL_REQUESTED, Fact
from interlock.engine.ports import ConditionFailed, Delete, OutcomeUnknown
from interlock.engine.records import Checkpoint, Event
from interlock.engine.view import present
from interlock.engine.visibility import check_tenant, visible_task
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
        view = visible_task(engine, caller, request.id)
        meta = view.meta
        if meta.task_state is TaskState.CANCELED:
            return present(*view, extensions)
        if meta.task_state.terminal:
            raise TaskNotCancelable(metadata={"taskId": meta.task_id})
        now = engine.clock.now()
        event = Event(status=status(TaskState.CANCELED, now), by=caller.id)
        changes = {"fence": meta.fence + 1, **NOTHING_ASKED}
        fact = Fact(CANCEL_REQUESTED, caller.id, detail={"prompt": meta.ask})
        moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=fact)
        # The run, if there is one, can write nothing more: its fence is no longer the task's.
        writes.append(Delete(meta.run_key))
        if meta.ask is not None:
            writes.append(close_ask(meta, meta.ask, Checkpoint.CANCELED, now))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return present(moved, [*view.events, event], extensions)
    raise AssertionError("attempts end by raising")
