"""Hands work down a tree of tasks, and waits for all of it."""

import asyncio
import re
from collections import Counter

from interlock.agents import Agent, Turn
from interlock.agents.demo.matching import text_begins_with

agent = Agent("delegating", "Hands work down to others, and waits for it.")

PEER = "self"
"""The name under which a deployment knows its own agents' door."""
MAX_WIDTH, MAX_LEVELS = 16, 4
_DELEGATE = re.compile(r"delegate (\d{1,2}) (\d) (\d{1,4})")


@agent.skill(
    "delegate",
    "Hands `work` down a tree: so many children each, so many levels, so many seconds",
    examples=["delegate 2 2 5"],
    matches=text_begins_with("delegate "),
)
async def delegate(turn: Turn) -> None:
    asked = _DELEGATE.fullmatch(turn.text.strip())
    width, levels, seconds = map(int, asked.groups()) if asked else (0, 0, 0)
    if not (1 <= width <= MAX_WIDTH and 1 <= levels <= MAX_LEVELS):
        await turn.reject("Say `delegate <width> <depth> <seconds>`.")
        return
    below = f"work {seconds}" if levels == 1 else f"delegate {width} {levels - 1} {seconds}"
    children = await asyncio.gather(*(turn.delegate(PEER, below) for _ in range(width)))
    settled = await asyncio.gather(*(child.wait() for child in children))
    outcomes = Counter(one.outcome for one in settled)
    said = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    if set(outcomes) == {"completed"}:
        await turn.complete(f"Of what was handed down: {said}.")
    else:
        await turn.fail(f"Of what was handed down: {said}.")
