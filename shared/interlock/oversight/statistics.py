"""How long questions wait, what becomes of them, and how people decide: figures of a tenant's history.

A person who approves within seconds, over and over, may not be looking: that share is shown for each.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from interlock.oversight.approvals import APPROVE

DECIDED = frozenset({"answered", "approved", "denied", "changes-requested"})
"""By people."""
HASTY = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed checkpoint. `votes` maps whoever decided to what they decided, None for an answer; `viewed` to
    for how long they had it before them, where that is known; `by` is whose act closed it."""

    status: str
    asked_at: datetime
    closed_at: datetime
    by: str | None
    votes: Mapping[str, str | None]
    viewed: Mapping[str, timedelta]


@dataclass(frozen=True, slots=True)
class Day:
    """`ends` counts what was closed by how it ended. The waits are of what people decided, from when it was
    asked until it was closed."""

    date: date
    ends: Mapping[str, int]
    median_wait: timedelta | None
    p90_wait: timedelta | None


@dataclass(frozen=True, slots=True)
class Decider:
    """`approved_hastily`: approvals within `HASTY` of being shown, or of being asked where that is not
    known."""

    who: str
    decisions: int
    approved_hastily: int

    @property
    def share(self) -> float:
        return self.approved_hastily / self.decisions


def by_day(closed: Iterable[Closed], first: date, last: date) -> list[Day]:
    """Each day of UTC from the first to the last, also those on which nothing was closed."""
    days: dict[date, list[Closed]] = {first + timedelta(days=n): [] for n in range((last - first).days + 1)}
    for one in closed:
        if one.closed_at.date() in days:
            days[one.closed_at.date()].append(one)
    return [_day(day, found) for day, found in days.items()]


def _day(day: date, closed: Sequence[Closed]) -> Day:
    waits = sorted(one.closed_at - one.asked_at for one in closed if one.status in DECIDED)
    ends = Counter(one.status for one in closed)
    return Day(day, ends, _percentile(waits, 0.5), _percentile(waits, 0.9))


def _percentile(waits: Sequence[timedelta], share: float) -> timedelta | None:
    """The least of those that so many do not exceed (nearest rank)."""
    return waits[max(math.ceil(share * len(waits)) - 1, 0)] if waits else None


def by_person(closed: Iterable[Closed]) -> list[Decider]:
    """Who has decided most first."""
    decisions: Counter[str] = Counter()
    hasty: Counter[str] = Counter()
    for one in closed:
        for who, decision in one.votes.items():
            decisions[who] += 1
            took = one.viewed.get(who)
            if took is None and who == one.by:
                took = one.closed_at - one.asked_at
            if decision == APPROVE and took is not None and took < HASTY:
                hasty[who] += 1
    return [Decider(who, count, hasty[who]) for who, count in sorted(decisions.items(), key=_most_first)]


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    who, count = counted
    return -count, who
