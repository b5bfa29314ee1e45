"""Streams and parked tasks, beside the server of a2a-sdk: in process, in-memory stores on both sides."""

import asyncio
import gc
import json
import logging
import statistics
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import Message, Scope
from tests.performance.asgi import post, scope_of
from tests.performance.reference_server import MANY
from tests.performance.servers import Served, ours, reference, request

ROUNDS = 7
OPEN = 50
PARKED = 500


@dataclass(frozen=True, slots=True)
class Streamed:
    """Medians. `first` in milliseconds, `events` a second of CPU, memory in KiB of Python objects."""

    what: str
    first: float
    events: float
    per_stream: float
    per_parked_task: float


def measure() -> list[Streamed]:
    # The reference complains of each stream that a client leaves.
    logging.disable(logging.CRITICAL)
    taken: dict[str, list[tuple[float, float]]] = {"a2a-sdk": [], "ours": []}
    for _ in range(ROUNDS):
        taken["a2a-sdk"].append(asyncio.run(_drain(reference())))
        taken["ours"].append(asyncio.run(_drain(ours(at_once=False))))
    servers: dict[str, Callable[[], Served]] = {"a2a-sdk": reference, "ours": ours}
    return [
        Streamed(
            what,
            statistics.median(first for first, _ in rounds),
            statistics.median(events for _, events in rounds),
            asyncio.run(_memory_of_streams(servers[what]())),
            asyncio.run(_memory_of_parked(servers[what]())),
        )
        for what, rounds in taken.items()
    ]


async def _drain(served: Served) -> tuple[float, float]:
    """One task that says many things, streamed from its send to its end."""
    began, cpu = time.perf_counter(), time.process_time()
    first, events = 0.0, 0
    working = asyncio.create_task(_work(served))
    async with _stream(served, request("SendStreamingMessage", "many things", 1)) as lines:
        async for _ in lines:
            first = first or (time.perf_counter() - began) * 1000
            events += 1
    await working
    if events < MANY:
        raise RuntimeError(f"{events} events")
    return first, events / (time.process_time() - cpu)


async def _work(served: Served) -> None:
    """The worker of our turns, in a thread; the reference has its own."""
    if served.worker is None:
        return
    while not served.worker.queued:
        await asyncio.sleep(0.001)
    await asyncio.to_thread(served.worker.run, *served.worker.queued.pop())


async def _memory_of_streams(served: Served) -> float:
    """Subscriptions to tasks that wait for an answer, and have nothing to say."""
    tasks = [await _asked(served, number) for number in range(OPEN)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    opened = [asyncio.create_task(_hold(served, task)) for task in tasks]
    await asyncio.sleep(1.0)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    for stream in opened:
        stream.cancel()
    await asyncio.gather(*opened, return_exceptions=True)
    return held / OPEN / 1024


async def _memory_of_parked(served: Served) -> float:
    await _asked(served, 0)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1, PARKED + 1):
        await _asked(served, number)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held / PARKED / 1024


async def _asked(served: Served, number: int) -> str:
    reply = await post(served.app, "/", request("SendMessage", "ask somebody", number), served.headers)
    task_id: str = json.loads(reply.body)["result"]["task"]["id"]
    return task_id


async def _hold(served: Served, task_id: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
    async with _stream(served, json.dumps(body).encode()) as lines:
        async for _ in lines:
            pass


@asynccontextmanager
async def _stream(served: Served, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
    """The events of a streamed answer as they come."""
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    gone = asyncio.Event()
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await gone.wait()
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        chunk = message.get("body", b"")
        if chunk.startswith(b"data:") or b"\ndata:" in chunk:
            await queue.put(chunk)

    async def serve() -> None:
        scope: Scope = scope_of("/", body, served.headers)
        try:
            await served.app(scope, receive, send)
        finally:
            await queue.put(None)

    async def lines() -> AsyncIterator[bytes]:
        while (chunk := await queue.get()) is not None:
            yield chunk

    serving = asyncio.create_task(serve())
    try:
        yield lines()
    finally:
        gone.set()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
