"""Operators at the command line against the real doors and workers, over the twin and HTTP on loopback."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.integration.test_command_line import interlock, serving
from tests.support.halting import walk_all
from tests.support.twin import OPS, Deployment

from interlock.a2a.models import TaskState
from interlock.agents import Agent, canary, executor, watch
from interlock.agents.demo import agent as demo
from interlock.cli import drill, switch
from interlock.engine.calls import Calls
from interlock.engine.canary import canary_scope
from interlock.engine.facts import fact_pk
from interlock.engine.halt import current
from interlock.oversight.halts import Scope

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "LOOK_EVERY_SECONDS", 0.02)
    monkeypatch.setattr(executor, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(switch, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(drill, "POLL_SECONDS", 0.02)


def served() -> Agent:
    agent = replace(demo, skills=list(demo.skills))
    agent.include(canary.agent)
    return agent


@contextmanager
def working(deployment: Deployment) -> Iterator[None]:
    """Turns run and halts are walked as they are woken for; when the block ends, what runs is let end."""
    ended = threading.Event()

    def serve() -> None:
        with ThreadPoolExecutor(8) as pool:
            while not ended.wait(0.005):
                while deployment.waker.turns:
                    pool.submit(deployment.run_turn, *deployment.waker.turns.pop(0))
                while deployment.waker.walks:
                    scope, generation = deployment.waker.walks.pop(0)
                    walk_all(deployment, Scope.parse(scope, ""), generation)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def until_working(deployment: Deployment, *tasks: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while any(deployment.meta(task_id).task_state is not TaskState.WORKING for task_id in tasks):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def deployment() -> Iterator[Deployment]:
    place = Deployment(served(), at_once=False)
    place.calls = Calls(place.engine)
    with working(place):
        yield place


@pytest.fixture
def ops(deployment: Deployment) -> Iterator[tuple[str, ...]]:
    with serving(deployment) as url:
        yield ("--url", url, "--token", "ops")


def test_what_runs_is_stopped_and_nothing_starts_until_it_is_resumed(
    deployment: Deployment, ops: tuple[str, ...]
) -> None:
    heeding, stubborn = deployment.send("work 60").id, deployment.send("stubborn 60").id
    until_working(deployment, heeding, stubborn)
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident", *ops)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "Halted tenant:acme: an incident",
        "Of 2 that were running: 1 stopped, 1 did not answer and can record nothing more.",
    ]
    for task_id in (heeding, stubborn):
        assert deployment.meta(task_id).task_state is TaskState.CANCELED

    drilled = interlock("drill", *ops)
    assert (drilled.exit_code, drilled.stderr.splitlines()[0]) == (1, "halted: an incident")
    assert "tenant:acme  2 of 2" in interlock("status", *ops).output

    again = interlock("halt", "--tenant", "acme", "--reason", "it is worse", *ops, "--json")
    assert json.loads(again.output)["generation"] == 2
    stale = interlock("resume", "--tenant", "acme", "--generation", "1", *ops)
    assert (stale.exit_code, "halted by another halt than 1" in stale.stderr) == (1, True)
    assert interlock("resume", "--tenant", "acme", *ops).output == "Lifted the halt of tenant:acme.\n"
    assert interlock("resume", "--tenant", "acme", *ops).output == "tenant:acme was not halted.\n"
    assert interlock("status", *ops).output.startswith("Nothing is halted.\n")


def test_the_tasks_that_were_stopped_are_named(deployment: Deployment, ops: tuple[str, ...]) -> None:
    running = [deployment.send("work 60").id for _ in range(3)]
    other = deployment.send("stubborn 60").id
    until_working(deployment, *running, other)
    halted = interlock("halt", "--skill", "work", "--reason", "an incident", *ops, "--json")
    document = json.loads(halted.output)
    assert sorted(document["stopped"]) == sorted(running)
    assert document["counts"]["confirmed"] == 3
    assert deployment.meta(other).task_state is TaskState.WORKING
    deployment.cancel(other)


def test_a_drill_halts_the_canary_and_nothing_else(deployment: Deployment, ops: tuple[str, ...]) -> None:
    bystander = deployment.send("work 60").id
    until_working(deployment, bystander)
    result = interlock("drill", *ops, "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.output)
    assert deployment.meta(figures["taskId"]).task_state is TaskState.CANCELED
    assert deployment.meta(bystander).task_state is TaskState.WORKING
    deployment.cancel(bystander)
    halt = current(deployment.table, canary_scope("acme"))
    assert halt is not None
    assert (halt.on, halt.resumed_by) == (None, OPS.id)

    rows = deployment.table.query(fact_pk("acme")).rows
    facts = [json.loads(str(item["body"])) for _, item in rows]
    (drilled,) = [fact for fact in facts if fact["kind"] == "drill"]
    assert drilled["detail"] == {name: value for name, value in figures.items() if name not in {"taskId"}}
    assert drilled["taskId"] == figures["taskId"]
    assert {"declaredMs", "refusedMs", "signalledMs", "confirmedMs"} <= figures.keys()


def test_a_drill_of_a_deployment_whose_workers_do_not_run_halts_nothing() -> None:
    idle = Deployment(served(), at_once=False)
    with serving(idle) as url:
        result = interlock("drill", "--timeout", "1", "--url", url, "--token", "ops")
    assert result.exit_code == 1
    assert "did not run within 1 s" in result.stderr
    assert current(idle.table, canary_scope("acme")) is None
