"""An agent asks, a person answers, the agent goes on: with the official SDK's client, on both bindings."""

from uuid import UUID

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from tests.support.story import BINDINGS, Caller, Place, artifact_texts, envelope, said

from interlock.oversight import approvals, modes
from interlock.oversight.hitl_prompt import URI

EXPENSE = (("amount", 12.5), ("category", "travel"), ("confirmed", True))


@pytest.fixture
def agent(place: Place, binding: str) -> Caller:
    return place.caller("agent", binding)


@pytest.fixture
def alice(place: Place, binding: str) -> Caller:
    return place.caller("alice", binding)


def test_the_card_says_what_the_agent_is_and_where(place: Place, agent: Caller) -> None:
    card = agent.card()
    assert [(i.protocol_binding, i.protocol_version, i.url) for i in card.supported_interfaces] == [
        (binding, "1.0", place.url) for binding in BINDINGS
    ]
    extensions = [(extension.uri, extension.required) for extension in card.capabilities.extensions]
    assert extensions == [(URI, False), (approvals.URI, False), (modes.URI, False)]
    assert {"release", "expense"} <= {skill.id for skill in card.skills}


def test_a_release_waits_for_a_person_and_goes_on_with_the_answer(agent: Caller, alice: Caller) -> None:
    asked = agent.send("release 1.2.0")
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert said(asked) == "Release 1.2.0?"
    prompt = envelope(asked)
    assert UUID(prompt["prompt_id"]).version == 4
    assert prompt["prompt"] == "Release 1.2.0?"
    assert prompt["response_schema"]["required"] == ["approved"]

    # The prompt is the task's, not the connection's.
    seen = alice.get(asked.id)
    assert envelope(seen) == prompt
    waiting = agent.list(status=pb.TASK_STATE_INPUT_REQUIRED, context_id=asked.context_id)
    assert [(task.id, envelope(task)) for task in waiting.tasks] == [(asked.id, prompt)]

    done = alice.answer(seen, {"approved": True, "comment": "go"})
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert said(done) == "Released 1.2.0."
    assert artifact_texts(done) == ["1.2.0 released, approved by bearer:alice"]
    assert envelope(done) == {}
    assert agent.get(asked.id) == done
    assert agent.list(context_id=asked.context_id).tasks[0].status.state == pb.TASK_STATE_COMPLETED


def test_who_did_not_activate_the_extension_is_asked_in_plain_text(agent: Caller, alice: Caller) -> None:
    asked = agent.without_extensions().send("release 1.2.1")
    assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert said(asked) == "Release 1.2.1?"
    assert not asked.status.message.metadata
    assert not asked.status.message.extensions
    # The envelope is there for who does.
    assert alice.answer(agent.get(asked.id), {"approved": True}).status.state == pb.TASK_STATE_COMPLETED


def test_a_denied_release_is_rejected_with_the_reason(agent: Caller, alice: Caller) -> None:
    asked = agent.send("release 1.3.0")
    denied = alice.answer(asked, {"approved": False, "comment": "not on a Friday"})
    assert denied.status.state == pb.TASK_STATE_REJECTED
    assert said(denied) == "1.3.0 was not released: not on a Friday"
    assert not denied.artifacts


def test_the_owner_may_answer_its_own_prompt(agent: Caller) -> None:
    done = agent.answer(agent.send("release 1.3.1"), {"approved": True})
    assert artifact_texts(done) == ["1.3.1 released, approved by bearer:agent"]


def test_an_answer_that_breaks_the_schema_leaves_the_prompt_open(agent: Caller, alice: Caller) -> None:
    asked = agent.send("release 1.3.2")
    with pytest.raises(sdk.A2AError, match=r"-32011|422"):
        alice.answer(asked, {"approved": "yes please", "extra": 42.5})
    assert agent.get(asked.id) == asked
    assert alice.answer(asked, {"approved": True}).status.state == pb.TASK_STATE_COMPLETED
    with pytest.raises(sdk.A2AError, match=r"-32010|409"):
        alice.answer(asked, {"approved": True})


def test_the_expense_clerk_asks_one_thing_after_the_other(
    place: Place, binding: str, agent: Caller, alice: Caller
) -> None:
    task = agent.send("expense taxi to the airport")
    prompts = []
    for answering, (name, value) in zip((alice, agent, place.caller("bob", binding)), EXPENSE, strict=True):
        assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        prompt = envelope(task)
        assert prompt["response_schema"]["required"] == [name]
        prompts.append(prompt["prompt_id"])
        task = answering.answer(task, {name: value})
    assert len(set(prompts)) == len(EXPENSE)
    assert task.status.state == pb.TASK_STATE_COMPLETED
    assert said(task) == "Booked 12.5 euros for taxi to the airport under travel."
    (booking,) = [part.data.struct_value for artifact in task.artifacts for part in artifact.parts]
    assert (booking["amount"], booking["category"]) == (12.5, "travel")


def test_a_canceled_task_takes_no_answer(agent: Caller, alice: Caller) -> None:
    asked = agent.send("release 1.4.0")
    assert agent.cancel(asked.id).status.state == pb.TASK_STATE_CANCELED
    with pytest.raises(sdk.A2AError, match=r"-32010|409"):
        alice.answer(asked, {"approved": True})
    canceled = agent.get(asked.id)
    assert canceled.status.state == pb.TASK_STATE_CANCELED
    assert not canceled.artifacts
    assert agent.cancel(asked.id) == canceled


def test_a_plain_message_goes_on_without_an_answer_and_closes_the_prompt(
    agent: Caller, alice: Caller
) -> None:
    asked = agent.send("release 1.5.0")
    again = agent.send("what about it?", task_id=asked.id)
    assert again.status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert envelope(again)["prompt_id"] != envelope(asked)["prompt_id"]
    with pytest.raises(sdk.A2AError, match=r"-32010|409"):
        alice.answer(asked, {"approved": True})
    assert alice.answer(again, {"approved": True}).status.state == pb.TASK_STATE_COMPLETED


def test_a_send_that_does_not_wait_returns_the_task_as_it_is(agent: Caller) -> None:
    sent = agent.send("release 1.6.0", immediately=True)
    assert sent.status.state in (
        pb.TASK_STATE_SUBMITTED,
        pb.TASK_STATE_WORKING,
        pb.TASK_STATE_INPUT_REQUIRED,
    )
    assert agent.settled(sent.id).status.state == pb.TASK_STATE_INPUT_REQUIRED


def test_anything_else_gets_help(agent: Caller) -> None:
    helped = agent.send("what can you do?")
    assert helped.status.state == pb.TASK_STATE_COMPLETED
    assert "release" in said(helped)


def test_a_hint_names_the_skill(agent: Caller) -> None:
    asked = agent.send("2.0.0", metadata={"skillHint": "release"})
    assert said(asked) == "Release 2.0.0?"
