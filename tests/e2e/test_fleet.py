"""A fleet: agents that run here, a server of a2a-sdk that was not changed, and another Interlock."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support import sdk_agent
from tests.support.loopback import served
from tests.support.story import Caller, Place, artifact_texts, said

MODES: dict[str, dict[str, Any]] = {
    "free": {"mode": "autonomous"},
    "told": {"mode": "notification"},
    "late": {"mode": "veto", "vetoTtlMs": 3000},
    "kept": {"mode": "gated"},
    "each": {"mode": "compound"},
    "odd": {"mode": "sometimes"},
}
"""What the card of the server of a2a-sdk declares. Its code knows nothing of it."""


@pytest.fixture(scope="module")
def works(laptop: Place) -> Iterator[str]:
    """The name of the server of a2a-sdk, once it is under oversight."""
    with served(lambda url: sdk_agent.create_app(url, "JSONRPC", "HTTP+JSON", modes=MODES)) as url:
        laptop.cli("agents", "add", "works", url, label="oncall")
        yield "works"
        laptop.cli("agents", "remove", "works", label="oncall")


def at(place: Place, name: str, binding: str = "JSONRPC") -> Caller:
    """The official client, at the address that the agent has here."""
    caller = place.caller("agent", binding)
    return replace(caller, url=f"{caller.url}/agents/{name}")


def send(caller: Caller, skill: str, text: str = "do it", **more: Any) -> pb.Task:
    return caller.send(text, metadata={"skillHint": skill}, **more)


def fleet(place: Place) -> dict[str, dict[str, dict[str, Any]]]:
    listed = json.loads(place.cli("fleet", "--json", label="oncall").stdout)
    return {each["agent"]: {skill["skill"]: skill for skill in each["skills"]} for each in listed}


def test_the_fleet_says_how_much_human_is_in_each_skill_of_each_agent(laptop: Place, works: str) -> None:
    found = fleet(laptop)
    assert {skill: (each["mode"], each["source"]) for skill, each in found[works].items()} == {
        "free": ("autonomous", "declared"),
        "told": ("notification", "declared"),
        "late": ("veto", "declared"),
        "kept": ("gated", "declared"),
        "each": ("compound", "declared"),
        "odd": ("gated", "malformed"),
    }
    assert found[works]["late"]["vetoTtlMs"] == 3000
    assert found["newsroom"]["publish_post"]["mode"] == "compound"


@pytest.mark.parametrize("skill", ["free", "told"])
def test_what_is_autonomous_or_notifies_runs_there(
    laptop: Place, works: str, binding: str, skill: str
) -> None:
    caller = at(laptop, works, binding)
    done = caller.settled(send(caller, skill).id)
    assert (done.status.state, said(done), artifact_texts(done)) == (
        pb.TASK_STATE_COMPLETED,
        "done",
        ["result"],
    )


def test_an_override_raises_what_the_card_declares(laptop: Place, works: str) -> None:
    laptop.cli("agents", "override", works, "free", "gated", label="oncall")
    try:
        assert fleet(laptop)[works]["free"]["source"] == "override"
        assert send(at(laptop, works), "free").status.state == pb.TASK_STATE_INPUT_REQUIRED
    finally:
        laptop.cli("agents", "override", works, "free", "none", label="oncall")
    assert fleet(laptop)[works]["free"]["mode"] == "autonomous"


def test_another_interlock_is_overseen_and_its_questions_are_answered_here(laptop: Place) -> None:
    """It is this one again: as `self` it knows itself as another."""
    laptop.cli("agents", "add", "mirror", laptop.url, "--peer", "self", label="oncall")
    try:
        caller = at(laptop, "mirror")
        asked = caller.settled(send(caller, "release", "release 1.2.0").id)
        assert (asked.status.state, said(asked)) == (pb.TASK_STATE_INPUT_REQUIRED, "Release 1.2.0?")
        done = caller.answer(asked, {"approved": True})
        assert caller.settled(done.id).status.state == pb.TASK_STATE_COMPLETED
        window = send(caller, "merge_pr", "merge pr 20", immediately=True)
        assert window.status.state == pb.TASK_STATE_SUBMITTED
        assert caller.cancel(window.id).status.state == pb.TASK_STATE_CANCELED
    finally:
        laptop.cli("agents", "remove", "mirror", label="oncall")


def test_a_card_that_can_not_be_fetched_shows_and_the_agent_takes_nothing(place: Place) -> None:
    """Deployed, an address that is not public may not even be called."""
    failed = place.cli("agents", "add", "nowhere", "http://127.0.0.1:9", label="oncall", check=False)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    try:
        agents = json.loads(place.cli("agents", "list", "--json", label="oncall").stdout)
        (listed,) = [each for each in agents if each["agent"] == "nowhere"]
        assert (listed["stale"], listed["skills"]) == (True, [])
        assert listed["problem"]
        headers = {"Authorization": f"Bearer {place.tokens['agent']}"}
        card = f"{place.url}/agents/{{}}/.well-known/agent-card.json"
        assert httpx.get(card.format("nowhere"), headers=headers).status_code == 503
        missing = httpx.get(card.format("nobody"), headers=headers)
        assert missing.status_code == 404
        assert missing.json()["error"]["details"][0]["reason"] == "AGENT_NOT_FOUND"
        assert httpx.get(card.format("nowhere")).status_code == 401
    finally:
        place.cli("agents", "remove", "nowhere", label="oncall")


def test_the_agents_that_run_here_are_in_the_fleet_of_every_place(place: Place) -> None:
    assert fleet(place)["newsroom"]["merge_pr"]["mode"] == "veto"


def test_only_operators_register_agents(place: Place) -> None:
    refused = place.cli("agents", "add", "mine", "https://agents.example", label="alice", check=False)
    assert refused.returncode == 1
    assert "Only an operator" in refused.stderr
