"""AUTH_REQUIRED: a task waits for a credential, and goes on without a message once it is there."""

from collections.abc import Callable

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    NOBODY,
    OPS,
    PEER,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import A2AError, PermissionDenied, TaskNotFound, UnsupportedOperation
from interlock.a2a.models import Task, TaskState
from interlock.agents import Turn
from interlock.engine.resume import resume_task
from interlock.engine.run_turn import Refused, claim
from interlock.engine.sweep import sweep
from interlock.oversight.principals import Principal


class SignsIn:
    """An agent that needs a credential; each turn notes how it was started."""

    def __init__(self, *, rerun: bool = False) -> None:
        self.turns: list[tuple[bool, bool, str, str]] = []
        self.signed_in = False
        self.deployment = Deployment(running(self.turn, rerun=rerun), at_once=False)

    async def turn(self, turn: Turn) -> None:
        self.turns.append((turn.resumed, turn.answer is None, turn.message.text, turn.effect_key("pay")))
        if self.signed_in:
            await turn.complete("paid")
        else:
            await turn.require_auth("Sign in at https://example.com/sign-in")

    def waits(self) -> str:
        task_id = self.deployment.send("pay").id
        self.deployment.work()
        return task_id


def state(deployment: Deployment, task_id: str) -> TaskState:
    return deployment.meta(task_id).task_state


def test_a_turn_that_needs_a_credential_ends_and_says_what_for() -> None:
    agent = SignsIn()
    task = agent.deployment.get(agent.waits())
    assert task.status.state is TaskState.AUTH_REQUIRED
    assert task.status.message is not None
    assert task.status.message.text == "Sign in at https://example.com/sign-in"
    assert agent.deployment.run_rows() == {}
    assert agent.deployment.prompts(task.id) == []


@pytest.mark.parametrize("text", ["", "  \n"])
def test_what_for_has_to_be_said(text: str) -> None:
    deployment = Deployment(running(nothing), at_once=False)
    task_id = deployment.send().id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    with deployment.unchanged(), pytest.raises(Refused):
        run.require_auth(text)


@pytest.mark.parametrize("who", [AGENT, ANN], ids=["owner", "approver"])
def test_it_goes_on_without_a_message(who: Principal) -> None:
    agent = SignsIn()
    task_id = agent.waits()
    agent.signed_in = True
    resume_task(agent.deployment.engine, who, task_id)
    assert state(agent.deployment, task_id) is TaskState.WORKING
    assert agent.deployment.waker.turns == [("acme", task_id, 2)]
    agent.deployment.work()
    assert state(agent.deployment, task_id) is TaskState.COMPLETED
    assert [turn[:3] for turn in agent.turns] == [(False, True, "pay"), (True, True, "pay")]
    assert len(agent.deployment.get(task_id).history or []) == 2, "the message, and what was asked for"


def test_it_goes_on_with_a_message_of_its_owner() -> None:
    agent = SignsIn()
    task_id = agent.waits()
    agent.signed_in = True
    agent.deployment.send(message("done", task_id=task_id))
    agent.deployment.work()
    assert state(agent.deployment, task_id) is TaskState.COMPLETED
    assert agent.turns[1][:3] == (False, True, "done")


def test_it_may_have_to_wait_again() -> None:
    agent = SignsIn()
    task_id = agent.waits()
    for _ in range(3):
        resume_task(agent.deployment.engine, AGENT, task_id)
        agent.deployment.work()
        assert state(agent.deployment, task_id) is TaskState.AUTH_REQUIRED
    assert len({turn[3] for turn in agent.turns}) == 4, "each turn has effects of its own"


def test_a_turn_after_an_answer_is_resumed_without_it() -> None:
    seen: list[tuple[bool, bool, int]] = []

    async def then(turn: Turn) -> None:
        seen.append((turn.resumed, turn.answer is None, len(turn.answers)))
        if not turn.resumed:
            await turn.require_auth("Sign in")

    deployment = Deployment(asking(then=then), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    deployment.work()
    resume_task(deployment.engine, AGENT, task_id)
    deployment.work()
    assert seen == [(False, False, 1), (True, True, 1)]


def test_a_resumed_turn_that_is_run_again_is_still_resumed() -> None:
    agent = SignsIn(rerun=True)
    task_id = agent.waits()
    resume_task(agent.deployment.engine, AGENT, task_id)
    run = claim(agent.deployment.engine, "acme", task_id, 2)
    assert run is not None
    key = run.meta.inputs
    agent.deployment.waker.turns.clear()
    agent.deployment.clock.advance(60)
    sweep(agent.deployment.engine)
    agent.signed_in = True
    agent.deployment.work()
    assert agent.turns[-1][0] is True
    assert agent.deployment.meta(task_id).inputs == key


@pytest.mark.parametrize(
    ("who", "refused"),
    [
        (PEER, TaskNotFound),
        (SPY, TaskNotFound),
        (NOBODY, TaskNotFound),
        (OPS, PermissionDenied),
    ],
)
def test_nobody_else_may(who: Principal, refused: type[A2AError]) -> None:
    agent = SignsIn()
    task_id = agent.waits()
    with agent.deployment.unchanged(), pytest.raises(refused):
        resume_task(agent.deployment.engine, who, task_id)


def ended(deployment: Deployment) -> str:
    task_id = deployment.send().id
    deployment.work()
    deployment.cancel(task_id)
    return task_id


def asked(deployment: Deployment) -> str:
    task_id = deployment.send().id
    deployment.work()
    return task_id


def at_work(deployment: Deployment) -> str:
    return deployment.send().id


@pytest.mark.parametrize("other", [ended, asked, at_work])
def test_only_a_task_that_waits_for_a_credential_is_resumed(other: Callable[[Deployment], str]) -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = other(deployment)
    with deployment.unchanged(), pytest.raises(UnsupportedOperation):
        resume_task(deployment.engine, AGENT, task_id)


def test_a_task_that_is_not_there_is_not_found() -> None:
    with pytest.raises(TaskNotFound):
        resume_task(Deployment(running(nothing)).engine, AGENT, "gone")


def test_it_can_be_canceled_instead() -> None:
    agent = SignsIn()
    task_id = agent.waits()
    canceled: Task = agent.deployment.cancel(task_id)
    assert canceled.status.state is TaskState.CANCELED
    with pytest.raises(UnsupportedOperation):
        resume_task(agent.deployment.engine, AGENT, task_id)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_resuming_survives_a_lost_reply(lost: str) -> None:
    agent = SignsIn()
    task_id = agent.waits()
    agent.deployment.hook(**{lost: once("write", no_answer)})
    resume_task(agent.deployment.engine, AGENT, task_id)
    assert agent.deployment.waker.turns == [("acme", task_id, 2)]
    assert agent.deployment.meta(task_id).turn == 2


def test_one_of_two_that_resume_at_once_is_told_that_it_goes_on_already() -> None:
    agent = SignsIn()
    task_id = agent.waits()

    def first() -> None:
        resume_task(agent.deployment.engine, ANN, task_id)

    agent.deployment.hook(before=once("write", first))
    with pytest.raises(UnsupportedOperation):
        resume_task(agent.deployment.engine, AGENT, task_id)
    assert agent.deployment.meta(task_id).turn == 2


def test_a_wake_that_is_lost_is_found() -> None:
    agent = SignsIn()
    task_id = agent.waits()
    resume_task(agent.deployment.engine, AGENT, task_id)
    agent.deployment.waker.turns.clear()
    agent.deployment.clock.advance(30)
    sweep(agent.deployment.engine)
    assert agent.deployment.waker.turns == [("acme", task_id, 2)]
