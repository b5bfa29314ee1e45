"""Sends, answers and turns against a halt: what began after it had returned was refused, what raced it is
refused or stopped, and nothing is left running (I4).

On the twin, and on the emulator behind a network that in two rounds of three loses requests and replies,
before a table that is busy. Each round has a tenant of its own.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, Queue
from random import Random
from threading import Event, Semaphore
from typing import Any, TypeVar

import pytest
from tests.support.crowd import FULL, at_once, split
from tests.support.emulator import Emulator, create_table
from tests.support.faults import LOSSY, FaultProxy, fault_proxy
from tests.support.stores import Store
from tests.support.twin import (
    AGENT,
    ANN,
    PLATFORM,
    HookedTable,
    SettableClock,
    asking,
    message,
    schema_worker,
)

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import JsonObject, Message, SendMessageConfiguration, SendMessageRequest, TaskState
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.memory import MemoryTable, MemoryWaker
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.context import Engine
from interlock.engine.halt import Lifted, declare, found_running, lift, walk
from interlock.engine.halts import Halted
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import SHARDS, Checkpoint, Halt, Run, TaskMeta, run_pk, task_pk
from interlock.engine.run_turn import TurnRun, TurnStopped, run_turn
from interlock.engine.send import send_message
from interlock.engine.sweep import sweep
from interlock.oversight.halts import Scope
from interlock.oversight.hitl_prompt import RESPONSE_KEY

ROUNDS = {"twin": 100 if FULL else 12, "emulator": 100 if FULL else 2}
SENDERS, REPEATERS, WORKERS, ANSWERERS = 6, 2, 4, 2
"""With the one who halts and the one who walks: sixteen at once."""
TRIES = 100
LOSSES = 0.1
"""Of the twin's writes, and of its reads a tenth of that, which are tried again on DynamoDB."""
REASON = "an incident"
YES: JsonObject = {"approved": True}


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads change places as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


class Wakes(MemoryWaker):
    """Several workers take the wakes of turns, one each."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: Queue[tuple[str, str, int]] = Queue()

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        self.turns.put((tenant, task_id, turn))


@dataclass
class Race:
    """One round. `began_after` is whether the halt had returned when something began."""

    engine: Engine
    wakes: Wakes
    tenant: str
    declared: Event = field(default_factory=Event)
    walked: Event = field(default_factory=Event)
    acts: Semaphore = field(default_factory=lambda: Semaphore(0))
    """Released once for each that was begun: so the halt comes in the middle of them."""
    accepted: list[tuple[bool, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    started: list[tuple[bool, TurnRun]] = field(default_factory=list)
    recorded: list[str] = field(default_factory=list)
    """By runs that had been stopped."""
    answered: list[tuple[bool, str]] = field(default_factory=list)
    halts: list[Halt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.agent, self.ann, self.operator = (
            replace(who, tenant=self.tenant) for who in (AGENT, ANN, PLATFORM)
        )
        self.scope = Scope(self.tenant)

    # Who takes part.

    def sender(self, key: str | None = None) -> None:
        """Sends until it is told of the halt, and then once more. With a key it is one message."""
        told, said = 0, message()
        for _ in range(TRIES):
            began_after = self.declared.is_set()
            self.acts.release()
            try:
                task_id = self.send(said if key else message(), key)
            except Halted as halted:
                self.refused.append(halted.message)
                told += halted.message == f"halted: {REASON}"
                if told == 2:
                    return
            except (Unavailable, OutcomeUnknown):
                continue
            else:
                self.accepted.append((began_after, task_id))
        raise AssertionError("many sends, and no halt")

    def send(self, said: Message, key: str | None = None) -> str:
        sent = send_message(
            self.engine,
            asking(),
            self.agent,
            SendMessageRequest(message=said, configuration=SendMessageConfiguration(return_immediately=True)),
            extensions=frozenset(),
            idempotency_key=key,
        )
        assert sent.task is not None
        return sent.task.id

    def worker(self) -> None:
        """Runs what it is woken for until the halt is there, and nothing comes any more."""
        while True:
            try:
                self.work(*self.wakes.turns.get(timeout=0.01))
            except Empty:
                if self.declared.is_set():
                    return

    def work(self, tenant: str, task_id: str, turn: int) -> None:
        code = Code(self, self.declared.is_set())
        self.acts.release()
        try:
            run_turn(self.engine, code, tenant, task_id, turn, 60)
        except (Unavailable, OutcomeUnknown):
            # As a queue does.
            if not code.ran:
                self.wakes.wake_turn(tenant, task_id, turn)

    def answerer(self, asks: list[Checkpoint]) -> None:
        for ask in asks:
            self.acts.acquire(timeout=5)
            for _ in range(TRIES):
                began_after = self.declared.is_set()
                try:
                    self.answer(ask)
                except Halted:
                    break
                except (Unavailable, OutcomeUnknown):
                    continue
                else:
                    self.answered.append((began_after, ask.task_id))
                    break

    def answer(self, ask: Checkpoint) -> None:
        metadata: dict[str, Any] = {RESPONSE_KEY: {"prompt_id": ask.ask_id, "payload": YES}}
        said = message(message_id=f"m-{ask.ask_id}", task_id=ask.task_id, metadata=metadata)
        admit_answer(self.engine, Answer(self.ann, ask.task_id, ask.ask_id, YES, said))

    def halter(self, after: int) -> None:
        try:
            for _ in range(after):
                assert self.acts.acquire(timeout=30)
            self.halts.append(insist(lambda: declare(self.engine, self.operator, self.scope, REASON)))
        finally:
            self.declared.set()

    def walker(self) -> None:
        try:
            assert self.declared.wait(timeout=60)
            self.walk_all()
        finally:
            self.walked.set()

    def walk_all(self) -> None:
        generation = self.halts[-1].generation
        for number in range(SHARDS):
            insist(partial(walk, self.engine, self.scope, generation, number))

    # What is stored.

    def metas(self) -> list[TaskMeta]:
        ids = {task_id for _, task_id in self.accepted} | {run.meta.task_id for _, run in self.started}
        items = [self.engine.table.get(TaskMeta.key_of(self.tenant, task_id)) for task_id in ids]
        return [TaskMeta.read(item) for item in items if item is not None]

    def run_rows(self) -> list[Run]:
        return [
            Run.read(item)
            for number in range(SHARDS)
            for _, item in self.engine.table.query(run_pk(number), first=self.tenant).rows
            if item["tenant"] == self.tenant
        ]

    def asks(self, task_ids: list[str]) -> list[Checkpoint]:
        found = [
            item
            for task_id in task_ids
            for _, item in self.engine.table.query(
                task_pk(self.tenant, task_id), first="ASK#", last="ASK$"
            ).rows
        ]
        return [Checkpoint.read(item) for item in found]


@dataclass
class Code:
    """Implements `Executor`: an agent that asks, or works until it is told to stop, or never looks."""

    race: Race
    began_after: bool
    ran: bool = False

    def execute(self, run: TurnRun, seconds: float) -> None:
        self.ran = True
        self.race.started.append((self.began_after, run))
        run.say("working")
        kind = int(run.meta.task_id[-1], 16) % 4
        if kind == 0:
            run.ask("Go on?", {"type": "object"})
            return
        if kind == 1:
            assert self.race.walked.wait(timeout=60)
            run.say("on and on")
            self.race.recorded.append(run.meta.task_id)
        assert self.race.declared.wait(timeout=60)
        for _ in range(TRIES):
            if not run.is_held():
                raise TurnStopped
        raise AssertionError("a run was not told of the halt")


T = TypeVar("T")


def insist(act: Callable[[], T]) -> T:
    """As whoever is not answered, or a queue: does the same again."""
    for _ in range(TRIES):
        with suppress(Unavailable, OutcomeUnknown):
            return act()
    raise AssertionError("never answered")


def prepared(race: Race, waiting: int) -> list[Checkpoint]:
    """Tasks that wait for an answer."""

    class Asks:
        def execute(self, run: TurnRun, seconds: float) -> None:
            run.ask("Go on?", {"type": "object"})

    for _ in range(waiting):
        race.send(message())
        run_turn(race.engine, Asks(), *race.wakes.turns.get(timeout=5), 60)
    return race.asks(task_ids_of(race))


def task_ids_of(race: Race) -> list[str]:
    """Of the tenant's owner, by the view that the twin and the emulator keep up."""
    assert isinstance(race.engine.views, DynamoTable | MemoryTable)
    page = race.engine.views.query_view(f"OWN#{race.tenant}#{race.agent.id}")
    return [str(item["task_id"]) for _, item in page.rows if "task_id" in item]


def run_round(race: Race, chance: Random, sound: Callable[[bool], None]) -> None:
    """`sound` says whether the store is, from then on."""
    asks = prepared(race, 2 * ANSWERERS)
    sound(False)
    actors: list[Callable[[], None]] = [
        partial(race.halter, chance.randrange(1, 30)),
        race.walker,
        *[race.sender] * SENDERS,
        *[partial(race.sender, f"key-of-the-repeater-{number}") for number in range(REPEATERS)],
        *[race.worker] * WORKERS,
        *[partial(race.answerer, asks[number::ANSWERERS]) for number in range(ANSWERERS)],
    ]
    assert len(actors) == 16
    chance.shuffle(actors)
    _, failures = split(at_once(*actors))
    sound(True)
    assert failures == []
    check(race, asks)


def check(race: Race, asks: list[Checkpoint]) -> None:
    engine = race.engine
    # What was still to be run is not run.
    while not race.wakes.turns.empty():
        race.work(*race.wakes.turns.get())
    race.walk_all()
    assert isinstance(engine.clock, SettableClock)
    # A worker whose last reply was lost leaves its task to the sweeper.
    engine.clock.advance(engine.limits.grace + engine.limits.lease)
    assert sweep(engine) == 0

    assert [task_id for began_after, task_id in race.accepted if began_after] == []
    assert [run.meta.task_id for began_after, run in race.started if began_after] == []
    assert [task_id for began_after, task_id in race.answered if began_after] == []
    assert race.recorded == []
    assert race.run_rows() == []
    reported = {row.task_id for row in found_running(engine.table, race.halts[-1])}
    for meta in race.metas():
        if meta.task_id in reported:
            assert meta.task_state is TaskState.CANCELED
        else:
            # It asked, or lost the store from sight before the halt; or it was refused.
            assert meta.task_state.terminal or meta.task_state is TaskState.INPUT_REQUIRED
    for _, run in race.started:
        if run.meta.task_id in reported:
            with pytest.raises(TurnStopped):
                run.say("still here")
    # No answer was consumed that was not accepted: it is taken afterwards.
    answered = {task_id for _, task_id in race.answered}
    assert lift(engine, race.operator, race.scope) is Lifted.LIFTED
    for ask in race.asks([ask.task_id for ask in asks]):
        if ask.task_id not in answered:
            assert ask.status == Checkpoint.OPEN
            race.answer(ask)
    race.send(message())


def counted(races: list[Race]) -> None:
    """The races were some: there was something on both sides of the halt."""
    assert any(race.accepted for race in races)
    assert any(race.refused for race in races)
    assert any(race.started for race in races)
    assert any(list(found_running(race.engine.table, race.halts[-1])) for race in races)


def engine_over(table: Any, views: Store, wakes: Wakes) -> Engine:
    return Engine(table, views, wakes, SettableClock(), schema_worker())


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("losses", [0.0, LOSSES], ids=["sound", "lossy"])
def test_a_halt_wins_every_race_on_the_twin(losses: float) -> None:
    chance, races = Random(7), list[Race]()
    for number in range(ROUNDS["twin"]):
        table, wakes, broken = MemoryTable(), Wakes(), Event()
        lossy = HookedTable(table)
        lossy.before = lossy.after = partial(lose, Random(number), losses, broken)
        race = Race(engine_over(lossy, table, wakes), wakes, f"tenant-{number}")
        run_round(race, chance, partial(switch, broken))
        races.append(race)
    counted(races)


def switch(broken: Event, sound: bool) -> None:
    broken.clear() if sound else broken.set()


def lose(chance: Random, losses: float, broken: Event, operation: str, arguments: tuple[Any, ...]) -> None:
    if broken.is_set() and chance.random() < (losses if operation == "write" else losses / 10):
        raise OutcomeUnknown


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


def test_a_halt_wins_every_race_on_the_emulator(emulator: Emulator, proxy: FaultProxy) -> None:
    chance, races = Random(11), list[Race]()
    table = DynamoTable(
        dynamodb_client(proxy.url), create_table(emulator.dynamodb), sleep=lambda seconds: None
    )

    def network(sound: bool) -> None:
        proxy.reset()
        if not sound and len(races) % 3:
            proxy.fail(*chance.choices(LOSSY, k=4000))

    for number in range(ROUNDS["emulator"]):
        wakes = Wakes()
        race = Race(engine_over(table, table, wakes), wakes, f"tenant-{number}")
        run_round(race, chance, network)
        races.append(race)
    counted(races)
