"""CancelTask: decided by one write, whatever the worker is doing."""

from typing import Any

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import InvalidParams, TaskNotCancelable, TaskNotFound
from interlock.a2a.models import TaskState
from interlock.engine.errors import AnswerRefused
from interlock.engine.records import Checkpoint
from interlock.engine.run_turn import TurnStopped, claim
from interlock.oversight.principals import Principal


def test_a_waiting_task_is_canceled_and_its_prompt_closed() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    task = deployment.cancel(task_id)
    assert task.status.state is TaskState.CANCELED
    assert task.status.message is None
    (prompt,) = deployment.prompts(task_id)
    assert (prompt.status, prompt.view) == (Checkpoint.CANCELED, "DONE#acme")
    assert deployment.meta(task_id).ask is None
    with pytest.raises(AnswerRefused):
        deployment.answer(ANN, task_id, {"approved": True}, prompt_id=prompt.ask_id)


def test_a_task_that_nobody_has_begun_is_canceled_and_never_run() -> None:
    ran: list[Any] = []

    async def note(turn: Any) -> None:
        ran.append(turn)

    deployment = Deployment(running(note), at_once=False)
    task_id = deployment.send().id
    deployment.cancel(task_id)
    assert deployment.run_rows() == {}
    deployment.work()
    assert ran == []


def test_a_run_of_a_canceled_task_records_nothing_more() -> None:
    deployment = Deployment(running(nothing), at_once=False)
    task_id = deployment.send().id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    deployment.cancel(task_id)
    with deployment.unchanged("run.wrote_late"):
        with pytest.raises(TurnStopped):
            run.say("still here")
        with pytest.raises(TurnStopped):
            run.finish(TaskState.COMPLETED)
        assert not run.is_held()
        run.renew()
    assert run.stopped.is_set()


def test_a_cancel_again_returns_the_task_and_changes_nothing() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    first = deployment.cancel(task_id)
    with deployment.unchanged():
        assert deployment.cancel(task_id) == first


@pytest.mark.parametrize("how", ["completed", "failed", "rejected"])
def test_a_task_that_ended_otherwise_can_not_be_canceled(how: str) -> None:
    async def end(turn: Any) -> None:
        if how == "failed":
            await turn.fail("no")
        if how == "rejected":
            await turn.reject("no")

    deployment = Deployment(running(end))
    task_id = deployment.send().id
    with deployment.unchanged(), pytest.raises(TaskNotCancelable) as caught:
        deployment.cancel(task_id)
    assert (caught.value.code, caught.value.http_status) == (-32002, 400)
    assert caught.value.metadata == {"taskId": task_id}


@pytest.mark.parametrize("who", [AGENT, ANN, OPS], ids=["the owner", "an approver", "an operator"])
def test_who_may_cancel(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    assert deployment.cancel(task_id, who).status.state is TaskState.CANCELED


@pytest.mark.parametrize("who", [PEER, NOBODY, PLATFORM, SPY], ids=lambda who: f"{who.tenant} {who.id}")
def test_for_others_the_task_is_not_there(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    for unseen in (task_id, "none"):
        with deployment.unchanged(), pytest.raises(TaskNotFound) as caught:
            deployment.cancel(unseen, who)
        assert caught.value.metadata == {"taskId": unseen}


def test_the_tenant_of_a_request_is_the_callers_own() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    with pytest.raises(InvalidParams):
        deployment.cancel(task_id, tenant="other")
    assert deployment.cancel(task_id, tenant="acme").status.state is TaskState.CANCELED


def test_a_cancel_whose_reply_was_lost_is_recognised() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    deployment.hook(after=once("write", no_answer))
    assert deployment.cancel(task_id).status.state is TaskState.CANCELED
    assert deployment.meta(task_id).seq == 4


def test_of_a_cancel_and_an_answer_at_once_both_end_well() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id

    def answered() -> None:
        deployment.answer(ANN, task_id, {"approved": True})

    deployment.hook(before=once("write", answered))
    with pytest.raises(TaskNotCancelable):
        deployment.cancel(task_id)
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED


def test_a_canceled_task_takes_no_message_and_stays_as_it_is() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.send(message(task_id=task_id))
    deployment.cancel(task_id)
    with deployment.unchanged():
        deployment.work()
