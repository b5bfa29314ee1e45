"""The client of other agents, against such as mean well and such as do not."""

import logging
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.peers import (
    TASK,
    RealTime,
    Say,
    Time,
    card,
    client,
    cut,
    error,
    hang,
    interface,
    peer,
    result,
    say,
)
from tests.support.receivers import Authority, receiving, reply, resolving, status

from interlock.a2a.models import Message, Part, Role, Task, TaskState
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_bindings import MAX_ANSWER_BYTES
from interlock.adapters.peers import FIRST_PAUSE_SECONDS, MAX_PAGES, MAX_TRIES, HttpPeers
from interlock.engine.peers import PeerAddress, PeerRefused, Peers, PeerUnreachable

KEY = "delegation-0123456789"
SECRET = "Bearer s3cr3t-value"
MESSAGE = {"messageId": "m-1", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}


def send(peers: HttpPeers, to: PeerAddress, *, seconds: float = 20) -> Task | Message:
    asked = Message(message_id="m-1", role=Role.USER, parts=[Part(text="go")])
    return peers.send(to, asked, key=KEY, metadata={"a": 1}, seconds=seconds)


def briefly(peers: HttpPeers, to: PeerAddress) -> object:
    return send(peers, to, seconds=0.6)


Call = Callable[[HttpPeers, PeerAddress], object]
CALLS: dict[str, Call] = {
    "send": send,
    "get": lambda peers, to: peers.get(to, "task-1"),
    "find": lambda peers, to: peers.find(to, "context-1"),
    "cancel": lambda peers, to: peers.cancel(to, "task-1"),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
GOOD: dict[str, Say] = {
    "send": result({"task": TASK}),
    "get": result(TASK),
    "find": result({"tasks": [TASK], "nextPageToken": ""}),
    "cancel": result(TASK),
}
every_good_call = pytest.mark.parametrize(("call", "good"), [(CALLS[name], GOOD[name]) for name in CALLS])


def test_it_is_what_the_engine_asks_for() -> None:
    peers: Peers = client()
    assert peers.resolve_for("acme", "https://peer.example/") == PeerAddress("https://peer.example/")


class TestWhatIsAsked:
    def one(self, call: Call, good: Say, binding: str, *, tenant: str | None = None) -> Any:
        with peer(good, bindings=(binding,)) as served:
            call(client(), PeerAddress(served.url, tenant, SECRET))
            (asked,) = served.calls
        _, _, headers, _ = asked
        assert headers["a2a-version"] == "1.0"
        assert headers["authorization"] == SECRET
        assert headers["accept"] == "application/json"
        assert headers["accept-encoding"] == "identity"
        return asked

    def test_a_send(self) -> None:
        expected = {
            "message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "go"}]},
            "configuration": {"returnImmediately": True, "historyLength": 0},
            "metadata": {"a": 1, "a2a-rust.com/idempotency-key": KEY},
        }
        method, path, headers, body = self.one(send, GOOD["send"], "JSONRPC", tenant="acme")
        assert (method, path, headers["content-type"]) == ("POST", "/", "application/json")
        assert headers["idempotency-key"] == KEY
        assert body == {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {**expected, "tenant": "acme"},
        }
        method, path, headers, body = self.one(send, say({"task": TASK}), "HTTP+JSON", tenant="acme")
        assert (method, path, headers["content-type"]) == ("POST", "/acme/message:send", "application/json")
        assert headers["idempotency-key"] == KEY
        assert body == expected

    def test_a_get(self) -> None:
        *_, body = self.one(CALLS["get"], GOOD["get"], "JSONRPC")
        assert (body["method"], body["params"]) == ("GetTask", {"id": "task-1", "historyLength": 0})
        method, path, headers, body = self.one(CALLS["get"], say(TASK), "HTTP+JSON")
        assert (method, path, body) == ("GET", "/tasks/task-1?historyLength=0", None)
        assert "content-type" not in headers
        assert "idempotency-key" not in headers

    def test_a_find(self) -> None:
        params = {"contextId": "context-1", "pageSize": 100, "historyLength": 0}
        *_, body = self.one(CALLS["find"], GOOD["find"], "JSONRPC")
        assert (body["method"], body["params"]) == ("ListTasks", params)
        method, path, _, body = self.one(CALLS["find"], say({"tasks": []}), "HTTP+JSON")
        assert (method, path) == ("GET", "/tasks?contextId=context-1&pageSize=100&historyLength=0")

    def test_a_cancel(self) -> None:
        *_, body = self.one(CALLS["cancel"], GOOD["cancel"], "JSONRPC")
        assert (body["method"], body["params"]) == ("CancelTask", {"id": "task-1"})

        def why(peers: HttpPeers, to: PeerAddress) -> Task:
            return peers.cancel(to, "task-1", metadata={"why": "halted"})

        method, path, _, body = self.one(why, say(TASK), "HTTP+JSON")
        assert (method, path, body) == ("POST", "/tasks/task-1:cancel", {"metadata": {"why": "halted"}})


class TestWhatIsAnswered:
    def answered(self, call: Call, *answers: Say) -> Any:
        with peer(*answers) as served:
            return call(client(), PeerAddress(served.url))

    def test_a_task(self) -> None:
        told = {**TASK, "kind": "task", "unknown": {"a": None}, "artifacts": None, "history": []}
        for call, answer in (
            (CALLS["send"], {"task": told, "message": None}),
            (CALLS["get"], told),
            (CALLS["cancel"], told),
        ):
            task = self.answered(call, result(answer))
            assert isinstance(task, Task)
            assert (task.id, task.context_id, task.status.state) == (
                "task-1",
                "context-1",
                TaskState.WORKING,
            )

    def test_a_message(self) -> None:
        said = self.answered(send, result({"message": {**MESSAGE, "unknown": 1}}))
        assert isinstance(said, Message)
        assert said.text == "hello"

    @pytest.mark.parametrize(
        ("call", "answer"),
        [
            (CALLS["send"], {}),
            (CALLS["send"], None),
            (CALLS["send"], TASK),
            (CALLS["send"], {"task": TASK, "message": MESSAGE}),
            (CALLS["send"], {"task": {**TASK, "id": ""}}),
            (CALLS["send"], {"task": {**TASK, "id": "a" * 257}}),
            (CALLS["send"], {"task": {**TASK, "status": {"state": "TASK_STATE_DREAMING"}}}),
            (CALLS["send"], {"message": {**MESSAGE, "parts": []}}),
            (CALLS["get"], {}),
            (CALLS["get"], {"task": TASK}),
            (CALLS["get"], {**TASK, "id": "task-2"}),
            (CALLS["cancel"], [TASK]),
            (CALLS["cancel"], {**TASK, "id": "task-2"}),
            (CALLS["find"], {"tasks": {}}),
            (CALLS["find"], {"tasks": [{**TASK, "id": ""}]}),
            (CALLS["find"], {"tasks": [], "nextPageToken": 1}),
            (CALLS["find"], {"tasks": [], "nextPageToken": "a" * 2049}),
        ],
    )
    def test_anything_else_says_nothing(self, call: Call, answer: object) -> None:
        with pytest.raises(PeerUnreachable, match=r"^the answer is"):
            self.answered(call, result(answer))

    def test_a_cancel_by_the_key_of_a_send_is_of_whatever_task_that_made(self) -> None:
        def by_key(peers: HttpPeers, to: PeerAddress) -> Task:
            return peers.cancel(to, KEY, metadata={"a2a-rust.com/idempotency-key": KEY})

        assert self.answered(by_key, result(TASK)).id == "task-1"
        with pytest.raises(PeerUnreachable, match="usable id"):
            self.answered(by_key, result({**TASK, "id": ""}))

    def test_a_reason_that_only_the_engine_knows_comes_through(self) -> None:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SEND_CANCELED"}
        with pytest.raises(PeerRefused) as refused:
            self.answered(CALLS["cancel"], error(-32001, data=[info]))
        assert (refused.value.code, refused.value.reason) == (-32001, "SEND_CANCELED")
        with peer(say({"error": {"details": [info]}}, 404), bindings=("HTTP+JSON",)) as served:
            with pytest.raises(PeerRefused) as refused:
                client().cancel(PeerAddress(served.url), "task-1")
            assert refused.value.reason == "SEND_CANCELED"


class TestFinding:
    def test_all_pages_are_read(self) -> None:
        pages = [
            result({"tasks": [{**TASK, "id": f"task-{number}"}], "nextPageToken": token})
            for number, token in enumerate(["second", "third", ""])
        ]
        with peer(*pages) as served:
            found = client().find(PeerAddress(served.url), "context-1")
            tokens = [body["params"].get("pageToken") for *_, body in served.calls]
        assert [task.id for task in found] == ["task-0", "task-1", "task-2"]
        assert tokens == [None, "second", "third"]

    def test_pages_without_end_are_not(self) -> None:
        with peer(result({"tasks": [TASK], "nextPageToken": "more"})) as served:
            assert len(client().find(PeerAddress(served.url), "context-1")) == MAX_PAGES
            assert len(served.calls) == MAX_PAGES

    def test_tasks_of_other_contexts_are_not_taken_for_found(self) -> None:
        """Or all that a server that ignores the filter runs would be cancelled."""
        others = [{**TASK, "id": "a", "contextId": "other"}, {**TASK, "id": "b", "contextId": None}, TASK]
        with peer(result({"tasks": others})) as served:
            found = client().find(PeerAddress(served.url), "context-1")
        assert [task.id for task in found] == ["task-1"]

    @pytest.mark.parametrize(
        ("answer", "binding", "code"),
        [
            (error(-32601), "JSONRPC", -32601),
            (error(-32004), "JSONRPC", -32004),
            (status(404), "HTTP+JSON", None),
            (status(405), "HTTP+JSON", None),
            (status(501), "HTTP+JSON", None),
        ],
    )
    def test_a_server_that_does_not_list_says_no(self, answer: Say, binding: str, code: int | None) -> None:
        with peer(answer, bindings=(binding,)) as served:
            with pytest.raises(PeerRefused) as refused:
                client().find(PeerAddress(served.url), "context-1")
            assert refused.value.code == code
            assert len(served.calls) == 1

    def test_all_pages_share_the_time(self) -> None:
        clock = Time()

        def late(handler: Any) -> None:
            clock.at += 8
            result({"tasks": [], "nextPageToken": "more"})(handler)

        with peer(late) as served:
            with pytest.raises(PeerUnreachable):
                client(clock, call_seconds=20).find(PeerAddress(served.url), "context-1")
            assert len(served.calls) == 3


class TestTries:
    @every_good_call
    @pytest.mark.parametrize(
        "failing",
        [status(500), status(503), status(429), cut, error(-32603), reply(b"<html>"), result([])],
    )
    def test_what_is_open_is_tried_again(self, call: Call, good: Say, failing: Say) -> None:
        clock = Time()
        with peer(failing, failing, good) as served:
            call(client(clock), PeerAddress(served.url))
            bodies = [body for *_, body in served.calls]
            keys = {headers.get("idempotency-key") for _, _, headers, _ in served.calls}
        assert len(bodies) == 3
        assert bodies[0] == bodies[1] == bodies[2]
        assert keys == ({KEY} if call is send else {None})
        first, second = clock.slept
        assert FIRST_PAUSE_SECONDS / 2 <= first <= FIRST_PAUSE_SECONDS
        assert FIRST_PAUSE_SECONDS <= second <= 2 * FIRST_PAUSE_SECONDS

    @every_call
    def test_but_not_for_ever(self, call: Call) -> None:
        clock = Time()
        with peer(status(503)) as served:
            with pytest.raises(PeerUnreachable, match="503"):
                call(client(clock), PeerAddress(served.url))
            assert len(served.calls) == MAX_TRIES
        assert len(clock.slept) == MAX_TRIES - 1

    @every_call
    def test_nobody_listening_is_tried_again(self, call: Call) -> None:
        clock = Time()
        with peer() as served:
            to = PeerAddress(served.url)
        with pytest.raises(PeerUnreachable, match="ConnectionRefusedError"):
            call(client(clock), to)
        assert len(clock.slept) == MAX_TRIES - 1

    @every_call
    def test_a_refusal_is_taken_for_an_answer(self, call: Call) -> None:
        clock = Time()
        for code, name in ((-32001, "TASK_NOT_FOUND"), (-32002, "TASK_NOT_CANCELABLE")):
            with peer(error(code)) as served:
                with pytest.raises(PeerRefused) as refused:
                    call(client(clock), PeerAddress(served.url))
                assert (refused.value.code, refused.value.reason) == (code, name)
                assert len(served.calls) == 1
        assert clock.slept == []

    def test_a_refusal_says_nothing_of_an_earlier_send_that_may_have_arrived(self) -> None:
        with peer(cut, error(-32600)) as served, pytest.raises(PeerUnreachable, match="refused"):
            send(client(Time()), PeerAddress(served.url))
        with peer(cut, error(-32001)) as served, pytest.raises(PeerRefused):
            CALLS["cancel"](client(Time()), PeerAddress(served.url))

    def test_no_pause_goes_beyond_the_time(self) -> None:
        clock = Time()
        with peer(status(503)) as served:
            with pytest.raises(PeerUnreachable):
                send(client(clock), PeerAddress(served.url), seconds=FIRST_PAUSE_SECONDS)
            assert len(served.calls) < MAX_TRIES
        assert clock.at < FIRST_PAUSE_SECONDS

    def test_pauses_are_not_the_same_for_all(self) -> None:
        clock = Time()
        with peer(status(503)) as served:
            for _ in range(5):
                with pytest.raises(PeerUnreachable):
                    send(client(clock), PeerAddress(served.url))
        assert len(set(clock.slept[:: MAX_TRIES - 1])) > 1


class TestTime:
    """In real seconds. What an answer may take is far from what a test allows, either way."""

    def test_whoever_hangs_is_asked_again(self) -> None:
        with peer(hang, result(TASK)) as served:
            client(RealTime(), try_seconds=0.5).get(PeerAddress(served.url), "task-1")
            assert len(served.calls) == 2

    @pytest.mark.parametrize("call", [CALLS["get"], CALLS["find"], CALLS["cancel"], briefly])
    @pytest.mark.parametrize("what", ["card", "answers"])
    def test_whoever_always_hangs_is_left(self, call: Call, what: str) -> None:
        with peer(hang) as served:
            setattr(served, what, [hang])
            began = time.monotonic()
            peers = client(RealTime(), call_seconds=0.6, try_seconds=0.2)
            with pytest.raises(PeerUnreachable):
                call(peers, PeerAddress(served.url))
            assert time.monotonic() - began < 5

    def test_a_drip_is_no_sign_of_life(self) -> None:
        def drip(handler: Any) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
            for _ in range(500):
                handler.wfile.write(b" ")
                time.sleep(0.02)

        with peer(drip) as served:
            began = time.monotonic()
            with pytest.raises(PeerUnreachable):
                send(client(RealTime(), try_seconds=0.2), PeerAddress(served.url), seconds=0.6)
            assert time.monotonic() - began < 5


class TestHostile:
    @every_call
    def test_an_answer_that_is_too_large_is_none(self, call: Call) -> None:
        too_large = reply(b" " * (MAX_ANSWER_BYTES + 1))
        with peer(too_large) as served, pytest.raises(PeerUnreachable, match="TooLarge"):
            call(client(), PeerAddress(served.url))

    def test_one_that_is_as_large_as_may_be_is_read(self) -> None:
        frame = b'{"jsonrpc": "2.0", "id": 1, "result": {"id": "task-1", "status": {"state": 2}}}'
        with peer(reply(frame + b" " * (MAX_ANSWER_BYTES - len(frame)))) as served:
            assert client().get(PeerAddress(served.url), "task-1").status.state is TaskState.WORKING

    @every_call
    @pytest.mark.parametrize("code", [301, 302, 307, 308])
    def test_redirects_are_not_followed(self, call: Call, code: int) -> None:
        with receiving() as inner, peer(status(code, Location=f"{inner.url}/stolen")) as served:
            with pytest.raises(PeerRefused, match="redirects") as refused:
                call(client(), PeerAddress(served.url, None, SECRET))
            assert inner.requests == []
            assert (len(served.calls), refused.value.code) == (1, None)

    @every_call
    def test_a_name_at_a_private_address_is_not_called(self, call: Call) -> None:
        for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1"):
            with pytest.raises(PeerRefused, match="private network"):
                call(client(outbound=Outbound(resolve=resolving(address))), PeerAddress("https://a.example"))

    @every_call
    def test_an_interface_at_a_private_address_is_not_called(
        self, call: Call, internet: Outbound, authority: Authority
    ) -> None:
        with peer(authority=authority) as served:
            served.card = [say(card(interface("https://inner.example/")))]
            with pytest.raises(PeerRefused, match="private network"):
                call(client(outbound=internet), PeerAddress(served.url, None, SECRET))

    def test_a_name_that_turns_private_is_not_called(
        self, internet: Outbound, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with peer(result(TASK), authority=authority) as served:
            peers, to = client(outbound=internet), PeerAddress(served.url)
            assert peers.get(to, "task-1").id == "task-1"
            monkeypatch.setattr(internet, "_resolve", resolving("127.0.0.1"))
            with pytest.raises(PeerRefused, match="private network"):
                peers.get(to, "task-1")
            assert len(served.calls) == 1

    def test_a_certificate_of_another_is_no_peer(self, internet: Outbound, authority: Authority) -> None:
        with receiving(tls=authority.server("other.example")) as receiver:
            url = f"https://peer.example:{receiver.port}"
            with pytest.raises(PeerUnreachable, match="Cert"):
                client(outbound=internet).get(PeerAddress(url, None, SECRET), "task-1")
            assert receiver.requests == []


class TestCredentials:
    def test_they_are_told_to_their_origin_alone(self) -> None:
        """Whatever the card says, even where nothing else can be called."""
        with peer(result(TASK)) as other, peer() as served:
            served.card = [say(card(interface(other.url), interface(other.url, "HTTP+JSON")))]
            client().get(PeerAddress(served.url, None, SECRET), "task-1")
            ((_, _, headers, _),) = other.calls
            assert "authorization" not in headers
            assert served.receiver.requests[0][2]["Authorization"] == SECRET

    def test_another_path_of_the_origin_is_told_them(self) -> None:
        with peer(result(TASK)) as served:
            served.card = [say(card(interface(f"{served.url}/a2a")))]
            client().get(PeerAddress(f"{served.url}/agents/a", None, SECRET), "task-1")
            ((_, path, headers, _),) = served.calls
            assert (path, headers["authorization"]) == ("/a2a", SECRET)

    @every_call
    @pytest.mark.parametrize(
        "answer",
        [
            status(401),
            status(503),
            status(302, Location="https://else.example/"),
            cut,
            error(-32001, data=SECRET),
            error(-32603),
            say({"error": SECRET}, 400),
            reply(SECRET.encode()),
            result({"task": SECRET, "tasks": SECRET}),
        ],
    )
    def test_they_are_in_no_error_and_no_log(
        self, call: Call, answer: Say, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        with peer(answer) as served, pytest.raises((PeerRefused, PeerUnreachable)) as failed:
            call(client(), PeerAddress(served.url, "acme", SECRET))
        assert "s3cr3t" not in "".join(traceback.format_exception(failed.value))
        assert "s3cr3t" not in caplog.text
        assert len(str(failed.value)) < 200

    def test_not_even_one_that_can_be_no_header(self) -> None:
        with peer() as served, pytest.raises(PeerUnreachable) as failed:
            client().get(PeerAddress(served.url, None, f"{SECRET}\r\nX: y"), "task-1")
        assert "s3cr3t" not in "".join(traceback.format_exception(failed.value))
