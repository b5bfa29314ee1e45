"""What a mode adds to a send, and what comes after it: the real engine over the twin, as in `operations`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from tests.performance.operations import TEXT, Counted, OperationCost
from tests.support.approvals import decide
from tests.support.twin import ANN, message

from interlock.agents import Agent, Mode, Turn
from interlock.engine.dispatch import SKEW, WINDOW
from interlock.engine.due import handle_due
from interlock.engine.notices import Renderer, Telling, deliver_notices
from interlock.engine.ports import Key
from interlock.engine.tells import Tells

SECONDS = 60.0
"""Of a window of veto."""


class Surface:
    """Implements `Renderers` and `Renderer`: takes whatever it is given."""

    def chosen(self, tells: Tells, interface: str | None, tenant: str) -> Mapping[str, Renderer]:
        return {"surface": self}

    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        pass


def measure() -> list[OperationCost]:
    return [cost for told in (False, True) for cost in _costs(told)]


def _costs(told: bool) -> Iterator[OperationCost]:
    where = "with renderers" if told else "without renderers"
    for mode in Mode:
        counted = _serving(mode, told)
        twin = counted.twin
        yield counted.cost(f"send, {mode}, {where}", partial(twin.send, message(TEXT)))
        (task,) = twin.listed().tasks
        if told and mode is not Mode.AUTONOMOUS:
            telling = Telling(twin.engine, Surface())
            tell = partial(deliver_notices, telling, "acme", task.id)
            yield counted.cost(f"notice of a send, {mode}", tell)
        if mode is Mode.VETO:
            twin.clock.advance(SECONDS + SKEW.total_seconds())
            window = _due(counted, WINDOW)
            yield counted.cost(f"window that passes, {where}", partial(handle_due, twin.engine, window))
        if mode is Mode.GATED:
            approve = partial(decide, twin, ANN, task.id)
            yield counted.cost(f"approval that starts a task, {where}", approve)


def _serving(mode: Mode, told: bool) -> Counted:
    agent = Agent("desk", "Does what it is told")

    @agent.skill("work", "Works", mode=mode)
    async def work(turn: Turn) -> None:
        await turn.complete("done")

    counted = Counted(agent)
    counted.twin.engine = replace(counted.twin.engine, notices=told)
    return counted


def _due(counted: Counted, kind: str) -> Key:
    (key,) = [key for key, item in counted.twin.due_rows().items() if item["kind"] == kind]
    return key
