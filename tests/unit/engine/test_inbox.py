"""The inbox: what waits for a person of the tenant, the most urgent first."""

from datetime import timedelta
from uuid import uuid4

import pytest
from tests.support.approvals import ACTION, DIGEST, asking_leave, decide
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    BEN,
    CAROL,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    SPY,
    Deployment,
    asking,
    running,
)

from interlock.a2a.errors import InvalidParams, PermissionDenied, TaskNotFound
from interlock.agents import Turn
from interlock.engine.due import handle_due
from interlock.engine.inbox import checkpoint, history, open_checkpoints
from interlock.engine.records import Checkpoint
from interlock.oversight.approvals import Gate
from interlock.oversight.principals import Principal

YES = {"approved": True}


async def asks_by_its_text(turn: Turn) -> None:
    """`<minutes>` or `never`."""
    if turn.answer is None:
        deadline = None if turn.text == "never" else timedelta(minutes=int(turn.text))
        await turn.ask(f"{turn.text}?", deadline=deadline)


def prompts(deployment: Deployment, who: Principal = ANN, limit: int = 50) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        questions, cursor = open_checkpoints(deployment.engine, who, cursor, limit)
        assert len(questions) <= limit
        found += [question.envelope.prompt for question in questions]
        if cursor is None:
            return found


def test_open_prompts_come_by_deadline_and_those_without_one_last() -> None:
    deployment = Deployment(running(asks_by_its_text))
    for text in ("9", "never", "2", "30", "1"):
        deployment.send(text)
    assert prompts(deployment) == ["1?", "2?", "9?", "30?", "never?"]


def test_an_answered_prompt_is_not_in_the_inbox() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    assert prompts(deployment) == ["Go on?"]
    deployment.answer(ANN, task_id, YES)
    assert prompts(deployment) == []


def test_the_inbox_goes_on_over_pages() -> None:
    deployment = Deployment(asking())
    for _ in range(5):
        deployment.send()
    assert len(prompts(deployment, limit=2)) == 5


def test_a_cursor_that_is_none_is_refused() -> None:
    deployment = Deployment(asking())
    with pytest.raises(InvalidParams):
        open_checkpoints(deployment.engine, ANN, "x")


def test_a_cursor_of_another_tenant_is_refused() -> None:
    deployment = Deployment(asking())
    deployment.send()
    deployment.send()
    _, cursor = open_checkpoints(deployment.engine, ANN, None, 1)
    assert cursor is not None
    with pytest.raises(InvalidParams):
        open_checkpoints(deployment.engine, SPY, cursor)


@pytest.mark.parametrize("who", [ANN, OPS], ids=["an approver", "an operator"])
def test_the_inbox_is_of_the_whole_tenant_and_of_no_other(who: Principal) -> None:
    deployment = Deployment(asking())
    deployment.send("go", AGENT)
    deployment.send("go", PEER)
    assert len(prompts(deployment, who)) == 2
    assert prompts(deployment, SPY) == []


@pytest.mark.parametrize("who", [AGENT, NOBODY, PLATFORM], ids=lambda who: who.id)
def test_others_have_no_inbox(who: Principal) -> None:
    deployment = Deployment(asking())
    with pytest.raises(PermissionDenied):
        open_checkpoints(deployment.engine, who, None)


def test_a_question_says_how_many_have_answered_and_how_many_must() -> None:
    deployment = Deployment(asking(allowed_responders=["consensus:3"]))
    task_id = deployment.send().id
    deployment.answer(ANN, task_id, YES)
    deployment.answer(BEN, task_id, {"approved": False})
    ((question,), _) = open_checkpoints(deployment.engine, ANN, None)
    assert (len(question.votes), question.envelope.responders.needed) == (2, 3)
    assert question.envelope.response_schema == APPROVAL
    assert question.checkpoint.requested_by == AGENT.id


def test_one_checkpoint_is_shown_also_after_it_was_closed() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)
    for status in (Checkpoint.OPEN, Checkpoint.ANSWERED):
        question = checkpoint(deployment.engine, OPS, task_id, prompt_id)
        assert question.checkpoint.status == status
        deployment.answer(ANN, task_id, YES, prompt_id=prompt_id, message_id="m-1")


@pytest.mark.parametrize("who", [AGENT, ANN, OPS, NOBODY], ids=lambda who: who.id)
def test_a_checkpoint_is_seen_by_owner_approver_operator_and_whom_it_names(who: Principal) -> None:
    deployment = Deployment(asking(allowed_responders=[f"specific:{NOBODY.id}"]))
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)
    assert checkpoint(deployment.engine, who, task_id, prompt_id).envelope.prompt == "Go on?"


def test_a_request_says_what_leave_is_asked_for_and_who_has_given_it() -> None:
    deployment = Deployment(asking_leave(quorum=2))
    task_id = deployment.send().id
    decide(deployment, ANN, task_id)
    ((question,), _) = open_checkpoints(deployment.engine, BEN, None)
    assert question.asked is not None
    assert (question.asked.action, question.asked.digest) == (ACTION, DIGEST)
    assert (question.approved_by, question.asked.gate.quorum) == ((ANN.id,), 2)


def test_a_request_of_an_isolated_task_is_seen_by_its_owner_alone() -> None:
    gate = Gate(frozenset({CAROL.id, BEN.id}), self_approval=True)
    deployment = Deployment(asking_leave(isolated=True, gate=gate))
    task_id = deployment.send(who=CAROL).id
    request_id = deployment.open_prompt(task_id)
    assert checkpoint(deployment.engine, CAROL, task_id, request_id).asked is not None
    for who in (ANN, BEN, OPS, AGENT):
        with pytest.raises(TaskNotFound):
            checkpoint(deployment.engine, who, task_id, request_id)
    assert prompts(deployment) == []


@pytest.mark.parametrize("who", [PEER, NOBODY, PLATFORM, SPY], ids=lambda who: f"{who.tenant} {who.id}")
def test_for_others_it_is_as_if_it_were_not_there(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    for prompt_id in (deployment.open_prompt(task_id), str(uuid4())):
        with pytest.raises(TaskNotFound) as caught:
            checkpoint(deployment.engine, who, task_id, prompt_id)
        assert caught.value.metadata == {"taskId": task_id}


# The history.


def closed(deployment: Deployment, limit: int = 50, who: Principal = ANN) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        questions, cursor = history(deployment.engine, who, cursor, limit)
        assert len(questions) <= limit
        found += [f"{one.envelope.prompt} {one.checkpoint.status}" for one in questions]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_what_is_closed_is_in_the_history_the_newest_first_and_not_in_the_inbox(limit: int) -> None:
    deployment = Deployment(running(asks_by_its_text))
    tasks = {text: deployment.send(text).id for text in ("1", "2", "3", "9")}
    deployment.clock.advance(1)
    deployment.answer(ANN, tasks["2"], {"text": "yes"})
    deployment.clock.advance(1)
    deployment.cancel(tasks["3"])
    deployment.clock.advance(58)
    (due,) = [key for key, item in deployment.due_rows().items() if item["task_id"] == tasks["1"]]
    handle_due(deployment.engine, due)
    assert closed(deployment, limit) == ["1? expired", "3? canceled", "2? answered"]
    assert prompts(deployment) == ["9?"]
    assert closed(deployment, who=SPY) == []


def test_nobody_sees_an_isolated_task_in_the_history() -> None:
    deployment = Deployment(asking_leave(gate=Gate(self_approval=True), isolated=True))
    task_id = deployment.send("go", CAROL).id
    decide(deployment, CAROL, task_id)
    (found,) = deployment.prompts(task_id)
    assert (found.status, found.view) == (Checkpoint.APPROVED, None)
    assert closed(deployment) == []


@pytest.mark.parametrize("who", [AGENT, NOBODY, PLATFORM], ids=lambda who: who.id)
def test_others_have_no_history(who: Principal) -> None:
    with pytest.raises(PermissionDenied):
        history(Deployment(asking()).engine, who, None)


def test_a_cursor_of_the_inbox_is_none_of_the_history() -> None:
    deployment = Deployment(asking())
    deployment.send()
    deployment.send()
    _, cursor = open_checkpoints(deployment.engine, ANN, None, 1)
    with pytest.raises(InvalidParams):
        history(deployment.engine, ANN, cursor)
