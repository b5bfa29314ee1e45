"""What can not be handled is put aside after the template's five receives, and is found all the same."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.backend import WAKE_AGAIN_SECONDS, Backend, running_backend
from tests.support.emulator import Emulator
from tests.support.faults import FaultProxy, fault_proxy, refusal
from tests.support.story import Place, eventually
from tests.support.twin import ANN
from tests.support.workshop import DEADLINE_SECONDS
from tools.deploy.local import Stack

from interlock.a2a.models import TaskState
from interlock.engine.records import Checkpoint

RECEIVES = 5
"""The template's `maxReceiveCount`."""
MORE_THAN_ENOUGH = 1000


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


@pytest.fixture
def backend(emulator: Emulator, proxy: FaultProxy, tmp_path: Path) -> Iterator[Backend]:
    """Its table is behind the proxy, and what a handler failed to take can be received again at once."""
    with running_backend(emulator, tmp_path, visibility=0, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as backend:
        yield backend


def out_of_order(proxy: FaultProxy) -> None:
    proxy.fail(*[refusal("InternalServerError", 500)] * MORE_THAN_ENOUGH)


def test_a_turn_that_can_not_be_started_is_put_aside_and_found(backend: Backend, proxy: FaultProxy) -> None:
    sent = backend.send("go")
    out_of_order(proxy)
    assert backend.work() == RECEIVES
    assert (backend.messages("TurnsQueue"), backend.messages("TurnsDeadLetters")) == (0, 1)
    proxy.reset()
    assert backend.started(sent.id) == []
    backend.sweep(after=WAKE_AGAIN_SECONDS + 1)
    assert backend.work() == 1
    assert backend.meta(sent.id).state == TaskState.INPUT_REQUIRED
    backend.answer(ANN, sent.id, {"approved": True})
    backend.work()
    assert backend.meta(sent.id).state == TaskState.COMPLETED


def test_a_deadline_that_can_not_be_handled_is_put_aside_and_found(
    backend: Backend, proxy: FaultProxy
) -> None:
    sent = backend.send("in time, please")
    backend.work()
    (due,) = backend.due_rows()
    # As if its time had come.
    backend.put("TimersQueue", json.dumps({"pk": due.pk, "sk": due.sk}))
    out_of_order(proxy)
    assert backend.work() == RECEIVES
    assert backend.messages("TimersDeadLetters") == 1
    proxy.reset()
    assert backend.meta(sent.id).state == TaskState.INPUT_REQUIRED
    backend.sweep(after=DEADLINE_SECONDS + 1)
    assert backend.meta(sent.id).state == TaskState.FAILED
    (prompt,) = backend.prompts(sent.id)
    assert prompt.status == Checkpoint.EXPIRED
    assert backend.due_rows() == []


@pytest.mark.parametrize("body", ["not json", "[]", "{}", '{"tenant": 1, "pk": 1}'])
def test_a_message_that_names_nothing_is_put_aside_as_it_came(backend: Backend, body: str) -> None:
    for queue in ("Turns", "Timers"):
        backend.put(f"{queue}Queue", body)
        assert backend.work() == RECEIVES
        dead = backend.emulator.sqs.receive_message(QueueUrl=backend.outputs[f"{queue}DeadLetters"])
        assert [found["Body"] for found in dead["Messages"]] == [body]


def test_a_message_of_what_is_gone_is_done_with(backend: Backend) -> None:
    backend.put("TurnsQueue", json.dumps({"tenant": "acme", "task": "not-there", "turn": 1}))
    backend.put("TimersQueue", json.dumps({"pk": "DUE#00", "sk": "not-there"}))
    assert backend.work() == 2
    assert backend.messages("TurnsDeadLetters") == backend.messages("TimersDeadLetters") == 0


def test_the_deployed_queues_put_aside_what_their_functions_fail_to_take(
    deployment: Stack, stack: Place
) -> None:
    sqs, outputs = deployment.client("sqs"), deployment.outputs
    queues = [outputs["TurnsQueue"], outputs["TimersQueue"]]
    dead = [outputs["TurnsDeadLetters"], outputs["TimersDeadLetters"]]
    kept = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"]) for url in queues]
    try:
        for url in queues:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
            sqs.send_message(QueueUrl=url, MessageBody="not json")
        for url in dead:
            (found,) = eventually(partial(received, sqs, url))
            assert found["Body"] == "not json"
    finally:
        for url, reply in zip(queues, kept, strict=True):
            sqs.set_queue_attributes(QueueUrl=url, Attributes=reply["Attributes"])
    # Others are served all the same.
    assert stack.caller("agent", "JSONRPC").send("help").status.state == pb.TASK_STATE_COMPLETED


def received(sqs: Any, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sqs.receive_message(QueueUrl=url).get("Messages", [])
    return found
