"""Saying that one looks at a question, so that others need not. It keeps nobody from deciding."""

from datetime import timedelta

from interlock.engine.attend import Attended, attend
from interlock.engine.context import Engine
from interlock.engine.ports import Write
from interlock.engine.records import Checkpoint, instant
from interlock.engine.shown import Question
from interlock.oversight.principals import Principal

CLAIM = timedelta(minutes=15)


def claim(engine: Engine, caller: Principal, task_id: str, ask_id: str) -> Question:
    """For `CLAIM` from now. Raises as `attend` does, and `Claimed` while somebody else's stands."""

    def change(attended: Attended) -> tuple[Checkpoint, list[Write]]:
        attended.check_free(caller)
        until = instant(attended.now + CLAIM)
        return attended.checkpoint.claimed(caller.id, until), []

    return attend(engine, caller, task_id, ask_id, change, while_halted=True)[0]


def unclaim(engine: Engine, caller: Principal, task_id: str, ask_id: str) -> Question:
    """Takes one's claim back. Raises as `claim` does."""

    def change(attended: Attended) -> tuple[Checkpoint, list[Write]] | None:
        attended.check_free(caller)
        if attended.checkpoint.claim_by is None:
            return None
        return attended.checkpoint.unclaimed(), []

    return attend(engine, caller, task_id, ask_id, change, while_halted=True)[0]
