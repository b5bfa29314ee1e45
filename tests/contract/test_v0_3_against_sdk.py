"""Clients of A2A 0.3: the official SDK 0.3.26, in an environment of its own, against the real doors."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as ASGIMessage
from tests.support.loopback import served
from tests.support.twin import APPROVAL, Deployment

from interlock.a2a.models import Message
from interlock.agents import Agent, Turn
from interlock.oversight import hitl_prompt

PYTHON = Path(__file__).parents[2] / "tools" / "a2a-0.3" / ".venv" / "bin" / "python"
CLIENT = Path(__file__).parent / "clients" / "v0_3.py"
SECONDS = 60


def desk() -> Agent:
    agent = Agent("desk", "Works, and asks before it acts")

    @agent.skill("work", "Works", examples=["go"])
    async def work(turn: Turn) -> None:
        if turn.text == "ask" and turn.answer is None:
            await turn.say("Looking")
            await turn.ask("Go on?", APPROVAL)
            return
        if turn.text == "files":
            await turn.artifact(list(turn.message.parts))
        else:
            await turn.artifact("one", artifact_id="out", last_chunk=False)
            await turn.artifact("two", artifact_id="out", append=True)
        await turn.complete("done")

    @agent.skill("audit", "Audits", listed=False)
    async def audit(turn: Turn) -> None:
        await turn.complete()

    @agent.reply_with
    def reply(message: Message) -> str | None:
        return "hello" if message.text == "hello" else None

    return agent


class Onlookers:
    """An app around another: says when somebody has seen an event of a stream."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.seen = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: ASGIMessage) -> None:
            await send(message)
            if message.get("body", b"").startswith(b"data:"):
                self.seen.set()

        await self.app(scope, receive, sent)


@contextmanager
def working(deployment: Deployment, onlookers: Onlookers) -> Iterator[None]:
    """A worker that runs turns when somebody looks on."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            onlookers.seen.wait()
            onlookers.seen.clear()
            deployment.work()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        onlookers.seen.set()
        worker.join()


@pytest.fixture(scope="module")
def told() -> Any:
    """What the client was told, by story."""
    if not PYTHON.exists():
        pytest.fail("the SDK of A2A 0.3 is not installed: run `make setup`", pytrace=False)
    waiting = Deployment(desk(), at_once=False)
    onlookers = Onlookers(waiting.agents_door(v0_3=True, streaming=True))
    with (
        working(waiting, onlookers),
        served(lambda url: Deployment(desk()).agents_door(v0_3=True, public_url=url)) as url,
        served(lambda _: onlookers) as streaming_url,
    ):
        command = [str(PYTHON), str(CLIENT), url, streaming_url, "agent"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture
def buffered(told: Any) -> Any:
    return told["buffered"]


@pytest.fixture
def streaming(told: Any) -> Any:
    return told["streaming"]


def texts(parts: list[Any]) -> list[str]:
    return [part["text"] for part in parts]


def test_the_client_reads_the_card(buffered: Any) -> None:
    card = buffered["card"]
    assert (card["name"], card["protocolVersion"], card["preferredTransport"]) == ("desk", "0.3.0", "JSONRPC")
    assert card["url"].startswith("http://127.0.0.1:")
    assert (card["capabilities"]["streaming"], card["supportsAuthenticatedExtendedCard"]) == (False, True)
    assert card["capabilities"]["extensions"][0]["uri"] == hitl_prompt.URI
    assert card["securitySchemes"] == {"bearer": {"type": "http", "scheme": "Bearer"}}
    assert card["security"] == [{"bearer": []}]
    assert [skill["id"] for skill in card["skills"]] == ["work"]


def test_the_client_gets_the_extended_card(buffered: Any) -> None:
    extended = buffered["extended"]
    assert [skill["id"] for skill in extended["skills"]] == ["work", "audit"]
    assert {**extended, "skills": None} == {**buffered["card"], "skills": None}


def test_the_client_sends_and_gets_a_task(buffered: Any) -> None:
    done = buffered["done"]
    assert done["status"]["state"] == "completed"
    assert texts(done["status"]["message"]["parts"]) == ["done"]
    (artifact,) = done["artifacts"]
    assert texts(artifact["parts"]) == ["one", "two"]
    assert [message["role"] for message in done["history"]] == ["user"]
    assert buffered["got"] == done


def test_parts_come_back_as_they_were_sent(buffered: Any) -> None:
    sent = buffered["files"]
    assert sent["contextId"] == "mine"
    parts = [
        {"kind": "text", "text": "files"},
        {"kind": "file", "file": {"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}},
        {"kind": "file", "file": {"uri": "https://example.com/a"}},
        {"kind": "data", "data": {"a": [1, None]}, "metadata": {"m": 1}},
    ]
    assert sent["artifacts"][0]["parts"] == sent["history"][0]["parts"] == parts


def test_the_client_gets_a_message(buffered: Any) -> None:
    reply = buffered["reply"]
    assert (reply["kind"], reply["role"], texts(reply["parts"])) == ("message", "agent", ["hello"])


def test_a_question_is_read_and_answered(buffered: Any) -> None:
    waiting = buffered["waiting"]
    assert waiting["status"]["state"] == "input-required"
    prompt = waiting["status"]["message"]["metadata"][hitl_prompt.URI]
    assert (prompt["prompt"], prompt["response_schema"]) == ("Go on?", APPROVAL)
    assert buffered["echoed"] == {"x-a2a-extensions": hitl_prompt.URI}
    assert (buffered["answered"]["id"], buffered["answered"]["status"]["state"]) == (
        waiting["id"],
        "completed",
    )


def test_a_bad_answer_and_a_late_one_are_refused_with_their_reasons(buffered: Any) -> None:
    invalid, late = buffered["invalid"], buffered["late"]
    assert (invalid["code"], late["code"]) == (-32011, -32010)
    assert {fault["path"] for fault in invalid["data"]["validation_errors"]} == {"/approved", "/extra"}
    assert invalid["data"]["prompt_id"] == late["data"]["prompt_id"]
    assert late["data"]["extension"] == hitl_prompt.URI


def test_the_client_cancels(buffered: Any) -> None:
    assert buffered["canceled"]["status"]["state"] == "canceled"


@pytest.mark.parametrize(("story", "code"), [("unknown", -32001), ("over", -32002), ("no stream", -32004)])
def test_the_client_is_told_what_is_wrong(buffered: Any, story: str, code: int) -> None:
    assert buffered[story]["code"] == code


def test_a_stream_ends_with_the_question(streaming: Any) -> None:
    first, *updates = streaming["asked"]
    assert first["kind"] == "task"
    states = [(event["status"]["state"], event["final"]) for event in updates]
    assert states == [("working", False), ("working", False), ("input-required", True)]
    assert hitl_prompt.URI in updates[-1]["status"]["message"]["metadata"]


def test_two_streams_of_one_task_are_told_the_same(streaming: Any) -> None:
    answered, followed = streaming["answered"], streaming["followed"]
    assert answered[0]["kind"] == followed[0]["kind"] == "task"
    assert answered[0]["id"] == followed[0]["id"]
    kinds = [event["kind"] for event in followed[1:]]
    assert kinds == ["status-update", "artifact-update", "artifact-update", "status-update"]
    assert [event.get("append") for event in followed[2:4]] == [None, True]
    assert (followed[-1]["status"]["state"], followed[-1]["final"]) == ("completed", True)
    assert answered[1:] == followed[len(followed) - len(answered[1:]) :]


def test_there_is_nothing_to_resubscribe_to_when_a_task_is_over(streaming: Any) -> None:
    assert streaming["over"]["code"] == -32004
