"""What waits for a person, and what the person says: `interlock inbox`, `answer`, `approve` and `deny`."""

import json
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated
from urllib.parse import quote

import typer
from pydantic import JsonValue

from interlock.a2a.models import JsonObject, Wire
from interlock.cli.door import Door, calling
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, print_json, print_table
from interlock.cli.payload import fields, payload_of
from interlock.cli.target import Identity, Profile, Token, Url, target
from interlock.oversight.approvals import APPROVE, DENY
from interlock.oversight.canonical_json import NotCanonical, digest

SHORTEST_REFERENCE = 4
MAX_PAGES = 100
LOST = "The answer may be recorded or not. Give it again: it is recorded once."


class Approval(Wire):
    """What an approval request asks, of whom, and who has approved so far."""

    action: JsonObject
    summary: str
    digest: str
    requesters: list[str]
    approved_by: list[str]
    required: int

    @property
    def progress(self) -> str:
        return f"{len(self.approved_by)} of {self.required}"


WINDOW = "window"
"""The kind of what asks nothing, and starts at its deadline."""


class Checkpoint(Wire):
    """As the people's door shows it."""

    task_id: str
    checkpoint_id: str
    agent: str
    skill: str
    requested_by: str
    prompt: str
    response_schema: JsonObject
    allowed_responders: list[str]
    needed: int
    votes: int
    asked_at: str
    deadline: str | None = None
    status: str = "open"
    approval: Approval | None = None
    kind: str = "prompt"
    dispatch: bool = False


class CheckpointPage(Wire):
    checkpoints: list[Checkpoint]
    cursor: str | None = None
    now: str


class Admitted(Wire):
    status: str


def inbox(
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
        found = people.open_checkpoints()
        short = references([checkpoint.checkpoint_id for checkpoint in found])
        if as_json:
            listed: list[JsonValue] = [
                {"reference": short[checkpoint.checkpoint_id], **checkpoint.wire()} for checkpoint in found
            ]
            print_json({"checkpoints": listed})
        elif not found:
            typer.echo("Nothing waits for an answer.")
        else:
            print_table(
                ("REF", "PROMPT", "ANSWER", "ASKED BY", "AGENT", "UNTIL"),
                [_row(short[checkpoint.checkpoint_id], checkpoint) for checkpoint in found],
            )


Reference = Annotated[
    str, typer.Argument(metavar="REF", help="As `interlock inbox` shows it, or TASK/CHECKPOINT.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask on a terminal, once it is shown.")]


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
            status = people.answer(checkpoint, content)
        if as_json:
            print_json(
                {"taskId": checkpoint.task_id, "checkpointId": checkpoint.checkpoint_id, "status": status}
            )
        elif status == "counted":
            typer.echo(f"Counted: the prompt needs {checkpoint.needed} equal answers.")
        else:
            typer.echo("Accepted.")


def approve(
    reference: Reference,
    comment: Annotated[str | None, typer.Option("--comment", help="For the agent.")] = None,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Approve exactly the action that this shows. The same again is recorded once."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        people = People(door)
        _decide(people, reference, APPROVE, comment, sure=yes, as_json=as_json)


def deny(
    reference: Reference,
    comment: Annotated[str, typer.Option("--comment", help="Why, for the agent.")],
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Deny the action that this shows. One denial settles it, whoever approved before."""
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        people = People(door)
        _decide(people, reference, DENY, comment, sure=yes, as_json=as_json)


def _decide(
    people: "People", reference: str, decision: str, comment: str | None, *, sure: bool, as_json: bool
) -> None:
    """What is sent is the digest of what was shown, and not what the server says it is."""
    checkpoint = people.find(reference)
    approval = checkpoint.approval
    if approval is None:
        raise Failure("This asks for an answer, not for an approval: use `interlock answer`.", Exit.USAGE)
    if not _is_of(approval.digest, approval.action):
        raise Failure("The digest is not that of the action: nothing was sent.")
    if not as_json:
        for line in _shown(approval):
            typer.echo(one_line(line))
        if not sure and sys.stdin.isatty():
            typer.confirm(f"{decision.capitalize()} it?", abort=True)
    status = people.decide(checkpoint, decision, approval.digest, comment)
    if as_json:
        print_json(
            {
                "taskId": checkpoint.task_id,
                "checkpointId": checkpoint.checkpoint_id,
                "digest": approval.digest,
                "decision": decision,
                "status": status,
            }
        )
    elif status == "counted":
        typer.echo(f"Counted: it takes {approval.required} approvals.")
    else:
        typer.echo("Denied." if decision == DENY else "Approved.")


def _is_of(expected: str, action: JsonObject) -> bool:
    try:
        return digest(action) == expected
    except NotCanonical:
        return False


def _shown(approval: Approval) -> list[str]:
    approved = ", ".join(approval.approved_by) or "nobody yet"
    return [
        approval.summary,
        f"  action    {json.dumps(approval.action, ensure_ascii=False)}",
        f"  digest    {approval.digest}",
        f"  asked by  {', '.join(approval.requesters)}",
        f"  approved  {approved} ({approval.progress})",
    ]


def references(ids: Sequence[str]) -> dict[str, str]:
    """For each id its shortest prefix that is no other's, at least four characters long."""
    ordered = sorted(set(ids))
    shortest = {}
    for position, one in enumerate(ordered):
        neighbours = ordered[max(position - 1, 0) : position] + ordered[position + 1 : position + 2]
        common = max((_common_length(one, other) for other in neighbours), default=0)
        shortest[one] = one[: max(common + 1, SHORTEST_REFERENCE)]
    return shortest


def _common_length(one: str, other: str) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


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
    )


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


class People:
    """What waits for a person, at the people's door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def open_checkpoints(self) -> list[Checkpoint]:
        found: list[Checkpoint] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            query = {} if cursor is None else {"cursor": cursor}
            page = self._door.get(CheckpointPage, "checkpoints", query)
            found += page.checkpoints
            cursor = page.cursor
            if cursor is None:
                break
        return found

    def find(self, reference: str) -> Checkpoint:
        """By `TASK/CHECKPOINT`, or by a prefix of the id of exactly one open checkpoint."""
        task_id, slash, checkpoint_id = reference.partition("/")
        if slash:
            return self._door.get(Checkpoint, _path(task_id, checkpoint_id))
        matching = [c for c in self.open_checkpoints() if c.checkpoint_id.startswith(reference)]
        if not matching:
            raise Failure(f"No open checkpoint begins with {reference}.")
        if len(matching) > 1:
            candidates = [f"  {c.checkpoint_id}  {c.prompt}" for c in matching]
            raise Failure(f"Several open checkpoints begin with {reference}:", details=candidates)
        return matching[0]

    def answer(self, checkpoint: Checkpoint, payload: JsonObject) -> str:
        """`accepted` or `counted`.

        The key is made of what is answered and how, so that the same answer, sent again because its reply
        was lost, is told what became of the first, also from another process.
        """
        members = json.dumps(payload, sort_keys=True)
        key = uuid.uuid5(uuid.NAMESPACE_URL, f"{checkpoint.task_id}/{checkpoint.checkpoint_id}/{members}")
        headers = {"Idempotency-Key": str(key)}
        return self._tell(checkpoint, "answer", f'{{"payload": {members}}}', headers)

    def decide(self, checkpoint: Checkpoint, decision: str, digest: str, comment: str | None) -> str:
        """`accepted` or `counted`. The same decision of the same person, sent again, is told the same."""
        said = {"decision": decision, "digest": digest}
        if comment is not None:
            said["comment"] = comment
        return self._tell(checkpoint, "decide", json.dumps(said), {})

    def _tell(self, checkpoint: Checkpoint, what: str, content: str, headers: Mapping[str, str]) -> str:
        path = f"{_path(checkpoint.task_id, checkpoint.checkpoint_id)}/{what}"
        return self._door.post(Admitted, path, content, headers, lost=LOST).status


def _path(task_id: str, checkpoint_id: str) -> str:
    return f"tasks/{quote(task_id, safe='')}/checkpoints/{quote(checkpoint_id, safe='')}"
