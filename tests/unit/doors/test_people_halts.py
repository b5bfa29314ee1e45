"""The operator's switch at the people's door: who may, what is told, and that nothing holds a halt up."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest
from tests.support import twin
from tests.support.bindings import BINDINGS, Client
from tests.support.calls import call
from tests.support.halting import ALL, REASON, halt, started, walk_all
from tests.support.twin import SPY, Deployment, no_answer, nothing, running
from tests.unit.doors.test_people import refusal
from tools import openapi

from interlock.engine import halt_report
from interlock.engine.calls import LOST_CALL, Calls
from interlock.engine.facts import fact_pk
from interlock.engine.seal import chains
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Kind, Role

HALT = {"scope": "tenant:acme", "reason": REASON}


class Door:
    def __init__(self, **calls: Any) -> None:
        self.deployment = Deployment(running(nothing), at_once=False)
        if calls:
            self.deployment.calls = Calls(self.deployment.engine, **calls)
        self.app = self.deployment.people_door()

    def listed(self, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "GET", "/people/halts", who=who)

    def halt(self, body: Any = HALT, who: str | None = "ops") -> httpx.Response:
        return call(self.app, "POST", "/people/halts", who=who, body=body)

    def resume(self, who: str | None = "ops", **body: Any) -> httpx.Response:
        body = {"scope": "tenant:acme", **body}
        return call(self.app, "POST", "/people/halts/resume", who=who, body=body)

    def report(self, who: str | None = "ops", **query: Any) -> httpx.Response:
        parameters = httpx.QueryParams({"scope": "tenant:acme", **query})
        return call(self.app, "GET", f"/people/halts/report?{parameters}", who=who)

    def facts(self, kind: str, chain: str = "acme") -> list[dict[str, Any]]:
        rows = self.deployment.table.query(fact_pk(chain)).rows
        return [fact for fact in (json.loads(str(item["body"])) for _, item in rows) if fact["kind"] == kind]


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_halt_is_answered_with_its_report(door: Door) -> None:
    response = door.halt()
    assert response.status_code == 200
    assert response.json() == {
        "scope": "tenant:acme",
        "generation": 1,
        "on": True,
        "reason": REASON,
        "by": "bearer:ops",
        "haltedAt": "2026-01-01T12:00:00.000Z",
        "counts": {"asked": 0, "confirmed": 0, "abandoned": 0, "withdrawn": 0},
        "stopped": [],
    }
    assert door.deployment.waker.walks == [("tenant:acme", 1)]


def test_once_a_halt_is_answered_every_send_is_refused_until_it_is_lifted(door: Door) -> None:
    client = Client(door.deployment.agents_door(), BINDINGS[0])
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "go"}]}}
    door.halt()
    refused = client.call("SendMessage", message)
    assert refused.error is not None
    assert refused.error["message"] == f"halted: {REASON}"
    assert door.resume(generation=1).json() == {"status": "lifted"}
    assert client.call("SendMessage", message).error is None


def test_the_report_says_of_each_turn_what_became_of_it(door: Door) -> None:
    asked, withdrawn = started(door.deployment), door.deployment.send().id
    door.halt()
    door.deployment.clock.advance(1)
    walk_all(door.deployment)
    reported = door.report(generation=1).json()
    assert reported["walkedAt"] == "2026-01-01T12:00:01.000Z"
    assert reported["counts"] == {"asked": 1, "confirmed": 0, "abandoned": 0, "withdrawn": 1}
    at = "2026-01-01T12:00:01.000Z"
    assert sorted(reported["stopped"], key=lambda row: str(row["state"])) == [
        {"tenant": "acme", "taskId": asked, "turn": 1, "state": "asked", "stoppedAt": at},
        {
            "tenant": "acme",
            "taskId": withdrawn,
            "turn": 1,
            "state": "withdrawn",
            "stoppedAt": at,
            "endedAt": at,
        },
    ]


def test_a_report_goes_on_where_its_cursor_says(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halt_report, "PAGE_SIZE", 2)
    for _ in range(3):
        door.deployment.send()
    door.halt()
    walk_all(door.deployment)
    first = door.report().json()
    assert len(first["stopped"]) == 2
    second = door.report(cursor=first["cursor"]).json()
    assert len(second["stopped"]) == 1
    assert {"counts", "cursor"}.isdisjoint(second)


def test_the_list_has_what_stands_and_what_was_lifted_lately(door: Door) -> None:
    door.halt()
    door.halt({"scope": "skill:work", "reason": "this one"})
    door.resume(scope="skill:acme/work")
    body = door.listed("ann").json()
    assert body["now"].startswith("2026-01-01T12:00:00.")
    assert [(entry["scope"], entry["on"]) for entry in body["halts"]] == [
        ("tenant:acme", True),
        ("skill:acme/work", False),
    ]
    assert body["halts"][1]["resumedBy"] == "bearer:ops"
    assert "resumedBy" not in body["halts"][0]


def test_a_scope_without_a_tenant_is_of_the_callers(door: Door) -> None:
    for scope, whole in (("agent:desk", "agent:acme/desk"), ("skill:acme/work", "skill:acme/work")):
        assert door.halt({"scope": scope, "reason": REASON}).json()["scope"] == whole
        assert door.report(scope=scope).json()["scope"] == whole
        assert door.resume(scope=scope).json() == {"status": "lifted"}


def test_a_halt_that_was_declared_anew_stays(door: Door) -> None:
    first = door.halt().json()["generation"]
    door.halt({**HALT, "reason": "worse"})
    refusal(door.report(generation=first), 404, "HALT_NOT_FOUND")
    assert door.resume(generation=first).json() == {"status": "halted-anew"}
    assert door.listed().json()["halts"][0]["reason"] == "worse"
    assert door.resume().json() == {"status": "lifted"}
    assert door.resume().json() == {"status": "nothing"}


@pytest.mark.parametrize("who", ["agent", "ann", "bot", "nobody"])
def test_only_operators_halt_and_resume(door: Door, who: str) -> None:
    halt(door.deployment)
    with door.deployment.unchanged():
        refusal(door.halt(who=who), 403, "PERMISSION_DENIED")
        refusal(door.resume(who=who), 403, "PERMISSION_DENIED")


def test_a_service_with_every_role_halts_nothing_and_sees_no_halt(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = replace(SPY, kind=Kind.SERVICE, tenant="acme", roles=frozenset(Role))
    monkeypatch.setattr(twin, "TOKENS", {"robot": robot})
    for response in (
        door.halt(who="robot"),
        door.resume("robot"),
        door.listed("robot"),
        door.report("robot"),
    ):
        refusal(response, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("scope", ["all", "tenant:other", "agent:other/desk", "skill:other/work"])
def test_a_tenants_operator_halts_within_the_tenant_only(door: Door, scope: str) -> None:
    body = {"scope": scope, "reason": REASON}
    with door.deployment.unchanged():
        never = (door.halt(body).json(), door.resume(scope=scope).json(), door.report(scope=scope).json())
        for error in never[:2]:
            assert error["error"]["status"] == "PERMISSION_DENIED"
        assert never[2]["error"]["status"] == "NOT_FOUND"
    assert door.halt(body, "platform").status_code == 200
    if scope != "all":
        # Whether it is halted shows in nothing.
        assert (door.halt(body).json(), door.resume(scope=scope).json()) == never[:2]
        assert door.report(scope=scope).json() == never[2]
        assert door.listed().json()["halts"] == []


@pytest.mark.parametrize("who", ["agent", "bot", "nobody"])
def test_services_and_callers_see_no_halts(door: Door, who: str) -> None:
    halt(door.deployment)
    refusal(door.listed(who), 403, "PERMISSION_DENIED")
    refusal(door.report(who), 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("who", ["ann", "ops", "platform"])
def test_people_who_approve_or_operate_see_them(door: Door, who: str) -> None:
    halt(door.deployment, ALL)
    assert len(door.listed(who).json()["halts"]) == 1
    assert door.report(who, scope="all").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"scope": "tenant:acme"},
        {"reason": REASON},
        {"scope": "everything", "reason": REASON},
        {"scope": "tenant:", "reason": REASON},
        {"scope": "agent:acme/a/b", "reason": REASON},
        {"scope": "skill:acme/a#b", "reason": REASON},
        {"scope": 7, "reason": REASON},
        {"scope": "s" * 257, "reason": REASON},
        {**HALT, "reason": ""},
        {**HALT, "reason": "  "},
        {**HALT, "reason": "two\nlines"},
        {**HALT, "reason": "r" * 501},
        {**HALT, "by": "bearer:ann"},
        {**HALT, "generation": 1},
    ],
    ids=repr,
)
def test_a_halt_of_another_form_is_refused(door: Door, body: Any) -> None:
    with door.deployment.unchanged():
        refusal(door.halt(body), 400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "body",
    [{"generation": 0}, {"generation": "1"}, {"generation": True}, {"scope": "x"}, {"reason": "y"}],
    ids=repr,
)
def test_a_resume_of_another_form_is_refused(door: Door, body: dict[str, Any]) -> None:
    halt(door.deployment)
    with door.deployment.unchanged():
        refusal(door.resume(**body), 400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "query",
    [{"scope": "x"}, {"scope": ""}, {"generation": 0}, {"generation": "x"}, {"cursor": "x"}],
    ids=repr,
)
def test_a_report_that_can_not_be_meant_is_refused(door: Door, query: dict[str, Any]) -> None:
    halt(door.deployment)
    refusal(door.report(**query), 400, "INVALID_PARAMS")


def test_who_is_not_known_is_challenged_before_anything_else(door: Door) -> None:
    with door.deployment.unchanged():
        for response in (door.halt(b"{", None), door.resume(None), door.listed(None), door.report(None)):
            refusal(response, 401, "UNAUTHENTICATED")


def test_a_store_that_does_not_answer_is_unavailable_for_now(door: Door) -> None:
    door.deployment.hook(before=lambda operation, arguments: no_answer())
    for response in (door.halt(), door.resume(), door.listed(), door.report()):
        refusal(response, 503, "UNAVAILABLE")


def test_a_halt_whose_report_can_not_be_read_holds_and_says_so(door: Door) -> None:
    door.deployment.hook(before=lambda operation, arguments: no_answer() if operation == "query" else None)
    body = door.halt().json()
    assert (body["on"], body["stopped"]) == (True, [])
    assert "counts" not in body
    door.deployment.hook()
    assert door.listed().json()["halts"][0]["on"]


# The trail.


def test_halts_and_resumes_are_on_the_trail_as_the_operators(door: Door) -> None:
    door.halt()
    door.resume()
    facts = {fact["detail"]["action"]: fact for fact in door.facts("halt")}
    assert sorted(facts) == ["halt", "resume", "stopped"]
    for fact in facts.values():
        assert fact["actor"] == {"subject": "bearer:ops", "scheme": "operator"}
        assert fact["detail"]["scope"] == "tenant:acme"
    assert facts["halt"]["detail"]["reason"] == REASON


def test_a_halt_of_everything_is_found_by_who_seals_though_nobody_had_that_chain(door: Door) -> None:
    door.halt({"scope": "all", "reason": REASON}, "platform")
    assert [fact["detail"]["action"] for fact in door.facts("halt", "")] == ["halt"]
    assert "" in chains(door.deployment.table)


def never_sealing(deployment: Deployment) -> None:
    pass


def losing_calls(deployment: Deployment) -> None:
    def lose(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write" and any(
            '"kind":"call' in str(getattr(write, "item", {}).get("body")) for write in arguments
        ):
            no_answer()

    deployment.hook(before=lose)


@pytest.mark.parametrize("wrong", [never_sealing, losing_calls])
def test_where_a_seal_is_required_a_halt_waits_for_none_and_everything_else_does(
    wrong: Callable[[Deployment], None],
) -> None:
    door = Door(required=True)
    wrong(door.deployment)
    before = door.deployment.clock.now()
    assert door.halt().status_code == 200
    assert door.deployment.clock.now() == before
    assert [fact["detail"]["action"] for fact in door.facts("halt")] == ["halt"]
    for response in (door.resume(), door.listed(), door.report()):
        refusal(response, 503, "UNAVAILABLE")


def test_where_a_seal_is_required_a_halt_is_noted_like_any_call(caplog: pytest.LogCaptureFixture) -> None:
    door = Door(required=True)
    door.halt()
    door.halt(who="agent")
    assert sorted(fact["outcome"]["status"] for fact in door.facts("call")) == ["error", "ok"]
    assert {fact["method"] for fact in door.facts("call")} == {"people.halt"}
    losing_calls(door.deployment)
    door.halt()
    assert LOST_CALL in [record.message for record in caplog.records]


def test_the_description_says_what_a_halt_is() -> None:
    paths = json.loads(openapi.PEOPLE.read_text())["paths"]
    body = paths["/people/halts"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert sorted(body["required"]) == ["reason", "scope"]
    assert body["additionalProperties"] is False


def test_two_tenants_halts_do_not_meet(door: Door) -> None:
    door.halt()
    theirs = door.halt({"scope": "tenant:other", "reason": "theirs"}, "spy").json()
    assert theirs["generation"] == 1
    assert [entry["scope"] for entry in door.listed("ann").json()["halts"]] == ["tenant:acme"]
    assert halt_report.report(door.deployment.engine, SPY, Scope("other")).halt.reason == "theirs"
