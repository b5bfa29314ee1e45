"""What a drill halts: a skill that works in small steps, and does nothing else, until it is stopped."""

import asyncio

from interlock.agents.agent import Agent
from interlock.agents.turn import Turn
from interlock.engine.canary import CANARY

STEP_SECONDS = 0.05
MAX_SECONDS = 120.0

agent = Agent(CANARY.agent, "What Interlock runs for itself.")


@agent.skill(
    CANARY.id,
    "Works until a drill stops it",
    matches=lambda message: False,  # noqa: ARG005
    listed=False,
)
async def canary(turn: Turn) -> None:
    time = asyncio.get_running_loop().time
    until = time() + MAX_SECONDS
    while not turn.stopped and time() < until:
        await asyncio.sleep(STEP_SECONDS)
    await turn.complete("No drill stopped it in time.")
