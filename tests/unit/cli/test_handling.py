"""`interlock claim`, `extend`, `pass-on`, `stats` and `audit search` against a people's door on loopback."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import AT, OperatorsDoor
from tests.unit.cli.serving import LoseReply, Response, serving
from tests.unit.cli.test_people import checkpoint

ONE = "tasks/task-aaaa1111-x/checkpoints/aaaa1111-x"
SHOWN = checkpoint("aaaa1111-x")


@pytest.fixture
def door() -> OperatorsDoor:
    door = OperatorsDoor()
    door.answers("GET", "checkpoints", {"checkpoints": [SHOWN], "now": AT})
    return door


@pytest.fixture(autouse=True)
def url(door: OperatorsDoor, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("interlock.cli.door.BACK_OFF_SECONDS", 0.0)
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        tokens = {"alice": "il_alice", "oncall": "il_oncall"}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps({"url": url, "tokens": tokens}))
        yield url


def test_it_is_claimed_and_released(door: OperatorsDoor, interlock: Invoke) -> None:
    claim = {"who": "bearer:alice", "until": AT}
    door.answers("POST", f"{ONE}/claim", {**SHOWN, "claim": claim})
    door.answers("DELETE", f"{ONE}/claim", SHOWN)
    assert interlock("claim", "aaaa").output == f"bearer:alice looks at it until {AT}.\n"
    assert json.loads(interlock("claim", "aaaa", "--json").output)["claim"] == claim
    assert interlock("claim", "aaaa", "--release").output == "Released.\n"


def test_who_else_looks_at_it_is_said(door: OperatorsDoor, interlock: Invoke) -> None:
    details = [{"metadata": {"who": "bearer:bob"}}]
    error = {"code": 409, "message": "Somebody else looks at it", "details": details}
    door.answers("POST", f"{ONE}/claim", Response({"error": error}, 409))
    result = interlock("claim", "aaaa")
    assert (result.exit_code, result.stderr) == (1, "Somebody else looks at it\nit is bearer:bob\n")


def test_the_deadline_is_put_off(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", f"{ONE}/extend", {**SHOWN, "deadline": AT})
    assert interlock("extend", "aaaa", "--until", "4h").output == f"It waits until {AT}.\n"
    (sent,) = door.asked("POST", f"{ONE}/extend")
    until = datetime.fromisoformat(sent["until"])
    assert abs(until - datetime.now(UTC) - timedelta(hours=4)) < timedelta(minutes=1)
    assert interlock("extend", "aaaa", "--until", "later").exit_code == 2


@pytest.mark.parametrize(
    ("options", "to"), [(("--to", "bearer:bob"), "bearer:bob"), (("--operators",), "operators")]
)
def test_it_is_passed_on(door: OperatorsDoor, interlock: Invoke, options: Any, to: str) -> None:
    door.answers("POST", f"{ONE}/pass-on", SHOWN)
    result = interlock("pass-on", "aaaa", *options, "--comment", "you know it")
    assert (result.exit_code, result.output) == (0, f"Passed on to {to}.\n")
    assert door.asked("POST", f"{ONE}/pass-on") == [{"to": to, "comment": "you know it"}]


@pytest.mark.parametrize("options", [(), ("--to", "bearer:bob", "--operators")])
def test_it_is_passed_on_to_exactly_one(interlock: Invoke, options: tuple[str, ...]) -> None:
    assert interlock("pass-on", "aaaa", *options).exit_code == 2


def test_what_means_another_the_second_time_is_said_once(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", f"{ONE}/pass-on", LoseReply)
    result = interlock("pass-on", "aaaa", "--operators")
    assert (result.exit_code, "may be done or not" in result.stderr) == (3, True)
    assert len(door.asked("POST", f"{ONE}/pass-on")) == 1


def test_figures(door: OperatorsDoor, interlock: Invoke) -> None:
    counts = {"approved": 3, "denied": 1, "answered": 2, "changesRequested": 0, "expired": 4, "canceled": 5}
    day = {"date": "2026-11-30", **counts, "medianWaitSeconds": 42.0, "p90WaitSeconds": 5400.0}
    person = {"who": "bearer:bob", "decisions": 4, "approvedUnder3s": 3, "share": 0.75}
    told = {"days": [day], "byPerson": [person], "sampled": 1000, "complete": False, "now": AT}
    door.answers("GET", "statistics", told)
    result = interlock("stats", "--days", "30")
    assert result.exit_code == 0, result.output
    for shown in ("2026-11-30", "42 s", "1.5 h", "bearer:bob", "75%"):
        assert shown in result.stdout
    assert "newest 1000 only" in result.stderr
    assert door.asked("GET", "statistics") == [{"days": "30"}]
    document = json.loads(interlock("stats", "--json").output)
    assert document["byPerson"] == [person]


def test_the_trail_is_searched_page_by_page(door: OperatorsDoor, interlock: Invoke) -> None:
    first = {"time": AT, "kind": "halt", "actor": {"scheme": "operator", "subject": "\x1b[2J"}}
    record = {**first, "detail": {"action": "halt"}, "taskId": "t1"}
    pages = [
        {"records": [], "cursor": "c1", "looked": 100, "now": AT},
        {"records": [record], "cursor": "c2", "looked": 100, "now": AT},
        {"records": [record] * 9, "looked": 9, "now": AT},
    ]
    door.answers("GET", "audit", *pages)
    result = interlock("audit", "search", "--kind", "halt", "--after", "2d", "--limit", "3")
    assert result.exit_code == 0, result.output
    assert result.output.count(AT) == 3
    assert "\x1b" not in result.output
    asked = door.asked("GET", "audit")
    assert [query.get("cursor") for query in asked] == [None, "c1", "c2"]
    assert {query["kind"] for query in asked} == {"halt"}
    after = datetime.fromisoformat(asked[0]["after"])
    assert abs(datetime.now(UTC) - after - timedelta(days=2)) < timedelta(minutes=1)
    assert door.requests[0].headers["authorization"] == "Bearer il_oncall"
    found = json.loads(interlock("audit", "search", "--json").output)["records"]
    assert found == [record] * 9


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ({"kind": "call", "method": "people.me", "outcome": {"status": "ok"}}, "people.me ok"),
        (
            {"kind": "call", "method": "SendMessage", "outcome": {"status": "error", "error": "HALTED"}},
            "SendMessage HALTED",
        ),
        (
            {"kind": "approval", "detail": {"decision": "deny"}, "state": "TASK_STATE_WORKING"},
            "deny TASK_STATE",
        ),
    ],
)
def test_what_became_of_it_is_told_in_words(
    door: OperatorsDoor, interlock: Invoke, record: Any, told: str
) -> None:
    door.answers("GET", "audit", {"records": [{"time": AT, **record}], "looked": 1, "now": AT})
    output = interlock("audit", "search").output
    assert told in output
    assert "{" not in output


def test_where_nothing_is_found_that_is_said(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "audit", {"records": [], "looked": 0, "now": AT})
    assert interlock("audit", "search", "--who", "bearer:bob").output == "Nothing was found.\n"
