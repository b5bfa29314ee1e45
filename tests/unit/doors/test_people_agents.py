"""Agents elsewhere at the people's door: who registers, raises and removes, and what the fleet shows."""

from typing import Any

import httpx
import pytest
from tests.support.calls import call
from tests.support.cards import URL, card
from tests.support.elsewhere import Overseen, Scripted, said
from tests.support.halting import REASON
from tests.support.twin import message
from tests.unit.doors.test_people import refusal

from interlock.a2a.models import TaskState, TaskStatus
from interlock.engine.peers import PeerUnreachable

DECLARED = {
    "free": {"mode": "autonomous"},
    "told": {"mode": "notification"},
    "late": {"mode": "veto", "vetoTtlMs": 5000},
    "kept": {"mode": "gated", "reviewer": "operator", "note": "Mind the gap"},
    "each": {"mode": "compound"},
    "odd": {"mode": "none"},
}
NEW = {"name": "near", "url": "https://near.example"}


class House(Overseen):
    def __init__(self) -> None:
        self.far = Scripted(steps=[TaskStatus(state=TaskState.INPUT_REQUIRED, message=said("Go on?"))])
        super().__init__(self.far, DECLARED)
        self.app = self.deployment.people_door()

    def ask(self, path: str, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "GET", f"/people/{path}", who=who)

    def tell(self, path: str, body: Any = None, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "POST", f"/people/{path}", who=who, body=body)

    def skill(self, skill: str, agent: str = "far") -> dict[str, Any]:
        (found,) = [each for each in self.ask("fleet").json()["agents"] if each["agent"] == agent]
        (shown,) = [each for each in found["skills"] if each["skill"] == skill]
        return dict(shown)


@pytest.fixture
def house() -> House:
    return House()


def test_the_fleet_has_every_agent_with_the_mode_of_each_skill_and_what_says_so(house: House) -> None:
    here, far = house.ask("fleet").json()["agents"]
    assert here == {
        "agent": "desk",
        "skills": [{"skill": "work", "mode": "autonomous", "source": "declared", "declared": "autonomous"}],
        "questions": 0,
    }
    assert {skill["skill"]: (skill["mode"], skill["source"]) for skill in far["skills"]} == {
        "free": ("autonomous", "declared"),
        "told": ("notification", "declared"),
        "late": ("veto", "declared"),
        "kept": ("gated", "declared"),
        "each": ("compound", "declared"),
        "odd": ("gated", "malformed"),
    }
    assert house.skill("late")["vetoTtlMs"] == 5000
    assert (house.skill("kept")["reviewer"], house.skill("kept")["note"]) == ("operator", "Mind the gap")
    assert house.skill("odd")["problem"] == "the mode is not known"
    assert (far["url"], far["stale"], far["addedBy"]) == (URL, False, "bearer:ops")


def test_what_is_undeclared_or_has_another_name_for_halts_shows(house: House) -> None:
    house.far.cards[URL] = card({}, "go #1")
    house.refreshed()
    shown = house.skill("go #1")
    assert (shown["mode"], shown["source"]) == ("gated", "undeclared")
    assert shown["name"].startswith("skill-")
    assert "declared" not in shown


def test_open_questions_are_counted_for_each_agent(house: House) -> None:
    for _ in range(2):
        house.send(message("go", metadata={"skillHint": "free"}))
    assert [each["questions"] for each in house.ask("fleet").json()["agents"]] == [0, 2]
    assert "questions" not in house.ask("fleet", "platform").json()["agents"][1]


def test_halts_show_on_what_they_cover(house: House) -> None:
    house.tell("halts", {"scope": "skill:late", "reason": REASON})
    assert house.skill("late")["halted"] == "skill:acme/late"
    assert "halted" not in house.skill("free")
    house.tell("halts", {"scope": "agent:far", "reason": REASON})
    far = house.ask("agents/far").json()
    assert far["halted"] == "agent:acme/far"
    assert {skill["halted"] for skill in far["skills"]} == {"agent:acme/far"}


def test_a_card_that_can_not_be_fetched_shows_as_stale_with_what_was_known(house: House) -> None:
    house.far.cards[URL] = PeerUnreachable("no answer")
    house.refreshed()
    far = house.ask("agents/far").json()
    assert (far["stale"], far["problem"], len(far["skills"])) == (True, "no answer", len(DECLARED))


def test_an_operator_registers_refreshes_raises_and_removes(house: House) -> None:
    added = house.tell("agents", NEW).json()
    assert (added["agent"], added["url"], added["stale"], added["skills"]) == ("near", NEW["url"], True, [])
    assert "triedAt" not in added
    assert house.deployment.waker.refreshes[-1] == ("acme", "near")
    asked = house.tell("agents/far/refresh").json()
    assert asked["triedAt"] == house.ask("agents/far").json()["triedAt"]
    assert house.deployment.waker.refreshes[-1] == ("acme", "far")
    raised = house.tell("agents/far/override", {"skill": "free", "mode": "veto"}).json()
    assert raised["skills"][0] == {
        "skill": "free",
        "mode": "veto",
        "source": "override",
        "declared": "autonomous",
        "override": "veto",
        "vetoTtlMs": 60000,
    }
    assert house.tell("agents/far/override", {"skill": "free"}).json()["skills"][0]["mode"] == "autonomous"
    assert house.tell("agents/near/remove").json() == {"status": "removed"}
    assert [each["agent"] for each in house.ask("agents").json()["agents"]] == ["far"]


@pytest.mark.parametrize("who", ["agent", "ann", "bot", "nobody"])
def test_only_operators_change_anything(house: House, who: str) -> None:
    with house.deployment.unchanged():
        for path, body in (
            ("agents", NEW),
            ("agents/far/refresh", None),
            ("agents/far/override", {"skill": "free", "mode": "gated"}),
            ("agents/far/remove", None),
        ):
            refusal(house.tell(path, body, who), 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("path", ["fleet", "agents", "agents/far"])
def test_approvers_and_operators_look_and_nobody_else(house: House, path: str) -> None:
    for who in ("ann", "ops", "platform"):
        assert house.ask(path, who).status_code == 200
    for who in ("agent", "nobody"):
        refusal(house.ask(path, who), 403, "PERMISSION_DENIED")
    refusal(house.ask(path, None), 401, "UNAUTHENTICATED")


def test_another_tenants_agents_are_not_there(house: House) -> None:
    assert [each["agent"] for each in house.ask("fleet", "spy").json()["agents"]] == ["desk"]
    for response in (
        house.ask("agents/far", "spy"),
        house.tell("agents/far/refresh", who="spy"),
        house.tell("agents/far/remove", who="spy"),
        house.tell("agents/far/override", {"skill": "free", "mode": "gated"}, "spy"),
    ):
        refusal(response, 404, "AGENT_NOT_FOUND")


@pytest.mark.parametrize(
    "body",
    [
        {"name": "near"},
        {**NEW, "name": "desk"},
        {**NEW, "name": "Near"},
        {**NEW, "name": 7},
        {**NEW, "url": "near.example"},
        {**NEW, "peer": ""},
        {**NEW, "more": 1},
    ],
    ids=repr,
)
def test_an_agent_of_another_form_is_refused(house: House, body: Any) -> None:
    with house.deployment.unchanged():
        refusal(house.tell("agents", body), 400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "body", [{}, {"skill": "none", "mode": "gated"}, {"skill": "free", "mode": "x"}, {"skill": ""}], ids=repr
)
def test_an_override_of_another_form_is_refused(house: House, body: Any) -> None:
    with house.deployment.unchanged():
        refusal(house.tell("agents/far/override", body), 400, "INVALID_PARAMS")
