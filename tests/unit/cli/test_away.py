"""`interlock away` against a people's door on loopback."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import OperatorsDoor, refused
from tests.unit.cli.serving import LoseReply, serving

SHOWN = {
    "who": "bearer:alice",
    "substitute": "bearer:bob",
    "since": "2026-11-30T12:00:00.000Z",
    "until": "2026-12-07T12:00:00.000Z",
    "saidBy": "bearer:alice",
}
SAY = ("away", "--to", "bearer:bob", "--until")


@pytest.fixture
def door() -> OperatorsDoor:
    door = OperatorsDoor()
    door.answers("PUT", "away", SHOWN)
    door.answers("GET", "away", {"away": [SHOWN], "now": "2026-11-30T12:00:00.000Z"})
    door.answers("DELETE", "away", {"status": "cleared"})
    return door


@pytest.fixture(autouse=True)
def url(door: OperatorsDoor, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("interlock.cli.door.BACK_OFF_SECONDS", 0.0)
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        tokens = {"alice": "il_alice"}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps({"url": url, "tokens": tokens}))
        yield url


def test_a_person_says_who_stands_in(door: OperatorsDoor, interlock: Invoke) -> None:
    result = interlock(*SAY, "2026-12-07T12:00:00Z")
    assert result.exit_code == 0, result.output
    assert result.output == (
        "bearer:bob stands in for bearer:alice, 2026-11-30T12:00:00.000Z to 2026-12-07T12:00:00.000Z.\n"
    )
    assert door.asked("PUT", "away") == [{"substitute": "bearer:bob", "until": "2026-12-07T12:00:00.000Z"}]


def test_all_of_it_is_sent(door: OperatorsDoor, interlock: Invoke) -> None:
    result = interlock(
        *SAY, "2026-12-07T12:00:00+01:00", "--since", "2026-12-01T00:00:00Z", "--who", "bearer:ann", "--json"
    )
    assert json.loads(result.output) == SHOWN
    assert door.asked("PUT", "away") == [
        {
            "substitute": "bearer:bob",
            "until": "2026-12-07T11:00:00.000Z",
            "since": "2026-12-01T00:00:00.000Z",
            "who": "bearer:ann",
        }
    ]


@pytest.mark.parametrize(
    ("said", "ahead"), [("8h", timedelta(hours=8)), ("3d", timedelta(days=3)), ("2w", timedelta(weeks=2))]
)
def test_a_time_from_now(door: OperatorsDoor, interlock: Invoke, said: str, ahead: timedelta) -> None:
    before = datetime.now(UTC)
    interlock(*SAY, said)
    (sent,) = door.asked("PUT", "away")
    at = datetime.fromisoformat(sent["until"])
    assert before - timedelta(milliseconds=1) <= at - ahead <= datetime.now(UTC)


def test_a_date_is_its_midnight_here(door: OperatorsDoor, interlock: Invoke) -> None:
    interlock(*SAY, "2026-12-07")
    (sent,) = door.asked("PUT", "away")
    assert datetime.fromisoformat(sent["until"]) == datetime(2026, 12, 7).astimezone()


@pytest.mark.parametrize(
    "options",
    [
        ["--to", "bearer:bob"],
        ["--until", "3d"],
        ["--who", "bearer:ann"],
        ["--clear", "--to", "bearer:bob"],
        ["--to", "bearer:bob", "--until", "soon"],
        ["--to", "bearer:bob", "--until", "9999w", "--since", "0001-01-01T00:00:00+14:00"],
    ],
)
def test_what_makes_no_sense_is_not_sent(door: OperatorsDoor, interlock: Invoke, options: list[str]) -> None:
    assert interlock("away", *options).exit_code == 2
    assert door.requests == []


def test_it_lists_who_is_away(door: OperatorsDoor, interlock: Invoke) -> None:
    lines = interlock("away").output.splitlines()
    assert lines[0].split() == ["WHO", "STANDS", "IN", "SINCE", "UNTIL", "SAID", "BY"]
    assert lines[1].split() == list(SHOWN.values())
    assert json.loads(interlock("away", "--json").output) == [SHOWN]
    door.answers("GET", "away", {"away": [], "now": "2026-11-30T12:00:00.000Z"})
    assert interlock("away").output == "Nobody is away.\n"


def test_who_is_back_says_so(door: OperatorsDoor, interlock: Invoke) -> None:
    assert interlock("away", "--clear").output == "Back again.\n"
    door.answers("DELETE", "away", {"status": "nothing"})
    assert interlock("away", "--clear", "--who", "bearer:ann").output == "Nothing was said.\n"
    assert json.loads(interlock("away", "--clear", "--json").output) == {"status": "nothing"}
    assert [request.path for request in door.requests] == [
        "/people/away",
        "/people/away?who=bearer%3Aann",
        "/people/away",
    ]


def test_it_is_said_again_where_no_reply_came(door: OperatorsDoor, interlock: Invoke) -> None:
    door.replies["PUT", "/people/away"].insert(0, LoseReply)
    door.replies["DELETE", "/people/away"].insert(0, LoseReply)
    assert interlock(*SAY, "3d").exit_code == 0
    assert interlock("away", "--clear").exit_code == 0
    assert len(door.requests) == 4


def test_a_refusal_is_shown(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("PUT", "away", refused(403, "Only an operator may say so for somebody else"))
    result = interlock(*SAY, "3d", "--who", "bearer:ann")
    assert (result.exit_code, result.stderr) == (1, "Only an operator may say so for somebody else\n")
