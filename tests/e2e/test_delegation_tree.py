"""A tree of tasks over two deployments of ours and an a2a-sdk server is stopped at its root: none runs on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.crowd import FULL
from tests.support.grove import Grove, running_grove
from tests.support.halting import halt
from tests.support.halts import Halts
from tests.support.redeployed import redeployed
from tests.support.stored import PEERS, TENANT, Stored
from tests.support.story import Place, eventually, trusted
from tests.support.twin import message
from tools.deploy.local import Stack

from interlock.a2a.models import TaskState
from interlock.oversight.delegation import Outcome

WIDTHS, SIZE = ((5, 5, 9), 1 + 5 + 25 + 225) if FULL else ((3, 3, 3), 1 + 3 + 9 + 27)
"""Of each level below the root, and all tasks."""
ROUNDS = 5 if FULL else 1
SECONDS = 300.0


@pytest.fixture
def grove() -> Iterator[Grove]:
    with running_grove() as grove:
        yield grove


@contextmanager
def caller(grove: Grove) -> Iterator[httpx.Client]:
    headers = {"A2A-Version": "1.0", "Authorization": "Bearer agent"}
    with httpx.Client(base_url=grove.url, headers=headers, timeout=60) as http:
        yield http


def plant(http: httpx.Client) -> str:
    """The root's task."""
    body = {
        "message": message(f"grow {' '.join(map(str, WIDTHS))}").wire(),
        "configuration": {"returnImmediately": True},
    }
    task_id: str = http.post("/message:send", json=body).raise_for_status().json()["task"]["id"]
    return task_id


def cancel(http: httpx.Client, task_id: str) -> None:
    canceled = http.post(f"/tasks/{task_id}:cancel", json={}).raise_for_status().json()
    assert canceled["status"]["state"] == TaskState.CANCELED


def come_to_rest(grove: Grove) -> None:
    """What the sweepers of the next minutes find is done."""

    def at_rest() -> bool:
        for place in grove.ours:
            place.later()
        eventually(lambda: grove.idle, SECONDS)
        return grove.at_rest

    eventually(at_rest, SECONDS)


@pytest.mark.parametrize("how", ["canceled", "halted"])
def test_a_tree_that_is_stopped_at_its_root_ends_everywhere(grove: Grove, how: str) -> None:
    with caller(grove) as http:
        root = plant(http)
        eventually(lambda: (grove.running, grove.size) == (SIZE, SIZE), SECONDS)
        assert all(grove.shares)
        if how == "canceled":
            cancel(http, root)
        else:
            halt(grove.home.twin)
        # Nobody has to come round for that.
        eventually(lambda: not grove.running and grove.idle, SECONDS)
    assert grove.size == SIZE
    assert grove.states == {TaskState.CANCELED: SIZE}
    come_to_rest(grove)
    delegations = [delegation for place in grove.ours for delegation in place.delegations]
    assert len(delegations) == SIZE - 1
    assert {delegation.outcome for delegation in delegations} == {Outcome.CANCELED.value}
    grove.check_unharmed()


@pytest.mark.parametrize("how", ["canceled", "halted"])
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_tree_that_is_stopped_while_it_grows_ends_everywhere(grove: Grove, how: str, round_: int) -> None:
    enough = SIZE * (round_ + 1) // (ROUNDS + 1)
    with caller(grove) as http:
        root = plant(http)
        eventually(lambda: grove.size >= enough, SECONDS)
        if how == "canceled":
            cancel(http, root)
        else:
            halt(grove.home.twin)
        come_to_rest(grove)
    assert enough <= grove.size <= SIZE
    assert not grove.running
    grove.check_unharmed()


# Deployed


@pytest.fixture(scope="module")
def alice(deployment: Stack, stack: Place) -> Iterator[httpx.Client]:
    """Who sees the trees of a deployment that knows itself, and may call it over plain HTTP."""
    itself = {"url": deployment.url, "authorization": f"Bearer {stack.tokens['peer']}"}
    document = json.dumps({"self": itself})
    deployment.client("secretsmanager").put_secret_value(SecretId=PEERS, SecretString=document)
    headers = {"Authorization": f"Bearer {stack.tokens['alice']}"}
    with (
        redeployed(deployment, "TurnsFunction", "OutboxFunction", INTERLOCK_LOCAL_WEBHOOKS="true"),
        httpx.Client(base_url=deployment.url, headers=headers, timeout=60, verify=trusted()) as http,
    ):
        yield http


def test_a_tree_is_canceled_through_the_deployed_api(
    stack: Place, stored: Stored, alice: httpx.Client
) -> None:
    agent = stack.caller("agent", "JSONRPC")
    root = agent.send("delegate 2 2 300", immediately=True).id

    def nodes() -> list[Any]:
        found: list[Any] = alice.get(f"/people/tasks/{root}/tree").raise_for_status().json()["nodes"]
        return found

    def works() -> bool:
        return any(node["level"] == 2 and node.get("state") == TaskState.WORKING for node in nodes())

    def settled() -> bool:
        return all(node["delegation"]["status"] == "settled" for node in nodes()[1:])

    eventually(works, SECONDS)
    assert agent.cancel(root).status.state == pb.TASK_STATE_CANCELED
    eventually(settled, SECONDS)
    ended = nodes()
    assert 1 + 2 < len(ended) <= 1 + 2 + 4
    # Some may not have come to be.
    assert {node.get("state", TaskState.CANCELED) for node in ended} == {TaskState.CANCELED}
    assert {node["delegation"]["outcome"] for node in ended[1:]} == {Outcome.CANCELED}
    tasks = {node.get("taskId") for node in ended}
    assert not [run for run in Halts(alice, stored).running(TENANT) if run.task_id in tasks]
    listed = stack.cli("tasks", root, label="alice").stdout.splitlines()
    assert [line.startswith("  ") for line in listed] == [node["level"] > 0 for node in ended]
