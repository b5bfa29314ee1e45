"""An agent whose workers are taken away while it hands work down; it notes on the outside what it does.

`hand <peer>`, or `hand <peer> <seconds of lease>`. The peer is told to `work`.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from tests.support.workshop import NOTES

from interlock.agents import Agent, Turn

AT_WORK, ENDED = "at-work", "ended"

agent = Agent("handing", "Hands work to somebody, and waits for it.")


@agent.skill("hand", "Hands work down", matches=lambda message: message.text.startswith("hand "))
async def hand(turn: Turn) -> None:
    with noted(turn):
        _, to, *lease = turn.text.split()
        granted = timedelta(seconds=float(lease[0])) if lease else None
        child = await turn.delegate(to, "work", lease=granted)
        await child.wait()


@agent.skill("work", "Works until it is stopped", matches=lambda message: message.text == "work")
async def work(turn: Turn) -> None:
    with noted(turn):
        await asyncio.Event().wait()


@contextmanager
def noted(turn: Turn) -> Iterator[None]:
    """A line `<task> at-work:<process>` when its code begins, and `<task> ended:<process>` when it ends."""
    note(turn, AT_WORK)
    try:
        yield
    finally:
        note(turn, ENDED)


def note(turn: Turn, what: str) -> None:
    with Path(os.environ[NOTES]).open("a") as notes:
        notes.write(f"{turn.task_id} {what}:{os.getpid()}\n")
