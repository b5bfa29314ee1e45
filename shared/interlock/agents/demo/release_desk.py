"""A release desk: nothing is released before a person has agreed."""

import re

from interlock.agents import Agent, Turn
from interlock.agents.demo.matching import text_begins_with

agent = Agent("release-desk", "Releases versions, once a person has agreed.")

VERSION = re.compile(r"[\w.+-]{1,64}", re.ASCII)
APPROVAL = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "comment": {"type": "string", "maxLength": 1024},
    },
    "required": ["approved"],
    "additionalProperties": False,
}


@agent.skill(
    "release",
    "Releases a version after a person has approved it",
    examples=["release 1.2.0"],
    matches=text_begins_with("release "),
)
async def release(turn: Turn) -> None:
    version = turn.text.removeprefix("release ").strip()
    if not VERSION.fullmatch(version):
        await turn.reject("Say `release <version>`.")
    elif turn.answer is None:
        await turn.ask(f"Release {version}?", APPROVAL)
    elif turn.answer.payload["approved"]:
        await turn.artifact(f"{version} released, approved by {turn.answer.responder}", name="release")
        await turn.complete(f"Released {version}.")
    else:
        await turn.reject(
            f"{version} was not released: {turn.answer.payload.get('comment', 'no reason given')}"
        )
