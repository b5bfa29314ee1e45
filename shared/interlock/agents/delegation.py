"""Work that a turn has handed to another agent, as the agent's code sees it."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import overload

from interlock.engine.delegate import Handed, Settled
from interlock.engine.run_turn import TurnStopped
from interlock.oversight.delegation import Outcome

START_SECONDS = 5.0
"""How long `Turn.delegate` waits to learn the child's task id."""
FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 2.0
RENEWALS = 3
"""In the time of a lease."""


class Delegation:
    """The child is canceled when this task is canceled or halted, when it can not be followed any more, and
    when the turn ends before it has settled, unless it was detached.

    Settled: it has ended, or waits for an answer or a credential.
    """

    def __init__(self, handed: Handed, lease_seconds: float | None) -> None:
        self._handed = handed
        self._lease_seconds = lease_seconds
        self._sending: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()

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
        await asyncio.to_thread(self._handed.note)
        self._sending = asyncio.create_task(self._call(self._handed.send))
        await asyncio.wait({self._sending}, timeout=START_SECONDS)
        if self._sending.done():
            self._sending.result()
        if self._lease_seconds is not None:
            self._renewing = asyncio.create_task(self._renew(self._lease_seconds / RENEWALS))

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
        """Lets it go on by itself, whatever becomes of this task."""
        await self._sent()
        await self._call(self._handed.detach)

    async def cancel(self) -> None:
        """Asks for it to be canceled. Does not wait for that."""
        await self._sent()
        if self._handed.settled is None:
            await self._call(self._drop)

    def _drop(self) -> None:
        self._handed.give_up(Settled(Outcome.CANCEL_REQUESTED))

    async def _follow(self) -> Settled:
        await self._sent()
        pause = FIRST_LOOK_SECONDS
        while (settled := self._handed.settled) is None:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
            pause = min(LONGEST_LOOK_SECONDS, pause * 1.5)
            await self._call(self._look)
        return settled

    def _look(self) -> None:
        self._handed.look()

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
                await self._call(self._handed.renew)

    async def _call(self, work: Callable[[], None]) -> None:
        async with self._one_at_a_time:
            await asyncio.to_thread(work)
