"""An agent of a2a-sdk, called as an agent under oversight and directly: by the same client, over loopback."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tests.performance.operations import TEXT
from tests.support import sdk_agent
from tests.support.elsewhere import Overseen, Unwatched
from tests.support.loopback import served
from tests.support.twin import AGENT, Deployment, message, running
from tests.support.units import CountingTable, cost

from interlock.a2a.models import JsonObject, Message, Task, TaskState
from interlock.adapters.clock import SystemClock
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_directory import Directory, nothing
from interlock.adapters.peers import HttpPeers
from interlock.agents import Turn
from interlock.agents.by_agent import ByAgent
from interlock.engine.context import new_id
from interlock.engine.peers import PeerAddress
from interlock.engine.remote import RemoteExecutor
from interlock.oversight.modes import Mode, Policy

ROUNDS = 7
TASKS = 20
FREE = Policy(Mode.AUTONOMOUS)
"""The agent declares nothing."""

DIRECTLY = "called directly"
OVERSEEN = "under oversight: send and turn"
LOCAL = "beside these, an agent that runs here: send and turn"


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians of one task from its message to its end. `calls` are those of the agent, over HTTP; `times`
    compares the CPU of whoever calls with that of calling directly, in the same rounds."""

    what: str
    calls: float
    requests: float
    reads: float
    writes: float
    microseconds: float
    times: float


class CountingPeers(HttpPeers):
    calls = 0

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        self.calls += 1
        return super().send(to, message, key=key, metadata=metadata, seconds=seconds)

    def get(self, to: PeerAddress, task_id: str) -> Task:
        self.calls += 1
        return super().get(to, task_id)


@dataclass
class Measured:
    """`run` does one task, in the thread that calls it."""

    run: Callable[[], None]
    table: CountingTable | None = None
    microseconds: list[float] | None = None
    counts: list[tuple[float, float, float, float]] | None = None

    def round(self, peers: CountingPeers) -> float:
        if self.table is not None:
            self.table.take()
        before = peers.calls
        gc.collect()
        began = time.thread_time()
        for _ in range(TASKS):
            self.run()
        taken = (time.thread_time() - began) / TASKS * 1e6
        total = cost(self.table.take() if self.table is not None else ())
        counted = (peers.calls - before, total.requests, total.reads, total.writes)
        self.counts = [*(self.counts or ()), tuple(each / TASKS for each in counted)]  # type: ignore[list-item]
        self.microseconds = [*(self.microseconds or ()), taken]
        return taken


def measure() -> list[Overhead]:
    with served(lambda url: sdk_agent.create_app(url, "JSONRPC")) as url:
        outbound = Outbound(local=True)
        peers = CountingPeers(outbound, Directory(nothing, outbound))
        ways = {
            DIRECTLY: Measured(lambda: _directly(peers, url)),
            OVERSEEN: _overseen(peers, url),
            LOCAL: _local(),
        }
        for measured in ways.values():
            measured.run()
        for _ in range(ROUNDS):
            for measured in ways.values():
                measured.round(peers)
    direct = ways[DIRECTLY].microseconds or []
    return [_row(what, measured, direct) for what, measured in ways.items()]


def _row(what: str, measured: Measured, direct: list[float]) -> Overhead:
    own, counts = measured.microseconds or [], measured.counts or []
    calls, requests, reads, writes = (median(each) for each in zip(*counts, strict=True))
    times = median(mine / theirs for mine, theirs in zip(own, direct, strict=True))
    return Overhead(what, calls, requests, reads, writes, median(own), times)


def _directly(peers: HttpPeers, url: str) -> None:
    to = peers.resolve_for(AGENT.tenant, url)
    sent = peers.send(to, message(TEXT), key=new_id(), metadata={}, seconds=10)
    if not isinstance(sent, Task):
        raise TypeError("the agent answered without a task")
    while not peers.get(to, sent.id).status.state.terminal:
        time.sleep(0.1)


def _overseen(peers: CountingPeers, url: str) -> Measured:
    overseen = Overseen(peers, at_once=False, policy=FREE, url=url, clock=SystemClock())
    here = overseen.deployment
    table = _counting(here)
    registry = overseen.registry = here.registry = replace(overseen.registry, engine=here.engine)
    remote = RemoteExecutor(registry, peers, Unwatched())
    here.executor = ByAgent(here.agent, here.executor, lambda: remote)

    def run() -> None:
        task = overseen.send(message(TEXT, metadata={"skillHint": "work"}))
        here.work()
        _check(here, task)

    return Measured(run, table)


def _local() -> Measured:
    async def completes(turn: Turn) -> None:
        await turn.artifact("result")
        await turn.complete("done")

    here = Deployment(running(completes), at_once=False)
    table = _counting(here)

    def run() -> None:
        task = here.send(message(TEXT), AGENT)
        here.work()
        _check(here, task)

    return Measured(run, table)


def _counting(here: Deployment) -> CountingTable:
    table = CountingTable(here.table)
    here.engine = replace(here.engine, table=table, views=table)
    return table


def _check(here: Deployment, task: Any) -> None:
    """By the store itself: to look is not part of it."""
    if here.meta(task.id).state != TaskState.COMPLETED.value:
        raise RuntimeError("the task has not completed")
