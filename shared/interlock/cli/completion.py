"""What the shell completes from the deployment: references of what waits, agents, and skills.

Completing must neither hold up nor frighten whoever types: it asks nobody for a token, runs no command for
one, and where nothing is there, can be reached or may be seen, it is quietly empty.
"""

from typing import TypeVar

import httpx
import typer

from interlock.a2a.models import Wire
from interlock.cli.checkpoints import CheckpointPage, references
from interlock.cli.door import calling
from interlock.cli.output import Failure, one_line
from interlock.cli.switch import Known, KnownAgent
from interlock.cli.target import DEV_IDENTITY, DEV_OPERATOR, target

TIMEOUT_SECONDS = 2.0
LONGEST_HELP = 60

_Model = TypeVar("_Model", bound=Wire)


def checkpoint_references(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Of the first page of the inbox, each with what is asked."""
    page = _read(context, CheckpointPage, "checkpoints", DEV_IDENTITY)
    found = page.checkpoints if page is not None else []
    short = references([one.checkpoint_id for one in found])
    given = context.params.get("references") or []
    return [
        (short[one.checkpoint_id], one_line(one.prompt)[:LONGEST_HELP])
        for one in found
        if one.checkpoint_id.startswith(incomplete) and short[one.checkpoint_id] not in given
    ]


def agents(context: typer.Context, incomplete: str) -> list[str]:
    return [known.agent for known in _fleet(context) if known.agent.startswith(incomplete)]


def registered(context: typer.Context, incomplete: str) -> list[str]:
    """Agents elsewhere only."""
    found = _read(context, Known, "agents", DEV_OPERATOR)
    return [known.agent for known in (found.agents if found else []) if known.agent.startswith(incomplete)]


def skills(context: typer.Context, incomplete: str) -> list[str]:
    found = {skill.skill for known in _fleet(context) for skill in known.skills}
    return sorted(skill for skill in found if skill.startswith(incomplete))


def _fleet(context: typer.Context) -> list[KnownAgent]:
    found = _read(context, Known, "fleet", DEV_OPERATOR)
    return found.agents if found is not None else []


def _read(context: typer.Context, model: type[_Model], path: str, default: str) -> _Model | None:
    """As whom and where the options say that are there already."""
    said = {name: context.params.get(name) for name in ("url", "token", "identity", "profile")}
    try:
        with calling(target(**said, default=default, quietly=True), timeout=TIMEOUT_SECONDS) as door:
            return door.get(model, path)
    except (Failure, httpx.HTTPError):
        return None
