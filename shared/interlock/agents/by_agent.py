"""Runs each turn where its agent is: in the worker, or elsewhere."""

from collections.abc import Callable
from functools import cached_property

from interlock.agents.agent import Agent
from interlock.engine.run_turn import Executor, TurnRun


class ByAgent:
    """Implements `Executor`. `elsewhere` is made when the first turn of a registered agent is to be run."""

    def __init__(self, agent: Agent, here: Executor, elsewhere: Callable[[], Executor]) -> None:
        self._names = {skill.agent for skill in agent.known}
        self._here = here
        self._make = elsewhere

    @cached_property
    def _elsewhere(self) -> Executor:
        return self._make()

    def execute(self, run: TurnRun, seconds: float) -> None:
        executor = self._here if run.meta.agent in self._names else self._elsewhere
        executor.execute(run, seconds)
