"""The demo agents behind their one endpoint, each as a whole story."""

import json
from base64 import b64decode
from typing import Any

import pytest
from tests.support.approvals import decide
from tests.support.twin import AGENT, ANN, BEN, Deployment, message

from interlock.a2a.models import SendMessageResponse, Task, TaskState
from interlock.agents.demo import agent, conformance, release_desk
from interlock.engine.due import handle_due

HELLO = "Hello from TCK"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    monkeypatch.setattr(conformance, "PAUSE_SECONDS", 0.01)
    return Deployment(agent)


def text_of(task: Task) -> str | None:
    return task.status.message.text if task.status.message is not None else None


def schema_of(demo: Deployment, task_id: str) -> Any:
    (prompt,) = [prompt for prompt in demo.prompts(task_id) if prompt.status == "open"]
    return json.loads(prompt.envelope)["response_schema"]


# The release desk.


def test_a_release_that_is_approved_is_made_and_says_by_whom(demo: Deployment) -> None:
    task = demo.send("release 1.2.0")
    assert (task.status.state, text_of(task)) == (TaskState.INPUT_REQUIRED, "Release 1.2.0?")
    assert schema_of(demo, task.id) == release_desk.APPROVAL
    task = demo.answer(ANN, task.id, {"approved": True, "comment": "go"})
    assert (task.status.state, text_of(task)) == (TaskState.COMPLETED, "Released 1.2.0.")
    (artifact,) = task.artifacts or []
    assert artifact.name == "release"
    assert [part.text for part in artifact.parts] == [f"1.2.0 released, approved by {ANN.id}"]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [({"approved": False, "comment": "too early"}, "too early"), ({"approved": False}, "no reason given")],
)
def test_a_release_that_is_denied_is_not_made(demo: Deployment, payload: dict[str, Any], reason: str) -> None:
    task_id = demo.send("release 1.2.0").id
    task = demo.answer(ANN, task_id, payload)
    assert task.status.state is TaskState.REJECTED
    assert text_of(task) == f"1.2.0 was not released: {reason}"
    assert task.artifacts is None


def test_a_release_whose_question_is_passed_over_is_asked_again(demo: Deployment) -> None:
    task_id = demo.send("release 1.2.0").id
    first = demo.open_prompt(task_id)
    task = demo.send(message("just do it", task_id=task_id))
    assert (task.status.state, text_of(task)) == (TaskState.INPUT_REQUIRED, "Release 1.2.0?")
    assert demo.open_prompt(task_id) != first
    assert task.artifacts is None


# The expense clerk.


def test_an_expense_is_asked_for_in_three_questions_and_booked(demo: Deployment) -> None:
    task = demo.send("expense taxi to the airport")
    asked = []
    for who, payload in (
        (AGENT, {"amount": 42.5}),
        (ANN, {"category": "travel"}),
        (BEN, {"confirmed": True}),
    ):
        asked.append(text_of(task))
        task = demo.answer(who, task.id, payload)
    assert asked == ["How much was it, in euros?", "Which category?", "Book it?"]
    assert task.status.state is TaskState.COMPLETED
    assert text_of(task) == "Booked 42.5 euros for taxi to the airport under travel."
    (artifact,) = task.artifacts or []
    (part,) = artifact.parts
    assert isinstance(part.data, dict)
    booking = dict(part.data)
    assert booking.pop("id")
    assert booking == {"purpose": "taxi to the airport", "amount": 42.5, "category": "travel"}


def test_an_expense_that_is_not_confirmed_is_not_booked(demo: Deployment) -> None:
    task = demo.send("expense lunch")
    for payload in ({"amount": 12}, {"category": "meals"}, {"confirmed": False}):
        task = demo.answer(ANN, task.id, payload)
    assert (task.status.state, text_of(task)) == (TaskState.REJECTED, "The expense was not booked.")
    assert task.artifacts is None


def test_a_question_of_the_clerk_that_is_passed_over_is_asked_again(demo: Deployment) -> None:
    task_id = demo.send("expense lunch").id
    demo.answer(ANN, task_id, {"amount": 12})
    task = demo.send(message("well", task_id=task_id))
    assert text_of(task) == "Which category?"


# The conformance agent, by the prefix of the message's id and of its text.


def both_ways(demo: Deployment, prefix: str) -> list[SendMessageResponse]:
    return [
        demo.sent(message("anything", message_id=f"{prefix}-1a2b3c")),
        demo.sent(f"{prefix} please"),
    ]


@pytest.mark.parametrize("prefix", ["tck-complete-task", "tck-stream-002"])
def test_complete(demo: Deployment, prefix: str) -> None:
    for sent in both_ways(demo, prefix):
        assert sent.task is not None
        assert (sent.task.status.state, text_of(sent.task)) == (TaskState.COMPLETED, HELLO)


@pytest.mark.parametrize("message_id", ["tck-unknown-1", "tck-", "test-123"])
def test_any_other_id_of_the_kit_completes(demo: Deployment, message_id: str) -> None:
    task = demo.send(message("anything", message_id=message_id))
    assert (task.status.state, text_of(task)) == (TaskState.COMPLETED, HELLO)


def test_input_required_again_and_again_until_it_is_completed(demo: Deployment) -> None:
    for sent in both_ways(demo, "tck-input-required"):
        assert sent.task is not None
        task = sent.task
        assert task.status.state is TaskState.INPUT_REQUIRED
        task = demo.send(message(message_id="tck-input-required-1a2b3c", task_id=task.id))
        assert task.status.state is TaskState.INPUT_REQUIRED
        task = demo.send(message(message_id="tck-complete-task-1a2b3c", task_id=task.id))
        assert (task.status.state, text_of(task)) == (TaskState.COMPLETED, HELLO)


def test_reject(demo: Deployment) -> None:
    for sent in both_ways(demo, "tck-reject-task"):
        assert sent.task is not None
        assert sent.task.status.state is TaskState.REJECTED


def test_a_direct_message(demo: Deployment) -> None:
    with demo.unchanged():
        for sent in both_ways(demo, "tck-message-response"):
            assert sent.task is None
            assert sent.message is not None
            assert sent.message.text == "Direct message response"
            assert sent.message.context_id


@pytest.mark.parametrize(
    ("prefix", "part"),
    [
        ("tck-artifact-text", {"text": "Generated text content"}),
        ("tck-artifact-file", {"raw": ..., "filename": "output.txt", "mediaType": "text/plain"}),
        (
            "tck-artifact-file-url",
            {"url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain"},
        ),
        ("tck-artifact-data", {"data": {"key": "value", "count": 42}}),
        ("tck-stream-artifact-text", {"text": "Generated text content"}),
        ("tck-stream-artifact-file", {"raw": ..., "filename": "output.txt", "mediaType": "text/plain"}),
        ("tck-stream-001", {"text": "Streamed text content"}),
        ("tck-stream-003", {"text": "Streamed text content"}),
        ("tck-stream-ordering-001", {"text": "Streamed text content"}),
    ],
)
def test_one_artifact(demo: Deployment, prefix: str, part: dict[str, Any]) -> None:
    for sent in both_ways(demo, prefix):
        assert sent.task is not None
        assert sent.task.status.state is TaskState.COMPLETED
        (artifact,) = sent.task.artifacts or []
        (shown,) = json.loads(artifact.wire_json())["parts"]
        if "raw" in part:
            assert b64decode(shown["raw"])
            shown["raw"] = ...
        assert shown == part


def test_chunks(demo: Deployment) -> None:
    for sent in both_ways(demo, "tck-stream-artifact-chunked"):
        assert sent.task is not None
        (artifact,) = sent.task.artifacts or []
        assert [part.text for part in artifact.parts] == ["chunk-1 ", "chunk-2"]


def test_slowly(demo: Deployment) -> None:
    for sent in both_ways(demo, "test-resubscribe-message-id"):
        assert sent.task is not None
        assert sent.task.status.state is TaskState.COMPLETED


def test_the_longest_prefix_counts_and_the_id_goes_before_the_text() -> None:
    assert conformance.behaviour(message(message_id="tck-artifact-file-url-1")) == "tck-artifact-file-url"
    assert conformance.behaviour(message(message_id="tck-artifact-file-1")) == "tck-artifact-file"
    said = message("tck-reject-task", message_id="tck-input-required-1")
    assert conformance.behaviour(said) == "tck-input-required"
    assert conformance.behaviour(message("go")) is None


# Which of them a message is for.


@pytest.mark.parametrize(
    ("text", "skill"),
    [
        ("release 1", "release"),
        ("expense lunch", "expense"),
        ("release", "help"),
        ("Release 1", "help"),
        (" release 1", "help"),
        ("tck-complete-task", "conformance"),
        ("hello", "help"),
        ("", "help"),
    ],
)
def test_a_text_says_which_agent_it_is_for(text: str, skill: str) -> None:
    assert agent.route(message(text), None).id == skill


def test_a_hint_goes_before_the_text() -> None:
    assert agent.route(message("release 1"), "expense").agent == "expense-clerk"


def test_anything_else_gets_a_short_help(demo: Deployment) -> None:
    task = demo.send("what can you do?")
    assert task.status.state is TaskState.COMPLETED
    assert text_of(task) == (
        "Say `release <version>`, `expense <purpose>`, `refund <order> <amount>`, `work <seconds>`, "
        "`stubborn <seconds>`, `delegate <width> <depth> <seconds>`, `sitrep`, `open pr <title>`, "
        "`merge pr <number>`, `deploy <version>` or `publish <title>`."
    )


class TestNewsroom:
    """A skill in each mode (hitl-mode-v1)."""

    def test_what_is_autonomous_or_only_notified_runs(self, demo: Deployment) -> None:
        for text in ("sitrep", "open pr fix the typo"):
            assert demo.send(text).status.state is TaskState.COMPLETED

    def test_a_merge_waits_for_its_window(self, demo: Deployment) -> None:
        task_id = demo.send("merge pr 17").id
        (key,) = demo.due_rows()
        demo.clock.advance(9)
        handle_due(demo.engine, key)
        assert demo.get(task_id).status.state is TaskState.SUBMITTED
        demo.clock.advance(3)
        handle_due(demo.engine, key)
        assert demo.get(task_id).status.state is TaskState.COMPLETED

    def test_a_deployment_waits_for_an_approval(self, demo: Deployment) -> None:
        task = demo.send("deploy 1.2.0")
        assert task.status.message is not None
        assert "This reaches everybody at once." in task.status.message.text
        assert decide(demo, ANN, task.id).status.state is TaskState.COMPLETED

    @pytest.mark.parametrize(
        ("draft", "final", "state"),
        [
            (True, True, TaskState.COMPLETED),
            (True, False, TaskState.REJECTED),
            (False, None, TaskState.REJECTED),
        ],
    )
    def test_a_post_is_looked_at_three_times(
        self, demo: Deployment, draft: bool, final: bool | None, state: TaskState
    ) -> None:
        task = decide(demo, ANN, demo.send("publish why we halt").id)
        for good in (draft, final):
            if good is not None:
                assert task.status.state is TaskState.INPUT_REQUIRED
                task = demo.answer(BEN, task.id, {"good": good})
        assert task.status.state is state
