"""Who is away, and who decides in their place meanwhile: a person whom they, or an operator, have named.

Where the substitute is away too, theirs stands in as well, and so on. Nobody who asked for something has a
part in that: else whoever asks would choose who approves.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

MAX_CHAIN = 5
"""Substitutes, one of the other."""
MAX_AHEAD = timedelta(days=366)
"""How far ahead an absence may be said to end."""

Vote = TypeVar("Vote")


@dataclass(frozen=True, slots=True)
class Absence:
    """`who` is away from `since` until right before `until`, as `said_by` says; `substitute` stands in."""

    who: str
    substitute: str
    since: datetime
    until: datetime
    said_by: str

    def holds(self, at: datetime) -> bool:
        return self.since <= at < self.until


def chain(
    absences: Mapping[str, Absence], who: str, at: datetime, excluded: Collection[str] = ()
) -> list[Absence]:
    """How one comes from `who` to those who stand in at `at`, the nearest first: cut at `MAX_CHAIN`, where it
    would come back to somebody, and before whatever is of those `excluded`, or was said by them."""
    steps: list[Absence] = []
    passed = {who}
    while len(steps) < MAX_CHAIN:
        step = absences.get(who)
        if step is None or not step.holds(at) or step.substitute in passed:
            break
        if not {who, step.substitute, step.said_by}.isdisjoint(excluded):
            break
        steps.append(step)
        who = step.substitute
        passed.add(who)
    return steps


def stands_in(
    absences: Mapping[str, Absence],
    substitute: str,
    named: Iterable[str],
    at: datetime,
    excluded: Collection[str] = (),
) -> dict[str, list[Absence]]:
    """For whom of `named` the substitute stands in at `at`, in order, each with the absences that say so."""
    found: dict[str, list[Absence]] = {}
    for who in sorted(named):
        steps = chain(absences, who, at, excluded)
        place = next((n for n, step in enumerate(steps, 1) if step.substitute == substitute), None)
        if place is not None:
            found[who] = steps[:place]
    return found


def free_place(votes: Mapping[str, str | None], voter: str, places: Iterable[str]) -> str | None:
    """The first of `places` that nobody has taken but the voter: it counts once, whoever votes in it.

    `votes` maps whoever has voted to in whose place, None for their own.
    """
    taken = {place or who for who, place in votes.items() if who != voter}
    return next((place for place in places if place not in taken), None)


def with_vote(
    votes: Mapping[str, Vote], places: Mapping[str, str | None], voter: str, vote: Vote
) -> dict[str, Vote]:
    """The votes with one more. Where somebody had voted in the voter's place, the voter's own counts instead.

    `places` is of `votes`, as for `free_place`.
    """
    return {**{who: other for who, other in votes.items() if places[who] != voter}, voter: vote}
