"""A worker that works for as long as it is told to: one skill heeds its signal to stop, one does not."""

import asyncio
import re
from contextlib import suppress

from interlock.agents import Agent, Turn
from interlock.agents.demo.matching import text_begins_with

STEP_SECONDS = 0.05
SAY_EVERY_SECONDS = 1.0
MAX_SECONDS = 600

agent = Agent("worker", "Works in small steps, for as many seconds as it is told to.")

_SECONDS = re.compile(r"\d{1,3}(?:\.\d{1,3})?", re.ASCII)


@agent.skill(
    "work",
    "Works for some seconds, and stops when it is told to",
    examples=["work 30"],
    matches=text_begins_with("work "),
)
async def work(turn: Turn) -> None:
    seconds = seconds_of(turn, "work")
    if seconds is None:
        await turn.reject(f"Say `work <seconds>`, at most {MAX_SECONDS}.")
        return
    time = asyncio.get_running_loop().time
    begun, say_at = time(), SAY_EVERY_SECONDS
    while not turn.stopped and (passed := time() - begun) < seconds:
        if passed >= say_at:
            await turn.say(f"{passed:.0f} of {seconds:g} s")
            say_at = passed + SAY_EVERY_SECONDS
        await asyncio.sleep(min(STEP_SECONDS, seconds - passed))
    await turn.complete(f"Worked for {seconds:g} s.")


@agent.skill(
    "stubborn",
    "Works for some seconds, whoever tells it to stop",
    examples=["stubborn 30"],
    matches=text_begins_with("stubborn "),
)
async def stubborn(turn: Turn) -> None:
    seconds = seconds_of(turn, "stubborn")
    if seconds is None:
        await turn.reject(f"Say `stubborn <seconds>`, at most {MAX_SECONDS}.")
        return
    time = asyncio.get_running_loop().time
    until = time() + seconds
    while (left := until - time()) > 0:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(min(STEP_SECONDS, left))
    await turn.complete(f"Worked for {seconds:g} s.")


def seconds_of(turn: Turn, word: str) -> float | None:
    """How long it is to work; None if that is not said in the right way."""
    said = turn.text.removeprefix(word).strip()
    seconds = float(said) if _SECONDS.fullmatch(said) else None
    return seconds if seconds is not None and seconds <= MAX_SECONDS else None
