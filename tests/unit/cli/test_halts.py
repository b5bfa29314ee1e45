"""`interlock halt`, `resume` and `status` against a people's door on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import (
    AT,
    NOT_FOUND,
    OperatorsDoor,
    halted,
    refused,
    reported,
)
from tests.unit.cli.serving import LoseReply, serving

from interlock.cli import halts, switch
from interlock.cli.door import TRIES

RUNNING = {"asked": 2, "confirmed": 1, "withdrawn": 1}
EVIL = "\x1b[2J[red]\u202eevil\u200b"


@pytest.fixture
def door() -> OperatorsDoor:
    door = OperatorsDoor()
    door.answers("POST", "halts", reported(walkedAt=None))
    door.answers("GET", "halts/report", reported())
    door.answers("POST", "halts/resume", {"status": "lifted"})
    door.answers("GET", "fleet", {"agents": [{"agent": "desk", "skills": [{"skill": "release"}]}], "now": AT})
    return door


@pytest.fixture(autouse=True)
def url(door: OperatorsDoor, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("interlock.cli.door.BACK_OFF_SECONDS", 0.0)
    monkeypatch.setattr(switch, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(halts, "WATCH_SECONDS", 0.0)
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        tokens = {"alice": "il_alice", "oncall": "il_oncall"}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps({"url": url, "tokens": tokens}))
        yield url


# Halting


@pytest.mark.parametrize(
    ("options", "scope"),
    [
        (["--all"], "all"),
        (["--tenant", "acme"], "tenant:acme"),
        (["--agent", "desk"], "agent:desk"),
        (["--agent", "acme/desk"], "agent:acme/desk"),
        (["--skill", "release"], "skill:release"),
    ],
)
def test_a_scope_is_halted_by_the_operator_on_call(
    door: OperatorsDoor, interlock: Invoke, options: list[str], scope: str
) -> None:
    result = interlock("halt", *options, "--reason", "an incident")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == ["Halted tenant:acme: an incident", "Nothing was running."]
    assert door.asked("POST", "halts") == [{"scope": scope, "reason": "an incident"}]
    assert {request.headers["authorization"] for request in door.requests} == {"Bearer il_oncall"}


@pytest.mark.parametrize("options", [[], ["--all", "--tenant", "acme"], ["--agent", "a", "--skill", "b"]])
@pytest.mark.parametrize("command", [["halt", "--reason", "r"], ["resume"]], ids=["halt", "resume"])
def test_one_scope_is_named(
    door: OperatorsDoor, interlock: Invoke, command: list[str], options: list[str]
) -> None:
    assert interlock(*command, *options).exit_code == 2
    assert door.requests == []


def test_a_halt_needs_a_reason(door: OperatorsDoor, interlock: Invoke) -> None:
    assert interlock("halt", "--all").exit_code == 2
    assert door.requests == []


def test_it_waits_until_all_that_ran_was_told_to_stop_and_was_heard_of(
    door: OperatorsDoor, interlock: Invoke
) -> None:
    door.answers(
        "GET",
        "halts/report",
        reported(walkedAt=None, counts={"asked": 1}),
        reported(counts=RUNNING),
        reported(counts={"confirmed": 3, "withdrawn": 1, "abandoned": 1}),
    )
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident")
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == (
        "Of 5 that were running: 3 stopped, 1 had not begun and never will,"
        " 1 did not answer and can record nothing more."
    )
    assert door.asked("GET", "halts/report") == [{"scope": "tenant:acme", "generation": "1"}] * 3


def test_what_is_not_heard_of_in_time_is_said(
    door: OperatorsDoor, interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch, "HEARD_SECONDS", 0.05)
    door.answers("GET", "halts/report", reported(counts=RUNNING))
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident")
    assert result.exit_code == 0
    assert "2 told to stop and not heard of yet" in result.output


def test_a_walk_that_does_not_end_is_said(
    door: OperatorsDoor, interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switch, "WALK_SECONDS", 0.05)
    door.answers("GET", "halts/report", reported(walkedAt=None, counts=RUNNING))
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident")
    assert result.exit_code == 1
    assert "Halted tenant:acme" in result.output
    assert "Not all that runs was told to stop yet." in result.output
    document = json.loads(interlock("halt", "--tenant", "acme", "--reason", "x", "--json").output)
    assert document["persisted"] is True
    assert "walkedAt" not in document


def test_it_does_not_wait_where_that_is_not_wanted(door: OperatorsDoor, interlock: Invoke) -> None:
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident", "--no-wait")
    assert (result.exit_code, result.output) == (0, "Halted tenant:acme: an incident\n")
    assert door.asked("GET", "halts/report") == []


def test_a_halt_as_json_names_every_task_of_all_pages(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers(
        "GET",
        "halts/report",
        reported(counts={"confirmed": 4}, stopped=["t-1", "t-2"], cursor="00.a"),
        reported(stopped=["t-3", "t-2"], cursor="01.b"),
        reported(stopped=["t-4"]),
    )
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident", "--json")
    assert json.loads(result.output) == {
        **halted(),
        "walkedAt": AT,
        "counts": {"asked": 0, "confirmed": 4, "abandoned": 0, "withdrawn": 0},
        "persisted": True,
        "stopped": ["t-1", "t-2", "t-3", "t-4"],
    }
    assert [query.get("cursor") for query in door.asked("GET", "halts/report")] == [None, "00.a", "01.b"]


def test_a_halt_is_declared_again_where_its_reply_was_lost(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "halts", LoseReply, refused(503), reported())
    assert interlock("halt", "--tenant", "acme", "--reason", "an incident").exit_code == 0
    assert len(door.asked("POST", "halts")) == 3


def test_where_every_reply_is_lost_it_may_hold_or_not(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "halts", LoseReply)
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident")
    assert result.exit_code == 3
    assert "It may hold or not." in result.output
    assert "--break-glass" in result.output
    assert len(door.asked("POST", "halts")) == TRIES


def test_who_may_not_halt_is_told_so(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "halts", refused(403, "Only an operator may halt this"))
    result = interlock("halt", "--all", "--reason", "x", "--as", "alice")
    assert (result.exit_code, result.output) == (1, "Only an operator may halt this\n")
    assert door.requests[0].headers["authorization"] == "Bearer il_alice"


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (LoseReply, 3, "is not known"),
        (refused(403), 1, "is not known: no"),
        (NOT_FOUND, 1, "was halted anew, which holds"),
    ],
)
def test_what_goes_wrong_after_it_was_declared_does_not_hide_that_it_holds(
    door: OperatorsDoor, interlock: Invoke, reply: Any, code: int, said: str
) -> None:
    door.answers("GET", "halts/report", reply)
    result = interlock("halt", "--tenant", "acme", "--reason", "an incident")
    assert result.exit_code == code
    assert result.stdout == "Halted tenant:acme: an incident\n"
    assert "tenant:acme is halted, but" in result.stderr
    assert said in result.stderr


def test_a_lost_reply_while_it_waits_is_asked_for_again(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "halts/report", LoseReply, refused(503), reported())
    assert interlock("halt", "--tenant", "acme", "--reason", "an incident").exit_code == 0


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (("--skill", "relase"), "the fleet knows no skill relase. Did you mean release?"),
        (("--agent", "payroll"), "the fleet knows no agent payroll.\n"),
        (("--agent", "release"), "the fleet knows no agent release.\n"),
    ],
)
def test_a_name_that_the_fleet_does_not_know_is_halted_and_that_is_said(
    door: OperatorsDoor, interlock: Invoke, options: tuple[str, str], warning: str
) -> None:
    result = interlock("halt", *options, "--reason", "x")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "Halted tenant:acme: an incident")
    assert warning in result.stderr
    assert result.stderr.startswith("The halt holds")
    document = json.loads(interlock("halt", *options, "--reason", "x", "--json").output)
    assert document["persisted"]
    assert warning.strip() in document["warning"]


@pytest.mark.parametrize(
    "options", [("--skill", "release"), ("--agent", "desk"), ("--agent", "other/relase"), ("--all",)]
)
def test_of_a_name_that_is_known_or_not_to_be_known_nothing_is_said(
    door: OperatorsDoor, interlock: Invoke, options: tuple[str, ...]
) -> None:
    assert interlock("halt", *options, "--reason", "x").stderr == ""


def test_where_the_fleet_does_not_answer_nothing_is_said(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "fleet", refused(503))
    result = interlock("halt", "--skill", "relase", "--reason", "x", "--json")
    assert (result.exit_code, "warning" in json.loads(result.output)) == (0, False)


# Resuming


def test_the_halt_that_is_seen_is_lifted_and_no_other(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "halts/report", reported("skill:acme/release", generation=7))
    result = interlock("resume", "--skill", "release")
    assert (result.exit_code, result.output) == (0, "Lifted the halt of skill:acme/release.\n")
    assert door.asked("POST", "halts/resume") == [{"scope": "skill:acme/release", "generation": 7}]


def test_a_generation_that_is_named_is_the_one(door: OperatorsDoor, interlock: Invoke) -> None:
    result = interlock("resume", "--tenant", "acme", "--generation", "3", "--json")
    assert json.loads(result.output) == {"scope": "tenant:acme", "generation": 3, "status": "lifted"}
    assert door.asked("POST", "halts/resume") == [{"scope": "tenant:acme", "generation": 3}]
    assert door.asked("GET", "halts/report") == []


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_one_that_was_declared_anew_stays_and_that_is_said(
    door: OperatorsDoor, interlock: Invoke, as_json: list[str]
) -> None:
    door.answers("POST", "halts/resume", {"status": "halted-anew"})
    result = interlock("resume", "--tenant", "acme", *as_json)
    assert result.exit_code == 1
    assert "tenant:acme is halted by another halt than 1, and stays halted." in result.output


def test_lifting_nothing_is_no_failure(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "halts/report", NOT_FOUND)
    door.answers("POST", "halts/resume", {"status": "nothing"})
    result = interlock("resume", "--tenant", "acme")
    assert (result.exit_code, result.output) == (0, "tenant:acme was not halted.\n")
    assert door.asked("POST", "halts/resume") == [{"scope": "tenant:acme"}]
    document = json.loads(interlock("resume", "--tenant", "acme", "--json").output)
    assert document == {"scope": "tenant:acme", "status": "nothing"}


def test_a_resume_whose_replies_are_lost_may_be_done_or_not(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "halts/resume", LoseReply)
    result = interlock("resume", "--tenant", "acme")
    assert result.exit_code == 3
    assert "It may be lifted or not." in result.output


# What is halted


def standing(door: OperatorsDoor, **changes: Any) -> None:
    lifted = halted("all", on=False, resumedAt=AT, resumedBy="bearer:ops")
    door.answers("GET", "halts", {"halts": [halted(), lifted], "now": AT})
    door.answers("GET", "halts/report", reported(counts=RUNNING, **changes))


def test_what_is_halted_is_shown_with_what_has_stopped(door: OperatorsDoor, interlock: Invoke) -> None:
    standing(door)
    result = interlock("status")
    assert result.exit_code == 0
    assert "tenant:acme  2 of 4" in result.output
    assert "an incident" in result.output
    assert f"Lifted at {AT} by bearer:ops: all" in result.output
    assert door.asked("GET", "halts/report") == [{"scope": "tenant:acme", "generation": "1"}]


def test_a_walk_that_goes_on_is_said(door: OperatorsDoor, interlock: Invoke) -> None:
    standing(door, walkedAt=None)
    assert "2 of 4, still looking" in interlock("status").output


def test_what_is_halted_as_json(door: OperatorsDoor, interlock: Invoke) -> None:
    standing(door)
    document = json.loads(interlock("status", "--json").output)
    (found,) = document["halts"]
    assert found == {**halted(walkedAt=AT), "counts": {"abandoned": 0, **RUNNING}}
    assert [entry["scope"] for entry in document["lifted"]] == ["all"]


def test_where_nothing_is_halted_that_is_said(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("GET", "halts", {"halts": [], "now": AT})
    assert interlock("status").output == "Nothing is halted.\n"
    assert json.loads(interlock("status", "--json").output) == {"halts": [], "lifted": []}


@pytest.mark.parametrize("reply", [NOT_FOUND, reported(on=False)])
def test_one_that_is_lifted_while_it_is_looked_at_is_not_shown(
    door: OperatorsDoor, interlock: Invoke, reply: Any
) -> None:
    standing(door)
    door.answers("GET", "halts/report", reply)
    assert interlock("status").output.startswith("Nothing is halted.\n")


def test_text_of_others_is_shown_and_not_obeyed(door: OperatorsDoor, interlock: Invoke) -> None:
    door.answers("POST", "halts", reported(EVIL, reason=EVIL, by=EVIL))
    lifted = halted(EVIL, on=False, resumedAt=AT, resumedBy=EVIL)
    door.answers("GET", "halts", {"halts": [halted(EVIL, by=EVIL), lifted], "now": AT})
    door.answers("GET", "halts/report", reported(EVIL, reason=EVIL, by=EVIL, stopped=[EVIL]))
    for arguments in (
        ("halt", "--all", "--reason", "x"),
        ("halt", "--all", "--reason", "x", "--json"),
        ("status",),
        ("status", "--json"),
        ("resume", "--all"),
    ):
        output = interlock(*arguments).output
        assert "[red]" in output, arguments
        assert not {"\x1b", "\u202e", "\u200b"} & set(output), arguments


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halts, "Console", lambda: Console(force_terminal=True, width=160, color_system=None))


def test_a_terminal_sees_a_bar_while_it_waits(door: OperatorsDoor, interlock: Invoke, terminal: None) -> None:
    door.answers("GET", "halts/report", reported(counts=RUNNING), reported(counts={"confirmed": 4}))
    output = interlock("halt", "--tenant", "acme", "--reason", "an incident").output
    assert "━" in output
    assert output.endswith("Of 4 that were running: 4 stopped.\n")


def test_it_is_watched_until_it_is_interrupted(
    door: OperatorsDoor, interlock: Invoke, terminal: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    standing(door)
    looks = iter(range(2))

    def pause(seconds: float) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr("interlock.cli.halts.time.sleep", pause)
    result = interlock("status", "--watch")
    assert result.exit_code == 0
    assert "━" in result.output
    assert "2 of 4" in result.output
    assert len(door.asked("GET", "halts")) == 3


@pytest.mark.parametrize("arguments", [["--watch"], ["--watch", "--json"]])
def test_only_a_terminal_is_watched(door: OperatorsDoor, interlock: Invoke, arguments: list[str]) -> None:
    assert interlock("status", *arguments).exit_code == 2


def test_a_deployment_that_can_not_be_reached(interlock: Invoke) -> None:
    gone = ("--url", "http://127.0.0.1:9", "--token", "il_x")
    for arguments in (["status"], ["resume", "--all"], ["halt", "--all", "--reason", "x"], ["drill"]):
        assert interlock(*arguments, *gone).exit_code == 3
    wrong = ("--url", "ftp://127.0.0.1", "--token", "il_x")
    assert interlock("halt", "--all", "--reason", "x", *wrong).exit_code == 2
