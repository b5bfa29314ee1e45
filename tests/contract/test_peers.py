"""The client of other agents against servers of both kinds, ours and that of a2a-sdk, over both bindings."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support import sdk_agent
from tests.support.loopback import served
from tests.support.peers import RealTime, client
from tests.support.twin import Deployment, message, running

from interlock.a2a.card import AgentCard, AgentInterface
from interlock.a2a.models import JsonObject, Message, Task, TaskState
from interlock.adapters.peers import HttpPeers
from interlock.agents import Turn
from interlock.engine.context import new_id
from interlock.engine.errors import SendCanceled
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable
from interlock.engine.send_key import IDEMPOTENCY_METADATA

PATIENCE_SECONDS = 20.0


@dataclass
class Server:
    """An app that is served, the requests that came, and how many replies are still to be lost."""

    app: ASGIApp
    paths: list[str] = field(default_factory=list)
    to_lose: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/.well-known/agent-card.json":
            await self.app(scope, receive, send)
            return
        self.paths.append(scope["path"])
        if self.to_lose:
            self.to_lose -= 1
            await self.app(scope, receive, _nowhere)
            await send({"type": "http.response.start", "status": 502, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await self.app(scope, receive, send)


async def _nowhere(_: object) -> None:
    pass


@dataclass
class Party:
    """The client, and the server that it calls."""

    peers: HttpPeers
    to: PeerAddress
    server: Server

    def send(self, text: str, context_id: str | None = None) -> Task | Message:
        sent = message(text, context_id=context_id)
        return self.peers.send(self.to, sent, key=new_id(), metadata={"a": {"b": 1}}, seconds=20)

    def task(self, text: str, context_id: str | None = None) -> Task:
        task = self.send(text, context_id)
        assert isinstance(task, Task)
        return task

    def reached(self, task: Task, *states: TaskState) -> Task:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (seen := self.peers.get(self.to, task.id)).status.state not in states:
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
        return seen


async def works(turn: Turn) -> None:
    """Completes, or waits for more until it is cancelled."""
    if turn.text == "done":
        await turn.artifact("result")
        await turn.complete("done")
    else:
        await turn.ask("Go on?")


def desk() -> Deployment:
    agent = running(works)
    agent.reply_with(lambda asked: "hello" if asked.text == "hello" else None)
    return Deployment(agent)


@contextmanager
def serving(make_app: Callable[[str], ASGIApp], authorization: str | None = None) -> Iterator[Party]:
    servers: list[Server] = []

    def make_server(url: str) -> ASGIApp:
        servers.append(Server(make_app(url)))
        return servers[0]

    with served(make_server) as url:
        yield Party(client(RealTime()), PeerAddress(url, authorization=authorization), servers[0])


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def deployment() -> Deployment:
    return desk()


@pytest.fixture
def ours(binding: str, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Party]:
    def served_at(card: AgentCard, url: str, *, v0_3: bool = False) -> AgentCard:
        only = AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        return card.model_copy(update={"supported_interfaces": [only]})

    monkeypatch.setattr(AgentCard, "served_at", served_at)
    with serving(lambda url: deployment.agents_door(), "Bearer agent") as party:
        yield party


@pytest.fixture
def sdk(binding: str) -> Iterator[Party]:
    with serving(lambda url: sdk_agent.create_app(url, binding)) as party:
        yield party


@pytest.fixture(params=["ours", "sdk"])
def party(request: pytest.FixtureRequest, binding: str) -> Party:
    chosen: Party = request.getfixturevalue(request.param)
    return chosen


def test_work_is_started_watched_and_cancelled(party: Party, binding: str) -> None:
    task = party.task("work", "context-1")
    assert not task.status.state.terminal
    assert task.context_id == "context-1"
    seen = party.reached(task, TaskState.WORKING, TaskState.INPUT_REQUIRED)
    assert (seen.id, seen.context_id, seen.history) == (task.id, "context-1", None)
    assert party.peers.cancel(party.to, task.id, metadata={"why": "x"}).status.state is TaskState.CANCELED
    assert party.peers.get(party.to, task.id).status.state is TaskState.CANCELED
    rest = [f"/tasks/{task.id}", f"/tasks/{task.id}:cancel", f"/tasks/{task.id}"]
    last = party.server.paths[:1] + party.server.paths[-3:]
    assert last == (["/message:send", *rest] if binding == "HTTP+JSON" else ["/"] * 4)


def test_what_was_made_comes_with_the_task(party: Party) -> None:
    done = party.reached(party.task("done"), TaskState.COMPLETED)
    assert done.artifacts is not None
    ((part,),) = (artifact.parts for artifact in done.artifacts)
    assert part.text == "result"
    assert done.status.message is not None
    assert done.status.message.text == "done"


def test_a_reply_without_a_task_is_one(party: Party) -> None:
    reply = party.send("hello")
    assert isinstance(reply, Message)
    assert reply.text == "hello"


def test_a_question_comes_with_the_task(party: Party) -> None:
    asked = party.reached(party.task("ask"), TaskState.INPUT_REQUIRED)
    assert asked.status.message is not None
    assert asked.status.message.text == "Go on?"


@pytest.mark.parametrize("task_id", ["unknown", "..", "a b?c=d#e", "a%2Fb", "\u00e4"])
def test_an_unknown_task_is_not_found(party: Party, task_id: str) -> None:
    for call in (party.peers.get, party.peers.cancel):
        with pytest.raises(PeerRefused, match="Task not found") as refused:
            call(party.to, task_id)
        assert (refused.value.code, refused.value.reason) == (-32001, "TASK_NOT_FOUND")


def test_what_has_ended_is_not_cancelled(party: Party) -> None:
    task = party.task("done")
    party.reached(task, TaskState.COMPLETED)
    with pytest.raises(PeerRefused) as refused:
        party.peers.cancel(party.to, task.id)
    assert (refused.value.code, refused.value.reason) == (-32002, "TASK_NOT_CANCELABLE")


def test_tasks_are_found_by_their_context(party: Party) -> None:
    mine = {party.task(text, "context-1").id for text in ("work", "done", "ask")}
    party.task("work", "context-2")
    assert {task.id for task in party.peers.find(party.to, "context-1")} == mine
    assert party.peers.find(party.to, "context-3") == []


def test_more_than_a_page_is_found(party: Party) -> None:
    tasks = {party.task("done", "context-1").id for _ in range(103)}
    assert {task.id for task in party.peers.find(party.to, "context-1")} == tasks


def test_an_answer_that_is_lost_is_asked_for_again(party: Party) -> None:
    task = party.task("work")
    party.server.to_lose = 2
    assert party.peers.get(party.to, task.id).id == task.id
    party.server.to_lose = 4
    with pytest.raises(PeerUnreachable, match="502"):
        party.peers.get(party.to, task.id)


def test_a_send_whose_answer_is_lost_is_one_send(ours: Party, deployment: Deployment) -> None:
    ours.server.to_lose = 2
    task = ours.task("work")
    assert len(ours.server.paths) == 3
    assert [listed.id for listed in deployment.listed().tasks] == [task.id]


def test_where_keys_mean_nothing_all_that_was_started_is_found(sdk: Party) -> None:
    """A server that takes each try for a send of its own: whoever cancels must cancel them all."""
    sdk.server.to_lose = 2
    task = sdk.task("work", "context-1")
    started = {found.id for found in sdk.peers.find(sdk.to, "context-1")}
    assert task.id in started
    assert len(started) == 3
    for found in started:
        sdk.peers.cancel(sdk.to, found)
    assert {found.status.state for found in sdk.peers.find(sdk.to, "context-1")} == {TaskState.CANCELED}


def test_the_same_key_is_the_same_send(ours: Party) -> None:
    sent = message("work")
    first, second, other = (
        ours.peers.send(ours.to, sent, key=key, metadata={}, seconds=20)
        for key in ("delegation-0123456789", "delegation-0123456789", "delegation-9876543210")
    )
    assert isinstance(first, Task)
    assert isinstance(second, Task)
    assert isinstance(other, Task)
    assert first.id == second.id != other.id


def test_a_cancel_whose_answer_is_lost_is_done(ours: Party) -> None:
    task = ours.task("work")
    ours.server.to_lose = 1
    assert ours.peers.cancel(ours.to, task.id).status.state is TaskState.CANCELED


def test_a_send_is_cancelled_by_its_key(ours: Party) -> None:
    key = new_id()
    by_key: JsonObject = {IDEMPOTENCY_METADATA: key}
    task = ours.peers.send(ours.to, message("work"), key=key, metadata={}, seconds=20)
    assert isinstance(task, Task)
    canceled = ours.peers.cancel(ours.to, key, metadata=by_key)
    assert (canceled.id, canceled.status.state) == (task.id, TaskState.CANCELED)


def test_a_send_that_comes_after_its_cancel_is_refused(ours: Party, deployment: Deployment) -> None:
    key = new_id()
    by_key: JsonObject = {IDEMPOTENCY_METADATA: key}
    with pytest.raises(PeerRefused) as refused:
        ours.peers.cancel(ours.to, key, metadata=by_key)
    assert refused.value.reason == SendCanceled.reason
    with pytest.raises(PeerRefused) as refused:
        ours.peers.send(ours.to, message("work"), key=key, metadata={}, seconds=20)
    assert refused.value.reason == SendCanceled.reason
    assert deployment.listed().tasks == []


def test_the_tenant_goes_along(ours: Party) -> None:
    for tenant, known in (("acme", True), ("other", False)):
        to = PeerAddress(ours.to.url, tenant, ours.to.authorization)
        if known:
            assert ours.peers.find(to, "context-1") == []
        else:
            with pytest.raises(PeerRefused) as refused:
                ours.peers.find(to, "context-1")
            assert refused.value.code == -32602


@pytest.mark.parametrize("authorization", [None, "Bearer unknown"])
def test_who_is_not_known_is_refused(ours: Party, authorization: str | None) -> None:
    with pytest.raises(PeerRefused, match="Authentication required") as refused:
        ours.peers.find(PeerAddress(ours.to.url, authorization=authorization), "context-1")
    assert (refused.value.code, refused.value.reason) == (-32600, "UNAUTHENTICATED")


@pytest.mark.parametrize("v0_3", [False, True])
def test_a_card_of_ours_is_understood_as_it_is(deployment: Deployment, v0_3: bool) -> None:
    with serving(lambda url: deployment.agents_door(v0_3=v0_3), "Bearer agent") as party:
        assert party.task("done").id
        assert party.server.paths == ["/"]


def test_one_of_the_sdk_that_has_both_bindings_is_called_by_the_first() -> None:
    with serving(lambda url: sdk_agent.create_app(url, "HTTP+JSON", "JSONRPC")) as party:
        assert party.task("done").id
        assert party.server.paths == ["/message:send"]


def test_one_of_the_sdk_that_only_speaks_0_3_is_refused() -> None:
    with serving(lambda url: sdk_agent.create_app(url, "JSONRPC", version="0.3")) as party:
        with pytest.raises(PeerRefused, match=r"0\.3 only"):
            party.task("done")
        assert party.server.paths == []
