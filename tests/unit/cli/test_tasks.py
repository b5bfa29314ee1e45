"""`interlock tasks`: the tree below a task, for people and for programs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import refused
from tests.unit.cli.serving import Request, Response, serving

ROOT = {"level": 0, "taskId": "t-0", "agent": "demo", "skill": "delegate", "state": "TASK_STATE_WORKING"}
CHILD = {
    "level": 1,
    "taskId": "t-1",
    "agent": "demo",
    "skill": "work",
    "state": "TASK_STATE_CANCELED",
    "delegation": {"id": "d-1", "to": "self", "status": "settled", "outcome": "canceled", "child": "t-1"},
}
ELSEWHERE = {"level": 1, "delegation": {"id": "d-2", "to": "other", "status": "open", "child": "t-9"}}
UNKNOWN = {
    "level": 2,
    "delegation": {"id": "d-3", "to": "x\x1b[2J", "status": "parked", "outcome": "unreachable"},
}


class Door:
    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answer = Response({"nodes": [ROOT, CHILD, ELSEWHERE, UNKNOWN], "complete": True})

    def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        return self.answer


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def url(door: Door) -> Iterator[str]:
    with serving(door) as url:
        yield url


def test_the_tree_is_indented_and_says_how_each_stands(url: str, door: Door, interlock: Invoke) -> None:
    result = interlock("tasks", "t/0", "--url", url, "--token", "secret")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "t-0  demo/delegate  working",
        "  t-1  demo/work  canceled  [settled: canceled]",
        "  t-9  at other  [open]",
        "    a task that is not known, at x\\u001b[2J  [parked: unreachable]",
    ]
    (request,) = door.asked
    assert request.path == "/people/tasks/t%2F0/tree"


def test_with_json_it_is_the_document(url: str, interlock: Invoke) -> None:
    result = interlock("tasks", "t-0", "--json", "--url", url, "--token", "secret")
    document: Any = json.loads(result.stdout)
    assert document == {"nodes": [ROOT, CHILD, ELSEWHERE, UNKNOWN], "complete": True}


def test_that_there_is_more_is_said_beside_it(url: str, door: Door, interlock: Invoke) -> None:
    door.answer = Response({"nodes": [ROOT], "complete": False})
    result = interlock("tasks", "t-0", "--url", url, "--token", "secret")
    assert (result.exit_code, result.stderr) == (0, "There is more than is shown.\n")


def test_what_is_not_there_fails(url: str, door: Door, interlock: Invoke) -> None:
    door.answer = refused(404, "Task not found")
    result = interlock("tasks", "t-0", "--url", url, "--token", "secret")
    assert (result.exit_code, result.stderr) == (1, "Task not found\n")


def test_a_task_is_canceled(url: str, door: Door, interlock: Invoke) -> None:
    door.answer = Response({"status": "canceled"})
    result = interlock("cancel", "t/0", "--url", url, "--token", "secret")
    assert (result.exit_code, result.stdout) == (0, "Canceled.\n")
    (request,) = door.asked
    assert (request.method, request.path) == ("POST", "/people/tasks/t%2F0/cancel")
    result = interlock("cancel", "t/0", "--json", "--url", url, "--token", "secret")
    assert json.loads(result.stdout) == {"status": "canceled"}


def test_what_has_ended_is_not_canceled(url: str, door: Door, interlock: Invoke) -> None:
    door.answer = refused(400, "The task is in a terminal state and can not be canceled")
    result = interlock("cancel", "t-0", "--url", url, "--token", "secret")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "can not be canceled" in result.stderr
