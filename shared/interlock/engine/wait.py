"""A blocking send: waits until the task is terminal or interrupted (specification 3.2.2)."""

from interlock.engine.context import Engine
from interlock.engine.view import TaskView, load

FIRST_PAUSE_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 0.5


def settled(engine: Engine, view: TaskView) -> TaskView:
    """The task once it has settled, or as it is when the time for a blocking call is over.

    Each look is one query, of META and of the events that are new since the last.
    """
    until = engine.clock.now().timestamp() + engine.limits.blocking
    pause = FIRST_PAUSE_SECONDS
    while True:
        state = view.meta.task_state
        if state.terminal or state.interrupted or engine.clock.now().timestamp() + pause > until:
            return view
        engine.clock.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
        view = load(engine.table, view.meta.tenant, view.meta.task_id, view.events) or view
