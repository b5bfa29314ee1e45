"""The agent's code in its loop, and the thread that looks after it."""

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.twin import Deployment, nothing, running

from interlock.a2a.models import TaskState
from interlock.agents import Turn, executor, watch
from interlock.engine.ports import Update
from interlock.engine.run_turn import claim

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(executor, "GRACE_SECONDS", 0.1)


def deployed(script: Callable[[Turn], Awaitable[None]], *, turn_seconds: float = PATIENCE) -> Deployment:
    return Deployment(running(script), turn_seconds=turn_seconds)


def loops_of(deployment: Deployment) -> list[Any]:
    assert isinstance(deployment.executor, executor.PythonExecutor)
    return deployment.executor._idle


def test_code_that_has_its_loop_for_itself_costs_no_thread() -> None:
    used: set[threading.Thread] = set()

    async def script(turn: Turn) -> None:
        used.add(threading.current_thread())
        await turn.say("working")
        await turn.complete("done")

    deployment = deployed(script)
    deployment.hook(before=lambda *_: used.add(threading.current_thread()))
    assert deployment.send().status.state is TaskState.COMPLETED
    assert used == {threading.current_thread()}


def test_the_loop_is_kept_from_turn_to_turn() -> None:
    loops = []

    async def script(turn: Turn) -> None:
        loops.append(asyncio.get_running_loop())

    deployment = deployed(script)
    for _ in range(3):
        deployment.send()
    assert len(loops) == 3
    assert len(set(loops)) == 1


def test_turns_at_the_same_time_have_loops_of_their_own() -> None:
    met = threading.Barrier(2, timeout=PATIENCE)

    async def script(turn: Turn) -> None:
        met.wait()  # It blocks its loop: on the same loop the other would never come.

    deployment = deployed(script)
    workers = [threading.Thread(target=deployment.send) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE)
    assert not met.broken
    assert len(loops_of(deployment)) == 2


def test_what_else_runs_in_the_loop_goes_on_while_something_is_written() -> None:
    recording, went_on = threading.Event(), threading.Event()
    in_time: list[bool] = []

    async def other() -> None:
        went_on.set()

    async def script(turn: Turn) -> None:
        recording.set()
        await asyncio.gather(other(), turn.say("working"))
        recording.clear()

    def before(operation: str, _: tuple[Any, ...]) -> None:
        if operation == "write" and recording.is_set():
            in_time.append(went_on.wait(PATIENCE))

    deployment = deployed(script)
    deployment.hook(before=before)
    deployment.send()
    assert in_time == [True]


def test_code_that_blocks_its_loop_keeps_its_lease() -> None:
    renewed = threading.Event()

    async def script(turn: Turn) -> None:
        await turn.complete("done" if renewed.wait(PATIENCE) else "not renewed")

    def after(operation: str, writes: tuple[Any, ...]) -> None:
        if operation == "write" and isinstance(writes[0], Update) and "lease_until" in writes[0].set:
            renewed.set()

    deployment = deployed(script)
    deployment.executor = executor.PythonExecutor(deployment.agent, renew_every=0)
    deployment.hook(after=after)
    task = deployment.send()
    assert task.status.message is not None
    assert task.status.message.text == "done"


@pytest.mark.parametrize(("seconds", "renewed"), [(PATIENCE, True), (0, False)])
def test_a_lease_is_renewed_until_the_time_of_the_turn_is_over(seconds: float, renewed: bool) -> None:
    deployment = Deployment(running(nothing), at_once=False)
    run = claim(deployment.engine, "acme", deployment.send().id, 1)
    assert run is not None
    deployment.clock.advance(1)
    (before,) = deployment.run_rows().values()
    now = time.monotonic()
    watch._look(watch._Watched(run, lambda: None, until=now + seconds, renew_at=now), renew_every=1)
    (after,) = deployment.run_rows().values()
    assert (before != after) is renewed


def test_code_that_takes_too_long_is_canceled() -> None:
    async def script(turn: Turn) -> None:
        await asyncio.sleep(PATIENCE)

    deployment = deployed(script, turn_seconds=0.05)
    task = deployment.send()
    assert task.status.state is TaskState.FAILED
    assert task.status.message is not None
    assert task.status.message.text == "The agent did not finish in time."
    assert len(loops_of(deployment)) == 1


def test_code_that_ignores_its_cancellation_is_given_up() -> None:
    async def script(turn: Turn) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(PATIENCE)

    deployment = deployed(script, turn_seconds=0.05)
    assert deployment.send().status.state is TaskState.FAILED
    assert loops_of(deployment) == []


def test_a_turn_without_any_time_left_does_not_begin() -> None:
    began = []

    async def script(turn: Turn) -> None:
        began.append(turn.task_id)

    deployment = deployed(script, turn_seconds=0)
    assert deployment.send().status.state is TaskState.FAILED
    assert began == []


def test_a_cancel_cancels_the_code() -> None:
    canceled: list[bool] = []

    async def script(turn: Turn) -> None:
        deployment.cancel(turn.task_id)
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            canceled.append(turn.stopped)
            raise

    deployment = deployed(script)
    assert deployment.send().status.state is TaskState.CANCELED
    assert canceled == [True]
    assert len(loops_of(deployment)) == 1


def test_a_stop_that_comes_when_its_turn_has_ended_stops_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops: list[Callable[[], None]] = []
    over = watch.Watch.over

    def keep(self: watch.Watch, run: Any, seconds: float, stop: Callable[[], None]) -> Any:
        stops.append(stop)
        return over(self, run, seconds, stop)

    monkeypatch.setattr(watch.Watch, "over", keep)

    async def script(turn: Turn) -> None:
        if len(stops) > 1:
            # In the same loop, and for longer than the grace of the first.
            stops[0]()
            await asyncio.sleep(2 * executor.GRACE_SECONDS)
        await turn.complete("done")

    deployment = deployed(script)
    assert deployment.send().status.state is TaskState.COMPLETED
    assert deployment.send().status.state is TaskState.COMPLETED


def test_what_the_code_left_running_ends_with_its_turn() -> None:
    left: list[asyncio.Task[bool]] = []

    async def script(turn: Turn) -> None:
        left.append(asyncio.create_task(asyncio.Event().wait()))
        await asyncio.sleep(0)

    deployment = deployed(script)
    assert deployment.send().status.state is TaskState.COMPLETED
    assert left[0].cancelled()
    assert len(loops_of(deployment)) == 1


def test_a_loop_in_which_something_ignores_its_cancellation_is_not_used_again() -> None:
    loops = []

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                continue

    async def script(turn: Turn) -> None:
        loops.append(asyncio.get_running_loop())
        if len(loops) == 1:
            loops[0].create_task(stubborn())
            await asyncio.sleep(0)

    deployment = deployed(script)
    assert deployment.send().status.state is TaskState.COMPLETED
    assert deployment.send().status.state is TaskState.COMPLETED
    assert loops[0] is not loops[1]


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_what_would_end_the_process_ends_the_turn(error: type[BaseException]) -> None:
    async def script(turn: Turn) -> None:
        if turn.text == "end":
            raise error

    deployment = deployed(script)
    assert deployment.send("end").status.state is TaskState.FAILED
    assert deployment.send("go").status.state is TaskState.COMPLETED


def test_the_thread_and_the_loops_end_with_the_executor() -> None:
    loops = []

    async def script(turn: Turn) -> None:
        loops.append(asyncio.get_running_loop())

    before = set(threading.enumerate())
    deployment = deployed(script)
    (thread,) = set(threading.enumerate()) - before
    deployment.send()
    assert not loops[0].is_closed()
    del deployment
    gc.collect()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert loops[0].is_closed()
