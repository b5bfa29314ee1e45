"""What waits for a person, and the answer."""

from collections.abc import Callable
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from pydantic import ConfigDict, Field

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Message, Part, Wire, timestamp
from interlock.a2a.models import Role as MessageRole
from interlock.doors.people.door import Cursor, Door, described
from interlock.doors.people.shown import CheckpointBody, body
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.calls import Call
from interlock.engine.context import Engine, new_id
from interlock.engine.decide import Deciding, decide
from interlock.engine.errors import store_errors
from interlock.engine.inbox import MAX_PAGE_SIZE, PAGE_SIZE, checkpoint, history, open_checkpoints
from interlock.engine.resume import resume_task
from interlock.engine.shown import Question
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.principals import Principal


class InboxBody(Wire):
    """Open checkpoints, the most urgent first, or closed ones, the newest first. `now` is the server's
    clock."""

    checkpoints: list[CheckpointBody]
    cursor: str | None = None
    now: str


class AnswerBody(Wire):
    model_config = ConfigDict(extra="forbid")

    payload: dict[str, Any]


class DecisionBody(Wire):
    """`digest` is that of the action that was shown. `changes` sends it back, edited or not."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "deny", "changes"]
    digest: Annotated[str, Field(max_length=256)]
    comment: Annotated[str, Field(max_length=approvals.MAX_COMMENT)] | None = None
    edited: dict[str, Any] | None = None


class AdmittedBody(Wire):
    """`counted`: the prompt needs more equal answers before the task goes on."""

    status: Literal["accepted", "counted"]


class ResumedBody(Wire):
    status: Literal["resumed"] = "resumed"


TaskId = Annotated[str, Path(min_length=1, max_length=256)]
CheckpointId = Annotated[UUID, Path()]
ListPage = Callable[[Engine, Principal, str | None, int], tuple[list[Question], str | None]]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]
IdempotencyKey = Annotated[str | None, Header(min_length=16, max_length=255, pattern=r"^[A-Za-z0-9\-_.:]+$")]


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    def listed(list_page: ListPage, who: Principal, cursor: str | None, limit: int) -> InboxBody:
        with store_errors():
            questions, following = list_page(engine, who, cursor, limit)
        now = engine.clock.now()
        return InboxBody(
            checkpoints=[body(question, who, now, engine.limits) for question in questions],
            cursor=following,
            now=timestamp(now),
        )

    @routes.get("/checkpoints", response_model_exclude_none=True)
    def list_open(who: Caller, cursor: Cursor = None, limit: Limit = PAGE_SIZE) -> InboxBody:
        """The open checkpoints of the caller's tenant."""
        return listed(open_checkpoints, who, cursor, limit)

    @routes.get("/history", response_model_exclude_none=True)
    def list_closed(who: Caller, cursor: Cursor = None, limit: Limit = PAGE_SIZE) -> InboxBody:
        """The closed checkpoints of the caller's tenant."""
        return listed(history, who, cursor, limit)

    @routes.get("/tasks/{task_id}/checkpoints/{checkpoint_id}", response_model_exclude_none=True)
    def get_one(who: Caller, task_id: TaskId, checkpoint_id: CheckpointId) -> CheckpointBody:
        """One checkpoint, open or closed."""
        with store_errors():
            found = checkpoint(engine, who, task_id, str(checkpoint_id))
        return body(found, who, engine.clock.now(), engine.limits)

    def decision_body(
        request: Request, body: Annotated[DecisionBody, Depends(door.body(DecisionBody))]
    ) -> DecisionBody:
        """Also when the decision is refused, what it was is noted."""
        call: Call = request.state.call
        call.decision = {**(call.decision or {}), "decision": body.decision}
        return body

    @routes.post("/tasks/{task_id}/checkpoints/{checkpoint_id}/answer", openapi_extra=described(AnswerBody))
    def answer(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[AnswerBody, Depends(door.body(AnswerBody))],
        idempotency_key: IdempotencyKey = None,
    ) -> AdmittedBody:
        """Answers it. A repeat with the same `Idempotency-Key` and payload is told the same as the first."""
        prompt_id = str(checkpoint_id)
        message = Message(
            message_id=idempotency_key or new_id(),
            role=MessageRole.USER,
            parts=[Part(data=body.payload)],
            task_id=task_id,
            metadata={hitl_prompt.RESPONSE_KEY: {"prompt_id": prompt_id, "payload": body.payload}},
        )
        with store_errors():
            admitted = admit_answer(engine, Answer(who, task_id, prompt_id, body.payload, message))
        return AdmittedBody(status=admitted.value)

    @routes.post("/tasks/{task_id}/checkpoints/{checkpoint_id}/decide", openapi_extra=described(DecisionBody))
    def decide_one(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[DecisionBody, Depends(decision_body)],
    ) -> AdmittedBody:
        """Approves or denies exactly the action whose digest was shown, or sends it back with changes.

        Sent back it is not done: the message in the task's history denies it, and holds the edited action.
        """
        wants_changes = body.decision == approvals.CHANGES
        if body.edited is not None and not wants_changes:
            raise InvalidParams("An edited action goes with the decision `changes`")
        decision = approvals.Decision(
            str(checkpoint_id), approvals.DENY if wants_changes else body.decision, body.digest, body.comment
        )
        message = Message(
            message_id=new_id(),
            role=MessageRole.USER,
            parts=[
                Part(text=body.comment or body.decision),
                *([Part(data=body.edited)] if body.edited is not None else []),
            ],
            task_id=task_id,
            metadata={approvals.KEY: decision.to_wire()},
            extensions=[approvals.URI],
        )
        changes = approvals.Changes(body.edited) if wants_changes else None
        with store_errors():
            admitted, _ = decide(engine, Deciding(who, task_id, message, changes=changes))
        return AdmittedBody(status=admitted.value)

    @routes.post("/tasks/{task_id}/resume")
    def resume(who: Caller, task_id: TaskId) -> ResumedBody:
        """Goes on with a task that waits for a credential, because it has arrived."""
        with store_errors():
            resume_task(engine, who, task_id)
        return ResumedBody()

    return routes
