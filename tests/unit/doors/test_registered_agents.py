"""The address that a registered agent has here: its card, both bindings, and who finds what below it."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.bindings import BINDINGS, Client
from tests.support.calls import call
from tests.support.cards import URL, card
from tests.support.elsewhere import Overseen, Scripted, said
from tests.support.twin import OPS, Deployment, nothing, running

from interlock.a2a.errors import InvalidParams, TaskNotFound, UnsupportedOperation
from interlock.a2a.models import TaskState, TaskStatus
from interlock.engine.registry import AgentNotFound
from interlock.oversight import approvals, hitl_prompt, modes
from interlock.oversight.modes import Mode

CARD = "/agents/far/.well-known/agent-card.json"
SEND: Mapping[str, Any] = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}}
HINTED: Mapping[str, Any] = {**SEND, "metadata": {"skillHint": "go"}}
DECLARED = {"go": {"mode": "autonomous"}, "ask": {"mode": "gated", "note": "Mind the gap"}}


def below(app: ASGIApp, prefix: str) -> ASGIApp:
    """The app as a client sees it whose base is `prefix`."""

    async def at(scope: Scope, receive: Receive, send: Send) -> None:
        path = prefix + (scope["path"] if scope["path"] != "/" else "")
        await app({**scope, "path": path, "raw_path": path.encode()}, receive, send)

    return at


class House(Overseen):
    def __init__(self, far: Scripted | None = None, **options: Any) -> None:
        self.far = far or Scripted(steps=[TaskStatus(state=TaskState.COMPLETED, message=said("done"))])
        super().__init__(self.far, DECLARED)
        self.app = self.deployment.agents_door(**options)

    def client(self, binding: Any, name: str = "far") -> Client:
        return Client(below(self.app, f"/agents/{name}"), binding)

    def card(self, who: str | None = "agent", path: str = CARD, **headers: str) -> httpx.Response:
        return call(self.app, "GET", path, who=who, headers=headers)


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture(params=BINDINGS, ids=lambda each: each.name)
def binding(request: pytest.FixtureRequest) -> Any:
    return request.param


# The card.


def test_the_card_says_what_holds_here(house: House) -> None:
    shown = house.card().json()
    assert (shown["name"], shown["description"]) == ("desk elsewhere", "Does things")
    assert [skill["id"] for skill in shown["skills"]] == ["go", "ask"]
    url = "http://interlock.test/agents/far"
    assert [(each["protocolBinding"], each["url"]) for each in shown["supportedInterfaces"]] == [
        ("JSONRPC", url),
        ("HTTP+JSON", url),
    ]
    assert shown["securityRequirements"] == [{"schemes": {"bearer": {}}}]
    extensions = {each["uri"]: each for each in shown["capabilities"]["extensions"]}
    assert set(extensions) == {hitl_prompt.URI, approvals.URI, modes.URI}
    assert extensions[modes.URI]["params"]["skills"] == {
        "go": {"mode": "autonomous"},
        "ask": {"mode": "gated", "note": "Mind the gap"},
    }
    assert shown["capabilities"]["extendedAgentCard"] is False


def test_the_card_has_the_modes_that_people_raised(house: House) -> None:
    house.registry.override(OPS, "far", "go", Mode.COMPOUND)
    declared = {each["uri"]: each for each in house.card().json()["capabilities"]["extensions"]}[modes.URI]
    assert declared["params"]["skills"]["go"] == {"mode": "compound"}


def test_nothing_of_theirs_that_is_not_true_here_is_in_it(house: House) -> None:
    house.far.cards[URL] = card(
        DECLARED,
        signatures=[{"protected": "a", "signature": "b"}],
        supportedInterfaces=[{"url": URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        securitySchemes={"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
        url=URL,
    )
    house.refreshed()
    text = house.card().text
    assert URL not in text
    assert "X-Key" not in text
    assert "signatures" not in text


def test_a_card_with_odd_texts_is_served_all_the_same(house: House) -> None:
    odd = {
        "name": "",
        "description": 7,
        "version": None,
        "provider": {"url": ""},
        "defaultInputModes": [7, ""],
    }
    house.far.cards[URL] = {**card(DECLARED), **odd, "skills": [{"id": "go"}, {"id": "go"}, 7, {"name": "x"}]}
    house.refreshed()
    shown = house.card().json()
    assert (shown["name"], shown["description"], shown["version"]) == ("far", "far", "1")
    assert [skill["id"] for skill in shown["skills"]] == ["go"]
    assert shown["defaultInputModes"] == ["text/plain"]


def test_the_card_is_for_those_who_are_known(house: House) -> None:
    assert house.card(None).status_code == 401
    assert house.card("stranger").status_code == 401
    found = house.card()
    assert found.headers["cache-control"].startswith("private")
    assert house.card(**{"If-None-Match": found.headers["etag"]}).status_code == 304


def test_a_card_that_is_not_known_yet_is_unavailable(house: House) -> None:
    house.registry.add(OPS, "later", "https://later.example")
    assert house.card(path=CARD.replace("far", "later")).status_code == 503


def test_clients_of_0_3_read_it_too() -> None:
    shown = House(v0_3=True).card().json()
    assert shown["url"] == "http://interlock.test/agents/far"
    assert shown["protocolVersion"].startswith("0.3")


@pytest.mark.parametrize(
    "path", ["/agents/none", "/agents/FAR", "/agents/desk", "/agents/%20", "/agents/far%0a"]
)
def test_a_name_that_is_not_there_is_not_found(house: House, path: str) -> None:
    refused = house.card(path=path + "/.well-known/agent-card.json")
    assert refused.status_code == 404
    assert refused.json()["error"]["details"][0]["reason"] in ("AGENT_NOT_FOUND", "METHOD_NOT_FOUND")


def test_an_agent_of_another_tenant_is_not_there_at_all(house: House) -> None:
    mine, theirs = house.card("spy"), house.card(path=CARD.replace("far", "none"))
    assert (mine.status_code, mine.json()) == (404, theirs.json())


# The operations.


def test_a_message_is_for_the_agent_of_the_address(house: House, binding: Any) -> None:
    client = house.client(binding)
    task = client.call("SendMessage", HINTED).task
    found = client.call("GetTask", {"id": task["id"]}).task
    assert (found["status"]["state"], found["status"]["message"]["parts"]) == (
        "TASK_STATE_COMPLETED",
        [{"text": "done"}],
    )
    assert house.deployment.meta(task["id"]).agent == "far"


def test_a_hint_of_the_request_is_heeded_and_forwarded(house: House, binding: Any) -> None:
    client = house.client(binding)
    client.call("SendMessage", {**SEND, "metadata": {"skillHint": "go"}})
    assert house.far.sent[0].metadata["skillHint"] == "go"
    client.call("SendMessage", {**SEND, "metadata": {"skillHint": "none"}}).refused(InvalidParams)


def test_without_a_hint_the_strictest_mode_of_all_skills_holds(house: House, binding: Any) -> None:
    task = house.client(binding).call("SendMessage", SEND).task
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert house.far.sent == []


def test_a_name_that_is_not_there_is_refused_alike_for_every_operation(house: House, binding: Any) -> None:
    for method, params in OPERATIONS.items():
        missing = house.client(binding, "none").call(method, params)
        missing.refused(AgentNotFound)
        assert house.client(binding).call(method, params, who="spy").http.text == missing.http.text


OPERATIONS: Mapping[str, Mapping[str, Any]] = {
    "SendMessage": SEND,
    "GetTask": {"id": "t"},
    "ListTasks": {},
    "CancelTask": {"id": "t"},
}


def test_below_an_agent_there_are_its_tasks_only(house: House, binding: Any) -> None:
    client, whole = house.client(binding), Client(house.app, binding)
    here = whole.call("SendMessage", SEND).task["id"]
    there = client.call("SendMessage", SEND).task["id"]
    client.call("GetTask", {"id": here}).refused(TaskNotFound)
    client.call("CancelTask", {"id": here}).refused(TaskNotFound)
    more = {"message": {**SEND["message"], "taskId": here}}
    client.call("SendMessage", more).refused(TaskNotFound)
    assert [task["id"] for task in client.call("ListTasks", {}).result["tasks"]] == [there]
    assert {task["id"] for task in whole.call("ListTasks", {}).result["tasks"]} == {here, there}
    assert whole.call("GetTask", {"id": there}).task["id"] == there


def test_an_answer_and_a_cancel_reach_the_task_below_its_agent(binding: Any) -> None:
    house = House(Scripted(steps=[TaskStatus(state=TaskState.INPUT_REQUIRED, message=said("Go on?"))]))
    client = house.client(binding)
    task_id = client.call("SendMessage", HINTED).task["id"]
    house.far.then = [TaskState.COMPLETED]
    client.call("SendMessage", {"message": {**SEND["message"], "taskId": task_id}})
    assert client.call("GetTask", {"id": task_id}).task["status"]["state"] == "TASK_STATE_COMPLETED"
    house.far.steps = [TaskStatus(state=TaskState.INPUT_REQUIRED, message=said("Go on?"))]
    task_id = client.call("SendMessage", HINTED).task["id"]
    assert client.call("CancelTask", {"id": task_id}).task["status"]["state"] == "TASK_STATE_CANCELED"
    house.outbox()
    assert len(house.far.canceled) == 1


def test_there_is_no_extended_card_below_an_agent(house: House) -> None:
    refused = call(
        house.app, "GET", "/agents/far/extendedAgentCard", who="agent", headers={"A2A-Version": "1.0"}
    )
    assert refused.json()["error"]["details"][0]["reason"] == UnsupportedOperation.reason


def test_where_none_are_registered_nothing_is_there() -> None:
    app = Deployment(running(nothing)).agents_door()
    assert call(app, "GET", CARD, who="agent").status_code == 404
