"""The walk of a halt: what it found running is stopped, once, and nothing that was sent after the resume."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support.halt_records import SCOPES, facts, report, standing
from tests.support.halting import ACME, ALL, DESK, REASON, WORK, halt, resume, run_of, walk_all
from tests.support.twin import AGENT, SPY, Deployment, asking, nothing, once, running

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import TaskState
from interlock.agents import Agent, Turn
from interlock.engine.facts import HALT
from interlock.engine.halt import LISTED, Lifted, walk
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import SHARDS, Run, run_pk, shard, walk_key
from interlock.engine.run_turn import TurnRun, start
from interlock.engine.sweep import sweep
from interlock.oversight.halts import Scope


def two_agents() -> Agent:
    """`desk` with the skills `work` and `rest`, and beside it `clerk` with `work`."""

    async def completes(turn: Turn) -> None:
        await turn.complete("done")

    desk, clerk = Agent("desk", "Works"), Agent("clerk", "Works too")
    desk.skill("work", "Works")(completes)
    desk.skill("rest", "Rests", matches=lambda message: "rest" in message.text)(completes)
    clerk.skill("work", "Works")(completes)
    return desk


def quiet(agent: Agent | None = None) -> Deployment:
    return Deployment(agent or running(nothing), at_once=False)


def claimed(deployment: Deployment, task_id: str) -> TurnRun:
    run = start(deployment.engine, "acme", task_id, 1)
    assert run is not None
    return run


def state(deployment: Deployment, task_id: str, tenant: str = "acme") -> TaskState:
    return deployment.meta(task_id, tenant).task_state


# What it stops.


def test_what_waits_ends_and_what_runs_is_told_and_both_are_in_the_report() -> None:
    deployment = quiet()
    waiting, working = deployment.send().id, deployment.send().id
    claimed(deployment, working)
    halt(deployment)
    walk_all(deployment)
    assert state(deployment, waiting) is TaskState.CANCELED
    assert run_of(deployment, working).phase == Run.STOPPING
    assert {row.task_id: row.started for row in report(deployment)} == {waiting: False, working: True}
    assert standing(deployment).stopped == 2


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_walk_stops_what_its_scope_covers_and_nothing_else(scope: Scope) -> None:
    deployment = quiet(two_agents())
    sent = {
        ("acme", "work"): deployment.send("work").id,
        ("acme", "rest"): deployment.send("rest").id,
        ("other", "work"): deployment.send("work", SPY).id,
    }
    covered = {
        ALL: {("acme", "work"), ("acme", "rest"), ("other", "work")},
        ACME: {("acme", "work"), ("acme", "rest")},
        DESK: {("acme", "work"), ("acme", "rest")},
        WORK: {("acme", "work")},
    }[scope]
    halt(deployment, scope)
    walk_all(deployment, scope)
    stopped = {
        name for name, task_id in sent.items() if state(deployment, task_id, name[0]) is TaskState.CANCELED
    }
    assert stopped == covered


def test_a_name_that_begins_as_that_of_the_scope_is_another() -> None:
    deployment = quiet()
    task = deployment.send()
    for scope in (Scope("acm"), Scope("acme", agent="des"), Scope("acme", skill="wor")):
        halt(deployment, scope)
        walk_all(deployment, scope)
    assert state(deployment, task.id) is TaskState.SUBMITTED


def test_a_task_that_waits_for_a_person_survives() -> None:
    deployment = Deployment(asking())
    task = deployment.send()
    halt(deployment, ALL)
    walk_all(deployment, ALL)
    assert state(deployment, task.id) is TaskState.INPUT_REQUIRED
    assert report(deployment, ALL) == []


def test_a_halt_that_replaces_another_stops_what_that_had_not_stopped() -> None:
    deployment = quiet()
    task = deployment.send()
    halt(deployment, reason="first")
    halt(deployment, reason="second")
    with deployment.unchanged():
        walk(deployment.engine, ACME, 1, shard(task.id))
    walk_all(deployment, generation=2)
    assert [row.task_id for row in report(deployment)] == [task.id]
    ended = deployment.get(task.id).status.message
    assert ended is not None
    assert ended.text == "halted: second"


# When it is complete.


def test_a_walk_is_complete_when_every_shard_was_walked_and_says_so_once() -> None:
    deployment = quiet()
    halt(deployment)
    for number in reversed(range(SHARDS)):
        assert standing(deployment).walked_at is None
        for _ in range(2):
            walk(deployment.engine, ACME, 1, number)
    assert standing(deployment).walked_at is not None
    with deployment.unchanged():
        walk_all(deployment)
    assert [fact["detail"]["action"] for fact in facts(deployment, HALT)].count("stopped") == 1


def test_a_walk_that_died_in_the_middle_is_gone_on_with() -> None:
    deployment = quiet()
    tasks = [deployment.send().id for _ in range(40)]
    halt(deployment)
    number = shard(tasks[0])
    there = [task_id for task_id in tasks if shard(task_id) == number]

    def dies(calls: list[int]) -> Callable[[str, tuple[Any, ...]], None]:
        def hook(operation: str, _: tuple[Any, ...]) -> None:
            if operation == "write":
                calls.append(1)
                if len(calls) > 1:
                    raise ZeroDivisionError

        return hook

    assert len(there) > 1
    deployment.hook(before=dies([]))
    with pytest.raises(ZeroDivisionError):
        walk(deployment.engine, ACME, 1, number)
    deployment.hook()
    assert [state(deployment, task_id) for task_id in there].count(TaskState.CANCELED) == 1
    assert deployment.table.get(walk_key("tenant:acme#1", number)) is None
    walk_all(deployment)
    assert {state(deployment, task_id) for task_id in tasks} == {TaskState.CANCELED}
    assert sorted(row.task_id for row in report(deployment)) == sorted(tasks)


def test_many_walks_of_one_halt_at_once_stop_everything_once() -> None:
    deployment = quiet()
    tasks = [deployment.send().id for _ in range(60)]
    runs = [claimed(deployment, task_id) for task_id in tasks[::2]]
    halt(deployment)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: walk_all(deployment), range(4)))
    assert sorted(row.task_id for row in report(deployment)) == sorted(tasks)
    for run in runs:
        run.end_stopped(heard=True)
    assert deployment.run_rows() == {}
    seqs = [deployment.meta(task_id).seq for task_id in tasks]
    assert seqs == [3 if number % 2 == 0 else 2 for number in range(60)]


def test_the_stops_of_a_page_may_be_made_side_by_side() -> None:
    deployment = quiet()
    tasks = [deployment.send().id for _ in range(60)]
    halt(deployment)
    pages: list[int] = []

    def noting(stop: Callable[[Run], object], runs: Iterable[Run]) -> Iterable[object]:
        several = list(runs)
        pages.append(len(several))
        return pool.map(stop, several)

    with ThreadPoolExecutor(4) as pool:
        for number in range(SHARDS):
            walk(deployment.engine, ACME, 1, number, noting)
    assert sum(pages) == len(tasks)
    assert deployment.run_rows() == {}


def test_a_walk_goes_through_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = quiet()
    tasks = [deployment.send().id for _ in range(40)]
    halt(deployment)
    whole = deployment.hooks.query

    def small(pk: str, **options: Any) -> Any:
        return whole(pk, **{**options, "limit": 2})

    monkeypatch.setattr(deployment.hooks, "query", small)
    walk_all(deployment)
    assert {state(deployment, task_id) for task_id in tasks} == {TaskState.CANCELED}
    assert standing(deployment).stopped == 40


def test_the_record_of_a_large_halt_has_the_number_and_not_all_the_names() -> None:
    deployment = quiet()
    for _ in range(LISTED + 1):
        deployment.send()
    halt(deployment)
    walk_all(deployment)
    (stopped,) = [one for one in facts(deployment, HALT) if one["detail"]["action"] == "stopped"]
    assert stopped["detail"]["count"] == LISTED + 1
    assert len(stopped["detail"]["stopped"]) == LISTED
    assert len(report(deployment)) == LISTED + 1


# A walk that is late.


def test_a_walk_that_is_late_stops_nothing_that_was_sent_after_the_resume() -> None:
    deployment = quiet()
    tasks: list[str] = []

    def resumed() -> None:
        for number in range(SHARDS):
            walk(deployment.engine, ACME, 1, number)
        assert resume(deployment) is Lifted.LIFTED
        while {shard(task_id) for task_id in tasks} != set(range(SHARDS)):
            tasks.append(deployment.send().id)
        claimed(deployment, tasks[0])

    halt(deployment)
    for number in range(SHARDS):
        deployment.hook(before=once("query", resumed) if number == 0 else lambda name, arguments: None)
        walk(deployment.engine, ACME, 1, number)
    assert state(deployment, tasks[0]) is TaskState.WORKING
    assert {state(deployment, task_id) for task_id in tasks[1:]} == {TaskState.SUBMITTED}


def test_a_walk_that_read_its_rows_before_the_resume_stops_no_turn_that_was_not_there() -> None:
    deployment = quiet()
    task_id = deployment.send().id
    halt(deployment)
    sent: list[str] = []

    def resumed() -> None:
        walk_all(deployment)
        assert resume(deployment) is Lifted.LIFTED
        sent.append(deployment.send().id)

    deployment.hook(after=once("query", resumed))
    walk(deployment.engine, ACME, 1, shard(task_id))
    assert state(deployment, sent[0]) is TaskState.SUBMITTED


def test_a_walk_for_a_halt_that_was_replaced_stops_nothing_of_its_own() -> None:
    deployment = quiet()
    halt(deployment)
    resume(deployment)
    task_id = deployment.send().id
    halt(deployment, reason="second")
    with deployment.unchanged():
        walk(deployment.engine, ACME, 1, shard(task_id))


def test_a_walk_for_a_scope_that_was_never_halted_stops_nothing() -> None:
    deployment = quiet()
    task_id = deployment.send().id
    with deployment.unchanged():
        walk(deployment.engine, ACME, 1, shard(task_id))


def test_a_walk_that_ends_when_it_was_lifted_does_not_bring_the_halt_back() -> None:
    deployment = quiet()
    halt(deployment)
    for number in range(SHARDS - 1):
        walk(deployment.engine, ACME, 1, number)
    deployment.hook(before=once("write", lambda: resume(deployment)))
    walk(deployment.engine, ACME, 1, SHARDS - 1)
    assert standing(deployment).on is None
    deployment.send()


# Resuming waits for it.


def test_a_resume_does_the_walk_that_was_not_done() -> None:
    deployment = quiet()
    waiting, working = deployment.send().id, deployment.send().id
    run = claimed(deployment, working)
    halt(deployment)
    assert resume(deployment) is Lifted.LIFTED
    assert state(deployment, waiting) is TaskState.CANCELED
    assert run_of(deployment, working).phase == Run.STOPPING
    assert not run.is_held()
    actions = {fact["detail"]["action"] for fact in facts(deployment, HALT)}
    assert actions == {"halt", "stopped", "resume"}


def test_nothing_is_lifted_before_what_ran_was_stopped() -> None:
    deployment = quiet()
    task_id = deployment.send().id
    halt(deployment)
    key = run_of(deployment, task_id).key

    def hook(operation: str, writes: tuple[Any, ...]) -> None:
        if operation == "write" and any(write.key == key for write in writes):
            raise OutcomeUnknown

    deployment.hook(before=hook)
    with pytest.raises(Unavailable):
        resume(deployment)
    deployment.hook()
    assert standing(deployment).on
    assert resume(deployment) is Lifted.LIFTED
    assert state(deployment, task_id) is TaskState.CANCELED


def test_a_walk_that_was_done_is_not_done_again_by_the_resume() -> None:
    deployment = quiet()
    halt(deployment)
    walk_all(deployment)
    read: list[str] = []
    deployment.hook(before=lambda operation, arguments: read.append(operation))
    assert resume(deployment) is Lifted.LIFTED
    assert read == ["get", "write"]


# The sweeper.


def test_the_sweeper_wakes_for_walks_that_are_not_complete_and_for_no_others() -> None:
    deployment = quiet()
    halt(deployment)
    halt(deployment, DESK)
    resume(deployment, DESK)
    walk(deployment.engine, ACME, 1, 0)
    deployment.waker.walks.clear()
    assert sweep(deployment.engine) == 0
    assert deployment.waker.walks == [("tenant:acme", 1)]
    walk_all(deployment)
    deployment.waker.walks.clear()
    assert sweep(deployment.engine) == 0
    assert deployment.waker.walks == []


def test_the_sweeper_stops_what_runs_even_if_nobody_walks() -> None:
    deployment = quiet()
    waiting, working = deployment.send().id, deployment.send().id
    run = claimed(deployment, working)
    halt(deployment)
    assert sweep(deployment.engine) == 0
    assert state(deployment, waiting) is TaskState.CANCELED
    assert run_of(deployment, working).phase == Run.STOPPING
    assert {row.task_id for row in report(deployment)} == {waiting, working}
    run.end_stopped(heard=True)


def test_a_sweeper_that_is_late_stops_nothing_that_was_sent_after_the_resume() -> None:
    deployment = quiet()
    halt(deployment)
    walk_all(deployment)
    sent: list[str] = []

    def resumed(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "query" and arguments[0] == run_pk(0):
            deployment.hook()
            assert resume(deployment) is Lifted.LIFTED
            while {shard(task_id) for task_id in sent} != set(range(SHARDS)):
                sent.append(deployment.send().id)

    deployment.hook(before=resumed)
    assert sweep(deployment.engine) == 0
    assert sent
    assert {state(deployment, task_id) for task_id in sent} == {TaskState.SUBMITTED}


def test_the_sweeper_tells_the_reason_of_the_widest_halt() -> None:
    deployment = quiet()
    task_id = deployment.send().id
    for scope in reversed(SCOPES):
        halt(deployment, scope, f"{scope} is down")
    assert sweep(deployment.engine) == 0
    ended = deployment.get(task_id).status.message
    assert ended is not None
    assert ended.text == "halted: all is down"


def test_a_row_that_can_not_be_stopped_does_not_keep_the_sweeper_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = quiet()
    tasks = [deployment.send().id for _ in range(20)]
    bad = deployment.meta(tasks[0]).key

    def hook(operation: str, keys: tuple[Any, ...]) -> None:
        if operation == "get_many" and bad in keys:
            raise ValueError("not to be read")

    halt(deployment, ALL)
    deployment.hook(before=hook)
    assert sweep(deployment.engine) == 1
    assert [record.message for record in caplog.records] == ["a row could not be handled"]
    assert {state(deployment, task_id) for task_id in tasks[1:]} == {TaskState.CANCELED}
    assert state(deployment, tasks[0]) is TaskState.SUBMITTED


def test_who_sends_may_cancel_what_the_walk_is_about_to_stop() -> None:
    deployment = quiet()
    task_id = deployment.send().id
    halt(deployment, reason=REASON)
    deployment.hook(before=once("write", lambda: deployment.cancel(task_id, AGENT)))
    walk(deployment.engine, ACME, 1, shard(task_id))
    assert state(deployment, task_id) is TaskState.CANCELED
    assert not deployment.meta(task_id).halted
    assert report(deployment) == []
