import json
from typing import Any

import pytest
from tests.support.a2a_wire import Answer, Door, ask, message, reason, with_headers

GOOD = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}


def post(body: Any, **other: Any) -> Answer:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ask(Door().app, "POST", "/", body=data, **other)


def without(name: str) -> dict[str, Any]:
    return {member: value for member, value in GOOD.items() if member != name}


@pytest.mark.parametrize("request_id", ["", "a", "x" * 256, "grüße", '"\\', 0, -1, 2**63])
def test_the_id_comes_back_as_it_was(request_id: str | int) -> None:
    envelope = post({**GOOD, "id": request_id}).json()
    assert (envelope["id"], type(envelope["id"])) == (request_id, type(request_id))
    assert envelope["jsonrpc"] == "2.0"
    assert set(envelope) == {"jsonrpc", "id", "result"}


@pytest.mark.parametrize(
    "request_id",
    [None, True, False, 1.0, 1.5, [], {}, [1], {"a": 1}, "x" * 257],
    ids=lambda value: str(value)[:9],
)
def test_a_bad_id_is_an_invalid_request_with_id_null(request_id: Any) -> None:
    envelope = post({**GOOD, "id": request_id}).json()
    assert (envelope["id"], envelope["error"]["code"]) == (None, -32600)


def test_a_notification_is_refused() -> None:
    door = Door()
    answer = ask(door.app, "POST", "/", body=json.dumps(without("id")).encode())
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, -32600)
    assert door.service.calls == []


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        ([], -32600, None),
        ([GOOD], -32600, None),
        ([GOOD, GOOD], -32600, None),
        ("text", -32600, None),
        (5, -32600, None),
        ({}, -32600, None),
        (b"null", -32600, None),
        (without("jsonrpc"), -32600, 1),
        ({**GOOD, "jsonrpc": "1.0"}, -32600, 1),
        ({**GOOD, "jsonrpc": 2.0}, -32600, 1),
        (without("method"), -32600, 1),
        ({**without("id"), "method": "Send"}, -32601, None),
        ({**without("id"), "params": {}}, -32602, None),
        ({**GOOD, "id": None, "params": {}}, -32600, None),
        ({**GOOD, "method": 5}, -32600, 1),
        ({**GOOD, "method": None}, -32600, 1),
        ({**GOOD, "method": "message/send"}, -32601, 1),
        ({**GOOD, "method": "sendMessage"}, -32601, 1),
        ({**GOOD, "method": ""}, -32601, 1),
        (without("params"), -32602, 1),
        ({**GOOD, "params": None}, -32602, 1),
        ({**GOOD, "params": []}, -32602, 1),
        ({**GOOD, "params": "text"}, -32602, 1),
        ({**GOOD, "params": False}, -32602, 1),
        ({**GOOD, "method": "GetTask", "params": {"id": ""}}, -32602, 1),
        ({**GOOD, "method": "GetExtendedAgentCard", "params": [1]}, -32602, 1),
        (b"", -32700, None),
        (b"{", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2}', -32700, None),
        (b'{"id": 1e999}', -32700, None),
        (json.dumps(GOOD).encode("utf-16"), -32700, None),
    ],
    ids=str,
)
def test_a_bad_request_is_an_error_of_its_kind(body: Any, code: int, request_id: int | None) -> None:
    answer = post(body)
    envelope = answer.json()
    assert answer.status == 200
    assert set(envelope) == {"jsonrpc", "id", "error"}
    assert (envelope["id"], envelope["error"]["code"]) == (request_id, code)
    assert envelope["error"]["data"][0]["domain"] == "a2a-protocol.org"


def test_a_batch_is_told_what_it_is() -> None:
    assert post([GOOD]).json()["error"]["message"] == "Batch requests are not supported"


@pytest.mark.parametrize("method", ["SendMessage", "ListTasks", "SubscribeToTask"])
def test_params_by_position_are_told_what_they_are(method: str) -> None:
    error = post({**GOOD, "method": method, "params": [1]}).json()["error"]
    assert (error["message"], len(error["data"])) == ("params must be an object", 1)


@pytest.mark.parametrize("path", ["", "/"])
@pytest.mark.parametrize("root_path", ["", "/stage"])
def test_the_url_is_served_with_and_without_a_slash_at_the_end(path: str, root_path: str) -> None:
    answer = ask(
        Door().app,
        "POST",
        root_path + path,
        body=json.dumps(GOOD).encode(),
        scope={"root_path": root_path},
    )
    assert "result" in answer.json()


def test_unknown_members_of_the_envelope_are_ignored() -> None:
    assert "result" in post({**GOOD, "extra": 1}).json()


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/jsonx", "", "application/xml; a=application/json"]
)
def test_a_wrong_content_type_is_told_before_the_body_is_parsed(content_type: str) -> None:
    answer = post(b"{", headers=with_headers(content_type=content_type))
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["id"] is None
    assert answer.json()["error"]["code"] == -32005


def test_a_missing_content_type_is_a_wrong_one() -> None:
    assert post(GOOD, headers=with_headers(content_type=None)).json()["error"]["code"] == -32005


@pytest.mark.parametrize("content_type", ["application/a2a+json", "Application/JSON; charset=utf-8"])
def test_the_answer_is_application_json_whatever_is_named(content_type: str) -> None:
    answer = post(GOOD, headers=with_headers(content_type=content_type, accept="application/a2a+json"))
    assert "result" in answer.json()
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_http_method_is_refused_in_the_error_form(method: str) -> None:
    answer = ask(Door().app, method, "/")
    assert answer.status == answer.json()["error"]["code"] == 405
    assert answer.headers["allow"] == "POST"
    assert reason(answer.json()["error"]) == "METHOD_NOT_ALLOWED"


def test_as_many_levels_are_allowed_as_in_the_other_binding() -> None:
    def nested(levels: int) -> Any:
        return [nested(levels - 1)] if levels else []

    door = Door()
    for levels, accepted in ((58, True), (59, False)):
        params = message(metadata={"a": {"b": {"c": nested(levels)}}})
        rpc = door.rpc("SendMessage", params).json()
        rest = door.rest("POST", "/message:send", params).json()
        assert ("result" in rpc, "task" in rest) == (accepted, accepted)
