"""Out of office at the people's door."""

import json
from typing import Any

import httpx
import pytest
from tests.support.calls import call
from tests.support.twin import Deployment, no_answer, nothing, running
from tests.unit.doors.test_people import refusal
from tools import openapi

from interlock.engine.calls import Calls
from interlock.engine.facts import fact_pk

UNTIL = "2026-01-02T08:00:00+01:00"
SAID = {"substitute": "bearer:bob", "until": UNTIL}
SHOWN = {
    "who": "bearer:ann",
    "substitute": "bearer:bob",
    "since": "2026-01-01T12:00:00.000Z",
    "until": "2026-01-02T07:00:00.000Z",
    "saidBy": "bearer:ann",
}


class Door:
    def __init__(self) -> None:
        self.deployment = Deployment(running(nothing), at_once=False)
        self.deployment.calls = Calls(self.deployment.engine)
        self.app = self.deployment.people_door()

    def listed(self, who: str | None = "ann") -> httpx.Response:
        return call(self.app, "GET", "/people/away", who=who)

    def say(self, body: Any = SAID, who: str | None = "ann") -> httpx.Response:
        return call(self.app, "PUT", "/people/away", who=who, body=body)

    def clear(self, who: str | None = "ann", of: str | None = None) -> httpx.Response:
        query = httpx.QueryParams({"who": of} if of is not None else {})
        return call(self.app, "DELETE", f"/people/away?{query}", who=who)

    def calls(self) -> list[str]:
        rows = self.deployment.table.query(fact_pk("acme")).rows
        facts = [json.loads(str(item["body"])) for _, item in rows]
        return [fact["method"] for fact in facts if fact["kind"] == "call"]


@pytest.fixture
def door() -> Door:
    return Door()


def test_an_absence_is_said_shown_and_taken_back(door: Door) -> None:
    response = door.say()
    assert (response.status_code, response.json()) == (200, SHOWN)
    assert door.listed("ben").json() == {"away": [SHOWN], "now": "2026-01-01T12:00:00.000Z"}
    assert door.clear().json() == {"status": "cleared"}
    assert door.clear().json() == {"status": "nothing"}
    assert door.listed().json()["away"] == []


def test_an_operator_says_so_for_somebody_else(door: Door) -> None:
    body = {**SAID, "who": "bearer:ann", "since": "2026-01-01T20:00:00Z"}
    shown = {**SHOWN, "saidBy": "bearer:ops", "since": "2026-01-01T20:00:00.000Z"}
    assert door.say(body, "ops").json() == shown
    refusal(door.say(body, "ben"), 403, "PERMISSION_DENIED")
    refusal(door.clear("ben", "bearer:ann"), 403, "PERMISSION_DENIED")
    assert door.clear("ops", "bearer:ann").json() == {"status": "cleared"}


@pytest.mark.parametrize(
    "body",
    [
        {"substitute": "bearer:bob"},
        {"until": UNTIL},
        {**SAID, "until": "tomorrow"},
        {**SAID, "until": "2026-01-02T08:00:00"},
        {**SAID, "until": 1},
        {**SAID, "since": "2026-01-03T08:00:00Z"},
        {**SAID, "since": ""},
        {**SAID, "substitute": "bob"},
        {**SAID, "who": ""},
        {**SAID, "more": 1},
        [],
    ],
)
def test_what_is_no_absence_is_refused(door: Door, body: Any) -> None:
    refused = (400, "INVALID_PARAMS") if isinstance(body, dict) else (400, "INVALID_REQUEST")
    refusal(door.say(body), *refused)
    assert door.listed().json()["away"] == []


@pytest.mark.parametrize("who", [None, "stranger"])
def test_only_who_is_known_is_told(door: Door, who: str | None) -> None:
    for response in (door.listed(who), door.say(SAID, who), door.clear(who)):
        refusal(response, 401, "UNAUTHENTICATED")


@pytest.mark.parametrize("who", ["agent", "bot"])
def test_agents_have_no_part_in_it(door: Door, who: str) -> None:
    for response in (door.listed(who), door.say(SAID, who), door.clear(who)):
        refusal(response, 403, "PERMISSION_DENIED")


def test_another_tenant_is_told_of_nothing(door: Door) -> None:
    door.say()
    assert door.listed("spy").json()["away"] == []


def test_every_call_is_on_the_trail(door: Door) -> None:
    door.say()
    door.listed()
    door.clear()
    assert sorted(door.calls()) == ["people.delete_away", "people.get_away", "people.put_away"]


def test_a_store_that_does_not_answer_is_unavailable(door: Door) -> None:
    def fails(operation: str, arguments: tuple[Any, ...]) -> None:
        no_answer()

    door.deployment.calls = None
    app = door.deployment.people_door()
    door.deployment.hooks.before = fails
    for method in ("GET", "DELETE"):
        refusal(call(app, method, "/people/away", who="ann"), 503, "UNAVAILABLE")


def test_the_description_has_the_three() -> None:
    described = json.loads(openapi.people())["paths"]["/people/away"]
    assert described.keys() == {"get", "put", "delete"}
