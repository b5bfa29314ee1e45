"""Looking after what waits: `interlock claim`, `extend` and `pass-on`. None of them decides anything."""

from typing import Annotated

import typer

from interlock.a2a.models import JsonObject
from interlock.cli.checkpoints import Checkpoint, People
from interlock.cli.door import calling
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, print_json
from interlock.cli.people import Reference
from interlock.cli.target import Identity, Profile, Token, Url, target
from interlock.cli.when import WHEN, time_of

LOST = "It may be done or not: see `interlock inbox`."


def claim(
    reference: Reference,
    release: Annotated[bool, typer.Option("--release", help="No longer.")] = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Say to others that you look at it, for 15 minutes. It keeps nobody from deciding."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        people = People(door)
        found = people.find(reference)
        claimed = people.release if release else people.claim
        changed = claimed(found, lost=LOST)
        held = changed.claim
        _say(changed, "Released." if held is None else f"{held.who} looks at it until {held.until}.", as_json)


def extend(
    reference: Reference,
    until: Annotated[str, typer.Option("--until", metavar="WHEN", help=f"The new deadline. {WHEN}")],
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Give people longer to answer: a later deadline, at most seven days from now."""
    with failures(as_json):
        said: JsonObject = {"until": time_of(until)}
        with calling(target(url, token, identity, profile)) as door:
            people = People(door)
            changed = people.tell(people.find(reference), "extend", said, lost=LOST)
            _say(changed, f"It waits until {changed.deadline}.", as_json)


def pass_on(
    reference: Reference,
    to: Annotated[
        str | None, typer.Option("--to", metavar="IDENTITY", help="Who is to decide it, as bearer:bob.")
    ] = None,
    operators: Annotated[bool, typer.Option("--operators", help="To the operators instead.")] = False,
    comment: Annotated[str | None, typer.Option("--comment", help="For them.")] = None,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Pass it on to somebody else who may decide it, who is told, or to the operators."""
    with failures(as_json):
        if (to is None) != operators:
            raise Failure("Say to whom: --to IDENTITY, or --operators.", Exit.USAGE)
        said: JsonObject = {"to": to or "operators", **({} if comment is None else {"comment": comment})}
        with calling(target(url, token, identity, profile)) as door:
            people = People(door)
            changed = people.tell(people.find(reference), "pass-on", said, lost=LOST)
            _say(changed, f"Passed on to {said['to']}.", as_json)


def _say(changed: Checkpoint, said: str, as_json: bool) -> None:
    if as_json:
        print_json(changed.wire())
    else:
        typer.echo(one_line(said))
