"""The sweeper: whatever nobody woke for is found, and one bad row does not hide the others."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from tests.support.twin import Deployment, asking, message, no_answer, nothing, once, running

from interlock.a2a.models import TaskState
from interlock.engine.context import Limits
from interlock.engine.ports import Delete, Put
from interlock.engine.records import Run, TaskMeta, instant
from interlock.engine.run_turn import TurnRun, claim
from interlock.engine.sweep import LOST, give_up, sweep, wake_waiting


def queued(rerun: bool = False) -> tuple[Deployment, str]:
    """A deployment with one task whose turn waits for a worker, and whose wake was lost."""
    deployment = Deployment(running(nothing, rerun=rerun), at_once=False)
    task_id = deployment.send().id
    deployment.waker.turns.clear()
    return deployment, task_id


def claimed(rerun: bool = False) -> tuple[Deployment, TurnRun]:
    deployment, task_id = queued(rerun)
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    return deployment, run


def test_a_turn_that_nobody_claimed_is_woken_for_again() -> None:
    deployment, task_id = queued()
    deployment.clock.advance(29)
    assert sweep(deployment.engine) == 0
    assert deployment.waker.turns == []
    deployment.clock.advance(1)
    with deployment.unchanged():
        assert sweep(deployment.engine) == 0
    assert deployment.waker.turns == [("acme", task_id, 1)]
    deployment.work()
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED


def test_a_turn_that_waits_after_an_answer_is_woken_for_by_its_number() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.send(message(task_id=task_id))
    deployment.waker.turns.clear()
    deployment.clock.advance(30)
    sweep(deployment.engine)
    assert deployment.waker.turns == [("acme", task_id, 2)]


def test_a_worker_that_is_alive_is_left_alone() -> None:
    deployment, run = claimed()
    deployment.clock.advance(59)
    run.renew()
    deployment.clock.advance(59)
    with deployment.unchanged():
        assert sweep(deployment.engine) == 0


def test_a_turn_whose_worker_fell_silent_ends_its_task_failed_and_says_so() -> None:
    deployment, run = claimed()
    deployment.clock.advance(60)
    assert sweep(deployment.engine) == 0
    task = deployment.get(run.meta.task_id)
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert task.status.message.text == LOST
    assert deployment.run_rows() == {}
    assert deployment.waker.turns == []


def test_a_lost_turn_that_may_be_run_again_is_queued_under_a_new_number() -> None:
    deployment, run = claimed(rerun=True)
    deployment.clock.advance(60)
    sweep(deployment.engine)
    meta = deployment.meta(run.meta.task_id)
    assert (meta.task_state, meta.turn, meta.inputs) == (TaskState.WORKING, 2, 1)
    assert deployment.waker.turns == [("acme", run.meta.task_id, 2)]
    deployment.work()
    assert deployment.meta(run.meta.task_id).task_state is TaskState.COMPLETED


def test_a_turn_is_run_again_three_times_at_most() -> None:
    deployment, task_id = queued(rerun=True)
    runs = []
    for _ in range(10):
        runs.append(claim(deployment.engine, "acme", task_id, deployment.meta(task_id).turn) is not None)
        deployment.clock.advance(60)
        sweep(deployment.engine)
    assert runs == [True] * 4 + [False] * 6
    assert deployment.meta(task_id).task_state is TaskState.FAILED
    assert deployment.run_rows() == {}


def test_the_next_turn_of_a_task_may_be_run_again_as_often_as_the_first() -> None:
    deployment = Deployment(asking(rerun=True), at_once=False, limits=Limits(reruns=1))
    task_id = deployment.send().id
    for turn in (1, 3):
        assert claim(deployment.engine, "acme", task_id, turn) is not None
        deployment.clock.advance(60)
        sweep(deployment.engine)
        assert deployment.meta(task_id).task_state is TaskState.WORKING
        deployment.work()
        if turn == 1:
            deployment.send(message(task_id=task_id))
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED


def test_a_renewal_that_comes_between_saves_the_turn() -> None:
    deployment, run = claimed()
    deployment.clock.advance(60)

    def alive() -> None:
        run.renew()

    deployment.hook(before=once("write", alive))
    assert sweep(deployment.engine) == 0
    assert deployment.meta(run.meta.task_id).task_state is TaskState.WORKING
    run.finish(TaskState.COMPLETED)


@pytest.mark.parametrize("rerun", [False, True])
@pytest.mark.parametrize("lost", ["before", "after"])
def test_giving_up_survives_a_lost_reply(lost: str, rerun: bool) -> None:
    deployment, run = claimed(rerun)
    deployment.clock.advance(60)
    deployment.hook(**{lost: once("write", no_answer)})
    assert sweep(deployment.engine) == 0
    meta = deployment.meta(run.meta.task_id)
    assert (meta.task_state, meta.turn) == ((TaskState.WORKING, 2) if rerun else (TaskState.FAILED, 1))
    assert meta.seq == 3


def test_a_record_of_the_slow_worker_that_comes_between_does_not_save_it() -> None:
    deployment, run = claimed()
    deployment.clock.advance(60)

    def slow() -> None:
        run.say("still here")

    deployment.hook(before=once("write", slow))
    sweep(deployment.engine)
    assert deployment.meta(run.meta.task_id).task_state is TaskState.FAILED


def test_the_end_of_the_turn_that_comes_between_is_its_end() -> None:
    deployment, run = claimed()
    deployment.clock.advance(60)

    def done() -> None:
        run.finish(TaskState.COMPLETED)

    deployment.hook(before=once("write", done))
    assert sweep(deployment.engine) == 0
    assert deployment.meta(run.meta.task_id).task_state is TaskState.COMPLETED


def test_what_soon_falls_due_is_armed_and_what_is_late_is_handled() -> None:
    deployment = Deployment(asking(deadline=timedelta(seconds=100)))
    task_id = deployment.send().id
    deployment.waker.timers.clear()
    sweep(deployment.engine)
    assert deployment.waker.timers == []
    deployment.clock.advance(11)
    with deployment.unchanged():
        sweep(deployment.engine)
    (key,) = deployment.due_rows()
    assert deployment.waker.timers == [(key, deployment.clock.now() + timedelta(seconds=89))]
    deployment.clock.advance(89)
    sweep(deployment.engine)
    assert deployment.meta(task_id).task_state is TaskState.FAILED
    assert deployment.due_rows() == {}


def test_one_bad_row_does_not_hide_the_others(caplog: pytest.LogCaptureFixture) -> None:
    deployment = Deployment(asking(deadline=timedelta(minutes=1)), at_once=False)
    tasks = [deployment.send().id for _ in range(20)]
    deployment.work()
    lost = [deployment.send().id for _ in range(20)]
    for task_id in lost:
        claim(deployment.engine, "acme", task_id, 1)
    for task_id in (tasks[3], lost[3]):
        deployment.table.write(Delete(TaskMeta.key_of("acme", task_id)))
    deployment.clock.advance(60)
    with caplog.at_level(logging.ERROR):
        assert sweep(deployment.engine) == 2
    left = {*tasks, *lost} - {tasks[3], lost[3]}
    assert {deployment.meta(task_id).task_state for task_id in left} == {TaskState.FAILED}
    assert len(deployment.due_rows()) == len(deployment.run_rows()) == 1
    assert sum("could not be handled" in record.message for record in caplog.records) == 2


def test_a_sweep_goes_through_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.adapters.memory.PAGE_BYTES", 300)
    deployment = Deployment(running(nothing), at_once=False)
    tasks = {deployment.send().id for _ in range(30)}
    deployment.waker.turns.clear()
    deployment.clock.advance(30)
    sweep(deployment.engine)
    assert {task_id for _, task_id, _ in deployment.waker.turns} == tasks


def test_giving_up_what_is_another_claims_does_nothing() -> None:
    deployment, run = claimed()
    (item,) = deployment.run_rows().values()
    earlier = Run.read({**item, "fence": 0})
    with deployment.unchanged():
        give_up(deployment.engine, earlier)
    run.finish(TaskState.COMPLETED)
    with deployment.unchanged():
        give_up(deployment.engine, Run.read(item))


def test_the_streams_wake_is_for_a_turn_that_is_still_to_be_claimed() -> None:
    deployment, task_id = queued()
    wake_waiting(deployment.engine, "acme", task_id, 1)
    assert deployment.waker.turns == [("acme", task_id, 1)]
    deployment.waker.turns.clear()
    for tenant, task, turn in (("acme", task_id, 2), ("acme", "none", 1), ("other", task_id, 1)):
        wake_waiting(deployment.engine, tenant, task, turn)
    claim(deployment.engine, "acme", task_id, 1)
    wake_waiting(deployment.engine, "acme", task_id, 1)
    deployment.cancel(task_id)
    wake_waiting(deployment.engine, "acme", task_id, 1)
    assert deployment.waker.turns == []


def test_a_due_row_of_a_kind_that_nobody_knows_stays_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    deployment = Deployment(asking(deadline=timedelta(minutes=1)))
    deployment.send()
    ((key, item),) = deployment.due_rows().items()
    row: Any = {**item, "kind": "unknown", "at": instant(deployment.clock.now())}
    deployment.table.write(Put(key, row))
    with caplog.at_level(logging.ERROR), deployment.unchanged():
        deployment.clock.advance(0.001)
        assert sweep(deployment.engine) == 1
