"""CPU of a SendMessage, beside the server of a2a-sdk: in process, in-memory stores on both sides."""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.performance.asgi import post
from tests.performance.servers import Served, ours, reference, request
from tests.support.emulator import running_emulator
from tools.emulator.process import aws_environment

from interlock.engine.ports import Item, Key, Missing, Put

ROUNDS = 9
SENDS = 150
CALLS = 50
ITEM: Item = {
    "v": 1,
    "state": "TASK_STATE_WORKING",
    "view_at": "2026-01-01T12:00:00.000000Z",
    "text": "a" * 200,
}


@dataclass(frozen=True, slots=True)
class Cpu:
    """Microseconds of CPU for one, the median over rounds. `less`: how many times less than the reference,
    where it does the same."""

    what: str
    microseconds: float
    less: float | None


REFERENCE = "a2a-sdk: send and turn"
DOOR = "ours: send, answered by the door"
TURN = "ours: its turn, in the worker"
BOTH = "ours: send and turn in one process"
READ = "beside these, on DynamoDB: a read by botocore"
WRITE = "beside these, on DynamoDB: a transaction of three writes"


def measure() -> list[Cpu]:
    """All in turn, round by round, so that a machine that slows down slows all of them."""
    taken: dict[str, list[float]] = {what: [] for what in (REFERENCE, DOOR, TURN, BOTH)}
    for _ in range(ROUNDS):
        taken[REFERENCE].append(asyncio.run(_sends(reference(), now=False)))
        taken[BOTH].append(asyncio.run(_sends(ours(), now=True)))
        served = ours(at_once=False)
        taken[DOOR].append(asyncio.run(_sends(served, now=True)))
        taken[TURN].append(_turns(served))
    peer = taken[REFERENCE]
    servers = [
        Cpu(what, statistics.median(own), statistics.median(a / b for a, b in zip(peer, own, strict=True)))
        for what, own in taken.items()
    ]
    return [*servers, *_store()]


async def _sends(served: Served, *, now: bool) -> float:
    bodies = [request("SendMessage", "complete this", number, now=now) for number in range(SENDS)]
    for body in bodies[:10]:
        reply = await post(served.app, "/", body, served.headers)
        if reply.status != 200 or b'"error"' in reply.body:
            raise RuntimeError(reply.body[:200])

    async def send() -> None:
        for body in bodies:
            await post(served.app, "/", body, served.headers)

    gc.collect()
    began = time.process_time()
    await send()
    return (time.process_time() - began) / SENDS * 1e6


def _turns(served: Served) -> float:
    worker = served.worker
    if worker is None:
        raise ValueError("the turns were run at once")
    return _each([lambda turn=turn: worker.run(*turn) for turn in worker.queued])  # type: ignore[misc]


def _store() -> list[Cpu]:
    """What a call of the store takes in our own process; the emulator is another one."""
    with running_emulator() as emulator:
        os.environ.update(aws_environment(emulator.url))
        table = emulator.table()

        def write(number: int) -> None:
            keys = (Key(f"T#{number}", sk) for sk in ("META", "EVT#1", "RUN"))
            table.write(*(Put(key, ITEM, (Missing("v"),)) for key in keys))

        rounds = range(ROUNDS)
        writes = [_each([partial(write, n) for n in range(r * CALLS, (r + 1) * CALLS)]) for r in rounds]
        reads = [_each([partial(table.get, Key(f"T#{n}", "META")) for n in range(CALLS)]) for _ in rounds]
    return [Cpu(READ, statistics.median(reads), None), Cpu(WRITE, statistics.median(writes), None)]


def _each(calls: Sequence[Callable[[], object]]) -> float:
    gc.collect()
    began = time.process_time()
    for call in calls:
        call()
    return (time.process_time() - began) / len(calls) * 1e6
