"""Work that a turn has handed to another agent, as the agent's code sees it."""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar, overload

from interlock.engine.delegate import Handed, Settled
from interlock.engine.run_turn import TurnStopped
from interlock.oversight.delegation import Outcome

START_SECONDS = 5.0
"""How long `Turn.delegate` waits to learn the child's task id."""
FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 2.0
RENEWALS = 3
"""In the time of a lease."""
CALLS_AT_ONCE = 64

T = TypeVar("T")

_calls = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="delegation")
"""Threads of their own: other agents may be slow, and what the turn records must not wait for them."""


class Delegation:
    """The child is canceled when this task is canceled or halted, when it can not be followed any more, and
    when the turn ends before it has settled, unless it was detached.

    Settled: it has ended, or waits for an answer or a credential. Then it waits on when the turn ends, and is
    canceled only if this task is canceled before it ends.
    """

    def __init__(self, handed: Handed, lease_seconds: float | None) -> None:
        self._handed = handed
        self._lease_seconds = lease_seconds
        self._sending: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        return self._handed.record.id

    @property
    def task_id(self) -> str | None:
        """The child's, once its server has said it."""
        return self._handed.record.child

    @property
    def outcome(self) -> Outcome | None:
        settled = self._handed.settled
        return settled.outcome if settled is not None else None

    async def start(self) -> None:
        await _in_thread(self._handed.note)
        self._sending = asyncio.create_task(_in_thread(self._handed.send))
        self._sending.add_done_callback(_heeded)
        await asyncio.wait({self._sending}, timeout=START_SECONDS)
        if self._sending.done():
            self._sending.result()
        if self._lease_seconds is not None:
            self._renewing = asyncio.create_task(self._renew(self._lease_seconds / RENEWALS))
            self._renewing.add_done_callback(_heeded)

    @overload
    async def wait(self) -> Settled: ...

    @overload
    async def wait(self, timeout: float) -> Settled | None: ...

    async def wait(self, timeout: float | None = None) -> Settled | None:
        """How it settled; None if it has not within `timeout` seconds. It goes on then."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await self._follow()
        return self._handed.settled

    async def detach(self) -> None:
        """Lets it go on by itself, whatever becomes of this task, once it has been sent.

        Raises `Refused` for leased work, which ends when nobody renews its lease.
        """
        await self._sent()
        await _in_thread(self._handed.detach)

    async def cancel(self) -> None:
        """Asks for it to be canceled, and waits neither for that nor for its send. Raises `Refused` for one
        that was let go."""
        await _in_thread(self._handed.cancel)

    async def _follow(self) -> Settled:
        await self._sent()
        pause = FIRST_LOOK_SECONDS
        while (settled := self._handed.settled) is None:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(LONGEST_LOOK_SECONDS, pause * 1.5)
            await _in_thread(self._handed.look)
        return settled

    async def _sent(self) -> None:
        if self._sending is None:
            raise RuntimeError("a delegation that was not started")
        # Shielded: who stops waiting does not stop the sending.
        await asyncio.shield(self._sending)

    async def _renew(self, every: float) -> None:
        with suppress(TurnStopped):
            await self._sent()
            while self._handed.settled is None:
                await asyncio.sleep(every)
                await _in_thread(self._handed.renew)


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_calls, copy_context().run, work)


def _heeded(task: asyncio.Task[None]) -> None:
    """What it raises is told to whoever waits for it, and need not be told otherwise."""
    if not task.cancelled():
        task.exception()
