"""The event loop that agents' code runs in, in a thread of its own."""

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TypeVar

from interlock.agents.agent import AgentSkillFunction
from interlock.agents.turn import Turn
from interlock.engine.run_turn import TurnRun

logger = logging.getLogger(__name__)

T = TypeVar("T")


class AgentLoop:
    """Runs the code of one turn at a time. It is kept from turn to turn, so that clients can be kept too."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=_run, args=(self._loop,), name="agent", daemon=True).start()
        weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop)

    def start(self, function: AgentSkillFunction, run: TurnRun) -> "AgentCode":
        code = AgentCode(self._loop)
        self._loop.call_soon_threadsafe(code.begin, function, run)
        return code


def _run(loop: asyncio.AbstractEventLoop) -> None:
    stopped = False
    while not stopped:
        try:
            loop.run_forever()
            stopped = True
        except (SystemExit, KeyboardInterrupt):
            # asyncio lets these end the loop, though only the task that raised them is at its end.
            logger.warning("the agent's code asked to exit")
    loop.close()


class AgentCode:
    """The code of one turn. Whoever started it serves it: what it records is written in their thread.

    The store is not asynchronous, and the loop must not wait for it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._requests: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._task: asyncio.Task[None] | None = None

    # In the loop's thread.

    def begin(self, function: AgentSkillFunction, run: TurnRun) -> None:
        async def code() -> None:
            await function(Turn(run, self))

        self._task = self._loop.create_task(code())
        self._task.add_done_callback(self._wake)

    async def record(self, write: Callable[[], T]) -> T:
        """Implements `Recorder`."""
        written: Future[T] = Future()

        def request() -> None:
            if not written.set_running_or_notify_cancel():
                return
            try:
                written.set_result(write())
            except Exception as error:  # noqa: BLE001 (it is raised where the code waits)
                written.set_exception(error)

        self._requests.put(request)
        return await asyncio.wrap_future(written)

    def _cancel(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.add_done_callback(self._wake)
            task.cancel()
        self._wake()

    def _wake(self, *_: asyncio.Task[None]) -> None:
        self._requests.put(lambda: None)

    # In the thread of whoever serves.

    @property
    def ended(self) -> bool:
        return self._task is not None and self._task.done()

    def serve(self, seconds: float) -> None:
        """Waits for something to write, or for the end of the code, for more than 0 and at most `seconds`."""
        try:
            request = self._requests.get(timeout=seconds)
        except Empty:
            return
        request()

    def result(self) -> None:
        """Raises what the code has raised, as an `Exception` whatever it is."""
        if self._task is None or self._task.cancelled():
            raise RuntimeError("the agent's code canceled itself")
        error = self._task.exception()
        if error is not None:
            raise error if isinstance(error, Exception) else RuntimeError("the agent's code asked to exit")

    def stop(self, seconds: float) -> bool:
        """Cancels what still runs in the loop, and says whether all of it ended within `seconds`."""
        if self._all_ended():
            return True
        self._loop.call_soon_threadsafe(self._cancel)
        until = time.monotonic() + seconds
        while not self._all_ended():
            left = until - time.monotonic()
            if left <= 0:
                return False
            self.serve(left)
        return True

    def _all_ended(self) -> bool:
        return self.ended and not asyncio.all_tasks(self._loop)
