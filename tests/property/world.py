"""The real engine on the in-memory twin, one store operation at a time.

An actor is a plain function that calls the engine. Every call of the store is a step: the actor stops
before it, and the schedule says who goes on, and whether the step works, has its reply lost, is not carried
out, or is where the actor dies. Messages are never removed: a wake may come late, repeatedly, in any order,
or not at all. When the schedule is over, all who are not finished are dead, and the sweeper must put
everything to rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet
from pydantic import JsonValue

from interlock.a2a.errors import A2AError, Unavailable
from interlock.a2a.models import Message, TaskState
from interlock.adapters.memory import MemoryTable
from interlock.engine import records
from interlock.engine.context import ANY_APPROVER, AUTONOMOUS, Engine, Limits, Skill
from interlock.engine.halt import walk
from interlock.engine.ports import Item, Key, OutcomeUnknown, Page, Table, Write
from interlock.engine.records import due_pk, run_pk
from interlock.engine.run_turn import TurnRun, run_turn
from interlock.engine.sweep import sweep
from interlock.oversight.approvals import Gate
from interlock.oversight.halts import Scope
from interlock.oversight.modes import Declared
from interlock.oversight.schema_gate import Violation

START = datetime(2026, 1, 1, tzinfo=UTC)


class Broken(AssertionError):
    """An invariant does not hold."""


class Schedule:
    """Numbers that decide, one after the other; when they are used up, always the first choice."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers: Iterator[int] = iter(numbers)
        self.over = False

    def choose(self, choices: int) -> int:
        number = next(self._numbers, None)
        if number is None:
            self.over = True
            return 0
        return number % choices


class Faults:
    """Which of the numbers makes a step fail, and how."""

    NONE, LOST_REPLY, NOT_CARRIED_OUT, DIES_BEFORE, DIES_AFTER = range(5)
    TABLE = (NONE,) * 12 + (LOST_REPLY, NOT_CARRIED_OUT, DIES_BEFORE, DIES_AFTER)


class SteppedTable:
    """Implements `Table`: hands over to the schedule before every operation."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def get(self, key: Key) -> Item | None:
        found: Item | None = self._world.step(lambda: self._world.table.get(key), writes=False)
        return found

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        found: list[Item | None] = self._world.step(lambda: self._world.table.get_many(keys), writes=False)
        return found

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        found: list[Item | None] = self._world.step(lambda: self._world.table.snapshot(keys), writes=False)
        return found

    def query(self, pk: str, **range_: Any) -> Page:
        page: Page = self._world.step(lambda: self._world.table.query(pk, **range_), writes=False)
        return page

    def write(self, *writes: Write) -> None:
        changed = [self._world.sabotage(write) for write in writes]
        self._world.step(lambda: self._world.table.write(*changed), writes=True)


class StoppedClock:
    """Implements `Clock`: time moves only when the schedule says so."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        pass


class Wakes:
    """Implements `Waker`; keeps every wake for ever."""

    def __init__(self) -> None:
        self.turns: dict[tuple[str, str, int], None] = {}
        self.timers: dict[Key, None] = {}
        self.chains: dict[str, None] = {}
        self.pushes: dict[tuple[str, str], None] = {}
        self.walks: dict[tuple[str, int], None] = {}

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        self.turns[tenant, task_id, turn] = None

    def wake_push(self, tenant: str, task_id: str) -> None:
        self.pushes[tenant, task_id] = None

    def wake_seal(self, chain: str) -> None:
        self.chains[chain] = None

    def wake_walk(self, scope: str, generation: int) -> None:
        self.walks[scope, generation] = None

    def wake_children(self, tenant: str, task_id: str) -> None:
        pass

    def wake_refresh(self, tenant: str, name: str) -> None:
        pass

    def wake_notices(self, tenant: str, task_id: str) -> None:
        pass

    def wake_timer(self, key: Key, at: datetime) -> None:
        self.timers[key] = None


class AnyPayload:
    """Implements `SchemaGuard`: what schemas may be is not explored here."""

    def check(self, schema: Any) -> None:
        pass

    def validate(self, schema: Mapping[str, JsonValue], payload: JsonValue) -> list[Violation]:
        return []


@dataclass
class OneSkill:
    """Implements `Directory`."""

    rerun: bool = False
    declared: Declared = AUTONOMOUS
    gate: Gate = ANY_APPROVER

    def reply(self, message: Message) -> Message | None:
        return None

    def route(self, message: Message, skill_hint: str | None) -> Skill:
        return Skill("agent", "skill", self.rerun, declared=self.declared, gate=self.gate)


Script = Callable[[TurnRun], None]
Actor = Callable[[], Any]


@dataclass
class World:
    """`script` is the agent. `told` holds what each actor was told: a value, an `A2AError`, or nothing.

    `fault_at` names steps, counted from 1, that fail whatever the schedule says. `deliver` is the worker of
    push notifications, where the story has any. `fates` is what the schedule draws the fate of a step from.
    With `lasting`, whoever has made a step makes the next one too, so many times out of one more. Whoever has
    made a step of `held_up_at` goes on only when nobody else can. Until `led`, `lead` makes all steps, and
    none fails.
    """

    schedule: Schedule
    script: Script
    rerun: bool = False
    sabotage: Callable[[Write], Write] = lambda write: write
    table: MemoryTable = field(default_factory=MemoryTable)
    clock: StoppedClock = field(default_factory=StoppedClock)
    wakes: Wakes = field(default_factory=Wakes)
    told: dict[str, Any] = field(default_factory=dict)
    ran: dict[tuple[str, int], int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    watchers: list[Callable[["World"], None]] = field(default_factory=list)
    fault_at: Mapping[int, int] = field(default_factory=dict)
    deliver: Callable[[str, str], None] = lambda tenant, task_id: None
    fates: Sequence[int] = Faults.TABLE
    lasting: int = 0
    held_up_at: frozenset[int] = frozenset()
    held_up: list[str] = field(default_factory=list)
    lead: str = ""
    led: Callable[[], Any] = lambda: True
    acting: str = ""
    """Who makes the step."""
    broken: Broken | None = None
    """What a watcher found, in case the code that it interrupted goes on all the same."""
    waiting: dict[greenlet, Callable[[], Any]] = field(default_factory=dict)
    steps: int = 0
    faults: bool = True

    def __post_init__(self) -> None:
        stepped: Table = SteppedTable(self)
        self.engine = Engine(
            table=stepped,
            views=self.table,
            waker=self.wakes,
            clock=self.clock,
            guard=AnyPayload(),
            limits=Limits(reruns=2),
        )

    # What an actor does inside a step.

    def step(self, operation: Callable[[], Any], *, writes: bool) -> Any:
        me = getcurrent()
        if me.parent is None:
            return operation()
        me.parent.switch()
        self.steps += 1
        fault = self.fault_at.get(self.steps, Faults.NONE)
        if self.faults and fault == Faults.NONE and not self.lead:
            fault = self.fates[self.schedule.choose(len(self.fates))]
        if fault == Faults.DIES_BEFORE:
            raise GreenletExit
        if fault == Faults.NOT_CARRIED_OUT:
            self.trace[-1] += " [not carried out]"
            raise OutcomeUnknown
        result = operation()
        self.watch()
        if fault == Faults.DIES_AFTER:
            self.trace[-1] += " [dies after]"
            raise GreenletExit
        if fault == Faults.LOST_REPLY and writes:
            self.trace[-1] += " [reply lost]"
            raise OutcomeUnknown
        return result

    def watch(self) -> None:
        try:
            for watch in self.watchers:
                watch(self)
        except Broken as error:
            self.broken = self.broken or error
            raise

    # Running actors.

    def run(self, actors: Mapping[str, Actor]) -> None:
        """Runs them as the schedule says, then declares all who are not finished dead, and settles."""
        running = {name: greenlet(self._told(name, actor)) for name, actor in actors.items()}
        while running and not self.schedule.over and (name := self._next(running)):
            self.acting, before = name, self.steps
            self.trace.append(name)
            running[name].switch()
            if running[name].dead:
                del running[name]
            elif self.steps > before and self.steps in self.held_up_at:
                self.held_up.append(name)
            if self.broken is not None:
                raise self.broken
        for name, dead in running.items():
            self.acting = name
            dead.throw(GreenletExit)
        self.faults = False
        # Those who were woken to deliver are dead as well: only the rows are left of it.
        self.wakes.pushes.clear()
        self.settle()

    def _next(self, running: Mapping[str, greenlet]) -> str | None:
        """One who can go on; None if nobody can."""
        lead = running.get(self.lead)
        if lead is not None and not self.led() and self._ready(lead):
            return self.lead
        self.lead = ""
        last = running.get(self.acting) if self.acting not in self.held_up else None
        lasts = last is not None and self.lasting and self.schedule.choose(self.lasting + 1)
        if lasts and last is not None and self._ready(last):
            return self.acting
        names = [name for name in running if name not in self.held_up]
        first = self.schedule.choose(len(names)) if names else 0
        in_turn = names[first:] + names[:first] + [name for name in self.held_up if name in running]
        return next((name for name in in_turn if self._ready(running[name])), None)

    def _ready(self, actor: greenlet) -> bool:
        condition = self.waiting.get(actor)
        return condition is None or bool(condition())

    def _told(self, name: str, actor: Actor) -> Callable[[], None]:
        def body() -> None:
            try:
                self.told[name] = actor()
            except A2AError as error:
                self.told[name] = error
            except OutcomeUnknown:
                self.told[name] = None

        return body

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Lets others go on until `condition` gives something: a step without a store operation."""
        while not (found := condition()):
            self.waiting[getcurrent()] = condition
            self.pause()
        self.waiting.pop(getcurrent(), None)
        return found

    def pause(self) -> None:
        schedule = getcurrent().parent
        assert schedule is not None
        schedule.switch()

    def settle(self) -> None:
        """What time does: leases and deadlines pass, the sweeper goes round, its wakes are delivered."""
        for _ in range(12):
            before = self._picture()
            self.clock.time += timedelta(days=1)
            if sweep(self.engine):
                raise self.broken or Broken("I8 the sweeper could not handle a row")
            for tenant, task_id, turn in list(self.wakes.turns):
                try:
                    self.work(tenant, task_id, turn)
                except Unavailable as error:
                    raise Broken(f"I8 turn {turn} can never be claimed") from error
            for tenant, task_id in list(self.wakes.pushes):
                self.deliver(tenant, task_id)
            for scope, generation in list(self.wakes.walks):
                self.walk(scope, generation)
            self.watch()
            if self.broken is not None:
                raise self.broken
            if self._picture() == before:
                return
        raise Broken("the sweeper never comes to rest")

    def work(self, tenant: str, task_id: str, turn: int) -> None:
        run_turn(self.engine, self, tenant, task_id, turn, 60)

    def walk(self, scope: str, generation: int) -> None:
        for number in range(records.SHARDS):
            walk(self.engine, Scope.parse(scope, ""), generation, number)

    def execute(self, run: TurnRun, seconds: float) -> None:
        """Implements `Executor`."""
        self.ran[run.meta.task_id, run.turn] = self.ran.get((run.meta.task_id, run.turn), 0) + 1
        self.script(run)

    # Looking, without a step.

    def rows(self, pk: str) -> list[tuple[Key, Item]]:
        return list(self.table.query(pk).rows)

    def run_rows(self) -> list[Item]:
        return [item for number in range(records.SHARDS) for _, item in self.rows(run_pk(number))]

    def due_rows(self) -> list[tuple[Key, Item]]:
        return [row for number in range(records.SHARDS) for row in self.rows(due_pk(number))]

    def _picture(self) -> Any:
        return repr(self.table._partitions and {pk: p.items for pk, p in self.table._partitions.items()})


def is_terminal(item: Item) -> bool:
    return TaskState(str(item["state"])).terminal
