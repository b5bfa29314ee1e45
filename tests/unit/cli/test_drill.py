"""`interlock drill` against a people's door on loopback: it never leaves the canary halted without a word."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import NOT_FOUND, OperatorsDoor, halted_by, refused, reported
from tests.unit.cli.serving import LoseReply, Response, serving

from interlock.cli import drill as cli_drill

SCOPE = "skill:demo/interlock-canary"
SUBMITTED = {"taskId": "t-1", "scope": SCOPE, "state": "TASK_STATE_SUBMITTED"}
WORKING = {**SUBMITTED, "state": "TASK_STATE_WORKING"}
FIGURES = {
    "taskId": "t-1",
    "scope": SCOPE,
    "generation": 5,
    "declaredMs": 12,
    "refusedMs": 20,
    "signalledMs": 30,
    "confirmedMs": 640,
}
STOPPED = reported(SCOPE, generation=5, counts={"confirmed": 1})


@pytest.fixture
def door() -> OperatorsDoor:
    """Of a deployment where all goes well."""
    door = OperatorsDoor()
    door.answers("POST", "drills", SUBMITTED, halted_by("a drill"))
    door.answers("GET", "drills/t-1", SUBMITTED, WORKING)
    door.answers("POST", "halts", reported(SCOPE, generation=5, walkedAt=None))
    door.answers(
        "GET",
        "halts/report",
        reported(SCOPE, generation=5, walkedAt=None),
        reported(SCOPE, generation=5, counts={"asked": 1}),
        STOPPED,
    )
    door.answers("POST", "halts/resume", {"status": "lifted"})
    door.answers("POST", "drills/t-1", FIGURES)
    return door


@pytest.fixture(autouse=True)
def url(door: OperatorsDoor, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("interlock.cli.door.BACK_OFF_SECONDS", 0.0)
    monkeypatch.setattr(cli_drill, "POLL_SECONDS", 0.0)
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        document = {"url": url, "tokens": {"oncall": "il_oncall"}}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps(document))
        yield url


def resumed(door: OperatorsDoor) -> list[dict[str, Any]]:
    return door.asked("POST", "halts/resume")


def test_a_drill_shows_and_records_what_each_stage_took(door: OperatorsDoor, interlock: Invoke) -> None:
    result = interlock("drill")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "skill:demo/interlock-canary, halt 5, since it was asked for:",
        "  declared      12 ms  the halt holds",
        "  refused       20 ms  a new task is refused",
        "  signalled     30 ms  the running task is told to stop",
        "  confirmed    640 ms  its code runs no more",
    ]
    (halt,) = door.asked("POST", "halts")
    assert halt["scope"] == SCOPE
    (seen,) = door.asked("POST", "drills/t-1")
    assert seen["generation"] == 5
    assert 0 <= seen["declaredMs"] <= seen["refusedMs"]
    assert resumed(door) == [{"scope": SCOPE, "generation": 5}]


def test_a_canary_is_halted_only_once_it_runs_and_recorded_only_once_it_is_resumed(
    door: OperatorsDoor, interlock: Invoke
) -> None:
    interlock("drill")
    steps = [(request.method, request.path.partition("?")[0]) for request in door.requests]
    assert steps == [
        ("POST", "/people/drills"),
        ("GET", "/people/drills/t-1"),
        ("GET", "/people/drills/t-1"),
        ("POST", "/people/halts"),
        ("POST", "/people/drills"),
        *[("GET", "/people/halts/report")] * 3,
        ("POST", "/people/halts/resume"),
        ("POST", "/people/drills/t-1"),
    ]


def test_the_figures_as_json(interlock: Invoke) -> None:
    assert json.loads(interlock("drill", "--json").output) == FIGURES


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (Response(SUBMITTED), "A new canary was accepted although the halt holds."),
        (refused(500, "Internal error"), "Whether a new canary is refused is not known: Internal error"),
        (refused(503, "down", "UNAVAILABLE"), "is not known: down"),
        (LoseReply, "is not known: No reply"),
    ],
)
def test_a_new_task_that_is_not_refused_fails_the_drill_which_is_recorded(
    door: OperatorsDoor, interlock: Invoke, again: Any, said: str
) -> None:
    door.answers("POST", "drills", SUBMITTED, again)
    door.answers("POST", "drills/t-1", {**FIGURES, "refusedMs": None})
    result = interlock("drill")
    assert result.exit_code == 1
    assert said in result.stderr
    assert "  refused       never  a new task is refused" in result.stdout
    (seen,) = door.asked("POST", "drills/t-1")
    assert seen["refusedMs"] is None
    assert resumed(door)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (reported(SCOPE, generation=5, counts={"asked": 1}), "was not known to have ended within 1 s"),
        (reported(SCOPE, generation=5, walkedAt=None), "was not known to have ended within 1 s"),
        (NOT_FOUND, "was not known to have ended within 1 s"),
        (reported(SCOPE, generation=5, counts={"abandoned": 1}), "did not answer when it was told to stop"),
    ],
)
def test_a_canary_that_does_not_end_fails_the_drill_which_is_recorded(
    door: OperatorsDoor, interlock: Invoke, monkeypatch: pytest.MonkeyPatch, report: Any, said: str
) -> None:
    monkeypatch.setattr(cli_drill, "POLL_SECONDS", 0.05)
    door.answers("GET", "halts/report", report)
    result = interlock("drill", "--timeout", "1", "--json")
    assert result.exit_code == 1
    assert said in json.loads(result.output)["problem"]
    assert len(door.asked("POST", "drills/t-1")) == 1
    assert resumed(door)


@pytest.mark.parametrize("state", ["TASK_STATE_SUBMITTED", "TASK_STATE_FAILED", "TASK_STATE_COMPLETED"])
def test_a_canary_that_does_not_run_is_not_halted(door: OperatorsDoor, interlock: Invoke, state: str) -> None:
    door.answers("GET", "drills/t-1", {**WORKING, "state": state})
    result = interlock("drill", "--timeout", "1")
    assert result.exit_code == 1
    assert "did not run within 1 s" in result.stderr
    assert door.asked("POST", "halts") == []


def test_where_the_canary_is_halted_already_it_is_said_how_to_lift_that(
    door: OperatorsDoor, interlock: Invoke
) -> None:
    door.answers("POST", "drills", halted_by("an incident"))
    result = interlock("drill")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "halted: an incident"
    assert cli_drill.RESUME in result.stderr
    assert door.asked("POST", "halts") == resumed(door) == []


def test_who_may_not_hold_a_drill_is_told_so(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "drills", refused(403, "Only an operator may hold a drill"))
    result = interlock("drill")
    assert (result.exit_code, result.stderr) == (1, "Only an operator may hold a drill\n")


@pytest.mark.parametrize("reply", [LoseReply, refused(500, "Internal error")])
def test_a_halt_that_may_hold_is_lifted(door: OperatorsDoor, interlock: Invoke, reply: Any) -> None:
    door.answers("POST", "halts", reply)
    result = interlock("drill")
    assert result.exit_code in {1, 3}
    assert resumed(door) == [{"scope": SCOPE}]
    assert "The canary is no longer halted." in result.stderr


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (LoseReply, "The canary may still be halted"),
        (refused(503, "Temporarily unavailable"), "The canary may still be halted"),
        (Response({"status": "halted-anew"}), "Somebody else halted the canary, which holds."),
    ],
)
@pytest.mark.parametrize("failing", [False, True])
def test_a_canary_that_can_not_be_resumed_is_said_loudly(
    door: OperatorsDoor, interlock: Invoke, reply: Any, said: str, failing: bool
) -> None:
    door.answers("POST", "halts/resume", reply)
    if failing:
        door.answers("GET", "halts/report", refused(500))
    result = interlock("drill")
    assert result.exit_code == 1
    assert said in result.stderr
    assert cli_drill.RESUME in result.stderr
    assert "no longer halted" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_drill_that_is_interrupted_resumes_first(
    door: OperatorsDoor, interlock: Invoke, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def interrupted(seconds: float) -> None:
        if door.asked("POST", "halts"):
            os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("interlock.cli.drill.time.sleep", interrupted)
    result = interlock("drill")
    assert result.exit_code != 0
    assert resumed(door) == [{"scope": SCOPE, "generation": 5}]
    assert "The canary is no longer halted." in result.stderr
    assert door.asked("POST", "drills/t-1") == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_figures_that_could_not_be_recorded_are_said(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "drills/t-1", LoseReply)
    result = interlock("drill")
    assert result.exit_code == 3
    assert cli_drill.NOT_KEPT in result.stderr
    assert len(door.asked("POST", "drills/t-1")) == 1
