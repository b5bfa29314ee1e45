"""`interlock stats`: how long people take, and whether they look before they approve."""

from typing import Annotated

import typer
from pydantic import Field

from interlock.a2a.models import Wire
from interlock.cli.door import TRIES, calling
from interlock.cli.output import AsJson, failures, print_json, print_table
from interlock.cli.target import Identity, Profile, Token, Url, target


class Day(Wire):
    """As the people's door shows it."""

    date: str
    approved: int
    denied: int
    answered: int
    changes_requested: int
    expired: int
    canceled: int
    median_wait_seconds: float | None = None
    p90_wait_seconds: float | None = None


class Person(Wire):
    """`share` is that of approvals under three seconds among all decisions."""

    who: str
    decisions: int
    approved_under3s: Annotated[int, Field(alias="approvedUnder3s")]
    share: float | None = None


class Statistics(Wire):
    days: list[Day]
    by_person: list[Person]
    sampled: int
    complete: bool


def stats(
    days: Annotated[int, typer.Option("--days", min=1, max=30, help="So many, today included.")] = 7,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """What became of questions each day, how long they waited, and how many approvals took under 3 s."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        found = door.get(Statistics, "statistics", {"days": days}, tries=TRIES)
        if as_json:
            print_json(found.wire())
            return
        print_table(
            ("DATE", "APPROVED", "DENIED", "ANSWERED", "CHANGES", "EXPIRED", "CANCELED", "MEDIAN", "90 %"),
            [
                (
                    day.date,
                    str(day.approved),
                    str(day.denied),
                    str(day.answered),
                    str(day.changes_requested),
                    str(day.expired),
                    str(day.canceled),
                    _span(day.median_wait_seconds),
                    _span(day.p90_wait_seconds),
                )
                for day in found.days
            ],
        )
        if found.by_person:
            typer.echo()
            print_table(
                ("WHO", "DECISIONS", "APPROVED UNDER 3 S", "SHARE"),
                [
                    (each.who, str(each.decisions), str(each.approved_under3s), _share(each.share))
                    for each in found.by_person
                ],
            )
        if not found.complete:
            typer.echo(f"Of the newest {found.sampled} only: there are more.", err=True)


def _span(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
