"""Requests and units of each operation on DynamoDB: the real engine over the twin, counted as AWS counts."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

from tests.support.twin import AGENT, ANN, BEN, OPS, Deployment, asking, message, running
from tests.support.units import CountingTable, cost

from interlock.a2a.errors import A2AError
from interlock.a2a.models import JsonObject, Part, Task
from interlock.adapters.identities import IdentityStore, TokenCredentials
from interlock.adapters.memory import MemoryTable
from interlock.agents import Agent, Turn
from interlock.engine.answer import Admitted, Answer, admit_answer
from interlock.engine.authenticate import authenticate
from interlock.engine.calls import Call, Calls
from interlock.engine.context import Limits, new_id
from interlock.engine.due import handle_due
from interlock.engine.facts import fact_pk
from interlock.engine.halt import declare, lift, walk
from interlock.engine.inbox import checkpoint, history, open_checkpoints
from interlock.engine.records import SHARDS, Run
from interlock.engine.run_turn import TurnRun, start
from interlock.engine.seal import Sealer, seal
from interlock.engine.stop import stop_turn
from interlock.engine.sweep import sweep
from interlock.oversight import hitl_prompt
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Kind, Principal, Role

TEXT = "release 1.2.0 of the payments service to production, once somebody on call agrees"
PAYLOAD: JsonObject = {"approved": True, "comment": "Go ahead."}
PAGE = 50
FACTS = 30
"""Of ten tasks that wait, three each."""


@dataclass(frozen=True, slots=True)
class OperationCost:
    """`requests` by the names DynamoDB gives them, in their order; `wakes` are messages sent to queues.

    `bound` is the least number of requests that the operation could do with, where one was worked out.
    """

    operation: str
    requests: tuple[str, ...]
    reads: float
    writes: float
    wakes: int
    bound: int | None = None


class Counted:
    """A deployment whose table counts. Turns run when `work` is called, by a worker of their own."""

    def __init__(self, agent: Agent | None = None, **options: Any) -> None:
        self.twin = Deployment(agent or asking(deadline=timedelta(hours=1)), at_once=False, **options)
        self.table = CountingTable(self.twin.table)
        self.twin.engine = replace(self.twin.engine, table=self.table, views=self.table)

    def waiting(self) -> Task:
        """A task that waits for an answer."""
        task = self.twin.send(message(TEXT))
        self.twin.work()
        return task

    def running(self) -> Run:
        """The row of a task whose turn waits for a worker."""
        task = self.twin.send(message(TEXT))
        (row,) = (row for row in map(Run.read, self.twin.run_rows().values()) if row.task_id == task.id)
        return row

    def started(self) -> TurnRun:
        """A turn that a worker has claimed."""
        run = start(self.twin.engine, "acme", self.running().task_id, 1)
        assert run is not None
        return run

    def answer_of(
        self, task: Task, who: Principal = ANN, payload: JsonObject = PAYLOAD
    ) -> Callable[[], Admitted]:
        prompt = self.twin.open_prompt(task.id)
        said = {hitl_prompt.RESPONSE_KEY: {"prompt_id": prompt, "payload": payload}}
        carrier = message(parts=[Part(data=payload)], task_id=task.id, metadata=said)
        answer = Answer(who, task.id, prompt, payload, carrier)
        return lambda: admit_answer(self.twin.engine, answer)

    def cost(self, operation: str, call: Callable[[], object], bound: int | None = None) -> OperationCost:
        self.table.take()
        self.twin.waker.turns.clear()
        self.twin.waker.timers.clear()
        self.twin.waker.walks.clear()
        self.twin.waker.notices.clear()
        with suppress(A2AError):
            call()
        waker = self.twin.waker
        wakes = len(waker.turns) + len(waker.timers) + len(waker.notices) + SHARDS * len(waker.walks)
        return _cost(operation, self.table, wakes, bound=bound)


def _cost(operation: str, table: CountingTable, wakes: int = 0, bound: int | None = None) -> OperationCost:
    requests = table.take()
    total = cost(requests)
    names = tuple(request.operation for request in requests)
    return OperationCost(operation, names, total.reads, total.writes, wakes, bound)


def measure() -> list[OperationCost]:
    costs = [*_callers(), *_sends(), *_reads(), *_turns(), *_decisions(), *_halts(), *_upkeep()]
    return [*costs, _whole_question(costs)]


def _whole_question(costs: list[OperationCost]) -> OperationCost:
    """One question to a person, from the send to the end of the task, without who calls and the trail."""
    steps = (
        "send, returning immediately",
        "turn that asks",
        "answer at the people's door",
        "turn that an answer started",
    )
    taken = [cost for step in steps for cost in costs if cost.operation == step]
    return OperationCost(
        "one whole question: these four steps",
        tuple(request for cost in taken for request in cost.requests),
        sum(cost.reads for cost in taken),
        sum(cost.writes for cost in taken),
        sum(cost.wakes for cost in taken),
    )


def _callers() -> Iterator[OperationCost]:
    identities = MemoryTable()
    _, token = IdentityStore(identities, identities).create("agent", "acme", Kind.SERVICE, [Role.CALLER])
    counting = CountingTable(identities)
    authenticate(f"Bearer {token}", credentials=TokenCredentials(counting), verifier=None, anonymous=None)
    yield _cost("authenticate a bearer token", counting, bound=1)
    counted = Counted()
    calls = Calls(counted.twin.engine)
    calls.note(Call("SendMessage", AGENT))
    call = Call("SendMessage", AGENT, task_id=new_id(), message_id=new_id())
    yield counted.cost("note a call on the audit trail", lambda: calls.note(call), 1)


def _sends() -> Iterator[OperationCost]:
    counted = Counted()
    twin = counted.twin
    yield counted.cost("send, returning immediately", lambda: twin.send(message(TEXT)), 2)
    key = "a-key-of-the-caller-0001"
    sent = message(TEXT)
    yield counted.cost("send with an idempotency key", lambda: twin.send(sent, key=key), 2)
    yield counted.cost("send again under the same key", lambda: twin.send(sent, key=key))
    waiting = counted.waiting()
    yield counted.cost(
        "send that goes on with a task", lambda: twin.send(message(TEXT, task_id=waiting.id)), 2
    )
    patient = Counted(limits=Limits(blocking=1.0))
    yield patient.cost(
        "send, blocking for one second in vain",
        lambda: patient.twin.send(message(TEXT), return_immediately=False),
    )


def _reads() -> Iterator[OperationCost]:
    counted = Counted()
    twin = counted.twin
    tasks = [counted.waiting() for _ in range(PAGE + 1)]
    yield counted.cost("get a task", lambda: twin.get(tasks[0].id), 1)
    yield counted.cost(f"list {PAGE} tasks", lambda: twin.listed(page_size=PAGE), 1)
    yield counted.cost(
        f"list {PAGE} tasks with their histories", lambda: twin.listed(page_size=PAGE, history_length=10)
    )
    yield counted.cost(f"list {PAGE} open checkpoints", lambda: open_checkpoints(twin.engine, ANN, None), 1)
    done = Counted()
    for _ in range(PAGE + 1):
        done.answer_of(done.waiting())()
    yield done.cost(f"list {PAGE} closed checkpoints", lambda: history(done.twin.engine, ANN, None), 1)
    prompt = twin.open_prompt(tasks[0].id)
    yield counted.cost("get a checkpoint", lambda: checkpoint(twin.engine, ANN, tasks[0].id, prompt), 1)


def _turns() -> Iterator[OperationCost]:
    async def completes(turn: Turn) -> None:
        await turn.complete("done")

    async def reports(turn: Turn) -> None:
        await turn.say("working")
        await turn.artifact("a result")
        await turn.complete("done")

    for operation, agent in (
        ("turn that asks", asking(deadline=timedelta(hours=1))),
        ("turn that completes", running(completes)),
        ("turn that says, adds an artifact, and completes", running(reports)),
    ):
        counted = Counted(agent)
        task = counted.twin.send(message(TEXT))
        yield counted.cost(operation, partial(counted.twin.run_turn, "acme", task.id, 1))
        yield counted.cost("wake for a turn that is done", partial(counted.twin.run_turn, "acme", task.id, 1))


def _decisions() -> Iterator[OperationCost]:
    counted = Counted()
    twin = counted.twin
    task = counted.waiting()
    answer = counted.answer_of(task)
    yield counted.cost("answer at the people's door", answer, 2)
    yield counted.cost("answer again, having won", answer, 1)
    late = counted.waiting()
    yield counted.cost("answer over A2A", lambda: twin.answer(ANN, late.id, PAYLOAD), 2)
    yield counted.cost("turn that an answer started", partial(twin.run_turn, "acme", late.id, 2))
    waiting = counted.waiting()
    first, second = counted.answer_of(waiting), counted.answer_of(waiting, BEN)
    first()
    yield counted.cost("answer that comes too late", second, 1)

    quorum = Counted(asking(allowed_responders=["consensus:2"]))
    asked = quorum.waiting()
    yield quorum.cost("vote that does not decide", quorum.answer_of(asked), 1)
    yield quorum.cost("vote that decides", quorum.answer_of(asked, BEN), 2)

    canceled = counted.waiting()
    yield counted.cost("cancel", lambda: twin.cancel(canceled.id), 1)


def _halts() -> Iterator[OperationCost]:
    counted = Counted()
    twin, scope = counted.twin, Scope("acme")
    waiting = counted.waiting()
    answer = counted.answer_of(waiting)
    queued, claimed = counted.running(), counted.started()

    yield counted.cost("look of a running turn, each second", claimed.is_held)
    yield counted.cost("halt", lambda: declare(twin.engine, OPS, scope, "an incident"), 2)
    halt = declare(twin.engine, OPS, scope, "another incident")
    yield counted.cost("send while halted", lambda: twin.send(message(TEXT)))
    yield counted.cost("answer while halted", answer)
    yield counted.cost("stop of a turn that waits", lambda: stop_turn(twin.engine, queued, halt.reason, halt))
    yield counted.cost("look of a running turn that finds a halt", claimed.is_held)
    yield counted.cost("end of a turn that was stopped", lambda: claimed.end_stopped(heard=True))
    for number in range(SHARDS - 1):
        walk(twin.engine, scope, halt.generation, number)
    yield counted.cost(
        "walk of a shard where nothing runs, the last", lambda: walk(twin.engine, scope, 2, SHARDS - 1)
    )
    yield counted.cost("resume", lambda: lift(twin.engine, OPS, scope), 2)


def answer_after(events: int) -> OperationCost:
    """An answer to a task whose agent had said so much before it asked."""

    async def talks(turn: Turn) -> None:
        if turn.answer is None:
            for _ in range(events):
                await turn.say(TEXT)
            await turn.ask("Go on?")

    counted = Counted(running(talks))
    answer = counted.answer_of(counted.waiting(), payload={"text": "yes"})
    return counted.cost("answer at the people's door", answer)


def _upkeep() -> Iterator[OperationCost]:
    counted = Counted()
    counted.waiting()
    counted.twin.clock.advance(3601)
    (due,) = counted.twin.due_rows()
    yield counted.cost("deadline that passes", lambda: handle_due(counted.twin.engine, due))
    yield counted.cost("sweep that finds nothing", lambda: sweep(counted.twin.engine))
    trail = Counted()
    while len(trail.twin.table.query(fact_pk("acme")).rows) < FACTS:
        trail.waiting()
    sealer = Sealer(trail.table, trail.twin.clock)
    yield trail.cost(f"seal {FACTS} facts", lambda: seal(sealer, "acme"))
