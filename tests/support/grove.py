"""Two deployments of ours and a server of a2a-sdk, which hand work down to each other over HTTP.

All of it is in this process. Each turn has a thread, and each of ours may call the three by name.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from a2a.types.a2a_pb2 import TaskState as TheirState
from tests.support import sdk_agent
from tests.support.loopback import served
from tests.support.twin import Deployment, TurnWaker

from interlock.a2a.models import TaskState
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_directory import Directory
from interlock.adapters.peers import HttpPeers
from interlock.agents import Agent, Turn
from interlock.agents.executor import PythonExecutor
from interlock.engine.children import Children, cancel_children
from interlock.engine.halt import walk
from interlock.engine.records import DELEGATIONS, SHARDS, Delegation, TaskMeta
from interlock.engine.sweep import sweep
from interlock.oversight.halts import Scope

HOME, ABROAD, STRANGER = "home", "abroad", "stranger"
OURS = (HOME, ABROAD)
PLACES = (*OURS, STRANGER)
CALLED_AS = {HOME: "peer", ABROAD: "spy"}
"""Whose token the others have: at home one of the tenant, abroad one of another tenant."""
TURNS, CANCELS, OUTBOXES = 300, 32, 8
MINUTE = 60.0


class Hands(TurnWaker):
    """Does at once, in threads, what it is woken for of turns, children and walks."""

    def __init__(self, deployed: "Deployed") -> None:
        super().__init__(deployed.twin.run_turn, at_once=False)
        self._deployed = deployed
        self._turns = ThreadPoolExecutor(TURNS)
        self._outbox = ThreadPoolExecutor(OUTBOXES)
        self.cancels = ThreadPoolExecutor(CANCELS)
        self.busy: set[Future[None]] = set()
        self.failures: list[BaseException] = []
        self._noting = Lock()

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        self._do(self._turns, self.run, tenant, task_id, turn)

    def wake_children(self, tenant: str, task_id: str) -> None:
        self._do(self._outbox, cancel_children, self._deployed.children, tenant, task_id)

    def wake_walk(self, scope: str, generation: int) -> None:
        for number in range(SHARDS):
            where = (self._deployed.twin.engine, Scope.parse(scope, ""))
            self._do(self._outbox, walk, *where, generation, number)

    def close(self) -> None:
        for pool in (self._turns, self._outbox, self.cancels):
            pool.shutdown()

    def _do(self, pool: ThreadPoolExecutor, work: Callable[..., None], *arguments: Any) -> None:
        done = pool.submit(work, *arguments)
        with self._noting:
            self.busy.add(done)
        done.add_done_callback(self._done)

    def _done(self, done: "Future[None]") -> None:
        error = done.exception()
        with self._noting:
            self.busy.discard(done)
            if error is not None:
                self.failures.append(error)


@dataclass
class Deployed:
    """One of ours. What its timers are for is left to its sweeper."""

    peers: HttpPeers
    at_work: dict[str, Callable[[], object]] = field(default_factory=dict)
    """The tasks whose code runs, and what ends it."""
    parked: list[Delegation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.twin = Deployment(growing(self.at_work), at_once=False, turn_seconds=600)
        self.hands = Hands(self)
        self.twin.engine = replace(self.twin.engine, waker=self.hands)
        self.twin.executor = PythonExecutor(self.twin.agent, peers=self.peers)
        self.children = Children(self.twin.engine, self.peers, self.parked.append, self.hands.cancels.map)

    @property
    def idle(self) -> bool:
        """Whether nothing that it was woken for is left to do."""
        return not self.hands.busy

    def later(self, seconds: float = MINUTE) -> None:
        """Time passes, and the sweeper goes round."""
        self.twin.clock.advance(seconds)
        assert sweep(self.twin.engine) == 0

    @property
    def tasks(self) -> list[TaskMeta]:
        return [TaskMeta.read(item) for key, item in self.twin.rows().items() if key.sk == "META"]

    @property
    def delegations(self) -> list[Delegation]:
        rows = self.twin.rows().items()
        return [Delegation.read(item) for key, item in rows if key.sk.startswith(DELEGATIONS)]

    @property
    def at_rest(self) -> bool:
        """Nothing runs, or is left that a sweeper would find."""
        twin = self.twin
        ended = all(task.task_state.terminal for task in self.tasks)
        return ended and not (self.at_work or self.hands.busy or twin.run_rows() or twin.due_rows())

    def close(self) -> None:
        """Also in the middle of a test that has failed."""
        while self.hands.busy:
            for end in list(self.at_work.values()):
                end()
            wait(list(self.hands.busy), timeout=1)
        self.hands.close()


def growing(at_work: dict[str, Callable[[], object]]) -> Agent:
    """`grow <width> ...` hands work down so wide on each level; `work` goes on until it is stopped."""
    agent = Agent("grove", "Hands work down to everybody it knows.")

    @contextmanager
    def noted(turn: Turn) -> Iterator[None]:
        loop, code = asyncio.get_running_loop(), asyncio.current_task()
        assert code is not None
        at_work[turn.task_id] = partial(loop.call_soon_threadsafe, code.cancel)
        try:
            yield
        finally:
            del at_work[turn.task_id]

    @agent.skill("grow", "Grows a tree of tasks", matches=lambda message: message.text.startswith("grow "))
    async def grow(turn: Turn) -> None:
        with noted(turn):
            width, *below = turn.text.split()[1:]
            what, places = (f"grow {' '.join(below)}", OURS) if below else ("work", PLACES)
            children = await asyncio.gather(
                *(turn.delegate(places[number % len(places)], what) for number in range(int(width)))
            )
            await asyncio.gather(*(child.wait() for child in children))

    @agent.skill("work", "Works", matches=lambda message: message.text == "work")
    async def work(turn: Turn) -> None:
        with noted(turn):
            await asyncio.Event().wait()

    return agent


@dataclass(frozen=True)
class Grove:
    home: Deployed
    abroad: Deployed
    stranger: sdk_agent.Works
    url: str
    """At home."""

    @property
    def ours(self) -> tuple[Deployed, Deployed]:
        return self.home, self.abroad

    @property
    def shares(self) -> list[int]:
        """How many tasks there are in each place."""
        return [*(len(place.tasks) for place in self.ours), len(self.stranger.tasks.states)]

    @property
    def size(self) -> int:
        return sum(self.shares)

    @property
    def running(self) -> int:
        """How many tasks there are whose code runs."""
        return sum(len(place.at_work) for place in self.ours) + self.stranger.at_work

    @property
    def states(self) -> Counter[TaskState]:
        found = Counter(task.task_state for place in self.ours for task in place.tasks)
        return found + Counter(
            TaskState(TheirState.Name(state)) for state in self.stranger.tasks.states.values()
        )

    @property
    def idle(self) -> bool:
        return all(place.idle for place in self.ours)

    @property
    def at_rest(self) -> bool:
        return all(place.at_rest for place in self.ours) and not self.running

    def check_unharmed(self) -> None:
        """Nothing has failed, nothing was given up, and nobody is left to be canceled."""
        for place in self.ours:
            assert place.hands.failures == []
            assert place.parked == []
            assert all(delegation.over for delegation in place.delegations)


@contextmanager
def running_grove() -> Iterator[Grove]:
    known: dict[str, dict[str, str]] = {}
    outbound = Outbound(local=True)

    def read() -> bytes:
        return json.dumps(known).encode()

    with ExitStack() as ended:
        home, abroad = (Deployed(HttpPeers(outbound, Directory(read, outbound))) for _ in OURS)
        stranger = sdk_agent.Works()
        apps = {
            HOME: lambda url: home.twin.agents_door(public_url=url),
            ABROAD: lambda url: abroad.twin.agents_door(public_url=url),
            STRANGER: lambda url: sdk_agent.create_app(url, "JSONRPC", works=stranger),
        }
        urls = {name: ended.enter_context(served(app)) for name, app in apps.items()}
        for place in (home, abroad):
            ended.callback(place.close)
        for name, url in urls.items():
            known[name] = {"url": url}
            if name in CALLED_AS:
                known[name]["authorization"] = f"Bearer {CALLED_AS[name]}"
        yield Grove(home, abroad, stranger, urls[HOME])
