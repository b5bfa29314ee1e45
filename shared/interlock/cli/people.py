"""What waits for a person, and the answer: `interlock inbox`, `answer` and `history`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.live import Live

from interlock.a2a.models import JsonObject, Wire
from interlock.cli.checkpoints import WINDOW, Checkpoint, People, references
from interlock.cli.completion import checkpoint_references
from interlock.cli.door import TRIES, Door, calling
from interlock.cli.output import (
    AsJson,
    Exit,
    Failure,
    failures,
    plain,
    print_json,
    print_table,
    table,
)
from interlock.cli.payload import fields, payload_of
from interlock.cli.target import Identity, Profile, Token, Url, target

COLUMNS = ("REF", "PROMPT", "ANSWER", "ASKED BY", "AGENT", "UNTIL", "NOTE")
WATCH_SECONDS = 25
"""How long one question about changes waits: API Gateway ends a request after 29."""
NOTHING = "Nothing waits for an answer."
WATCHED = {"checkpoints", "halts"}
NOT_YOURS = {
    "requester": "you asked for it",
    "not-named": "not for you",
    "not-approver": "not for you",
}

Reference = Annotated[
    str,
    typer.Argument(
        metavar="REF",
        help="As `interlock inbox` shows it, or TASK/CHECKPOINT.",
        autocompletion=checkpoint_references,
    ),
]


class Changes(Wire):
    """`since` goes with the next question."""

    since: str
    changed: list[str]


def inbox(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it live, on a terminal, until it is interrupted.")
    ] = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """What waits for a person, the most urgent first.

    Answer by reference with `interlock answer`, or decide with `interlock approve` and `interlock deny`.
    """
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        people = People(door)
        if watch:
            _watch(door, people, as_json=as_json)
            return
        found = people.open_checkpoints()
        short = references([checkpoint.checkpoint_id for checkpoint in found])
        if as_json:
            listed: list[JsonValue] = [
                {"reference": short[checkpoint.checkpoint_id], **checkpoint.wire()} for checkpoint in found
            ]
            print_json({"checkpoints": listed})
        elif not found:
            typer.echo(NOTHING)
        else:
            print_table(COLUMNS, _rows(found))


def history(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="The newest so many.")] = 20,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """What was asked and is over: how it ended, and whose act that was. The newest first."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        found = People(door).closed_checkpoints(limit)
        if as_json:
            print_json({"checkpoints": [checkpoint.wire() for checkpoint in found]})
        elif not found:
            typer.echo("Nothing is over yet.")
        else:
            print_table(
                ("CLOSED", "OUTCOME", "BY", "PROMPT", "COMMENT", "AGENT", "TASK"),
                [
                    (
                        checkpoint.closed_at or "",
                        checkpoint.outcome or checkpoint.status,
                        checkpoint.decided_by or "",
                        checkpoint.prompt,
                        checkpoint.comment or "",
                        f"{checkpoint.agent}/{checkpoint.skill}",
                        checkpoint.task_id,
                    )
                    for checkpoint in found
                ],
            )


def answer(
    reference: Reference,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A member of the answer. May be repeated."),
    ] = None,
    payload: Annotated[
        str | None, typer.Option("--payload", metavar="JSON", help="The whole answer instead.")
    ] = None,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Answer what `interlock inbox` shows. The same answer again is recorded once."""
    with failures(as_json):
        if (payload is None) == (not settings):
            raise Failure("Say the answer with --set NAME=VALUE, or with --payload JSON.", Exit.USAGE)
        with calling(target(url, token, identity, profile)) as door:
            people = People(door)
            checkpoint = people.find(reference)
            if checkpoint.approval is not None:
                said = "This asks for an approval: decide with `interlock approve` or `interlock deny`."
                raise Failure(said, Exit.USAGE)
            if checkpoint.kind == WINDOW:
                said = f"This asks nothing. To be against it: interlock cancel {checkpoint.task_id}"
                raise Failure(said, Exit.USAGE)
            content = _content(settings or [], payload, checkpoint)
            checkpoint.check_digest()
            status = people.answer(checkpoint, content)
        if as_json:
            print_json({**checkpoint.names, "status": status})
        elif status == "counted":
            typer.echo(f"Counted: the prompt needs {checkpoint.needed} equal answers.")
        else:
            typer.echo("Accepted.")


def _rows(found: Sequence[Checkpoint]) -> list[tuple[str, ...]]:
    short = references([checkpoint.checkpoint_id for checkpoint in found])
    return [_row(short[checkpoint.checkpoint_id], checkpoint) for checkpoint in found]


def _row(reference: str, checkpoint: Checkpoint) -> tuple[str, ...]:
    if checkpoint.approval is not None:
        expected = f"approve or deny ({checkpoint.approval.progress})"
    elif checkpoint.kind == WINDOW:
        expected = f"starts unless: interlock cancel {checkpoint.task_id}"
    else:
        votes = f" ({checkpoint.votes} of {checkpoint.needed})" if checkpoint.needed > 1 else ""
        expected = ", ".join(fields(checkpoint.response_schema)) + votes
    return (
        reference,
        checkpoint.prompt,
        expected,
        checkpoint.requested_by,
        f"{checkpoint.agent}/{checkpoint.skill}",
        checkpoint.deadline or "",
        _note(checkpoint),
    )


def _note(checkpoint: Checkpoint) -> str:
    looked_at = f"{checkpoint.claim.who} looks at it" if checkpoint.claim is not None else ""
    return ", ".join(filter(None, [looked_at, NOT_YOURS.get(checkpoint.why_not or "", "")]))


def _watch(door: Door, people: People, *, as_json: bool) -> None:
    console = Console()
    if as_json or not console.is_terminal:
        raise Failure("--watch is for a terminal, and not for --json.", Exit.USAGE)
    with suppress(KeyboardInterrupt), Live(console=console) as live:
        for _ in _changes(door):
            found = people.open_checkpoints()
            live.update(table(COLUMNS, _rows(found)) if found else plain(NOTHING))


def _changes(door: Door) -> Iterator[None]:
    """At once, and each time that something may have changed."""
    since = door.get(Changes, "changes", tries=TRIES).since
    yield
    while True:
        told = door.get(Changes, "changes", {"since": since, "wait": WATCH_SECONDS}, tries=TRIES)
        since = told.since
        if not WATCHED.isdisjoint(told.changed):
            yield


def _content(settings: Sequence[str], payload: str | None, checkpoint: Checkpoint) -> JsonObject:
    try:
        if payload is None:
            return payload_of(settings, checkpoint.response_schema)
        content = json.loads(payload, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        message = str(error) if payload is None else "--payload is not JSON"
        expected = fields(checkpoint.response_schema)
        raise Failure(f"{message}.", Exit.USAGE, details=[f"  {line}" for line in expected]) from error
    if not isinstance(content, dict):
        raise Failure("--payload is not a JSON object.", Exit.USAGE)
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
