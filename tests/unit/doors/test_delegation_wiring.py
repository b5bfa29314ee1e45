"""From the wake for what a task has handed down to the calls, and the dead letter of what is given up."""

import json
from threading import Barrier
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.others import Stranger, failing
from tests.support.parent import Parent

from interlock import bootstrap
from interlock.a2a.models import TaskState
from interlock.adapters.memory import MemoryWaker
from interlock.adapters.sqs import SqsWaker
from interlock.engine.children import MAX_LOOKS
from interlock.engine.records import Delegation

QUEUES = Mock()


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Parent:
    """Over the twin, and a queue that keeps what it is sent."""
    made = Parent(Stranger())
    monkeypatch.setattr(bootstrap, "engine", lambda: made.deployment.engine)
    monkeypatch.setattr(bootstrap, "hasty_peers", lambda: made.peers)
    monkeypatch.setattr(bootstrap, "queues", lambda: QUEUES)
    monkeypatch.setattr(bootstrap, "settings", lambda: SimpleNamespace(outbox_dead_letters="dead-letters"))
    QUEUES.reset_mock()
    return made


def test_a_wake_is_a_message_on_the_outbox() -> None:
    client = Mock()
    queues = {f"{name}_queue_url": name for name in ("turns", "timers", "outbox", "audit", "stops")}
    waker = SqsWaker(client, clock=Mock(), **queues)
    waker.wake_children("acme", "task-1")
    ((_, sent),) = client.send_message.call_args_list
    assert sent["QueueUrl"] == "outbox"
    assert json.loads(sent["MessageBody"]) == {"tenant": "acme", "task": "task-1", "cancel": "children"}
    assert sent["MessageGroupId"] == "acme"


def test_the_twin_keeps_wakes_until_they_are_taken() -> None:
    waker = MemoryWaker()
    waker.wake_children("acme", "task-1")
    assert waker.take_children() == [("acme", "task-1")]
    assert waker.take_children() == []


def test_children_are_canceled_at_the_same_time(parent: Parent) -> None:
    met = Barrier(8, timeout=20)
    for _ in range(8):
        parent.delegated()

    def meet(operation: str) -> None:
        if operation == "cancel":
            met.wait()

    parent.peers.before = meet
    parent.deployment.cancel(parent.task_id)
    bootstrap.cancel_children("acme", parent.task_id)
    assert not met.broken
    assert parent.peers.states == [TaskState.CANCELED] * 8


def test_what_is_given_up_is_a_dead_letter_that_names_it(parent: Parent) -> None:
    parent.delegated()
    parent.peers.before = failing("cancel", 999)
    parent.deployment.cancel(parent.task_id)

    def outbox() -> None:
        woken: list[Any] = parent.deployment.waker.children
        while woken:
            bootstrap.cancel_children(*woken.pop(0))

    parent.outbox = outbox  # type: ignore[method-assign]
    parent.until(lambda: parent.record.over)
    assert (parent.record.status, parent.record.looked) == (Delegation.PARKED, MAX_LOOKS - 1)
    ((_, sent),) = QUEUES.send_message.call_args_list
    assert sent["QueueUrl"] == "dead-letters"
    named = {"tenant": "acme", "task": parent.task_id, "delegation": parent.record.id}
    assert json.loads(sent["MessageBody"]) == named
