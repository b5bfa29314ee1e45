"""What the tests deploy: the demo agents, a council of five that spends when three of them agree, and toil.

`spend <amount>`, or `spend <amount> within <seconds>`; `toil <seconds>`.
"""

import asyncio
import re
from datetime import timedelta

from interlock.agents import Agent, Gate, Turn
from interlock.agents.demo import agent as demo

MEMBERS = ("alice", "bob", "carol", "dave", "erin")
QUORUM = 3

STEP_SECONDS = 0.05

agent = Agent("council", "The demo agents, and a council that spends when three of five agree.")

_TOIL = re.compile(r"toil (\d{1,3})")
_SPEND = re.compile(r"spend (\d{1,9})(?: within (\d{1,3}))?")


@agent.skill(
    "spend",
    "Spends, when three of five have approved it",
    matches=lambda message: _SPEND.fullmatch(message.text) is not None,
    gate=Gate(frozenset(f"bearer:{member}" for member in MEMBERS), quorum=QUORUM),
)
async def spend(turn: Turn) -> None:
    approval = turn.approval
    if approval is None:
        asked = _SPEND.fullmatch(turn.text)
        amount, seconds = asked.groups() if asked is not None else ("0", None)
        deadline = timedelta(seconds=int(seconds)) if seconds is not None else None
        action = {"tool": "spend", "amount": amount}
        await turn.request_approval(action, f"Spend {amount}", deadline=deadline)
    elif approval.approved:
        approval.consume(approval.action)
        await turn.artifact({**approval.action, "approvedBy": list(approval.approvers)}, name="receipt")
        await turn.complete("Spent.")
    else:
        await turn.reject("Not spent.")


@agent.skill(
    "toil", "Works for so many seconds", matches=lambda message: _TOIL.fullmatch(message.text) is not None
)
async def toil(turn: Turn) -> None:
    asked = _TOIL.fullmatch(turn.text)
    seconds = int(asked[1]) if asked is not None else 0
    await turn.artifact("at work", name="begun")
    for _ in range(int(seconds / STEP_SECONDS)):
        await asyncio.sleep(STEP_SECONDS)
    await turn.complete("Done")


agent.include(demo)
