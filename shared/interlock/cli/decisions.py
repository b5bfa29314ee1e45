"""Decisions on what agents ask leave for: `interlock approve`, `deny` and `changes`."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import JsonValue

from interlock.a2a.models import JsonObject
from interlock.cli.checkpoints import Approval, Checkpoint, People, Result
from interlock.cli.completion import checkpoint_references
from interlock.cli.door import calling, refusal
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, print_json
from interlock.cli.payload import object_of
from interlock.cli.people import Reference
from interlock.cli.target import Identity, Profile, Token, Url, target
from interlock.oversight.approvals import APPROVE, CHANGES, DENY

MOST = 50
"""Decisions that the door takes at once."""
MAX_VIEWED_MS = 86_400_000
SAID = {APPROVE: "Approved.", DENY: "Denied.", CHANGES: "Sent back."}

References = Annotated[
    list[str],
    typer.Argument(
        metavar="REF...",
        help="As `interlock inbox` shows them, or TASK/CHECKPOINT.",
        autocompletion=checkpoint_references,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask on a terminal, once it is shown.")]


def approve(
    references: References,
    comment: Annotated[str | None, typer.Option("--comment", help="For the agent.")] = None,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Approve exactly the action that this shows. The same again is recorded once.

    Several are shown one after the other, then decided each by itself: exit code 1 if one was refused.
    """
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        _decide(People(door), references, APPROVE, comment, {}, sure=yes, as_json=as_json)


def deny(
    references: References,
    comment: Annotated[str, typer.Option("--comment", help="Why, for the agent.")],
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Deny the action that this shows. One denial settles it, whoever approved before.

    Several are shown one after the other, then decided each by itself: exit code 1 if one was refused.
    """
    with failures(as_json), calling(target(url, token, identity, profile)) as door:
        _decide(People(door), references, DENY, comment, {}, sure=yes, as_json=as_json)


def changes(
    reference: Reference,
    edit: Annotated[
        str | None, typer.Option("--edit", metavar="JSON", help="The action as it should be instead.")
    ] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="What to change, for the agent.")] = None,
    yes: Yes = False,
    url: Url = None,
    token: Token = None,
    identity: Identity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Send the action that this shows back, with an edited one or a comment.

    Nothing is done: the agent asks anew if it agrees, and whoever edited may not approve that.
    """
    with failures(as_json):
        if edit is None and not comment:
            raise Failure("Say what to change with --edit, with --comment, or with both.", Exit.USAGE)
        said: JsonObject = {} if edit is None else {"edited": object_of(edit, "--edit")}
        with calling(target(url, token, identity, profile)) as door:
            _decide(People(door), [reference], CHANGES, comment, said, sure=yes, as_json=as_json)


def _decide(
    people: People,
    references: Sequence[str],
    decision: str,
    comment: str | None,
    more: JsonObject,
    *,
    sure: bool,
    as_json: bool,
) -> None:
    """What is sent is the digest of what was shown, and not what the server says it is."""
    found = people.find_all(references)
    if len(found) > MOST:
        raise Failure(f"{MOST} at once, no more.", Exit.USAGE)
    asked = [_asked(checkpoint) for checkpoint in found]
    said = {"decision": decision, **({} if comment is None else {"comment": comment}), **more}
    if not as_json:
        for approval in asked:
            for line in _shown(approval):
                typer.echo(one_line(line))
        if "edited" in more:
            typer.echo(one_line(f"  instead   {json.dumps(more['edited'], ensure_ascii=False)}"))
        if not sure and sys.stdin.isatty():
            said |= {"viewedMs": _confirmed(decision, len(asked))}
    bodies: list[JsonObject] = [{"digest": approval.digest, **said} for approval in asked]
    if len(found) == 1:
        status = people.decide(found[0], bodies[0])
        shown = {"digest": asked[0].digest, "decision": decision, "status": status}
        if as_json:
            print_json({**found[0].names, **shown})
        else:
            typer.echo(_outcome(asked[0], decision, status))
        return
    named = zip(found, bodies, strict=True)
    results = people.decide_all([{**checkpoint.names, **body} for checkpoint, body in named])
    _tell(list(zip(found, asked, results, strict=True)), decision, as_json=as_json)


def _asked(checkpoint: Checkpoint) -> Approval:
    if checkpoint.approval is None:
        raise Failure("This asks for an answer, not for an approval: use `interlock answer`.", Exit.USAGE)
    checkpoint.check_digest()
    return checkpoint.approval


def _confirmed(decision: str, number: int) -> int:
    """Milliseconds from when it was shown until it was confirmed."""
    shown = time.monotonic()
    what = "it" if number == 1 else f"all {number}"
    asked = f"Send {what} back?" if decision == CHANGES else f"{decision.capitalize()} {what}?"
    typer.confirm(asked, abort=True)
    return min(round((time.monotonic() - shown) * 1000), MAX_VIEWED_MS)


def _tell(decided: Sequence[tuple[Checkpoint, Approval, Result]], decision: str, *, as_json: bool) -> None:
    if as_json:
        results: list[JsonValue] = [
            {
                **checkpoint.names,
                "digest": approval.digest,
                "decision": decision,
                **({"status": result.status} if result.error is None else {"error": result.error}),
            }
            for checkpoint, approval, result in decided
        ]
        print_json({"results": results})
    else:
        for _, approval, result in decided:
            said = _refused(result.error) if result.error else _outcome(approval, decision, result.status)
            typer.echo(one_line(f"{approval.summary}: {said}"), err=result.error is not None)
    if any(result.error is not None for _, _, result in decided):
        raise typer.Exit(Exit.FAILED)


def _refused(error: JsonObject) -> str:
    try:
        found = refusal(error)
    except (KeyError, TypeError):
        return "refused"
    return ", ".join([found.message, *found.details])


def _outcome(approval: Approval, decision: str, status: str | None) -> str:
    return f"Counted: it takes {approval.required} approvals." if status == "counted" else SAID[decision]


def _shown(approval: Approval) -> list[str]:
    approved = ", ".join(approval.approved_by) or "nobody yet"
    return [
        approval.summary,
        f"  action    {json.dumps(approval.action, ensure_ascii=False)}",
        f"  digest    {approval.digest}",
        f"  asked by  {', '.join(approval.requesters)}",
        f"  approved  {approved} ({approval.progress})",
    ]
