"""What waits for a person, and the answer."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Request
from pydantic import ConfigDict, Field

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import JsonObject, Message, Part, Wire, timestamp
from interlock.a2a.models import Role as MessageRole
from interlock.doors.people.door import Cursor, Door, described
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.calls import Call
from interlock.engine.context import new_id
from interlock.engine.decide import Deciding, decide
from interlock.engine.errors import store_errors
from interlock.engine.inbox import Question, checkpoint, open_checkpoints
from interlock.engine.records import parse_instant
from interlock.engine.resume import resume_task
from interlock.oversight import approvals, hitl_prompt, reviewers
from interlock.oversight.principals import Principal


class ApprovalBody(Wire):
    """What leave is asked for. A decision names the action by `digest`; `requesters` may not approve."""

    action: JsonObject
    summary: str
    digest: str
    approvers: list[str] | None = None
    requesters: list[str]
    approved_by: list[str]
    required: int


class HopBody(Wire):
    """`who` is an agent, `people` or `operators`; `outcome` is there once they have passed it on."""

    who: str
    outcome: str | None = None


class CheckpointBody(Wire):
    """What waits, or waited, for a person. `prompt` is untrusted text; times are UTC.

    `kind` is prompt, approval, or window: of veto, which asks nothing and passes at its `deadline` unless the
    task is canceled. `dispatch`: it is about whether the task may start at all. `number` is of its task,
    counted from 1. `chain`: whom it is put to, one after the other.
    """

    task_id: str
    checkpoint_id: str
    kind: Literal["prompt", "approval", "window"]
    number: int
    dispatch: bool
    chain: list[HopBody]
    agent: str
    skill: str
    requested_by: str
    prompt: str
    response_schema: JsonObject
    allowed_responders: list[str]
    needed: int
    votes: int
    asked_at: str
    deadline: str | None = None
    status: str
    approval: ApprovalBody | None = None


class InboxBody(Wire):
    """Open checkpoints, the most urgent first. `now` is the server's clock."""

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
IdempotencyKey = Annotated[str | None, Header(min_length=16, max_length=255, pattern=r"^[A-Za-z0-9\-_.:]+$")]


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/checkpoints", response_model_exclude_none=True)
    def list_open(who: Caller, cursor: Cursor = None) -> InboxBody:
        """The open checkpoints of the caller's tenant."""
        with store_errors():
            questions, following = open_checkpoints(engine, who, cursor)
        return InboxBody(
            checkpoints=[_body(question) for question in questions],
            cursor=following,
            now=timestamp(engine.clock.now()),
        )

    @routes.get("/tasks/{task_id}/checkpoints/{checkpoint_id}", response_model_exclude_none=True)
    def get_one(who: Caller, task_id: TaskId, checkpoint_id: CheckpointId) -> CheckpointBody:
        """One checkpoint, open or closed."""
        with store_errors():
            return _body(checkpoint(engine, who, task_id, str(checkpoint_id)))

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


def _body(question: Question) -> CheckpointBody:
    found, envelope = question.checkpoint, question.envelope
    return CheckpointBody(
        task_id=found.task_id,
        checkpoint_id=found.ask_id,
        kind=found.kind,
        number=found.number,
        dispatch=found.dispatch,
        chain=[HopBody(who=hop.who, outcome=hop.outcome) for hop in reviewers.from_json(found.hops)],
        agent=found.agent,
        skill=found.skill,
        requested_by=found.requested_by,
        prompt=envelope.prompt,
        response_schema=dict(envelope.response_schema),
        allowed_responders=list(envelope.allowed_responders),
        needed=envelope.responders.needed,
        votes=question.votes,
        asked_at=timestamp(parse_instant(found.asked_at)),
        deadline=timestamp(parse_instant(found.deadline)) if found.deadline else None,
        status=found.status,
        approval=_approval(question),
    )


def _approval(question: Question) -> ApprovalBody | None:
    asked = question.asked
    if asked is None:
        return None
    return ApprovalBody(
        action=asked.action,
        summary=asked.summary,
        digest=asked.digest,
        approvers=sorted(asked.gate.approvers) if asked.gate.approvers is not None else None,
        requesters=sorted(asked.requesters),
        approved_by=list(question.approved_by),
        required=asked.gate.quorum,
    )
