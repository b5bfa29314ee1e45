"""Votes at once: the count is exact, the agent goes on once, and a request has one outcome."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tests.support.approvals import decision, status_metadata
from tests.support.backend import Backend, running_backend
from tests.support.crowd import FULL, at_once, split
from tests.support.emulator import Emulator
from tests.support.faults import LOSSY, Fault, FaultProxy, fault_proxy
from tests.support.story import Place, eventually
from tests.support.twin import AGENT, PROMPTS, message
from tests.support.votes import WAYS, admitted, connection
from tests.support.workshop import ACTION, DEADLINE_SECONDS, QUORUM

from interlock import bootstrap
from interlock.a2a.errors import InvalidParams, Unavailable
from interlock.a2a.models import CancelTaskRequest, Task, TaskState
from interlock.adapters.clock import SystemClock
from interlock.engine.cancel import cancel_task
from interlock.engine.due import handle_due
from interlock.engine.ports import StoreError
from interlock.engine.records import Checkpoint
from interlock.oversight.approvals import KEY, QUORUM_KEY
from interlock.oversight.canonical_json import digest
from interlock.oversight.principals import Kind, Principal, Role

PEOPLE = tuple(
    Principal(f"bearer:approver-{number}", AGENT.tenant, Kind.PERSON, frozenset({Role.APPROVER}))
    for number in range(5)
)
VOTES, ROUNDS = (50, 200) if FULL else (20, 3)
EXIT_ROUNDS = 25 if FULL else 2
API_VOTES, API_ROUNDS = (50, 20) if FULL else (12, 1)
TRIES = 100
DIGEST = digest(ACTION)


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


@pytest.fixture
def backend(emulator: Emulator, proxy: FaultProxy, tmp_path: Path) -> Iterator[Backend]:
    with running_backend(emulator, tmp_path, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as backend:
        yield backend


def asked(backend: Backend) -> tuple[str, str]:
    """A task that waits, and the id of its request."""
    sent = backend.send("by leave")
    backend.work()
    request_id = backend.meta(sent.id).ask
    assert request_id is not None
    return sent.id, request_id


def insist(backend: Backend, task_id: str, request_id: str, who: Principal, said: str = "approve") -> Task:
    """As a client does that gets no reply: it says the same again."""
    for _ in range(TRIES):
        with suppress(StoreError, Unavailable):
            return backend.send(decision(task_id, request_id, said, digest=DIGEST), who)
    raise AssertionError("never answered")


@pytest.mark.parametrize("faults", [[], LOSSY], ids=["sound network", "lossy network"])
def test_three_of_five_are_counted_and_the_agent_goes_on_once(
    backend: Backend, proxy: FaultProxy, faults: list[Fault | None]
) -> None:
    chance = Random(35)
    for _ in range(ROUNDS):
        task_id, request_id = asked(backend)
        if faults:
            proxy.fail(*chance.choices(faults, k=20 * VOTES))
        voters = [PEOPLE[number % len(PEOPLE)] for number in range(VOTES)]
        chance.shuffle(voters)
        outcomes = at_once(*(partial(insist, backend, task_id, request_id, who) for who in voters))
        proxy.reset()

        (request,) = backend.prompts(task_id)
        assert request.status == Checkpoint.APPROVED
        admitted, refused = split(outcomes)
        assert all(isinstance(error, InvalidParams) for error in refused), refused
        counted = sorted({voters[number].id for number, _ in admitted})
        assert len(counted) == QUORUM, "who came too late was not counted, whoever counted was told so"
        for _, task in admitted:
            if task.status.state == TaskState.INPUT_REQUIRED:
                progress = status_metadata(task).get(QUORUM_KEY, {"approvedBy": [], "required": QUORUM})
                assert set(progress["approvedBy"]) <= set(counted)

        # Woken twice, it is run once.
        backend.fan_out()
        backend.work()
        done = backend.get(task_id)
        assert done.status.state == TaskState.COMPLETED
        (artifact,) = done.artifacts or []
        assert artifact.parts[0].data == {"approvers": counted}
        assert artifact.name in counted
        assert len(backend.started(task_id)) == 2
        assert backend.meta(task_id).turn == 2
        check_nothing_left(backend)


class Ahead(SystemClock):
    """Of a host for which the deadline has passed, while for the others there is time."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=DEADLINE_SECONDS + 1)


ENDS = {
    Checkpoint.APPROVED: "approve",
    Checkpoint.DENIED: "deny",
    Checkpoint.CANCELED: "cancel",
    Checkpoint.SUPERSEDED: "go on",
    Checkpoint.EXPIRED: "expire",
}


def exits_of(backend: Backend, task_id: str, request_id: str) -> dict[str, Callable[[], object]]:
    engine = bootstrap.engine()
    (due,) = [key for key in backend.due_rows() if task_id in key.sk]
    late = replace(engine, clock=Ahead())
    return {
        "approve": partial(insist, backend, task_id, request_id, PEOPLE[2]),
        "deny": partial(insist, backend, task_id, request_id, PEOPLE[3], "deny"),
        "cancel": lambda: cancel_task(engine, AGENT, CancelTaskRequest(id=task_id), extensions=PROMPTS),
        "go on": lambda: backend.send(message("by leave, now", task_id=task_id)),
        "expire": lambda: handle_due(late, due),
    }


@pytest.mark.parametrize("other", ["deny", "cancel", "go on", "expire"])
def test_the_deciding_vote_and_another_exit_leave_one_outcome(backend: Backend, other: str) -> None:
    for number in range(EXIT_ROUNDS):
        task_id, request_id = asked(backend)
        for who in PEOPLE[: QUORUM - 1]:
            insist(backend, task_id, request_id, who)
        acts = exits_of(backend, task_id, request_id)
        order = ["approve", other] if number % 2 else [other, "approve"]
        outcomes = dict(zip(order, at_once(*(acts[name] for name in order)), strict=True))

        (request,) = [found for found in backend.prompts(task_id) if found.ask_id == request_id]
        ended = ENDS[request.status]
        assert ended in order
        done = {name for name, outcome in outcomes.items() if not isinstance(outcome, Exception)}
        assert ended in done, outcomes
        # Who comes second is refused, but for a cancel, which ends a task that goes on too, and for the look
        # at a deadline, which finds that there is nothing to do.
        assert done - {ended} <= {"cancel", "expire"}, outcomes

        backend.work()
        meta = backend.meta(task_id)
        waiting = [found for found in backend.prompts(task_id) if found.status == Checkpoint.OPEN]
        assert [found.ask_id for found in waiting] == ([meta.ask] if meta.ask else [])
        assert bool(waiting) == (meta.state == TaskState.INPUT_REQUIRED) == (ended == "go on")
        runs = len(backend.started(task_id))
        assert runs == (2 if ended in ("approve", "deny", "go on") and "cancel" not in done else 1)
        if waiting:
            cancel_task(bootstrap.engine(), AGENT, CancelTaskRequest(id=task_id), extensions=PROMPTS)
        check_nothing_left(backend)


def check_nothing_left(backend: Backend) -> None:
    backend.sweep(after=DEADLINE_SECONDS + 1)
    assert backend.work() == 0
    assert (backend.run_rows(), backend.due_rows()) == ([], [])


# Through the API.

APPROVERS = ("alice", "bob", "carol")


@pytest.fixture
def connections(laptop: Place) -> Iterator[Mapping[str, httpx.Client]]:
    opened = {label: connection(laptop.url, laptop.tokens[label]) for label in APPROVERS}
    yield opened
    for http in opened.values():
        http.close()


def test_two_of_three_are_counted_through_the_api(
    laptop: Place, connections: Mapping[str, httpx.Client]
) -> None:
    agent = laptop.caller("agent", "JSONRPC")
    eventually(
        lambda: all(http.get("/people/checkpoints").status_code == 200 for http in connections.values())
    )
    for number in range(API_ROUNDS):
        task = agent.settled(agent.send(f"refund {number} 250").id)
        metadata = MessageToDict(task.status.message.metadata)
        assert metadata[QUORUM_KEY] == {"approvedBy": [], "required": 2}
        request = metadata[KEY]
        wire = {"requestId": request["requestId"], "decision": "approve", "digest": request["digest"]}

        def vote(turn: int, task_id: str = task.id, wire: Mapping[str, Any] = wire) -> httpx.Response:
            http = connections[APPROVERS[turn % len(APPROVERS)]]
            return WAYS[turn // len(APPROVERS) % len(WAYS)](http, task_id, wire["requestId"], wire)

        replies, failures = split(at_once(*(partial(vote, turn) for turn in range(API_VOTES))))
        assert failures == []
        counted = set()
        for turn, reply in replies:
            if admitted(reply):
                counted.add(f"bearer:{APPROVERS[turn % len(APPROVERS)]}")
        done = agent.settled(task.id)
        assert done.status.state == pb.TASK_STATE_COMPLETED
        (receipt,) = [MessageToDict(part.data) for artifact in done.artifacts for part in artifact.parts]
        assert receipt["approvedBy"] == sorted(counted)
        assert len(counted) == 2
        assert len([said for said in done.history if KEY in said.metadata and said.role == pb.ROLE_USER]) == 1
