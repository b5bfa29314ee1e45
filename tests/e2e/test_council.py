"""Three of five through the deployed API, over networks that lose what they carry: the count is exact, the
agent goes on once, and a request has one outcome."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tests.support.council.council import MEMBERS, QUORUM
from tests.support.crowd import FULL, at_once, split
from tests.support.cutting import CuttingProxy, cutting_proxy
from tests.support.faults import LOSSY, FaultProxy, fault_proxy
from tests.support.redeployed import DOORS, function_name, redeployed
from tests.support.stored import Stored
from tests.support.story import Place, create_identity, eventually, jsonrpc
from tests.support.votes import WAYS, admitted, connection, insist, message
from tools.deploy.local import Stack

from interlock.a2a.models import TaskState
from interlock.engine.records import Checkpoint, TaskMeta, parse_instant

VOTES, ROUNDS = (50, 200) if FULL else (15, 1)
EXIT_ROUNDS = 10 if FULL else 1
SEALED_SECONDS = 150.0
"""In which the sweeper has passed by twice, should a wake be lost."""
WITHIN_SECONDS = 4
"""A deadline that leaves two people time to vote on a busy machine."""

Connections = Mapping[str, httpx.Client]
_amounts = count(1)


@pytest.fixture(scope="module")
def council(deployment: Stack, stack: Place) -> Place:
    """The deployment with all five members."""
    late = [member for member in MEMBERS if member not in stack.tokens]

    def create(label: str) -> str:
        return create_identity(deployment, stack.folder, label, "demo", "person", "approver")

    with ThreadPoolExecutor(2) as pool:
        tokens = dict(zip(late, pool.map(create, late), strict=True))
    return replace(stack, tokens={**stack.tokens, **tokens})


@pytest.fixture(scope="module")
def table_faults(deployment: Stack) -> Iterator[FaultProxy]:
    """Between the doors and their tables."""
    with (
        fault_proxy(deployment.endpoint) as proxy,
        redeployed(deployment, *DOORS, AWS_ENDPOINT_URL_DYNAMODB=proxy.url),
    ):
        yield proxy


@pytest.fixture
def api_faults(council: Place, table_faults: FaultProxy) -> Iterator[CuttingProxy]:
    """Between the clients and the API."""
    with cutting_proxy(council.url) as proxy:
        yield proxy


@pytest.fixture
def connections(council: Place, api_faults: CuttingProxy) -> Iterator[Connections]:
    opened = {label: connection(api_faults.url, council.tokens[label]) for label in (*MEMBERS, "agent")}
    yield opened
    for http in opened.values():
        http.close()


def asked(council: Place, stored: Stored, more: str = "") -> tuple[str, Checkpoint]:
    """A task that waits for three of five, and its request."""
    sent = council.caller("agent", "JSONRPC").send(f"spend {next(_amounts)}{more}", immediately=True)
    at_rest(stored, sent.id)
    (request,) = stored.requests(sent.id)
    return sent.id, request


def at_rest(stored: Stored, task_id: str) -> TaskMeta:
    def look() -> TaskMeta | None:
        meta = stored.meta(task_id)
        busy = meta.task_state in (TaskState.SUBMITTED, TaskState.WORKING)
        return None if busy else meta

    found = eventually(look)
    assert found is not None
    return found


def vote(
    connections: Connections, request: Checkpoint, member: str, said: str = "approve", way: int = 0
) -> httpx.Response:
    digest = json.loads(request.approval or "{}")["digest"]
    wire = {"requestId": request.ask_id, "decision": said, "digest": digest}
    return insist(lambda: WAYS[way](connections[member], request.task_id, request.ask_id, wire))


def test_three_of_five_are_counted_and_the_agent_goes_on_once(
    council: Place,
    connections: Connections,
    api_faults: CuttingProxy,
    table_faults: FaultProxy,
    stored: Stored,
) -> None:
    chance = Random(35)
    agent = council.caller("agent", "JSONRPC")
    counted: dict[str, list[str]] = {}
    for _ in range(ROUNDS):
        task_id, request = asked(council, stored)
        voters = [MEMBERS[number % len(MEMBERS)] for number in range(VOTES)]
        chance.shuffle(voters)
        ways = [chance.randrange(len(WAYS)) for _ in voters]
        api_faults.cut(VOTES // 4)
        table_faults.fail(*chance.choices(LOSSY, k=20 * VOTES))
        replies, failures = split(
            at_once(
                *(
                    partial(vote, connections, request, who, way=way)
                    for who, way in zip(voters, ways, strict=True)
                )
            )
        )
        assert failures == []
        assert api_faults.left_to_cut == 0
        assert table_faults.operations
        table_faults.reset()
        told = {voters[number] for number, reply in replies if admitted(reply)}
        counted[task_id] = sorted(f"bearer:{member}" for member in told)
        assert len(told) == QUORUM, "who came too late was not counted, whoever counted was told so"

        at_rest(stored, task_id)
        done = agent.get(task_id)
        assert done.status.state == pb.TASK_STATE_COMPLETED
        (receipt,) = [MessageToDict(part.data) for artifact in done.artifacts for part in artifact.parts]
        assert receipt["approvedBy"] == counted[task_id]
        assert [found.status for found in stored.requests(task_id)] == [Checkpoint.APPROVED]
    check_the_trail(stored, counted)


def check_the_trail(stored: Stored, counted: Mapping[str, list[str]]) -> None:
    """Each vote that counted is on it once, the turn was claimed once, and one vote reached the agent."""

    def sealed() -> Mapping[str, list[dict[str, Any]]] | None:
        found = stored.records()
        states = ([record.get("state") for record in found[task_id]] for task_id in counted)
        return found if all("TASK_STATE_COMPLETED" in state for state in states) else None

    trail = eventually(sealed, SEALED_SECONDS)
    assert trail is not None
    for task_id, people in counted.items():
        records = trail[task_id]
        votes = [record for record in records if record["kind"] == "approval"]
        actors = [f"{vote['actor']['scheme']}:{vote['actor']['subject']}" for vote in votes]
        assert sorted(actors) == people
        assert [vote["detail"].get("reachedExecutor") for vote in votes].count(True) == 1
        assert [record["runSeq"] for record in records if record["kind"] == "run.started"] == [1, 2]


ENDS = {
    Checkpoint.APPROVED: "approve",
    Checkpoint.DENIED: "deny",
    Checkpoint.CANCELED: "cancel",
    Checkpoint.SUPERSEDED: "go on",
    Checkpoint.EXPIRED: "expire",
}
STATES = {
    "approve": TaskState.COMPLETED,
    "deny": TaskState.REJECTED,
    "cancel": TaskState.CANCELED,
    "go on": TaskState.INPUT_REQUIRED,
    "expire": TaskState.FAILED,
}


def exits_of(
    deployment: Stack, connections: Connections, request: Checkpoint
) -> dict[str, Callable[[], bool]]:
    """What can end the request, each with whether it was accepted."""
    agent, task_id = connections["agent"], request.task_id

    def accepted(reply: httpx.Response) -> bool:
        return reply.status_code == httpx.codes.OK and "error" not in reply.json()

    def cancel() -> bool:
        return accepted(insist(lambda: agent.post("/", json=jsonrpc("CancelTask", {"id": task_id}))))

    def go_on() -> bool:
        return accepted(agent.post("/", json=jsonrpc("SendMessage", message(task_id))))

    def approve() -> bool:
        wait_for(request)
        return admitted(vote(connections, request, "carol"))

    def expire() -> bool:
        wait_for(request)
        wake_timers(deployment, request)
        return False

    return {
        "approve": approve,
        "deny": lambda: admitted(vote(connections, request, "dave", "deny")),
        "cancel": cancel,
        "go on": go_on,
        "expire": expire,
    }


def wait_for(request: Checkpoint) -> None:
    """Until its deadline, if it has one."""
    if request.deadline is not None:
        left = parse_instant(request.deadline) - datetime.now(UTC)
        time.sleep(max(0.0, left.total_seconds()))


def wake_timers(deployment: Stack, request: Checkpoint) -> None:
    """As the queue does, but not up to a second late."""
    key = request.due_key
    assert key is not None
    record = {
        "messageId": str(uuid4()),
        "eventSource": "aws:sqs",
        "body": json.dumps({"pk": key.pk, "sk": key.sk}),
    }
    timers = function_name(deployment, "TimersFunction")
    deployment.client("lambda").invoke(FunctionName=timers, Payload=json.dumps({"Records": [record]}))


@pytest.mark.parametrize("other", ["deny", "cancel", "go on", "expire"])
def test_the_deciding_vote_and_another_exit_leave_one_outcome(
    deployment: Stack, council: Place, connections: Connections, stored: Stored, other: str
) -> None:
    within = f" within {WITHIN_SECONDS}" if other == "expire" else ""
    for number in range(EXIT_ROUNDS):
        task_id, request = asked(council, stored, within)
        for member in MEMBERS[: QUORUM - 1]:
            assert admitted(vote(connections, request, member))
        acts = exits_of(deployment, connections, request)
        order = ["approve", other] if number % 2 else [other, "approve"]
        outcomes = dict(zip(order, at_once(*(acts[name] for name in order)), strict=True))
        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)], outcomes

        meta = at_rest(stored, task_id)
        (ended,) = [
            ENDS[found.status] for found in stored.requests(task_id) if found.ask_id == request.ask_id
        ]
        assert ended in order
        done = {name for name, accepted in outcomes.items() if accepted}
        # Who comes second is refused, but for a cancel, which ends a task that goes on too.
        assert done - {"cancel"} == {ended} - {"cancel", "expire"}, outcomes
        if "cancel" in done:
            assert meta.task_state in (TaskState.CANCELED, TaskState.COMPLETED)
        else:
            assert meta.task_state is STATES[ended]
        waiting = [found.ask_id for found in stored.requests(task_id) if found.status == Checkpoint.OPEN]
        assert waiting == ([meta.ask] if ended == "go on" else [])
        if waiting:
            assert acts["cancel"]()
        assert Checkpoint.OPEN not in [found.status for found in stored.requests(task_id)]
        assert meta.turn == (2 if ended in ("approve", "deny", "go on") else 1)
