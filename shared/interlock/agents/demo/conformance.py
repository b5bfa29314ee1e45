"""Behaves as the official A2A test kit (a2aproject/a2a-tck, branch 1.0-dev) asks of the system under test.

What a message makes it do is named by the prefix of its id, or of its text.
"""

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable

from interlock.a2a.models import Message, Part
from interlock.agents import Agent, Turn

agent = Agent("conformance", "Behaves as the A2A test kit asks.")

MESSAGE_RESPONSE = "tck-message-response"
PAUSE_SECONDS = 2.0


async def complete(turn: Turn) -> None:
    await turn.complete("Hello from TCK")


async def ask(turn: Turn) -> None:
    await turn.ask("More input is required")


async def reject(turn: Turn) -> None:
    await turn.reject("Rejected, as asked")


async def stream(turn: Turn) -> None:
    await turn.artifact("Streamed text content")
    await turn.complete()


async def chunks(turn: Turn) -> None:
    artifact = await turn.artifact("chunk-1 ", last_chunk=False)
    await turn.artifact("chunk-2", artifact_id=artifact, append=True)
    await turn.complete()


async def slow(turn: Turn) -> None:
    for _ in range(2):
        await asyncio.sleep(PAUSE_SECONDS)
        await turn.say("Still working")
    await turn.complete()


def artifact(part: Part) -> Callable[[Turn], Awaitable[None]]:
    async def add(turn: Turn) -> None:
        await turn.artifact([part])
        await turn.complete()

    return add


TEXT = artifact(Part(text="Generated text content"))
FILE = artifact(
    Part(raw=b64encode(b"Generated file content").decode(), filename="output.txt", media_type="text/plain")
)
FILE_URL = artifact(
    Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
)
DATA = artifact(Part(data={"key": "value", "count": 42}))

BEHAVIOURS: dict[str, Callable[[Turn], Awaitable[None]]] = {
    "tck-complete-task": complete,
    "tck-input-required": ask,
    "tck-reject-task": reject,
    "tck-artifact-text": TEXT,
    "tck-artifact-file-url": FILE_URL,
    "tck-artifact-file": FILE,
    "tck-artifact-data": DATA,
    "tck-stream-001": stream,
    "tck-stream-002": complete,
    "tck-stream-003": stream,
    "tck-stream-ordering-001": stream,
    "tck-stream-artifact-text": TEXT,
    "tck-stream-artifact-file": FILE,
    "tck-stream-artifact-chunked": chunks,
    "test-resubscribe-message-id": slow,
}
_LONGEST_FIRST = sorted(BEHAVIOURS, key=len, reverse=True)


def behaviour(message: Message) -> str | None:
    """The prefix that the message's id begins with, or else its text."""
    for said in (message.message_id, message.text):
        for prefix in _LONGEST_FIRST:
            if said.startswith(prefix):
                return prefix
    return None


def is_for_kit(message: Message) -> bool:
    return behaviour(message) is not None or message.message_id.startswith(("tck-", "test-"))


@agent.skill("conformance", "Does what the prefix of the message says", matches=is_for_kit)
async def conform(turn: Turn) -> None:
    await BEHAVIOURS[behaviour(turn.message) or "tck-complete-task"](turn)


@agent.reply_with
def reply(message: Message) -> str | None:
    for said in (message.message_id, message.text):
        if said.startswith(MESSAGE_RESPONSE):
            return "Direct message response"
    return None
