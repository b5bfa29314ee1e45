"""Wakes arrive as they were sent, and never fail whoever sends them."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from botocore.exceptions import BotoCoreError
from moto import mock_aws
from tests.support.emulator import create_queue

from interlock.adapters.clock import SystemClock
from interlock.adapters.memory import MemoryWaker
from interlock.adapters.sqs import MAX_DELAY_SECONDS, SqsPark, SqsWaker, sqs_client
from interlock.engine.ports import Key
from interlock.engine.records import SHARDS, PushConfig

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

NOW = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
DUE = Key("DUE#2026-11-30T12:05#3", "deadline#1#ask")


class StoppedClock(SystemClock):
    def now(self) -> datetime:
        return NOW


@pytest.fixture(scope="session")
def moto_sqs(no_aws: None) -> "SQSClient":
    return sqs_client()


@pytest.fixture(params=["moto", "emulator"])
def client(request: pytest.FixtureRequest) -> "Iterator[SQSClient]":
    if request.param == "moto":
        client = request.getfixturevalue("moto_sqs")
        with mock_aws():
            yield client
    else:
        yield request.getfixturevalue("emulator").sqs


@pytest.fixture
def turns(client: "SQSClient") -> str:
    return create_queue(client)


@pytest.fixture
def timers(client: "SQSClient") -> str:
    return create_queue(client)


@pytest.fixture
def outbox(client: "SQSClient") -> str:
    return create_queue(client)


@pytest.fixture
def audit(client: "SQSClient") -> str:
    return client.create_queue(QueueName=f"{uuid4()}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]


@pytest.fixture
def stops(client: "SQSClient") -> str:
    return create_queue(client)


@pytest.fixture
def waker(client: "SQSClient", turns: str, timers: str, outbox: str, audit: str, stops: str) -> SqsWaker:
    return waker_of(client, turns, timers, outbox, audit, stops)


def waker_of(
    client: "SQSClient", turns: str, timers: str, outbox: str, audit: str = "", stops: str = ""
) -> SqsWaker:
    return SqsWaker(
        client,
        turns_queue_url=turns,
        timers_queue_url=timers,
        outbox_queue_url=outbox,
        audit_queue_url=audit,
        stops_queue_url=stops,
        clock=StoppedClock(),
    )


def received(client: "SQSClient", queue: str) -> list[tuple[Any, str | None]]:
    """Body and group of each message that can be had."""
    reply = client.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["MessageGroupId"]
    )
    return [
        (json.loads(message["Body"]), message.get("Attributes", {}).get("MessageGroupId"))
        for message in reply.get("Messages", [])
    ]


def waiting(client: "SQSClient", queue: str) -> tuple[str, str]:
    """How many messages can be had, and how many are held back."""
    attributes = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    return attributes["ApproximateNumberOfMessages"], attributes["ApproximateNumberOfMessagesDelayed"]


def test_a_turn_is_woken_in_its_tenants_group(
    client: "SQSClient", waker: SqsWaker, turns: str, timers: str
) -> None:
    waker.wake_turn("acme", "task-1", 3)
    assert received(client, turns) == [({"tenant": "acme", "task": "task-1", "turn": 3}, "acme")]
    assert received(client, timers) == []


def test_a_delivery_is_woken_in_its_tenants_group(
    client: "SQSClient", waker: SqsWaker, turns: str, outbox: str
) -> None:
    waker.wake_push("acme", "task-1")
    assert received(client, outbox) == [({"tenant": "acme", "task": "task-1"}, "acme")]
    assert received(client, turns) == []


def test_a_refresh_is_woken_in_its_tenants_group(
    client: "SQSClient", waker: SqsWaker, turns: str, outbox: str
) -> None:
    waker.wake_refresh("acme", "desk")
    assert received(client, outbox) == [({"tenant": "acme", "refresh": "desk"}, "acme")]
    assert received(client, turns) == []


@pytest.mark.parametrize(("chain", "group"), [("acme", "acme"), ("", "-")])
def test_a_sealer_is_woken_in_the_group_of_its_chain_each_time(
    client: "SQSClient", waker: SqsWaker, audit: str, chain: str, group: str
) -> None:
    waker.wake_seal(chain)
    waker.wake_seal(chain)
    assert received(client, audit) == [({"chain": chain}, group)] * 2


def test_a_walk_is_woken_for_each_shard(client: "SQSClient", waker: SqsWaker, stops: str) -> None:
    waker.wake_walk("tenant:acme", 3)
    woken = sorted((body for body, _ in received(client, stops)), key=lambda body: body["shard"])
    assert woken == [{"scope": "tenant:acme", "generation": 3, "shard": n} for n in range(SHARDS)]


CONFIG = PushConfig(
    tenant="acme",
    task_id="task-1",
    config_id="config-1",
    by="bearer:agent",
    sealed=b"sealed",
    delivered=3,
    extensions="[]",
)


def test_what_is_given_up_is_parked_by_its_name_alone(client: "SQSClient") -> None:
    queue = create_queue(client)
    SqsPark(client, queue)(CONFIG)
    assert received(client, queue) == [({"tenant": "acme", "task": "task-1", "config": "config-1"}, None)]


def test_who_can_not_park_is_told() -> None:
    with pytest.raises(BotoCoreError):
        SqsPark(sqs_client("http://127.0.0.1:1"), "http://127.0.0.1:1/0/gone")(CONFIG)


def test_what_is_due_is_woken_at_once(client: "SQSClient", waker: SqsWaker, turns: str, timers: str) -> None:
    waker.wake_timer(DUE, NOW)
    waker.wake_timer(DUE, NOW - timedelta(days=1))
    assert received(client, timers) == [({"pk": DUE.pk, "sk": DUE.sk}, None)] * 2
    assert received(client, turns) == []


def test_what_will_be_due_is_held_back_until_then(
    client: "SQSClient", waker: SqsWaker, timers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[int] = []
    send = client.send_message

    def sent(**request: Any) -> object:
        delays.append(request["DelaySeconds"])
        return send(**request)

    monkeypatch.setattr(client, "send_message", sent)
    for seconds in (0.001, 1, 1.001, MAX_DELAY_SECONDS):
        waker.wake_timer(DUE, NOW + timedelta(seconds=seconds))
    assert delays == [1, 1, 2, MAX_DELAY_SECONDS]
    assert received(client, timers) == []
    assert waiting(client, timers) == ("0", "4")


def test_what_is_due_later_than_a_message_can_wait_is_left_to_the_sweeper(
    client: "SQSClient", waker: SqsWaker, timers: str
) -> None:
    waker.wake_timer(DUE, NOW + timedelta(seconds=MAX_DELAY_SECONDS, microseconds=1))
    assert waiting(client, timers) == ("0", "0")


def test_a_wake_that_can_not_be_sent_is_logged_and_counted(
    client: "SQSClient", caplog: pytest.LogCaptureFixture
) -> None:
    waker = waker_of(client, *["http://127.0.0.1:1/0/gone"] * 3)
    waker.wake_turn("acme", "task-1", 1)
    waker.wake_timer(DUE, NOW)
    waker.wake_push("acme", "task-1")
    assert [record.lost_wakes for record in caplog.records if record.message == "wake lost"] == [1, 2, 3]  # type: ignore[attr-defined]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_nobody_listening_fails_no_one(caplog: pytest.LogCaptureFixture) -> None:
    waker = waker_of(sqs_client("http://127.0.0.1:1"), "queue", "queue", "queue")
    waker.wake_turn("acme", "task-1", 1)
    assert [record.message for record in caplog.records] == ["wake lost"]


def test_the_twin_keeps_wakes_until_they_are_taken() -> None:
    waker = MemoryWaker()
    waker.wake_turn("acme", "task-1", 1)
    waker.wake_turn("acme", "task-1", 2)
    waker.wake_timer(DUE, NOW)
    waker.wake_push("acme", "task-1")
    assert waker.take_turns() == [("acme", "task-1", 1), ("acme", "task-1", 2)]
    assert waker.take_timers() == [(DUE, NOW)]
    assert waker.take_pushes() == [("acme", "task-1")]
    assert waker.take_turns() == []
    assert waker.take_pushes() == []
    assert waker.take_timers() == []


def test_the_clock_is_in_utc_and_goes_on() -> None:
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.001)
    assert before.utcoffset() == timedelta(0)
    assert clock.now() >= before + timedelta(milliseconds=1)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=1)
