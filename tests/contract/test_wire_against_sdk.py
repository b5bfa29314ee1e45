"""What goes over the wire, against the official SDK: its protobuf types and its client."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from google.protobuf.message import Message as Protobuf  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo  # type: ignore[import-untyped]
from starlette.concurrency import run_in_threadpool
from tests.support.a2a_wire import (
    CREDENTIAL,
    OPTIONAL_EXTENSION,
    Door,
    FakeService,
    agent_card,
    ask,
    message,
)

from interlock.a2a import errors
from interlock.a2a.app import create_app
from interlock.a2a.card import AgentCard, SecurityScheme
from interlock.a2a.models import (
    Artifact,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskStatusUpdateEvent,
    Wire,
)


def strictly(value: Any, kind: type[Protobuf]) -> Protobuf:
    """`value` as the protocol's own type: no unknown member, nothing required is missing."""
    parsed = ParseDict(value, kind(), ignore_unknown_fields=False)
    validate_proto_required_fields(parsed)
    return parsed


# Our output, as the protocol's types


@pytest.mark.parametrize("text", ["go", "wait", "hello"])
def test_a_send_is_answered_with_the_protocols_type(text: str) -> None:
    answered = Door().rest("POST", "/message:send", message(text)).json()
    strictly(answered, pb.SendMessageResponse)
    assert len(answered) == 1


def test_tasks_and_lists_are_the_protocols_types() -> None:
    door = Door()
    door.rest("POST", "/message:send", message("go"))
    door.rest("POST", "/message:send", message("wait"))
    for method, path, kind in (
        ("GET", "/tasks/task-1", pb.Task),
        ("GET", "/tasks/task-2", pb.Task),
        ("POST", "/tasks/task-2:cancel", pb.Task),
    ):
        strictly(door.rest(method, path).json(), kind)
    for listed in (door.rest("GET", "/tasks").json(), Door().rest("GET", "/tasks").json()):
        # What is required but has its default value can not be told from what is missing once it is parsed.
        assert set(listed) == {field.json_name for field in pb.ListTasksResponse.DESCRIPTOR.fields}
        ParseDict(listed, pb.ListTasksResponse(), ignore_unknown_fields=False)
        for task in listed["tasks"]:
            strictly(task, pb.Task)


MESSAGE = {
    "messageId": "m",
    "role": "ROLE_AGENT",
    "parts": [
        {"text": "a", "metadata": {"a": None}, "filename": "f", "mediaType": "text/plain"},
        {"raw": "aGk="},
        {"url": "https://example.com"},
        {"data": {"a": [1.5, None, "b"]}},
    ],
    "contextId": "c",
    "taskId": "t",
    "metadata": {"a": {"b": None}},
    "extensions": ["urn:a"],
    "referenceTaskIds": ["r"],
}
STATUS = {"state": "TASK_STATE_AUTH_REQUIRED", "message": MESSAGE, "timestamp": "2026-11-30T10:00:00.123Z"}
ARTIFACT = {
    "artifactId": "a",
    "parts": [{"text": "a"}],
    "name": "n",
    "description": "d",
    "metadata": {"a": 1.5},
    "extensions": ["urn:a"],
}
TASK = {
    "id": "t",
    "contextId": "c",
    "status": STATUS,
    "artifacts": [ARTIFACT],
    "history": [MESSAGE],
    "metadata": {"a": "b"},
}
STATUS_UPDATE = {"taskId": "t", "contextId": "c", "status": STATUS, "metadata": {"a": "b"}}
ARTIFACT_UPDATE = {
    "taskId": "t",
    "contextId": "c",
    "artifact": ARTIFACT,
    "append": True,
    "lastChunk": True,
    "metadata": {"a": "b"},
}
PUSH = {
    "tenant": "acme",
    "id": "p",
    "taskId": "t",
    "url": "https://example.com",
    "token": "x",
    "authentication": {"scheme": "Bearer", "credentials": "y"},
}


@pytest.mark.parametrize(
    ("ours", "theirs", "value"),
    [
        (Task, pb.Task, TASK),
        (Artifact, pb.Artifact, ARTIFACT),
        (TaskStatusUpdateEvent, pb.TaskStatusUpdateEvent, STATUS_UPDATE),
        (TaskArtifactUpdateEvent, pb.TaskArtifactUpdateEvent, ARTIFACT_UPDATE),
        (StreamResponse, pb.StreamResponse, {"artifactUpdate": ARTIFACT_UPDATE}),
        (StreamResponse, pb.StreamResponse, {"statusUpdate": STATUS_UPDATE}),
        (TaskPushNotificationConfig, pb.TaskPushNotificationConfig, PUSH),
    ],
)
def test_every_member_is_the_protocols_and_comes_back(
    ours: type[Wire], theirs: type[Protobuf], value: dict[str, Any]
) -> None:
    assert set(value) <= {field.json_name for field in theirs.DESCRIPTOR.fields}
    written = ours.model_validate(value).wire()
    assert written == value
    assert MessageToDict(strictly(written, theirs)) == value
    snake_case = MessageToDict(ParseDict(value, theirs()), preserving_proto_field_name=True)
    assert ours.model_validate(snake_case).wire() == value
    numbers = MessageToDict(ParseDict(value, theirs()), use_integers_for_enums=True)
    assert ours.model_validate(numbers).wire() == value


OAUTH = {"tokenUrl": "https://a/t", "refreshUrl": "https://a/r", "scopes": {"read": "to read"}}
SCHEMES: dict[str, Any] = {
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "d"}},
    "http": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT", "description": "d"}},
    "code": {
        "oauth2SecurityScheme": {
            "flows": {
                "authorizationCode": {**OAUTH, "authorizationUrl": "https://a/a", "pkceRequired": True}
            },
            "oauth2MetadataUrl": "https://a/m",
            "description": "d",
        }
    },
    "client": {"oauth2SecurityScheme": {"flows": {"clientCredentials": OAUTH}}},
    "device": {
        "oauth2SecurityScheme": {"flows": {"deviceCode": {**OAUTH, "deviceAuthorizationUrl": "https://a"}}}
    },
    "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a/o", "description": "d"}},
    "mtls": {"mtlsSecurityScheme": {"description": "d"}},
}


def full_card() -> AgentCard:
    """Every member that a card can have is set."""
    wire: dict[str, Any] = agent_card().wire()
    requirements = [{"schemes": {"code": {"list": ["read"]}, "mtls": {}}}]
    wire["skills"][0] |= {
        "examples": ["e"],
        "outputModes": ["text/plain"],
        "securityRequirements": requirements,
    }
    extension = {"uri": "urn:a", "description": "d", "required": True, "params": {"a": [1.5, None]}}
    wire["capabilities"]["extensions"] = [extension]
    wire |= {
        "documentationUrl": "https://example.com/docs",
        "iconUrl": "https://example.com/icon",
        "securitySchemes": SCHEMES,
        "securityRequirements": requirements,
        "signatures": [{"protected": "p", "signature": "s", "header": {"kid": "k"}}],
    }
    return AgentCard.model_validate(wire)


@pytest.mark.parametrize("card", [agent_card(), full_card()], ids=["usual", "full"])
def test_the_served_card_is_the_protocols_type(card: AgentCard) -> None:
    served = ask(Door(card=card).app, "GET", "/.well-known/agent-card.json").json()
    parsed = strictly(served, pb.AgentCard)
    assert {(i.protocol_binding, i.protocol_version) for i in parsed.supported_interfaces} == {
        ("JSONRPC", "1.0"),
        ("HTTP+JSON", "1.0"),
    }


def test_a_full_card_leaves_out_nothing_that_the_protocol_has() -> None:
    served = ask(Door(card=full_card()).app, "GET", "/.well-known/agent-card.json").json()
    assert MessageToDict(strictly(served, pb.AgentCard)) == served
    assert set(served) == {field.json_name for field in pb.AgentCard.DESCRIPTOR.fields}
    assert {name for scheme in SCHEMES.values() for name in scheme} == {
        field.json_name for field in pb.SecurityScheme.DESCRIPTOR.fields
    }
    for scheme in SCHEMES.values():
        assert (
            MessageToDict(strictly(SecurityScheme.model_validate(scheme).wire(), pb.SecurityScheme)) == scheme
        )


def error_kinds(kind: type[errors.A2AError] = errors.A2AError) -> Iterator[type[errors.A2AError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from error_kinds(child)


@pytest.mark.parametrize("kind", list(error_kinds()), ids=lambda kind: kind.__name__)
def test_the_details_of_an_error_are_the_protocols_types(kind: type[errors.A2AError]) -> None:
    violations = [errors.FieldViolation("message.parts[0]", "is wrong")]
    error = kind(metadata={"a": "b"}, violations=violations)
    answer = Door(FakeService(error=error)).rest("GET", "/tasks/t").json()["error"]
    info, bad_request = (dict(detail) for detail in answer["details"])
    for detail, detail_kind in ((info, ErrorInfo), (bad_request, BadRequest)):
        assert detail.pop("@type") == f"type.googleapis.com/{detail_kind.DESCRIPTOR.full_name}"
        strictly(detail, detail_kind)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in error_kinds() if kind.reason in sdk.A2A_REASON_TO_ERROR],
    ids=lambda kind: kind.__name__,
)
def test_codes_and_states_of_the_protocols_errors_are_the_sdks(kind: type[errors.A2AError]) -> None:
    theirs = sdk.A2A_REASON_TO_ERROR[kind.reason]
    mapping = sdk.A2A_ERROR_MAPPING[theirs]
    assert sdk.JSON_RPC_ERROR_CODE_MAP[theirs] == kind.code
    assert mapping.grpc_status == kind.status
    # The content type of the request itself is plain HTTP; that of a part is the protocol's 400.
    assert kind.http_status == (415 if kind is errors.RequestContentTypeNotSupported else mapping.http_code)


# The SDK's client, over loopback


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    app = create_app(FakeService(), agent_card(), run=run_in_threadpool)
    config = uvicorn.Config(app, lifespan="off", ws="none", log_level="warning")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Whoever connects from now on waits until the server accepts.
        listener.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


Drive = Callable[[Callable[[Client], Awaitable[None]]], None]


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def drive(request: pytest.FixtureRequest, url: str) -> Drive:
    """Runs a coroutine function with the SDK's client for one of the bindings, as the card has it."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[Client]:
        async with httpx.AsyncClient(headers={"Authorization": CREDENTIAL}) as http:
            card = await A2ACardResolver(http, url).get_agent_card()
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[request.param])
            yield ClientFactory(config).create(card)

    async def run(story: Callable[[Client], Awaitable[None]]) -> None:
        async with connected() as client:
            await story(client)

    return lambda story: asyncio.run(run(story))


def text_message(text: str, **more: Any) -> pb.SendMessageRequest:
    sent = pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text=text)], **more)
    return pb.SendMessageRequest(message=sent)


async def send(client: Client, request: pb.SendMessageRequest) -> pb.StreamResponse:
    (response,) = [response async for response in client.send_message(request)]
    return response


def test_the_sdk_client_sends_gets_lists_and_cancels(drive: Drive) -> None:
    async def story(client: Client) -> None:
        done = (await send(client, text_message("go", context_id="mine"))).task
        assert done.status.state == pb.TASK_STATE_COMPLETED
        assert done.context_id == "mine"
        assert [part.WhichOneof("content") for part in done.artifacts[0].parts] == [
            "text",
            "raw",
            "url",
            "data",
        ]
        assert done.artifacts[0].parts[1].raw == b"hi"

        waiting = (await send(client, text_message("wait"))).task
        assert waiting.status.state == pb.TASK_STATE_INPUT_REQUIRED
        again = (await send(client, text_message("more", task_id=waiting.id))).task
        assert again.id == waiting.id

        got = await client.get_task(pb.GetTaskRequest(id=done.id, history_length=0))
        assert (got.id, len(got.history)) == (done.id, 0)
        listed = await client.list_tasks(
            pb.ListTasksRequest(status=pb.TASK_STATE_INPUT_REQUIRED, page_size=5, include_artifacts=False)
        )
        assert waiting.id in {task.id for task in listed.tasks}
        assert listed.page_size == 5
        canceled = await client.cancel_task(pb.CancelTaskRequest(id=waiting.id))
        assert canceled.status.state == pb.TASK_STATE_CANCELED

    drive(story)


def test_the_sdk_client_gets_a_message(drive: Drive) -> None:
    async def story(client: Client) -> None:
        reply = (await send(client, text_message("hello"))).message
        assert (reply.role, reply.parts[0].text) == (pb.ROLE_AGENT, "hello")

    drive(story)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (sdk.TaskNotFoundError, lambda client: client.get_task(pb.GetTaskRequest(id="none"))),
        (sdk.TaskNotFoundError, lambda client: send(client, text_message("go", task_id="none"))),
        (sdk.InvalidParamsError, lambda client: client.list_tasks(pb.ListTasksRequest(page_size=101))),
        (sdk.InvalidParamsError, lambda client: send(client, pb.SendMessageRequest(message=pb.Message()))),
        (
            sdk.PushNotificationNotSupportedError,
            lambda client: client.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id="t", url="https://example.com")
            ),
        ),
        (
            sdk.PushNotificationNotSupportedError,
            lambda client: client.delete_task_push_notification_config(
                pb.DeleteTaskPushNotificationConfigRequest(task_id="t", id="p")
            ),
        ),
    ],
)
def test_the_sdk_client_knows_our_errors(
    drive: Drive, error: type[Exception], call: Callable[[Client], Awaitable[Any]]
) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(error):
            await call(client)

    drive(story)


def test_the_sdk_client_is_told_that_a_task_is_over(drive: Drive) -> None:
    async def story(client: Client) -> None:
        done = (await send(client, text_message("go"))).task
        with pytest.raises(sdk.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=done.id))

    drive(story)


def test_a_request_over_the_limit_is_413_over_http(url: str) -> None:
    with httpx.Client(base_url=url, headers={"Authorization": CREDENTIAL, "A2A-Version": "1.0"}) as http:
        sent = message("x" * 2**20)
        answer = http.post("/message:send", json=sent)
        assert answer.status_code == answer.json()["error"]["code"] == 413
        assert http.get("/tasks").status_code == 200


def test_extensions_are_echoed_over_http(url: str) -> None:
    headers = {"Authorization": CREDENTIAL, "A2A-Version": "1.0", "A2A-Extensions": OPTIONAL_EXTENSION}
    answer = httpx.get(f"{url}/tasks", headers=headers)
    assert answer.headers["a2a-extensions"] == OPTIONAL_EXTENSION
