"""`interlock agents` and `interlock fleet` against a people's door whose answers are set."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.operators import AT, OperatorsDoor, refused
from tests.unit.cli.serving import LoseReply, Response, serving
from typer.testing import Result

from interlock.cli import agents

SKILL = {"skill": "go", "mode": "autonomous", "source": "declared", "declared": "autonomous"}


def shown(name: str = "far", **more: Any) -> dict[str, Any]:
    return {
        "agent": name,
        "skills": [SKILL],
        "url": "https://far.example",
        "stale": False,
        "triedAt": AT,
        **more,
    }


@pytest.fixture
def door() -> OperatorsDoor:
    return OperatorsDoor()


@pytest.fixture
def url(door: OperatorsDoor) -> Iterator[str]:
    with serving(door) as served:
        yield served


@pytest.fixture
def run(interlock: Invoke, url: str, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.setattr(agents, "POLL_SECONDS", 0.0)

    def invoke(*arguments: str) -> Result:
        return interlock(*arguments, "--url", url, "--token", "secret")

    return invoke


def test_adding_waits_for_the_card(door: OperatorsDoor, run: Invoke) -> None:
    waiting = {"agent": "far", "skills": [], "stale": True}
    door.answers("POST", "agents", waiting)
    door.answers("GET", "agents/far", waiting, waiting, shown())
    result = run("agents", "add", "far", "https://far.example", "--peer", "p")
    assert result.exit_code == 0, result.output
    assert "far/go" in result.output
    assert door.asked("POST", "agents") == [{"name": "far", "url": "https://far.example", "peer": "p"}]


def test_without_waiting_it_is_registered_and_that_is_all(door: OperatorsDoor, run: Invoke) -> None:
    door.answers("POST", "agents", {"agent": "far", "skills": [], "stale": True})
    result = run("agents", "add", "far", "https://far.example", "--no-wait", "--json")
    assert (result.exit_code, json.loads(result.output)["agent"]) == (0, "far")


def test_a_card_that_could_not_be_fetched_is_a_failure_that_says_why(
    door: OperatorsDoor, run: Invoke
) -> None:
    door.answers("POST", "agents", shown(stale=True, problem="the peer has no agent card"))
    result = run("agents", "add", "far", "https://far.example")
    assert result.exit_code == 1
    assert "the peer has no agent card" in result.output


def test_a_refresh_waits_until_it_was_tried(door: OperatorsDoor, run: Invoke) -> None:
    door.answers("POST", "agents/far/refresh", shown())
    door.answers("GET", "agents/far", shown(), shown(triedAt="2026-11-30T12:00:01.000Z"))
    result = run("agents", "refresh", "far", "--json")
    assert json.loads(result.output)["triedAt"] == "2026-11-30T12:00:01.000Z"


def test_one_that_nobody_tries_is_a_failure(
    door: OperatorsDoor, run: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "WAIT_SECONDS", 0.0)
    door.answers("POST", "agents/far/refresh", shown())
    door.answers("GET", "agents/far", shown())
    assert run("agents", "refresh", "far").exit_code == 1


@pytest.mark.parametrize(("mode", "said"), [("veto", {"mode": "veto"}), ("none", {})])
def test_an_override_is_told_or_taken_back(
    door: OperatorsDoor, run: Invoke, mode: str, said: dict[str, str]
) -> None:
    door.answers("POST", "agents/far/override", shown())
    assert run("agents", "override", "far", "*", mode).exit_code == 0
    assert door.asked("POST", "agents/far/override") == [{"skill": "*", **said}]


def test_a_mode_that_is_not_known_is_wrong_usage(run: Invoke) -> None:
    assert run("agents", "override", "far", "go", "free").exit_code == 2


def test_removing_says_so(door: OperatorsDoor, run: Invoke) -> None:
    door.answers("POST", "agents/far/remove", {"status": "removed"})
    assert run("agents", "remove", "far").output == "Removed far.\n"
    assert json.loads(run("agents", "remove", "far", "--json").output) == {
        "agent": "far",
        "status": "removed",
    }


def test_the_list_shows_which_are_stale(door: OperatorsDoor, run: Invoke) -> None:
    found = [shown(), shown("old", stale=True, problem="no answer")]
    door.answers("GET", "agents", {"agents": found, "now": AT})
    result = run("agents", "list")
    assert "fresh" in result.output
    assert "stale, no answer" in result.output
    assert [each["agent"] for each in json.loads(run("agents", "list", "--json").output)] == ["far", "old"]


def test_the_fleet_is_a_list_of_agents_with_their_skills(door: OperatorsDoor, run: Invoke) -> None:
    halted = {**SKILL, "halted": "agent:acme/far"}
    found = [{"agent": "desk", "skills": [SKILL]}, shown(skills=[halted], questions=2)]
    door.answers("GET", "fleet", {"agents": found, "now": AT})
    document = json.loads(run("fleet", "--json").output)
    assert document == found
    assert [(each["agent"], each["skills"][0]["mode"]) for each in document] == [
        ("desk", "autonomous"),
        ("far", "autonomous"),
    ]
    lines = run("fleet").output.splitlines()
    assert any("desk/go" in line and "autonomous" in line for line in lines)
    assert any("halted by agent:acme/far" in line and "2 open" in line for line in lines)


def test_nothing_to_show_is_said(door: OperatorsDoor, run: Invoke) -> None:
    door.answers("GET", "fleet", {"agents": [], "now": AT})
    door.answers("GET", "agents", {"agents": [], "now": AT})
    assert run("fleet").output == "There are no agents.\n"
    assert run("agents", "list").output == "No agent is registered.\n"


def test_a_lost_reply_is_said_again(
    door: OperatorsDoor, run: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.answers("POST", "agents", LoseReply, Response(shown()))
    assert run("agents", "add", "far", "https://far.example").exit_code == 0
    assert len(door.asked("POST", "agents")) == 2


def test_a_refusal_is_shown(door: OperatorsDoor, run: Invoke) -> None:
    door.answers(
        "POST", "agents/far/remove", refused(404, "There is no such agent", "AGENT_NOT_FOUND", "NOT_FOUND")
    )
    result = run("agents", "remove", "far")
    assert result.exit_code == 1
    assert "There is no such agent" in result.output
