"""Answers, a cancel, a deadline and a message without an answer, all at once: a prompt has one exit."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from tests.support.backend import Backend
from tests.support.crowd import FULL, at_once, split
from tests.support.twin import AGENT, ANN, BEN, PROMPTS, message
from tests.support.workshop import DEADLINE_SECONDS

from interlock import bootstrap
from interlock.a2a.errors import TaskNotCancelable, UnsupportedOperation
from interlock.a2a.models import CancelTaskRequest, Task, TaskState
from interlock.adapters.clock import SystemClock
from interlock.engine.cancel import cancel_task
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerRefused
from interlock.engine.records import Checkpoint

ROUNDS = 50 if FULL else 6
EXITS = {
    Checkpoint.ANSWERED: "answer",
    Checkpoint.CANCELED: "cancel",
    Checkpoint.EXPIRED: "expire",
    Checkpoint.SUPERSEDED: "go on",
}
REFUSALS = {
    "answer": AnswerRefused,
    "answer too": AnswerRefused,
    "cancel": TaskNotCancelable,
    "go on": UnsupportedOperation,
}
Acts = dict[str, Callable[[], Task | None]]


class Ahead(SystemClock):
    """Of a host for which the deadline has passed, while for the others there is time."""

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=DEADLINE_SECONDS + 1)


def acts_on(backend: Backend, task_id: str) -> Acts:
    """Everything that can close the prompt that is open now, one of each, and two answers."""
    engine = bootstrap.engine()
    (due,) = backend.due_rows()
    late = replace(engine, clock=Ahead())
    request = CancelTaskRequest(id=task_id)
    answer = partial(backend.answer_to, backend.meta(task_id).ask, task_id)
    return {
        "answer": lambda: answer(ANN, {"approved": True}),
        "answer too": lambda: answer(BEN, {"approved": False}),
        "cancel": lambda: cancel_task(engine, AGENT, request, extensions=PROMPTS),
        "expire": lambda: handle_due(late, due),
        "go on": lambda: backend.send(message("never mind", task_id=task_id)),
    }


@pytest.mark.parametrize("others", [(), ("cancel",), ("cancel", "go on")], ids=" ".join)
def test_a_prompt_has_one_exit(backend: Backend, others: tuple[str, ...]) -> None:
    chosen = ("answer", "answer too", "expire", *others)
    for number in range(ROUNDS):
        sent = backend.send("in time, please")
        backend.work()
        acts = acts_on(backend, sent.id)
        # Whoever comes last is not always the same.
        order = [*chosen[number % len(chosen) :], *chosen[: number % len(chosen)]]
        outcomes = dict(zip(order, at_once(*(acts[name] for name in order)), strict=True))

        (prompt,) = backend.prompts(sent.id)
        exit_ = EXITS[prompt.status]
        done = {name for name, outcome in outcomes.items() if not isinstance(outcome, Exception)}
        assert len(done & {"answer", "answer too"}) == (exit_ == "answer"), outcomes
        assert ("go on" in done) == (exit_ == "go on"), outcomes
        # A task that goes on can still be canceled; one whose time is over can not.
        assert ("cancel" in done) == ("cancel" in others and exit_ != "expire"), outcomes
        for name in outcomes.keys() - done:
            assert isinstance(outcomes[name], REFUSALS[name]), outcomes

        meta = backend.meta(sent.id)
        assert meta.ask is None
        if exit_ == "expire":
            assert meta.state == TaskState.FAILED
        else:
            assert meta.state == (TaskState.CANCELED if "cancel" in others else TaskState.WORKING)
        check_at_rest(backend, sent.id)


def check_at_rest(backend: Backend, task_id: str) -> None:
    """What was queued is run if the task goes on, and is taken without effect if it is over."""
    backend.work()
    task, started = backend.get(task_id), backend.started(task_id)
    assert task.status.state.terminal
    assert len(started) == (2 if task.status.state == TaskState.COMPLETED else 1)
    backend.sweep(after=DEADLINE_SECONDS + 1)
    assert backend.work() == 0
    assert (backend.get(task_id), backend.started(task_id)) == (task, started)
    assert backend.run_rows() == []
    assert backend.due_rows() == []
    assert backend.event_numbers(task_id) == list(range(1, backend.meta(task_id).seq + 1))


def test_two_equal_answers_of_one_person_are_one(backend: Backend) -> None:
    """Sent twice, as by a client whose reply was lost while the first was still on its way."""
    for _ in range(ROUNDS):
        sent = backend.send("go")
        backend.work()
        act = partial(
            backend.answer_to, backend.meta(sent.id).ask, sent.id, ANN, {"approved": True}, message_id="again"
        )
        assert split(at_once(act, act, act, act))[1] == []
        backend.work()
        done = backend.get(sent.id)
        assert done.status.state == TaskState.COMPLETED
        assert len(backend.started(sent.id)) == 2
        assert len([sent for sent in done.history or () if sent.message_id == "again"]) == 1
