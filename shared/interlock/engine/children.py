"""What a task has delegated, once its run no longer looks after it: canceled, or visibly not to be reached.

The record of a delegation was written before its send, so whatever became of the run, somebody here finds it:
woken when the task is canceled, halted, lost or ends, else by a row that falls due again and again.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from interlock.a2a.errors import TaskNotCancelable, TaskNotFound
from interlock.a2a.models import Task, TaskState
from interlock.engine.context import Engine, attempts
from interlock.engine.errors import SendCanceled
from interlock.engine.facts import DELEGATION, Fact
from interlock.engine.peers import PeerAddress, PeerRefused, Peers, PeerUnreachable
from interlock.engine.ports import (
    LAST,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    OutcomeUnknown,
    Put,
    Table,
    Update,
    Write,
)
from interlock.engine.records import (
    DELEGATIONS,
    Delegation,
    Due,
    TaskMeta,
    instant,
    parse_instant,
    task_pk,
)
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.oversight.delegation import Outcome

DELEGATED = "delegated"
LOOK_EVERY = timedelta(seconds=60)
LATE = timedelta(seconds=30)
"""How long after the end of its sending a message may still arrive."""
MAX_LOOKS = 14
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=15)
"""With these a cancel is given up after about an hour and a half."""

OUTCOMES: Mapping[TaskState, Outcome] = {
    TaskState.COMPLETED: Outcome.COMPLETED,
    TaskState.FAILED: Outcome.FAILED,
    TaskState.REJECTED: Outcome.FAILED,
    TaskState.CANCELED: Outcome.CANCELED,
    TaskState.INPUT_REQUIRED: Outcome.INTERRUPTED,
    TaskState.AUTH_REQUIRED: Outcome.INTERRUPTED,
}
"""Of a task that has settled."""


@dataclass(frozen=True, slots=True)
class Children:
    """What canceling delegated work needs beside the engine."""

    engine: Engine
    peers: Peers
    park: Callable[[Delegation], None]
    """Puts a delegation whose cancel is given up where an alarm sees it. May be called twice for one."""


def delegations(table: Table, tenant: str, task_id: str) -> list[Delegation]:
    found: list[Delegation] = []
    cursor: str | None = None
    while True:
        page = table.query(
            task_pk(tenant, task_id), first=DELEGATIONS, last=DELEGATIONS + LAST, cursor=cursor
        )
        found += (Delegation.read(item) for _, item in page.rows)
        cursor = page.cursor
        if cursor is None:
            return sorted(found, key=lambda delegation: delegation.made_at)


def due_row(delegation: Delegation, at: str) -> Put:
    due = Due(DELEGATED, delegation.tenant, delegation.task_id, delegation.id, at)
    return Put(due.key, due.item())


def change(delegation: Delegation, **changes: str | int) -> tuple[Delegation, Update]:
    """Every change of a delegation: `rev` decides between its run and whoever cancels it."""
    changed = replace(delegation, rev=delegation.rev + 1, **changes)  # type: ignore[arg-type]
    given: Item = {"rev": changed.rev, **changes}
    return changed, Update(delegation.key, given, conditions=(Equals("rev", delegation.rev),))


def told(delegation: Delegation, meta: TaskMeta, action: str) -> Fact:
    detail = {
        "action": action,
        "delegation": delegation.id,
        "to": delegation.to,
        "child": delegation.child,
        "outcome": delegation.outcome,
    }
    return Fact(DELEGATION, f"agent:{meta.agent}", detail=detail).about(meta)


def looked_after(meta: TaskMeta, delegation: Delegation) -> bool:
    """Whether the run that made it still holds its turn."""
    held = (meta.fence, meta.turn) == (delegation.fence, delegation.turn)
    return held and meta.task_state is TaskState.WORKING


def delegation_due(engine: Engine, key: Key, due: Due) -> None:
    """Wakes for what is to be canceled, and comes back until it has settled. The row goes only then."""
    for _ in attempts(engine.clock):
        delegation, meta = _read(engine, due.tenant, due.task_id, due.id)
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        if not delegation.over:
            now = engine.clock.now()
            writes.append(due_row(delegation, instant(now + _wait(delegation))))
            if not looked_after(meta, delegation):
                engine.waker.wake_children(due.tenant, due.task_id)
        try:
            engine.table.write(*writes)
        except ConditionFailed:
            return  # somebody else has handled it
        except OutcomeUnknown:
            continue
        return


def _wait(delegation: Delegation) -> timedelta:
    """Until it is looked at again."""
    if delegation.status == Delegation.OPEN:
        return LOOK_EVERY
    longest: timedelta = min(LONGEST_RETRY, FIRST_RETRY * 2**delegation.looked)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311


def _read(engine: Engine, tenant: str, task_id: str, delegation_id: str) -> tuple[Delegation, TaskMeta]:
    item, meta_item = engine.table.get_many(
        [Delegation.key_of(tenant, task_id, delegation_id), TaskMeta.key_of(tenant, task_id)]
    )
    if item is None or meta_item is None:
        raise AssertionError("a delegation that is not there")
    return Delegation.read(item), TaskMeta.read(meta_item)


def cancel_children(children: Children, tenant: str, task_id: str) -> None:
    """Cancels what the task has delegated and no run looks after. Any number may do so at once."""
    for delegation in delegations(children.engine.table, tenant, task_id):
        if not delegation.over:
            _cancel(children, delegation)


def _cancel(children: Children, seen: Delegation) -> None:
    engine = children.engine
    for _ in attempts(engine.clock):
        delegation, meta = _read(engine, seen.tenant, seen.task_id, seen.id)
        if delegation.over or looked_after(meta, delegation):
            return
        if delegation.status == Delegation.OPEN:
            # From here on the run can neither settle it nor let it go.
            canceling, write = change(delegation, status=Delegation.CANCELING)
            fact = told(canceling, meta, "cancel").put(seen.tenant, engine.clock.now())
            try:
                engine.table.write(write, fact)
            except (ConditionFailed, OutcomeUnknown):
                continue
            delegation = canceling
        answer = _ask(children, delegation)
        try:
            engine.table.write(*_noted(children, delegation, meta, answer))
        except (ConditionFailed, OutcomeUnknown):
            continue
        return


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a try has brought: an outcome that stands, or None; and the child, if it is known by now."""

    outcome: Outcome | None
    child: str | None = None
    instead: Outcome = Outcome.CANCEL_FAILED
    """What is told of it when no further try is made."""
    counts: bool = True


def _noted(children: Children, delegation: Delegation, meta: TaskMeta, answer: _Answer) -> list[Write]:
    now = children.engine.clock.now()
    changes: dict[str, str | int] = {} if answer.child is None else {"child": answer.child}
    looked = delegation.looked + answer.counts
    if answer.outcome is not None:
        changes |= {"status": Delegation.SETTLED, "outcome": answer.outcome, "settled_at": instant(now)}
    elif looked >= MAX_LOOKS:
        changes |= {"status": Delegation.PARKED, "outcome": answer.instead, "settled_at": instant(now)}
        children.park(delegation)
    else:
        changes |= {"outcome": answer.instead, "looked": looked}
    changed, write = change(delegation, **changes)
    writes: list[Write] = [write]
    if changed.over:
        writes.append(told(changed, meta, "settled").put(delegation.tenant, now))
    return writes


def _ask(children: Children, delegation: Delegation) -> _Answer:
    """One try to cancel the child, and to learn that it has ended."""
    peers = children.peers
    try:
        to = peers.resolve(delegation.to)
        if delegation.child is not None:
            return _answer(peers, to, delegation.child)
        return _search(children, to, delegation)
    except PeerRefused as refused:
        return _Answer(Outcome.UNREACHABLE if refused.code == TaskNotFound.code else None)
    except PeerUnreachable:
        return _Answer(None)


def _search(children: Children, to: PeerAddress, delegation: Delegation) -> _Answer:
    """For a child whose id was never learned: by the key of its send, and by its context.

    A server of ours cancels the send by its key, also before it arrives. Another knows the context, which is
    the delegation's alone; as long as a send may still arrive there, not to find it says nothing.
    """
    peers = children.peers
    try:
        task = peers.cancel(to, delegation.id, metadata={IDEMPOTENCY_METADATA: delegation.id})
        return _settled(task)
    except PeerRefused as refused:
        if refused.reason == SendCanceled.reason:
            return _Answer(Outcome.CANCELED)
        if refused.code == TaskNotCancelable.code:
            # Its send is known there, and what came of it has ended.
            return _Answer(Outcome.COMPLETED)
    try:
        found = peers.find(to, delegation.id)
    except PeerRefused:
        found = []
    if found:
        return _answer(peers, to, found[0].id)
    over = children.engine.clock.now() > parse_instant(delegation.send_until) + LATE
    return _Answer(Outcome.UNREACHABLE if over else None, instead=Outcome.UNREACHABLE, counts=over)


def _answer(peers: Peers, to: PeerAddress, child: str) -> _Answer:
    try:
        return _settled(peers.cancel(to, child))
    except PeerRefused as refused:
        if refused.code != TaskNotCancelable.code:
            raise
        return _settled(peers.get(to, child))


def _settled(task: Task) -> _Answer:
    if task.status.state.terminal:
        return _Answer(OUTCOMES[task.status.state], task.id)
    return _Answer(None, task.id, Outcome.CANCEL_REQUESTED)
