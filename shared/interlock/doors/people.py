"""The people's door: what waits for a person, and the answer. OpenAPI describes it for clients.

Errors have the form of A2A's HTTP+JSON binding (specification 11.6): a client reads both doors alike.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from interlock.a2a.errors import A2AError, FieldViolation, InvalidParams
from interlock.a2a.http_json import error_response, http_exception
from interlock.a2a.models import JsonObject, Message, Part, timestamp
from interlock.a2a.models import Role as MessageRole
from interlock.a2a.negotiation import JSON
from interlock.doors.agents import Authenticate, store_errors
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.context import Engine, new_id
from interlock.engine.inbox import Question, checkpoint, open_checkpoints
from interlock.engine.records import parse_instant
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Principal

MAX_VIOLATIONS = 20


class Body(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class CheckpointBody(Body):
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


class InboxBody(Body):
    """Open checkpoints, the most urgent first. `now` is the server's clock."""

    checkpoints: list[CheckpointBody]
    cursor: str | None = None
    now: str


class AnswerBody(Body):
    model_config = ConfigDict(extra="forbid")

    payload: JsonObject


class AdmittedBody(Body):
    """`counted`: the prompt needs more equal answers before the task goes on."""

    status: Literal["accepted", "counted"]


Cursor = Annotated[str | None, Query(max_length=2048)]
Identifier = Annotated[str, Path(min_length=1, max_length=256)]
IdempotencyKey = Annotated[str | None, Header(min_length=16, max_length=255, pattern=r"^[A-Za-z0-9\-_.:]+$")]


def create_app(engine: Engine, identify: Authenticate) -> FastAPI:
    def caller(request: Request) -> Principal:
        return identify(request.headers.get("authorization"))

    Caller = Annotated[Principal, Depends(caller)]  # noqa: N806
    router = APIRouter(prefix="/people")

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
    def get_one(who: Caller, task_id: Identifier, checkpoint_id: Identifier) -> CheckpointBody:
        """One checkpoint, open or closed."""
        with store_errors():
            return _body(checkpoint(engine, who, task_id, checkpoint_id))

    @router.post("/tasks/{task_id}/checkpoints/{checkpoint_id}/answer")
    def answer(
        who: Caller,
        task_id: Identifier,
        checkpoint_id: Identifier,
        body: AnswerBody,
        idempotency_key: IdempotencyKey = None,
    ) -> AdmittedBody:
        """Answers it. A repeat with the same `Idempotency-Key` and payload is told the same as the first."""
        message = Message(
            message_id=idempotency_key or new_id(),
            role=MessageRole.USER,
            parts=[Part(data=body.payload)],
            task_id=task_id,
            metadata={
                hitl_prompt.RESPONSE_KEY: {"prompt_id": checkpoint_id, "payload": body.payload},
            },
        )
        with store_errors():
            admitted = admit_answer(engine, Answer(who, task_id, checkpoint_id, body.payload, message))
        return AdmittedBody(status=admitted.value)

    app = FastAPI(title="Interlock, the people's door", version="1", docs_url=None, redoc_url=None)
    app.include_router(router)
    app.add_exception_handler(A2AError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(404, http_exception)
    app.add_exception_handler(405, http_exception)
    return app


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
