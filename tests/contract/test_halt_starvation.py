"""Answers can not starve a halt: each has a condition on it, so they conflict with its write."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from tests.property.world import AnyPayload
from tests.support.contention import BusyTable, Timeline
from tests.support.crowd import FULL
from tests.support.halting import halt
from tests.support.twin import ANN, Deployment, asking, message

from interlock.a2a.errors import Unavailable
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.halts import Halted
from interlock.oversight.hitl_prompt import RESPONSE_KEY

YES = {"approved": True}
RATES, SEEDS = ((25, 50), 20) if FULL else ((50,), 4)
"""Answers a second that a halt covers: those of some thousand people."""
BEFORE, AFTER = 0.5, 1.5
"""Seconds of traffic before the halt is called, and after."""


@dataclass
class Rush:
    """People answer so often a second, each a prompt of their own, while a halt is declared."""

    rate: int
    declared_at: float | None = None
    answered_at: list[float] = field(default_factory=list)
    refused: int = 0

    def __post_init__(self) -> None:
        self.deployment = Deployment(asking(), guard=AnyPayload())
        self.timeline = Timeline()
        answers = [self._answer() for _ in range(int(self.rate * (BEFORE + AFTER)))]
        self.deployment.waker.at_once = False
        table = BusyTable(self.deployment.table, self.timeline)
        self.deployment.engine = replace(self.deployment.engine, table=table, clock=self.timeline)
        for answer in answers:
            self.timeline.at(random.uniform(0, BEFORE + AFTER), answer)
        self.timeline.at(BEFORE, self._halt)
        self.timeline.run()
        self.conflicts = table.conflicts

    def _answer(self) -> Callable[[], None]:
        task_id = self.deployment.send().id
        prompt_id = self.deployment.open_prompt(task_id)
        said = message(task_id=task_id, metadata={RESPONSE_KEY: {"prompt_id": prompt_id, "payload": YES}})
        answer = Answer(ANN, task_id, prompt_id, dict(YES), said)

        def act() -> None:
            try:
                admit_answer(self.deployment.engine, answer)
            except Halted:
                self.refused += 1
            except Unavailable:
                # In the way of each other too often.
                pass
            else:
                self.answered_at.append(self.timeline.time)

        return act

    def _halt(self) -> None:
        halt(self.deployment)
        self.declared_at = self.timeline.time


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("rate", RATES)
def test_answers_in_a_rush_do_not_keep_a_halt_from_being_declared(rate: int, seed: int) -> None:
    random.seed(seed)
    rush = Rush(rate)
    assert rush.conflicts
    assert rush.declared_at is not None
    # While the rush was on.
    assert rush.declared_at < BEFORE + AFTER
    assert rush.answered_at
    assert max(rush.answered_at) <= rush.declared_at
    assert rush.refused
