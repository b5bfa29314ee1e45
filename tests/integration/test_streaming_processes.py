"""Streams on several processes over one table, each started as the function starts under the adapter.

The adapter itself is not here: it would hand on the same requests, with what it knows of the API in a header.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx
import pytest
from tests.support.door_process import DoorProcess, door_process
from tests.support.emulator import Emulator, create_table
from tests.support.streams import PATIENCE_SECONDS, WAYS, Caller, Event, Stream, Way, said
from tests.support.twin import schema_worker

from interlock.a2a.models import Artifact, Part, TaskState
from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable
from interlock.adapters.memory import MemoryWaker
from interlock.engine.context import Engine
from interlock.engine.run_turn import TurnRun, claim

TENANT = "acme"
GO = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "release 1.2.0"}]}


@dataclass(frozen=True)
class Shared:
    """What all processes share, and the worker's side of it in this one."""

    settings: dict[str, str]
    engine: Engine

    def claim(self, task_id: str) -> TurnRun:
        run = claim(self.engine, TENANT, task_id, 1)
        assert run is not None
        return run


@pytest.fixture
def shared(emulator: Emulator) -> Shared:
    name, clock = create_table(emulator.dynamodb), SystemClock()
    table = DynamoTable(emulator.dynamodb, name)
    settings = {
        "AWS_ENDPOINT_URL": emulator.url,
        "INTERLOCK_TABLE": name,
        "INTERLOCK_IDENTITIES_TABLE": name,
        "INTERLOCK_TURNS_QUEUE": emulator.queue(),
        "INTERLOCK_TIMERS_QUEUE": emulator.queue(),
        "INTERLOCK_ANONYMOUS_TENANT": TENANT,
    }
    return Shared(settings, Engine(table, table, MemoryWaker(), clock, schema_worker()))


@pytest.fixture
def two_doors(shared: Shared) -> Iterator[tuple[DoorProcess, DoorProcess]]:
    with door_process(shared.settings) as one, door_process(shared.settings) as other:
        yield one, other


def caller(door: DoorProcess, way: Way = WAYS[0]) -> Caller:
    return Caller(door.url, way, None)


def texts(events: list[Event]) -> list[str]:
    """Of the artifacts, those of a task among them."""
    found: list[str] = []
    for event in events:
        artifacts = event.get("task", {}).get("artifacts", [])
        if "artifactUpdate" in event:
            artifacts = [event["artifactUpdate"]["artifact"]]
        found += [artifact["parts"][0]["text"] for artifact in artifacts]
    return found


def test_readers_on_two_processes_see_the_same_and_one_whose_process_is_lost_misses_nothing(
    shared: Shared, two_doors: tuple[DoorProcess, DoorProcess]
) -> None:
    lost, kept = two_doors
    with ExitStack() as streams:

        def follow(door: DoorProcess, way: Way) -> tuple[Stream, list[Event]]:
            stream = streams.enter_context(caller(door, way).subscribe(task_id))
            first = stream.next()
            assert first is not None
            return stream, [first]

        sender = streams.enter_context(caller(lost).send(GO))
        task = sender.next()
        assert task is not None
        task_id = task["task"]["id"]
        run = shared.claim(task_id)
        readers = [follow(kept, WAYS[1]), follow(kept, WAYS[2])]
        for number in range(10):
            add(run, number)
        seen = [sender.next() for _ in range(1 + 5)]
        lost.kill()
        # What had arrived may still be read, and no more.
        before = [event for event in seen if event is not None] + rest_of_lost(sender)
        for number in range(10, 20):
            add(run, number)
        again, after = follow(kept, WAYS[0])
        for number in range(20, 25):
            add(run, number)
        run.finish(TaskState.COMPLETED, "done")
        after += again.rest()
        everything = [str(number) for number in range(25)]
        # It takes up where the task is: what came before is in the task that the stream begins with.
        assert texts(after) == everything
        assert texts(before) == everything[: len(texts(before))]
        assert said(after[-1]) == "COMPLETED"
        followed = [first + stream.rest() for stream, first in readers]
        assert followed[0] == followed[1]
        assert texts(followed[0]) == everything


def add(run: TurnRun, number: int) -> None:
    run.add_artifact(Artifact(artifact_id=f"a-{number}", parts=[Part(text=str(number))]))


def rest_of_lost(stream: Stream) -> list[Event]:
    events: list[Event] = []
    try:
        while (event := stream.next()) is not None:
            events.append(event)
    except httpx.RemoteProtocolError:
        return events
    raise AssertionError("it ended as if it had come to an end")


REQUEST_CONTEXT = {
    "apiId": "abcde12345",
    "domainName": "abcde12345.execute-api.eu-central-1.amazonaws.com",
    "httpMethod": "GET",
    "path": "/prod/.well-known/agent-card.json",
    "requestId": "41b45ea3-70b5-11e6-b7bd-69b5aaebc7d9",
    "resourcePath": "/{proxy+}",
    "stage": "prod",
}


def test_what_the_adapter_says_of_the_api_is_where_the_card_says_it_is(shared: Shared) -> None:
    with door_process(shared.settings) as door:
        headers = {
            "Host": REQUEST_CONTEXT["domainName"],
            "X-Forwarded-Proto": "https",
            "x-amzn-request-context": json.dumps(REQUEST_CONTEXT),
        }
        card = httpx.get(
            f"{door.url}/.well-known/agent-card.json", headers=headers, timeout=PATIENCE_SECONDS
        ).json()
        assert card["capabilities"]["streaming"] is True
        base = f"https://{REQUEST_CONTEXT['domainName']}/prod"
        assert {interface["url"] for interface in card["supportedInterfaces"]} == {base}
        plain = httpx.get(f"{door.url}/.well-known/agent-card.json", timeout=PATIENCE_SECONDS).json()
        assert {interface["url"] for interface in plain["supportedInterfaces"]} == {door.url}
