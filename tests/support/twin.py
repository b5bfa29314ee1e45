"""A whole deployment in memory: the real engine, agents and doors over the twins of the AWS adapters."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from threading import Lock
from typing import Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool

from interlock.a2a.app import create_app
from interlock.a2a.errors import Unauthenticated
from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    TaskPushNotificationConfig,
)
from interlock.a2a.models import Role as MessageRole
from interlock.a2a.published import PublishedCard
from interlock.a2a.signing import Signer
from interlock.adapters.memory import MemoryTable
from interlock.adapters.schema_worker import SchemaWorker
from interlock.agents import Agent, Turn
from interlock.agents.executor import PythonExecutor
from interlock.doors import people
from interlock.doors.agents import OversightService, agent_card, extended_card
from interlock.engine.calls import Calls
from interlock.engine.cancel import cancel_task
from interlock.engine.context import Engine, Limits, new_id
from interlock.engine.facts import FACTS
from interlock.engine.get import get_task, list_tasks
from interlock.engine.ports import Item, Key, OutcomeUnknown, Page, SchemaGuard, Table, Write
from interlock.engine.push import Push
from interlock.engine.records import SHARDS, Checkpoint, TaskMeta, due_pk, run_pk
from interlock.engine.registry import Registry
from interlock.engine.run_turn import Executor, run_turn
from interlock.engine.send import send_message
from interlock.engine.view import load, present, quorum_progress
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Kind, Principal, Role

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PROMPTS = frozenset({hitl_prompt.URI})
"""What a request activates that wants to see the envelopes of prompts."""


def _principal(label: str, kind: Kind, *roles: Role, tenant: str = "acme") -> Principal:
    return Principal(f"bearer:{label}", tenant, kind, frozenset(roles))


AGENT = _principal("agent", Kind.SERVICE, Role.CALLER)
PEER = _principal("peer", Kind.SERVICE, Role.CALLER)
ANN = _principal("ann", Kind.PERSON, Role.APPROVER)
BEN = _principal("ben", Kind.PERSON, Role.APPROVER)
CLEO = _principal("cleo", Kind.PERSON, Role.APPROVER)
ALICE = _principal("alice", Kind.PERSON, Role.APPROVER)
BOB = _principal("bob", Kind.PERSON, Role.APPROVER)
CAROL = _principal("carol", Kind.PERSON, Role.APPROVER, Role.CALLER)
"""Those who approve refunds; Carol also asks for some."""
BOT = _principal("bot", Kind.SERVICE, Role.APPROVER)
OPS = _principal("ops", Kind.PERSON, Role.OPERATOR)
PLATFORM = _principal("platform", Kind.PERSON, Role.PLATFORM_OPERATOR)
NOBODY = _principal("nobody", Kind.PERSON)
SPY = Principal(AGENT.id, "other", Kind.PERSON, frozenset(Role))
"""Of another tenant, under the same name, with every role."""

TOKENS: Mapping[str, Principal] = {
    **{
        who.id.removeprefix("bearer:"): who
        for who in (AGENT, PEER, ANN, BEN, CLEO, ALICE, BOB, CAROL, BOT, OPS, PLATFORM, NOBODY)
    },
    "spy": SPY,
}

APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 1024}},
    "required": ["approved"],
    "additionalProperties": False,
}


def identify(authorization: str | None) -> Principal:
    """Who calls, by a token that is the name."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme != "Bearer" or token not in TOKENS:
        raise Unauthenticated
    return TOKENS[token]


@cache
def schema_worker() -> SchemaWorker:
    """One for all tests. Its real deadline is for the tests of its own: here a slow machine has time."""
    return SchemaWorker(deadline=10.0)


class SettableClock:
    """Implements `Clock`: whoever sleeps moves the time on."""

    def __init__(self) -> None:
        self._now = START
        self._lock = Lock()

    def now(self) -> datetime:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        with self._lock:
            self._now += timedelta(seconds=seconds)


@dataclass
class TurnWaker:
    """Implements `Waker`: keeps what it was woken for, or runs a turn at once, where it was woken."""

    run: Callable[[str, str, int], None]
    at_once: bool
    turns: list[tuple[str, str, int]] = field(default_factory=list)
    timers: list[tuple[Key, datetime]] = field(default_factory=list)
    pushes: list[tuple[str, str]] = field(default_factory=list)
    chains: list[str] = field(default_factory=list)
    walks: list[tuple[str, int]] = field(default_factory=list)
    children: list[tuple[str, str]] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)
    refreshes: list[tuple[str, str]] = field(default_factory=list)

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        if self.at_once:
            self.run(tenant, task_id, turn)
        else:
            self.turns.append((tenant, task_id, turn))

    def wake_push(self, tenant: str, task_id: str) -> None:
        self.pushes.append((tenant, task_id))

    def wake_seal(self, chain: str) -> None:
        self.chains.append(chain)

    def wake_walk(self, scope: str, generation: int) -> None:
        self.walks.append((scope, generation))

    def wake_children(self, tenant: str, task_id: str) -> None:
        self.children.append((tenant, task_id))

    def wake_refresh(self, tenant: str, name: str) -> None:
        self.refreshes.append((tenant, name))

    def wake_notices(self, tenant: str, task_id: str) -> None:
        self.notices.append((tenant, task_id))

    def wake_timer(self, key: Key, at: datetime) -> None:
        self.timers.append((key, at))


def message(text: str = "go", **more: Any) -> Message:
    given = {"message_id": new_id(), "role": MessageRole.USER, "parts": [Part(text=text)], **more}
    return Message(**given)


Hook = Callable[[str, tuple[Any, ...]], None]


def no_hook(operation: str, arguments: tuple[Any, ...]) -> None:
    pass


@dataclass
class HookedTable:
    """Implements `Table`: before and after each operation a hook may look, write, or raise.

    A hook gets the operation's name and its keys or writes. One that raises `OutcomeUnknown` before a write
    keeps it from being carried out, and after a write loses its reply.
    """

    table: Table
    before: Hook = no_hook
    after: Hook = no_hook

    def get(self, key: Key) -> Item | None:
        with self._hooked("get", key):
            return self.table.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Not a snapshot: one read after the other, the last key first."""
        found: list[Item | None] = []
        for key in reversed(keys):
            with self._hooked("get_many", key):
                found.insert(0, self.table.get(key))
        return found

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        with self._hooked("snapshot", *keys):
            return self.table.snapshot(keys)

    def query(self, pk: str, **options: Any) -> Page:
        with self._hooked("query", pk):
            return self.table.query(pk, **options)

    def write(self, *writes: Write) -> None:
        with self._hooked("write", *writes):
            self.table.write(*writes)

    @contextmanager
    def _hooked(self, operation: str, *arguments: Any) -> Iterator[None]:
        self.before(operation, arguments)
        yield
        self.after(operation, arguments)


def once(operation: str, then: Callable[[], object]) -> Hook:
    """A hook for the first call of `operation`; calls that `then` makes are not hooked."""
    waiting = [then]

    def hook(called: str, arguments: tuple[Any, ...]) -> None:
        if called == operation and waiting:
            waiting.pop()()

    return hook


def no_answer() -> None:
    raise OutcomeUnknown


@dataclass
class Deployment:
    """One deployment of `agent`. Turns run in the thread that wakes for them, or by `work`."""

    agent: Agent
    at_once: bool = True
    guard: SchemaGuard = field(default_factory=schema_worker)
    limits: Limits = field(default_factory=Limits)
    check_parts: bool = False
    turn_seconds: float = 60.0
    calls: Calls | None = None
    """Off, so that calls leave nothing, unless a test turns it on."""
    push: Push | None = field(default=None, init=False)
    """Off until a test turns it on (`tests.support.push`)."""
    registry: Registry | None = field(default=None, init=False)
    """Without agents elsewhere until a test registers some (`tests.support.elsewhere`)."""

    def __post_init__(self) -> None:
        self.table = MemoryTable()
        self.hooks = HookedTable(self.table)
        self.clock = SettableClock()
        self.waker = TurnWaker(self.run_turn, self.at_once)
        self.executor: Executor = PythonExecutor(self.agent)
        self.engine = Engine(
            table=self.hooks,
            views=self.table,
            waker=self.waker,
            clock=self.clock,
            guard=self.guard,
            limits=self.limits,
        )

    # The workers.

    def run_turn(self, tenant: str, task_id: str, turn: int) -> None:
        run_turn(self.engine, self.executor, tenant, task_id, turn, self.turn_seconds)

    def work(self) -> None:
        """Runs every turn that was woken for, and those that these wake for."""
        while self.waker.turns:
            self.run_turn(*self.waker.turns.pop(0))

    # The operations.

    def sent(
        self,
        what: str | Message = "go",
        who: Principal = AGENT,
        *,
        key: str | None = None,
        extensions: frozenset[str] = PROMPTS,
        history_length: int | None = None,
        return_immediately: bool = True,
        notify: TaskPushNotificationConfig | None = None,
        **more: Any,
    ) -> SendMessageResponse:
        """Where turns run at once, the task is as they have left it."""
        request = SendMessageRequest(
            message=message(what) if isinstance(what, str) else what,
            configuration=SendMessageConfiguration(
                history_length=history_length,
                return_immediately=return_immediately,
                task_push_notification_config=notify,
            ),
            **more,
        )
        response = send_message(
            self.engine,
            self.agent,
            who,
            request,
            extensions=extensions,
            idempotency_key=key,
            push=self.push,
        )
        if response.task is not None and self.at_once:
            view = load(self.table, who.tenant, response.task.id)
            assert view is not None
            progress = quorum_progress(self.table, view.meta)
            response.task = present(*view, extensions, history_length=history_length, progress=progress)
        return response

    def send(self, what: str | Message = "go", who: Principal = AGENT, **more: Any) -> Task:
        task = self.sent(what, who, **more).task
        assert task is not None
        return task

    def answer(
        self,
        who: Principal,
        task_id: str,
        payload: dict[str, Any],
        *,
        prompt_id: str | None = None,
        message_id: str | None = None,
        **more: Any,
    ) -> Task:
        """Answers over A2A: the prompt that is open, if none is named."""
        said = {"prompt_id": prompt_id or self.open_prompt(task_id), "payload": payload}
        answer = message(
            "answer",
            message_id=message_id or new_id(),
            task_id=task_id,
            metadata={hitl_prompt.RESPONSE_KEY: said},
        )
        return self.send(answer, who, **more)

    def get(self, task_id: str, who: Principal = AGENT, **more: Any) -> Task:
        extensions = more.pop("extensions", PROMPTS)
        return get_task(self.engine, who, GetTaskRequest(id=task_id, **more), extensions=extensions)

    def listed(self, who: Principal = AGENT, **more: Any) -> ListTasksResponse:
        extensions = more.pop("extensions", PROMPTS)
        return list_tasks(self.engine, who, ListTasksRequest(**more), extensions=extensions)

    def cancel(self, task_id: str, who: Principal = AGENT, **more: Any) -> Task:
        request = CancelTaskRequest(id=task_id, **more)
        return cancel_task(self.engine, who, request, extensions=PROMPTS)

    # The doors.

    def agents_door(
        self, *, streaming: bool = False, v0_3: bool = False, signer: Signer | None = None, **options: Any
    ) -> Starlette:
        """`options` are those of the app."""
        card = agent_card(self.agent, streaming=streaming, push_notifications=self.push is not None)
        extended = PublishedCard(extended_card(self.agent, card), v0_3=v0_3, signer=signer)
        service = OversightService(
            self.engine,
            self.agent,
            identify,
            card,
            self.check_parts,
            self.push,
            extended,
            self.calls,
            self.registry,
        )
        return create_app(
            service,
            card,
            run=run_in_threadpool,
            v0_3=v0_3,
            signer=signer,
            agent_card=service.agent_card,
            **options,
        )

    def people_door(self) -> FastAPI:
        """The trail is where the facts are: the twin has one table."""
        return people.create_app(self.engine, identify, self.calls, self.registry, self.table)

    def hook(self, *, before: Hook = no_hook, after: Hook = no_hook) -> None:
        """From now on these are called around the engine's store operations; without any, none is."""
        self.hooks.before, self.hooks.after = before, after

    # Looking at what is stored.

    def rows(self) -> dict[Key, Item]:
        with self.table._lock:
            return {
                Key(pk, sk): dict(item)
                for pk, partition in self.table._partitions.items()
                for sk, (item, _) in partition.items.items()
            }

    def meta(self, task_id: str, tenant: str = "acme") -> TaskMeta:
        return TaskMeta.read(self.rows()[TaskMeta.key_of(tenant, task_id)])

    def prompts(self, task_id: str, tenant: str = "acme") -> Sequence[Checkpoint]:
        """Oldest first."""
        pk = TaskMeta.key_of(tenant, task_id).pk
        found = [Checkpoint.read(item) for _, item in self.table.query(pk, first="ASK#", last="ASK$").rows]
        return sorted(found, key=lambda prompt: prompt.asked_at)

    def open_prompt(self, task_id: str) -> str:
        (prompt,) = [prompt for prompt in self.prompts(task_id) if prompt.status == Checkpoint.OPEN]
        return prompt.ask_id

    def run_rows(self) -> dict[Key, Item]:
        return self._in(run_pk(number) for number in range(SHARDS))

    def due_rows(self) -> dict[Key, Item]:
        return self._in(due_pk(number) for number in range(SHARDS))

    def _in(self, partitions: Iterator[str]) -> dict[Key, Item]:
        return {key: item for pk in partitions for key, item in self.table.query(pk).rows}

    @contextmanager
    def unchanged(self, *noted: str) -> Iterator[None]:
        """Whatever happens inside stores nothing, but facts of the kinds that are named, one each."""
        before = self.rows()
        yield
        after = self.rows()
        new = {key: after.pop(key) for key in after.keys() - before.keys() if key.pk.startswith(FACTS)}
        assert after == before
        assert sorted(json.loads(str(item["body"]))["kind"] for item in new.values()) == sorted(noted)


def asking(
    schema: Mapping[str, Any] | None = APPROVAL,
    *,
    then: Callable[[Turn], Any] | None = None,
    rerun: bool = False,
    **options: Any,
) -> Agent:
    """An agent that asks once, and completes when its turn was started by anything else than the question."""
    agent = Agent("desk", "Asks before it acts")

    async def ask(turn: Turn) -> None:
        if turn.answer is None and len(turn.history) == 1:
            await turn.ask("Go on?", schema, **options)
        elif then is not None:
            await then(turn)
        else:
            await turn.complete("done")

    agent.skill("work", "Works", rerun=rerun)(ask)
    return agent


def running(script: Callable[[Turn], Any], *, rerun: bool = False) -> Agent:
    """An agent whose one skill is `script`."""
    agent = Agent("desk", "Does what the test says")
    agent.skill("work", "Works", rerun=rerun)(script)
    return agent


async def nothing(turn: Turn) -> None:
    """Ends its turn by returning."""
    await asyncio.sleep(0)
