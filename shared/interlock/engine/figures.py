"""The figures of a tenant's history, from the newest of it."""

import json
from dataclasses import dataclass
from datetime import timedelta

from interlock.a2a.errors import PermissionDenied
from interlock.engine.context import Engine
from interlock.engine.records import history_view, instant, parse_instant
from interlock.engine.shown import Question, question
from interlock.oversight.principals import Principal, Role
from interlock.oversight.statistics import Closed, Day, Decider, by_day, by_person

SAMPLED = 1000
"""Closed checkpoints that are looked at, at most, in"""
REQUESTS = 10
"""queries, which end at 1 MB each."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of `sampled` checkpoints. Not `complete`: there are older ones within the days."""

    days: list[Day]
    people: list[Decider]
    sampled: int
    complete: bool


def figures(engine: Engine, caller: Principal, days: int) -> Figures:
    """Of so many days, today the last. Raises `PermissionDenied` for who is neither approver nor operator."""
    if not caller.has(Role.APPROVER, Role.OPERATOR):
        raise PermissionDenied
    today = engine.clock.now().date()
    first = today - timedelta(days=days - 1)
    begin = f"{first.isoformat()}T00:00:00.000000Z"
    found: list[Closed] = []
    cursor: str | None = None
    for _ in range(REQUESTS):
        page = engine.views.query_view(
            history_view(caller.tenant),
            first=begin,
            descending=True,
            limit=SAMPLED - len(found),
            cursor=cursor,
        )
        found += [_closed(question(item)) for _, item in page.rows]
        cursor = page.cursor
        if cursor is None or len(found) >= SAMPLED:
            break
    return Figures(by_day(found, first, today), by_person(found), len(found), cursor is None)


def _closed(shown: Question) -> Closed:
    found = shown.checkpoint
    viewed = json.loads(found.viewed or "{}")
    return Closed(
        status=found.status,
        asked_at=parse_instant(found.asked_at),
        closed_at=parse_instant(found.closed_at or instant(parse_instant(found.asked_at))),
        by=found.closed_by,
        votes={vote.who: vote.decision for vote in shown.votes},
        viewed={who: timedelta(milliseconds=ms) for who, ms in viewed.items()},
    )
