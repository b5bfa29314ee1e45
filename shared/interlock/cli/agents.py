"""Agents elsewhere that are put under oversight, and the fleet: `interlock agents`, `interlock fleet`."""

import json
import time
from enum import StrEnum
from typing import Annotated
from urllib.parse import quote

import typer

from interlock.a2a.models import Wire
from interlock.cli import completion
from interlock.cli.door import TRIES, Door, calling
from interlock.cli.output import (
    EXIT_CODES,
    AsJson,
    Exit,
    Failure,
    failures,
    one_line,
    print_json,
    print_table,
)
from interlock.cli.target import DEV_OPERATOR, OperatorIdentity, Profile, Token, Url, target
from interlock.oversight.modes import Mode

WAIT_SECONDS = 30.0
"""How long the card of an agent may take to be fetched."""
POLL_SECONDS = 0.2
LOST = "It may be done or not. Say it again: it is done once."

app = typer.Typer(
    help="Agents elsewhere that are put under oversight.", epilog=EXIT_CODES, no_args_is_help=True
)

NewName = Annotated[str, typer.Argument(metavar="NAME", help="What the agent is called here.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="What the agent is called here.", autocompletion=completion.registered
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait until the card was fetched.")]
Raised = StrEnum("Raised", {**{mode.name: mode.value for mode in Mode}, "NONE": "none"})  # type: ignore[misc]


class Skill(Wire):
    """As the people's door shows it."""

    skill: str
    mode: str
    source: str
    name: str | None = None
    declared: str | None = None
    radius: str | None = None
    override: str | None = None
    veto_ttl_ms: int | None = None
    reviewer: str | None = None
    note: str | None = None
    problem: str | None = None
    halted: str | None = None


class Agent(Wire):
    agent: str
    skills: list[Skill]
    url: str | None = None
    peer: str | None = None
    added_by: str | None = None
    added_at: str | None = None
    fetched_at: str | None = None
    tried_at: str | None = None
    stale: bool | None = None
    problem: str | None = None
    halted: str | None = None
    questions: int | None = None


class Fleet(Wire):
    agents: list[Agent]
    now: str


class Removed(Wire):
    status: str


@app.command(epilog=EXIT_CODES)
def add(
    name: NewName,
    card: Annotated[str, typer.Argument(metavar="URL", help="Of the agent, or of its agent card.")],
    peer: Annotated[
        str | None, typer.Option("--peer", help="The deployment's peer that it is, for its credential.")
    ] = None,
    no_wait: NoWait = False,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Put an agent under oversight: it gets an address here, and its skills the modes that hold here.

    Waits until its card was fetched. Exit code 1 also where it could not be: the agent stays registered, and
    is tried again every ten minutes.
    """
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        given = {"name": name, "url": card, **({} if peer is None else {"peer": peer})}
        agent = door.post(Agent, "agents", json.dumps(given), lost=LOST)
        if not no_wait and agent.tried_at is None:
            agent = _tried(door, agent)
        _show(agent, f"Registered {agent.agent}.", as_json, complete=no_wait or agent.problem is None)


@app.command("list", epilog=EXIT_CODES)
def list_agents(
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """The agents that are registered, and how fresh what is known of them is."""
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        agents = door.get(Fleet, "agents", tries=TRIES).agents
        if as_json:
            print_json([agent.wire() for agent in agents])
        elif not agents:
            typer.echo("No agent is registered.")
        else:
            print_table(
                ("AGENT", "SKILLS", "FETCHED", "STATE", "URL"),
                [
                    (each.agent, str(len(each.skills)), each.fetched_at or "", _state(each), each.url or "")
                    for each in agents
                ],
            )


@app.command(epilog=EXIT_CODES)
def refresh(
    name: Name,
    no_wait: NoWait = False,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Have the card of an agent fetched now. Exit code 1 also where it could not be."""
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        agent = door.post(Agent, f"{_path(name)}/refresh", lost=LOST)
        if not no_wait:
            agent = _tried(door, agent)
        _show(agent, f"Refreshed {agent.agent}.", as_json, complete=no_wait or agent.problem is None)


@app.command(epilog=EXIT_CODES)
def remove(
    name: Name,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Take the address of an agent away. What runs there already is followed to its end."""
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        removed = door.post(Removed, f"{_path(name)}/remove", lost="It may be removed or not.", tries=1)
        if as_json:
            print_json({"agent": name, **removed.wire()})
        else:
            typer.echo(one_line(f"Removed {name}."))


@app.command(epilog=EXIT_CODES)
def override(
    name: Name,
    skill: Annotated[str, typer.Argument(metavar="SKILL", help="Its id, or * for all skills of the agent.")],
    mode: Annotated[Raised, typer.Argument(help="At least this; `none` takes it back.")],
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Raise the mode of a skill. What the agent's card declares is never lowered."""
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        given = {"skill": skill, **({} if mode.value == "none" else {"mode": mode.value})}
        agent = door.post(Agent, f"{_path(name)}/override", json.dumps(given), lost=LOST)
        _show(agent, f"Overridden for {agent.agent}.", as_json, complete=True)


def fleet(
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """All agents, here and elsewhere: how much human is in the loop for each skill, and what says so."""
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        agents = door.get(Fleet, "fleet", tries=TRIES).agents
        if as_json:
            print_json([agent.wire() for agent in agents])
        elif not agents:
            typer.echo("There are no agents.")
        else:
            _print_skills(agents)


def _show(agent: Agent, said: str, as_json: bool, *, complete: bool) -> None:
    if as_json:
        print_json(agent.wire())
    else:
        typer.echo(one_line(said))
        _print_skills([agent])
    if not complete:
        if not as_json:
            typer.echo(one_line(f"Its card could not be fetched: {agent.problem}"), err=True)
        raise typer.Exit(Exit.FAILED)


def _print_skills(agents: list[Agent]) -> None:
    rows = [
        (f"{agent.agent}/{skill.skill}", skill.mode, skill.source, _remarks(agent, skill))
        for agent in agents
        for skill in agent.skills
    ]
    rows += [(agent.agent, "", "", _state(agent)) for agent in agents if not agent.skills]
    print_table(("SKILL", "MODE", "BY", ""), rows)


def _remarks(agent: Agent, skill: Skill) -> str:
    said = [
        f"halted by {skill.halted}" if skill.halted else "",
        "stale" if agent.stale else "",
        skill.problem or "",
        f"{agent.questions} open" if agent.questions else "",
    ]
    return ", ".join(filter(None, said))


def _state(agent: Agent) -> str:
    said = [f"halted by {agent.halted}" if agent.halted else "", "stale" if agent.stale else "fresh"]
    return ", ".join(filter(None, [*said, agent.problem or ""]))


def _tried(door: Door, seen: Agent) -> Agent:
    """Once the card was fetched, or could not be."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        agent = door.get(Agent, _path(seen.agent), tries=TRIES)
        if agent.tried_at != seen.tried_at:
            return agent
        if time.monotonic() >= until:
            raise Failure(f"The card of {seen.agent} was not fetched within {WAIT_SECONDS:g} s.")
        time.sleep(POLL_SECONDS)


def _path(name: str) -> str:
    return f"agents/{quote(name, safe='')}"
