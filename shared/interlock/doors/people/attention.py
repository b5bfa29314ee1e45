"""What people do to a checkpoint beside deciding it: more time for it, claiming it, passing it on."""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field

from interlock.a2a.models import Wire
from interlock.doors.people.checkpoints import CheckpointId, TaskId
from interlock.doors.people.door import Door, TimeText, described, time_of
from interlock.doors.people.shown import CheckpointBody, body
from interlock.engine.away import MAX_IDENTITY
from interlock.engine.claim import claim, unclaim
from interlock.engine.errors import store_errors
from interlock.engine.extend import extend
from interlock.engine.hand_over import hand_over
from interlock.engine.shown import Question
from interlock.oversight.principals import Principal

MAX_NOTE = 2000
"""Characters."""
ONE = "/tasks/{task_id}/checkpoints/{checkpoint_id}"


class ExtendBody(Wire):
    """`until` is of RFC 3339: later than the deadline that holds, within 7 days from now."""

    model_config = ConfigDict(extra="forbid", strict=True)

    until: TimeText


class ClaimBody(Wire):
    model_config = ConfigDict(extra="forbid", strict=True)


class PassOnBody(Wire):
    """`to` is an identity, as `bearer:bob`, or `operators`. `comment` is shown to them."""

    model_config = ConfigDict(extra="forbid", strict=True)

    to: Annotated[str, Field(min_length=1, max_length=MAX_IDENTITY)]
    comment: Annotated[str, Field(min_length=1, max_length=MAX_NOTE)] | None = None


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    def shown(question: Question, who: Principal) -> CheckpointBody:
        return body(question, who, engine.clock.now(), engine.limits)

    @routes.post(f"{ONE}/extend", response_model_exclude_none=True, openapi_extra=described(ExtendBody))
    def extend_one(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[ExtendBody, Depends(door.body(ExtendBody))],
    ) -> CheckpointBody:
        """Puts its deadline off. Also while halted; not of a window of veto, and not once it is over."""
        until = time_of("until", body.until)
        with store_errors():
            return shown(extend(engine, who, task_id, str(checkpoint_id), until), who)

    @routes.post(f"{ONE}/claim", response_model_exclude_none=True, openapi_extra=described(ClaimBody))
    def claim_one(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[ClaimBody, Depends(door.body(ClaimBody))],  # noqa: ARG001
    ) -> CheckpointBody:
        """Says to others that somebody looks at it, for 15 minutes. It keeps nobody from deciding it."""
        with store_errors():
            return shown(claim(engine, who, task_id, str(checkpoint_id)), who)

    @routes.delete(f"{ONE}/claim", response_model_exclude_none=True)
    def unclaim_one(who: Caller, task_id: TaskId, checkpoint_id: CheckpointId) -> CheckpointBody:
        """Takes that back."""
        with store_errors():
            return shown(unclaim(engine, who, task_id, str(checkpoint_id)), who)

    @routes.post(f"{ONE}/pass-on", response_model_exclude_none=True, openapi_extra=described(PassOnBody))
    def pass_on_one(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[PassOnBody, Depends(door.body(PassOnBody))],
    ) -> CheckpointBody:
        """To somebody, whose claim it is for a day then and who is told; or to the operators, who are asked
        now. Not while halted."""
        with store_errors():
            return shown(hand_over(engine, who, task_id, str(checkpoint_id), body.to, body.comment), who)

    return routes
