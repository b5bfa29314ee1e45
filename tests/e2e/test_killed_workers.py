"""A worker killed at any point of a turn leaves no task stuck: it goes on, or it ends with the reason."""

import os
import signal
import time
from pathlib import Path

import pytest
from tests.support.backend import LEASE_SECONDS, WAKE_AGAIN_SECONDS, Backend, running_backend
from tests.support.emulator import Emulator
from tests.support.story import eventually
from tests.support.twin import ANN

from interlock.a2a.models import Task, TaskState
from interlock.engine.records import Checkpoint
from interlock.engine.sweep import LOST

FIRST_TURN = {
    "received": "its message was received, and nothing was done",
    "1": "the turn was claimed",
    "2": "the agent has said something",
    "agent": "the agent's code is at work",
    "3": "the question was asked, and the message was not deleted",
}
NEXT_TURN = {
    "received": "its message was received, and nothing was done",
    "1": "the turn was claimed",
    "2": "the agent has added an artifact",
    "3": "the task was completed, and the message was not deleted",
}
LOST_AT = ("1", "2", "agent")
"""Points between the claim and the end of the turn."""
SHORT_LEASE = 9
GIVEN_UP = LEASE_SECONDS + 1


def asked(backend: Backend, text: str = "go") -> Task:
    """A task that waits for an answer."""
    task = backend.send(text)
    backend.work()
    assert backend.meta(task.id).state == TaskState.INPUT_REQUIRED
    return task


def recover(backend: Backend) -> None:
    """What the others do once nobody hears of the worker any more."""
    backend.sweep(after=GIVEN_UP)
    # The message that the dead held comes back by itself.
    eventually(lambda: not backend.work() and not backend.messages("TurnsQueue"))


def check_at_rest(backend: Backend, task_id: str) -> Task:
    """Nothing is left over, the log has no gap, and another sweep changes nothing."""
    task, meta = backend.get(task_id), backend.meta(task_id)
    assert backend.run_rows() == []
    assert len(backend.prompts(task_id)) - bool(meta.ask) == sum(
        prompt.status != Checkpoint.OPEN for prompt in backend.prompts(task_id)
    )
    backend.sweep(after=GIVEN_UP)
    backend.work()
    assert backend.get(task_id) == task
    return task


@pytest.mark.parametrize("point", FIRST_TURN, ids=lambda point: FIRST_TURN[point])
def test_a_first_turn_whose_worker_is_killed(backend: Backend, point: str) -> None:
    sent = backend.send("go")
    backend.kill_worker(point)
    recover(backend)
    task = check_at_rest(backend, sent.id)
    if point in LOST_AT:
        assert task.status.state == TaskState.FAILED
        assert task.status.message is not None
        assert task.status.message.text == LOST
        assert backend.prompts(sent.id) == []
    else:
        assert task.status.state == TaskState.INPUT_REQUIRED
        assert backend.answer(ANN, sent.id, {"approved": True}).status.state == TaskState.WORKING
        backend.work()
        assert backend.get(sent.id).status.state == TaskState.COMPLETED


@pytest.mark.parametrize("point", NEXT_TURN, ids=lambda point: NEXT_TURN[point])
def test_an_answered_turn_whose_worker_is_killed(backend: Backend, point: str) -> None:
    sent = asked(backend)
    backend.answer(ANN, sent.id, {"approved": True, "comment": "go"})
    backend.kill_worker(point)
    recover(backend)
    task = check_at_rest(backend, sent.id)
    # The answer stays on the task, whatever became of its turn.
    (prompt,) = backend.prompts(sent.id)
    assert prompt.status == Checkpoint.ANSWERED
    if point in LOST_AT:
        assert task.status.state == TaskState.FAILED
        assert task.status.message is not None
        assert task.status.message.text == LOST
    else:
        assert task.status.state == TaskState.COMPLETED
        assert task.artifacts is not None
        assert [part.data for part in task.artifacts[0].parts] == [{"approved": True, "comment": "go"}]
    # Once for the question, once for the answer.
    assert len(backend.started(sent.id)) == (1 if point == "1" else 2)


@pytest.mark.parametrize("point", ["1", "agent"], ids=lambda point: FIRST_TURN[point])
def test_a_skill_that_may_be_run_again_is(backend: Backend, point: str) -> None:
    sent = backend.send("repeat this")
    backend.kill_worker(point)
    recover(backend)
    task = check_at_rest(backend, sent.id)
    assert task.status.state == TaskState.INPUT_REQUIRED
    started = backend.started(sent.id)
    assert len(started) == (1 if point == "1" else 2)
    # What it does outside has the same key in both runs.
    assert len(set(started)) == 1


@pytest.mark.parametrize("text", ["go", "repeat this"])
def test_a_worker_that_was_only_slow_records_nothing_more(
    emulator: Emulator, tmp_path: Path, text: str
) -> None:
    with running_backend(emulator, tmp_path, visibility=60) as backend:
        sent = backend.send(text)
        with backend.halted_worker("agent") as worker:
            backend.sweep(after=GIVEN_UP)
            given_up, again = backend.get(sent.id), backend.lose_messages()
            assert given_up.status.message is not None
            assert given_up.status.message.text == LOST
            os.kill(worker.pid, signal.SIGCONT)
            # It goes on to ask its question, is refused, and is done with the message.
            eventually(lambda: not backend.messages("TurnsQueue"))
        assert backend.get(sent.id) == given_up
        assert backend.prompts(sent.id) == []
        if again:
            backend.sweep(after=GIVEN_UP + WAKE_AGAIN_SECONDS + 1)
            backend.work()
            assert len(backend.prompts(sent.id)) == 1
        assert again == (given_up.status.state == TaskState.WORKING)


def failed(backend: Backend, task_id: str) -> bool:
    backend.sweep()
    return backend.meta(task_id).state == TaskState.FAILED


def test_a_lease_is_renewed_for_as_long_as_the_worker_lives(emulator: Emulator, tmp_path: Path) -> None:
    with running_backend(emulator, tmp_path, INTERLOCK_LEASE_SECONDS=str(SHORT_LEASE)) as backend:
        sent = backend.send("be busy")
        with backend.worker():
            eventually(lambda: backend.started(sent.id))
            until = time.monotonic() + SHORT_LEASE + 1
            while time.monotonic() < until:
                backend.sweep()
                assert backend.meta(sent.id).state == TaskState.WORKING
        eventually(lambda: failed(backend, sent.id))
        assert backend.run_rows() == []
