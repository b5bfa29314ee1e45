"""Drills at the people's door: a canary of its own for each tenant, and figures that are kept."""

import json
from typing import Any

import httpx
import pytest
from tests.support.calls import call
from tests.support.halting import run_of, walk_all
from tests.support.twin import Deployment, no_answer
from tests.unit.doors.test_people import refusal

from interlock.agents import canary as canary_agent
from interlock.engine.canary import CANARY, canary_scope
from interlock.engine.facts import fact_pk
from interlock.engine.ports import Update
from interlock.engine.records import TaskMeta
from interlock.engine.run_turn import claim
from interlock.engine.stop import finish_stop
from interlock.oversight.halts import Scope

SCOPE = "skill:acme/interlock-canary"


class Door:
    def __init__(self) -> None:
        self.deployment = Deployment(canary_agent.agent, at_once=False)
        self.app = self.deployment.people_door()

    def start(self, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "POST", "/people/drills", who=who)

    def get(self, task_id: str, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "GET", f"/people/drills/{task_id}", who=who)

    def record(self, task_id: str, body: Any = None, who: str | None = "ops") -> httpx.Response:
        seen = {"generation": 1, "declaredMs": 12, "refusedMs": 34} if body is None else body
        return call(self.app, "POST", f"/people/drills/{task_id}", who=who, body=seen)

    def halt(self, who: str = "ops", scope: str = SCOPE) -> int:
        body = {"scope": scope, "reason": "a drill"}
        response = call(self.app, "POST", "/people/halts", who=who, body=body)
        assert response.status_code == 200
        generation: int = response.json()["generation"]
        return generation

    def drills(self) -> list[dict[str, Any]]:
        rows = self.deployment.table.query(fact_pk("acme")).rows
        found = [json.loads(str(item["body"])) for _, item in rows]
        return [fact for fact in found if fact["kind"] == "drill"]


@pytest.fixture
def door() -> Door:
    return Door()


def running(door: Door, who: str = "ops") -> str:
    """A canary that a worker has claimed."""
    task_id = str(door.start(who).json()["taskId"])
    assert claim(door.deployment.engine, "acme", task_id, 1) is not None
    return task_id


def test_an_operator_starts_a_canary_without_being_a_caller(door: Door) -> None:
    response = door.start()
    assert response.status_code == 200
    body = response.json()
    assert body == {"taskId": body["taskId"], "scope": SCOPE, "state": "TASK_STATE_SUBMITTED"}
    meta = door.deployment.meta(body["taskId"])
    assert (meta.agent, meta.skill, meta.owner) == (CANARY.agent, CANARY.id, "bearer:ops")
    assert door.deployment.waker.turns == [("acme", body["taskId"], 1)]
    assert door.get(body["taskId"]).json() == body
    claim(door.deployment.engine, "acme", body["taskId"], 1)
    assert door.get(body["taskId"]).json()["state"] == "TASK_STATE_WORKING"


def test_a_platforms_operator_holds_drills_too_in_the_own_tenant(door: Door) -> None:
    assert door.get(running(door, "platform"), "platform").json()["scope"] == SCOPE


@pytest.mark.parametrize("who", ["agent", "ann", "bot", "nobody"])
def test_nobody_else_does(door: Door, who: str) -> None:
    task_id = running(door)
    door.halt()
    with door.deployment.unchanged():
        refusal(door.start(who), 403, "PERMISSION_DENIED")
        refusal(door.get(task_id, who), 403, "PERMISSION_DENIED")
        refusal(door.record(task_id, who=who), 403, "PERMISSION_DENIED")


def test_another_tenants_canary_is_not_there(door: Door) -> None:
    task_id = running(door)
    door.halt()
    with door.deployment.unchanged():
        refusal(door.get(task_id, "spy"), 404, "TASK_NOT_FOUND")
        refusal(door.record(task_id, who="spy"), 404, "TASK_NOT_FOUND")


@pytest.mark.parametrize("odd", ["none", "%00", "T%23acme", "é" * 80])
def test_what_is_no_task_is_not_there(door: Door, odd: str) -> None:
    door.halt()
    refusal(door.get(odd), 404, "TASK_NOT_FOUND")
    refusal(door.record(odd), 404, "TASK_NOT_FOUND")


def test_a_task_that_is_no_canary_is_not_there(door: Door) -> None:
    task_id, deployment = running(door), door.deployment
    deployment.table.write(Update(TaskMeta.key_of("acme", task_id), {"skill": "work"}))
    refusal(door.get(task_id), 404, "TASK_NOT_FOUND")


def test_only_the_canary_is_halted_and_then_a_new_one_is_refused(door: Door) -> None:
    running(door)
    door.halt()
    error = refusal(door.start(), 503, "HALTED")
    assert (error["status"], error["message"]) == ("UNAVAILABLE", "halted: a drill")
    assert not Scope.parse(SCOPE, "").covers("acme", "desk", "work")


def test_the_figures_are_of_the_halt_and_on_the_trail(door: Door) -> None:
    task_id = running(door)
    generation, clock = door.halt(), door.deployment.clock
    clock.advance(0.25)
    walk_all(door.deployment, canary_scope("acme"))
    clock.advance(1)
    finish_stop(door.deployment.engine, run_of(door.deployment, task_id), heard=True)
    figures = {"declaredMs": 12, "refusedMs": 34, "signalledMs": 250, "confirmedMs": 1250}
    named = {"scope": SCOPE, "generation": generation}
    assert door.record(task_id).json() == {"taskId": task_id, **named, **figures}
    (fact,) = door.drills()
    assert fact["detail"] == {**named, **figures}
    assert fact["taskId"] == task_id
    assert fact["actor"] == {"subject": "bearer:ops", "scheme": "operator"}


def test_a_drill_that_failed_is_on_the_trail_without_what_did_not_come(door: Door) -> None:
    task_id = running(door)
    door.halt()
    recorded = door.record(task_id, {"generation": 1, "declaredMs": 12}).json()
    assert recorded == {"taskId": task_id, "scope": SCOPE, "generation": 1, "declaredMs": 12}
    (fact,) = door.drills()
    assert fact["detail"] == {"scope": SCOPE, "generation": 1, "declaredMs": 12}


def test_a_canary_that_never_answered_is_not_confirmed(door: Door) -> None:
    task_id = running(door)
    door.halt()
    walk_all(door.deployment, canary_scope("acme"))
    finish_stop(door.deployment.engine, run_of(door.deployment, task_id), heard=False)
    recorded = door.record(task_id).json()
    assert recorded["signalledMs"] == 0
    assert "confirmedMs" not in recorded


def test_a_canary_whose_code_had_not_begun_was_not_signalled(door: Door) -> None:
    task_id = str(door.start().json()["taskId"])
    door.halt()
    walk_all(door.deployment, canary_scope("acme"))
    assert {"signalledMs", "confirmedMs"}.isdisjoint(door.record(task_id).json())


def test_clocks_that_differ_make_no_figure_negative(door: Door) -> None:
    task_id = running(door)
    door.halt()
    door.deployment.clock.advance(-5)
    walk_all(door.deployment, canary_scope("acme"))
    assert door.record(task_id).json()["signalledMs"] == 0


def test_figures_of_another_halt_are_not_recorded(door: Door) -> None:
    task_id = running(door)
    refusal(door.record(task_id), 404, "HALT_NOT_FOUND")
    door.halt()
    door.halt()
    refusal(door.record(task_id), 404, "HALT_NOT_FOUND")
    assert door.drills() == []


@pytest.mark.parametrize(
    "body",
    [
        {"generation": 1},
        {"declaredMs": 1},
        {"generation": 1, "declaredMs": -1},
        {"generation": 1, "declaredMs": 1.5},
        {"generation": 1, "declaredMs": "1"},
        {"generation": 1, "declaredMs": 3_600_001},
        {"generation": 1, "declaredMs": 1, "confirmedMs": 1},
        {"generation": 0, "declaredMs": 1},
    ],
    ids=repr,
)
def test_figures_of_another_form_are_refused(door: Door, body: Any) -> None:
    task_id = running(door)
    door.halt()
    with door.deployment.unchanged():
        refusal(door.record(task_id, body), 400, "INVALID_PARAMS")


def test_a_store_that_does_not_answer_is_unavailable_for_now(door: Door) -> None:
    task_id = running(door)
    door.halt()
    door.deployment.hook(before=lambda operation, arguments: no_answer())
    for response in (door.start(), door.get(task_id), door.record(task_id)):
        refusal(response, 503, "UNAVAILABLE")


def test_who_is_not_known_is_challenged(door: Door) -> None:
    with door.deployment.unchanged():
        for response in (door.start(None), door.get("x", None), door.record("x", b"{", None)):
            refusal(response, 401, "UNAUTHENTICATED")
