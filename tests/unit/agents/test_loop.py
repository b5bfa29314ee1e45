"""The agent's code in its loop, and the worker's thread that serves it."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.twin import Deployment, running

from interlock.a2a.models import TaskState
from interlock.agents import Turn, executor
from interlock.engine.ports import Update

PATIENCE = 10.0


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(executor, "GRACE_SECONDS", 0.1)


def deployed(script: Callable[[Turn], Awaitable[None]], *, turn_seconds: float = PATIENCE) -> Deployment:
    return Deployment(running(script), turn_seconds=turn_seconds)


def loops_of(deployment: Deployment) -> list[Any]:
    return deployment.executor._idle


def test_what_the_code_records_is_written_in_the_workers_thread() -> None:
    ran: list[threading.Thread] = []
    wrote: list[threading.Thread] = []

    async def script(turn: Turn) -> None:
        ran.append(threading.current_thread())
        await turn.say("working")
        await turn.complete("done")

    deployment = deployed(script)
    deployment.hook(before=lambda *_: wrote.append(threading.current_thread()))
    assert deployment.send().status.state is TaskState.COMPLETED
    assert set(wrote) == {threading.current_thread()}
    assert ran != [threading.current_thread()]


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


def test_the_loop_goes_on_while_something_is_written() -> None:
    recording, went_on = threading.Event(), threading.Event()
    in_time: list[bool] = []

    async def script(turn: Turn) -> None:
        recording.set()
        asyncio.get_running_loop().call_soon(went_on.set)
        await turn.say("working")
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


def test_code_that_blocks_its_loop_is_given_up_in_time() -> None:
    release = threading.Event()

    async def script(turn: Turn) -> None:
        release.wait(PATIENCE)

    deployment = deployed(script, turn_seconds=0.05)
    task = deployment.send()
    assert task.status.state is TaskState.FAILED
    assert loops_of(deployment) == []
    release.set()


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


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_what_would_end_the_process_ends_the_turn(error: type[BaseException]) -> None:
    async def script(turn: Turn) -> None:
        if turn.text == "end":
            raise error

    deployment = deployed(script)
    assert deployment.send("end").status.state is TaskState.FAILED
    assert deployment.send("go").status.state is TaskState.COMPLETED


def test_the_threads_end_with_the_executor() -> None:
    threads = []

    async def script(turn: Turn) -> None:
        threads.append(threading.current_thread())

    deployment = deployed(script)
    deployment.send()
    assert threads[0].is_alive()
    del deployment
    gc.collect()
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()
