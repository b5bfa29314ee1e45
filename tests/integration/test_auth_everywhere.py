"""Every operation asks who calls: through the real door, engine and identities."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from tests.support.a2a_wire import Answer, ask
from tests.support.twin import Deployment

from interlock.a2a import operations, v0_3
from interlock.a2a.app import create_app
from interlock.a2a.errors import Unauthenticated
from interlock.a2a.published import PublishedCard
from interlock.adapters.identities import IdentityStore, TokenCredentials
from interlock.adapters.memory import MemoryTable
from interlock.adapters.sealing import FileSealer, create_seal_key
from interlock.adapters.webhooks import WebHooks
from interlock.agents.demo import agent as demo
from interlock.doors.agents import OversightService, agent_card, extended_card
from interlock.engine.authenticate import authenticate
from interlock.engine.push import Push
from interlock.oversight.principals import Kind, Principal, Role

TASK = "a-task"
MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "release 1.2.0"}], "taskId": TASK}
CONFIG = {"id": "c-1", "url": "https://hooks.example/a"}
PUSH = f"/tasks/{TASK}/pushNotificationConfigs"

CALLS: Mapping[str, tuple[dict[str, Any], str, str, dict[str, Any] | None]] = {
    "SendMessage": ({"message": MESSAGE}, "POST", "/message:send", {"message": MESSAGE}),
    "SendStreamingMessage": ({"message": MESSAGE}, "POST", "/message:stream", {"message": MESSAGE}),
    "GetTask": ({"id": TASK}, "GET", f"/tasks/{TASK}", None),
    "ListTasks": ({}, "GET", "/tasks", None),
    "CancelTask": ({"id": TASK}, "POST", f"/tasks/{TASK}:cancel", None),
    "SubscribeToTask": ({"id": TASK}, "POST", f"/tasks/{TASK}:subscribe", None),
    "CreateTaskPushNotificationConfig": ({**CONFIG, "taskId": TASK}, "POST", PUSH, CONFIG),
    "GetTaskPushNotificationConfig": ({"taskId": TASK, "id": "c-1"}, "GET", f"{PUSH}/c-1", None),
    "ListTaskPushNotificationConfigs": ({"taskId": TASK}, "GET", PUSH, None),
    "DeleteTaskPushNotificationConfig": ({"taskId": TASK, "id": "c-1"}, "DELETE", f"{PUSH}/c-1", None),
    "GetExtendedAgentCard": ({}, "GET", "/extendedAgentCard", None),
}
"""Parameters of JSON-RPC; method, path and body of HTTP+JSON."""

MESSAGE_0_3 = {
    "kind": "message",
    "messageId": "m-1",
    "role": "user",
    "parts": [{"kind": "text", "text": "release 1.2.0"}],
    "taskId": TASK,
}
CALLS_0_3: Mapping[str, dict[str, Any]] = {
    "message/send": {"message": MESSAGE_0_3},
    "message/stream": {"message": MESSAGE_0_3},
    "tasks/get": {"id": TASK},
    "tasks/cancel": {"id": TASK},
    "tasks/resubscribe": {"id": TASK},
    "tasks/pushNotificationConfig/set": {"taskId": TASK, "pushNotificationConfig": CONFIG},
    "tasks/pushNotificationConfig/get": {"id": TASK, "pushNotificationConfigId": "c-1"},
    "tasks/pushNotificationConfig/list": {"id": TASK},
    "tasks/pushNotificationConfig/delete": {"id": TASK, "pushNotificationConfigId": "c-1"},
    "agent/getAuthenticatedExtendedCard": {},
}

Call = Callable[[Starlette, Mapping[str, str]], Answer]


def request(method: str, path: str, body: dict[str, Any] | None, version: str = "1.0") -> Call:
    data = b"" if body is None else json.dumps(body).encode()
    sent = {"host": "agents.example", "a2a-version": version}
    if body is not None:
        sent["content-type"] = "application/json"
    return lambda app, headers: ask(app, method, path, body=data, headers={**sent, **headers})


def rpc(method: str, params: dict[str, Any], version: str = "1.0") -> Call:
    return request("POST", "/", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, version)


def every_call() -> Iterator[tuple[str, Call]]:
    for name, (params, method, path, body) in CALLS.items():
        yield f"JSON-RPC {name}", rpc(name, params)
        for prefix in ("", "/demo"):
            yield f"HTTP+JSON {method} {prefix}{path}", request(method, prefix + path, body)
    yield "HTTP+JSON GET subscribe", request("GET", f"/tasks/{TASK}:subscribe", None)
    for name, params in CALLS_0_3.items():
        yield f"0.3 {name}", rpc(name, params, "0.3")


EVERY_CALL = dict(every_call())


class World:
    """Both doors know the same identities: one whose token is revoked, and one whose token is not."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(demo)
        table = MemoryTable()
        identities = IdentityStore(table, table)
        self.token = identities.create("agent", "demo", Kind.SERVICE, [Role.CALLER])[1]
        self.revoked = identities.create("former", "demo", Kind.SERVICE, [Role.CALLER])[1]
        identities.revoke("bearer:former")
        self.credentials = TokenCredentials(table)
        create_seal_key(folder / "seal.key")
        self.push = Push(
            self.deployment.engine, FileSealer(folder / "seal.key"), WebHooks(local=True), lambda config: None
        )

    def identify(self, authorization: str | None) -> Principal:
        return authenticate(authorization, credentials=self.credentials, verifier=None, anonymous=None)

    def door(self, *, everything: bool) -> Starlette:
        """`everything`: streams and push notifications too, which are otherwise not declared."""
        card = agent_card(demo, streaming=everything, push_notifications=everything)
        service = OversightService(
            self.deployment.engine,
            demo,
            self.identify,
            card,
            push=self.push if everything else None,
            extended=PublishedCard(extended_card(demo, card), v0_3=True),
        )
        return create_app(service, card, run=run_in_threadpool, v0_3=True)

    def refused(self) -> Iterator[dict[str, str]]:
        """Headers that say nothing valid of who calls."""
        yield {}
        for credential in (
            "Bearer",
            "Bearer il_" + "A" * 43,
            f"Bearer {self.revoked}",
            f"Bearer {self.token} {self.token}",
            f"Bearer {self.token}x",
            f"Basic {self.token}",
            self.token,
            "Bearer a.b.c",
        ):
            yield {"authorization": credential}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("keys"))


def reason(answer: Answer) -> str | None:
    # What refuses a stream of 0.3 is an event.
    error = json.loads(answer.body[answer.body.index(b"{") :]).get("error")
    found: str | None = error and error.get("details", error.get("data"))[0]["reason"]
    return found


def test_every_operation_is_here() -> None:
    assert set(CALLS) == {operation.name for operation in operations.OPERATIONS}
    assert set(CALLS_0_3) == {operation.name for operation in v0_3.OPERATIONS}


@pytest.mark.parametrize("everything", [True, False], ids=["streaming", "buffered"])
@pytest.mark.parametrize("name", EVERY_CALL)
def test_who_does_not_say_who_it_is_is_challenged(world: World, name: str, everything: bool) -> None:
    door = world.door(everything=everything)
    told = set()
    with world.deployment.unchanged():
        for headers in world.refused():
            answer = EVERY_CALL[name](door, headers)
            assert answer.status == 401, headers
            assert answer.headers["www-authenticate"] == "Bearer"
            assert answer.headers["content-type"] == "application/json"
            assert reason(answer) == Unauthenticated.reason
            told.add(answer.body)
    # Whatever was wrong, so that nobody learns which tokens there are or were.
    assert len(told) == 1


@pytest.mark.parametrize("name", EVERY_CALL)
def test_who_says_so_gets_further(world: World, name: str) -> None:
    answer = EVERY_CALL[name](world.door(everything=True), {"authorization": f"Bearer {world.token}"})
    works = name.endswith(("Card", "ListTasks", "/tasks"))
    assert answer.status in (200, 404)
    assert reason(answer) == (None if works else "TASK_NOT_FOUND")


def test_the_public_card_asks_nobody(world: World) -> None:
    card = request("GET", "/.well-known/agent-card.json", None)(world.door(everything=True), {})
    assert card.status == 200
    assert card.json()["securityRequirements"] == [{"schemes": {"bearer": {}}}]
