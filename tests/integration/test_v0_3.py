"""A2A 0.3 through the whole door: what only shows with the engine behind it."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from tests.support.a2a_wire import ask
from tests.support.push import CREDENTIALS, TOKEN, URL, Outbox, with_push
from tests.support.twin import ANN, Deployment, asking

from interlock.oversight import hitl_prompt

HEADERS = {
    "host": "a.example",
    "content-type": "application/json",
    "authorization": "Bearer agent",
    "x-a2a-extensions": hitl_prompt.URI,
}
HOOK = {
    "url": URL,
    "token": TOKEN,
    "authentication": {"schemes": ["Bearer"], "credentials": CREDENTIALS},
}
MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "go"}]}


@pytest.fixture
def deployment() -> Deployment:
    return Deployment(asking())


@pytest.fixture
def outbox(deployment: Deployment, tmp_path: Path) -> Outbox:
    return with_push(deployment, tmp_path)


def call(door: Starlette, method: str, params: Any) -> Any:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return ask(door, "POST", "/", body=body, headers=HEADERS).json()


def test_a_web_hook_that_was_set_in_0_3_is_sent_the_task_in_0_3(
    deployment: Deployment, outbox: Outbox
) -> None:
    door = deployment.agents_door(v0_3=True)
    configuration = {"pushNotificationConfig": HOOK}
    task = call(door, "message/send", {"message": MESSAGE, "configuration": configuration})["result"]
    deployment.answer(ANN, task["id"], {"approved": True})
    outbox.deliver("acme", task["id"])
    bodies = [arrived.body for arrived in outbox.inbox.arrived]
    assert {body["kind"] for body in bodies} == {"task"}
    states = [body["status"]["state"] for body in bodies]
    assert states == ["working", "input-required", "working", "completed"]
    assert hitl_prompt.URI in bodies[1]["status"]["message"]["metadata"]
    assert bodies[-1] == call(door, "tasks/get", {"id": task["id"]})["result"]
    for arrived in outbox.inbox.arrived:
        assert arrived.headers == {
            "Content-Type": "application/json",
            "Authorization": f"Bearer {CREDENTIALS}",
            "X-A2A-Notification-Token": TOKEN,
        }


def test_each_web_hook_of_a_task_is_served_in_its_own_version(deployment: Deployment, outbox: Outbox) -> None:
    door = deployment.agents_door(v0_3=True)
    task = call(door, "message/send", {"message": MESSAGE})["result"]
    legacy = {**HOOK, "id": "legacy", "url": f"{URL}/legacy"}
    kept = call(
        door, "tasks/pushNotificationConfig/set", {"taskId": task["id"], "pushNotificationConfig": legacy}
    )["result"]
    assert (kept["taskId"], kept["pushNotificationConfig"]["id"]) == (task["id"], "legacy")
    current = {**HEADERS, "a2a-version": "1.0"}
    config = json.dumps({"url": f"{URL}/current", "id": "current"}).encode()
    created = ask(door, "POST", f"/tasks/{task['id']}/pushNotificationConfigs", body=config, headers=current)
    assert created.status == 200

    deployment.answer(ANN, task["id"], {"approved": True})
    outbox.deliver("acme", task["id"])
    sent = {
        url: [arrived.body for arrived in outbox.inbox.arrived if arrived.url == f"{URL}/{url}"]
        for url in ("legacy", "current")
    }
    assert [body["status"]["state"] for body in sent["legacy"]] == ["working", "completed"]
    assert [list(body) for body in sent["current"]] == [["statusUpdate"], ["statusUpdate"]]


def test_a_configuration_without_an_id_is_the_tasks_and_is_replaced(
    deployment: Deployment, outbox: Outbox
) -> None:
    door = deployment.agents_door(v0_3=True)
    configuration = {"pushNotificationConfig": HOOK}
    task_id = call(door, "message/send", {"message": MESSAGE, "configuration": configuration})["result"]["id"]
    hook = {"taskId": task_id, "pushNotificationConfig": {"url": f"{URL}/new"}}
    for _ in range(2):
        call(door, "tasks/pushNotificationConfig/set", hook)
    (kept,) = call(door, "tasks/pushNotificationConfig/list", {"id": task_id})["result"]
    assert kept == {"taskId": task_id, "pushNotificationConfig": {"id": task_id, "url": f"{URL}/new"}}


def test_configurations_are_listed_got_and_deleted(deployment: Deployment, outbox: Outbox) -> None:
    door = deployment.agents_door(v0_3=True)
    task_id = call(door, "message/send", {"message": MESSAGE})["result"]["id"]
    prefix = "tasks/pushNotificationConfig"
    for name in ("a", "b"):
        hook = {"url": URL, "id": name}
        call(door, f"{prefix}/set", {"taskId": task_id, "pushNotificationConfig": hook})
    listed = call(door, f"{prefix}/list", {"id": task_id})["result"]
    assert [config["pushNotificationConfig"]["id"] for config in listed] == ["a", "b"]
    assert call(door, f"{prefix}/get", {"id": task_id})["result"] == listed[0]
    named = {"id": task_id, "pushNotificationConfigId": "b"}
    assert call(door, f"{prefix}/get", named)["result"] == listed[1]
    for _ in range(2):
        assert call(door, f"{prefix}/delete", named) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert call(door, f"{prefix}/get", named)["error"]["code"] == -32001
    assert call(door, f"{prefix}/list", {"id": task_id})["result"] == listed[:1]
