"""What a command prints, and how it ends.

People read tables and lines. With `--json` a command prints exactly one JSON document, also when it fails.
Text of others goes through `plain` or `one_line`: whatever it holds, a terminal shows it and does not obey.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, NoReturn

import typer
from pydantic import JsonValue
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlock.oversight.hitl_prompt import visible

WIDE = 160
"""Columns where the output is not a terminal."""


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """Refused, or failed."""
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130
    """By Ctrl-C."""


EXIT_CODES = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 can not be reached, 130 interrupted."


def ending(*examples: str) -> str:
    """What the help of a command ends with: a paragraph each."""
    return "\n\n".join([*(f"$ {example}" for example in examples), EXIT_CODES])


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


class Failure(Exception):
    """`details` are shown one a line; `error` is the error as the server put it, for `--json`."""

    def __init__(
        self,
        message: str,
        code: Exit = Exit.FAILED,
        *,
        details: Sequence[str] = (),
        error: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.message = message
        self.code = code
        self.details = tuple(details)
        self.error = dict(error or {})
        super().__init__(message)


@contextmanager
def failures(as_json: bool) -> Iterator[None]:
    """Ends the command with the code of a `Failure` and says why."""
    try:
        yield
    except Failure as failure:
        _report(failure, as_json)


def _report(failure: Failure, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": {"message": failure.message, **failure.error}})
    else:
        for line in (failure.message, *failure.details):
            typer.echo(one_line(line), err=True)
    raise typer.Exit(failure.code)


def print_json(document: JsonValue) -> None:
    """ASCII, so that what is invisible or moves text about stays escaped."""
    typer.echo(json.dumps(document, indent=2))


def one_line(text: str) -> str:
    """As `visible`, and without line breaks: nobody's text can pass for a line of ours."""
    return visible(text).replace("\n", "\\n").replace("\t", " ")


def plain(text: str) -> Text:
    """Neither markup nor control characters: what was written is what is seen."""
    return Text(visible(text))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column is for copying: it is never cut or folded."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDE)
    console.print(table(columns, rows))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        made.add_column(column, no_wrap=number == 0, overflow="fold")
    for row in rows:
        made.add_row(*map(plain, row))
    return made
