"""Both bindings over the same service: the same requests, results and errors."""

import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import JsonValue
from tests.support.a2a_wire import (
    CREDENTIAL,
    OPTIONAL_EXTENSION,
    Door,
    FakeService,
    message,
    reason,
    with_headers,
)

from interlock.a2a import errors
from interlock.a2a.errors import A2AError, FieldViolation
from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    SendMessageRequest,
    Wire,
)


@dataclass(frozen=True)
class Scenario:
    """One request in the terms of both bindings, after `before` was sent. Without an error, it succeeds."""

    method: str
    params: Any
    http: tuple[str, str]
    body: Any = None
    query: str = ""
    error: type[A2AError] | None = None
    fields: tuple[str, ...] = ()
    before: tuple[Any, ...] = ()


PUSH = {"taskId": "task-1", "id": "p", "url": "https://example.com"}
DONE, WAITING = message("go"), message("wait")
SPELLED = {
    "message": {"message_id": "m", "role": 1, "parts": [{"text": "go", "media_type": "text/plain"}]},
    "configuration": {"history_length": 3, "return_immediately": True, "accepted_output_modes": []},
    "unknown": {"kind": "message"},
}
NO_PARTS = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}}
BAD_PART = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}, {"media_type": 5}]}}
NEGATIVE = {**message(), "configuration": {"history_length": -1}}

SCENARIOS = {
    "send": Scenario("SendMessage", DONE, ("POST", "/message:send"), DONE),
    "send and wait for a person": Scenario("SendMessage", WAITING, ("POST", "/message:send"), WAITING),
    "send, answered by a message": Scenario(
        "SendMessage", message("hello"), ("POST", "/message:send"), message("hello")
    ),
    "send in snake case with numbers": Scenario("SendMessage", SPELLED, ("POST", "/message:send"), SPELLED),
    "send to a task": Scenario(
        "SendMessage",
        message(taskId="task-1"),
        ("POST", "/message:send"),
        message(taskId="task-1"),
        before=(WAITING,),
    ),
    "send to no task": Scenario(
        "SendMessage",
        message(taskId="none"),
        ("POST", "/message:send"),
        message(taskId="none"),
        error=errors.TaskNotFound,
    ),
    "send for a tenant": Scenario(
        "SendMessage", {**DONE, "tenant": "acme"}, ("POST", "/acme/message:send"), DONE
    ),
    "send for a tenant named twice": Scenario(
        "SendMessage", {**DONE, "tenant": "acme"}, ("POST", "/acme/message:send"), {**DONE, "tenant": "acme"}
    ),
    "send nothing": Scenario(
        "SendMessage", {}, ("POST", "/message:send"), {}, error=errors.InvalidParams, fields=("message",)
    ),
    "send null": Scenario(
        "SendMessage",
        {"message": None},
        ("POST", "/message:send"),
        {"message": None},
        error=errors.InvalidParams,
        fields=("message",),
    ),
    "send no parts": Scenario(
        "SendMessage",
        NO_PARTS,
        ("POST", "/message:send"),
        NO_PARTS,
        error=errors.InvalidParams,
        fields=("message.parts",),
    ),
    "send a bad part": Scenario(
        "SendMessage",
        BAD_PART,
        ("POST", "/message:send"),
        BAD_PART,
        error=errors.InvalidParams,
        fields=("message.parts[1].mediaType",),
    ),
    "send with a negative history length": Scenario(
        "SendMessage",
        NEGATIVE,
        ("POST", "/message:send"),
        NEGATIVE,
        error=errors.InvalidParams,
        fields=("configuration.historyLength",),
    ),
    "get": Scenario("GetTask", {"id": "task-1"}, ("GET", "/tasks/task-1"), before=(DONE,)),
    "get without history": Scenario(
        "GetTask",
        {"id": "task-1", "historyLength": 0},
        ("GET", "/tasks/task-1"),
        query="historyLength=0",
        before=(DONE,),
    ),
    "get in snake case": Scenario(
        "GetTask",
        {"id": "task-1", "history_length": 0},
        ("GET", "/tasks/task-1"),
        query="history_length=0",
        before=(DONE,),
    ),
    "get for a tenant": Scenario(
        "GetTask", {"id": "task-1", "tenant": "acme"}, ("GET", "/acme/tasks/task-1"), before=(DONE,)
    ),
    "get with a bad length": Scenario(
        "GetTask",
        {"id": "task-1", "historyLength": "many"},
        ("GET", "/tasks/task-1"),
        query="historyLength=many",
        error=errors.InvalidParams,
        fields=("historyLength",),
    ),
    "get no task": Scenario("GetTask", {"id": "none"}, ("GET", "/tasks/none"), error=errors.TaskNotFound),
    "list nothing": Scenario("ListTasks", {}, ("GET", "/tasks")),
    "list": Scenario("ListTasks", None, ("GET", "/tasks"), before=(DONE, WAITING)),
    "list with everything": Scenario(
        "ListTasks",
        {
            "contextId": "true",
            "status": "TASK_STATE_INPUT_REQUIRED",
            "pageSize": 7,
            "pageToken": "t",
            "historyLength": 1,
            "statusTimestampAfter": "2026-11-30T10:00:00Z",
            "includeArtifacts": True,
        },
        ("GET", "/tasks"),
        query="contextId=true&status=TASK_STATE_INPUT_REQUIRED&pageSize=7&pageToken=t&historyLength=1"
        "&statusTimestampAfter=2026-11-30T10%3A00%3A00Z&includeArtifacts=true",
        before=(DONE, WAITING),
    ),
    "list in snake case with numbers": Scenario(
        "ListTasks",
        {"status": 6, "page_size": 7, "include_artifacts": False, "context_id": ""},
        ("GET", "/tasks"),
        query="status=6&page_size=7&include_artifacts=false&context_id=",
        before=(DONE, WAITING),
    ),
    "list for a tenant": Scenario("ListTasks", {"tenant": "acme"}, ("GET", "/acme/tasks")),
    "list for a tenant in the query": Scenario(
        "ListTasks", {"tenant": "acme"}, ("GET", "/tasks"), query="tenant=acme"
    ),
    "list too many": Scenario(
        "ListTasks",
        {"pageSize": 101},
        ("GET", "/tasks"),
        query="pageSize=101",
        error=errors.InvalidParams,
        fields=("pageSize",),
    ),
    "list badly": Scenario(
        "ListTasks",
        {"pageSize": 0, "status": "done", "statusTimestampAfter": "now"},
        ("GET", "/tasks"),
        query="pageSize=0&status=done&statusTimestampAfter=now",
        error=errors.InvalidParams,
        fields=("status", "pageSize", "statusTimestampAfter"),
    ),
    "cancel": Scenario("CancelTask", {"id": "task-1"}, ("POST", "/tasks/task-1:cancel"), before=(WAITING,)),
    "cancel with metadata": Scenario(
        "CancelTask",
        {"id": "task-1", "metadata": {"why": None}},
        ("POST", "/tasks/task-1:cancel"),
        {"id": "task-1", "metadata": {"why": None}},
        before=(WAITING,),
    ),
    "cancel for a tenant": Scenario(
        "CancelTask",
        {"id": "task-1", "tenant": "acme"},
        ("POST", "/acme/tasks/task-1:cancel"),
        {},
        before=(WAITING,),
    ),
    "cancel what is over": Scenario(
        "CancelTask",
        {"id": "task-1"},
        ("POST", "/tasks/task-1:cancel"),
        before=(DONE,),
        error=errors.TaskNotCancelable,
    ),
    "cancel no task": Scenario(
        "CancelTask", {"id": "none"}, ("POST", "/tasks/none:cancel"), error=errors.TaskNotFound
    ),
    "stream": Scenario(
        "SendStreamingMessage", DONE, ("POST", "/message:stream"), DONE, error=errors.UnsupportedOperation
    ),
    "subscribe": Scenario(
        "SubscribeToTask",
        {"id": "task-1"},
        ("POST", "/tasks/task-1:subscribe"),
        error=errors.UnsupportedOperation,
    ),
    "subscribe by GET": Scenario(
        "SubscribeToTask",
        {"id": "task-1"},
        ("GET", "/acme/tasks/task-1:subscribe"),
        error=errors.UnsupportedOperation,
    ),
    "create a push configuration": Scenario(
        "CreateTaskPushNotificationConfig",
        PUSH,
        ("POST", "/tasks/task-1/pushNotificationConfigs"),
        PUSH,
        error=errors.PushNotificationNotSupported,
    ),
    "get a push configuration": Scenario(
        "GetTaskPushNotificationConfig",
        PUSH,
        ("GET", "/tasks/task-1/pushNotificationConfigs/p"),
        error=errors.PushNotificationNotSupported,
    ),
    "list push configurations": Scenario(
        "ListTaskPushNotificationConfigs",
        PUSH,
        ("GET", "/acme/tasks/task-1/pushNotificationConfigs"),
        query="pageSize=0",
        error=errors.PushNotificationNotSupported,
    ),
    "delete a push configuration": Scenario(
        "DeleteTaskPushNotificationConfig",
        PUSH,
        ("DELETE", "/tasks/task-1/pushNotificationConfigs/p"),
        error=errors.PushNotificationNotSupported,
    ),
    "extended card": Scenario(
        "GetExtendedAgentCard", None, ("GET", "/extendedAgentCard"), error=errors.UnsupportedOperation
    ),
}


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_both_bindings_say_the_same(scenario: Scenario) -> None:
    rpc_door, rest_door = Door(), Door()
    for door in (rpc_door, rest_door):
        for sent in scenario.before:
            assert "result" in door.rpc("SendMessage", sent).json()
    rpc = rpc_door.rpc(scenario.method, scenario.params)
    rest = rest_door.rest(*scenario.http, scenario.body, query=scenario.query)

    assert rpc.status == 200
    assert rpc.headers["content-type"] == rest.headers["content-type"] == "application/json"
    envelope = rpc.json()
    assert (envelope.pop("jsonrpc"), envelope.pop("id")) == ("2.0", 7)
    if scenario.error is None:
        assert rest.status == 200
        assert envelope == {"result": rest.json()}
        assert rpc_door.service.calls == rest_door.service.calls
        return
    assert list(envelope) == list(rest.json()) == ["error"]
    rpc_error, rest_error = envelope["error"], rest.json()["error"]
    expected = scenario.error()
    assert rest.status == rest_error["code"] == expected.http_status
    assert rest_error["status"] == expected.status
    assert rpc_error["code"] == expected.code
    assert rpc_error["message"] == rest_error["message"] == expected.message
    assert rpc_error["data"] == rest_error["details"]
    assert rest_error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert rest_error["details"][0]["domain"] == "a2a-protocol.org"
    assert reason(rest_error) == expected.reason
    at_fault = [
        violation["field"]
        for detail in rest_error["details"][1:]
        for violation in detail["fieldViolations"]
        if detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    ]
    assert tuple(at_fault) == scenario.fields


def both(door: Door, **other: Any) -> dict[str, Any]:
    """A send by each binding."""
    return {
        "rpc": door.rpc("SendMessage", message(), **other),
        "rest": door.rest("POST", "/message:send", message(), **other),
    }


@pytest.mark.parametrize(
    ("params", "request_object"),
    [
        (
            {**message(taskId="t", contextId="c"), "tenant": "acme", "metadata": {"a": [1, None]}},
            SendMessageRequest,
        ),
        ({"id": "t", "historyLength": 0, "tenant": "acme"}, GetTaskRequest),
        ({"status": 2, "pageSize": "5", "includeArtifacts": True}, ListTasksRequest),
        ({"id": "t", "metadata": {"a": 1}}, CancelTaskRequest),
    ],
)
def test_the_service_gets_the_request_object_and_its_context(
    params: dict[str, Any], request_object: type[Wire]
) -> None:
    door = Door(FakeService(error=errors.TaskNotFound()))
    method = request_object.__name__.removesuffix("Request")
    headers = with_headers(idempotency_key="key-of-sixteen-c", a2a_extensions=OPTIONAL_EXTENSION)
    door.rpc(method, params, headers=headers)
    ((context, request),) = door.service.calls
    assert request == request_object.model_validate(params)
    assert context.credential == CREDENTIAL
    assert context.idempotency_key == "key-of-sixteen-c"
    assert context.extensions == {OPTIONAL_EXTENSION}


def test_a_context_without_headers_is_empty() -> None:
    door = Door()
    both(door)
    assert [(context.idempotency_key, context.extensions) for context, _ in door.service.calls] == [
        (None, frozenset())
    ] * 2


def test_a_list_has_all_four_members_whatever_their_value() -> None:
    door = Door()
    assert door.rest("GET", "/tasks").json() == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }


def test_nothing_unset_is_sent() -> None:
    task = Door().rest("POST", "/message:send", message("wait")).json()["task"]
    assert task == {
        "id": "task-1",
        "contextId": "context-1",
        "status": {
            "state": "TASK_STATE_INPUT_REQUIRED",
            "message": {
                "messageId": "status",
                "role": "ROLE_AGENT",
                "parts": [{"text": "Which?"}],
                "contextId": "context",
            },
            "timestamp": "2026-11-30T10:00:00.000Z",
        },
        "history": [message("wait")["message"]],
        "metadata": {"kept": None},
    }


@pytest.mark.parametrize("authorization", [None, "Bearer bad", ""])
def test_who_is_not_authenticated_is_challenged(authorization: str | None) -> None:
    door = Door()
    headers = with_headers(authorization=authorization)
    answers = {
        **both(door, headers=headers),
        "gated rpc": door.rpc("SubscribeToTask", {"id": "t"}, headers=headers),
        "gated rest": door.rest("GET", "/extendedAgentCard", headers=headers),
    }
    for answer in answers.values():
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert reason(answer.json()["error"]) == "UNAUTHENTICATED"
    assert answers["rpc"].json()["error"]["code"] == -32600
    assert answers["rest"].json()["error"]["code"] == 401


def test_who_may_not_is_told_403_on_both_bindings() -> None:
    answers = both(Door(FakeService(error=errors.PermissionDenied())))
    assert [answer.status for answer in answers.values()] == [403, 403]
    assert answers["rpc"].json()["error"]["code"] == -32600
    assert "www-authenticate" not in answers["rpc"].headers


def test_metadata_violations_and_retry_after_of_an_error_are_told() -> None:
    error = errors.Unavailable(
        "Later", metadata={"a": "b"}, violations=[FieldViolation("message.taskId", "is busy")], retry_after=3
    )
    answers = both(Door(FakeService(error=error)))
    details = [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "UNAVAILABLE",
            "domain": "a2a-protocol.org",
            "metadata": {"a": "b"},
        },
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": "message.taskId", "description": "is busy"}],
        },
    ]
    assert answers["rpc"].json()["error"] == {"code": -32603, "message": "Later", "data": details}
    assert answers["rest"].json()["error"] == {
        "code": 503,
        "status": "UNAVAILABLE",
        "message": "Later",
        "details": details,
    }
    assert (answers["rpc"].status, answers["rest"].status) == (200, 503)
    assert [answer.headers["retry-after"] for answer in answers.values()] == ["3", "3"]


class Refused(A2AError):
    code = -32010
    http_status = 409
    status = "ABORTED"
    reason = "REFUSED"
    text = "refused"


def test_members_of_an_extension_make_the_data_an_object_or_stand_beside_the_details() -> None:
    data: dict[str, JsonValue] = {"extension": OPTIONAL_EXTENSION, "why": ["late"]}
    answers = both(Door(FakeService(error=Refused(extension_data=data))))
    rpc, rest = answers["rpc"].json()["error"], answers["rest"].json()["error"]
    details = rest.pop("details")
    assert rpc == {"code": -32010, "message": "refused", "data": {**data, "details": details}}
    assert rest == {"code": 409, "status": "ABORTED", "message": "refused", **data}
    assert details[0]["reason"] == "REFUSED"


def test_an_extension_can_not_overwrite_the_error_itself() -> None:
    error = Refused(extension_data={"code": 200, "status": "OK", "message": "", "details": []})
    answers = both(Door(FakeService(error=error)))
    assert answers["rest"].json()["error"]["code"] == answers["rest"].status == 409
    assert reason(answers["rest"].json()["error"]) == reason(answers["rpc"].json()["error"]) == "REFUSED"


@pytest.mark.parametrize("error", [ValueError("secret"), KeyError("secret"), RuntimeError("secret" * 1000)])
def test_an_unexpected_error_says_nothing_and_is_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        answers = both(Door(FakeService(error=error)))
    for answer in answers.values():
        assert b"secret" not in answer.body
        assert len(answer.body) < 400
        assert answer.json()["error"]["message"] == "Internal error"
        assert reason(answer.json()["error"]) == "INTERNAL_ERROR"
    assert (answers["rpc"].status, answers["rest"].status) == (200, 500)
    assert answers["rpc"].json()["error"]["code"] == -32603
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error, error]


def test_violations_are_bounded_and_never_repeat_the_input() -> None:
    secret = "hunter2" * 50
    params = {
        "message": {
            "messageId": secret,
            "role": secret,
            "parts": [{secret: 1, "raw": secret + "!", "text": [secret]} for _ in range(200)],
            "metadata": secret,
            "taskId": {secret: 1},
        },
        "configuration": {"historyLength": secret, "returnImmediately": secret},
        "tenant": 5,
    }
    door = Door()
    for answer in (door.rpc("SendMessage", params), door.rest("POST", "/message:send", params)):
        assert b"hunter2" not in answer.body
        assert b"pydantic" not in answer.body
        assert len(answer.body) < 8000
        error = answer.json()["error"]
        violations = (error.get("data") or error["details"])[1]["fieldViolations"]
        assert len(violations) == 32
        assert {"field": "message.messageId", "description": "must have at most 256 characters"} in violations
        assert {"field": "message.parts[0].text", "description": "must be a string"} in violations
    assert door.service.calls == []


def test_what_the_fields_are_told() -> None:
    params = {
        "message": {"role": 9, "parts": [1], "metadata": [], "extensions": "a", "taskId": "x" * 257},
        "configuration": {"historyLength": 2**31, "returnImmediately": "true"},
    }
    error = Door().rest("POST", "/message:send", params).json()["error"]
    assert {v["field"]: v["description"] for v in error["details"][1]["fieldViolations"]} == {
        "message.messageId": "is required",
        "message.role": "must be 'ROLE_UNSPECIFIED', 'ROLE_USER' or 'ROLE_AGENT'",
        "message.parts[0]": "must be an object",
        "message.metadata": "must be an object",
        "message.extensions": "must be an array",
        "message.taskId": "must have at most 256 characters",
        "configuration.historyLength": "must be less than 2147483648",
        "configuration.returnImmediately": "must be a boolean",
    }


def test_the_wire_is_compact_json_in_utf_8() -> None:
    answer = Door().rpc("SendMessage", message("grüße"))
    assert "grüße".encode() in answer.body
    assert json.loads(answer.body)["result"]["task"]["history"][0]["parts"] == [{"text": "grüße"}]
    assert int(answer.headers["content-length"]) == len(answer.body)
