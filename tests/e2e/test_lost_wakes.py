"""A wake is lost before anybody reads it: the stream wakes again, and if that fails too, the sweeper does."""

import json
from collections.abc import Callable

import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.backend import WAKE_AGAIN_SECONDS, Backend
from tests.support.story import ROOT, Place, envelope, eventually, said
from tests.support.twin import ANN, message, schema_worker
from tools.deploy.local import Stack

from interlock.a2a.models import SendMessageConfiguration, SendMessageRequest, TaskState
from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.memory import MemoryWaker
from interlock.agents.demo import agent
from interlock.engine.context import Engine
from interlock.engine.ports import Key, Put, Update
from interlock.engine.records import Checkpoint, Due, instant
from interlock.engine.send import send_message
from interlock.oversight.principals import Kind, Principal, Role

LOST = WAKE_AGAIN_SECONDS + 1
WAKERS: dict[str, Callable[[Backend], None]] = {
    "stream": lambda backend: backend.fan_out(),
    "sweeper": lambda backend: backend.sweep(after=LOST),
}


@pytest.fixture(params=WAKERS)
def wake(request: pytest.FixtureRequest) -> Callable[[Backend], None]:
    return WAKERS[request.param]


def test_a_lost_wake_of_a_send_and_of_an_answer(backend: Backend, wake: Callable[[Backend], None]) -> None:
    sent = backend.send("go")
    assert backend.lose_messages() == 1
    assert backend.work() == 0
    wake(backend)
    assert backend.work() == 1
    assert backend.meta(sent.id).state == TaskState.INPUT_REQUIRED

    backend.answer(ANN, sent.id, {"approved": True})
    assert backend.lose_messages() == 1
    wake(backend)
    assert backend.work() == 1
    assert backend.meta(sent.id).state == TaskState.COMPLETED
    assert len(backend.started(sent.id)) == 2


def test_a_wake_that_was_not_lost_is_not_sent_again(
    backend: Backend, wake: Callable[[Backend], None]
) -> None:
    sent = backend.send("go")
    backend.work()
    wake(backend)
    assert backend.messages("TurnsQueue") == 0
    backend.answer(ANN, sent.id, {"approved": True})
    backend.work()
    wake(backend)
    assert backend.messages("TurnsQueue") == 0


def test_a_wake_comes_twice_and_late_and_the_turn_is_run_once(backend: Backend) -> None:
    sent = backend.send("go")
    backend.fan_out()
    backend.sweep(after=LOST)
    assert backend.messages("TurnsQueue") == 3
    backend.work()
    backend.answer(ANN, sent.id, {"approved": True})
    backend.fan_out()
    backend.work()
    assert backend.get(sent.id).status.state == TaskState.COMPLETED
    assert len(backend.started(sent.id)) == 2


def test_the_sweeper_leaves_a_turn_alone_that_has_just_been_queued(backend: Backend) -> None:
    backend.send("go")
    backend.lose_messages()
    backend.sweep()
    assert backend.messages("TurnsQueue") == 0


# Deployed, with the functions' own permissions


@pytest.fixture
def core_table(deployment: Stack, monkeypatch: pytest.MonkeyPatch) -> DynamoTable:
    for name, value in deployment.environment.items():
        monkeypatch.setenv(name, value)
    return DynamoTable(dynamodb_client(), deployment.outputs["CoreTable"])


def test_the_deployed_stream_wakes_for_what_nobody_was_woken_for(
    stack: Place, core_table: DynamoTable
) -> None:
    owner = Principal("bearer:agent", "demo", Kind.SERVICE, frozenset({Role.CALLER}))
    # As the door does it, but for the wake.
    engine = Engine(core_table, core_table, MemoryWaker(), SystemClock(), schema_worker())
    request = SendMessageRequest(
        message=message("release 5.0.0"), configuration=SendMessageConfiguration(return_immediately=True)
    )
    sent = send_message(engine, agent, owner, request, extensions=frozenset()).task
    assert sent is not None
    caller = stack.caller("agent", "JSONRPC")
    asked = caller.settled(sent.id)
    assert said(asked) == "Release 5.0.0?"
    assert caller.answer(asked, {"approved": True}).status.state == pb.TASK_STATE_COMPLETED


def expire_now(core_table: DynamoTable, asked: pb.Task) -> Key:
    """As the time of a prompt is over: the demo agents set no deadlines."""
    at, ask_id = instant(SystemClock().now()), envelope(asked)["prompt_id"]
    due = Due("deadline", "demo", asked.id, ask_id, at)
    ask = Update(Checkpoint.key_of("demo", asked.id, ask_id), {"deadline": at})
    core_table.write(ask, Put(due.key, due.item()))
    return due.key


@pytest.mark.parametrize("by", ["minute", "queue"])
def test_the_deployed_timers_handle_what_is_due(
    deployment: Stack, stack: Place, core_table: DynamoTable, by: str
) -> None:
    caller = stack.caller("agent", "JSONRPC")
    asked = caller.send("release 5.1.0")
    key = expire_now(core_table, asked)
    if by == "queue":
        body = json.dumps({"pk": key.pk, "sk": key.sk})
        deployment.client("sqs").send_message(QueueUrl=deployment.outputs["TimersQueue"], MessageBody=body)
    else:
        functions = deployment.client("lambda")
        (timers,) = [
            found["FunctionName"]
            for found in functions.list_functions()["Functions"]
            if "TimersFunction" in found["FunctionName"]
        ]
        minute = (ROOT / "events/minute.json").read_bytes()
        assert "FunctionError" not in functions.invoke(FunctionName=timers, Payload=minute)
    expired = eventually(lambda: [task for task in [caller.get(asked.id)] if not envelope(task)])[0]
    assert expired.status.state == pb.TASK_STATE_FAILED
    assert said(expired) == "The deadline passed without an answer: nothing was run."
    assert core_table.get(key) is None
