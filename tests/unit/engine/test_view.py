"""What GetTask shows: history, artifacts, and prompts only to those who asked for them."""

from typing import Any

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    SPY,
    Deployment,
    asking,
    message,
    once,
    running,
)

from interlock.a2a.errors import InvalidParams, TaskNotFound
from interlock.a2a.models import Artifact, Part, Task, TaskState
from interlock.agents import Turn
from interlock.engine.run_turn import claim
from interlock.engine.view import load
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Principal

NOT_ACTIVATED: frozenset[str] = frozenset({"https://example.com/other"})


def texts(task: Task) -> list[str]:
    return [said.text for said in task.history or []]


async def talks(turn: Turn) -> None:
    await turn.say("one")
    await turn.say("two")
    await turn.complete("three")


# History.


def test_a_status_message_moves_into_the_history_when_the_next_status_comes() -> None:
    task = Deployment(running(talks)).send("go")
    assert task.status.message is not None
    assert task.status.message.text == "three"
    assert texts(task) == ["go", "one", "two"]


def test_a_status_without_a_message_leaves_none_and_keeps_the_last_in_the_history() -> None:
    async def ends_in_silence(turn: Turn) -> None:
        await turn.say("one")

    task = Deployment(running(ends_in_silence)).send("go")
    assert task.status.message is None
    assert texts(task) == ["go", "one"]


def test_an_artifact_does_not_touch_the_status_message() -> None:
    deployment = Deployment(running(talks), at_once=False)
    task_id = deployment.send().id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    run.say("one")
    run.add_artifact(Artifact(artifact_id="a", parts=[Part(text="out")]))
    task = deployment.get(task_id)
    assert task.status.message is not None
    assert task.status.message.text == "one"


def test_the_messages_of_a_story_stand_in_the_order_in_which_they_were_admitted() -> None:
    async def then(turn: Turn) -> None:
        await turn.say("thanks")
        await turn.complete("done")

    deployment = Deployment(asking(then=then))
    task_id = deployment.send("go").id
    task = deployment.answer(ANN, task_id, {"approved": True})
    assert texts(task) == ["go", "Go on?", "answer", "thanks"]
    roles = [said.role.value for said in task.history or []]
    assert roles == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER", "ROLE_AGENT"]


@pytest.mark.parametrize(
    ("length", "expected"),
    [(None, ["go", "one", "two"]), (0, []), (1, ["two"]), (2, ["one", "two"]), (9, ["go", "one", "two"])],
)
def test_a_history_length_keeps_the_most_recent_and_leaves_the_status_alone(
    length: int | None, expected: list[str]
) -> None:
    deployment = Deployment(running(talks))
    task = deployment.get(deployment.send("go").id, history_length=length)
    assert texts(task) == expected
    assert (task.history is None) == (length == 0)
    assert task.status.message is not None


def test_the_same_message_id_twice_stands_in_the_history_twice() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send(message(message_id="m-1")).id
    task = deployment.send(message("again", message_id="m-1", task_id=task_id))
    assert [said.message_id for said in task.history or []].count("m-1") == 2


# Artifacts.


def test_artifacts_come_in_the_order_in_which_they_first_appeared_and_chunks_are_put_together() -> None:
    async def chunks(turn: Turn) -> None:
        first = await turn.artifact("a-1 ", name="first", last_chunk=False)
        await turn.artifact({"b": 1}, name="second")
        await turn.artifact("a-2", artifact_id=first, append=True)

    task = Deployment(running(chunks)).send()
    first, second = task.artifacts or []
    assert [part.text for part in first.parts] == ["a-1 ", "a-2"]
    assert first.name == "first"
    assert [part.data for part in second.parts] == [{"b": 1}]
    assert second.name == "second"


def test_an_artifact_without_append_replaces_the_one_of_its_id() -> None:
    async def replaces(turn: Turn) -> None:
        artifact = await turn.artifact("old")
        await turn.artifact([Part(text="new")], artifact_id=artifact)

    (artifact,) = Deployment(running(replaces)).send().artifacts or []
    assert [part.text for part in artifact.parts] == ["new"]


def test_a_chunk_of_nothing_is_an_artifact() -> None:
    async def appends(turn: Turn) -> None:
        await turn.artifact("only", artifact_id="a", append=True)

    (artifact,) = Deployment(running(appends)).send().artifacts or []
    assert (artifact.artifact_id, [part.text for part in artifact.parts]) == ("a", ["only"])


def test_a_task_without_artifacts_has_none() -> None:
    assert Deployment(running(talks)).send().artifacts is None


# Prompts.


def envelope(said: Any) -> Any:
    return (said.metadata or {}).get(hitl_prompt.URI)


def test_a_prompt_is_shown_to_a_request_that_activated_the_extension() -> None:
    deployment = Deployment(asking(allowed_responders=[f"specific:{ANN.id}"]))
    task = deployment.send()
    asked = task.status.message
    assert asked is not None
    assert asked.text == "Go on?"
    assert asked.extensions == [hitl_prompt.URI]
    assert envelope(asked) == {
        "prompt_id": deployment.open_prompt(task.id),
        "prompt": "Go on?",
        "response_schema": APPROVAL,
        "allowed_responders": [f"specific:{ANN.id}"],
    }


@pytest.mark.parametrize("extensions", [frozenset(), NOT_ACTIVATED], ids=["none", "another"])
def test_a_prompt_is_a_text_message_to_a_request_that_did_not(extensions: frozenset[str]) -> None:
    deployment = Deployment(asking())
    asked = deployment.send(extensions=extensions).status.message
    assert asked is not None
    assert (asked.text, asked.metadata, asked.extensions) == ("Go on?", None, None)


def test_the_envelope_is_hidden_wherever_it_stands() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    deployment.answer(ANN, task_id, {"approved": True})
    shown = deployment.get(task_id)
    hidden = deployment.get(task_id, extensions=frozenset())
    assert [said for said in shown.history or [] if envelope(said)] != []
    assert hitl_prompt.URI not in hidden.wire_json()
    deployment.send()
    for more in ({}, {"history_length": 5}, {"include_artifacts": True}):
        assert hitl_prompt.URI in deployment.listed(**more).wire_json()
        assert hitl_prompt.URI not in deployment.listed(extensions=frozenset(), **more).wire_json()


def test_other_metadata_of_a_message_is_kept() -> None:
    deployment = Deployment(running(talks))
    sent = message(
        metadata={hitl_prompt.URI: {"prompt": "mine?"}, "kept": 1}, extensions=[hitl_prompt.URI, "urn:x"]
    )
    task_id = deployment.send(sent).id
    (first, *_) = deployment.get(task_id, extensions=frozenset()).history or []
    assert (first.metadata, first.extensions) == ({"kept": 1}, ["urn:x"])
    (first, *_) = deployment.get(task_id).history or []
    assert first.metadata == sent.metadata


def test_another_reader_and_a_later_read_see_the_same_prompt() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send(extensions=frozenset()).id
    assert deployment.get(task_id, ANN).status == deployment.get(task_id, AGENT).status
    assert envelope(deployment.get(task_id, ANN).status.message) is not None


# Who sees it.


@pytest.mark.parametrize("who", [AGENT, ANN, OPS], ids=["the owner", "an approver", "an operator"])
def test_who_may_read_a_task(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    assert deployment.get(task_id, who).id == task_id


@pytest.mark.parametrize("who", [PEER, NOBODY, PLATFORM, SPY], ids=lambda who: f"{who.tenant} {who.id}")
def test_for_others_it_is_not_there(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    for unseen in (task_id, "none", "T#acme#x"):
        with pytest.raises(TaskNotFound) as caught:
            deployment.get(unseen, who)
        assert caught.value.metadata == {"taskId": unseen}


def test_the_tenant_of_a_request_is_the_callers_own() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    assert deployment.get(task_id, tenant="acme").id == task_id
    for who in (AGENT, SPY):
        with pytest.raises(InvalidParams):
            deployment.get(task_id, who, tenant="nobody")


def test_a_reader_needs_one_round_trip() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    calls: list[str] = []
    deployment.hook(before=lambda operation, arguments: calls.append(operation))
    deployment.get(task_id)
    assert calls == ["query"]


# A view is never torn.


def test_a_view_over_several_pages_is_of_the_moment_of_its_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.memory.PAGE_BYTES", 400)
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    for number in range(10):
        run.say(str(number))
    deployment.hook(after=once("query", lambda: run.say("late")))
    loaded = load(deployment.engine.table, "acme", task_id)
    assert loaded is not None
    meta, events = loaded
    assert meta.seq == len(events) == 12
    assert "late" not in str(events)
    assert [event.status.message.text for event in events[2:] if event.status and event.status.message] == [
        str(number) for number in range(10)
    ]


def test_an_event_that_is_not_yet_the_metas_is_left_out() -> None:
    deployment = Deployment(running(talks), at_once=False)
    task_id = deployment.send().id
    with deployment.unchanged():
        loaded = load(deployment.engine.table, "acme", task_id)
    assert loaded is not None
    assert loaded[0].task_state is TaskState.SUBMITTED
    assert load(deployment.engine.table, "acme", "none") is None
