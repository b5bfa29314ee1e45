"""Waiting times, decisions a day, and who approves within seconds."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from interlock.oversight.statistics import Closed, Decider, by_day, by_person

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def closed(status: str = "approved", waited: float = 60, at: datetime = NOON, **more: Any) -> Closed:
    by = more.pop("by", "bearer:ann")
    votes = more.pop("votes", {by: "approve"})
    viewed = {who: seconds * SECOND for who, seconds in more.pop("viewed", {}).items()}
    return Closed(status, at - waited * SECOND, at, by, votes, viewed)


def test_each_day_has_its_ends_also_one_without_any() -> None:
    days = by_day(
        [
            closed("approved"),
            closed("denied", at=datetime(2026, 1, 2, 23, 59, 59, 999999, tzinfo=UTC)),
            closed("expired", at=datetime(2026, 1, 3, tzinfo=UTC)),
            closed("approved", at=datetime(2025, 12, 31, 23, tzinfo=UTC)),
        ],
        date(2026, 1, 1),
        date(2026, 1, 3),
    )
    assert [(day.date.day, dict(day.ends)) for day in days] == [
        (1, {}),
        (2, {"approved": 1, "denied": 1}),
        (3, {"expired": 1}),
    ]


def test_the_waits_are_of_what_people_decided() -> None:
    (day,) = by_day(
        [closed(waited=n) for n in range(1, 11)] + [closed("expired", 1000), closed("canceled", 1000)],
        NOON.date(),
        NOON.date(),
    )
    assert (day.median_wait, day.p90_wait) == (5 * SECOND, 9 * SECOND)
    (one,) = by_day([closed("answered", 7)], NOON.date(), NOON.date())
    assert (one.median_wait, one.p90_wait) == (7 * SECOND, 7 * SECOND)
    (none,) = by_day([closed("expired")], NOON.date(), NOON.date())
    assert (none.median_wait, none.p90_wait) == (None, None)


def test_who_approves_within_three_seconds_of_being_shown_is_counted() -> None:
    found = by_person(
        [
            closed(viewed={"bearer:ann": 2.999}),
            closed(viewed={"bearer:ann": 3}),
            closed(waited=1, viewed={"bearer:ann": 10}),
            closed("denied", votes={"bearer:ann": "deny"}, viewed={"bearer:ann": 1}),
            closed(votes={"bearer:ben": "approve"}, by="bearer:ben", waited=2),
            closed("answered", votes={"bearer:cy": None}, by="bearer:cy", viewed={"bearer:cy": 1}),
        ]
    )
    assert found == [Decider("bearer:ann", 4, 1), Decider("bearer:ben", 1, 1), Decider("bearer:cy", 1, 0)]
    assert [one.share for one in found] == [0.25, 1.0, 0.0]


def test_of_several_who_voted_only_how_long_the_last_took_is_known_without_their_saying() -> None:
    votes = {"bearer:ann": "approve", "bearer:ben": "approve"}
    found = by_person([closed(votes=votes, by="bearer:ben", waited=1)])
    assert found == [Decider("bearer:ann", 1, 0), Decider("bearer:ben", 1, 1)]
