"""The people's door: what waits for a person, and the answer. OpenAPI describes it for clients.

Errors have the form of A2A's HTTP+JSON binding (specification 11.6): a client reads both doors alike.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from interlock.a2a import strict_json
from interlock.a2a.body import read_body
from interlock.a2a.errors import A2AError, FieldViolation, InternalError, InvalidParams, InvalidRequest
from interlock.a2a.http_json import error_response, http_exception
from interlock.a2a.models import JsonObject, Message, Part, Wire, timestamp
from interlock.a2a.models import Role as MessageRole
from interlock.a2a.negotiation import JSON, check_content_type
from interlock.a2a.operations import parse
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.authenticate import Authenticate
from interlock.engine.calls import Call, Calls
from interlock.engine.context import Engine, new_id
from interlock.engine.decide import Deciding, decide
from interlock.engine.errors import store_errors
from interlock.engine.facts import traced
from interlock.engine.inbox import Question, checkpoint, open_checkpoints
from interlock.engine.records import parse_instant
from interlock.engine.resume import resume_task
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.principals import Principal

MAX_VIOLATIONS = 20
"""Parameters at fault that an error names."""


class ApprovalBody(Wire):
    """What leave is asked for. A decision names the action by `digest`; `requesters` may not approve."""

    action: JsonObject
    summary: str
    digest: str
    approvers: list[str] | None = None
    requesters: list[str]
    approved_by: list[str]
    required: int


class CheckpointBody(Wire):
    """A prompt that waits, or waited, for a person. `prompt` is untrusted text; times are UTC."""

    task_id: str
    checkpoint_id: str
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


class Refusal(Wire):
    """`status` is the name of a `google.rpc.Code`, `details` are of `google.rpc` types.

    An answer that was refused has the members of hitl-prompt/v1 beside them.
    """

    model_config = ConfigDict(alias_generator=None)

    code: int
    status: str
    message: str
    details: list[JsonObject]
    extension: str | None = None
    prompt_id: str | None = None
    reason: str | None = None
    validation_errors: list[JsonObject] | None = None


class RefusalBody(Wire):
    error: Refusal


Cursor = Annotated[str | None, Query(max_length=2048)]
TaskId = Annotated[str, Path(min_length=1, max_length=256)]
CheckpointId = Annotated[UUID, Path()]
IdempotencyKey = Annotated[str | None, Header(min_length=16, max_length=255, pattern=r"^[A-Za-z0-9\-_.:]+$")]


def create_app(engine: Engine, identify: Authenticate, calls: Calls | None = None) -> FastAPI:
    """`calls` is None where there is no audit trail."""

    def caller(request: Request) -> Principal:
        call: Call = request.state.call
        call.caller = identify(request.headers.get("authorization"))
        if calls is not None:
            calls.admit(call)
        return call.caller

    Caller = Annotated[Principal, Depends(caller)]  # noqa: N806
    router = APIRouter(
        prefix="/people",
        route_class=_noting(calls),
        dependencies=[Depends(HTTPBearer(auto_error=False))],
        responses={"default": {"model": RefusalBody, "description": "As in A2A's HTTP+JSON binding"}},
    )

    @router.get("/checkpoints", response_model_exclude_none=True)
    def list_open(who: Caller, cursor: Cursor = None) -> InboxBody:
        """The open checkpoints of the caller's tenant."""
        with store_errors():
            questions, following = open_checkpoints(engine, who, cursor)
        return InboxBody(
            checkpoints=[_body(question) for question in questions],
            cursor=following,
            now=timestamp(engine.clock.now()),
        )

    @router.get("/tasks/{task_id}/checkpoints/{checkpoint_id}", response_model_exclude_none=True)
    def get_one(who: Caller, task_id: TaskId, checkpoint_id: CheckpointId) -> CheckpointBody:
        """One checkpoint, open or closed."""
        with store_errors():
            return _body(checkpoint(engine, who, task_id, str(checkpoint_id)))

    async def json_object(request: Request, who: Caller) -> JsonObject:  # noqa: ARG001 (who calls, before what)
        check_content_type(request.headers)
        value = strict_json.loads(await read_body(request, strict_json.MAX_BYTES))
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be an object")
        return value

    def answer_body(value: Annotated[JsonObject, Depends(json_object)]) -> AnswerBody:
        return parse(AnswerBody, value)

    def decision_body(request: Request, value: Annotated[JsonObject, Depends(json_object)]) -> DecisionBody:
        body = parse(DecisionBody, value)
        call: Call = request.state.call
        call.decision = {**(call.decision or {}), "decision": body.decision}
        return body

    @router.post("/tasks/{task_id}/checkpoints/{checkpoint_id}/answer", openapi_extra=_json_body(AnswerBody))
    def answer(
        who: Caller,
        task_id: TaskId,
        checkpoint_id: CheckpointId,
        body: Annotated[AnswerBody, Depends(answer_body)],
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

    @router.post(
        "/tasks/{task_id}/checkpoints/{checkpoint_id}/decide", openapi_extra=_json_body(DecisionBody)
    )
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

    @router.post("/tasks/{task_id}/resume")
    def resume(who: Caller, task_id: TaskId) -> ResumedBody:
        """Goes on with a task that waits for a credential, because it has arrived."""
        with store_errors():
            resume_task(engine, who, task_id)
        return ResumedBody()

    app = FastAPI(
        title="Interlock, the people's door",
        version="1",
        openapi_url="/people/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    app.include_router(router)
    app.add_exception_handler(A2AError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(404, http_exception)
    app.add_exception_handler(405, http_exception)
    app.add_exception_handler(Exception, _failed)
    return app


def _noting(calls: Calls | None) -> type[APIRoute]:
    """Routes whose calls go on the audit trail, also those that are refused before their function runs."""

    class NotingRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle, method = super().get_route_handler(), f"people.{self.name}"

            async def noted(request: Request) -> Response:
                call = Call(method, task_id=request.path_params.get("task_id"))
                if request.method == "POST" and "checkpoint_id" in request.path_params:
                    call.decision = {"prompt": request.path_params["checkpoint_id"]}
                request.state.call = call
                with traced(request.headers.get("traceparent")):
                    try:
                        response = await handle(request)
                    except Exception as error:
                        if calls is not None:
                            await run_in_threadpool(calls.note, call, _told(error))
                        raise
                    if calls is not None:
                        await run_in_threadpool(calls.note, call)
                    return response

            return noted

    return NotingRoute


def _told(error: Exception) -> A2AError:
    if isinstance(error, A2AError):
        return error
    return InvalidParams() if isinstance(error, RequestValidationError) else InternalError()


def _json_body(model: type[Wire]) -> dict[str, Any]:
    """What the description says of a body that is not FastAPI's to parse."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def _body(question: Question) -> CheckpointBody:
    found, envelope = question.checkpoint, question.envelope
    return CheckpointBody(
        task_id=found.task_id,
        checkpoint_id=found.ask_id,
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


def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    if not isinstance(error, A2AError):
        raise error
    return error_response(error, JSON, {})


def _invalid(request: Request, error: Exception) -> Response:  # noqa: ARG001
    if not isinstance(error, RequestValidationError):
        raise error
    violations = [
        FieldViolation(".".join(str(step) for step in found["loc"])[:128], str(found["type"])[:128])
        for found in error.errors()[:MAX_VIOLATIONS]
    ]
    return error_response(InvalidParams(violations=violations), JSON, {})


def _failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Whoever serves the app gets the exception itself, and logs it."""
    return error_response(InternalError(), JSON, {})
