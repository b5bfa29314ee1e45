"""Delegated work that ends by itself: when its parent no longer renews the lease, or at its deadline."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.engine.cancel import cancellation
from interlock.engine.context import Engine, attempts, move, new_id
from interlock.engine.facts import DELEGATION, Fact
from interlock.engine.ports import ConditionFailed, Delete, Equals, Key, OutcomeUnknown, Put, Write
from interlock.engine.records import Due, TaskMeta, instant, parse_instant
from interlock.oversight.delegation import Terms

LAPSE = "lapse"
LAPSED = "The lease was not renewed in time, or the deadline has passed."


def leased(terms: Terms, now: datetime) -> Mapping[str, Any]:
    """Members of META."""
    return {
        "depth": terms.depth,
        "inherited": " ".join(sorted(terms.excluded)),
        "lease_until": instant(now + terms.lease) if terms.lease is not None else None,
        "deadline": instant(terms.deadline) if terms.deadline is not None else None,
    }


def lapse_row(meta: TaskMeta, at: str) -> Put:
    due = Due(LAPSE, meta.tenant, meta.task_id, LAPSE, at)
    return Put(due.key, due.item())


def wake_lapse(engine: Engine, meta: TaskMeta) -> None:
    """A lease is short: it does not wait for the sweeper."""
    if meta.lapses_at is not None:
        engine.waker.wake_timer(lapse_row(meta, meta.lapses_at).key, parse_instant(meta.lapses_at))


def renew(engine: Engine, seen: TaskMeta, terms: Terms) -> None:
    """The row that waits for the lapse stays: whoever looks at it finds the new time.

    A lease never comes back once it has lapsed, and none is granted anew to a task that had none.
    """
    if terms.lease is None:
        return
    for _ in attempts(engine.clock):
        item = engine.table.get(seen.key)
        meta = TaskMeta.read(item) if item is not None else None
        now = engine.clock.now()
        if meta is None or meta.task_state.terminal or meta.lease_until is None:
            return
        until = instant(now + terms.lease)
        if until <= meta.lease_until or instant(now) >= meta.lease_until:
            return
        fact = Fact(DELEGATION, meta.owner, detail={"action": "renewed"})
        _, writes = move(meta, None, now=now, op=new_id(), changes={"lease_until": until}, fact=fact)
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return


def lapse(engine: Engine, key: Key, due: Due) -> None:
    """Cancels the task, or waits on if the lease was renewed."""
    op = new_id()
    for _ in attempts(engine.clock):
        item = engine.table.get(TaskMeta.key_of(due.tenant, due.task_id))
        meta = TaskMeta.read(item) if item is not None else None
        now = engine.clock.now()
        at = meta.lapses_at if meta is not None and not meta.task_state.terminal else None
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        waits = at is not None and at > instant(now)
        if meta is not None and at is not None:
            waiting: list[Write] = [lapse_row(meta, at)]
            writes += waiting if waits else cancellation(meta, now, op, by=None, text=LAPSED)[1]
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            if engine.table.get(key) is None:
                return
            continue
        if meta is not None and at is not None:
            if waits:
                wake_lapse(engine, meta)
            elif meta.delegates:
                engine.waker.wake_children(meta.tenant, meta.task_id)
        return
