"""Runs a Python agent in the worker."""

import asyncio
import logging
import weakref
from contextlib import suppress

from interlock.agents.agent import Agent, DeclaredSkill
from interlock.agents.turn import Turn
from interlock.agents.watch import Watch
from interlock.engine.peers import Peers
from interlock.engine.run_turn import TurnAbandoned, TurnRun, TurnStopped, TurnTimedOut

logger = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
"""How long code that was canceled may take to end."""


class PythonExecutor:
    """Implements the engine's `Executor`. May be called from several threads.

    The agent's code runs in the calling thread, in a loop that is kept for later turns, so that clients which
    belong to a loop can be kept as well. A second thread renews the lease and looks for a cancel.
    """

    def __init__(self, agent: Agent, renew_every: float = 20.0, peers: Peers | None = None) -> None:
        """`peers`: whom the agent may hand work to; None: nobody."""
        self._agent = agent
        self._peers = peers
        self._watch = Watch(renew_every)
        self._idle: list[asyncio.AbstractEventLoop] = []
        weakref.finalize(self, _close, self._idle)

    def execute(self, run: TurnRun, seconds: float) -> None:
        skill = self._agent.declared(run.meta.agent, run.meta.skill)
        if skill is None:
            raise LookupError(f"no skill {run.meta.skill!r} of {run.meta.agent!r} in this deployment")
        if seconds <= 0:
            raise TurnTimedOut
        code = _Code(self._take_loop(), skill, Turn(run, skill.gate, self._peers))
        try:
            with self._watch.over(run, seconds, code.stop):
                code.execute(seconds)
        finally:
            if code.clear():
                self._idle.append(code.loop)
            else:
                logger.warning("the agent ignores its cancellation; it can record nothing more")
                code.loop.close()

    def _take_loop(self) -> asyncio.AbstractEventLoop:
        try:
            return self._idle.pop()
        except IndexError:
            return asyncio.new_event_loop()


def _close(loops: list[asyncio.AbstractEventLoop]) -> None:
    for loop in loops:
        loop.close()


class _Code:
    """The code of one turn, and whatever it starts in its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skill: DeclaredSkill, turn: Turn) -> None:
        async def code() -> None:
            await skill.run(turn)

        self.loop = loop
        self._task = loop.create_task(code())
        self._ended_by: TurnStopped | TurnTimedOut | None = None
        self._stuck = False
        self._timers: list[asyncio.TimerHandle] = []

    def stop(self) -> None:
        """May be called from any thread."""
        self.loop.call_soon_threadsafe(self._cancel, TurnStopped())

    def execute(self, seconds: float) -> None:
        """Raises what the code raises, or why it was canceled."""
        self._timers.append(self.loop.call_later(seconds, self._cancel, TurnTimedOut()))
        try:
            self.loop.run_until_complete(self._task)
        except (SystemExit, asyncio.CancelledError) as error:
            if self._ended_by is None:
                # Not meant for the worker, which is only the code's host.
                raise RuntimeError("the agent's code ended itself") from error
        except Exception:
            if self._ended_by is None:
                raise
        finally:
            for timer in self._timers:
                timer.cancel()
        if self._stuck and isinstance(self._ended_by, TurnStopped):
            raise TurnAbandoned
        if self._ended_by is not None:
            raise self._ended_by

    def _cancel(self, why: TurnStopped | TurnTimedOut) -> None:
        # Told from another thread it may come late, when the loop runs the code of a later turn.
        if self._ended_by is None and not self._task.done():
            self._ended_by = why
            self._task.cancel()
            self._timers.append(self.loop.call_later(GRACE_SECONDS, self._give_up))

    def _give_up(self) -> None:
        self._stuck = True
        self.loop.stop()

    def clear(self) -> bool:
        """Cancels what the code has left running; says whether the loop can be used again."""
        left = asyncio.all_tasks(self.loop)
        if left and not self._stuck:
            for task in left:
                task.cancel()
            with suppress(SystemExit):
                ended, _ = self.loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
                for task in ended:
                    # Asked for, so that the loop does not complain that nobody did.
                    _ = task.cancelled() or task.exception()
        return not asyncio.all_tasks(self.loop)
