"""What an agent's code is given, and what becomes of what it does."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from tests.support.twin import AGENT, ANN, APPROVAL, Deployment, asking, message, running

import interlock
from interlock.a2a.models import Message, Part, Task, TaskState
from interlock.agents import Agent, Gate, Turn
from interlock.agents.turn import TEXT_ANSWER
from interlock.engine.run_turn import Refused, TurnEnded, TurnStopped, claim
from interlock.engine.sweep import sweep

YES = {"approved": True}


def ended(script: Callable[[Turn], Awaitable[None]], sent: str | Message = "go") -> Task:
    """The task of a message to an agent that does `script`."""
    return Deployment(running(script)).send(sent)


def text_of(task: Task) -> str | None:
    return task.status.message.text if task.status.message is not None else None


def test_an_author_imports_three_names() -> None:
    assert interlock.__all__ == ["Agent", "Gate", "Turn"]
    assert (interlock.Agent, interlock.Gate, interlock.Turn) == (Agent, Gate, Turn)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Task'"):
        getattr(interlock, "Task")  # noqa: B009


# What a turn is given.


def test_a_first_turn_knows_its_message_its_task_and_whom_it_is_for() -> None:
    seen: dict[str, Any] = {}

    async def look(turn: Turn) -> None:
        seen.update(
            task=turn.task_id,
            context=turn.context_id,
            caller=turn.caller,
            text=turn.text,
            message=turn.message.message_id,
            history=[said.text for said in turn.history],
            answer=turn.answer,
            answers=turn.answers,
            stopped=turn.stopped,
        )

    task = ended(look, message("go", message_id="m-1"))
    assert seen == {
        "task": task.id,
        "context": task.context_id,
        "caller": AGENT.id,
        "text": "go",
        "message": "m-1",
        "history": ["go"],
        "answer": None,
        "answers": [],
        "stopped": False,
    }


def test_a_later_turn_knows_the_answer_and_the_whole_story() -> None:
    seen: dict[str, Any] = {}

    async def look(turn: Turn) -> None:
        seen.update(
            text=turn.text,
            message=turn.message.text,
            history=[said.text for said in turn.history],
            answer=turn.answer and (turn.answer.payload, turn.answer.responder),
            answers=len(turn.answers),
        )

    deployment = Deployment(asking(then=look))
    task_id = deployment.send("go").id
    deployment.answer(ANN, task_id, YES)
    assert seen == {
        "text": "go",
        "message": "answer",
        "history": ["go", "Go on?", "answer"],
        "answer": (YES, ANN.id),
        "answers": 1,
    }


# Effects outside.


def test_an_effect_key_is_a_uuid_of_its_name() -> None:
    keys: list[str] = []

    async def effects(turn: Turn) -> None:
        keys.extend(turn.effect_key(name) for name in ("pay", "pay", "ship"))

    ended(effects)
    assert keys[0] == keys[1] != keys[2]
    assert all(str(UUID(key)) == key for key in keys)


def test_an_effect_key_is_the_same_when_a_lost_turn_is_run_again() -> None:
    keys: list[str] = []

    async def effect(turn: Turn) -> None:
        keys.append(turn.effect_key("pay"))
        await turn.say("paying")

    deployment = Deployment(running(effect, rerun=True), at_once=False)
    task_id = deployment.send().id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None

    asyncio.run(effect(Turn(run, Gate())))
    deployment.clock.advance(60)
    sweep(deployment.engine)
    deployment.waker.turns.pop(0)
    deployment.work()
    assert len(keys) == 2
    assert keys[0] == keys[1]


def test_an_effect_key_is_another_for_every_turn_task_and_tenant() -> None:
    keys: list[str] = []

    async def effect(turn: Turn) -> None:
        keys.append(turn.effect_key("pay"))
        if len(turn.history) == 1:
            await turn.ask("Go on?")

    deployment = Deployment(running(effect))
    task_id = deployment.send().id
    deployment.answer(ANN, task_id, {"text": "yes"})
    deployment.send()
    assert len(set(keys)) == len(keys) == 3


# What it records.


def test_what_is_said_is_a_status_message_while_the_task_works() -> None:
    shown: list[Task] = []

    async def talk(turn: Turn) -> None:
        await turn.say("working on it")
        shown.append(deployment.get(turn.task_id))

    deployment = Deployment(running(talk))
    deployment.send()
    assert (shown[0].status.state, text_of(shown[0])) == (TaskState.WORKING, "working on it")


def test_an_artifact_is_text_data_or_parts() -> None:
    async def make(turn: Turn) -> None:
        ids = [
            await turn.artifact("text", name="a"),
            await turn.artifact({"n": 1}),
            await turn.artifact([Part(url="https://example.com")], artifact_id="mine"),
        ]
        assert ids[2] == "mine"
        assert len(set(ids)) == 3

    task = ended(make)
    assert task.status.state is TaskState.COMPLETED
    artifacts = [json.loads(artifact.wire_json()) for artifact in task.artifacts or []]
    assert [artifact["parts"] for artifact in artifacts] == [
        [{"text": "text"}],
        [{"data": {"n": 1}}],
        [{"url": "https://example.com"}],
    ]
    assert artifacts[0]["name"] == "a"


@pytest.mark.parametrize(
    ("end", "state", "text"),
    [
        (lambda turn: turn.complete(), TaskState.COMPLETED, None),
        (lambda turn: turn.complete("done"), TaskState.COMPLETED, "done"),
        (lambda turn: turn.fail("broken"), TaskState.FAILED, "broken"),
        (lambda turn: turn.reject("no"), TaskState.REJECTED, "no"),
        (lambda turn: asyncio.sleep(0), TaskState.COMPLETED, None),
    ],
    ids=["complete", "complete with a text", "fail", "reject", "return"],
)
def test_a_turn_ends_its_task(end: Callable[[Turn], Any], state: TaskState, text: str | None) -> None:
    async def script(turn: Turn) -> None:
        await end(turn)

    task = ended(script)
    assert (task.status.state, text_of(task)) == (state, text)


def test_a_question_without_a_schema_takes_a_text() -> None:
    async def ask(turn: Turn) -> None:
        if turn.answer is None:
            await turn.ask("What now?")
        else:
            await turn.complete(str(turn.answer.payload["text"]))

    deployment = Deployment(running(ask))
    task_id = deployment.send().id
    (prompt,) = deployment.prompts(task_id)
    assert json.loads(prompt.envelope)["response_schema"] == TEXT_ANSWER
    assert text_of(deployment.answer(ANN, task_id, {"text": "this"})) == "this"


def test_a_question_gives_its_id() -> None:
    ids: list[str] = []

    async def ask(turn: Turn) -> None:
        ids.append(await turn.ask("Go on?", APPROVAL))

    deployment = Deployment(running(ask))
    assert ids == [deployment.open_prompt(deployment.send().id)]


# Mistakes of the agent.


def test_nothing_can_be_recorded_after_the_end() -> None:
    refused: list[type[Exception]] = []

    async def goes_on(turn: Turn) -> None:
        await turn.complete("done")
        for more in (turn.say("more"), turn.artifact("more"), turn.fail("more"), turn.ask("more?")):
            try:
                await more
            except TurnEnded as error:
                refused.append(type(error))

    task = ended(goes_on)
    assert (task.status.state, text_of(task)) == (TaskState.COMPLETED, "done")
    assert len(refused) == 4


def test_a_mistake_after_the_end_does_not_change_it() -> None:
    async def goes_on(turn: Turn) -> None:
        await turn.ask("Go on?")
        await turn.say("more")

    assert ended(goes_on).status.state is TaskState.INPUT_REQUIRED


def test_a_refused_prompt_can_be_asked_better() -> None:
    async def asks_badly(turn: Turn) -> None:
        try:
            await turn.ask("")
        except Refused as refused:
            await turn.ask(f"Is this right: {refused}")

    task = ended(asks_badly)
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert "1 to 4096" in str(text_of(task))


@pytest.mark.parametrize(
    "bad",
    [
        {"prompt": None},
        {"prompt": b"Go on?"},
        {"schema": {"type": "object", "properties": {"a": object()}}},
        {"deadline": "tomorrow"},
        {"allowed_responders": "any"},
        {"allowed_responders": [None]},
    ],
    ids=repr,
)
def test_a_prompt_of_wrong_types_is_refused_and_nothing_stored(bad: dict[str, Any]) -> None:
    refused: list[str] = []

    async def asks(turn: Turn) -> None:
        with deployment.unchanged():
            try:
                await turn.ask(**{"prompt": "Go on?", **bad})
            except Refused as error:
                refused.append(str(error))

    deployment = Deployment(running(asks))
    assert deployment.send().status.state is TaskState.COMPLETED
    assert len(refused) == 1


def test_an_exception_fails_the_task_and_stands_in_the_log_only(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(turn: Turn) -> None:
        raise RuntimeError("password=hunter2")

    deployment = Deployment(running(breaks))
    with caplog.at_level(logging.ERROR):
        task = deployment.send()
    assert (task.status.state, text_of(task)) == (TaskState.FAILED, "The agent failed.")
    assert "hunter2" in caplog.text
    assert "hunter2" not in str(deployment.rows())


def test_a_skill_that_is_no_coroutine_fails_its_task() -> None:
    def plain(turn: Turn) -> None:
        return None

    agent = Agent("desk", "Not async")
    agent.skill("work", "Works")(plain)  # type: ignore[arg-type]
    assert Deployment(agent).send().status.state is TaskState.FAILED


# Cancel.


def test_a_cancel_refuses_what_the_code_records_next() -> None:
    caught: list[bool] = []

    async def script(turn: Turn) -> None:
        deployment.cancel(turn.task_id)
        assert not turn.stopped
        try:
            await turn.say("still here")
        except TurnStopped:
            caught.append(turn.stopped)
            raise

    deployment = Deployment(running(script))
    task = deployment.send()
    assert (task.status.state, text_of(task)) == (TaskState.CANCELED, None)
    assert [said.text for said in task.history or []] == ["go"]
    assert caught == [True]


def test_code_that_swallows_its_stop_still_records_nothing() -> None:
    async def script(turn: Turn) -> None:
        deployment.cancel(turn.task_id)
        for _ in range(3):
            with pytest.raises(TurnStopped):
                await turn.say("still here")

    deployment = Deployment(running(script))
    assert deployment.send().status.state is TaskState.CANCELED
