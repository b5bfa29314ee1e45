"""What all routes of the people's door share: who calls, what is noted of a call, bodies, and refusals."""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Query, Request
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
from interlock.a2a.models import JsonObject, Wire
from interlock.a2a.negotiation import JSON, check_content_type
from interlock.a2a.operations import parse
from interlock.engine.authenticate import Authenticate
from interlock.engine.calls import Call, Calls
from interlock.engine.context import Engine
from interlock.engine.facts import traced
from interlock.oversight.hitl_prompt import PromptRefused, parse_timestamp
from interlock.oversight.principals import Principal

MAX_VIOLATIONS = 20
"""Parameters at fault that an error names."""

MAX_TIME = 64
"""Characters of a timestamp."""

TimeText = Annotated[str, Field(min_length=1, max_length=MAX_TIME)]
DECIDE = frozenset({"answer", "decide_one"})
"""Routes that decide a checkpoint: a refusal is one of that decision."""

Cursor = Annotated[str | None, Query(max_length=2048)]

Body = TypeVar("Body", bound=Wire)


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


@dataclass(frozen=True, slots=True, eq=False)
class Door:
    """`calls` is None where there is no audit trail."""

    engine: Engine
    identify: Authenticate
    calls: Calls | None

    def caller(self, request: Request) -> Principal:
        """A dependency: who calls, which is noted before anything is done for them."""
        call: Call = request.state.call
        call.caller = self.identify(request.headers.get("authorization"))
        if self.calls is not None:
            self.calls.admit(call)
        return call.caller

    def noted(self, call: Call) -> AbstractContextManager[None]:
        """Notes a call that is part of the one that the request is."""
        return self.calls.noted(call) if self.calls is not None else nullcontext()

    def json_object(self) -> Callable[..., Coroutine[Any, Any, JsonObject]]:
        """A dependency: the body, read only once it is known who calls."""
        Caller = Annotated[Principal, Depends(self.caller)]  # noqa: N806

        async def read(request: Request, who: Caller) -> JsonObject:  # noqa: ARG001
            check_content_type(request.headers)
            value = strict_json.loads(await read_body(request, strict_json.MAX_BYTES))
            if not isinstance(value, dict):
                raise InvalidRequest("The body must be an object")
            return value

        return read

    def body(self, model: type[Body]) -> Callable[..., Body]:
        """A dependency: the body as `model` has it."""
        Value = Annotated[JsonObject, Depends(self.json_object())]  # noqa: N806

        def parsed(value: Value) -> Body:
            return parse(model, value)

        return parsed

    def router(self) -> APIRouter:
        return APIRouter(
            prefix="/people",
            route_class=_noting(self.calls),
            dependencies=[Depends(HTTPBearer(auto_error=False))],
            responses={"default": {"model": RefusalBody, "description": "As in A2A's HTTP+JSON binding"}},
        )


def time_of(name: str, text: str) -> datetime:
    """Raises `InvalidParams`, which names it."""
    try:
        return parse_timestamp(text)
    except PromptRefused as refused:
        raise InvalidParams(f"{name} must be a timestamp of RFC 3339") from refused


def described(model: type[Wire]) -> dict[str, Any]:
    """What the description says of a body that is not FastAPI's to parse."""
    schema = model.model_json_schema()
    return {"requestBody": {"required": True, "content": {JSON: {"schema": _whole(schema, schema)}}}}


def _whole(part: Any, schema: Mapping[str, Any]) -> Any:
    """With what it refers to in its place: the description has no other for it."""
    if isinstance(part, list):
        return [_whole(one, schema) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _whole(schema["$defs"][part["$ref"].rpartition("/")[2]], schema)
    return {name: _whole(value, schema) for name, value in part.items() if name != "$defs"}


def handle_errors(app: FastAPI) -> None:
    app.add_exception_handler(A2AError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(404, http_exception)
    app.add_exception_handler(405, http_exception)
    app.add_exception_handler(Exception, _failed)


def _noting(calls: Calls | None) -> type[APIRoute]:
    """Routes whose calls go on the audit trail, also those that are refused before their function runs."""

    class NotingRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handle, method = super().get_route_handler(), f"people.{self.name}"

            async def noted(request: Request) -> Response:
                call = Call(method, task_id=request.path_params.get("task_id"))
                if self.name in DECIDE:
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
