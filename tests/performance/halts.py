"""What a halt costs and how long it takes, with a backlog of accepted work and live workers.

The real engine over the twin, whose requests are counted, and take as long as DynamoDB's: `REQUEST_SECONDS`
each. The shards are walked side by side, as by eight functions; the live workers have an executor each, as
in fifty. All of it is in one process, so of the largest backlog a good part is this machine's CPU.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from threading import Barrier
from time import perf_counter, sleep
from typing import Any

from tests.support.twin import AGENT, OPS, Deployment, running
from tests.support.units import Cost, CountingTable, cost

from interlock.agents import Turn
from interlock.agents.executor import PythonExecutor
from interlock.bootstrap import STOPS_AT_ONCE
from interlock.engine.context import Engine
from interlock.engine.halt import Lifted, current, declare, lift, walk
from interlock.engine.halts import Halted
from interlock.engine.ports import Delete, Item, Key, Page, Table, Write
from interlock.engine.records import SHARDS, Halt
from interlock.engine.run_turn import run_turn, start
from interlock.oversight.halts import Scope

BACKLOGS = (10, 100, 1000, 10_000)
LIVE = 50
REQUEST_SECONDS = 0.01
TRIES = 21
"""Of a halt, for its time; and of turns and sends after it had returned."""
SCOPE = Scope(AGENT.tenant)


@dataclass(frozen=True, slots=True)
class HaltCost:
    """`accepted` turns were in the index, `live` of them ran.

    Milliseconds: `refused` from the call of a halt until a send is refused, `signalled` from its return until
    the last of the live workers' code was told, `walked` until the walk was complete.
    `late` are sends that were accepted and turns that started after the halt had returned.
    """

    accepted: int
    live: int
    halt_requests: int
    halt_units: float
    refused_ms: float
    signalled_ms: float
    walk_requests: int
    walk_units: float
    walked_ms: float
    late: int


@dataclass(frozen=True, slots=True)
class Distant:
    """Implements `Table`: as far away as DynamoDB is."""

    table: Table

    def get(self, key: Key) -> Item | None:
        sleep(REQUEST_SECONDS)
        return self.table.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        sleep(REQUEST_SECONDS)
        return self.table.get_many(keys)

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        sleep(REQUEST_SECONDS)
        return self.table.snapshot(keys)

    def query(self, pk: str, **options: Any) -> Page:
        sleep(REQUEST_SECONDS)
        return self.table.query(pk, **options)

    def write(self, *writes: Write) -> None:
        sleep(REQUEST_SECONDS)
        self.table.write(*writes)


class Backlog:
    """A deployment with accepted work, of which some is being run."""

    def __init__(self, accepted: int, live: int) -> None:
        self.told: list[float] = []
        self.walked = 0.0
        self.began = Barrier(live + 1)
        self.agent = running(self.waits)
        self.twin = Deployment(self.agent, at_once=False)
        self.engine = replace(self.twin.engine, table=Distant(self.twin.table))
        tasks = [self.twin.send().id for _ in range(accepted)]
        self.running, self.queued = tasks[:live], tasks[live:]

    async def waits(self, turn: Turn) -> None:
        await asyncio.to_thread(self.began.wait)
        try:
            await asyncio.sleep(3600)
        finally:
            self.told.append(perf_counter())

    @contextmanager
    def workers(self) -> Iterator[None]:
        """One for each task that runs, until it was stopped."""
        with ThreadPoolExecutor(max(1, len(self.running))) as pool:
            for task_id in self.running:
                executor = PythonExecutor(self.agent)
                pool.submit(run_turn, self.engine, executor, AGENT.tenant, task_id, 1, 3600)
            self.began.wait()
            yield

    def counted(self, act: Callable[[Engine], Any]) -> Cost:
        table = CountingTable(self.twin.table)
        act(replace(self.engine, table=Distant(table)))
        return cost(table.take())

    def declare(self, engine: Engine | None = None) -> Halt:
        return declare(engine or self.engine, OPS, SCOPE, "an incident")

    def accepts(self) -> bool:
        """Whether a send is."""
        hooked, self.twin.engine = self.twin.engine, self.engine
        try:
            self.twin.send()
        except Halted:
            return False
        finally:
            self.twin.engine = hooked
        return True

    def starts(self, task_id: str) -> bool:
        return start(self.engine, AGENT.tenant, task_id, 1) is not None

    def forget_halts(self) -> None:
        """As if there had never been any: to lift them would stop the backlog."""
        table = self.twin.table
        halt = current(table, SCOPE)
        assert halt is not None
        table.write(*map(Delete, halt.copies()))

    def walk(self, engine: Engine) -> None:
        def walk_shard(number: int) -> None:
            with ThreadPoolExecutor(STOPS_AT_ONCE) as pool:
                walk(engine, SCOPE, 1, number, pool.map)

        with ThreadPoolExecutor(SHARDS) as pool:
            list(pool.map(walk_shard, range(SHARDS)))
        self.walked = perf_counter()


def measure(backlogs: Sequence[int] = BACKLOGS, live: int = LIVE) -> list[HaltCost]:
    return [_halted(accepted, min(live, accepted // 2)) for accepted in backlogs]


def _halted(accepted: int, live: int) -> HaltCost:
    backlog = Backlog(accepted, live)
    refused = median(_refused_after(backlog) for _ in range(TRIES))
    backlog.forget_halts()
    with backlog.workers(), ThreadPoolExecutor(1) as fan_out:
        halting = backlog.counted(backlog.declare)
        returned = perf_counter()
        walking = fan_out.submit(backlog.counted, backlog.walk)
        late = sum(backlog.accepts() for _ in range(TRIES))
        late += sum(backlog.starts(task_id) for task_id in backlog.queued[-TRIES:])
        walked = walking.result()
    if backlog.twin.run_rows() or len(backlog.told) != live:
        raise AssertionError("something is left running")
    if lift(backlog.engine, OPS, SCOPE) is not Lifted.LIFTED or not backlog.accepts():
        raise AssertionError("the halt was not lifted")
    return HaltCost(
        accepted=accepted,
        live=live,
        halt_requests=halting.requests,
        halt_units=halting.reads + halting.writes,
        refused_ms=1000 * refused,
        signalled_ms=1000 * (max(backlog.told) - returned),
        walk_requests=walked.requests,
        walk_units=walked.reads + walked.writes,
        walked_ms=1000 * (backlog.walked - returned),
        late=late,
    )


def _refused_after(backlog: Backlog) -> float:
    began = perf_counter()
    backlog.declare()
    while backlog.accepts():
        pass
    return perf_counter() - began
