"""Figures of the history: waiting times, decisions a day, and how fast people approve."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Door
from interlock.engine.errors import store_errors
from interlock.engine.figures import figures
from interlock.engine.records import Checkpoint
from interlock.oversight.principals import Principal
from interlock.oversight.statistics import Day, Decider

MAX_DAYS = 30

Days = Annotated[int, Query(ge=1, le=MAX_DAYS)]


class DayBody(Wire):
    """What was closed on a day of UTC, by how it ended. Waits are of what people decided, from when it was
    asked."""

    date: str
    approved: int
    denied: int
    answered: int
    changes_requested: int
    expired: int
    canceled: int
    median_wait_seconds: float | None = None
    p90_wait_seconds: float | None = None


class DeciderBody(Wire):
    """`approvedUnder3s` are approvals so soon after the action was shown, or was asked for, where that is not
    known; `share` is theirs of all decisions."""

    who: str
    decisions: int
    approved_under3s: Annotated[int, Field(alias="approvedUnder3s")]
    share: float


class StatisticsBody(Wire):
    """From the `sampled` newest of the history, the oldest day first. Not `complete`: there are older ones
    within the days. `now` is the server's clock."""

    days: list[DayBody]
    by_person: list[DeciderBody]
    sampled: int
    complete: bool
    now: str


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/statistics", response_model_exclude_none=True)
    def statistics(who: Caller, days: Days = 7) -> StatisticsBody:
        """How long questions waited, what became of them, and how people decided."""
        with store_errors():
            found = figures(engine, who, days)
        return StatisticsBody(
            days=[_day(day) for day in found.days],
            by_person=[_decider(one) for one in found.people],
            sampled=found.sampled,
            complete=found.complete,
            now=timestamp(engine.clock.now()),
        )

    return routes


def _day(day: Day) -> DayBody:
    def ended(status: str) -> int:
        return day.ends.get(status, 0)

    return DayBody(
        date=day.date.isoformat(),
        approved=ended(Checkpoint.APPROVED),
        denied=ended(Checkpoint.DENIED),
        answered=ended(Checkpoint.ANSWERED),
        changes_requested=ended(Checkpoint.CHANGES_REQUESTED),
        expired=ended(Checkpoint.EXPIRED),
        canceled=ended(Checkpoint.CANCELED),
        median_wait_seconds=day.median_wait.total_seconds() if day.median_wait is not None else None,
        p90_wait_seconds=day.p90_wait.total_seconds() if day.p90_wait is not None else None,
    )


def _decider(one: Decider) -> DeciderBody:
    return DeciderBody(
        who=one.who, decisions=one.decisions, approved_under3s=one.approved_hastily, share=round(one.share, 4)
    )
