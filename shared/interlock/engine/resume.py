"""Going on with a task in AUTH_REQUIRED without a message (specification 7.6): the credential has arrived."""

from interlock.a2a.errors import PermissionDenied, UnsupportedOperation
from interlock.a2a.models import TaskState
from interlock.engine.context import Engine, attempts, landed, move, new_id, queue_turn, status
from interlock.engine.halts import Halted, halted_comes_first, halted_in, unless_halted
from interlock.engine.ports import ConditionFailed, OutcomeUnknown
from interlock.engine.records import Event
from interlock.engine.visibility import visible_meta
from interlock.oversight.principals import Principal, Role


def resume_task(engine: Engine, caller: Principal, task_id: str) -> None:
    """Queues the next turn: for the owner of the task, and the approvers of its tenant.

    Raises `TaskNotFound`, `PermissionDenied`, and `UnsupportedOperation` for a task that does not wait for a
    credential.
    """
    op, tried = new_id(), None
    refused: Halted | None = None
    for _ in attempts(engine.clock):
        meta = visible_meta(engine, caller, task_id)
        if tried is not None and landed(engine.table, tried, op):
            break
        if refused is not None:
            raise refused
        with halted_comes_first(engine, meta):
            if meta.owner != caller.id and not caller.has(Role.APPROVER):
                raise PermissionDenied("Only the task's owner and approvers may resume it")
            if meta.task_state is not TaskState.AUTH_REQUIRED:
                raise UnsupportedOperation("The task does not wait for a credential")
        now = engine.clock.now()
        event = Event(status=status(TaskState.WORKING, now), by=caller.id, resumed=True)
        changes = {"turn": meta.turn + 1, "inputs": meta.inputs + 1}
        moved, writes = move(meta, event, now=now, op=op, changes=changes)
        writes.append(queue_turn(moved, now))
        writes.extend(unless_halted(meta))
        tried = meta
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes)
            continue
        except OutcomeUnknown:
            continue
        break
    engine.waker.wake_turn(caller.tenant, task_id, moved.turn)
