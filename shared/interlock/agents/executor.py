"""Runs a Python agent in the worker."""

import asyncio
import logging

from interlock.agents.agent import Agent, AgentSkillFunction
from interlock.agents.turn import Turn
from interlock.engine.run_turn import TurnRun, TurnStopped, TurnTimedOut

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""How long code that was canceled may take to end."""


class PythonExecutor:
    """Implements the engine's `Executor`.

    While the agent's code runs, a second task of the same loop renews the lease and looks whether the turn is
    still this run's; if not, it cancels the code.
    """

    def __init__(self, agent: Agent, renew_every: float = 20.0) -> None:
        self._agent = agent
        self._renew_every = renew_every

    def execute(self, run: TurnRun, seconds: float) -> None:
        skill = self._agent.declared(run.meta.agent, run.meta.skill)
        if skill is None:
            raise LookupError(f"no skill {run.meta.skill!r} of {run.meta.agent!r} in this deployment")
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self._run(skill.run, run, seconds))
        finally:
            # Not `asyncio.run`, which waits without end for code that ignores its cancellation.
            loop.close()

    async def _run(self, function: AgentSkillFunction, run: TurnRun, seconds: float) -> None:
        code = asyncio.ensure_future(function(Turn(run)))
        watch = asyncio.create_task(self._watch(run))
        try:
            done, _ = await asyncio.wait({code, watch}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if code in done:
                code.result()
            elif watch in done:
                raise TurnStopped
            else:
                raise TurnTimedOut
        finally:
            await _end(code, watch)

    async def _watch(self, run: TurnRun) -> None:
        """Returns when the turn is no longer this run's."""
        loop = asyncio.get_running_loop()
        renew_at = loop.time() + self._renew_every
        held = True
        while held:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            held = await asyncio.to_thread(run.is_held)
            if held and loop.time() >= renew_at:
                renew_at = loop.time() + self._renew_every
                await asyncio.to_thread(run.renew)


async def _end(*tasks: asyncio.Future[None]) -> None:
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        _, ignoring = await asyncio.wait(running, timeout=GRACE_SECONDS)
        if ignoring:
            logger.warning("the agent ignores its cancellation; it can record nothing more")
