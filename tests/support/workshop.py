"""The agent of the tests that take its workers away: it asks once, and notes on the outside what it does."""

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from interlock.agents import Agent, Turn

NOTES = "WORKSHOP_NOTES"
"""The variable that names the file of notes: a line `<task> <effect key>` for each start of the code."""
HALT = "WORKSHOP_HALT"
"""The variable that says where a worker's process stops itself, to be killed there or to go on much later:
`received`, `<n>` for right after its n-th write, or `agent` for within the agent's code."""
DEADLINE_SECONDS = 600
QUESTION = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 64}},
    "required": ["approved"],
    "additionalProperties": False,
}
ACTION = {"tool": "work", "times": 1}
QUORUM = 3

agent = Agent("workshop", "Asks once, and then is done.")


@agent.skill("careful", "Is run at most once")
async def careful(turn: Turn) -> None:
    await work(turn)


@agent.skill("repeatable", "May be run again", matches=lambda message: "repeat" in message.text, rerun=True)
async def repeatable(turn: Turn) -> None:
    await work(turn)


@agent.skill("busy", "Blocks its loop for good", matches=lambda message: "busy" in message.text)
async def busy(turn: Turn) -> None:
    note(turn)
    time.sleep(3600)


@agent.skill("timed", "Waits for a limited time", matches=lambda message: "in time" in message.text)
async def timed(turn: Turn) -> None:
    await work(turn, deadline=timedelta(seconds=DEADLINE_SECONDS))


@agent.skill("grave", "Takes the approval of three", matches=lambda message: "by leave" in message.text)
async def grave(turn: Turn) -> None:
    note(turn)
    if turn.approval is None:
        deadline = timedelta(seconds=DEADLINE_SECONDS)
        await turn.request_approval(ACTION, "Go on?", quorum=QUORUM, deadline=deadline)
    elif turn.approval.approved:
        turn.approval.consume(ACTION)
        await turn.artifact({"approvers": list(turn.approval.approvers)}, name=turn.approval.decided_by)
        await turn.complete("Done")
    else:
        await turn.reject("Not done")


async def work(turn: Turn, deadline: timedelta | None = None) -> None:
    note(turn)
    if turn.answer is None:
        await turn.say("Looking at it")
        halt("agent")
        await turn.ask("Go on?", QUESTION, deadline=deadline)
    else:
        await turn.artifact(turn.answer.payload, name=turn.answer.responder)
        halt("agent")
        await turn.complete("Done")


def note(turn: Turn) -> None:
    with Path(os.environ[NOTES]).open("a") as notes:
        notes.write(f"{turn.task_id} {turn.effect_key('work')}\n")


def halt(point: str) -> None:
    """Stops the whole process here, if that is the point: nothing in it goes on, no thread either."""
    if os.environ.get(HALT) == point:
        os.kill(os.getpid(), signal.SIGSTOP)
