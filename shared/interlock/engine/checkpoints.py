"""The open checkpoint of a task: how each of its exits closes it."""

import json
from datetime import datetime

from interlock.engine.ports import Condition, Equals, Item, Update
from interlock.engine.records import Checkpoint, TaskMeta, instant


def close_ask(
    meta: TaskMeta,
    ask_id: str,
    outcome: str,
    now: datetime,
    *,
    conditions: tuple[Condition, ...] = (),
    changes: Item | None = None,
) -> Update:
    """Goes into the transaction of the exit. "Still open" is what makes the exits exclude each other (I1).

    Its DUE row stays: whoever looks at it when its time has come finds a closed checkpoint, and deletes it.
    """
    closed: Item = {"status": outcome, "closed_at": instant(now), **(changes or {})}
    return Update(
        Checkpoint.key_of(meta.tenant, meta.task_id, ask_id),
        closed,
        ("view", "view_at"),
        (Equals("status", Checkpoint.OPEN), *conditions),
    )


def winner(by: str, message_id: str, digest: str) -> str:
    return json.dumps([by, message_id, digest])
