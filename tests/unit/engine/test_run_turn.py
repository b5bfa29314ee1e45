"""A turn: claimed by one worker, recorded under its claim, and ended visibly."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.models import Artifact, Part, TaskState
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import MAX_EVENT_BYTES, Run
from interlock.engine.run_turn import (
    Refused,
    TurnEnded,
    TurnRun,
    TurnStopped,
    TurnTimedOut,
    claim,
    run_turn,
)
from interlock.engine.sweep import give_up

SCHEMA: dict[str, Any] = {"type": "object"}


def queued() -> tuple[Deployment, str]:
    """A deployment with one task whose first turn waits for a worker."""
    deployment = Deployment(running(nothing), at_once=False)
    return deployment, deployment.send().id


def claimed() -> tuple[Deployment, TurnRun]:
    deployment, task_id = queued()
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    return deployment, run


class Scripted:
    """Implements `Executor`."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.seconds: list[float] = []

    def execute(self, run: TurnRun, seconds: float) -> None:
        self.seconds.append(seconds)
        self.script(run)


def raising(error: BaseException) -> Scripted:
    def script(run: TurnRun) -> None:
        raise error

    return Scripted(script)


# Claims.


def test_a_claim_takes_the_turn_and_says_so_on_the_task() -> None:
    deployment, run = claimed()
    meta = deployment.meta(run.meta.task_id)
    assert (meta.task_state, meta.claimed, meta.fence) == (TaskState.WORKING, 1, 1)
    (row,) = deployment.run_rows().values()
    assert (row["phase"], row["fence"]) == (Run.CLAIMED, 1)
    assert row["lease_until"] == "2026-01-01T12:01:00.000000Z"


def test_a_turn_is_claimed_once() -> None:
    deployment, run = claimed()
    with deployment.unchanged():
        assert claim(deployment.engine, "acme", run.meta.task_id, 1) is None


def test_of_many_claims_at_once_one_succeeds() -> None:
    deployment, task_id = queued()
    barrier = threading.Barrier(8)

    def worker(_: int) -> TurnRun | None:
        barrier.wait()
        return claim(deployment.engine, "acme", task_id, 1)

    with ThreadPoolExecutor(8) as pool:
        claims = [run for run in pool.map(worker, range(8)) if run is not None]
    assert len(claims) == 1


@pytest.mark.parametrize("turn", [0, 2])
def test_a_wake_for_another_turn_claims_nothing(turn: int) -> None:
    deployment, task_id = queued()
    with deployment.unchanged():
        assert claim(deployment.engine, "acme", task_id, turn) is None


def test_a_wake_for_a_task_that_is_not_there_or_over_claims_nothing() -> None:
    deployment, task_id = queued()
    deployment.cancel(task_id)
    with deployment.unchanged():
        assert claim(deployment.engine, "acme", task_id, 1) is None
        assert claim(deployment.engine, "acme", "none", 1) is None
        assert claim(deployment.engine, "other", task_id, 1) is None


def test_a_claim_whose_reply_was_lost_knows_itself() -> None:
    deployment, task_id = queued()
    deployment.hook(after=once("write", no_answer))
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    run.finish(TaskState.COMPLETED)
    assert deployment.meta(task_id).task_state is TaskState.COMPLETED


def test_a_claim_that_was_not_carried_out_is_tried_again() -> None:
    deployment, task_id = queued()
    deployment.hook(before=once("write", no_answer))
    assert claim(deployment.engine, "acme", task_id, 1) is not None


def test_the_state_of_a_task_that_goes_on_is_working_and_no_event_says_so_twice() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    before = deployment.meta(task_id).seq
    assert claim(deployment.engine, "acme", task_id, 2) is not None
    assert deployment.meta(task_id).seq == before


# How a turn ends.


def test_a_turn_that_just_ends_has_completed_its_task() -> None:
    deployment, task_id = queued()
    run_turn(deployment.engine, Scripted(lambda run: None), "acme", task_id, 1, 30)
    task = deployment.get(task_id)
    assert (task.status.state, task.status.message) == (TaskState.COMPLETED, None)
    assert deployment.run_rows() == {}


def test_the_executor_is_given_the_time_there_is() -> None:
    deployment, task_id = queued()
    executor = Scripted(lambda run: None)
    run_turn(deployment.engine, executor, "acme", task_id, 1, 12.5)
    assert executor.seconds == [12.5]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("password=hunter2"), "The agent failed."),
        (TurnTimedOut(), "The agent did not finish in time."),
        (TurnEnded("twice"), "The agent failed."),
        (OutcomeUnknown("secret"), "The agent failed."),
    ],
)
def test_what_is_raised_fails_the_task_and_is_not_shown(error: Exception, text: str) -> None:
    deployment, task_id = queued()
    run_turn(deployment.engine, raising(error), "acme", task_id, 1, 30)
    task = deployment.get(task_id)
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert task.status.message.text == text
    assert "hunter2" not in str(deployment.rows())
    assert "secret" not in str(deployment.rows())
    assert deployment.run_rows() == {}


def test_a_turn_that_was_stopped_changes_nothing() -> None:
    deployment, task_id = queued()

    def canceled(run: TurnRun) -> None:
        deployment.cancel(task_id)
        run.say("still here")

    run_turn(deployment.engine, Scripted(canceled), "acme", task_id, 1, 30)
    assert deployment.get(task_id).status.state is TaskState.CANCELED


@pytest.mark.parametrize("error", [RuntimeError(), TurnTimedOut()])
def test_a_turn_that_fails_after_its_task_was_canceled_changes_nothing(error: Exception) -> None:
    deployment, task_id = queued()

    def canceled(run: TurnRun) -> None:
        deployment.cancel(task_id)
        raise error

    run_turn(deployment.engine, Scripted(canceled), "acme", task_id, 1, 30)
    assert deployment.get(task_id).status.state is TaskState.CANCELED


@pytest.mark.parametrize("error", [RuntimeError(), TurnTimedOut()])
def test_what_is_raised_after_the_end_does_not_change_the_end(error: Exception) -> None:
    deployment, task_id = queued()

    def ended(run: TurnRun) -> None:
        run.ask("Go on?", APPROVAL)
        raise error

    run_turn(deployment.engine, Scripted(ended), "acme", task_id, 1, 30)
    assert deployment.get(task_id).status.state is TaskState.INPUT_REQUIRED


# What a run records.


def test_events_are_numbered_without_gaps() -> None:
    deployment, run = claimed()
    run.say("one")
    run.add_artifact(Artifact(artifact_id="a", parts=[Part(text="two")]))
    run.finish(TaskState.COMPLETED, "three")
    numbers = [key.sk for key in deployment.rows() if key.sk.startswith("EVT#")]
    assert sorted(numbers) == [f"EVT#{number:010d}" for number in range(1, 6)]
    assert deployment.meta(run.meta.task_id).seq == 5


def test_records_from_several_threads_are_all_kept() -> None:
    deployment, run = claimed()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: run.say(str(number)), range(40)))
    run.finish(TaskState.COMPLETED)
    said = {message.text for message in deployment.get(run.meta.task_id).history or []}
    assert said >= {str(number) for number in range(40)}


def test_after_its_end_a_turn_records_nothing() -> None:
    deployment, run = claimed()
    run.finish(TaskState.COMPLETED)
    artifact = Artifact(artifact_id="a", parts=[Part(text="more")])
    records: list[Callable[[], object]] = [
        lambda: run.say("more"),
        lambda: run.add_artifact(artifact),
        lambda: run.finish(TaskState.FAILED, "more"),
        lambda: run.ask("More?", SCHEMA),
    ]
    for record in records:
        with deployment.unchanged(), pytest.raises(TurnEnded):
            record()


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_record_whose_reply_is_lost_is_kept_once(lost: str) -> None:
    deployment, run = claimed()
    deployment.hook(**{lost: once("write", no_answer)})
    run.say("once")
    run.finish(TaskState.COMPLETED)
    history = deployment.get(run.meta.task_id).history or []
    assert [message.text for message in history] == ["go", "once"]


def test_an_end_whose_reply_is_lost_is_made_once() -> None:
    deployment, run = claimed()
    deployment.hook(after=once("write", no_answer))
    run.finish(TaskState.COMPLETED, "done")
    assert run.ended
    assert deployment.meta(run.meta.task_id).seq == 3


def test_a_run_that_was_given_up_for_lost_records_nothing_more() -> None:
    deployment, run = claimed()
    deployment.clock.advance(61)
    (item,) = deployment.run_rows().values()
    give_up(deployment.engine, Run.read(item))
    with deployment.unchanged("run.wrote_late"), pytest.raises(TurnStopped):
        run.say("still here")


def test_a_turn_is_held_until_it_is_not() -> None:
    deployment, run = claimed()
    assert run.is_held()
    deployment.hook(before=once("get", no_answer))
    assert run.is_held()
    deployment.cancel(run.meta.task_id)
    assert not run.is_held()
    assert run.stopped.is_set()


def test_a_turn_that_has_ended_counts_as_held() -> None:
    _, run = claimed()
    run.finish(TaskState.COMPLETED)
    assert run.is_held()
    assert not run.stopped.is_set()


def test_the_lease_is_put_off_while_the_worker_lives() -> None:
    deployment, run = claimed()
    deployment.clock.advance(59)
    run.renew()
    (row,) = deployment.run_rows().values()
    assert row["lease_until"] == "2026-01-01T12:01:59.000000Z"


def test_a_renewal_that_fails_does_no_harm() -> None:
    deployment, run = claimed()
    deployment.hook(before=once("write", no_answer))
    run.renew()
    run.finish(TaskState.COMPLETED)
    with deployment.unchanged():
        run.renew()


# What the agent may not record.


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("", SCHEMA), {}),
        (("x" * 4097, SCHEMA), {}),
        (("Go on?", {}), {}),
        (("Go on?", {"type": "array"}), {}),
        (("Go on?", {"type": "object", "description": "x" * 65536}), {}),
        (("Go on?", {"type": "object", "$ref": "https://example.com/schema"}), {}),
        (("Go on?", {"type": "object", "properties": {"a": {"type": "nonsense"}}}), {}),
        (("Go on?", {"type": "object", "properties": {"a": {"pattern": "("}}}), {}),
        (("Go on?", SCHEMA), {"deadline": timedelta(0)}),
        (("Go on?", SCHEMA), {"deadline": timedelta.max}),
        (("Go on?", SCHEMA), {"allowed_responders": []}),
        (("Go on?", SCHEMA), {"allowed_responders": ["everyone"]}),
        (("Go on?", SCHEMA), {"allowed_responders": ["consensus:0"]}),
    ],
)
def test_a_bad_prompt_is_refused_and_the_turn_goes_on(arguments: Any, options: Any) -> None:
    deployment, run = claimed()
    with deployment.unchanged(), pytest.raises(Refused):
        run.ask(*arguments, **options)
    assert not run.ended
    run.ask("Go on?", SCHEMA)


def test_the_ids_of_prompts_are_new_each_time() -> None:
    deployment = Deployment(asking())
    ids = {deployment.open_prompt(deployment.send().id) for _ in range(20)}
    assert len(ids) == 20
    assert {prompt_id[14] for prompt_id in ids} == {"4"}


def test_what_is_too_large_is_refused_with_the_limit_named_and_the_turn_goes_on() -> None:
    noise = random.Random(0).randbytes(MAX_EVENT_BYTES + 4096).hex()
    deployment, run = claimed()
    large = Artifact(artifact_id="a", parts=[Part(text=noise)])
    records: list[Callable[[], None]] = [
        lambda: run.add_artifact(large),
        lambda: run.say(noise),
        lambda: run.finish(TaskState.COMPLETED, noise),
    ]
    for record in records:
        with deployment.unchanged(), pytest.raises(Refused, match=str(MAX_EVENT_BYTES)):
            record()
    run.finish(TaskState.COMPLETED, "short")


def test_a_task_has_a_limit_of_events_and_can_still_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.run_turn.MAX_EVENTS", 4)
    deployment, run = claimed()
    run.say("3")
    run.say("4")
    with deployment.unchanged(), pytest.raises(Refused, match="4 events"):
        run.say("5")
    run.finish(TaskState.COMPLETED)


# What a run is given.


def test_a_run_knows_the_message_and_the_answers_that_led_to_it() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send("go").id
    deployment.work()
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, {"approved": True}, message_id="m-2")
    run = claim(deployment.engine, "acme", task_id, 2)
    assert run is not None
    assert run.message.message_id == "m-2"
    assert run.answer is not None
    assert (run.answer.prompt_id, run.answer.payload, run.answer.responder) == (
        prompt_id,
        {"approved": True},
        ANN.id,
    )
    assert run.answers == [run.answer]
    assert run.meta.owner == AGENT.id


def test_a_plain_message_leaves_earlier_answers_and_is_none_itself() -> None:
    async def ask_again(turn: Any) -> None:
        await turn.ask("And now?")

    deployment = Deployment(asking(then=ask_again), at_once=False)
    task_id = deployment.send("go").id
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    deployment.work()
    deployment.send(message("never mind", task_id=task_id))
    run = claim(deployment.engine, "acme", task_id, 3)
    assert run is not None
    assert run.answer is None
    assert [answer.payload for answer in run.answers] == [{"approved": True}]
