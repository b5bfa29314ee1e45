"""`interlock tasks` and `interlock cancel`: a task with what was delegated below it, and its end."""

from typing import Annotated
from urllib.parse import quote

import typer

from interlock.a2a.models import Wire
from interlock.cli.door import TRIES, calling
from interlock.cli.output import AsJson, failures, one_line, print_json
from interlock.cli.target import Identity, Profile, Token, Url, target


class Delegation(Wire):
    id: str
    to: str
    status: str
    outcome: str | None = None
    child: str | None = None


class Node(Wire):
    level: int
    task_id: str | None = None
    agent: str | None = None
    skill: str | None = None
    state: str | None = None
    delegation: Delegation | None = None


class Tree(Wire):
    nodes: list[Node]
    complete: bool


class Canceled(Wire):
    status: str


def tasks(
    task_id: Annotated[str, typer.Argument(help="The id of a task.")],
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Show a task and what it handed to other agents, as a tree."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        found = door.get(Tree, f"tasks/{quote(task_id, safe='')}/tree", tries=TRIES)
        if as_json:
            print_json(found.wire())
            return
        for node in found.nodes:
            typer.echo(one_line(f"{'  ' * node.level}{_line(node)}"))
        if not found.complete:
            typer.echo("There is more than is shown.", err=True)


def cancel(
    task_id: Annotated[str, typer.Argument(help="The id of a task.")],
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a task, whatever it waits for. Within a window of veto, that vetoes it."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        lost = "It may be canceled or not: see `interlock tasks`."
        found = door.post(Canceled, f"tasks/{quote(task_id, safe='')}/cancel", lost=lost)
        if as_json:
            print_json(found.wire())
        else:
            typer.echo("Canceled.")


def _line(node: Node) -> str:
    made_by = node.delegation
    if node.task_id is not None:
        line = f"{node.task_id}  {node.agent}/{node.skill}  {_state(node.state)}"
    elif made_by is not None and made_by.child is not None:
        line = f"{made_by.child}  at {made_by.to}"
    else:
        line = f"a task that is not known, at {made_by.to if made_by is not None else 'nobody'}"
    if made_by is None:
        return line
    return f"{line}  [{made_by.status}{f': {made_by.outcome}' if made_by.outcome is not None else ''}]"


def _state(state: str | None) -> str:
    return (state or "").removeprefix("TASK_STATE_").lower()
