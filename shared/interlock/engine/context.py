"""What a use case works with, and the two rules that all of them share.

One conditional write decides. Whoever does not know whether its own write did, reads again and looks for it.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, cast
from uuid import uuid4

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import Message, Part, Role, TaskState, TaskStatus, timestamp
from interlock.engine.facts import TASK_EVENT, Fact
from interlock.engine.ports import (
    Clock,
    Equals,
    Item,
    Missing,
    Put,
    SchemaGuard,
    Table,
    Update,
    Views,
    Waker,
    Write,
)
from interlock.engine.records import (
    MAX_EVENTS,
    MAX_TASK_BYTES,
    Due,
    Event,
    EventTooLarge,
    Run,
    TaskMeta,
    event_item,
    event_key,
    instant,
)
from interlock.oversight.approvals import Gate, requesters
from interlock.oversight.modes import Declared, Mode

MAX_ATTEMPTS = 12
BACK_OFF_SECONDS = 0.02
MAX_BACK_OFF_SECONDS = 0.5
PUSH_GUARD_SECONDS = 30.0
SMALL_EVENT_BYTES = 1024


AUTONOMOUS = Declared(Mode.AUTONOMOUS)
ANY_APPROVER = Gate()


@dataclass(frozen=True, slots=True)
class Skill:
    """What the engine knows of a skill. `rerun`: a turn whose worker was lost may be run again.
    `isolated`: only the owner of a task sees it. `declared`: its mode and its reviewer, and `gate`: who
    approves its start, where that takes it. `radius`: what it can touch, where its card says so."""

    agent: str
    id: str
    rerun: bool = False
    isolated: bool = False
    declared: Declared = AUTONOMOUS
    gate: Gate = ANY_APPROVER
    radius: str | None = None


class Directory(Protocol):
    """The agents behind this endpoint."""

    def reply(self, message: Message) -> Message | None:
        """A direct answer that needs no task; quick and without effects. None: make a task."""

    def route(self, message: Message, skill_hint: str | None) -> Skill:
        """Raises `InvalidParams` for a hint that names no skill."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, unless named otherwise.

    `blocking`: how long a blocking send waits before it answers with the task as it is. `lease`: how long a
    worker may be silent before its turn counts as lost. `wake_again`: how long a queued turn may wait before
    the sweeper wakes for it. `reruns`: how often a lost turn of a skill that allows it is run again.
    `streams`: how many a tenant may have open at once. `grace`: how long code that was told to stop may take
    until its task is ended without it.
    `agent_hop` and `people_hop`: how long a dispatching agent, and people, have until a question is passed
    on; `unanswered` says what becomes of it after that: `escalate`, or `reject`.
    """

    blocking: float = 25.0
    lease: float = 60.0
    wake_again: float = 30.0
    arm_ahead: float = 90.0
    reruns: int = 3
    streams: int = 100
    grace: float = 15.0
    agent_hop: float = 300.0
    people_hop: float = 1800.0
    unanswered: str = "escalate"


@dataclass(frozen=True, slots=True)
class Engine:
    table: Table
    views: Views
    waker: Waker
    clock: Clock
    guard: SchemaGuard
    limits: Limits = field(default_factory=Limits)
    notices: bool = False
    """Whether people are told where they are: there are renderers."""


def new_id() -> str:
    return str(uuid4())


def attempts(clock: Clock) -> Iterator[int]:
    """Tries of one decision, with back-off and full jitter between them; raises `Unavailable` after the last.

    The body reads, decides with the time as it is then, and writes; it leaves the loop when it knows how the
    decision ended and goes on after a `ConditionFailed` or an `OutcomeUnknown`.
    """
    for number in range(MAX_ATTEMPTS):
        if number:
            longest = min(MAX_BACK_OFF_SECONDS, BACK_OFF_SECONDS * 2**number)
            clock.sleep(random.uniform(0, longest))  # noqa: S311
        yield number
    raise Unavailable


def status(state: TaskState, now: datetime, message: Message | None = None) -> TaskStatus:
    return TaskStatus(state=state, message=message, timestamp=timestamp(now))


def agent_message(meta: TaskMeta, text: str) -> Message:
    return Message(
        message_id=new_id(),
        role=Role.AGENT,
        parts=[Part(text=text)],
        task_id=meta.task_id,
        context_id=meta.context_id,
    )


def move(
    meta: TaskMeta,
    event: Event | None,
    *,
    now: datetime,
    op: str,
    changes: Mapping[str, Any] | None = None,
    fact: Fact | None = None,
) -> tuple[TaskMeta, list[Write]]:
    """Every change of a task: the writes that take `meta` to the next revision, with its event and its fact.

    The condition on `rev` is what decides: nothing else has changed the task since `meta` was read, so a
    terminal task stays as it is and every event gets the next number. Returns META as it will be.
    """
    if meta.task_state.terminal:
        raise AssertionError(f"a change of a task that is {meta.state}")
    changed: dict[str, Any] = {"rev": meta.rev + 1, **(changes or {})}
    writes: list[Write] = []
    if event is not None:
        changed["seq"] = meta.seq + 1
        if event.status is not None:
            at = instant(now)
            changed["state"] = event.status.state.value
            changed["status_at"] = at
            changed["view_at"] = f"{at}#{meta.task_id}"
            changed["said"] = meta.seq + 1 if event.status.message is not None else None
        key = event_key(meta.tenant, meta.task_id, meta.seq + 1)
        item = event_item(event, op, push=meta.push)
        changed["size"] = meta.size + cast(int, item["size"])
        _check_room(meta, event, changed["size"])
        writes.append(Put(key, item, (Missing("v"),)))
        if meta.push:
            writes.append(push_guard(meta, meta.seq + 1, now))
    kept: Item = {name: value for name, value in changed.items() if value is not None}
    removed = tuple(
        name for name, value in changed.items() if value is None and getattr(meta, name) is not None
    )
    writes.insert(0, Update(meta.key, kept, removed, (Equals("rev", meta.rev),)))
    moved = replace(meta, **changed)
    told = fact or Fact(TASK_EVENT, event.by if event is not None else None)
    writes.append(told.about(moved, event).put(meta.tenant, now))
    return moved, writes


def _check_room(meta: TaskMeta, event: Event, size: int) -> None:
    """An end always has room, and so has what we say of a task ourselves: it carries next to nothing."""
    if event.status is not None and event.status.state.terminal:
        return
    if event.message is None and event.artifact is None and size - meta.size <= SMALL_EVENT_BYTES:
        return
    if size > MAX_TASK_BYTES:
        raise EventTooLarge(f"more than the {MAX_TASK_BYTES} bytes that a task has room for")
    if event.message is not None and meta.seq >= MAX_EVENTS:
        raise EventTooLarge(f"one more than the {MAX_EVENTS} events that a task has room for")


def barred(meta: TaskMeta) -> frozenset[str]:
    """Who may not approve what the task asks leave for, nor what it delegates."""
    return requesters(meta.owner, meta.last_author, [*meta.editors.split(), *meta.inherited.split()])


def push_guard(meta: TaskMeta, seq: int, now: datetime) -> Put:
    """After a while somebody looks whether event `seq` was delivered, whatever became of its wake."""
    at = instant(now + timedelta(seconds=PUSH_GUARD_SECONDS))
    due = Due("push", meta.tenant, meta.task_id, str(seq), at)
    return Put(due.key, due.item())


def new_run(meta: TaskMeta, now: datetime, attempt: int = 1) -> Run:
    return Run(
        tenant=meta.tenant,
        task_id=meta.task_id,
        agent=meta.agent,
        skill=meta.skill,
        turn=meta.turn,
        phase=Run.NEW,
        queued_at=instant(now),
        attempt=attempt,
    )


def queue_turn(meta: TaskMeta, now: datetime, attempt: int = 1) -> Put:
    """The RUN row of the turn that `meta` names: from now on it is accepted work that must be finished."""
    run = new_run(meta, now, attempt)
    return Put(run.key, run.item(), (Missing("v"),))


def landed(table: Table, tried: TaskMeta, op: str) -> bool:
    """Whether the write of `op`, tried on top of `tried`, is in the log: its reply may have been lost."""
    item = table.get(event_key(tried.tenant, tried.task_id, tried.seq + 1))
    return item is not None and item["op"] == op
