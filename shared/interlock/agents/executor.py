"""Runs a Python agent in the worker."""

import logging
import time

from interlock.agents.agent import Agent
from interlock.agents.loop import AgentCode, AgentLoop
from interlock.engine.run_turn import TurnRun, TurnStopped, TurnTimedOut

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""How long code that was canceled may take to end."""


class PythonExecutor:
    """Implements the engine's `Executor`. May be called from several threads.

    The agent's code has a loop and a thread of its own. Meanwhile this thread writes what the code records,
    renews the lease, and looks whether the turn is still this run's; if not, it cancels the code. So the
    worker does not seem to be lost when the code blocks its loop.
    """

    def __init__(self, agent: Agent, renew_every: float = 20.0) -> None:
        self._agent = agent
        self._renew_every = renew_every
        self._idle: list[AgentLoop] = []

    def execute(self, run: TurnRun, seconds: float) -> None:
        skill = self._agent.declared(run.meta.agent, run.meta.skill)
        if skill is None:
            raise LookupError(f"no skill {run.meta.skill!r} of {run.meta.agent!r} in this deployment")
        if seconds <= 0:
            raise TurnTimedOut
        loop = self._take_loop()
        code = loop.start(skill.run, run)
        try:
            self._serve(run, code, seconds)
            code.result()
        finally:
            if code.stop(GRACE_SECONDS):
                self._idle.append(loop)
            else:
                logger.warning("the agent ignores its cancellation; its loop is not used again")

    def _take_loop(self) -> AgentLoop:
        try:
            return self._idle.pop()
        except IndexError:
            return AgentLoop()

    def _serve(self, run: TurnRun, code: AgentCode, seconds: float) -> None:
        """Returns when the code has ended."""
        now = time.monotonic()
        until, look_at, renew_at = now + seconds, now + LOOK_EVERY_SECONDS, now + self._renew_every
        while not code.ended:
            if now >= until:
                raise TurnTimedOut
            if now >= look_at:
                if not run.is_held():
                    raise TurnStopped
                if now >= renew_at:
                    run.renew()
                    renew_at = now + self._renew_every
                look_at = now + LOOK_EVERY_SECONDS
            code.serve(min(until, look_at) - now)
            now = time.monotonic()
