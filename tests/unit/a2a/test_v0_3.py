"""A2A 0.3 over JSON-RPC: the same service, in the words of 0.3."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.a2a_wire import (
    AT,
    CREDENTIAL,
    OPTIONAL_EXTENSION,
    OTHER_EXTENSION,
    Answer,
    Door,
    FakeService,
    agent_card,
    reason,
    with_headers,
)
from tests.support.a2a_wire import message as current_message

from interlock.a2a import errors
from interlock.a2a.card import AgentCapabilities, AgentExtension
from interlock.a2a.models import (
    Artifact,
    AuthenticationInfo,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    Part,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from interlock.a2a.published import PublishedCard
from interlock.a2a.service import CallContext

HEADERS = with_headers(a2a_version=None)


@dataclass
class Events:
    """Implements `EventStream` with what is given, a list for each read."""

    batches: list[Sequence[StreamResponse]]
    closed: bool = False

    @property
    def ended(self) -> bool:
        return not self.batches

    def read(self) -> Sequence[StreamResponse]:
        return self.batches.pop(0)

    def keep_open(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def status(state: TaskState) -> StreamResponse:
    update = TaskStatusUpdateEvent(
        task_id="t", context_id="c", status=TaskStatus(state=state, timestamp=AT), metadata={"a": None}
    )
    return StreamResponse(status_update=update)


CHUNK = StreamResponse(
    artifact_update=TaskArtifactUpdateEvent(
        task_id="t",
        context_id="c",
        artifact=Artifact(artifact_id="out", parts=[Part(text="x")]),
        append=True,
        last_chunk=False,
    )
)
SNAPSHOT = StreamResponse(
    task=Task(id="t", context_id="c", status=TaskStatus(state=TaskState.SUBMITTED, timestamp=AT))
)


@dataclass
class Service(FakeService):
    """Streams the given events, and keeps push configurations in a list."""

    events: Events = field(default_factory=lambda: Events([]))
    configs: list[TaskPushNotificationConfig] = field(default_factory=list)

    def send_streaming_message(self, context: CallContext, request: SendMessageRequest) -> Events:
        self._enter(context, request)
        return self.events

    def subscribe_to_task(self, context: CallContext, request: SubscribeToTaskRequest) -> Events:
        self._enter(context, request)
        return self.events

    def create_push_config(
        self, context: CallContext, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        self._enter(context, request)
        kept = request.model_copy(update={"id": request.id or f"config-{len(self.configs)}"})
        self.configs.append(kept)
        return kept

    def get_push_config(
        self, context: CallContext, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        self._enter(context, request)
        return next(config for config in self.configs if config.id == request.id)

    def list_push_configs(
        self, context: CallContext, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        self._enter(context, request)
        configs = [config for config in self.configs if config.task_id == request.task_id]
        return ListTaskPushNotificationConfigsResponse(
            configs=configs[: request.page_size], next_page_token=""
        )

    def delete_push_config(
        self, context: CallContext, request: DeleteTaskPushNotificationConfigRequest
    ) -> Empty:
        self._enter(context, request)
        return Empty()


EXTENSIONS = agent_card().capabilities.extensions


def door(service: FakeService | None = None, **capabilities: Any) -> Door:
    """Everything is declared, unless something else is said."""
    declared = {
        "streaming": True,
        "push_notifications": True,
        "extended_agent_card": True,
        "extensions": EXTENSIONS,
        **capabilities,
    }
    card = agent_card(capabilities=AgentCapabilities(**declared))
    return Door(service or Service(), card, {"v0_3": True})


def call(method: str, params: Any = None, *, at: Door | None = None, **other: Any) -> Answer:
    other.setdefault("headers", HEADERS)
    return (at or door()).rpc(method, params, **other)


def message(text: str = "go", **more: Any) -> dict[str, Any]:
    return {
        "message": {
            "kind": "message",
            "messageId": "m-1",
            "role": "user",
            "parts": [{"kind": "text", "text": text}],
            **more,
        }
    }


# Results


def test_a_send_is_answered_with_the_bare_task() -> None:
    answer = call("message/send", message("go", metadata={"a": {"b": None}}, extensions=["urn:x"]))
    assert answer.status == 200
    assert "grüße\u2028".encode() in answer.body
    assert answer.json() == {
        "jsonrpc": "2.0",
        "id": 7,
        "result": {
            "kind": "task",
            "id": "task-1",
            "contextId": "context-1",
            "status": {"state": "completed", "timestamp": AT},
            "artifacts": [
                {
                    "artifactId": "out",
                    "parts": [
                        {"kind": "text", "text": "grüße\u2028"},
                        {
                            "kind": "file",
                            "file": {
                                "bytes": "aGk=",
                                "name": "a.bin",
                                "mimeType": "application/octet-stream",
                            },
                        },
                        {"kind": "file", "file": {"uri": "https://example.com/a"}},
                        {"kind": "data", "data": {"n": 1, "nothing": None}},
                    ],
                }
            ],
            "history": [
                {
                    "kind": "message",
                    "messageId": "m-1",
                    "role": "user",
                    "parts": [{"kind": "text", "text": "go"}],
                    "metadata": {"a": {"b": None}},
                    "extensions": ["urn:x"],
                }
            ],
            "metadata": {"kept": None},
        },
    }


def test_a_task_that_waits_says_what_for() -> None:
    result = call("message/send", message("wait")).json()["result"]
    assert result["status"] == {
        "state": "input-required",
        "timestamp": AT,
        "message": {
            "kind": "message",
            "messageId": "status",
            "role": "agent",
            "parts": [{"kind": "text", "text": "Which?"}],
            "contextId": "context",
        },
    }
    assert "artifacts" not in result


def test_a_send_may_be_answered_with_the_bare_message() -> None:
    assert call("message/send", message("hello")).json()["result"] == {
        "kind": "message",
        "messageId": "reply",
        "role": "agent",
        "parts": [{"kind": "text", "text": "hello"}],
        "contextId": "context",
    }


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (TaskState.UNSPECIFIED, "unknown"),
        (TaskState.SUBMITTED, "submitted"),
        (TaskState.WORKING, "working"),
        (TaskState.COMPLETED, "completed"),
        (TaskState.FAILED, "failed"),
        (TaskState.CANCELED, "canceled"),
        (TaskState.INPUT_REQUIRED, "input-required"),
        (TaskState.REJECTED, "rejected"),
        (TaskState.AUTH_REQUIRED, "auth-required"),
    ],
)
def test_every_state_has_its_word(state: TaskState, word: str) -> None:
    service = Service(tasks={"t": Task(id="t", context_id="c", status=TaskStatus(state=state))})
    result = call("tasks/get", {"id": "t"}, at=door(service)).json()["result"]
    assert result == {"kind": "task", "id": "t", "contextId": "c", "status": {"state": word}}


def test_data_that_is_no_object_is_wrapped_and_comes_back() -> None:
    parts = [Part(data=[1, None], metadata={"a": 1}), Part(data="x"), Part(data=False), Part(data={})]
    artifact = Artifact(artifact_id="a", parts=parts)
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.COMPLETED), artifacts=[artifact])
    service = Service(tasks={"t": task})
    at = door(service)
    shown = call("tasks/get", {"id": "t"}, at=at).json()["result"]["artifacts"][0]["parts"]
    assert shown == [
        {"kind": "data", "data": {"value": [1, None]}, "metadata": {"a": 1, "data_part_compat": True}},
        {"kind": "data", "data": {"value": "x"}, "metadata": {"data_part_compat": True}},
        {"kind": "data", "data": {"value": False}, "metadata": {"data_part_compat": True}},
        {"kind": "data", "data": {}},
    ]
    call("message/send", message(parts=shown), at=at)
    assert sent(service).message.parts == parts


def test_cancel_gives_the_task_and_refuses_what_is_over() -> None:
    at = door()
    call("message/send", message("wait"), at=at)
    canceled = call("tasks/cancel", {"id": "task-1", "metadata": {"why": None}}, at=at).json()["result"]
    assert (canceled["kind"], canceled["status"]["state"]) == ("task", "canceled")
    assert isinstance(at.service, Service)
    assert at.service.calls[-1][1] == CancelTaskRequest(id="task-1", metadata={"why": None})
    assert call("tasks/cancel", {"id": "task-1"}, at=at).json()["error"]["code"] == -32002


# Requests


def sent(service: FakeService) -> SendMessageRequest:
    (_, request) = service.calls[-1]
    assert isinstance(request, SendMessageRequest)
    return request


def test_the_service_gets_the_request_of_1_0() -> None:
    service = Service()
    parts = [
        {"kind": "text", "text": "a", "metadata": {"m": 1}},
        {"kind": "file", "file": {"bytes": "aGk=", "name": "f", "mimeType": "text/plain"}},
        {"kind": "file", "file": {"uri": "https://example.com"}, "metadata": {"m": 2}},
        {"kind": "data", "data": {"a": [1.5, None]}},
    ]
    configuration = {
        "acceptedOutputModes": ["text/plain"],
        "historyLength": 3,
        "blocking": False,
        "pushNotificationConfig": {
            "id": "p",
            "url": "https://example.com/hook",
            "token": "secret",
            "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "x"},
        },
    }
    params = {
        **message(
            parts=parts,
            contextId="c",
            taskId="t",
            metadata={"hitl_response_for": {"prompt_id": "p", "payload": {"a": 1}}},
            extensions=["urn:a"],
            referenceTaskIds=["r"],
        ),
        "configuration": configuration,
        "metadata": {"b": None},
    }
    headers = with_headers(
        a2a_version=None, idempotency_key="key-of-sixteen-c", x_a2a_extensions=OPTIONAL_EXTENSION
    )
    call("message/send", params, at=door(service), headers=headers)
    assert service.calls == [
        (
            CallContext(CREDENTIAL, frozenset({OPTIONAL_EXTENSION}), "key-of-sixteen-c", version="0.3"),
            SendMessageRequest.model_validate(
                {
                    "message": {
                        "messageId": "m-1",
                        "role": "ROLE_USER",
                        "parts": [
                            {"text": "a", "metadata": {"m": 1}},
                            {"raw": "aGk=", "filename": "f", "mediaType": "text/plain"},
                            {"url": "https://example.com", "metadata": {"m": 2}},
                            {"data": {"a": [1.5, None]}},
                        ],
                        "contextId": "c",
                        "taskId": "t",
                        "metadata": {"hitl_response_for": {"prompt_id": "p", "payload": {"a": 1}}},
                        "extensions": ["urn:a"],
                        "referenceTaskIds": ["r"],
                    },
                    "configuration": {
                        "acceptedOutputModes": ["text/plain"],
                        "historyLength": 3,
                        "returnImmediately": True,
                        "taskPushNotificationConfig": {
                            "id": "p",
                            "url": "https://example.com/hook",
                            "token": "secret",
                            "authentication": {"scheme": "Bearer", "credentials": "x"},
                        },
                    },
                    "metadata": {"b": None},
                }
            ),
        )
    ]


@pytest.mark.parametrize(
    ("blocking", "returns"), [({}, False), ({"blocking": True}, False), ({"blocking": False}, True)]
)
def test_only_who_says_so_does_not_wait(blocking: dict[str, Any], returns: bool) -> None:
    service = Service()
    call("message/send", {**message(), "configuration": blocking}, at=door(service))
    configuration = sent(service).configuration
    assert configuration is not None
    assert configuration.return_immediately is returns


def test_a_history_length_of_zero_is_no_limit() -> None:
    at = door()
    call("message/send", {**message(), "configuration": {"historyLength": 0}}, at=at)
    assert (
        len(call("tasks/get", {"id": "task-1", "historyLength": 0}, at=at).json()["result"]["history"]) == 1
    )
    assert isinstance(at.service, Service)
    (_, first), (_, second) = at.service.calls
    assert isinstance(first, SendMessageRequest)
    assert first.configuration is not None
    assert (first.configuration.history_length, second.wire()) == (None, {"id": "task-1"})


PART = {"kind": "text", "text": "a"}


@pytest.mark.parametrize(
    ("method", "params", "fields"),
    [
        ("message/send", {}, ["message"]),
        ("message/send", {"message": None}, ["message"]),
        (
            "message/send",
            {"message": {}},
            ["message.messageId", "message.role", "message.parts"],
        ),
        ("message/send", message(kind="task"), ["message.kind"]),
        ("message/send", message(role="ROLE_USER"), ["message.role"]),
        ("message/send", message(parts=[]), ["message.parts"]),
        ("message/send", message(parts=[{"text": "a"}]), ["message.parts[0].kind"]),
        ("message/send", message(parts=[PART, {"kind": "image"}]), ["message.parts[1].kind"]),
        ("message/send", message(parts=[{"kind": "text"}]), ["message.parts[0]"]),
        ("message/send", message(parts=[{"kind": "data", "text": "a"}]), ["message.parts[0]"]),
        ("message/send", message(parts=[{"kind": "data", "data": [1]}]), ["message.parts[0].data"]),
        ("message/send", message(parts=[{"kind": "file", "file": {}}]), ["message.parts[0].file"]),
        (
            "message/send",
            message(parts=[{"kind": "file", "file": {"bytes": "aGk=", "uri": "https://a"}}]),
            ["message.parts[0].file"],
        ),
        (
            "message/send",
            message(parts=[{"kind": "file", "file": {"bytes": "?"}}]),
            ["message.parts[0].file.bytes"],
        ),
        ("message/send", message(taskId=5), ["message.taskId"]),
        (
            "message/send",
            {**message(), "configuration": {"blocking": "no", "historyLength": -1}},
            ["configuration.historyLength", "configuration.blocking"],
        ),
        ("message/stream", {"message": {"role": "user"}}, ["message.messageId", "message.parts"]),
        ("tasks/get", {}, ["id"]),
        ("tasks/get", {"id": ""}, ["id"]),
        ("tasks/get", {"id": 5}, ["id"]),
        ("tasks/get", {"id": "t", "historyLength": -1}, ["historyLength"]),
        ("tasks/get", {"id": "t", "historyLength": "many"}, ["historyLength"]),
        ("tasks/cancel", {}, ["id"]),
        ("tasks/resubscribe", {"id": None}, ["id"]),
        ("tasks/pushNotificationConfig/set", {"taskId": "t"}, ["pushNotificationConfig"]),
        (
            "tasks/pushNotificationConfig/set",
            {"taskId": "t", "pushNotificationConfig": {"authentication": {"schemes": []}}},
            ["pushNotificationConfig.url", "pushNotificationConfig.authentication.schemes"],
        ),
        ("tasks/pushNotificationConfig/get", {}, ["id"]),
        ("tasks/pushNotificationConfig/list", {}, ["id"]),
        ("tasks/pushNotificationConfig/delete", {"id": "t"}, ["pushNotificationConfigId"]),
    ],
)
def test_invalid_params_are_named_as_0_3_has_them(method: str, params: Any, fields: list[str]) -> None:
    service = Service()
    answer = call(method, params, at=door(service))
    error = answer.json()["error"]
    assert (answer.status, error["code"]) == (200, -32602)
    assert [violation["field"] for violation in error["data"][1]["fieldViolations"]] == fields
    assert service.calls == []


def test_params_that_are_no_object_are_invalid() -> None:
    assert call("message/send", [1]).json()["error"]["code"] == -32602


# Streams


def events(answer: Answer) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in answer.body.decode().split("\n\n") if line and not line.startswith(":")]
    envelopes = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert all((envelope["jsonrpc"], envelope["id"]) == ("2.0", 7) for envelope in envelopes)
    return [envelope["result"] for envelope in envelopes]


@pytest.mark.parametrize(
    ("method", "params"), [("message/stream", message()), ("tasks/resubscribe", {"id": "t"})]
)
def test_events_are_told_one_by_one_and_the_last_status_is_final(method: str, params: Any) -> None:
    stream = Events([[SNAPSHOT], [status(TaskState.WORKING), CHUNK], [CHUNK, status(TaskState.COMPLETED)]])
    told = events(call(method, params, at=door(Service(events=stream))))
    update = {"taskId": "t", "contextId": "c"}
    chunk = {
        "kind": "artifact-update",
        **update,
        "artifact": {"artifactId": "out", "parts": [{"kind": "text", "text": "x"}]},
        "append": True,
        "lastChunk": False,
    }
    assert told == [
        {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted", "timestamp": AT}},
        {
            "kind": "status-update",
            **update,
            "status": {"state": "working", "timestamp": AT},
            "final": False,
            "metadata": {"a": None},
        },
        chunk,
        chunk,
        {
            "kind": "status-update",
            **update,
            "status": {"state": "completed", "timestamp": AT},
            "final": True,
            "metadata": {"a": None},
        },
    ]
    assert stream.closed


def test_the_status_that_ends_a_stream_by_asking_is_final_too() -> None:
    stream = Events([[SNAPSHOT], [status(TaskState.WORKING), status(TaskState.INPUT_REQUIRED)]])
    told = events(call("message/stream", message(), at=door(Service(events=stream))))
    assert [event.get("final") for event in told] == [None, False, True]


def test_a_stream_that_was_not_read_to_its_end_has_no_final_event() -> None:
    stream = Events([[SNAPSHOT], [status(TaskState.WORKING)], []])
    told = events(call("message/stream", message(), at=door(Service(events=stream))))
    assert [event.get("final") for event in told] == [None, False]


@pytest.mark.parametrize(
    ("method", "params"), [("message/stream", message()), ("tasks/resubscribe", {"id": "t"})]
)
def test_an_error_instead_of_a_stream_is_its_one_event(method: str, params: Any) -> None:
    answer = call(method, params, at=door(Service(error=errors.TaskNotFound())))
    assert answer.headers["content-type"].startswith("text/event-stream")
    (data,) = [line for line in answer.body.decode().splitlines() if line.startswith("data: ")]
    told = json.loads(data.removeprefix("data: "))
    assert (told["id"], told["error"]["code"]) == (7, -32001)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.Unauthenticated(), 401, -32600),
        (errors.PermissionDenied(), 403, -32600),
        (RuntimeError("secret"), 200, -32603),
    ],
)
def test_other_refusals_of_a_stream_are_plain_json(error: Exception, status: int, code: int) -> None:
    answer = call("message/stream", message(), at=door(Service(error=error)))
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json()["error"]["code"] == code
    assert b"secret" not in answer.body


# Push notification configurations


HOOK = {
    "url": "https://example.com/hook",
    "token": "x",
    "authentication": {"schemes": ["Bearer"], "credentials": "y"},
}


def test_push_configurations_are_set_got_listed_and_deleted() -> None:
    service = Service()
    at = door(service)
    prefix = "tasks/pushNotificationConfig"
    kept = call(f"{prefix}/set", {"taskId": "t", "pushNotificationConfig": HOOK}, at=at).json()["result"]
    assert kept == {"taskId": "t", "pushNotificationConfig": {**HOOK, "id": "config-0"}}
    assert service.configs == [
        TaskPushNotificationConfig(
            id="config-0",
            task_id="t",
            url="https://example.com/hook",
            token="x",
            authentication=AuthenticationInfo(scheme="Bearer", credentials="y"),
        )
    ]
    bare = {"id": "mine", "url": "https://example.com/2"}
    second = call(f"{prefix}/set", {"taskId": "t", "pushNotificationConfig": bare}, at=at).json()["result"]
    assert second == {"taskId": "t", "pushNotificationConfig": bare}

    named = {"id": "t", "pushNotificationConfigId": "mine"}
    assert call(f"{prefix}/get", named, at=at).json()["result"] == second
    assert call(f"{prefix}/get", {"id": "t"}, at=at).json()["result"] == kept
    assert call(f"{prefix}/list", {"id": "t"}, at=at).json()["result"] == [kept, second]
    assert call(f"{prefix}/list", {"id": "other"}, at=at).json()["result"] == []

    deleted = call(f"{prefix}/delete", named, at=at)
    assert deleted.json() == {"jsonrpc": "2.0", "id": 7, "result": None}
    assert service.calls[-1][1] == DeleteTaskPushNotificationConfigRequest(task_id="t", id="mine")


def test_without_any_there_is_no_configuration_to_get() -> None:
    error = call("tasks/pushNotificationConfig/get", {"id": "t"}).json()["error"]
    assert error["code"] == -32001


# The extended card


def test_the_extended_card_can_be_read_as_0_3() -> None:
    extended = agent_card(description="More")
    service = Service(extended=PublishedCard(extended, v0_3=True))
    absent: tuple[Any, ...] = (None, {})
    for params in absent:
        card = call("agent/getAuthenticatedExtendedCard", params, at=door(service)).json()["result"]
        assert (card["description"], card["url"], card["protocolVersion"]) == (
            "More",
            "http://agents.example",
            "0.3.0",
        )


def test_an_extended_card_that_is_declared_but_not_there_is_32007() -> None:
    error = call("agent/getAuthenticatedExtendedCard").json()["error"]
    assert error["code"] == -32007


# Gates, versions, extensions, errors


@pytest.mark.parametrize(
    ("method", "capability", "code"),
    [
        ("message/stream", "streaming", -32004),
        ("tasks/resubscribe", "streaming", -32004),
        ("tasks/pushNotificationConfig/set", "push_notifications", -32003),
        ("tasks/pushNotificationConfig/get", "push_notifications", -32003),
        ("tasks/pushNotificationConfig/list", "push_notifications", -32003),
        ("tasks/pushNotificationConfig/delete", "push_notifications", -32003),
        ("agent/getAuthenticatedExtendedCard", "extended_agent_card", -32004),
    ],
)
def test_what_the_card_does_not_declare_is_not_offered(method: str, capability: str, code: int) -> None:
    declared: dict[str, Any] = {capability: False}
    assert call(method, at=door(**declared)).json()["error"]["code"] == code


@pytest.mark.parametrize(
    "method",
    ["tasks/list", "SendMessage", "GetTask", "message/Send", "tasks/pushNotificationConfig", ""],
)
def test_other_methods_are_unknown(method: str) -> None:
    error = call(method).json()["error"]
    assert (error["code"], error["message"]) == (-32601, "A2A 0.3 has no such method")


@pytest.mark.parametrize(
    ("version", "query", "served"),
    [
        (None, "", True),
        ("", "", True),
        ("0.3", "", True),
        (None, "A2A-Version=0.3", True),
        ("0.3.0", "", False),
        ("0.2", "", False),
        ("1.1", "", False),
    ],
)
def test_no_version_and_0_3_are_served(version: str | None, query: str, served: bool) -> None:
    answer = call("message/send", message(), headers=with_headers(a2a_version=version), query=query).json()
    assert ("result" in answer) is served
    if not served:
        assert answer["error"]["code"] == -32009
        assert answer["error"]["data"][0]["metadata"] == {"supportedVersions": "0.3, 1.0"}


def test_a_request_of_1_0_is_served_as_ever() -> None:
    at = door()
    headers = with_headers()
    assert set(at.rpc("SendMessage", current_message(), headers=headers).json()["result"]) == {"task"}
    assert at.rpc("message/send", message(), headers=headers).json()["error"]["code"] == -32601
    assert (
        at.rest("GET", "/tasks/task-1", headers=headers).json()["status"]["state"] == "TASK_STATE_COMPLETED"
    )


def test_http_json_speaks_1_0_only() -> None:
    error = door().rest("GET", "/tasks", headers=HEADERS).json()["error"]
    assert reason(error) == "VERSION_NOT_SUPPORTED"
    assert error["details"][0]["metadata"] == {"supportedVersions": "1.0"}


def test_unless_it_is_set_0_3_is_not_served() -> None:
    headers = {**HEADERS, "x-a2a-extensions": OTHER_EXTENSION}
    answer = Door().rpc("message/send", message(), headers=headers)
    error = answer.json()["error"]
    assert error["code"] == -32009
    assert error["data"][0]["metadata"] == {"supportedVersions": "1.0"}
    assert answer.headers["a2a-extensions"] == OTHER_EXTENSION


@pytest.mark.parametrize("name", ["x-a2a-extensions", "a2a-extensions"])
def test_extensions_are_echoed_under_the_name_of_0_3(name: str) -> None:
    headers = {**HEADERS, name: f"{OTHER_EXTENSION}, urn:unknown"}
    for answer in (
        call("message/send", message(), headers=headers),
        call("message/send", {}, headers=headers),
        call("message/stream", message(), at=door(Service(events=Events([[SNAPSHOT]]))), headers=headers),
    ):
        assert answer.headers["x-a2a-extensions"] == OTHER_EXTENSION
        assert "a2a-extensions" not in answer.headers
    current = door().rpc("SendMessage", current_message(), headers={**headers, "a2a-version": "1.0"})
    assert current.headers["a2a-extensions"] == OTHER_EXTENSION
    assert "x-a2a-extensions" not in current.headers


def test_a_required_extension_is_required_of_0_3_too() -> None:
    required = [AgentExtension(uri=OPTIONAL_EXTENSION, required=True)]
    at = door(extensions=required)
    assert call("message/send", message(), at=at).json()["error"]["code"] == -32008
    headers = {**HEADERS, "x-a2a-extensions": OPTIONAL_EXTENSION}
    assert "result" in call("message/send", message(), at=at, headers=headers).json()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.TaskNotFound(), -32001),
        (errors.TaskNotCancelable(), -32002),
        (errors.UnsupportedOperation(), -32004),
        (errors.ContentTypeNotSupported(), -32005),
        (errors.InvalidParams(), -32602),
        (RuntimeError("secret"), -32603),
    ],
)
def test_errors_keep_their_codes(error: Exception, code: int) -> None:
    answer = call("message/send", message(), at=door(Service(error=error)))
    assert (answer.status, answer.json()["error"]["code"]) == (200, code)
    assert b"secret" not in answer.body


def test_members_that_an_extension_adds_to_an_error_pass_through() -> None:
    class Refused(errors.A2AError):
        code = -32010
        http_status = 409

    data: Mapping[str, Any] = {"extension": OPTIONAL_EXTENSION, "prompt_id": "p"}
    error = call("message/send", message(), at=door(Service(error=Refused(extension_data=data)))).json()[
        "error"
    ]
    assert (error["code"], {name: error["data"][name] for name in data}) == (-32010, data)


def test_who_is_not_authenticated_is_challenged() -> None:
    for method, params in (("message/send", message()), ("agent/getAuthenticatedExtendedCard", None)):
        answer = call(method, params, headers=with_headers(a2a_version=None, authorization=None))
        assert (answer.status, answer.json()["error"]["code"]) == (401, -32600)
        assert answer.headers["www-authenticate"] == "Bearer"
