"""`interlock drill`: that a halt works in this deployment, and what it takes."""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, NoReturn
from urllib.parse import quote

import httpx
import typer

from interlock.a2a.models import TaskState, Wire
from interlock.cli.door import HALTED, TRIES, Door, calling, reason_of
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, print_json
from interlock.cli.progress import progress
from interlock.cli.switch import DoorSwitch, Report, Switch
from interlock.cli.target import DEV_OPERATOR, OperatorIdentity, Profile, Token, Url, target

REASON = "a drill: only the canary is halted"
RESUME = "interlock resume --skill interlock-canary"
LOST = "A canary may be running: it ends by itself."
NOT_KEPT = "The figures may be on the trail or not."
POLL_SECONDS = 0.1


class Canary(Wire):
    """As the people's door shows it."""

    task_id: str
    scope: str
    state: str


class Drill(Wire):
    task_id: str
    scope: str
    generation: int
    declared_ms: int
    refused_ms: int | None = None
    signalled_ms: int | None = None
    confirmed_ms: int | None = None


STAGES = (
    ("declared", "the halt holds"),
    ("refused", "a new task is refused"),
    ("signalled", "the running task is told to stop"),
    ("confirmed", "its code runs no more"),
)


@dataclass(slots=True)
class Seen:
    """`generation` is None until the halt is known to hold. `problem`: what did not come out as it should."""

    generation: int | None = None
    declared_ms: int = 0
    refused_ms: int | None = None
    problem: str | None = None


def drill(
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, max=600, help="Seconds that each stage may take.")
    ] = 60.0,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Start a canary, halt only it, measure, and resume. The figures go on the audit trail.

    Nothing else is halted: the canary is a skill that Interlock runs beside every agent. Exit code 1 also
    where a stage did not come, or where the canary could not be resumed, which is then said.
    """
    with failures(as_json), calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
        with progress("a canary starts", len(STAGES), shown=not as_json) as bar:
            canary, switch, seen = _started(door, timeout), DoorSwitch(door), Seen()
            bar.step("it is halted")
            with _terminable(), _resumed(switch, canary, seen):
                _halt(door, switch, canary, seen, timeout)
                bar.step("it is resumed")
            bar.step("the figures are recorded")
            recorded = _recorded(door, canary, seen)
        if as_json:
            print_json({**recorded.wire(), **({} if seen.problem is None else {"problem": seen.problem})})
        else:
            for line in _lines(recorded):
                typer.echo(one_line(line))
        if seen.problem is not None:
            if not as_json:
                typer.echo(one_line(seen.problem), err=True)
            raise typer.Exit(Exit.FAILED)


def _started(door: Door, timeout: float) -> Canary:
    """A canary whose code runs."""
    try:
        canary = door.post(Canary, "drills", lost=LOST, tries=1)
    except Failure as failure:
        if reason_of(failure) != HALTED:
            raise
        details = ["See `interlock status`. What a drill left halted ends with:", f"  {RESUME}"]
        raise Failure(failure.message, failure.code, details=details, error=failure.error) from failure
    until = time.monotonic() + timeout
    while canary.state != TaskState.WORKING.value:
        if canary.state != TaskState.SUBMITTED.value or time.monotonic() >= until:
            raise Failure(
                f"The canary did not run within {timeout:g} s ({canary.state}). Nothing was halted."
            )
        time.sleep(POLL_SECONDS)
        canary = door.get(Canary, _path(canary), tries=TRIES)
    return canary


def _halt(door: Door, switch: Switch, canary: Canary, seen: Seen, timeout: float) -> None:
    begun = time.monotonic()
    report: Report | None = switch.declare(canary.scope, REASON)
    seen.declared_ms, seen.generation = _milliseconds(begun), report.generation if report else None
    try:
        door.post(Canary, "drills", lost=LOST, tries=1)
    except Failure as failure:
        if reason_of(failure) == HALTED:
            seen.refused_ms = _milliseconds(begun)
        else:
            seen.problem = f"Whether a new canary is refused is not known: {failure.message}"
    else:
        seen.problem = "A new canary was accepted although the halt holds."
    until = time.monotonic() + timeout
    while not _ended(report):
        if time.monotonic() >= until:
            seen.problem = seen.problem or f"The canary was not known to have ended within {timeout:g} s."
            return
        time.sleep(POLL_SECONDS)
        report = switch.report(canary.scope, seen.generation)
    if report is not None and report.counts is not None and report.counts.abandoned:
        seen.problem = seen.problem or "The canary did not answer when it was told to stop."


def _ended(report: Report | None) -> bool:
    counts = report.counts if report is not None else None
    return counts is not None and counts.found > 0 and not counts.asked


def _recorded(door: Door, canary: Canary, seen: Seen) -> Drill:
    content = {"generation": seen.generation, "declaredMs": seen.declared_ms, "refusedMs": seen.refused_ms}
    return door.post(Drill, _path(canary), json.dumps(content), lost=NOT_KEPT, tries=1)


@contextmanager
def _resumed(switch: Switch, canary: Canary, seen: Seen) -> Iterator[None]:
    """However the drill ends, its halt is lifted, or it is said that it is not."""
    try:
        yield
    except BaseException:
        _resume(switch, canary, seen)
        typer.echo("The canary is no longer halted.", err=True)
        raise
    _resume(switch, canary, seen)


def _resume(switch: Switch, canary: Canary, seen: Seen) -> None:
    try:
        status = switch.lift(canary.scope, seen.generation)
    except (Failure, httpx.TransportError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted"
        raise Failure(f"The canary may still be halted ({why}). Resume it: {RESUME}") from error
    if status == "halted-anew":
        raise Failure(f"Somebody else halted the canary, which holds. To lift that: {RESUME}")


@contextmanager
def _terminable() -> Iterator[None]:
    """A request to end is heeded like Ctrl-C: what is halted is resumed first."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _milliseconds(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)


def _path(canary: Canary) -> str:
    return f"drills/{quote(canary.task_id, safe='')}"


def _lines(found: Drill) -> list[str]:
    lines = [f"{found.scope}, halt {found.generation}, since it was asked for:"]
    for (name, what), value in zip(
        STAGES, (found.declared_ms, found.refused_ms, found.signalled_ms, found.confirmed_ms), strict=True
    ):
        figure = f"{value} ms" if value is not None else "never"
        lines.append(f"  {name:<10}{figure:>9}  {what}")
    return lines
