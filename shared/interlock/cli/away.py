"""Who is away, and who stands in for them: `interlock away`."""

import json
from typing import Annotated

import typer

from interlock.a2a.models import Wire
from interlock.cli.door import TRIES, Door, calling
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, print_json, print_table
from interlock.cli.target import Identity, Profile, Token, Url, target
from interlock.cli.when import WHEN, time_of

LOST = "It may be said or not. Say it again: it is said once."


class Absence(Wire):
    """As the people's door shows it."""

    who: str
    substitute: str
    since: str
    until: str
    said_by: str


class Absences(Wire):
    away: list[Absence]
    now: str


class Cleared(Wire):
    status: str


def away(
    to: Annotated[
        str | None, typer.Option("--to", metavar="IDENTITY", help="Who stands in, as bearer:bob.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="WHEN", help=WHEN)] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="WHEN", help="Now, if not given.")] = None,
    who: Annotated[
        str | None, typer.Option("--who", metavar="IDENTITY", help="Somebody else, for an operator.")
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Back again.")] = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Who is away; or, with --to and --until, that you are, and who decides in your place meanwhile."""
    with failures(as_json):
        says = {"to": to, "until": until, "since": since}
        if clear and any(says.values()):
            raise Failure("--clear goes with --who alone.", Exit.USAGE)
        if not clear and (any(says.values()) or who) and not (to and until):
            raise Failure("Say who stands in with --to, and until when with --until.", Exit.USAGE)
        said = {
            "substitute": to,
            "until": until and time_of(until),
            "since": since and time_of(since),
            "who": who,
        }
        with calling(target(url, token, identity, profile)) as door:
            if clear:
                _clear(door, who, as_json)
            elif to:
                _say(door, {name: value for name, value in said.items() if value}, as_json)
            else:
                _list(door, as_json)


def _say(door: Door, said: dict[str, str], as_json: bool) -> None:
    absence = door.put(Absence, "away", json.dumps(said), lost=LOST)
    if as_json:
        print_json(absence.wire())
    else:
        since, until = absence.since, absence.until
        typer.echo(one_line(f"{absence.substitute} stands in for {absence.who}, {since} to {until}."))


def _clear(door: Door, who: str | None, as_json: bool) -> None:
    cleared = door.delete(Cleared, "away", {"who": who} if who else {}, lost=LOST)
    if as_json:
        print_json(cleared.wire())
    else:
        typer.echo("Back again." if cleared.status == "cleared" else "Nothing was said.")


def _list(door: Door, as_json: bool) -> None:
    absences = door.get(Absences, "away", tries=TRIES).away
    if as_json:
        print_json([absence.wire() for absence in absences])
    elif not absences:
        typer.echo("Nobody is away.")
    else:
        print_table(
            ("WHO", "STANDS IN", "SINCE", "UNTIL", "SAID BY"),
            [(each.who, each.substitute, each.since, each.until, each.said_by) for each in absences],
        )
