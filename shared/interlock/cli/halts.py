"""The operator's switch: `interlock halt`, `resume` and `status`."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Annotated

import httpx
import typer
from pydantic import JsonValue
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from interlock.cli import completion
from interlock.cli.break_glass import break_glass
from interlock.cli.door import calling
from interlock.cli.output import AsJson, Exit, Failure, failures, one_line, plain, print_json, print_table
from interlock.cli.switch import Counts, DoorSwitch, Report, Switch, follow, stopped_tasks
from interlock.cli.target import DEV_OPERATOR, OperatorIdentity, Profile, Token, Url, stack_of, target

WATCH_SECONDS = 1.0
BAR_COLUMNS = 24
COLUMNS = ("SCOPE", "STOPPED", "SINCE", "BY", "REASON")

Everything = Annotated[bool, typer.Option("--all", help="Everything: the right of a platform operator.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="All of one tenant.")]
OfAgent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="[TENANT/]AGENT",
        help="One agent, of the own tenant or named.",
        autocompletion=completion.agents,
    ),
]
OfSkill = Annotated[
    str | None,
    typer.Option(
        "--skill",
        metavar="[TENANT/]SKILL",
        help="One skill, of whichever agent has it.",
        autocompletion=completion.skills,
    ),
]
BrokenGlass = Annotated[
    bool,
    typer.Option(
        "--break-glass", help="With your own AWS credentials, where the API or the identity provider is down."
    ),
]
TableName = Annotated[
    str | None, typer.Option("--table", envvar="INTERLOCK_TABLE", help="For --break-glass: the core table.")
]
StackName = Annotated[
    str | None,
    typer.Option(
        "--stack", help="Or the CloudFormation stack whose output CoreTable names it. Default: the profile's."
    ),
]


def halt(
    reason: Annotated[str, typer.Option("--reason", help="Why: callers are told it. One line.")],
    everything: Everything = False,
    tenant: OfTenant = None,
    agent: OfAgent = None,
    skill: OfSkill = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait until what runs is told to stop.")
    ] = False,
    broken_glass: BrokenGlass = False,
    table: TableName = None,
    stack: StackName = None,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Halt: once this has said so, nothing that the scope covers starts, and what runs is told to stop.

    Waits until all of that was told, and a little for what has not been heard of yet. Again, it replaces the
    reason. Exit code 1 also where the halt holds, but not all that runs was told to stop in time.
    """
    with failures(as_json):
        scope = scope_of(everything=everything, tenant=tenant, agent=agent, skill=skill)
        with _switch(broken_glass, table, stack, url, token, identity, profile) as switch:
            report = switch.declare(scope, reason)
            if not as_json:
                typer.echo(one_line(f"Halted {report.scope}: {report.reason}"))
            warning = _unknown(switch, agent, skill)
            if warning is not None and not as_json:
                typer.echo(one_line(warning), err=True)
            if not no_wait:
                with _holding(report), _bar(shown=not as_json) as show:
                    report = follow(switch, report, show)
            with _holding(report):
                stopped: list[JsonValue] = [*stopped_tasks(switch, report)] if as_json else []
        complete = no_wait or report.walked_at is not None
        if as_json:
            warned: dict[str, JsonValue] = {} if warning is None else {"warning": warning}
            print_json({**_document(report), "persisted": True, "stopped": stopped, **warned})
        else:
            for line in _said(report, complete=complete):
                typer.echo(one_line(line))
        if not complete:
            raise typer.Exit(Exit.FAILED)


def resume(
    everything: Everything = False,
    tenant: OfTenant = None,
    agent: OfAgent = None,
    skill: OfSkill = None,
    generation: Annotated[
        int | None,
        typer.Option("--generation", min=1, help="Which halt of the scope. Default: the one that holds now."),
    ] = None,
    broken_glass: BrokenGlass = False,
    table: TableName = None,
    stack: StackName = None,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """Lift the halt of exactly this scope. One that is declared meanwhile stays: exit code 1."""
    with failures(as_json):
        scope = scope_of(everything=everything, tenant=tenant, agent=agent, skill=skill)
        with _switch(broken_glass, table, stack, url, token, identity, profile) as switch:
            seen = switch.report(scope) if generation is None else None
            if seen is not None:
                scope, generation = seen.scope, seen.generation
            status = switch.lift(scope, generation)
        if status == "halted-anew":
            raise Failure(
                f"{scope} is halted by another halt than {generation}, and stays halted."
                " See `interlock status`, then resume again."
            )
        if as_json:
            named: dict[str, JsonValue] = {} if generation is None else {"generation": generation}
            print_json({"scope": scope, **named, "status": status})
        elif status == "lifted":
            typer.echo(one_line(f"Lifted the halt of {scope}."))
        else:
            typer.echo(one_line(f"{scope} was not halted."))


def status(
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it live, on a terminal, until it is interrupted.")
    ] = False,
    broken_glass: BrokenGlass = False,
    table: TableName = None,
    stack: StackName = None,
    url: Url = None,
    token: Token = None,
    identity: OperatorIdentity = None,
    profile: Profile = None,
    as_json: AsJson = False,
) -> None:
    """What is halted, and how much of what was running has stopped. Lately lifted halts are shown too."""
    with (
        failures(as_json),
        _switch(broken_glass, table, stack, url, token, identity, profile, walking=False) as switch,
    ):
        if watch:
            _watch(switch, as_json=as_json)
            return
        standing, lifted = _standing(switch), [found for found in switch.listed() if not found.on]
        if as_json:
            halts: list[JsonValue] = [_document(found) for found in standing]
            print_json({"halts": halts, "lifted": [found.wire() for found in lifted]})
            return
        if not standing:
            typer.echo("Nothing is halted.")
        else:
            print_table(COLUMNS, [_row(found) for found in standing])
        for found in lifted:
            typer.echo(one_line(f"Lifted at {found.resumed_at} by {found.resumed_by}: {found.scope}"))


def scope_of(*, everything: bool, tenant: str | None, agent: str | None, skill: str | None) -> str:
    named = [
        *(["all"] if everything else []),
        *(
            f"{kind}:{name}"
            for kind, name in (("tenant", tenant), ("agent", agent), ("skill", skill))
            if name
        ),
    ]
    if len(named) != 1:
        raise Failure("Name one scope: --all, --tenant, --agent or --skill.", Exit.USAGE)
    return named[0]


@contextmanager
def _switch(
    broken_glass: bool,
    table: str | None,
    stack: str | None,
    url: str | None,
    token: str | None,
    identity: str | None,
    profile: str | None,
    *,
    walking: bool = True,
) -> Iterator[Switch]:
    if broken_glass:
        with break_glass(
            table, stack or (stack_of(profile) if table is None else None), walking=walking
        ) as glass:
            yield glass
    else:
        with calling(target(url, token, identity, profile, DEV_OPERATOR)) as door:
            yield DoorSwitch(door)


def _unknown(switch: Switch, agent: str | None, skill: str | None) -> str | None:
    """What to tell an operator who may have mistyped: a halt of a name that nothing has holds all the same.

    Asked for only once it holds. Of other tenants, and where the fleet does not answer, nothing is known.
    """
    named = agent or skill
    if named is None or "/" in named or not isinstance(switch, DoorSwitch):
        return None
    with suppress(Failure, httpx.TransportError):
        known = switch.agents() if agent is not None else switch.skills()
        if named not in known:
            close = get_close_matches(named, known, 1)
            meant = f" Did you mean {close[0]}?" if close else ""
            return f"The halt holds, but the fleet knows no {'agent' if agent else 'skill'} {named}.{meant}"
    return None


@contextmanager
def _holding(report: Report) -> Iterator[None]:
    """Whatever goes wrong once it is declared, the operator is told first that it holds."""
    try:
        yield
    except (Failure, httpx.TransportError) as error:
        code = error.code if isinstance(error, Failure) else Exit.UNREACHABLE
        said = f"{report.scope} is halted, but what became of what runs is not known: {error}"
        raise Failure(said, code) from error


@contextmanager
def _bar(*, shown: bool) -> Iterator[Callable[[Report], object]]:
    console = Console()
    if not (shown and console.is_terminal):
        yield lambda _: None
        return
    with Live(console=console, transient=True) as live:
        yield lambda report: live.update(_bars([report]))


def _watch(switch: Switch, *, as_json: bool) -> None:
    console = Console()
    if as_json or not console.is_terminal:
        raise Failure("--watch is for a terminal, and not for --json.", Exit.USAGE)
    with suppress(KeyboardInterrupt), Live(console=console) as live:
        while True:
            standing = _standing(switch)
            live.update(_bars(standing) if standing else plain("Nothing is halted."))
            time.sleep(WATCH_SECONDS)


def _standing(switch: Switch) -> list[Report]:
    """The reports of the halts that stand; one that is lifted or replaced meanwhile is not among them."""
    reports = [switch.report(found.scope, found.generation) for found in switch.listed() if found.on]
    return [report for report in reports if report is not None and report.on]


def _bars(reports: Sequence[Report]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate((COLUMNS[0], "", *COLUMNS[1:])):
        table.add_column(column, no_wrap=number == 0, overflow="fold")
    for report in reports:
        counts, (scope, *rest) = report.counts or Counts(), _row(report)
        bar = ProgressBar(total=max(counts.found, 1), completed=counts.settled, width=BAR_COLUMNS)
        table.add_row(plain(scope), bar, *map(plain, rest))
    return table


def _row(report: Report) -> tuple[str, ...]:
    return report.scope, _progress(report), report.halted_at, report.by, report.reason


def _progress(report: Report) -> str:
    counts = report.counts
    if counts is None:
        return ""
    ended = f"{counts.settled} of {counts.found}"
    return ended if report.walked_at is not None else f"{ended}, still looking"


def _said(report: Report, *, complete: bool) -> list[str]:
    counts = report.counts
    lines = []
    if counts is not None and counts.found:
        told = [
            (counts.confirmed, "stopped"),
            (counts.withdrawn, "had not begun and never will"),
            (counts.abandoned, "did not answer and can record nothing more"),
            (counts.asked, "told to stop and not heard of yet"),
        ]
        parts = ", ".join(f"{number} {what}" for number, what in told if number)
        lines.append(f"Of {counts.found} that were running: {parts}.")
    elif report.walked_at is not None:
        lines.append("Nothing was running.")
    if not complete:
        lines.append("Not all that runs was told to stop yet. It goes on: see `interlock status --watch`.")
    return lines


def _document(report: Report) -> dict[str, JsonValue]:
    return {name: value for name, value in report.wire().items() if name not in {"stopped", "cursor"}}
