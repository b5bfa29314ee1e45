"""Agents under oversight that are real servers: ours and that of a2a-sdk, unchanged, over both bindings."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests.support import sdk_agent
from tests.support.elsewhere import Overseen
from tests.support.loopback import served
from tests.support.twin import ANN, Deployment, message, running

from interlock.a2a.card import AgentCard, AgentInterface
from interlock.a2a.models import Task, TaskState
from interlock.adapters.clock import SystemClock
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_directory import Directory
from interlock.adapters.peers import HttpPeers
from interlock.agents import Turn
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.modes import Mode, Policy

PATIENCE_SECONDS = 20.0
FREE = Policy(Mode.AUTONOMOUS)
"""The server of a2a-sdk declares nothing."""
CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@dataclass
class Party:
    """A deployment, and the agent `far` that it oversees. Turns run in threads, as workers do."""

    overseen: Overseen
    threads: list[Thread] = field(default_factory=list)

    def send(self, text: str) -> Task:
        task = self.overseen.send(message(text, metadata={"skillHint": "work"}))
        self.work()
        return task

    def work(self) -> None:
        here = self.overseen.deployment
        while here.waker.turns:
            thread = Thread(target=here.run_turn, args=here.waker.turns.pop(0))
            thread.start()
            self.threads.append(thread)

    def reached(self, task: Task, *states: TaskState) -> Task:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (seen := self.overseen.get(task.id)).status.state not in states:
            assert time.monotonic() < deadline, seen
            self.work()
            time.sleep(0.01)
        return seen

    def there(self, task: Task) -> Task:
        link = self.overseen.link(task.id)
        assert link.child is not None
        peers = self.overseen.elsewhere
        return peers.get(peers.resolve_for(link.tenant, link.to), link.child)


async def works(turn: Turn) -> None:
    """As the agent of a2a-sdk does; and asks with a schema."""
    if turn.answer is not None:
        await turn.artifact(turn.answer.payload)
        await turn.complete("done")
    elif turn.text == "work":
        while not turn.stopped:
            await asyncio.sleep(0.02)
    elif turn.text == "ask":
        await turn.ask("Go on?")
    elif turn.text == "choose":
        await turn.ask("Which one?", CHOICE)
    else:
        await turn.artifact("result", artifact_id="a-1")
        await turn.complete("done")


@contextmanager
def overseeing(
    make_app: Callable[[str], ASGIApp], policy: Policy, turn_seconds: float = 60.0
) -> Iterator[Party]:
    with served(make_app) as url:
        outbound = Outbound(local=True)
        document = json.dumps({"far": {"url": url, "authorization": "Bearer agent"}}).encode()
        peers = HttpPeers(
            outbound,
            Directory(lambda: document, outbound),
            extensions=(hitl_prompt.URI, approvals.URI),
        )
        overseen = Overseen(
            peers, at_once=False, policy=policy, url=url, clock=SystemClock(), turn_seconds=turn_seconds
        )
        party = Party(overseen)
        yield party
        for thread in party.threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


@pytest.fixture(params=["JSONRPC", "HTTP+JSON"])
def binding(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def other(binding: str, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    """Another Interlock, which serves this binding only."""

    def served_at(card: AgentCard, url: str, *, v0_3: bool = False) -> AgentCard:
        only = AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
        return card.model_copy(update={"supported_interfaces": [only]})

    monkeypatch.setattr(AgentCard, "served_at", served_at)
    agent = running(works)
    agent.reply_with(lambda asked: "hello" if asked.text == "hello" else None)
    return Deployment(agent, at_once=False)


@contextmanager
def workers(deployment: Deployment) -> Iterator[None]:
    """Of the other Interlock."""
    stop = False

    def work() -> None:
        while not stop:
            deployment.work()
            time.sleep(0.01)

    threads = [Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop = True
        for thread in threads:
            thread.join(PATIENCE_SECONDS)


@pytest.fixture
def ours(other: Deployment) -> Iterator[Party]:
    with workers(other), overseeing(lambda url: other.agents_door(), Policy()) as party:
        yield party


@pytest.fixture
def sdk(binding: str) -> Iterator[Party]:
    with overseeing(lambda url: sdk_agent.create_app(url, binding), FREE) as party:
        yield party


@pytest.fixture(params=["ours", "sdk"])
def party(request: pytest.FixtureRequest, binding: str) -> Party:
    chosen: Party = request.getfixturevalue(request.param)
    return chosen


def test_its_card_is_read_and_says_its_modes(party: Party, request: pytest.FixtureRequest) -> None:
    agent = party.overseen.registry.get("acme", "far")
    assert agent.record.problem is None
    skill = agent.skills["work"]
    declared = "declared" if "ours" in request.node.name else "undeclared"
    assert (skill.mode.mode, skill.source) == (Mode.AUTONOMOUS, declared)


def test_a_task_is_done_there_and_its_outcome_comes_back(party: Party) -> None:
    done = party.reached(party.send("do it"), TaskState.COMPLETED)
    assert done.status.message is not None
    assert done.status.message.text == "done"
    assert done.artifacts is not None
    assert [(artifact.artifact_id, artifact.parts[0].text) for artifact in done.artifacts] == [
        ("a-1", "result")
    ]
    assert party.overseen.link(done.id).outcome == "completed"


def test_a_direct_reply_completes_the_task(party: Party) -> None:
    done = party.reached(party.send("hello"), TaskState.COMPLETED)
    assert done.status.message is not None
    assert done.status.message.text == "hello"


def test_a_question_is_asked_here_and_the_answer_goes_there(party: Party) -> None:
    asked = party.reached(party.send("ask"), TaskState.INPUT_REQUIRED)
    assert asked.status.message is not None
    assert asked.status.message.text == "Go on?"
    party.overseen.deployment.answer(ANN, asked.id, {"text": "yes"})
    done = party.reached(asked, TaskState.COMPLETED)
    assert party.there(done).status.state is TaskState.COMPLETED
    assert len(party.overseen.links(asked.id)) == 1


def test_a_cancel_ends_the_task_there(party: Party) -> None:
    task = party.reached(party.send("work"), TaskState.WORKING)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(link.child for link in party.overseen.links(task.id)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    party.overseen.deployment.cancel(task.id)
    party.overseen.outbox()
    assert party.there(task).status.state is TaskState.CANCELED


def test_a_structured_question_of_another_interlock_keeps_its_schema(ours: Party, other: Deployment) -> None:
    asked = ours.reached(ours.send("choose"), TaskState.INPUT_REQUIRED)
    (prompt,) = ours.overseen.deployment.prompts(asked.id)
    assert json.loads(prompt.envelope)["response_schema"] == CHOICE
    ours.overseen.deployment.answer(ANN, asked.id, {"n": 7})
    done = ours.reached(asked, TaskState.COMPLETED)
    assert done.artifacts is not None
    assert done.artifacts[0].parts[0].data == {"n": 7}
    assert ours.overseen.link(asked.id).ours


def test_an_agent_that_declares_nothing_is_gated_unless_the_deployment_says_otherwise(binding: str) -> None:
    with overseeing(lambda url: sdk_agent.create_app(url, binding), Policy()) as party:
        task = party.send("do it")
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert party.overseen.links(task.id) == []


def test_a_task_that_outlives_a_turn_is_followed_by_the_next(binding: str) -> None:
    with overseeing(lambda url: sdk_agent.create_app(url, binding), FREE, turn_seconds=0.5) as party:
        task = party.reached(party.send("work"), TaskState.WORKING)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while party.overseen.deployment.meta(task.id).turn < 3:
            assert time.monotonic() < deadline
            party.work()
            time.sleep(0.01)
        assert party.overseen.get(task.id).status.state is TaskState.WORKING
        party.overseen.deployment.cancel(task.id)
        party.overseen.outbox()
        assert party.there(task).status.state is TaskState.CANCELED
