"""What people are told of: a notice goes into the transaction of what it tells of."""

from datetime import datetime
from enum import StrEnum
from uuid import uuid4

from interlock.engine.ports import Missing, Put, Write
from interlock.engine.records import Due, Notice, TaskMeta, instant

TELL = "tell"


class Tells(StrEnum):
    """What a notice tells of."""

    STARTED = "started"
    """A task of a skill that only notifies."""
    ASKED = "asked"
    """A checkpoint waits, or a window of veto is open."""
    REMINDER = "reminder"
    ESCALATED = "escalated"
    """Nobody has answered in the time that people have."""
    HANDED = "handed"
    """Somebody has passed a checkpoint on to somebody, whose claim it is now."""
    SETTLED = "settled"
    """A checkpoint that was told of has ended: however that was, and wherever it was decided."""


def to_tell(meta: TaskMeta, tells: Tells, now: datetime, ask_id: str | None = None) -> list[Write]:
    """Go into the transaction of what they tell of; afterwards the task's notices are woken for."""
    notice = Notice(meta.tenant, meta.task_id, str(uuid4()), tells.value, instant(now), ask_id)
    due = Due(TELL, meta.tenant, meta.task_id, notice.id, instant(now))
    return [Put(notice.key, notice.item(), (Missing("v"),)), Put(due.key, due.item())]
