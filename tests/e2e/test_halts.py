"""Once a halt has returned nothing starts, and what ran is stopped; whatever else fails meanwhile."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from threading import Event as Flag
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.backend import LEASE_SECONDS, Backend, running_backend
from tests.support.crowd import FULL, at_once, split
from tests.support.emulator import Emulator
from tests.support.faults import FaultProxy, fault_proxy, refusal
from tests.support.halts import Halts
from tests.support.redeployed import function_name
from tests.support.stored import Stored
from tests.support.story import (
    PATIENCE_SECONDS,
    ROOT,
    Caller,
    Place,
    artifact_texts,
    create_identity,
    envelope,
    eventually,
    jsonrpc,
    said,
    trusted,
)
from tests.support.twin import AGENT
from tools.deploy.local import STACK, Stack

from interlock import bootstrap
from interlock.a2a.models import TaskState
from interlock.engine.context import Limits
from interlock.engine.halt import Lifted, current, declare_as, found_running, lift_as
from interlock.engine.halts import UNREADABLE
from interlock.engine.records import SHARDS, Halt, Run, parse_instant, read_event, task_pk
from interlock.engine.stop import ABANDONED
from interlock.oversight.halts import Scope
from interlock.oversight.hitl_prompt import RESPONSE_KEY

TENANT = "yard"
YARD = Scope(TENANT)
REASON = "Prices are wrong"
IDENTITIES = {
    "agent": ("yard-agent", "service", "caller"),
    "alice": ("yard-alice", "person", "approver"),
    "oncall": ("yard-oncall", "person", "operator"),
}
GONE = Limits().grace + 1
RECEIVES = 5
ROUNDS, CROWD = (100, 16) if FULL else (2, 6)


# Deployed


@pytest.fixture(scope="module")
def yard(deployment: Stack, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A tenant of its own in the deployment: what is halted in it stops nobody else's tests."""
    folder = tmp_path_factory.mktemp("yard")

    def create(label: str) -> str:
        name, *rest = IDENTITIES[label]
        return create_identity(deployment, folder, name, TENANT, *rest)

    with ThreadPoolExecutor(2) as pool:
        tokens = dict(zip(IDENTITIES, pool.map(create, IDENTITIES), strict=True))
    return Place(deployment.url, tokens, folder, {})


@pytest.fixture(scope="module")
def halts(deployment: Stack, yard: Place) -> Iterator[Halts]:
    with client(yard, "oncall") as http:
        yield Halts(http, Stored.of(deployment))


@pytest.fixture
def agent(yard: Place) -> Caller:
    return yard.caller("agent", "JSONRPC")


@contextmanager
def halted(halts: Halts, scope: Scope = YARD) -> Iterator[None]:
    halts.declare(scope, REASON)
    try:
        yield
    finally:
        assert halts.lift(scope) == "lifted"


@pytest.fixture(autouse=True)
def lifted(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that fails leaves no halt behind."""
    yield
    if "halts" in request.fixturenames:
        request.getfixturevalue("halts").lift(YARD)


def client(place: Place, label: str) -> httpx.Client:
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {place.tokens[label]}"}
    return httpx.Client(base_url=place.url, headers=headers, timeout=PATIENCE_SECONDS, verify=trusted())


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}


def check_refused(http: httpx.Client, body: Mapping[str, Any], why: str = REASON) -> None:
    """On both bindings, each in its form."""
    by_rest = http.post("/message:send", json=body)
    assert by_rest.status_code == 503, by_rest.text
    error = by_rest.json()["error"]
    assert (error["status"], error["message"]) == ("UNAVAILABLE", f"halted: {why}")
    by_rpc = http.post("/", json=jsonrpc("SendMessage", body))
    assert by_rpc.status_code == 200
    error = by_rpc.json()["error"]
    assert (error["code"], error["message"]) == (-32603, f"halted: {why}")


def begun(agent: Caller, task_id: str) -> bool:
    return artifact_texts(agent.get(task_id)) == ["at work"]


def started_work(agent: Caller) -> pb.Task:
    """A task whose code runs, and would for long."""
    sent = agent.send("toil 300", immediately=True)
    eventually(lambda: begun(agent, sent.id))
    return sent


def test_new_work_is_refused_where_it_is_halted_and_nowhere_else(
    halts: Halts, yard: Place, stack: Place, agent: Caller
) -> None:
    with client(yard, "agent") as http:
        with halted(halts):
            check_refused(http, {"message": message("help")})
            check_refused(http, {"message": message("toil 1")})
            others = stack.caller("agent", "JSONRPC")
            assert others.send("help").status.state == pb.TASK_STATE_COMPLETED
        with halted(halts, Scope(TENANT, skill="toil")):
            check_refused(http, {"message": message("toil 1")})
            assert agent.send("help").status.state == pb.TASK_STATE_COMPLETED
    assert agent.send("toil 0").status.state == pb.TASK_STATE_COMPLETED
    assert halts.running(TENANT) == []


def test_a_prompt_outlives_a_halt_and_no_answer_is_consumed(halts: Halts, yard: Place, agent: Caller) -> None:
    asked, other = agent.send("release 8.0.0"), agent.send("release 8.0.1")
    prompt_id = envelope(asked)["prompt_id"]
    checkpoint = f"/people/tasks/{asked.id}/checkpoints/{prompt_id}"
    answer = {"prompt_id": prompt_id, "payload": {"approved": True}}
    sent = message("answer", taskId=asked.id, metadata={RESPONSE_KEY: answer})
    with client(yard, "agent") as http, client(yard, "alice") as alice, halted(halts):
        check_refused(alice, {"message": sent})
        by_people = alice.post(f"{checkpoint}/answer", json={"payload": answer["payload"]})
        assert by_people.status_code == 503
        assert by_people.json()["error"]["message"] == f"halted: {REASON}"
        check_refused(http, {"message": message("and now?", taskId=asked.id)})
        # What only reads, and what ends something, is served.
        assert alice.get(checkpoint).json()["status"] == "open"
        assert asked.id in [task.id for task in agent.list().tasks]
        assert agent.cancel(other.id).status.state == pb.TASK_STATE_CANCELED
        assert agent.get(asked.id) == asked
    with client(yard, "alice") as alice:
        # The very message that was refused.
        assert alice.post("/message:send", json={"message": sent}).status_code == 200
    done = agent.settled(asked.id)
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert artifact_texts(done) == ["8.0.0 released, approved by bearer:yard-alice"]


def test_running_work_is_stopped_and_reported(halts: Halts, agent: Caller) -> None:
    sent = started_work(agent)
    with halted(halts):
        eventually(lambda: halts.walked(YARD))
        stopped = agent.settled(sent.id)
        assert stopped.status.state == pb.TASK_STATE_CANCELED
        assert said(stopped) == f"halted: {REASON}"
        report = halts.report(YARD)
        assert (report["by"], report["reason"]) == ("bearer:yard-oncall", REASON)
        assert report["counts"] == {"asked": 0, "confirmed": 1, "abandoned": 0, "withdrawn": 0}
        (found,) = report["stopped"]
        assert (found["taskId"], found["state"]) == (sent.id, "confirmed")
        assert halts.running(TENANT) == []
    assert agent.get(sent.id) == stopped


# Deployed, and something fails


@contextmanager
def disabled(stack: Stack, logical: str) -> Iterator[None]:
    """The function gets nothing from its queue meanwhile."""
    functions, name = stack.client("lambda"), function_name(stack, logical)
    (mapping,) = [
        found
        for found in functions.list_event_source_mappings()["EventSourceMappings"]
        if name in found["FunctionArn"]
    ]
    functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    try:
        yield
    finally:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)


def waiting(stack: Stack, queue: str) -> int:
    url = stack.outputs[queue]
    reply = stack.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    return int(reply["Attributes"]["ApproximateNumberOfMessages"])


def sweep(stack: Stack) -> None:
    minute = (ROOT / "events/minute.json").read_bytes()
    name = function_name(stack, "TimersFunction")
    assert "FunctionError" not in stack.client("lambda").invoke(FunctionName=name, Payload=minute)


def test_with_nobody_to_walk_work_is_refused_and_stopped_and_the_sweeper_finds_the_halt(
    deployment: Stack, halts: Halts, yard: Place, agent: Caller
) -> None:
    sent = started_work(agent)
    with disabled(deployment, "StopsFunction"):
        halts.declare(YARD, REASON)
        with client(yard, "agent") as http:
            check_refused(http, {"message": message("help")})
        # The run has seen the halt by itself.
        stopped = agent.settled(sent.id)
        assert (stopped.status.state, said(stopped)) == (pb.TASK_STATE_CANCELED, f"halted: {REASON}")
        assert halts.walked(YARD) is None
        # Woken for as it was declared, and from the table's stream. All of that is lost.
        eventually(lambda: waiting(deployment, "StopsQueue") == 2 * SHARDS)
        deployment.client("sqs").purge_queue(QueueUrl=deployment.outputs["StopsQueue"])
    assert halts.walked(YARD) is None
    sweep(deployment)
    halt = eventually(lambda: halts.walked(YARD))
    assert halt is not None
    assert halt.stopped == 1


@contextmanager
def denied(stack: Stack, role: str, action: str) -> Iterator[None]:
    """A role of the template's may not do it on the core table."""
    resource = stack.client("cloudformation").describe_stack_resource(StackName=STACK, LogicalResourceId=role)
    name = resource["StackResourceDetail"]["PhysicalResourceId"]
    table = stack.client("dynamodb").describe_table(TableName=stack.outputs["CoreTable"])["Table"]
    statement = {"Effect": "Deny", "Action": action, "Resource": table["TableArn"]}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam = stack.client("iam")
    iam.put_role_policy(RoleName=name, PolicyName="denied", PolicyDocument=document)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=name, PolicyName="denied")


def test_a_door_that_can_not_read_the_halts_takes_no_work(
    deployment: Stack, halts: Halts, yard: Place, agent: Caller
) -> None:
    with client(yard, "agent") as http:
        with denied(deployment, "A2aRole", "dynamodb:GetItem"):
            check_refused(http, {"message": message("toil 300")}, UNREADABLE)
        assert halts.running(TENANT) == []
        assert agent.send("help").status.state == pb.TASK_STATE_COMPLETED


# Deployed, and at once


class Sender:
    """Sends until one that began after the halt had returned, and notes when each began."""

    def __init__(self, http: httpx.Client, text: str) -> None:
        self.http = http
        self.text = text
        self.accepted: list[tuple[datetime, str]] = []
        self.refused: list[datetime] = []

    def run(self, over: Flag) -> None:
        last = False
        while not last:
            last = over.is_set()
            began = datetime.now(UTC)
            body = {"message": message(self.text), "configuration": {"returnImmediately": True}}
            reply = self.http.post("/message:send", json=body)
            if reply.status_code == 200:
                self.accepted.append((began, reply.json()["task"]["id"]))
            else:
                # Not always for the halt: on a busy machine a door may wait for the table in vain.
                assert reply.status_code == 503, reply.text
                self.refused.append(began)


def state_of(http: httpx.Client, task_id: str) -> str | None:
    reply = http.get(f"/tasks/{task_id}")
    return str(reply.json()["status"]["state"]) if reply.status_code == 200 else None


def ran_late(halts: Halts, task_id: str, returned: datetime) -> bool:
    """Whether code ran in a turn that was claimed after the halt had returned."""
    rows = halts.stored.table.query(task_pk(TENANT, task_id), first="EVT#", last="EVT$").rows
    events = [read_event(item) for _, item in rows]
    states = [event.status for event in events if event.status is not None]
    claims = [status for status in states if status.state is TaskState.WORKING]
    late = any(parse_instant(claim.timestamp or "") > returned for claim in claims)
    ran = states[-1].state is TaskState.COMPLETED or any(event.artifact is not None for event in events)
    return late and ran


def test_no_send_and_no_turn_gets_past_a_halt(halts: Halts, yard: Place) -> None:
    chance = Random(11)
    with client(yard, "agent") as http:
        for _ in range(ROUNDS):
            # What runs on, and what is over at once: turns are claimed all the time.
            senders = [Sender(http, ("toil 300", "help")[number % 2]) for number in range(CROWD)]
            enough, over = chance.randrange(CROWD // 2, 2 * CROWD), Flag()

            def halt(senders: list[Sender] = senders, enough: int = enough, over: Flag = over) -> datetime:
                try:
                    eventually(lambda: sum(len(sender.accepted) for sender in senders) >= enough)
                    halts.declare(YARD, REASON)
                    return datetime.now(UTC)
                finally:
                    over.set()

            acts = [partial(sender.run, over) for sender in senders]
            outcomes, failures = split(at_once(halt, *acts))
            assert failures == []
            returned = outcomes[0][1]
            assert returned is not None
            eventually(lambda: halts.running(TENANT) == [])
            for sender in senders:
                assert all(began < returned for began, _ in sender.accepted)
                assert sender.refused[-1] > returned
                for _, task_id in sender.accepted:
                    state = eventually(partial(state_of, http, task_id))
                    assert state == TaskState.CANCELED or (sender.text, state) == (
                        "help",
                        TaskState.COMPLETED,
                    )
                    assert not ran_late(halts, task_id, returned)
            assert halts.lift(YARD) == "lifted"


# In processes that can be killed


ACME = Scope(AGENT.tenant)


def declare(scope: Scope = ACME) -> Halt:
    return declare_as(bootstrap.engine(), "bearer:oncall", scope, REASON)


def is_walked(scope: Scope = ACME) -> bool:
    halt = current(bootstrap.engine().table, scope)
    return halt is not None and halt.walked_at is not None


@pytest.mark.parametrize("wake", ["stream", "sweeper"])
def test_a_walk_whose_wake_was_lost_is_woken_for_again(backend: Backend, wake: str) -> None:
    sent = backend.send("go")
    declare()
    assert backend.lose_messages("StopsQueue") == SHARDS
    assert backend.walk() == 0
    if wake == "stream":
        backend.fan_out()
        assert [run.phase for run in backend.run_rows()] == [Run.NEW]
    else:
        # Which stops what it comes across, too.
        backend.sweep()
    assert not is_walked()
    assert backend.walk() == SHARDS
    assert is_walked()
    assert backend.run_rows() == []
    assert backend.work() > 0
    assert backend.started(sent.id) == []
    assert backend.meta(sent.id).state == TaskState.CANCELED


@pytest.mark.parametrize("told", [True, False], ids=["told to stop, then killed", "killed, then halted"])
def test_a_task_whose_worker_is_killed_while_halted_ends(backend: Backend, told: bool) -> None:
    sent = backend.send("be busy")
    with backend.worker() as worker:
        eventually(lambda: backend.started(sent.id))
        if not told:
            worker.kill()
            worker.wait()
        halt = declare()
        backend.walk()
        assert is_walked()
        assert [run.phase for run in backend.run_rows()] == [Run.STOPPING]
    # Until its grace is over it might still be heard of.
    backend.sweep()
    assert backend.meta(sent.id).state == TaskState.WORKING
    backend.sweep(after=GONE)
    task = backend.get(sent.id)
    assert task.status.state == TaskState.CANCELED
    assert task.status.message is not None
    assert task.status.message.text == f"halted: {REASON}. {ABANDONED}"
    assert backend.run_rows() == []
    (row,) = found_running(bootstrap.engine().table, halt)
    assert (row.started, row.ended_at, row.abandoned_at is not None) == (True, None, True)
    # Its message comes back to nobody, and a lease that runs out later changes nothing.
    assert lift_as(bootstrap.engine(), "bearer:oncall", ACME) is Lifted.LIFTED
    backend.sweep(after=LEASE_SECONDS + 1)
    backend.work()
    assert backend.get(sent.id) == task
    assert len(backend.started(sent.id)) == 1


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


def test_a_walk_that_can_not_be_done_is_put_aside_and_found(
    emulator: Emulator, proxy: FaultProxy, tmp_path: Path
) -> None:
    with running_backend(emulator, tmp_path, visibility=0, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as backend:
        sent = backend.send("go")
        halt = declare()
        backend.lose_messages("StopsQueue")
        (run,) = backend.run_rows()
        shard = int(run.key.pk.removeprefix("RUN#"))
        walk = {"scope": halt.scope, "generation": halt.generation, "shard": shard}
        for body in (json.dumps(walk), "not json"):
            proxy.fail(*[refusal("InternalServerError", 500)] * 1000)
            backend.put("StopsQueue", body)
            assert backend.walk() == RECEIVES
            proxy.reset()
        assert backend.messages("StopsDeadLetters") == 2
        assert not is_walked()
        backend.sweep()
        assert backend.walk() == SHARDS
        assert is_walked()
        assert backend.meta(sent.id).state == TaskState.CANCELED
