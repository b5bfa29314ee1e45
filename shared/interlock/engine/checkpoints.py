"""The open checkpoint of a task: how each of its exits closes it, and that people are told of that."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.engine.ports import Condition, Equals, GreaterThan, Item, Table, Update, Waker, Write
from interlock.engine.records import Checkpoint, Due, TaskMeta, history_view, instant
from interlock.engine.tells import Tells, to_tell

NOTHING_ASKED: Mapping[str, Any] = {"ask": None, "approval": False, "required": 1}
"""META of a task whose checkpoint is closed."""


def of_due(table: Table, due: Due) -> tuple[TaskMeta, Checkpoint] | None:
    """The task and the checkpoint of a due row; None if it was closed between the two reads: read again."""
    meta_item, ask_item = table.get_many(
        [TaskMeta.key_of(due.tenant, due.task_id), Checkpoint.key_of(due.tenant, due.task_id, due.id)]
    )
    if meta_item is None or ask_item is None:
        raise AssertionError("a due row of a checkpoint that is not there")
    meta, ask = TaskMeta.read(meta_item), Checkpoint.read(ask_item)
    return None if ask.status == Checkpoint.OPEN and meta.ask != ask.ask_id else (meta, ask)


def in_time(ask: Checkpoint, now: datetime) -> tuple[Condition, ...]:
    """The deadline is decided in the write, by the clock of this try."""
    return () if ask.deadline is None else (GreaterThan("deadline", instant(now)),)


def count_vote(ask: Checkpoint, votes: Item, now: datetime) -> Update:
    """A vote that does not decide. The revision makes sure that it joins the votes that were read (I3)."""
    conditions = (Equals("status", Checkpoint.OPEN), Equals("rev", ask.rev), *in_time(ask, now))
    return Update(ask.key, {**votes, "rev": ask.rev + 1}, conditions=conditions)


def voted(ask: Checkpoint, votes: str, by: str, viewed_ms: int | None) -> Item:
    """What a vote changes in its checkpoint. `votes` are all of them, as JSON text."""
    if viewed_ms is None:
        return {"votes": votes}
    return {"votes": votes, "viewed": json.dumps({**json.loads(ask.viewed or "{}"), by: viewed_ms})}


def close_ask(
    meta: TaskMeta,
    ask_id: str,
    outcome: str,
    now: datetime,
    *,
    by: str | None = None,
    turn: int | None = None,
    conditions: tuple[Condition, ...] = (),
    changes: Item | None = None,
) -> list[Write]:
    """Go into the transaction of the exit. "Still open" is what makes the exits exclude each other (I1).

    `by` is whose act it was, `turn` the one that is queued with it. It moves from the inbox into the history.
    Its DUE row stays: whoever looks at it when its time has come finds a closed checkpoint, and deletes it.
    """
    at = instant(now)
    closed: Item = {"status": outcome, "closed_at": at, **(changes or {})}
    if by is not None:
        closed["closed_by"] = by
    if turn is not None:
        closed["turn"] = turn
    if not meta.isolated:
        closed |= {"view": history_view(meta.tenant), "view_at": f"{at}#{ask_id}"}
    key = Checkpoint.key_of(meta.tenant, meta.task_id, ask_id)
    still_open = (Equals("status", Checkpoint.OPEN), *conditions)
    told = to_tell(meta, Tells.SETTLED, now, ask_id) if meta.told else []
    return [Update(key, closed, conditions=still_open), *told]


def wake_told(waker: Waker, meta: TaskMeta) -> None:
    """After an exit. Where this is lost, or left to it, the sweeper finds the notice."""
    if meta.told:
        waker.wake_notices(meta.tenant, meta.task_id)


def winner(by: str, message_id: str, digest: str) -> str:
    return json.dumps([by, message_id, digest])
