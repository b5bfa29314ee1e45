"""Timers: a DUE row says what is to be looked at and when. The row wakes; the write decides."""

from interlock.engine.children import DELEGATED, delegation_due
from interlock.engine.context import Engine
from interlock.engine.dispatch import WINDOW, pass_window
from interlock.engine.expire import expire
from interlock.engine.lease import LAPSE, lapse
from interlock.engine.notices import REMIND, remind, tell_due
from interlock.engine.ports import Key
from interlock.engine.push import push_due
from interlock.engine.records import Due, instant, parse_instant
from interlock.engine.registry import REFRESH, refresh_due
from interlock.engine.reviewers import HOP, hop_due
from interlock.engine.tells import TELL


def handle_due(engine: Engine, key: Key) -> None:
    """Handles the row under `key` if its time has come, and arms it again if it was woken early."""
    item = engine.table.get(key)
    if item is None:
        return
    due = Due.read(item)
    if instant(engine.clock.now()) < due.at:
        engine.waker.wake_timer(key, parse_instant(due.at))
    elif due.kind == "deadline":
        expire(engine, key, due)
    elif due.kind == "push":
        push_due(engine, key, due)
    elif due.kind == WINDOW:
        pass_window(engine, key, due)
    elif due.kind == HOP:
        hop_due(engine, key, due)
    elif due.kind == TELL:
        tell_due(engine, key, due)
    elif due.kind == REMIND:
        remind(engine, key, due)
    elif due.kind == LAPSE:
        lapse(engine, key, due)
    elif due.kind == DELEGATED:
        delegation_due(engine, key, due)
    elif due.kind == REFRESH:
        refresh_due(engine, key, due)
    else:
        raise AssertionError(f"a due row of unknown kind {due.kind!r}")
