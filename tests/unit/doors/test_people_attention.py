"""More time, claims and passing on, at the people's door."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.support.calls import call
from tests.support.twin import ANN, BEN
from tests.unit.doors.test_people import Door as Asked
from tests.unit.doors.test_people import refusal

from interlock.engine.calls import Calls
from interlock.engine.facts import fact_pk


class Door(Asked):
    def __init__(self) -> None:
        super().__init__(deadline=timedelta(minutes=5))

    def post(self, what: str, who: str | None = "ann", **body: Any) -> httpx.Response:
        return call(self.app, "POST", f"{self.path}/{what}", who=who, body=body)

    def release(self, who: str = "ann") -> httpx.Response:
        return call(self.app, "DELETE", f"{self.path}/claim", who=who)


def test_a_deadline_that_was_put_off_is_shown_with_who_did() -> None:
    door = Door()
    until = "2026-01-01T13:00:00.000Z"
    shown = door.post("extend", until="2026-01-01T14:00:00+01:00").json()
    assert (shown["deadline"], shown["extendedBy"]) == (until, ANN.id)
    assert shown["ifUnanswered"] == {"what": "ended", "at": until}
    (listed,) = door.get("/people/checkpoints").json()["checkpoints"]
    assert shown == listed
    refusal(door.post("extend", until=until, who="ben"), 400, "INVALID_PARAMS")
    door.answer()
    refusal(door.post("extend", until=until), 409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN")


def test_a_claim_is_shown_to_others_until_it_is_over_or_taken_back() -> None:
    door = Door()
    claim = {"who": ANN.id, "until": "2026-01-01T12:15:00.000Z"}
    assert door.post("claim").json()["claim"] == claim
    error = refusal(door.post("claim", who="ben"), 409, "CHECKPOINT_CLAIMED")
    assert error["details"][0]["metadata"] == {"who": ANN.id}
    refusal(door.release("ben"), 409, "CHECKPOINT_CLAIMED")
    assert door.get(who="ben").json()["claim"] == claim
    assert "claim" not in door.release().json()
    door.post("claim")
    door.answer(who="ben")
    assert "claim" not in door.get().json()


def test_a_claim_that_is_over_is_not_shown() -> None:
    door = Asked(deadline=timedelta(hours=1))
    call(door.app, "POST", f"{door.path}/claim", who="ann", body={})
    door.deployment.clock.advance(15 * 60)
    assert "claim" not in door.get().json()


def test_passed_on_it_is_somebody_elses_with_what_was_said() -> None:
    door = Door()
    shown = door.post("pass-on", to=BEN.id, comment="you know this").json()
    assert shown["claim"] == {
        "who": BEN.id,
        "until": "2026-01-02T12:00:00.000Z",
        "note": "you know this",
    }
    refusal(door.post("pass-on", to="operators", who="carol"), 409, "CHECKPOINT_CLAIMED")
    shown = door.post("pass-on", to="operators", who="ben").json()
    assert [hop.get("outcome") for hop in shown["chain"]] == ["passed", "passed", None]
    assert "claim" not in shown


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("extend", {}),
        ("extend", {"until": ""}),
        ("extend", {"until": 1}),
        ("extend", {"until": "tomorrow"}),
        ("extend", {"until": "2026-01-01T13:00:00"}),
        ("extend", {"until": "2" * 65}),
        ("extend", {"until": "2026-01-01T13:00:00Z", "more": 1}),
        ("claim", {"until": "2026-01-01T13:00:00Z"}),
        ("pass-on", {}),
        ("pass-on", {"to": ""}),
        ("pass-on", {"to": "b" * 273}),
        ("pass-on", {"to": BEN.id, "comment": ""}),
        ("pass-on", {"to": BEN.id, "comment": "c" * 2001}),
    ],
    ids=repr,
)
def test_what_is_malformed_is_refused(what: str, body: dict[str, Any]) -> None:
    door = Door()
    with door.deployment.unchanged():
        refusal(door.post(what, **body), 400, "INVALID_PARAMS")


@pytest.mark.parametrize("what", ["extend", "claim", "pass-on"])
def test_who_calls_is_known_and_sees_it(what: str) -> None:
    door = Door()
    body = {"extend": {"until": "2026-01-01T13:00:00Z"}, "pass-on": {"to": BEN.id}}.get(what, {})
    with door.deployment.unchanged():
        refusal(door.post(what, who=None, **body), 401, "UNAUTHENTICATED")
        refusal(door.post(what, who="spy", **body), 404, "TASK_NOT_FOUND")
        refusal(door.post(what, who="agent", **body), 403, "PERMISSION_DENIED")


def test_a_refused_one_is_a_call_on_the_trail_and_no_refused_decision() -> None:
    door = Door()
    door.deployment.calls = Calls(door.deployment.engine)
    door.app = door.deployment.people_door()
    door.post("claim", who="agent")
    facts = [json.loads(str(i["body"])) for _, i in door.deployment.table.query(fact_pk("acme")).rows]
    (noted,) = [fact for fact in facts if fact.get("method") == "people.claim_one"]
    assert (noted["kind"], noted["outcome"]["error"]) == ("call", "PERMISSION_DENIED")
    assert "prompt.refused" not in {fact["kind"] for fact in facts}
