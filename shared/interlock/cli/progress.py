"""How far a command has come, on a terminal only: elsewhere nothing but what it says is printed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from interlock.cli.output import one_line, plain

EACH = 100
"""Of what is counted, so many make a step that is shown."""

_T = TypeVar("_T")


class Bar:
    def __init__(self, progress: Progress | None, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def step(self, what: str | None = None, by: int = 1) -> None:
        """`what` is done next."""
        if self._progress is not None:
            self._progress.update(self._task, advance=by, description=what)

    def say(self, line: str) -> None:
        """A line of the output, which stays when the bar is gone."""
        if self._progress is None:
            typer.echo(one_line(line))
        else:
            self._progress.console.print(plain(one_line(line)), soft_wrap=True, highlight=False)

    def counted(self, things: Iterable[_T]) -> Iterator[_T]:
        for number, thing in enumerate(things, 1):
            yield thing
            if number % EACH == 0:
                self.step(by=EACH)


@contextmanager
def progress(what: str, total: int | None, *, shown: bool = True) -> Iterator[Bar]:
    """`total` is None where it is not known."""
    console = Console()
    if not (shown and console.is_terminal):
        yield Bar(None, TaskID(0))
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as live:
        yield Bar(live, live.add_task(what, total=total))
