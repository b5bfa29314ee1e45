"""Whatever comes in, the protocol's own error or its result comes out: bounded, and never a 500."""

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.a2a_wire import (
    DEFAULT_HEADERS,
    OPTIONAL_EXTENSION,
    Answer,
    Door,
    ask,
    message,
    with_headers,
)

MAX_ERROR = 10_000
RPC: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}

MEMBERS = (
    "jsonrpc id method params message messageId message_id role parts text raw url data mediaType metadata "
    "taskId contextId configuration historyLength tenant status pageSize pageToken extensions"
)
METHODS = (
    "SendMessage GetTask ListTasks CancelTask SendStreamingMessage SubscribeToTask GetExtendedAgentCard "
    "message/send"
)

fuzz = settings(max_examples=200, deadline=None)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.sampled_from(MEMBERS.split(" ")) | st.text(max_size=5)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["", "2.0", "ROLE_USER", "task-1", "x" * 300, 2**31, -1, 0, 1]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=15,
)
methods = st.sampled_from(METHODS.split(" "))


def body_of(value: Any) -> bytes:
    return json.dumps(value).encode()


def check_rpc(answer: Answer) -> None:
    envelope = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert envelope["jsonrpc"] == "2.0"
    assert set(envelope) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
    if "error" in envelope:
        assert len(answer.body) < MAX_ERROR
        assert envelope["error"]["code"] != -32603
        assert set(envelope["error"]) == {"code", "message", "data"}
        assert answer.status in (200, 413)


def check_rest(answer: Answer) -> None:
    body = answer.json()
    assert answer.headers["content-type"] in ("application/json", "application/a2a+json")
    if answer.status == 200:
        assert "error" not in body
        return
    assert 400 <= answer.status < 500
    assert len(answer.body) < MAX_ERROR
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "status", "message", "details"}
    assert body["error"]["code"] == answer.status


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    with caplog.at_level(logging.WARNING, logger="interlock"):
        yield
    assert caplog.records == []


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "surrogatepass")))
@fuzz
def test_any_bytes(body: bytes) -> None:
    app = Door().app
    check_rpc(ask(app, "POST", "/", body=body))
    check_rest(ask(app, "POST", "/message:send", body=body))
    check_rest(ask(app, "POST", "/tasks/task-1:cancel", body=body))


@given(st.data())
@fuzz
def test_any_change_of_a_good_body(data: st.DataObject) -> None:
    for path, check, good in (("/", check_rpc, RPC), ("/message:send", check_rest, message())):
        body = bytearray(body_of(good))
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        check(ask(Door().app, "POST", path, body=bytes(body)))


@given(values, values, methods)
@fuzz
def test_any_json(params: Any, request_id: Any, method: str) -> None:
    app = Door().app
    check_rpc(
        ask(app, "POST", "/", body=body_of({**RPC, "id": request_id, "method": method, "params": params}))
    )
    check_rpc(ask(app, "POST", "/", body=body_of({**RPC, "method": method, "params": params})))
    check_rpc(ask(app, "POST", "/", body=body_of(params)))
    check_rest(ask(app, "POST", "/message:send", body=body_of(params)))
    check_rest(ask(app, "POST", "/message:send", body=body_of({"message": params})))


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "ODD"]),
    st.lists(
        st.sampled_from(["tasks", "message:send", "t:cancel", "acme", "", "..", "%2e"]) | text, max_size=5
    ),
    st.binary(max_size=40)
    | st.lists(st.tuples(names, text)).map(
        lambda q: "&".join("=".join(p) for p in q).encode("utf-8", "surrogatepass")
    ),
)
@fuzz
def test_any_path_method_and_query(method: str, segments: list[str], query: bytes) -> None:
    path = "/" + "/".join(segments)
    if path != "/":
        check_rest(ask(Door().app, method, path, scope={"query_string": query}))


@given(
    st.dictionaries(
        st.sampled_from(
            [*DEFAULT_HEADERS, "a2a-extensions", "x-a2a-extensions", "content-length", "idempotency-key"]
        ),
        st.text(st.characters(max_codepoint=255), max_size=30)
        | st.sampled_from(["1.0", "application/a2a+json;q=", OPTIONAL_EXTENSION, ",,,", ";;==", "9" * 5000]),
    )
)
@fuzz
def test_any_headers(changes: dict[str, str]) -> None:
    app = Door().app
    headers = {**DEFAULT_HEADERS, **changes}
    rpc = ask(app, "POST", "/", body=body_of(RPC), headers=headers)
    if rpc.status != 401:
        check_rpc(rpc)
    check_rest(ask(app, "POST", "/message:send", body=body_of(message()), headers=headers))
    check_rest(ask(app, "GET", "/tasks/none", headers=headers))


@given(
    st.dictionaries(
        st.sampled_from(["host", "x-forwarded-proto", "if-none-match"]),
        st.text(st.characters(max_codepoint=255), max_size=30),
    )
)
@fuzz
def test_any_headers_on_the_card(headers: dict[str, str]) -> None:
    answer = ask(Door().app, "GET", "/.well-known/agent-card.json", headers=headers)
    assert answer.status == 200 or (answer.status == 304 and headers["if-none-match"].strip() == "*")
    if answer.status == 200:
        assert answer.json()["supportedInterfaces"][0]["url"].startswith(("http://", "https://"))


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"message":' * 50_000,
        b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[' + b"{}," * 100_000 + b"{}]}}",
        b'{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":' + b"[" * 70 + b"]" * 70 + b"}]}}",
        b'{"configuration":{"acceptedOutputModes":[' + b"1," * 200_000 + b"1]}}",
        b'{"message":{"extensions":['
        + b"1," * 200_000
        + b'1],"referenceTaskIds":['
        + b"1," * 200_000
        + b"1]}}",
        b"{" + b",".join(b'"%d":1' % n for n in range(100_000)) + b"}",
        b'{"message":{"messageId":' + b"9" * 500_000 + b"}}",
        b'{"message":{"messageId":"' + b"\\u0000" * 100_000 + b'"}}',
        b'{"message":{"messageId":"\\ud800"}}',
    ],
    ids=lambda body: body[:40].decode(),
)
def test_a_hostile_body_gets_a_small_answer(body: bytes) -> None:
    door = Door()
    check_rest(ask(door.app, "POST", "/message:send", body=body))
    rpc = b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":' + body + b"}"
    check_rpc(ask(door.app, "POST", "/", body=rpc, headers=with_headers()))
    assert door.service.calls == []
