"""The operations that both bindings serve, and what happens around a call by whichever binding it came."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails
from starlette.requests import Request

from interlock.a2a.address import address
from interlock.a2a.card import PROTOCOL_VERSION, AgentCapabilities
from interlock.a2a.errors import (
    A2AError,
    FieldViolation,
    InternalError,
    InvalidParams,
    PushNotificationNotSupported,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    Wire,
)
from interlock.a2a.negotiation import Extensions
from interlock.a2a.service import A2AService, CallContext
from interlock.a2a.sse import OpenStream, Pace, Run

logger = logging.getLogger(__name__)

AGENT = "agent"
"""The parameter of a path that names one of several agents."""
MAX_VIOLATIONS = 32
"""Fields at fault that an error names."""
MAX_FIELD_LENGTH = 256

R = TypeVar("R", bound=Wire)


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    """In the event loop itself: for one request at a time, as on Lambda."""
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class Gate:
    """A capability that the card has to declare, and what is answered where it does not (section 3.3.4)."""

    capability: str
    error: type[A2AError]


STREAMING = Gate("streaming", UnsupportedOperation)
PUSH_NOTIFICATIONS = Gate("push_notifications", PushNotificationNotSupported)
EXTENDED_CARD = Gate("extended_agent_card", UnsupportedOperation)


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` is the JSON-RPC method. `call` gives a result, or with `streams` an `EventStream`.

    `addressed`: the context says where the request came. `cache_control` is that of the answer to a GET.
    `version` is that of the protocol it belongs to.
    """

    name: str
    request: type[Wire]
    call: Callable[[A2AService, CallContext, Any], Any]
    gate: Gate | None = None
    streams: bool = False
    addressed: bool = False
    cache_control: str | None = None
    version: str = PROTOCOL_VERSION


SEND_MESSAGE = Operation(
    "SendMessage",
    SendMessageRequest,
    lambda service, context, request: service.send_message(context, request),
)
GET_TASK = Operation(
    "GetTask", GetTaskRequest, lambda service, context, request: service.get_task(context, request)
)
LIST_TASKS = Operation(
    "ListTasks", ListTasksRequest, lambda service, context, request: service.list_tasks(context, request)
)
CANCEL_TASK = Operation(
    "CancelTask", CancelTaskRequest, lambda service, context, request: service.cancel_task(context, request)
)
SEND_STREAMING_MESSAGE = Operation(
    "SendStreamingMessage",
    SendMessageRequest,
    lambda service, context, request: service.send_streaming_message(context, request),
    STREAMING,
    streams=True,
)
SUBSCRIBE_TO_TASK = Operation(
    "SubscribeToTask",
    SubscribeToTaskRequest,
    lambda service, context, request: service.subscribe_to_task(context, request),
    STREAMING,
    streams=True,
)
CREATE_PUSH_CONFIG = Operation(
    "CreateTaskPushNotificationConfig",
    TaskPushNotificationConfig,
    lambda service, context, request: service.create_push_config(context, request),
    PUSH_NOTIFICATIONS,
)
GET_PUSH_CONFIG = Operation(
    "GetTaskPushNotificationConfig",
    GetTaskPushNotificationConfigRequest,
    lambda service, context, request: service.get_push_config(context, request),
    PUSH_NOTIFICATIONS,
)
LIST_PUSH_CONFIGS = Operation(
    "ListTaskPushNotificationConfigs",
    ListTaskPushNotificationConfigsRequest,
    lambda service, context, request: service.list_push_configs(context, request),
    PUSH_NOTIFICATIONS,
)
DELETE_PUSH_CONFIG = Operation(
    "DeleteTaskPushNotificationConfig",
    DeleteTaskPushNotificationConfigRequest,
    lambda service, context, request: service.delete_push_config(context, request),
    PUSH_NOTIFICATIONS,
)
GET_EXTENDED_CARD = Operation(
    "GetExtendedAgentCard",
    GetExtendedAgentCardRequest,
    lambda service, context, request: service.get_extended_agent_card(context, request),
    EXTENDED_CARD,
    addressed=True,
    cache_control="private, max-age=300",
)

OPERATIONS = (
    SEND_MESSAGE,
    GET_TASK,
    LIST_TASKS,
    CANCEL_TASK,
    SEND_STREAMING_MESSAGE,
    SUBSCRIBE_TO_TASK,
    CREATE_PUSH_CONFIG,
    GET_PUSH_CONFIG,
    LIST_PUSH_CONFIGS,
    DELETE_PUSH_CONFIG,
    GET_EXTENDED_CARD,
)


@dataclass(frozen=True, slots=True)
class Server:
    """What the two bindings share. `max_body` is in bytes."""

    service: A2AService
    capabilities: AgentCapabilities
    extensions: Extensions
    run: Run
    max_body: int
    pace: Pace
    public_url: str | None

    async def call(
        self,
        operation: Operation,
        http: Request,
        activated: frozenset[str],
        params: Callable[[type[Wire]], Wire],
    ) -> str | OpenStream:
        """The result on the wire, as JSON, or the stream. `params` makes the request object.

        What is gated is said to authenticated callers only, and before its parameters are looked at.
        """
        context = CallContext(
            credential=http.headers.get("authorization"),
            extensions=activated,
            idempotency_key=http.headers.get("idempotency-key"),
            address=address(http, self.public_url) if operation.addressed else None,
            version=operation.version,
            traceparent=http.headers.get("traceparent"),
            agent=http.path_params.get(AGENT),
        )
        gate = operation.gate
        if gate is not None and not getattr(self.capabilities, gate.capability):
            await self.run(self.service.authenticate, context)
            raise gate.error
        request = params(operation.request)
        result = await self.run(operation.call, self.service, context, request)
        if operation.streams:
            return OpenStream(result, self.run, self.pace)
        answer: str = result.wire_json()
        return answer


def told(error: Exception, doing: str) -> A2AError:
    """What the caller is told of an error: of one that is not the protocol's own, nothing but that."""
    if isinstance(error, A2AError):
        return error
    logger.error("Unexpected error in %s", doing, exc_info=error)
    return InternalError()


def error_headers(error: A2AError) -> dict[str, str]:
    headers = {}
    if error.http_status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return headers


def parse(model: type[R], params: Mapping[str, JsonValue]) -> R:
    """The request object of parameters that came as JSON. Raises `InvalidParams`, naming what is at fault."""
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise _invalid(error) from None


def parse_query(model: type[R], params: Mapping[str, str]) -> R:
    """The same of parameters that came as text."""
    try:
        return model.model_validate_strings(params)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> InvalidParams:
    faults = error.errors(include_url=False, include_input=False)[:MAX_VIOLATIONS]
    return InvalidParams(
        violations=[FieldViolation(_field(fault["loc"]), _description(fault)) for fault in faults]
    )


def _field(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{to_camel(step)}" for step in location)
    return path.removeprefix(".")[:MAX_FIELD_LENGTH]


_DESCRIPTIONS = {
    "missing": "is required",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has a wrong format",
    "list_type": "must be an array",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "enum": "must be {expected}",
    "bool_type": "must be a boolean",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "value_error": "{error}",
}
"""By pydantic's error type. What is filled in comes from the models, never from the input."""


def _description(fault: ErrorDetails) -> str:
    kind = fault["type"]
    if kind.startswith("int_"):
        return "must be an integer"
    return _DESCRIPTIONS.get(kind, "is not valid").format_map(fault.get("ctx", {}))
