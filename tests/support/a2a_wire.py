"""A fake service behind the real app, and a client that speaks ASGI to it, byte by byte."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Scope

from interlock.a2a.app import create_app
from interlock.a2a.card import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentProvider,
    AgentSkill,
    HTTPAuthSecurityScheme,
    ScopeList,
    SecurityRequirement,
    SecurityScheme,
)
from interlock.a2a.errors import (
    ExtendedAgentCardNotConfigured,
    TaskNotCancelable,
    TaskNotFound,
    Unauthenticated,
)
from interlock.a2a.models import (
    Artifact,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Part,
    Role,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    Wire,
)
from interlock.a2a.models import Message as A2AMessage
from interlock.a2a.published import PublishedCard
from interlock.a2a.service import CallContext, EventStream

CREDENTIAL = "Bearer good"
OPTIONAL_EXTENSION = "https://example.com/Extensions/one/v1"
OTHER_EXTENSION = "urn:example:two"
AT = "2026-11-30T10:00:00.000Z"


def agent_card(**changes: Any) -> AgentCard:
    card = AgentCard(
        name="Release desk",
        description="Asks before it releases",
        version="1.2.3",
        capabilities=AgentCapabilities(
            streaming=False,
            push_notifications=False,
            extensions=[
                AgentExtension(uri=OPTIONAL_EXTENSION, description="One", required=False, params={}),
                AgentExtension(uri=OTHER_EXTENSION, description="Two", required=False),
            ],
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id="release",
                name="Release",
                description="Releases",
                tags=["release"],
                input_modes=["application/json"],
            )
        ],
        provider=AgentProvider(url="https://example.com", organization="Example"),
        security_schemes={
            "bearer": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        },
        security_requirements=[SecurityRequirement(schemes={"bearer": ScopeList()})],
    )
    return card.model_copy(update=changes)


@dataclass
class FakeService:
    """Completes every task at once; a message whose text is `wait` leaves it waiting for input.

    `error`, when set, is what every call raises after authentication.
    """

    tasks: dict[str, Task] = field(default_factory=dict)
    calls: list[tuple[CallContext, Wire]] = field(default_factory=list)
    error: Exception | None = None
    extended: PublishedCard | None = None

    def authenticate(self, context: CallContext) -> None:
        if context.credential != CREDENTIAL:
            raise Unauthenticated

    def send_message(self, context: CallContext, request: SendMessageRequest) -> SendMessageResponse:
        self._enter(context, request)
        message = request.message
        if message.text == "hello":
            return SendMessageResponse(
                message=A2AMessage(
                    message_id="reply", role=Role.AGENT, parts=[Part(text="hello")], context_id="context"
                )
            )
        if message.task_id is not None:
            return SendMessageResponse(task=self._task(message.task_id))
        number = len(self.tasks) + 1
        waits = message.text == "wait"
        task = Task(
            id=f"task-{number}",
            context_id=message.context_id or f"context-{number}",
            status=TaskStatus(
                state=TaskState.INPUT_REQUIRED if waits else TaskState.COMPLETED,
                timestamp=AT,
                message=A2AMessage(
                    message_id="status", role=Role.AGENT, parts=[Part(text="Which?")], context_id="context"
                )
                if waits
                else None,
            ),
            artifacts=None
            if waits
            else [
                Artifact(
                    artifact_id="out",
                    parts=[
                        Part(text="grüße\u2028"),
                        Part(raw="aGk=", filename="a.bin", media_type="application/octet-stream"),
                        Part(url="https://example.com/a"),
                        Part(data={"n": 1, "nothing": None}),
                    ],
                )
            ],
            history=[message],
            metadata={"kept": None},
        )
        self.tasks[task.id] = task
        return SendMessageResponse(task=task)

    def get_task(self, context: CallContext, request: GetTaskRequest) -> Task:
        self._enter(context, request)
        task = self._task(request.id)
        return task.model_copy(update={"history": None}) if request.history_length == 0 else task

    def list_tasks(self, context: CallContext, request: ListTasksRequest) -> ListTasksResponse:
        self._enter(context, request)
        tasks = [
            task.model_copy(update={"artifacts": None})
            for task in self.tasks.values()
            if request.status in (None, task.status.state)
        ]
        return ListTasksResponse(
            tasks=tasks, next_page_token="", page_size=request.page_size or 50, total_size=len(tasks)
        )

    def cancel_task(self, context: CallContext, request: CancelTaskRequest) -> Task:
        self._enter(context, request)
        task = self._task(request.id)
        if task.status.state.terminal:
            raise TaskNotCancelable
        canceled = task.model_copy(update={"status": TaskStatus(state=TaskState.CANCELED, timestamp=AT)})
        self.tasks[task.id] = canceled
        return canceled

    # What its card does not declare.

    def send_streaming_message(self, context: CallContext, request: SendMessageRequest) -> EventStream:
        raise NotImplementedError

    def subscribe_to_task(self, context: CallContext, request: SubscribeToTaskRequest) -> EventStream:
        raise NotImplementedError

    def create_push_config(
        self, context: CallContext, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        raise NotImplementedError

    def get_push_config(
        self, context: CallContext, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        raise NotImplementedError

    def list_push_configs(
        self, context: CallContext, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        raise NotImplementedError

    def delete_push_config(
        self, context: CallContext, request: DeleteTaskPushNotificationConfigRequest
    ) -> Empty:
        raise NotImplementedError

    def get_extended_agent_card(
        self, context: CallContext, request: GetExtendedAgentCardRequest
    ) -> AgentCard:
        self._enter(context, request)
        if self.extended is None or context.address is None:
            raise ExtendedAgentCardNotConfigured
        return self.extended.at(context.address)

    def _enter(self, context: CallContext, request: Wire) -> None:
        self.authenticate(context)
        self.calls.append((context, request))
        if self.error is not None:
            raise self.error

    def _task(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise TaskNotFound(metadata={"taskId": task_id})
        return self.tasks[task_id]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


Headers = Mapping[str, str] | Sequence[tuple[str, str]]

DEFAULT_HEADERS = {
    "host": "agents.example",
    "accept": "*/*",
    "a2a-version": "1.0",
    "authorization": CREDENTIAL,
    "content-type": "application/json",
}


def ask(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    body: bytes | Sequence[bytes] = b"",
    headers: Headers | None = None,
    query: str = "",
    scope: Mapping[str, Any] | None = None,
    ends: bool = True,
) -> Answer:
    """One request. `headers` replace the default ones; a body in pieces comes in piece by piece."""
    pieces = [body] if isinstance(body, bytes) else list(body)
    incoming: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": not ends or index < len(pieces) - 1}
        for index, piece in enumerate(pieces)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        if not incoming and ends:
            await asyncio.Event().wait()  # the client stays until it is answered
        return incoming.pop(0) if incoming else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    pairs = DEFAULT_HEADERS if headers is None else headers
    raw = [
        (name.encode(), value.encode("latin-1"))
        for name, value in (pairs.items() if isinstance(pairs, Mapping) else pairs)
    ]
    full: Scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "root_path": "",
        "query_string": query.encode(),
        "headers": raw,
        "server": ("127.0.0.1", 8000),
        **(scope or {}),
    }
    asyncio.run(_run(app, full, receive, send))
    start, *rest = sent
    names = [name.decode() for name, _ in start["headers"]]
    assert len(names) == len(set(names)), "a header was sent twice"
    return Answer(
        start["status"],
        {name.decode(): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in rest),
    )


async def _run(app: ASGIApp, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    await app(scope, receive, send)


@dataclass
class Door:
    """The app over a fake service, called through either binding."""

    service: FakeService = field(default_factory=FakeService)
    card: AgentCard = field(default_factory=agent_card)
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `create_app`."""

    def __post_init__(self) -> None:
        self.app = create_app(self.service, self.card, **self.options)

    def rpc(self, method: str, params: Any = None, *, headers: Headers | None = None, **other: Any) -> Answer:
        request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return ask(self.app, "POST", "/", body=json.dumps(request).encode(), headers=headers, **other)

    def rest(
        self, method: str, path: str, body: Any = None, *, headers: Headers | None = None, **other: Any
    ) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        return ask(self.app, method, path, body=data, headers=headers, **other)


def with_headers(**changes: str | None) -> dict[str, str]:
    """The default headers with some changed, or left out for None; underscores stand for hyphens."""
    merged = {**DEFAULT_HEADERS, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def message(text: str = "go", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


def reason(error: Mapping[str, Any]) -> str:
    """Of either binding's error object."""
    details = error["details"] if "details" in error else error["data"]
    found: str = (details["details"] if isinstance(details, dict) else details)[0]["reason"]
    return found
