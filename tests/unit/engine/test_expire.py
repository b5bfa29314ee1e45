"""Deadlines: a timer wakes, the write decides, and a prompt whose time is over ends its task FAILED."""

from datetime import timedelta
from typing import Any

import pytest
from tests.support.twin import ANN, Deployment, asking, message, no_answer, once

from interlock.a2a.models import TaskState
from interlock.agents import Turn
from interlock.engine.due import handle_due
from interlock.engine.ports import Key
from interlock.engine.records import Checkpoint

MINUTE = timedelta(minutes=1)


def waiting(at_once: bool = True, **options: Any) -> tuple[Deployment, str, Key]:
    """A deployment, a task that waits for an answer until a minute has passed, and its due row."""
    deployment = Deployment(asking(deadline=MINUTE, **options))
    task_id = deployment.send().id
    (key,) = deployment.due_rows()
    return deployment, task_id, key


def test_a_deadline_is_stored_with_the_prompt_and_armed() -> None:
    deployment, task_id, key = waiting()
    (prompt,) = deployment.prompts(task_id)
    assert prompt.due_key == key
    assert deployment.waker.timers == [(key, deployment.clock.now() + MINUTE)]


def test_a_prompt_without_a_deadline_has_no_timer() -> None:
    deployment = Deployment(asking())
    deployment.send()
    assert deployment.due_rows() == {}
    assert deployment.waker.timers == []


def test_when_the_time_is_over_the_task_fails_and_nothing_is_run() -> None:
    ran: list[Turn] = []

    async def note(turn: Turn) -> None:
        ran.append(turn)

    deployment, task_id, key = waiting(then=note)
    deployment.clock.advance(60)
    handle_due(deployment.engine, key)
    task = deployment.get(task_id)
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert "nothing was run" in task.status.message.text
    (prompt,) = deployment.prompts(task_id)
    assert (prompt.status, prompt.view, prompt.winner) == (Checkpoint.EXPIRED, "DONE#acme", None)
    assert deployment.due_rows() == deployment.run_rows() == {}
    assert ran == []
    assert deployment.meta(task_id).ask is None


def test_a_timer_that_comes_early_is_armed_again_and_changes_nothing() -> None:
    deployment, _, key = waiting()
    deployment.clock.advance(59)
    deployment.waker.timers.clear()
    with deployment.unchanged():
        handle_due(deployment.engine, key)
    assert deployment.waker.timers == [(key, deployment.clock.now() + timedelta(seconds=1))]


def test_a_timer_that_comes_twice_or_for_nothing_does_nothing() -> None:
    deployment, _, key = waiting()
    deployment.clock.advance(60)
    handle_due(deployment.engine, key)
    with deployment.unchanged():
        handle_due(deployment.engine, key)
        handle_due(deployment.engine, Key("DUE#00", "nothing"))


@pytest.mark.parametrize("exit_", ["answer", "cancel", "message"])
def test_the_timer_of_a_prompt_that_was_closed_only_deletes_its_row(exit_: str) -> None:
    deployment, task_id, key = waiting()
    if exit_ == "answer":
        deployment.answer(ANN, task_id, {"approved": True})
    elif exit_ == "cancel":
        deployment.cancel(task_id)
    else:
        deployment.send(message(task_id=task_id))
    before = deployment.rows()
    deployment.clock.advance(60)
    handle_due(deployment.engine, key)
    assert deployment.rows() == {row: item for row, item in before.items() if row != key}


def test_a_prompt_that_is_not_the_first_of_its_task_expires_as_well() -> None:
    async def ask_again(turn: Turn) -> None:
        await turn.ask("And now?", deadline=MINUTE)

    deployment, task_id, _ = waiting(then=ask_again)
    deployment.clock.advance(30)
    deployment.answer(ANN, task_id, {"approved": True})
    first, second = sorted(deployment.due_rows(), key=lambda key: key.sk)
    deployment.clock.advance(30)
    handle_due(deployment.engine, first)
    assert deployment.meta(task_id).task_state is TaskState.INPUT_REQUIRED
    deployment.clock.advance(30)
    handle_due(deployment.engine, second)
    assert deployment.meta(task_id).task_state is TaskState.FAILED


def test_an_answer_that_comes_first_wins_over_the_expiry() -> None:
    deployment, task_id, key = waiting()

    def answered_in_time() -> None:
        deployment.clock.advance(-1)
        deployment.answer(ANN, task_id, {"approved": True})
        deployment.clock.advance(1)

    deployment.clock.advance(60)
    deployment.hook(before=once("write", answered_in_time))
    handle_due(deployment.engine, key)
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED
    assert deployment.due_rows() == {}


def test_a_cancel_between_the_two_reads_of_a_try_leaves_the_cancel_as_it_is() -> None:
    deployment, task_id, key = waiting()
    deployment.clock.advance(60)
    deployment.hook(after=once("get_many", lambda: deployment.cancel(task_id)))
    handle_due(deployment.engine, key)
    assert deployment.meta(task_id).task_state is TaskState.CANCELED
    assert deployment.due_rows() == {}


def test_an_expiry_whose_reply_was_lost_is_made_once() -> None:
    deployment, task_id, key = waiting()
    deployment.clock.advance(60)
    deployment.hook(after=once("write", no_answer))
    handle_due(deployment.engine, key)
    assert deployment.meta(task_id).seq == 4
    assert deployment.due_rows() == {}


def test_an_ask_whose_reply_was_lost_is_asked_once_and_armed() -> None:
    deployment = Deployment(asking(deadline=MINUTE), at_once=False)
    task_id = deployment.send().id
    writes = 0

    def lose(operation: str, arguments: tuple[Any, ...]) -> None:
        nonlocal writes
        writes += operation == "write"
        if operation == "write" and writes == 2:
            no_answer()

    deployment.hook(after=lose)
    deployment.work()
    assert len(deployment.prompts(task_id)) == 1
    assert len(deployment.waker.timers) == 1
    assert deployment.meta(task_id).task_state is TaskState.INPUT_REQUIRED
