"""The demo's worker and the canary: they work for a time, and are stopped, or can not be."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.support.halting import halt, walk_all
from tests.support.twin import OPS, Deployment

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import TaskState
from interlock.agents import canary, executor, watch
from interlock.agents.demo import agent as demo
from interlock.agents.demo import worker
from interlock.engine.canary import CANARY, canary_scope
from interlock.engine.drill import start_canary
from interlock.engine.halt_report import Became, report
from interlock.engine.records import Run
from interlock.oversight.halts import Scope

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(executor, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(worker, "STEP_SECONDS", 0.005)


def said(place: Deployment, task_id: str) -> list[str]:
    """All that the agent said of the task."""
    return [message.text for message in place.get(task_id).history or [] if message.role == "ROLE_AGENT"]


@contextmanager
def at_work(place: Deployment) -> Iterator[None]:
    """Turns run, until the block ends; then all of them have."""
    thread = threading.Thread(target=place.work)
    thread.start()
    deadline = time.monotonic() + PATIENCE
    while not any(Run.read(item).phase == Run.CLAIMED for item in place.run_rows().values()):
        assert time.monotonic() < deadline, "no turn was claimed"
        time.sleep(0.005)
    yield
    thread.join(PATIENCE)
    assert not thread.is_alive(), "a turn goes on"


@pytest.mark.parametrize("word", ["work", "stubborn"])
def test_it_works_for_as_long_as_it_is_told_to(word: str) -> None:
    place = Deployment(demo)
    begun = time.monotonic()
    task = place.send(f"{word} 0.2")
    assert time.monotonic() - begun >= 0.2
    assert task.status.state is TaskState.COMPLETED
    assert task.status.message is not None
    assert task.status.message.text == "Worked for 0.2 s."


def test_it_says_how_far_it_is_at_most_once_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SAY_EVERY_SECONDS", 0.1)
    place = Deployment(demo)
    task_id = place.send("work 0.35").id
    assert 1 <= len(said(place, task_id)) - 1 <= 3
    assert place.meta(task_id).seq <= 6


@pytest.mark.parametrize(
    "text", ["work hard", "work 601", "work -1", "stubborn 1e9", "stubborn 601", "work \u0661"]
)
def test_what_is_no_time_is_rejected(text: str) -> None:
    task = Deployment(demo).send(text)
    assert task.status.state is TaskState.REJECTED
    assert task.status.message is not None
    assert "<seconds>`, at most 600." in task.status.message.text


@pytest.mark.parametrize(
    ("text", "expected"), [("work 60", Became.CONFIRMED), ("stubborn 60", Became.ABANDONED)]
)
def test_one_heeds_its_signal_and_the_other_does_not(text: str, expected: Became) -> None:
    place = Deployment(demo, at_once=False)
    task_id = place.send(text).id
    with at_work(place):
        halt(place)
        walk_all(place)
    assert place.get(task_id).status.state is TaskState.CANCELED
    (found,) = report(place.engine, OPS, Scope("acme")).found
    assert (found.row.task_id, found.became) == (task_id, expected)


def with_canary() -> Deployment:
    served = replace(demo, skills=list(demo.skills))
    served.include(canary.agent)
    return Deployment(served, at_once=False)


def test_a_canary_works_until_a_halt_of_its_own_scope_stops_it() -> None:
    place = with_canary()
    task_id = start_canary(place.engine, OPS).task_id
    with at_work(place):
        halt(place, canary_scope("acme"))
        walk_all(place, canary_scope("acme"))
    assert place.meta(task_id).task_state is TaskState.CANCELED
    (found,) = report(place.engine, OPS, canary_scope("acme")).found
    assert found.became is Became.CONFIRMED


def test_a_canary_that_nobody_stops_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary, "MAX_SECONDS", 0.05)
    place = with_canary()
    task_id = start_canary(place.engine, OPS).task_id
    place.work()
    assert place.meta(task_id).task_state is TaskState.COMPLETED


def test_only_a_hint_reaches_the_canary() -> None:
    only = Deployment(canary.agent)
    with pytest.raises(InvalidParams, match="No skill of this agent takes this message"):
        only.send("interlock-canary")
    (skill,) = canary.agent.skills
    assert (skill.agent, skill.id, skill.listed) == (CANARY.agent, CANARY.id, False)
