"""Who may see a task: its owner and, unless tasks are isolated, the agents above it that delegated it, and
the approvers and operators of its tenant.

A caller's tenant is part of every key, so another tenant's task is not there at all.
"""

from interlock.a2a.errors import InvalidParams, TaskNotFound
from interlock.a2a.models import MAX_ID_LENGTH, Message
from interlock.engine.context import Engine
from interlock.engine.ports import Key
from interlock.engine.records import TaskMeta
from interlock.engine.view import TaskView, load
from interlock.oversight.principals import Principal, Role


def sees(caller: Principal, meta: TaskMeta) -> bool:
    if meta.owner == caller.id:
        return True
    above = caller.id in meta.dispatchers.split()
    return not meta.isolated and (above or caller.has(Role.APPROVER, Role.OPERATOR))


def meta_key(caller: Principal, task_id: str) -> Key:
    if len(task_id) > MAX_ID_LENGTH:
        raise TaskNotFound(metadata={})
    return TaskMeta.key_of(caller.tenant, task_id)


def visible_meta(engine: Engine, caller: Principal, task_id: str) -> TaskMeta:
    """Raises `TaskNotFound`, the same for a task that is not there and one that the caller may not see."""
    item = engine.table.get(meta_key(caller, task_id))
    meta = TaskMeta.read(item) if item is not None else None
    if meta is None or not sees(caller, meta):
        raise not_found(task_id)
    return meta


def is_there(engine: Engine, caller: Principal, task_id: str) -> bool:
    """For the caller."""
    try:
        visible_meta(engine, caller, task_id)
    except TaskNotFound:
        return False
    return True


def visible_task(engine: Engine, caller: Principal, task_id: str) -> TaskView:
    """The same of the whole task."""
    meta_key(caller, task_id)
    view = load(engine.table, caller.tenant, task_id)
    if view is None or not sees(caller, view.meta):
        raise not_found(task_id)
    return view


def not_found(task_id: str) -> TaskNotFound:
    return TaskNotFound(metadata={"taskId": task_id[:MAX_ID_LENGTH]})


def check_context(message: Message, meta: TaskMeta) -> None:
    """Raises `InvalidParams` for a message that names another context than its task's."""
    if message.context_id is not None and message.context_id != meta.context_id:
        raise InvalidParams("message.contextId is not the task's")


def check_tenant(caller: Principal, tenant: str | None) -> None:
    """`tenant` is a routing string (specification 8.3.2), not a right: only the caller's own is accepted."""
    if tenant and tenant != caller.tenant:
        raise InvalidParams("Unknown tenant")
