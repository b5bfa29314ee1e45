"""A story in which a run hands work to another server, and what must hold of it in every state and at rest.

Both servers are in one world: the parent's task is of one tenant, its child's of another, and neither knows
more of the other than the calls say. A call may not arrive, arrive late and again, or have its answer lost;
who makes it may die meanwhile.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent
from tests.property.halting import OPERATOR
from tests.property.world import Broken, OneSkill, Wakes, World

from interlock.a2a.errors import A2AError, TaskNotCancelable, TaskNotFound
from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    JsonObject,
    ListTasksRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine.cancel import cancel_task
from interlock.engine.children import LATE, Children, cancel_children, forsaken, rests
from interlock.engine.delegate import Handed
from interlock.engine.due import handle_due
from interlock.engine.facts import DELEGATION, fact_pk
from interlock.engine.get import get_task, list_tasks
from interlock.engine.halt import Lifted, current, declare, lift
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable
from interlock.engine.records import Delegation, Halt, TaskMeta, parse_instant
from interlock.engine.run_turn import TurnRun
from interlock.engine.send import send_message
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.engine.sweep import sweep
from interlock.oversight.delegation import Outcome
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Kind, Principal, Role

PARENT, CHILD = "acme", "helper"
CALLER = Principal("bearer:agent", PARENT, Kind.SERVICE, frozenset({Role.CALLER}))
DESK = Principal("bearer:desk", CHILD, Kind.SERVICE, frozenset({Role.CALLER}))
"""As which the parent's server calls the child's."""

WAITS, DROPS, DETACHES, CANCELS, LEASES = "waits", "drops", "detaches", "cancels", "leases"
"""What the parent's code does with what it has handed down."""
WORKS, ASKS = "works", "asks"
"""What the child does."""

ACTORS = (
    *("send", "worker 1", "worker 2", "child 1", "child 2", "cancel", "outbox 1", "outbox 2"),
    *("network 1", "network 2", "halt", "lift", "halt child", "lift child", "walker"),
    *("sweeper 1", "sweeper 2", "timer"),
)

ARRIVES, REQUEST_LOST, REPLY_LOST, LATE_ONLY, LATE_TOO, DIES_BEFORE, DIES_AFTER, DIES_LATE = range(8)
FATES = (ARRIVES,) * 21 + tuple(range(1, 8))
T = TypeVar("T")


class ChildWakes(Wakes):
    """Keeps wakes for children too."""

    def __init__(self) -> None:
        super().__init__()
        self.children: dict[tuple[str, str], None] = {}

    def wake_children(self, tenant: str, task_id: str) -> None:
        self.children[tenant, task_id] = None


@dataclass
class Letter:
    """A request that is still under way, or has been copied there. After `until` it arrives no more."""

    until: str
    arrive: Callable[[], Any]


@dataclass
class Delegating(World):
    """A world with two servers. The one of the child knows keys (`ours`), or is a stranger's."""

    wakes: ChildWakes = field(default_factory=ChildWakes)
    does: str = WAITS
    child_does: str = WORKS
    ours: bool = True
    letters: list[Letter] = field(default_factory=list)
    strangers: dict[str, Task] = field(default_factory=dict)
    seen: dict[str, Delegation] = field(default_factory=dict)
    canceled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.peers = Ours(self) if self.ours else Stranger(self)
        self.parked: list[str] = []
        self.children = Children(self.engine, self.peers, lambda given_up: self.parked.append(given_up.id))
        self.script = self.code
        self.watchers.append(lambda world: self.look())

    def step(self, operation: Callable[[], Any], *, writes: bool) -> Any:
        """Also watched while somebody acts alone."""
        result = super().step(operation, writes=writes)
        if writes and getcurrent().parent is None:
            self.watch()
        return result

    # The agents.

    def code(self, run: TurnRun) -> None:
        if run.meta.tenant == CHILD:
            self.child(run)
        else:
            self.parent(run)

    def parent(self, run: TurnRun) -> None:
        lease = timedelta(seconds=30) if self.does == LEASES else None
        work = Message(message_id="m-2", role=MessageRole.USER, parts=[Part(text="go")])
        handed = Handed(run, self.peers, "helper", work, lease=lease)
        handed.note()
        handed.send()
        if self.does == DETACHES:
            handed.detach()
        elif self.does == CANCELS:
            handed.cancel()
        elif self.does in (WAITS, LEASES):
            for _ in range(12 if self.does == WAITS else 3):
                if handed.look() is not None:
                    break
                handed.renew()
                self.rest()
        run.finish(TaskState.COMPLETED)

    def child(self, run: TurnRun) -> None:
        record = self.records().get(run.meta.context_id)
        ended = record is not None and record.status == Delegation.SETTLED
        if ended:
            raise self.found(f"I4 a child runs whose delegation is settled as {record and record.outcome}")
        if self.child_does == ASKS and run.turn == 1:
            run.ask("Go on?", {"type": "object"})
            return
        run.say("working")
        run.finish(TaskState.COMPLETED)

    def found(self, text: str) -> Broken:
        """Where the engine would take it for a mistake of the agent."""
        self.broken = self.broken or Broken(text)
        return self.broken

    # The actors.

    def send(self) -> str:
        request = SendMessageRequest(
            message=Message(message_id="m-1", role=MessageRole.USER, parts=[Part(text="go")]),
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        sent = send_message(self.engine, OneSkill(self.rerun), CALLER, request, extensions=frozenset())
        assert sent.task is not None
        return sent.task.id

    def worker(self, tenant: str) -> Callable[[], None]:
        """Takes any wake there ever was for a turn of the tenant."""

        def actor() -> None:
            def wakes() -> list[tuple[str, str, int]]:
                return [wake for wake in self.wakes.turns if wake[0] == tenant]

            found = self.wait_for(wakes)
            self.work(*found[self.schedule.choose(len(found))])

        return actor

    def outbox(self) -> None:
        wakes = self.wait_for(lambda: list(self.wakes.children))
        cancel_children(self.children, *wakes[self.schedule.choose(len(wakes))])

    def network(self) -> None:
        """What was under way arrives: late, or again."""
        letters = self.wait_for(lambda: list(self.letters))
        self.deliver_letter(letters[self.schedule.choose(len(letters))])

    def cancel(self) -> str:
        task_id = self.wait_for(self.parent_task)
        self.rest()
        task = cancel_task(self.engine, CALLER, CancelTaskRequest(id=task_id), extensions=frozenset())
        return task.status.state.value

    def halter(self, tenant: str) -> Callable[[], Halt]:
        return lambda: declare(self.engine, OPERATOR, Scope(tenant), "an incident")

    def resumer(self, tenant: str) -> Callable[[], Lifted]:
        def actor() -> Lifted:
            self.wait_for(lambda: (halt := current(self.table, Scope(tenant))) and halt.on)
            self.rest()
            return lift(self.engine, OPERATOR, Scope(tenant), None)

        return actor

    def walker(self) -> None:
        wakes = self.wait_for(lambda: list(self.wakes.walks))
        self.walk(*wakes[self.schedule.choose(len(wakes))])

    def sweeper(self) -> None:
        """Comes when what is not renewed has lapsed."""
        self.wait_for(self.parent_task)
        self.clock.time += timedelta(minutes=2)
        sweep(self.engine)

    def timer(self) -> None:
        timers = self.wait_for(lambda: list(self.wakes.timers))
        self.rest()
        self.clock.time += timedelta(seconds=45)
        handle_due(self.engine, timers[self.schedule.choose(len(timers))])

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "worker 1": self.worker(PARENT),
            "worker 2": self.worker(PARENT),
            "child 1": self.worker(CHILD),
            "child 2": self.worker(CHILD),
            "cancel": self.cancel,
            "outbox 1": self.outbox,
            "outbox 2": self.outbox,
            "network 1": self.network,
            "network 2": self.network,
            "halt": self.halter(PARENT),
            "lift": self.resumer(PARENT),
            "halt child": self.halter(CHILD),
            "lift child": self.resumer(CHILD),
            "walker": self.walker,
            "sweeper 1": self.sweeper,
            "sweeper 2": self.sweeper,
            "timer": self.timer,
        }

    # Calls between the servers.

    def rest(self) -> None:
        if getcurrent().parent is not None:
            self.pause()

    def call(self, operation: str, work: Callable[[], T], until: str | None = None) -> T:
        """`until`: the request may be under way so long."""
        self.rest()
        fate = FATES[self.schedule.choose(len(FATES))] if self.faults else ARRIVES
        if until is None and fate in (LATE_ONLY, LATE_TOO, DIES_LATE):
            fate = ARRIVES
        if self.trace:
            self.trace[-1] += f" [{operation}{f' fate {fate}' if fate else ''}]"
        if fate == DIES_BEFORE:
            raise GreenletExit
        if fate in (LATE_ONLY, LATE_TOO, DIES_LATE) and until is not None:
            self.letters.append(Letter(until, work))
        if fate == DIES_LATE:
            raise GreenletExit
        if fate in (REQUEST_LOST, LATE_ONLY) or (until is not None and self.too_late(until)):
            raise PeerUnreachable("no answer")
        done = work()
        self.rest()
        if fate == DIES_AFTER:
            raise GreenletExit
        if fate == REPLY_LOST:
            raise PeerUnreachable("no answer")
        return done

    def too_late(self, until: str) -> bool:
        """All there is to rely on with strangers is that what nobody sends any more does not arrive."""
        return not self.ours and self.clock.time > parse_instant(until) + LATE

    def deliver_letter(self, letter: Letter) -> None:
        if self.too_late(letter.until):
            return
        try:
            letter.arrive()
        except (PeerRefused, PeerUnreachable):
            return

    # Settling.

    def settle(self) -> None:
        """What is still under way arrives, and everything that was woken for is forgotten."""
        for letter in self.letters:
            self.deliver_letter(letter)
        self.wakes.children.clear()
        for _ in range(40):
            before = self._picture()
            self.clock.time += timedelta(days=1)
            if sweep(self.engine):
                raise Broken("I8 the sweeper could not handle a row")
            for tenant, task_id, turn in list(self.wakes.turns):
                self.work(tenant, task_id, turn)
            for scope, generation in list(self.wakes.walks):
                self.walk(scope, generation)
            for tenant, task_id in list(self.wakes.children):
                cancel_children(self.children, tenant, task_id)
            self.watch()
            if self.broken is not None:
                raise self.broken
            if self._picture() == before:
                return
        raise Broken("the sweeper never comes to rest")

    # What is there, without a step.

    def items(self, tenant: str, prefix: str) -> list[dict[str, Any]]:
        return [
            dict(row[0])
            for pk, partition in self.table._partitions.items()
            if pk.startswith(f"T#{tenant}#")
            for sk, row in partition.items.items()
            if sk.startswith(prefix)
        ]

    def metas(self, tenant: str) -> list[TaskMeta]:
        return [TaskMeta.read(item) for item in self.items(tenant, "META")]

    def parent_task(self) -> str | None:
        return next((meta.task_id for meta in self.metas(PARENT)), None)

    def records(self) -> dict[str, Delegation]:
        return {str(item["id"]): Delegation.read(item) for item in self.items(PARENT, "DEL#")}

    def children_of(self, record: Delegation) -> list[TaskState]:
        if not self.ours:
            return [t.status.state for t in self.strangers.values() if t.context_id == record.id]
        return [meta.task_state for meta in self.metas(CHILD) if meta.context_id == record.id]

    # What must hold in every state.

    def look(self) -> None:
        parents = {meta.task_id: meta for meta in self.metas(PARENT)}
        for record in self.records().values():
            parent, before = parents[record.task_id], self.seen.get(record.id)
            children = self.children_of(record)
            if self.ours and len(children) > 1:
                raise Broken("I2 one send made two tasks")
            if before is not None and before.status == Delegation.CANCELING:
                self.canceled |= {record.id} if record.status == Delegation.SETTLED else set()
            # A run settles the child that it knows; a stranger may have made more of its send.
            known = self.ours or record.id in self.canceled
            settled = record.status == Delegation.SETTLED and known
            if settled and not all(state.terminal for state in children):
                raise Broken(f"I4 settled as {record.outcome}, and its child is {children}")
            if before is not None and before != record:
                self.changed(parent, before, record)
            self.seen[record.id] = record

    def changed(self, parent: TaskMeta, before: Delegation, record: Delegation) -> None:
        held = not forsaken(parent, before)
        if before.over and before.outcome != Outcome.UNREACHABLE:
            raise Broken(f"I5 a delegation that was {before.status} changed")
        if record.status == Delegation.DETACHED and not held:
            raise Broken("I4 work was let go by a task that was over")
        canceled = (before.status, record.status) == (Delegation.OPEN, Delegation.CANCELING)
        if canceled and record.outcome is None and held:
            raise Broken("work is canceled that its run looks after")

    # What must hold at rest.

    def at_rest(self) -> None:
        self.quiet()
        # Nothing that was ever under way makes work any more.
        for letter in self.letters:
            self.deliver_letter(letter)
            self.watch()
        self.settle()
        self.quiet()

    def quiet(self) -> None:
        parents = {meta.task_id: meta for meta in self.metas(PARENT)}
        if self.run_rows():
            raise Broken("I8 a RUN row is left")
        if self.due_rows():
            raise Broken("I8 a DUE row is left although its time has passed")
        for record in self.records().values():
            parent = parents[record.task_id]
            if not parent.task_state.terminal:
                raise Broken(f"I8 the parent is stuck {parent.state}")
            if not rests(parent, record):
                raise Broken(f"I8 the parent is {parent.state}, and its delegation {record.status}")
            if self.does != DETACHES and record.status == Delegation.DETACHED:
                raise Broken("I4 work was let go that nobody let go")
            if self.does == LEASES and not all(state.terminal for state in self.children_of(record)):
                raise Broken("I4 a lease that nobody renews does not lapse")
            self.on_the_trail(record)

    def on_the_trail(self, record: Delegation) -> None:
        told: Counter[str] = Counter()
        for _, item in self.rows(fact_pk(PARENT)):
            fact = json.loads(str(item["body"]))
            if fact["kind"] == DELEGATION and fact["detail"].get("delegation") == record.id:
                told[fact["detail"]["action"]] += 1
        if told["made"] != 1 or not told[record.status]:
            raise Broken(f"I10 {record.status}, and the trail has {dict(told)}")


@dataclass
class Peers:
    """Implements `Peers` over the calls of the world."""

    world: Delegating

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        return PeerAddress("https://helper.example")

    def recorded(self, key: str) -> str:
        """Until when it may be under way."""
        record = self.world.records().get(key)
        if record is None:
            raise self.world.found("I8 work is sent that was not recorded")
        return record.send_until


class Ours(Peers):
    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        request = SendMessageRequest(
            message=message,
            configuration=SendMessageConfiguration(return_immediately=True),
            metadata={**metadata, IDEMPOTENCY_METADATA: key},
        )

        def work() -> Task | Message:
            skill = OneSkill(self.world.rerun)
            sent = send_message(self.world.engine, skill, DESK, request, extensions=frozenset())
            assert sent.task is not None
            return sent.task

        return self.world.call("send", lambda: over_the_wire(work), self.recorded(key))

    def get(self, to: PeerAddress, task_id: str) -> Task:
        def work() -> Task:
            return get_task(self.world.engine, DESK, GetTaskRequest(id=task_id), extensions=frozenset())

        return self.world.call("get", lambda: over_the_wire(work))

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        def work() -> list[Task]:
            request = ListTasksRequest(context_id=context_id)
            return list_tasks(self.world.engine, DESK, request, extensions=frozenset()).tasks

        return self.world.call("find", lambda: over_the_wire(work))

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        def work() -> Task:
            request = CancelTaskRequest(id=task_id, metadata=metadata)
            return cancel_task(self.world.engine, DESK, request, extensions=frozenset())

        return self.world.call("cancel", lambda: over_the_wire(work))


def over_the_wire(work: Callable[[], T]) -> T:
    try:
        return work()
    except A2AError as error:
        if error.http_status >= 500:
            raise PeerUnreachable("no answer") from error
        raise PeerRefused(error.text, code=error.code, reason=error.reason) from error


class Stranger(Peers):
    """Knows neither keys nor terms; each send that arrives makes a task, which runs until it is canceled."""

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        def work() -> Task:
            task_id = f"task-{len(self.world.strangers) + 1}"
            status = TaskStatus(state=TaskState.WORKING)
            self.world.strangers[task_id] = Task(id=task_id, context_id=message.context_id, status=status)
            self.world.watch()
            return self.world.strangers[task_id]

        return self.world.call("send", work, self.recorded(key))

    def get(self, to: PeerAddress, task_id: str) -> Task:
        return self.world.call("get", lambda: self._task(task_id))

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        def work() -> list[Task]:
            return [task for task in self.world.strangers.values() if task.context_id == context_id]

        return self.world.call("find", work)

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        def work() -> Task:
            if self._task(task_id).status.state.terminal:
                raise PeerRefused("it has ended", code=TaskNotCancelable.code)
            canceled = {"status": TaskStatus(state=TaskState.CANCELED)}
            self.world.strangers[task_id] = self._task(task_id).model_copy(update=canceled)
            return self._task(task_id)

        return self.world.call("cancel", work)

    def _task(self, task_id: str) -> Task:
        if task_id not in self.world.strangers:
            raise PeerRefused("there is none", code=TaskNotFound.code)
        return self.world.strangers[task_id]
