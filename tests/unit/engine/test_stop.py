"""Stopping a turn: what waits ends at once, what runs is fenced off and told, and neither touches another."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.halt_records import facts, report
from tests.support.halting import REASON, halt, run_of, walk_all
from tests.support.twin import ANN, Deployment, asking, message, no_answer, nothing, once, running

from interlock.a2a.models import Task, TaskState
from interlock.agents import Turn
from interlock.engine.context import Limits
from interlock.engine.facts import RUN_STOPPING, RUN_WROTE_LATE
from interlock.engine.halts import Halted
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import Run, SendKey
from interlock.engine.run_turn import (
    TurnAbandoned,
    TurnRun,
    TurnStopped,
    TurnTimedOut,
    claim,
    run_turn,
    start,
)
from interlock.engine.stop import ABANDONED, back_out, finish_stop, stop_turn
from interlock.engine.sweep import sweep

SEND_KEY = "a-key-of-the-caller-0001"


def queued(**options: Any) -> tuple[Deployment, Run]:
    """A task whose first turn waits for a worker."""
    deployment = Deployment(running(nothing), at_once=False, **options)
    return deployment, run_of(deployment, deployment.send(key=SEND_KEY).id)


def started() -> tuple[Deployment, TurnRun]:
    """A task whose first turn runs, without an eye on halts."""
    deployment, seen = queued()
    run = start(deployment.engine, "acme", seen.task_id, 1)
    assert run is not None
    return deployment, run


def stopped() -> tuple[Deployment, TurnRun]:
    """The same, once a halt has stopped it."""
    deployment, run = started()
    halt(deployment)
    walk_all(deployment)
    return deployment, run


def said(task: Task) -> str:
    assert task.status.message is not None
    return task.status.message.text


def has_key(deployment: Deployment) -> bool:
    return SendKey.key_of("acme", "bearer:agent", SEND_KEY) in deployment.rows()


# A turn that waits for a worker.


def test_a_first_turn_that_waits_ends_its_task_and_frees_its_key() -> None:
    deployment, seen = queued()
    stop_turn(deployment.engine, seen, REASON)
    task = deployment.get(seen.task_id)
    assert (task.status.state, said(task)) == (TaskState.CANCELED, f"halted: {REASON}")
    meta = deployment.meta(seen.task_id)
    assert (meta.halted, meta.withdrawn) == (True, True)
    assert deployment.run_rows() == {}
    assert not has_key(deployment)


def test_a_key_that_names_another_task_by_now_stays() -> None:
    deployment, seen = queued()
    key = SendKey.key_of("acme", "bearer:agent", SEND_KEY)
    stop_turn(deployment.engine, seen, REASON)
    again = deployment.send(key=SEND_KEY)
    kept = deployment.rows()[key]
    back_out(deployment.engine, deployment.meta(seen.task_id), REASON, None)
    assert deployment.rows()[key] == kept
    assert kept["task_id"] == again.id


def test_a_later_turn_that_waits_ends_its_task_and_its_key_stays() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send(key=SEND_KEY).id
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    stop_turn(deployment.engine, run_of(deployment, task_id), REASON)
    meta = deployment.meta(task_id)
    assert (meta.task_state, meta.halted, meta.withdrawn) == (TaskState.CANCELED, True, False)
    assert has_key(deployment)


# A turn that runs.


def test_a_turn_that_runs_is_fenced_at_once_and_its_task_goes_on_until_it_ends() -> None:
    deployment, run = started()
    fence = deployment.meta(run.meta.task_id).fence
    halted = halt(deployment)
    walk_all(deployment)
    meta, row = deployment.meta(run.meta.task_id), run_of(deployment, run.meta.task_id)
    assert (meta.task_state, meta.fence) == (TaskState.WORKING, fence + 1)
    assert (row.phase, row.reason, row.stopped_by) == (Run.STOPPING, REASON, halted.name)
    assert row.grace_until == "2026-01-01T12:00:15.000000Z"
    (noted,) = report(deployment)
    assert (noted.started, noted.ended_at, noted.abandoned_at) == (True, None, None)
    (fact,) = facts(deployment, RUN_STOPPING)
    assert fact["detail"] == {"reason": REASON, "halt": halted.name}


def writes(run: TurnRun) -> dict[str, Callable[[], Any]]:
    return {
        "says": lambda: run.say("going on"),
        "completes": lambda: run.finish(TaskState.COMPLETED, "done"),
        "asks": lambda: run.ask("Go on?", {"type": "object"}),
        "waits for a credential": lambda: run.require_auth("sign in"),
    }


@pytest.mark.parametrize("write", ["says", "completes", "asks", "waits for a credential"])
def test_a_run_that_was_stopped_records_nothing_but_that_it_tried(write: str) -> None:
    deployment, run = stopped()
    with deployment.unchanged(RUN_WROTE_LATE), pytest.raises(TurnStopped):
        writes(run)[write]()
    assert run.stopped.is_set()
    (fact,) = facts(deployment, RUN_WROTE_LATE)
    assert fact["taskId"] == run.meta.task_id
    with deployment.unchanged(), pytest.raises(TurnStopped):
        run.say("again")


@pytest.mark.parametrize("fan_out", [True, False])
def test_a_run_sees_that_it_was_stopped_with_or_without_the_fan_out(fan_out: bool) -> None:
    deployment, run = started()
    assert run.is_held()
    halted = halt(deployment)
    if fan_out:
        walk_all(deployment)
    assert not run.is_held()
    assert run.stopped.is_set()
    assert run_of(deployment, run.meta.task_id).stopped_by == halted.name
    assert [row.task_id for row in report(deployment)] == [run.meta.task_id]


def test_a_run_that_can_not_read_the_halt_state_for_a_moment_goes_on() -> None:
    deployment, run = started()
    deployment.hook(before=lambda name, _: no_answer() if name == "get_many" else None)
    assert run.is_held()
    assert not run.stopped.is_set()


def test_a_lease_that_is_renewed_late_does_not_bring_a_stopped_turn_back() -> None:
    deployment, run = stopped()
    with deployment.unchanged():
        run.renew()


def test_a_stop_is_noted_once_however_often_it_comes() -> None:
    deployment, run = stopped()
    row = run_of(deployment, run.meta.task_id)
    with deployment.unchanged():
        stop_turn(deployment.engine, row, "another")
        run.is_held()


# What a stop must not touch.


def test_a_stop_of_an_earlier_turn_leaves_a_later_one_alone() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    first = run_of(deployment, task_id)
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    with deployment.unchanged():
        stop_turn(deployment.engine, first, REASON)
    deployment.work()
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED


def test_a_stop_of_a_turn_that_waits_for_a_person_by_now_leaves_the_task_alone() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    seen = run_of(deployment, task_id)
    deployment.work()
    with deployment.unchanged():
        stop_turn(deployment.engine, seen, REASON)
    assert deployment.meta(task_id).task_state is TaskState.INPUT_REQUIRED


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED])
def test_a_turn_that_ends_between_the_reading_and_the_stop_has_ended(state: TaskState) -> None:
    deployment, run = started()
    seen = run_of(deployment, run.meta.task_id)

    def ends() -> None:
        if state is TaskState.CANCELED:
            deployment.cancel(seen.task_id)
        else:
            run.finish(state)

    deployment.hook(before=once("write", ends))
    stop_turn(deployment.engine, seen, REASON, halt_of_record(deployment))
    assert deployment.meta(seen.task_id).task_state is state
    assert deployment.run_rows() == {}


def halt_of_record(deployment: Deployment) -> Any:
    """A halt that the hooks of the test do not see."""
    hooks, deployment.hooks.before = deployment.hooks.before, lambda name, arguments: None
    found = halt(deployment)
    deployment.hooks.before = hooks
    return found


def test_a_turn_that_is_claimed_between_the_reading_and_the_stop_is_stopped_as_one_that_runs() -> None:
    deployment, seen = queued()
    halted = halt_of_record(deployment)
    runs: list[Any] = []

    def claims() -> None:
        runs.append(claim(deployment.engine, "acme", seen.task_id, 1))

    deployment.hook(before=once("write", claims))
    stop_turn(deployment.engine, seen, REASON, halted)
    assert run_of(deployment, seen.task_id).phase == Run.STOPPING
    assert [row.started for row in report(deployment)] == [True]
    with pytest.raises(TurnStopped):
        runs[0].say("going on")


@pytest.mark.parametrize("lost", ["before", "after"])
@pytest.mark.parametrize("claimed", [False, True])
def test_a_stop_whose_reply_is_lost_is_done_once(lost: str, claimed: bool) -> None:
    if claimed:
        deployment, run = started()
        seen = run_of(deployment, run.meta.task_id)
    else:
        deployment, seen = queued()
    halted = halt(deployment)
    deployment.hook(**{lost: once("write", no_answer)})
    stop_turn(deployment.engine, seen, REASON, halted)
    deployment.hook()
    assert len(report(deployment)) == 1
    if claimed:
        assert run_of(deployment, seen.task_id).phase == Run.STOPPING
    else:
        assert deployment.meta(seen.task_id).task_state is TaskState.CANCELED


# How the task of a stopped turn ends.


class Halting:
    """Implements `Executor`: halts while the code runs, which then goes on as the script says."""

    def __init__(self, deployment: Deployment, script: Callable[[TurnRun], None]) -> None:
        self.deployment = deployment
        self.script = script

    def execute(self, run: TurnRun, seconds: float) -> None:
        halt(self.deployment)
        self.script(run)


def raising(error: BaseException) -> Callable[[TurnRun], None]:
    def script(run: TurnRun) -> None:
        assert not run.is_held()
        raise error

    return script


def ignores(run: TurnRun) -> None:
    """Tries to complete all the same."""
    assert not run.is_held()
    run.finish(TaskState.COMPLETED, "done")


def does_nothing(run: TurnRun) -> None:
    assert not run.is_held()


@pytest.mark.parametrize(
    "script",
    [does_nothing, ignores, raising(TurnStopped()), raising(ValueError("its own"))],
    ids=["returns", "completes", "stops", "raises"],
)
def test_code_that_returns_has_its_task_ended_canceled_and_confirmed(
    script: Callable[[TurnRun], None],
) -> None:
    deployment, seen = queued()
    run_turn(deployment.engine, Halting(deployment, script), "acme", seen.task_id, 1, 60)
    task = deployment.get(seen.task_id)
    assert (task.status.state, said(task)) == (TaskState.CANCELED, f"halted: {REASON}")
    assert deployment.meta(seen.task_id).halted
    assert deployment.run_rows() == {}
    (row,) = report(deployment)
    assert (row.started, row.ended_at is not None, row.abandoned_at) == (True, True, None)
    # Its first turn ran, so the send was accepted.
    assert has_key(deployment)


def test_code_that_does_not_end_has_its_task_ended_canceled_and_is_reported_as_asked_only() -> None:
    deployment, seen = queued()
    executor = Halting(deployment, raising(TurnAbandoned()))
    run_turn(deployment.engine, executor, "acme", seen.task_id, 1, 60)
    task = deployment.get(seen.task_id)
    assert (task.status.state, said(task)) == (TaskState.CANCELED, f"halted: {REASON}. {ABANDONED}")
    (row,) = report(deployment)
    assert (row.started, row.ended_at, row.abandoned_at is not None) == (True, None, True)


def test_a_worker_that_is_lost_after_the_stop_is_waited_for_until_the_grace_is_over() -> None:
    deployment, run = stopped()
    deployment.clock.advance(14)
    with deployment.unchanged():
        assert sweep(deployment.engine) == 0
    deployment.clock.advance(1)
    assert sweep(deployment.engine) == 0
    task = deployment.get(run.meta.task_id)
    assert (task.status.state, said(task)) == (TaskState.CANCELED, f"halted: {REASON}. {ABANDONED}")
    assert deployment.run_rows() == {}
    (row,) = report(deployment)
    assert (row.ended_at, row.abandoned_at is not None) == (None, True)


def test_the_grace_is_a_limit_of_the_deployment() -> None:
    deployment, seen = queued(limits=Limits(grace=3.0))
    run = start(deployment.engine, "acme", seen.task_id, 1)
    assert run is not None
    halt(deployment)
    assert not run.is_held()
    assert run_of(deployment, seen.task_id).grace_until == "2026-01-01T12:00:03.000000Z"


@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_end_whose_reply_is_lost_is_written_once(lost: str) -> None:
    deployment, run = stopped()
    deployment.hook(**{lost: once("write", no_answer)})
    run.end_stopped(heard=True)
    deployment.hook()
    meta = deployment.meta(run.meta.task_id)
    assert (meta.task_state, meta.seq) == (TaskState.CANCELED, 3)
    assert [row.ended_at is not None for row in report(deployment)] == [True]


def test_an_end_of_a_turn_that_was_not_stopped_ends_nothing() -> None:
    deployment, run = started()
    with deployment.unchanged():
        run.end_stopped(heard=True)
        finish_stop(deployment.engine, run_of(deployment, run.meta.task_id), heard=False)


def test_an_end_that_can_not_be_written_is_written_by_the_sweeper() -> None:
    deployment, run = stopped()

    def hook(operation: str, _: tuple[Any, ...]) -> None:
        if operation == "write":
            raise OutcomeUnknown

    deployment.hook(before=hook)
    run.end_stopped(heard=True)
    deployment.hook()
    deployment.clock.advance(15)
    assert sweep(deployment.engine) == 0
    assert deployment.meta(run.meta.task_id).task_state is TaskState.CANCELED


# The whole: a real executor, whose watch looks once a second.


def test_code_that_waits_is_cancelled_within_a_look_although_nobody_walks() -> None:
    began, told = threading.Event(), threading.Event()

    async def waits(turn: Turn) -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        finally:
            told.set()

    deployment = Deployment(running(waits), at_once=False)
    task_id = deployment.send().id
    worker = threading.Thread(target=deployment.work)
    worker.start()
    assert began.wait(timeout=30)
    halt(deployment)
    worker.join(timeout=30)
    assert told.is_set()
    assert deployment.meta(task_id).task_state is TaskState.CANCELED
    assert [row.ended_at is not None for row in report(deployment)] == [True]


# Backing out: a claimer that found a halt, whoever else was there.


def test_who_backs_out_ends_what_somebody_else_has_told_to_stop_and_says_that_it_never_ran() -> None:
    deployment, seen = queued()

    def halted_and_walked() -> None:
        halt(deployment)
        walk_all(deployment)

    deployment.hook(before=once("snapshot", halted_and_walked))
    assert start(deployment.engine, "acme", seen.task_id, 1) is None
    meta = deployment.meta(seen.task_id)
    assert (meta.task_state, meta.withdrawn) == (TaskState.CANCELED, True)
    assert not has_key(deployment)
    (row,) = report(deployment)
    assert (row.started, row.ended_at is not None) == (False, True)


def test_who_backs_out_of_what_was_abandoned_meanwhile_frees_the_key() -> None:
    deployment, seen = queued()

    def gone() -> None:
        halt(deployment)
        walk_all(deployment)
        deployment.clock.advance(15)
        sweep(deployment.engine)

    deployment.hook(before=once("snapshot", gone))
    assert start(deployment.engine, "acme", seen.task_id, 1) is None
    assert deployment.meta(seen.task_id).task_state is TaskState.CANCELED
    assert not has_key(deployment)


def test_who_backs_out_of_what_was_canceled_meanwhile_leaves_it() -> None:
    deployment, seen = queued()
    deployment.hook(before=once("snapshot", lambda: deployment.cancel(seen.task_id)))
    assert start(deployment.engine, "acme", seen.task_id, 1) is None
    assert deployment.meta(seen.task_id).task_state is TaskState.CANCELED
    assert has_key(deployment)


@pytest.mark.parametrize("lost", ["before", "after"])
def test_backing_out_is_done_once_although_replies_are_lost(lost: str) -> None:
    deployment, seen = queued()
    halt(deployment)
    count = 0

    def second_write(operation: str, _: tuple[Any, ...]) -> None:
        nonlocal count
        count += operation == "write"
        if operation == "write" and count == 2:
            raise OutcomeUnknown

    deployment.hook(**{lost: second_write})
    assert start(deployment.engine, "acme", seen.task_id, 1) is None
    deployment.hook()
    assert deployment.meta(seen.task_id).task_state is TaskState.CANCELED
    assert deployment.run_rows() == {}
    assert not has_key(deployment)
    assert len(report(deployment)) == 1


def test_a_timed_out_turn_that_was_halted_is_not_called_failed() -> None:
    deployment, seen = queued()
    executor = Halting(deployment, raising(TurnTimedOut()))
    run_turn(deployment.engine, executor, "acme", seen.task_id, 1, 60)
    assert deployment.meta(seen.task_id).task_state is TaskState.CANCELED


def test_a_canceled_task_is_not_canceled_anew_by_the_end_of_its_stopped_turn() -> None:
    deployment, run = stopped()
    deployment.cancel(run.meta.task_id)
    before = deployment.meta(run.meta.task_id)
    run.end_stopped(heard=True)
    assert deployment.meta(run.meta.task_id) == before


def test_a_message_to_a_stopping_task_is_refused() -> None:
    deployment, run = stopped()
    with deployment.unchanged(), pytest.raises(Halted):
        deployment.send(message(task_id=run.meta.task_id))
