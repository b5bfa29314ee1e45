"""What a halt looks like on the wire, on both bindings and in 0.3, and what is served meanwhile."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from tests.support import approvals
from tests.support.calls import call
from tests.support.halt_records import SCOPES
from tests.support.halting import ACME, REASON, halt, resume, walk_all
from tests.support.twin import ANN, APPROVAL, Deployment, asking, once

from interlock.a2a.models import TaskState
from interlock.engine.halts import UNREADABLE
from interlock.engine.ports import OutcomeUnknown
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import KEY
from interlock.oversight.halts import Scope

YES = {"approved": True}
SKILL = Scope("acme", skill="work")


def said(**more: Any) -> dict[str, Any]:
    return {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "go"}], **more}


@dataclass(frozen=True)
class JsonRpc:
    """By A2A 1.0, or else by 0.3, which has its own names for the same."""

    version: str = "1.0"

    def __str__(self) -> str:
        return f"JSON-RPC {self.version}"

    def send(self, door: Starlette, who: str, message: Mapping[str, Any], *, stream: bool) -> httpx.Response:
        if self.version == "1.0":
            method = "SendStreamingMessage" if stream else "SendMessage"
            return self._call(door, who, method, {"message": message})
        parts = [{"kind": "text", **part} for part in message["parts"]]
        old = {**message, "kind": "message", "role": "user", "parts": parts}
        return self._call(door, who, "message/stream" if stream else "message/send", {"message": old})

    def on_task(self, door: Starlette, name: str, task_id: str) -> httpx.Response:
        old = {"GetTask": "tasks/get", "CancelTask": "tasks/cancel", "SubscribeToTask": "tasks/resubscribe"}
        return self._call(door, "agent", name if self.version == "1.0" else old[name], {"id": task_id})

    def _call(self, door: Starlette, who: str, method: str, params: Any) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return call(door, "POST", "/", who=who, body=body, headers=_headers(self.version))

    def refusal(self, response: httpx.Response) -> str:
        if response.headers["content-type"].startswith("text/event-stream"):
            # So does 0.3 say of a stream that it was refused.
            assert self.version == "0.3"
            body = json.loads(response.text.removeprefix("event: error\ndata: "))
        else:
            body = response.json()
        assert (response.status_code, body["jsonrpc"], body["id"]) == (200, "2.0", 1)
        assert body["error"]["code"] == -32603
        assert "result" not in body
        return str(body["error"]["message"])

    def result(self, response: httpx.Response) -> Any:
        return response.json()["result"]


@dataclass(frozen=True)
class HttpJson:
    version: str = "1.0"

    def __str__(self) -> str:
        return "HTTP+JSON"

    def send(self, door: Starlette, who: str, message: Mapping[str, Any], *, stream: bool) -> httpx.Response:
        path = "/message:stream" if stream else "/message:send"
        return call(door, "POST", path, who=who, body={"message": message}, headers=_headers("1.0"))

    def on_task(self, door: Starlette, name: str, task_id: str) -> httpx.Response:
        method, path = {
            "GetTask": ("GET", f"/tasks/{task_id}"),
            "CancelTask": ("POST", f"/tasks/{task_id}:cancel"),
            "SubscribeToTask": ("POST", f"/tasks/{task_id}:subscribe"),
        }[name]
        return call(door, method, path, who="agent", headers=_headers("1.0"))

    def refusal(self, response: httpx.Response) -> str:
        error = response.json()["error"]
        assert (response.status_code, error["code"], error["status"]) == (503, 503, "UNAVAILABLE")
        return str(error["message"])

    def result(self, response: httpx.Response) -> Any:
        assert response.status_code == 200
        return response.json()


Wire = JsonRpc | HttpJson
WIRES: tuple[Wire, ...] = (JsonRpc(), HttpJson(), JsonRpc("0.3"))


def _headers(version: str) -> dict[str, str]:
    headers = {"X-A2A-Extensions": hitl_prompt.URI}
    return {**headers, "A2A-Version": version} if version == "1.0" else headers


@dataclass(frozen=True)
class Stage:
    """A deployment with a task that waits, and a message to it, or without both."""

    deployment: Deployment
    door: Starlette
    message: dict[str, Any]
    who: str


def staged(deployment: Deployment, who: str, make: Callable[[str], dict[str, Any]] | None = None) -> Stage:
    door = deployment.agents_door(streaming=True, v0_3=True)
    if make is None:
        return Stage(deployment, door, said(), who)
    task_id = deployment.send().id
    return Stage(deployment, door, said(taskId=task_id, **make(task_id)), who)


def an_answer() -> Stage:
    deployment = Deployment(asking())

    def answer(task_id: str) -> dict[str, Any]:
        said = {"prompt_id": deployment.open_prompt(task_id), "payload": YES}
        return {"metadata": {hitl_prompt.RESPONSE_KEY: said}}

    return staged(deployment, "ann", answer)


def a_vote() -> Stage:
    deployment = Deployment(approvals.asking_leave(quorum=2))

    def vote(task_id: str) -> dict[str, Any]:
        request_id, asked = approvals.open_request(deployment, task_id)
        decision = {"requestId": request_id, "decision": "approve", "digest": asked.digest}
        return {"metadata": {KEY: decision}}

    return staged(deployment, "ann", vote)


STAGES: dict[str, Callable[[], Stage]] = {
    "a new task": lambda: staged(Deployment(asking()), "agent"),
    "an answer": an_answer,
    "a vote": a_vote,
    "a message that goes on": lambda: staged(Deployment(asking()), "agent", lambda task_id: {}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["sent", "streamed"])
@pytest.mark.parametrize("what", STAGES)
@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_whatever_is_sent_while_halted_is_refused_with_the_reason_and_taken_after_it(
    wire: Wire, what: str, stream: bool
) -> None:
    stage = STAGES[what]()
    halt(stage.deployment)
    waiting = {task.id: stage.deployment.meta(task.id) for task in stage.deployment.listed().tasks}
    refused = wire.send(stage.door, stage.who, stage.message, stream=stream)
    assert wire.refusal(refused) == f"halted: {REASON}"
    assert len(refused.content) < 1024
    # Nothing was consumed, and nothing is left to be run.
    assert {task_id: stage.deployment.meta(task_id) for task_id in waiting} == waiting
    assert stage.deployment.run_rows() == {}
    resume(stage.deployment)
    assert wire.result(wire.send(stage.door, stage.who, stage.message, stream=False))


@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_every_scope_is_refused_alike(wire: Wire, scope: Scope) -> None:
    stage = STAGES["a new task"]()
    halt(stage.deployment, scope, f"{scope} is down")
    refused = wire.send(stage.door, stage.who, stage.message, stream=False)
    assert wire.refusal(refused) == f"halted: {scope} is down"


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_a_refusal_names_itself_to_machines(wire: Wire) -> None:
    stage = STAGES["a new task"]()
    halt(stage.deployment)
    body = wire.send(stage.door, stage.who, stage.message, stream=False).json()
    (info,) = body["error"].get("details", body["error"].get("data"))
    assert info["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert info["reason"] == "HALTED"


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_a_halt_state_that_can_not_be_read_is_a_halt_and_says_nothing_internal(wire: Wire) -> None:
    stage = STAGES["a new task"]()

    def hook(operation: str, _: tuple[Any, ...]) -> None:
        if operation == "snapshot":
            raise OutcomeUnknown("no answer from table-0815")

    stage.deployment.hook(before=hook)
    refused = wire.send(stage.door, stage.who, stage.message, stream=False)
    assert wire.refusal(refused) == f"halted: {UNREADABLE}"
    assert "0815" not in refused.text
    assert stage.deployment.run_rows() == {}


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_tasks_are_read_and_canceled_while_halted(wire: Wire) -> None:
    stage = an_answer()
    task_id = stage.message["taskId"]
    halt(stage.deployment)
    walk_all(stage.deployment)
    assert wire.result(wire.on_task(stage.door, "GetTask", task_id))["id"] == task_id
    canceled = wire.result(wire.on_task(stage.door, "CancelTask", task_id))
    assert canceled["status"]["state"] in {"TASK_STATE_CANCELED", "canceled"}


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_a_task_is_followed_while_halted_until_it_is_stopped(wire: Wire) -> None:
    deployment = Deployment(asking(), at_once=False)
    door = deployment.agents_door(streaming=True, v0_3=True)
    task_id = deployment.send().id
    halt(deployment)
    deployment.hook(after=once("query", lambda: walk_all(deployment)))
    followed = wire.on_task(door, "SubscribeToTask", task_id)
    assert followed.headers["content-type"].startswith("text/event-stream")
    assert f"halted: {REASON}" in followed.text
    assert deployment.meta(task_id).task_state is TaskState.CANCELED


def test_tasks_are_listed_while_halted() -> None:
    stage = an_answer()
    halt(stage.deployment)
    for response in (
        call(stage.door, "GET", "/tasks", who="agent", headers=_headers("1.0")),
        JsonRpc()._call(stage.door, "agent", "ListTasks", {}),
    ):
        assert stage.message["taskId"] in response.text


def test_a_repeat_of_an_accepted_answer_is_told_so_on_every_wire() -> None:
    stage = an_answer()
    first = JsonRpc().send(stage.door, "ann", stage.message, stream=False)
    assert JsonRpc().result(first)
    halt(stage.deployment)
    for wire in WIRES:
        assert wire.result(wire.send(stage.door, "ann", stage.message, stream=False))
    with stage.deployment.unchanged():
        other = {**stage.message, "messageId": "m-3"}
        for wire in WIRES:
            assert wire.refusal(wire.send(stage.door, "ann", other, stream=False)) == f"halted: {REASON}"


@pytest.mark.parametrize("wire", WIRES, ids=str)
def test_an_answer_that_would_be_refused_anyway_is_told_of_the_halt(wire: Wire) -> None:
    deployment = Deployment(asking(APPROVAL, deadline=timedelta(minutes=1)))
    door = deployment.agents_door(streaming=True, v0_3=True)
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)

    def answer(who: str, payload: Any) -> httpx.Response:
        metadata = {hitl_prompt.RESPONSE_KEY: {"prompt_id": prompt_id, "payload": payload}}
        return wire.send(door, who, said(taskId=task_id, metadata=metadata), stream=False)

    invalid = answer("ann", {"approved": "yes"})
    assert invalid.json()["error"]["code"] in {-32011, 422}
    halt(deployment, ACME)
    deployment.clock.advance(61)
    for who, payload in (("ann", {"approved": "yes"}), ("ann", YES), ("bot", YES)):
        assert wire.refusal(answer(who, payload)) == f"halted: {REASON}"
    # Who may not see the task is not told that it is halted.
    hidden = answer("spy", YES)
    assert hidden.json()["error"]["code"] in {-32001, 404}
    resume(deployment)
    assert answer(ANN.id.removeprefix("bearer:"), YES).json()["error"]["code"] in {-32010, 409}
