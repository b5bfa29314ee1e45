"""A blocking send: waits until the task is terminal or interrupted (specification 3.2.2)."""

from interlock.a2a.models import Task
from interlock.engine.context import Engine
from interlock.engine.records import TaskMeta
from interlock.engine.view import load, present
from interlock.engine.visibility import not_found
from interlock.oversight.principals import Principal

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


def settled(
    engine: Engine,
    caller: Principal,
    task_id: str,
    *,
    extensions: frozenset[str],
    history_length: int | None,
    blocking: bool,
) -> Task:
    """The task once it has settled, or as it is when the time for a blocking call is over.

    META is small, so looking at it costs one read unit; the events are read once, at the end.
    """
    key = TaskMeta.key_of(caller.tenant, task_id)
    until = engine.clock.now().timestamp() + (engine.limits.blocking if blocking else 0)
    pause = FIRST_PAUSE_SECONDS
    while blocking:
        item = engine.table.get(key)
        if item is None:
            raise not_found(task_id)
        state = TaskMeta.read(item).task_state
        if state.terminal or state.interrupted or engine.clock.now().timestamp() + pause > until:
            break
        engine.clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
    loaded = load(engine.table, caller.tenant, task_id)
    if loaded is None:
        raise not_found(task_id)
    return present(*loaded, extensions, history_length=history_length)
