"""CancelTask (specification 3.1.5): decided here by one write, whatever the worker is doing."""

from datetime import datetime

from interlock.a2a.errors import PermissionDenied, TaskNotCancelable
from interlock.a2a.models import CancelTaskRequest, Task, TaskState
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask, wake_told
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, status
from interlock.engine.errors import SendCanceled
from interlock.engine.facts import CANCEL_REQUESTED, VETO_VETOED, Fact
from interlock.engine.ports import ConditionFailed, Delete, Missing, OutcomeUnknown, Put, Write
from interlock.engine.records import Checkpoint, Event, SendKey, TaskMeta
from interlock.engine.send_key import IDEMPOTENCY_METADATA, checked_key
from interlock.engine.view import TaskView, present
from interlock.engine.visibility import check_tenant, is_there, visible_task
from interlock.oversight.principals import Principal, Role


def cancel_task(
    engine: Engine, caller: Principal, request: CancelTaskRequest, *, extensions: frozenset[str]
) -> Task:
    """The canceled task; the same again for a task that is canceled already.

    Where there is no task of that id, and the metadata has an idempotency key, the caller's send of that key
    is canceled: also one that has not arrived yet, and one whose task has ended is answered with that. Raises
    `TaskNotFound`, `SendCanceled`, and `TaskNotCancelable` for a task that ended otherwise.
    """
    check_tenant(caller, request.tenant)
    key = checked_key((request.metadata or {}).get(IDEMPOTENCY_METADATA))
    task_id, op = request.id, new_id()
    if key is not None and not is_there(engine, caller, task_id):
        task_id = sent_as(engine, caller, key)
    for _ in attempts(engine.clock):
        view = visible_task(engine, caller, task_id)
        meta = view.meta
        if meta.task_state is TaskState.CANCELED or (meta.task_state.terminal and task_id != request.id):
            if meta.delegates:
                engine.waker.wake_children(meta.tenant, meta.task_id)
            return present(*view, extensions)
        if meta.task_state.terminal:
            raise TaskNotCancelable(metadata={"taskId": meta.task_id})
        canceled, writes = cancellation(meta, engine.clock.now(), op, by=caller.id)
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        if meta.ask is not None:
            wake_told(engine.waker, meta)
        if meta.delegates:
            engine.waker.wake_children(meta.tenant, meta.task_id)
        return present(canceled.meta, [*view.events, *canceled.events], extensions)
    raise AssertionError("attempts end by raising")


def cancellation(
    meta: TaskMeta, now: datetime, op: str, *, by: str | None, text: str | None = None
) -> tuple[TaskView, list[Write]]:
    """The task as it will be with the one event of that, and the writes that end it."""
    message = agent_message(meta, text) if text is not None else None
    event = Event(status=status(TaskState.CANCELED, now, message), by=by)
    changes = {"fence": meta.fence + 1, **NOTHING_ASKED}
    # By somebody: a lease that lapses meanwhile is no veto.
    vetoed = by is not None and meta.held and not meta.approval
    fact = Fact(VETO_VETOED if vetoed else CANCEL_REQUESTED, by, detail={"prompt": meta.ask})
    moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=fact)
    # The run, if there is one, can write nothing more: its fence is no longer the task's.
    writes.append(Delete(meta.run_key))
    if meta.ask is not None:
        outcome = Checkpoint.VETOED if vetoed else Checkpoint.CANCELED
        writes += close_ask(meta, meta.ask, outcome, now, by=by)
    return TaskView(moved, [event]), writes


def sent_as(engine: Engine, caller: Principal, key: str) -> str:
    """The task of a send. One that has not arrived leaves a note, which refuses it when it comes.

    Raises `SendCanceled` then, and `PermissionDenied` for one who may not send.
    """
    if not caller.has(Role.CALLER):
        raise PermissionDenied("Only a caller may cancel a send")
    row = SendKey.key_of(caller.tenant, caller.id, key)
    for _ in attempts(engine.clock):
        item = engine.table.get(row)
        if item is not None:
            sent = SendKey.read(item)
            if sent.canceled:
                break
            return sent.task_id
        try:
            engine.table.write(Put(row, SendKey(task_id="", digest="").item(), (Missing("v"),)))
        except (ConditionFailed, OutcomeUnknown):
            continue
        break
    raise SendCanceled(metadata={})
