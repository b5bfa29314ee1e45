"""Passing a question on at the people's door: to somebody who shall decide it, or to the operators."""

from dataclasses import replace
from datetime import timedelta

from interlock.a2a.errors import InvalidParams
from interlock.engine.attend import Attended, attend
from interlock.engine.away import is_identity
from interlock.engine.context import Engine
from interlock.engine.facts import REVIEWER_ASKED, Fact
from interlock.engine.ports import Write
from interlock.engine.records import Checkpoint, instant
from interlock.engine.reviewers import asked_next
from interlock.engine.shown import Question
from interlock.engine.tells import Tells, to_tell
from interlock.oversight import reviewers
from interlock.oversight.principals import Principal
from interlock.oversight.reviewers import OPERATORS, PASSED

HELD = timedelta(days=1)
"""How long a claim is that was handed over."""


def hand_over(
    engine: Engine, caller: Principal, task_id: str, ask_id: str, to: str, note: str | None = None
) -> Question:
    """`to` is an identity, whose claim it then is, or `operators`, who are asked now.

    Whether there is a person of that name shows once they decide: callers learn no names here. Raises as
    `attend` does, `Claimed` while somebody else's claim stands, and `Halted`: nothing is passed on then.
    """

    def change(attended: Attended) -> tuple[Checkpoint, list[Write]] | None:
        attended.check_free(caller)
        found, now = attended.checkpoint, attended.now
        fact = Fact(REVIEWER_ASKED, caller.id, detail={"prompt": ask_id, "asked": to, "passed": PASSED})
        told: list[Write] = [fact.about(attended.meta).put(found.tenant, now)]
        if to == OPERATORS:
            hops = reviewers.passed_to_last(reviewers.from_json(found.hops))
            if hops is None:
                return None
            moved = replace(found.unclaimed(), hops=reviewers.to_json(hops))
            moved, asked = asked_next(engine, attended.meta, moved, now)
            return moved, [*told, *asked]
        _check(attended, caller, to)
        if attended.meta.told:
            told += to_tell(attended.meta, Tells.HANDED, now, ask_id)
        return found.claimed(to, instant(now + HELD), caller.id, note), told

    question, meta = attend(engine, caller, task_id, ask_id, change, while_halted=False)
    if meta.told:
        engine.waker.wake_notices(meta.tenant, meta.task_id)
    return question


def _check(attended: Attended, caller: Principal, to: str) -> None:
    """As far as is known of whom it is passed on to."""
    if not is_identity(to):
        raise InvalidParams("to must be an identity, as `bearer:bob`, or `operators`")
    if to == caller.id:
        raise InvalidParams("to must be somebody else")
    asked, responders = attended.question.asked, attended.question.envelope.responders
    if asked is not None and to in asked.excluded:
        raise InvalidParams("They asked for it, and may not decide it")
    named = asked.gate.approvers if asked is not None else None
    if asked is None and not responders.open_to_any:
        named = responders.named
    if named is not None and to not in named:
        raise InvalidParams("They are not among those who may decide it")
