"""More time for a question: its deadline is put off by one write, which excludes an expiry, or is excluded.

It starts nothing and answers nothing, so it is possible while halted: what waits shall not all be over when
the halt is lifted.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from interlock.a2a.errors import InvalidParams
from interlock.engine.attend import Attended, attend
from interlock.engine.context import Engine
from interlock.engine.facts import PROMPT_EXTENDED, Fact
from interlock.engine.notices import to_remind
from interlock.engine.ports import Put, Write
from interlock.engine.records import Checkpoint, Due, instant
from interlock.engine.shown import Question
from interlock.oversight.principals import Principal

MAX_AHEAD = timedelta(days=7)
"""From now."""


def extend(engine: Engine, caller: Principal, task_id: str, ask_id: str, until: datetime) -> Question:
    """Raises as `attend` does, and `InvalidParams` unless `until` is later, and within `MAX_AHEAD`."""

    def change(attended: Attended) -> tuple[Checkpoint, list[Write]] | None:
        found, now, at = attended.checkpoint, attended.now, instant(until)
        if found.deadline is None:
            raise InvalidParams("It has no deadline")
        if found.deadline == at and found.extended_by == caller.id:
            return None
        if at <= found.deadline:
            raise InvalidParams("until must be later than the deadline that holds")
        if until - now > MAX_AHEAD:
            raise InvalidParams(f"until must be within {MAX_AHEAD // timedelta(days=1)} days")
        moved = replace(found, deadline=at, extended_by=caller.id, view_at=f"{at}#{ask_id}")
        # Whoever comes to the old row finds that it is not due, and deletes it.
        due = Due("deadline", found.tenant, found.task_id, found.ask_id, at)
        detail = {"prompt": ask_id, "before": found.deadline, "until": at}
        fact = Fact(PROMPT_EXTENDED, caller.id, detail=detail).about(attended.meta)
        writes: list[Write] = [Put(due.key, due.item()), fact.put(found.tenant, now)]
        if attended.meta.told:
            writes += to_remind(replace(moved, asked_at=instant(now)))
        return moved, writes

    question, _ = attend(engine, caller, task_id, ask_id, change, while_halted=True)
    found = question.checkpoint
    if found.due_key is not None:
        engine.waker.wake_timer(found.due_key, until)
    return question
