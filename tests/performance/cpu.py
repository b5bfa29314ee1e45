"""CPU of a SendMessage, beside the server of a2a-sdk: in process, in-memory stores on both sides."""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.performance.asgi import post
from tests.performance.servers import Served, ours, reference, request

ROUNDS = 9
SENDS = 150


@dataclass(frozen=True, slots=True)
class Cpu:
    """Microseconds of CPU for one, the median over rounds. `less`: how many times less than the reference."""

    what: str
    microseconds: float
    less: float


REFERENCE = "a2a-sdk: send and turn"
DOOR = "ours: send, answered by the door"
TURN = "ours: its turn, in the worker"
BOTH = "ours: send and turn in one process"


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
    return [
        Cpu(what, statistics.median(own), statistics.median(a / b for a, b in zip(peer, own, strict=True)))
        for what, own in taken.items()
    ]


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


def _each(calls: list[Callable[[], None]]) -> float:
    gc.collect()
    began = time.process_time()
    for call in calls:
        call()
    return (time.process_time() - began) / len(calls) * 1e6
