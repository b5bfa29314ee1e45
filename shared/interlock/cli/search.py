"""`interlock audit search`: the sealed trail of the own tenant, at the people's door."""

from typing import Annotated

import typer
from pydantic import JsonValue

from interlock.a2a.models import JsonObject, Wire
from interlock.cli.door import TRIES, Door, calling
from interlock.cli.output import AsJson, failures, print_json, print_table
from interlock.cli.target import DEV_OPERATOR, OperatorIdentity, Profile, Token, Url, target
from interlock.cli.when import WHEN, time_of

MAX_PAGES = 1000


class Records(Wire):
    """Of `looked` that were compared; a page may have none, and go on."""

    records: list[JsonObject]
    cursor: str | None = None
    looked: int


def search(
    task: Annotated[str | None, typer.Option("--task", help="Of this task.")] = None,
    who: Annotated[
        str | None, typer.Option("--who", metavar="IDENTITY", help="Who acted, as bearer:alice.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="As docs/audit.md lists them.")] = None,
    method: Annotated[str | None, typer.Option("--method", help="The operation, as SendMessage.")] = None,
    after: Annotated[
        str | None, typer.Option("--after", metavar="WHEN", help=WHEN.replace("from now", "ago"))
    ] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="WHEN", help="The same.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="The newest so many.")] = 50,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Search what is sealed of your tenant, the newest first. For operators; proof is `audit verify`."""
    with failures(as_json):
        said = {
            "task": task,
            "who": who,
            "kind": kind,
            "method": method,
            "after": after and time_of(after, ago=True),
            "before": before and time_of(before, ago=True),
        }
        with calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
            found = _found(door, {name: value for name, value in said.items() if value}, limit)
        if as_json:
            records: list[JsonValue] = [*found]
            print_json({"records": records})
        elif not found:
            typer.echo("Nothing was found.")
        else:
            print_table(("TIME", "KIND", "WHO", "WHAT", "TASK"), [_row(record) for record in found])


def _found(door: Door, query: dict[str, str], limit: int) -> list[JsonObject]:
    found: list[JsonObject] = []
    for _ in range(MAX_PAGES):
        page = door.get(Records, "audit", query, tries=TRIES)
        found += page.records
        if page.cursor is None or len(found) >= limit:
            break
        query = {**query, "cursor": page.cursor}
    return found[:limit]


def _row(record: JsonObject) -> tuple[str, ...]:
    actor, outcome, detail = (_object(record, name) for name in ("actor", "outcome", "detail"))
    names = [actor.get("scheme"), actor.get("subject")]
    became = outcome.get("error") or outcome.get("status")
    what = [record.get("method"), became, detail.get("action"), detail.get("decision"), record.get("state")]
    return (
        str(record.get("time", "")),
        str(record.get("kind", "")),
        ":".join(str(name) for name in names if name),
        " ".join(str(each) for each in what if each),
        str(record.get("taskId", "")),
    )


def _object(record: JsonObject, name: str) -> JsonObject:
    value = record.get(name)
    return value if isinstance(value, dict) else {}
