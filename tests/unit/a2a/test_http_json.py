import json

import pytest
from tests.support.a2a_wire import CREDENTIAL, Door, ask, message, reason, with_headers

SEND = "/message:send"


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", SEND, "POST"),
        ("GET", "/acme/message:send", "POST"),
        ("DELETE", "/message:stream", "POST"),
        ("POST", "/tasks", "GET"),
        ("HEAD", "/tasks", "GET"),
        ("DELETE", "/tasks/t", "GET"),
        ("GET", "/tasks/t:cancel", "POST"),
        ("PUT", "/tasks/t:subscribe", "GET, POST"),
        ("PUT", "/tasks/t/pushNotificationConfigs", "GET, POST"),
        ("POST", "/tasks/t/pushNotificationConfigs/p", "DELETE, GET"),
        ("POST", "/extendedAgentCard", "GET"),
    ],
)
def test_a_wrong_http_method_is_405_with_allow_in_the_error_form(
    door: Door, method: str, path: str, allow: str
) -> None:
    answer = door.rest(method, path)
    error = answer.json()["error"]
    assert answer.status == error["code"] == 405
    assert answer.headers["allow"] == allow
    assert (error["status"], reason(error)) == ("UNIMPLEMENTED", "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/tasks/",
        "/message:sendx",
        "/message",
        "/a/b/tasks",
        "/a/b/c/d/e/f",
        "//tasks",
        "/v1/card",
        "/message:send\n",
        "/tasks\n",
        "/\n",
    ],
)
def test_an_unknown_path_is_404_in_the_error_form(door: Door, path: str) -> None:
    answer = door.rest("GET", path)
    error = answer.json()["error"]
    assert answer.status == error["code"] == 404
    assert (error["status"], reason(error)) == ("NOT_FOUND", "METHOD_NOT_FOUND")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"metadata": {"a": 1}}', b'{"id": "task-1"}', b'{"id": null}']
)
def test_the_body_of_a_cancel_may_be_absent(door: Door, body: bytes) -> None:
    door.rest("POST", SEND, message("wait"))
    answer = ask(door.app, "POST", "/tasks/task-1:cancel", body=body)
    assert answer.json()["status"]["state"] == "TASK_STATE_CANCELED"


def test_a_cancel_without_a_body_needs_no_content_type(door: Door) -> None:
    door.rest("POST", SEND, message("wait"))
    answer = door.rest("POST", "/tasks/task-1:cancel", headers=with_headers(content_type=None))
    assert answer.status == 200


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", ""])
def test_a_wrong_content_type_is_415_before_the_body_is_parsed(door: Door, content_type: str | None) -> None:
    answer = ask(door.app, "POST", SEND, body=b"{", headers=with_headers(content_type=content_type))
    error = answer.json()["error"]
    assert answer.status == error["code"] == 415
    assert (error["status"], reason(error)) == ("INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")


@pytest.mark.parametrize(
    ("accept", "content_type", "answered"),
    [
        (None, "application/json", "application/json"),
        ("*/*", "application/json", "application/json"),
        ("application/json", "application/json; charset=utf-8", "application/json"),
        ("*/*", "application/a2a+json", "application/a2a+json"),
        ("*/*", "Application/A2A+JSON; v=1", "application/a2a+json"),
        ("application/a2a+json", "application/json", "application/a2a+json"),
        ("text/html, application/a2a+json;q=0.5", "application/json", "application/a2a+json"),
        ("APPLICATION/A2A+JSON ;q=1", "application/json", "application/a2a+json"),
        ("application/a2a+json;q=0, */*", "application/json", "application/json"),
        ("application/a2a+json; q=0.000", "application/json", "application/json"),
        ("application/a2a+jsonx", "application/json", "application/json"),
        ("text/plain; a=application/a2a+json", "application/json", "application/json"),
    ],
)
def test_a2a_json_is_answered_where_the_request_names_it(
    door: Door, accept: str | None, content_type: str, answered: str
) -> None:
    headers = with_headers(accept=accept, content_type=content_type)
    sent = door.rest("POST", SEND, message(), headers=headers)
    refused = door.rest("POST", SEND, {}, headers=headers)
    unknown = door.rest("POST", "/nothing", {}, headers=headers)
    assert (sent.status, refused.status, unknown.status) == (200, 400, 404)
    assert {a.headers["content-type"] for a in (sent, refused, unknown)} == {answered}


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"5", b"null", b"[{}]"])
def test_a_body_that_is_no_object_is_an_invalid_request(door: Door, body: bytes) -> None:
    answer = ask(door.app, "POST", SEND, body=body)
    assert (answer.status, reason(answer.json()["error"])) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"message": NaN}', b'{"a": 1, "a": 1}', b" "])
def test_a_body_that_is_no_json_is_a_parse_error(door: Door, body: bytes) -> None:
    answer = ask(door.app, "POST", SEND, body=body)
    error = answer.json()["error"]
    assert (answer.status, error["status"], reason(error)) == (400, "INVALID_ARGUMENT", "PARSE_ERROR")


@pytest.mark.parametrize(
    ("method", "path", "body", "query", "field"),
    [
        ("POST", "/tasks/task-1:cancel", {"id": "task-2"}, "", "id"),
        ("POST", "/tasks/task-1:cancel", {"id": 5}, "", "id"),
        ("POST", "/acme/message:send", {**message(), "tenant": "other"}, "", "tenant"),
        ("GET", "/tasks/task-1", None, "id=task-2", "id"),
        ("GET", "/acme/tasks", None, "tenant=other", "tenant"),
    ],
)
def test_a_body_or_query_can_not_contradict_the_path(
    door: Door, method: str, path: str, body: object, query: str, field: str
) -> None:
    door.rest("POST", SEND, message("wait"))
    answer = door.rest(method, path, body, query=query)
    error = answer.json()["error"]
    assert (answer.status, reason(error)) == (400, "INVALID_PARAMS")
    assert [violation["field"] for violation in error["details"][1]["fieldViolations"]] == [field]
    assert len(door.service.calls) == 1


def test_a_query_parameter_occurs_once(door: Door) -> None:
    answer = door.rest("GET", "/tasks", query="pageSize=1&pageSize=2")
    assert (answer.status, reason(answer.json()["error"])) == (400, "INVALID_PARAMS")


@pytest.mark.parametrize("query", ["unknown=1", "A2A-Version=1.0", "utm_source=a&%00=b", "=", "&&"])
def test_unknown_query_parameters_are_ignored(door: Door, query: str) -> None:
    assert door.rest("GET", "/tasks", query=query).status == 200


@pytest.mark.parametrize(
    "query", ["pageSize=x", "pageSize=", "includeArtifacts=maybe", "status=9", "pageSize=" + "9" * 5000]
)
def test_bad_query_parameters_are_refused(door: Door, query: str) -> None:
    answer = door.rest("GET", "/tasks", query=query)
    assert (answer.status, reason(answer.json()["error"])) == (400, "INVALID_PARAMS")


def test_ids_are_taken_from_the_path_as_they_are(door: Door) -> None:
    for task_id in ("a b", "grüße", "a:b", "..", "x" * 256):
        answer = door.rest("GET", f"/tasks/{task_id}")
        assert answer.json()["error"]["details"][0]["metadata"] == {"taskId": task_id}
    too_long = door.rest("GET", "/tasks/" + "x" * 257)
    assert (too_long.status, reason(too_long.json()["error"])) == (400, "INVALID_PARAMS")


def test_the_credential_is_the_header_as_received(door: Door) -> None:
    door.rest("GET", "/tasks")
    assert door.service.calls[0][0].credential == CREDENTIAL


def test_the_error_form_is_exact(door: Door) -> None:
    answer = door.rest("GET", "/tasks/none")
    assert json.loads(answer.body) == {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "Task not found",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "none"},
                }
            ],
        }
    }
