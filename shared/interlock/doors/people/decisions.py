"""What people say to what waits for them: an answer, a decision, or several at once."""

import json
from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import NAMESPACE_URL, UUID, uuid5

from fastapi import APIRouter, Depends, Header, Request
from pydantic import ConfigDict, Field, model_validator

from interlock.a2a.errors import A2AError, InvalidParams, Unavailable
from interlock.a2a.http_json import error_members
from interlock.a2a.models import MAX_ID_LENGTH, Message, Part, Wire
from interlock.a2a.models import Role as MessageRole
from interlock.doors.people.checkpoints import CheckpointId, TaskId
from interlock.doors.people.door import Door, Refusal, described
from interlock.engine.answer import Admitted, Answer, admit_answer
from interlock.engine.calls import Call
from interlock.engine.context import new_id
from interlock.engine.decide import Deciding, decide
from interlock.engine.errors import store_errors
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.principals import Principal

MAX_DIGEST = 256
MAX_ITEMS = 50
MAX_VIEWED_MS = 86_400_000
BATCH_TIME = timedelta(seconds=15)
"""After that the rest of a batch is told to come again: API Gateway ends a request after 29 seconds."""

DigestText = Annotated[str, Field(min_length=1, max_length=MAX_DIGEST)]
CommentText = Annotated[str, Field(max_length=approvals.MAX_COMMENT)]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_VIEWED_MS, strict=True)]
IdempotencyKey = Annotated[str | None, Header(min_length=16, max_length=255, pattern=r"^[A-Za-z0-9\-_.:]+$")]


class AnswerBody(Wire):
    """`digest` is that of what was shown; `viewedMs` how long it was, for the statistics."""

    model_config = ConfigDict(extra="forbid")

    payload: dict[str, Any]
    digest: DigestText | None = None
    viewed_ms: Milliseconds | None = None


class DecisionBody(Wire):
    """`digest` is that of the action that was shown, `viewedMs` how long it was, for the statistics.
    `changes` sends it back, edited or not."""

    model_config = ConfigDict(extra="forbid")

    decision: Literal["approve", "deny", "changes"]
    digest: Annotated[str, Field(max_length=MAX_DIGEST)]
    comment: CommentText | None = None
    edited: dict[str, Any] | None = None
    viewed_ms: Milliseconds | None = None


class AdmittedBody(Wire):
    """`counted`: the prompt needs more equal answers before the task goes on."""

    status: Literal["accepted", "counted"]


class ItemBody(Wire):
    """A `decision` on an approval, or a `payload` that answers a prompt; `digest` is of what was shown."""

    model_config = ConfigDict(extra="forbid")

    task_id: Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]
    checkpoint_id: UUID
    digest: DigestText
    decision: Literal["approve", "deny"] | None = None
    comment: CommentText | None = None
    payload: dict[str, Any] | None = None
    viewed_ms: Milliseconds | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> "ItemBody":
        if (self.decision is None) == (self.payload is None):
            raise ValueError("either decision or payload")
        if self.comment is not None and self.decision is None:
            raise ValueError("a comment goes with a decision")
        return self


class DecisionsBody(Wire):
    """No checkpoint is in it twice."""

    model_config = ConfigDict(extra="forbid")

    items: Annotated[list[ItemBody], Field(min_length=1, max_length=MAX_ITEMS)]

    @model_validator(mode="after")
    def _no_item_twice(self) -> "DecisionsBody":
        if len({(item.task_id, item.checkpoint_id) for item in self.items}) < len(self.items):
            raise ValueError("a checkpoint is there twice")
        return self


class ResultBody(Wire):
    """`status`, or why it was refused."""

    task_id: str
    checkpoint_id: str
    status: Literal["accepted", "counted"] | None = None
    error: Refusal | None = None


class ResultsBody(Wire):
    """In the order of the items."""

    results: list[ResultBody]


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

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
        given = _answer(who, task_id, checkpoint_id, body, idempotency_key or new_id())
        with store_errors():
            admitted = admit_answer(engine, given)
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
        if body.edited is not None and body.decision != approvals.CHANGES:
            raise InvalidParams("An edited action goes with the decision `changes`")
        with store_errors():
            admitted, _ = decide(engine, _deciding(who, task_id, checkpoint_id, body))
        return AdmittedBody(status=admitted.value)

    @routes.post("/decisions", response_model_exclude_none=True, openapi_extra=described(DecisionsBody))
    def decide_many(
        who: Caller, body: Annotated[DecisionsBody, Depends(door.body(DecisionsBody))]
    ) -> ResultsBody:
        """Decides each by itself, of what was shown: none depends on another. Sent again, whoever had their
        way is told the same."""
        until = engine.clock.now() + BATCH_TIME

        def decided(item: ItemBody) -> Admitted:
            if engine.clock.now() >= until:
                raise Unavailable("There was no time left for this one", retry_after=1)
            said: dict[str, Any] = {"digest": item.digest, "viewed_ms": item.viewed_ms}
            if item.payload is None:
                decision = DecisionBody(decision=item.decision, comment=item.comment, **said)
                return decide(engine, _deciding(who, item.task_id, item.checkpoint_id, decision))[0]
            given = AnswerBody(payload=item.payload, **said)
            message_id = _same_again(who, item.checkpoint_id, item.payload)
            return admit_answer(engine, _answer(who, item.task_id, item.checkpoint_id, given, message_id))

        def result(item: ItemBody) -> ResultBody:
            names = {"task_id": item.task_id, "checkpoint_id": str(item.checkpoint_id)}
            try:
                with door.noted(_call(who, item)), store_errors():
                    return ResultBody(**names, status=decided(item).value)
            except A2AError as error:
                return ResultBody(**names, error=Refusal(**error_members(error)))

        return ResultsBody(results=[result(item) for item in body.items])

    return routes


def _answer(who: Principal, task_id: str, checkpoint_id: UUID, body: AnswerBody, message_id: str) -> Answer:
    prompt_id = str(checkpoint_id)
    message = Message(
        message_id=message_id,
        role=MessageRole.USER,
        parts=[Part(data=body.payload)],
        task_id=task_id,
        metadata={hitl_prompt.RESPONSE_KEY: {"prompt_id": prompt_id, "payload": body.payload}},
    )
    return Answer(
        who, task_id, prompt_id, body.payload, message, digest=body.digest, viewed_ms=body.viewed_ms
    )


def _deciding(who: Principal, task_id: str, checkpoint_id: UUID, body: DecisionBody) -> Deciding:
    wants_changes = body.decision == approvals.CHANGES
    said = approvals.DENY if wants_changes else body.decision
    decision = approvals.Decision(str(checkpoint_id), said, body.digest, body.comment)
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
    return Deciding(who, task_id, message, changes=changes, viewed_ms=body.viewed_ms)


def _same_again(who: Principal, checkpoint_id: UUID, payload: dict[str, Any]) -> str:
    """The message id of an answer, so that the same one again is known for it."""
    said = json.dumps(payload, sort_keys=True)
    return str(uuid5(NAMESPACE_URL, f"{checkpoint_id}/{who.id}/{said}"))


def _call(who: Principal, item: ItemBody) -> Call:
    """On the trail as if it had come by itself."""
    return Call(
        "people.answer" if item.decision is None else "people.decide_one",
        who,
        task_id=item.task_id,
        decision={"prompt": str(item.checkpoint_id), "decision": item.decision},
        part=True,
    )
