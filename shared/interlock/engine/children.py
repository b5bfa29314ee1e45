"""What a task has delegated, once its run no longer looks after it: canceled, or visibly not to be reached.

The record of a delegation was written before its send, so whatever became of the run, somebody here finds it:
woken when the task is canceled, halted, lost or ends, else by a row that falls due again and again.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from interlock.a2a.errors import MethodNotFound, TaskNotCancelable, TaskNotFound, UnsupportedOperation
from interlock.a2a.models import JsonObject, Task, TaskState
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
MAX_DELEGATIONS = 1000
"""Of one task."""
MAX_LOOKS = 14
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=15)
"""With these a cancel is given up after about an hour and a half."""

LISTS_NOTHING = frozenset({MethodNotFound.code, UnsupportedOperation.code})
OUTCOMES: Mapping[TaskState, Outcome] = {
    TaskState.COMPLETED: Outcome.COMPLETED,
    TaskState.FAILED: Outcome.FAILED,
    TaskState.REJECTED: Outcome.FAILED,
    TaskState.CANCELED: Outcome.CANCELED,
    TaskState.INPUT_REQUIRED: Outcome.INTERRUPTED,
    TaskState.AUTH_REQUIRED: Outcome.INTERRUPTED,
}
"""Of a task that has settled."""

Cancel = Callable[[Delegation], Exception | None]


@dataclass(frozen=True, slots=True)
class Children:
    """What canceling delegated work needs beside the engine."""

    engine: Engine
    peers: Peers
    park: Callable[[Delegation], None]
    """Puts a delegation whose cancel is given up where an alarm sees it. May be called twice for one."""
    each: Callable[[Cancel, Iterable[Delegation]], Iterable[Exception | None]] = map
    """Cancels several at once, where there are threads: none waits for the slow server of another."""


def delegations(table: Table, tenant: str, task_id: str) -> list[Delegation]:
    """All of a task, oldest first."""
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


def change(delegation: Delegation, **changes: Any) -> tuple[Delegation, Update]:
    """Every change of a delegation: `rev` decides between its run and whoever cancels it."""
    changed = replace(delegation, rev=delegation.rev + 1, **changes)
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


def shown(delegation: Delegation) -> JsonObject:
    """As the parent task has it in its metadata."""
    members: JsonObject = {"id": delegation.id, "status": delegation.status}
    if not delegation.bound:
        # Where a registered agent is, is not for those to know who call it here.
        members["to"] = delegation.to
    if delegation.child is not None:
        members["taskId"] = delegation.child
    if delegation.outcome is not None:
        members["outcome"] = delegation.outcome
    return members


def forsaken(meta: TaskMeta, delegation: Delegation) -> bool:
    """Whether it is to be canceled."""
    if delegation.bound and delegation.status == Delegation.OPEN:
        return meta.task_state.terminal
    if delegation.status == Delegation.OPEN:
        held = (meta.fence, meta.turn) == (delegation.fence, delegation.turn)
        return not held or meta.task_state is not TaskState.WORKING
    if delegation.status == Delegation.WAITING:
        return meta.task_state is TaskState.CANCELED
    return delegation.status == Delegation.CANCELING


def rests(meta: TaskMeta, delegation: Delegation) -> bool:
    """Whether it is over, and will never be canceled."""
    waits = delegation.status == Delegation.WAITING
    return delegation.over or (waits and meta.task_state.terminal and not forsaken(meta, delegation))


def delegation_due(engine: Engine, key: Key, due: Due) -> None:
    """Wakes for what is to be canceled, and comes back until it rests. The row goes only then."""
    for _ in attempts(engine.clock):
        found = _read(engine, due.tenant, due.task_id, due.id)
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        wakes, at = False, None
        if found is not None and not rests(found[1], found[0]):
            delegation, meta = found
            now = engine.clock.now()
            wakes, at = _next(delegation, meta, now)
            writes.append(due_row(delegation, instant(at)))
        try:
            engine.table.write(*writes)
        except ConditionFailed:
            return  # somebody else has handled it
        except OutcomeUnknown:
            continue
        if wakes:
            engine.waker.wake_children(due.tenant, due.task_id)
        if at is not None:
            engine.waker.wake_timer(replace(due, at=instant(at)).key, at)
        return


def _next(delegation: Delegation, meta: TaskMeta, now: datetime) -> tuple[bool, datetime]:
    """Whether it is to be tried now, and when it is to be looked at again."""
    if not forsaken(meta, delegation):
        waits = meta.task_state.interrupted if delegation.bound else delegation.status == Delegation.WAITING
        return False, now + (LONGEST_RETRY if waits else LOOK_EVERY)
    if delegation.retry_at is not None and instant(now) < delegation.retry_at:
        return False, parse_instant(delegation.retry_at)
    return True, now + _back_off(delegation.looked + 1)


def _back_off(tries: int) -> timedelta:
    longest: timedelta = min(LONGEST_RETRY, FIRST_RETRY * 2**tries)
    return longest


def _read(
    engine: Engine, tenant: str, task_id: str, delegation_id: str
) -> tuple[Delegation, TaskMeta] | None:
    item, meta_item = engine.table.get_many(
        [Delegation.key_of(tenant, task_id, delegation_id), TaskMeta.key_of(tenant, task_id)]
    )
    if item is None or meta_item is None:
        return None
    return Delegation.read(item), TaskMeta.read(meta_item)


def cancel_children(children: Children, tenant: str, task_id: str) -> None:
    """Cancels what the task has delegated and nobody looks after. Any number may do so at once.

    One that can not be handled raises after all others were.
    """
    left = [one for one in delegations(children.engine.table, tenant, task_id) if not one.over]
    # First those whose servers are likely to answer at once.
    left.sort(key=lambda one: (one.looked, not one.ours, one.child is None))
    failed = [error for error in children.each(partial(_tried, children), left) if error is not None]
    if failed:
        raise failed[0]


def _tried(children: Children, seen: Delegation) -> Exception | None:
    try:
        _cancel(children, seen)
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _cancel(children: Children, seen: Delegation) -> None:
    engine = children.engine
    for _ in attempts(engine.clock):
        found = _read(engine, seen.tenant, seen.task_id, seen.id)
        if found is None or not forsaken(found[1], found[0]):
            return
        (delegation, meta), now = found, engine.clock.now()
        if delegation.retry_at is not None and instant(now) < delegation.retry_at:
            return
        if delegation.status != Delegation.CANCELING:
            # From here on the run can neither settle it nor let it go.
            canceling, write = change(delegation, status=Delegation.CANCELING)
            fact = told(canceling, meta, "cancel").put(seen.tenant, now)
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
    """What a try has brought. `over`: `outcome` stands; else it is to be tried again, and is the outcome
    when no further try is made. `child`, if it is known by now."""

    over: bool
    outcome: Outcome
    child: str | None = None


def _noted(children: Children, delegation: Delegation, meta: TaskMeta, answer: _Answer) -> list[Write]:
    now, looked = children.engine.clock.now(), delegation.looked + 1
    changes: dict[str, Any] = {} if answer.child is None else {"child": answer.child}
    action = None
    if answer.over:
        action = Delegation.SETTLED
    elif looked >= MAX_LOOKS:
        action = Delegation.PARKED
        children.park(delegation)
    if action is not None:
        changes |= {"status": action, "outcome": answer.outcome.value, "settled_at": instant(now)}
    else:
        pause = _back_off(looked) * random.uniform(0.5, 1.0)  # noqa: S311
        changes |= {"looked": looked, "retry_at": instant(now + pause)}
        if answer.child is not None:
            changes["outcome"] = answer.outcome.value
    changed, write = change(delegation, **changes)
    writes: list[Write] = [write]
    if action is not None:
        writes.append(told(changed, meta, action).put(delegation.tenant, now))
    return writes


def _ask(children: Children, delegation: Delegation) -> _Answer:
    """One try to cancel the child, and to learn that it has ended."""
    peers, child = children.peers, delegation.child
    try:
        to = peers.resolve_for(delegation.tenant, delegation.to)
        if child is not None and delegation.ours:
            return _end(peers, to, child)
        if child is None and (answer := _by_key(peers, to, delegation)) is not None:
            return answer
        return _by_context(children, to, delegation)
    except PeerRefused as refused:
        gone = refused.code == TaskNotFound.code
        return _Answer(gone, Outcome.UNREACHABLE if gone else Outcome.CANCEL_FAILED)
    except PeerUnreachable:
        return _Answer(False, Outcome.UNREACHABLE if child is None else Outcome.CANCEL_FAILED)


def _by_key(peers: Peers, to: PeerAddress, delegation: Delegation) -> _Answer | None:
    """A server of ours cancels a send by its key, also before it arrives. None: this is none of ours."""
    try:
        return _settled(peers.cancel(to, delegation.id, metadata={IDEMPOTENCY_METADATA: delegation.id}))
    except PeerRefused as refused:
        return _Answer(True, Outcome.CANCELED) if refused.reason == SendCanceled.reason else None


def _by_context(children: Children, to: PeerAddress, delegation: Delegation) -> _Answer:
    """Another server knows the context, which is the delegation's alone; each try may have made a task there.

    As long as one may still arrive there, neither what is found nor that nothing is says that it is over.
    """
    peers = children.peers
    tasks = [delegation.child] if delegation.child is not None else []
    try:
        tasks += [task.id for task in peers.find(to, delegation.id) if task.id != delegation.child]
    except PeerRefused as refused:
        # A server that lists nothing has no more to say; one that will not is asked again.
        if refused.code not in LISTS_NOTHING and not tasks:
            return _Answer(False, Outcome.UNREACHABLE)
    answers = [_end(peers, to, task) for task in tasks] or [_Answer(True, Outcome.UNREACHABLE)]
    answer = next((each for each in answers if not each.over), answers[0])
    late = children.engine.clock.now() > parse_instant(delegation.send_until) + LATE
    return replace(answer, over=answer.over and late)


def _end(peers: Peers, to: PeerAddress, task_id: str) -> _Answer:
    try:
        return _settled(peers.cancel(to, task_id))
    except PeerRefused as refused:
        if refused.code != TaskNotCancelable.code:
            raise
        return _settled(peers.get(to, task_id))


def _settled(task: Task) -> _Answer:
    ended = task.status.state.terminal
    return _Answer(ended, OUTCOMES[task.status.state] if ended else Outcome.CANCEL_REQUESTED, task.id)
