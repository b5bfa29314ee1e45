"""The demo agents, and one that asks whatever it is told to, or starts after two minutes.

`ask {"prompt": ..., "schema"?: ..., "seconds"?: ...}`; `linger`
"""

import json
from datetime import timedelta

from interlock.agents import Agent, Mode, Turn
from interlock.agents.demo import agent as demo

ASK = "ask "

agent = Agent("asking", "Asks what it is told to, beside the demo agents.")


@agent.skill("ask", "Asks what the message says", matches=lambda message: message.text.startswith(ASK))
async def ask(turn: Turn) -> None:
    if turn.answer is not None:
        await turn.artifact(dict(turn.answer.payload), name="answer")
        await turn.complete("Thank you.")
        return
    said = json.loads(turn.text.removeprefix(ASK))
    deadline = timedelta(seconds=said["seconds"]) if "seconds" in said else None
    await turn.ask(said["prompt"], said.get("schema"), deadline=deadline)


@agent.skill(
    "linger",
    "Starts after two minutes, unless somebody is against it",
    matches=lambda message: message.text == "linger",
    mode=Mode.VETO,
    veto=timedelta(minutes=2),
)
async def linger(turn: Turn) -> None:
    await turn.complete("Nobody was against it.")


agent.include(demo)
