"""Agents whose code nobody changed, registered by their cards and called at addresses here, in all modes."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tests.support.crowd import FULL
from tests.support.fleet import MODES, QUESTIONS, WINDOW, Desk, Hook, Sister, desk_app, hooked
from tests.support.loopback import served
from tests.support.redeployed import redeployed
from tests.support.story import (
    PATIENCE_SECONDS,
    Caller,
    Place,
    artifact_texts,
    envelope,
    eventually,
    running_laptop,
    said,
    trusted,
)
from tests.support.twin import message

from interlock.oversight import modes

NEWSROOM, DESK, SISTER = "newsroom", "desk", "sister"
ELSEWHERE = (DESK, SISTER)
WRITING = ("A2aFunction", "OperatorFunction", "TimersFunction")
CALLING_OUT = ("TurnsFunction", "OutboxFunction")
OVERRIDES = {"production_deploy": "gated", "publish_post": "compound"}
"""Of the other deployment, which declares less."""
HALTED = "Prices are wrong"


@dataclass
class Fleet:
    """A deployment, which people hear of by a web hook, and two agents elsewhere that it oversees."""

    place: Place
    hook: Hook
    desk: Desk
    sister: Sister
    binding: str

    def far(self, name: str) -> Desk | Sister:
        return self.desk if name == DESK else self.sister

    def caller(self, name: str) -> Caller:
        """Of an agent, at the address that it has here."""
        url = self.place.url if name == NEWSROOM else f"{self.place.url}/agents/{name}"
        return Caller(url, self.place.tokens["agent"], self.binding)

    def send(self, name: str, skill: str, text: str, **more: Any) -> pb.Task:
        return self.caller(name).send(text, metadata={"skillHint": skill}, **more)

    def raw(self, name: str, text: str) -> httpx.Response:
        """A send as it is answered: the client of a2a-sdk keeps the reason of a 503 to itself."""
        headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {self.place.tokens['agent']}"}
        body = {"message": message(text, metadata={"skillHint": "sitrep"}).wire()}
        url = f"{self.caller(name).url}/message:send"
        return httpx.post(url, headers=headers, json=body, timeout=PATIENCE_SECONDS, verify=trusted())

    def settled(self, name: str, task: pb.Task) -> pb.Task:
        return self.caller(name).settled(task.id)

    def completed(self, name: str, task: pb.Task) -> pb.Task:
        done = self.settled(name, task)
        assert done.status.state == pb.TASK_STATE_COMPLETED
        return done

    def cli(self, *arguments: str, label: str = "oncall", check: bool = True) -> str:
        return self.place.cli(*arguments, label=label, check=check).stdout

    def people(self, method: str, path: str, body: Any = None, *, label: str = "alice") -> Any:
        headers = {"Authorization": f"Bearer {self.place.tokens[label]}"}
        url = f"{self.place.url}/people/{path}"
        with httpx.Client(headers=headers, timeout=PATIENCE_SECONDS, verify=trusted()) as http:
            return http.request(method, url, json=body).raise_for_status().json()

    def checkpoint(self, task: pb.Task) -> Any:
        return self.people("GET", f"tasks/{task.id}/checkpoints/{envelope(task)['prompt_id']}")

    def shown(self) -> dict[str, Any]:
        return {agent["agent"]: agent for agent in json.loads(self.cli("fleet", "--json"))}


def reference(task: pb.Task) -> str:
    return f"{task.id}/{envelope(task)['prompt_id']}"


@pytest.fixture(scope="module", params=["laptop", "stack"] if FULL else ["stack"])
def fleet(
    request: pytest.FixtureRequest, no_aws: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    folder, desk, sister = tmp_path_factory.mktemp("fleet"), Desk(), Sister()
    renderers, peers = folder / "renderers.json", folder / "peers.json"
    settings = {"INTERLOCK_RENDERERS": f"file:{renderers}"}
    with ExitStack() as ended:
        hook = ended.enter_context(hooked())
        renderers.write_text(json.dumps({"renderers": {"hook": hook.renderer}, "default": ["hook"]}))
        ended.enter_context(sister.at_work())
        urls = {
            DESK: ended.enter_context(served(lambda url: desk_app(url, desk))),
            SISTER: ended.enter_context(served(lambda url: sister.twin.agents_door())),
        }
        if request.param == "laptop":
            place, binding = ended.enter_context(running_laptop(folder, **settings)), "JSONRPC"
            peers = folder / ".interlock/peers.json"
        else:
            place, binding = request.getfixturevalue("stack"), "HTTP+JSON"
            stack, settings["INTERLOCK_PEERS"] = request.getfixturevalue("deployment"), f"file:{peers}"
            ended.enter_context(redeployed(stack, *WRITING, **settings))
            # A deployment calls nothing at such addresses unless it is told to.
            local = {"INTERLOCK_LOCAL_WEBHOOKS": "true"}
            ended.enter_context(redeployed(stack, *CALLING_OUT, **settings, **local))
        peers.write_text(json.dumps({SISTER: {"url": urls[SISTER], "authorization": "Bearer agent"}}))
        found = Fleet(place, hook, desk, sister, binding)
        found.cli("agents", "add", DESK, urls[DESK])
        found.cli("agents", "add", SISTER, urls[SISTER], "--peer", SISTER)
        for skill, mode in OVERRIDES.items():
            wanted = {"skill": skill, "mode": mode}
            found.people("POST", f"agents/{SISTER}/override", wanted, label="oncall")
        yield found
        for name in ELSEWHERE:
            found.people("POST", f"agents/{name}/remove", {}, label="oncall")
        assert found.hook.unsigned == 0


def test_the_fleet_shows_the_mode_of_each_skill_and_what_says_so(fleet: Fleet) -> None:
    shown = fleet.shown()
    skills = {name: {skill["skill"]: skill for skill in shown[name]["skills"]} for name in shown}
    for name in (NEWSROOM, *ELSEWHERE):
        assert {skill: skills[name][skill]["mode"] for skill in MODES} == MODES
    for name in (NEWSROOM, DESK):
        assert {skills[name][skill]["source"] for skill in MODES} == {"declared"}
    overridden = {skill for skill in MODES if skills[SISTER][skill]["source"] == "override"}
    assert overridden == set(OVERRIDES)
    silent, careless = skills[DESK]["silent"], skills[DESK]["careless"]
    assert (silent["mode"], silent["source"]) == ("gated", "undeclared")
    assert (careless["mode"], careless["source"]) == ("gated", "malformed")
    assert "vetoTtlMs" in careless["problem"]
    assert not any(shown[name]["stale"] for name in ELSEWHERE)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_its_card_here_says_what_holds_here(fleet: Fleet, name: str) -> None:
    caller = fleet.caller(name)

    async def fetched(client: Any, context: Any) -> Any:
        return client._card

    card = caller.call(fetched)
    declared: Mapping[str, Any] = next(
        MessageToDict(extension.params)["skills"]
        for extension in card.capabilities.extensions
        if extension.uri == modes.URI
    )
    assert {skill: declared[skill]["mode"] for skill in MODES} == MODES
    assert all(interface.url.startswith(caller.url) for interface in card.supported_interfaces)


@pytest.mark.parametrize("name", [NEWSROOM, *ELSEWHERE])
def test_what_is_autonomous_or_notifies_runs_and_people_hear_of_the_second(fleet: Fleet, name: str) -> None:
    quiet = fleet.send(name, "sitrep", "sitrep")
    told = fleet.send(name, "open_pr", "open pr 17")
    for task in (quiet, told):
        fleet.completed(name, task)
    fleet.hook.hears(told.id, "started")
    assert fleet.hook.told(quiet.id) == []


def test_a_window_of_veto_is_waited_for_and_may_be_used(fleet: Fleet) -> None:
    texts = [f"merge {fleet.binding} {what}" for what in ("vetoed", "passing")]
    passing = {}
    for name in ELSEWHERE:
        vetoed = fleet.send(name, "merge_pr", texts[0], immediately=True)
        assert fleet.people("POST", f"tasks/{vetoed.id}/cancel", {})["status"] == "canceled"
        begun = time.monotonic()
        passing[name] = begun, fleet.send(name, "merge_pr", texts[1], immediately=True)
        for task in (vetoed, passing[name][1]):
            assert task.status.state == pb.TASK_STATE_SUBMITTED
            assert "unless it is canceled" in said(task)
        assert fleet.settled(name, vetoed).status.state == pb.TASK_STATE_CANCELED
    for name, (begun, task) in passing.items():
        fleet.completed(name, task)
        # Not before its end, by this clock, which began before the server's.
        assert time.monotonic() - begun >= WINDOW.total_seconds()
        assert fleet.far(name).received.count(texts[1]) == 1
        assert texts[0] not in fleet.far(name).received
        fleet.hook.hears(task.id, "asked")


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_gated_skill_starts_once_it_is_approved(fleet: Fleet, name: str) -> None:
    texts = [f"deploy {fleet.binding} {what}" for what in ("approved", "denied")]
    approved, denied = (fleet.send(name, "production_deploy", text) for text in texts)
    for task in (approved, denied):
        assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        fleet.hook.hears(task.id, "asked")
    fleet.cli("deny", reference(denied), "--yes", "--comment", "not today", label="bob")
    fleet.cli("approve", reference(approved), "--yes", label="bob")
    assert artifact_texts(fleet.completed(name, approved)) == texts[:1]
    assert fleet.settled(name, denied).status.state == pb.TASK_STATE_REJECTED
    assert fleet.far(name).received.count(texts[0]) == 1
    assert texts[1] not in fleet.far(name).received


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_compound_skill_asks_at_each_of_its_checkpoints(fleet: Fleet, name: str) -> None:
    task = fleet.send(name, "publish_post", f"publish {fleet.binding}")
    rows = [fleet.checkpoint(task)]
    fleet.cli("approve", reference(task), "--yes", label="alice")
    for question in QUESTIONS:
        asked = fleet.settled(name, task)
        assert (asked.status.state, said(asked)) == (pb.TASK_STATE_INPUT_REQUIRED, question)
        rows.append(fleet.checkpoint(asked))
        path = f"tasks/{task.id}/checkpoints/{envelope(asked)['prompt_id']}/answer"
        fleet.people("POST", path, {"payload": {"text": "yes"}}, label="bob")
    assert [(row["number"], row["dispatch"]) for row in rows] == [(1, True), (2, False), (3, False)]
    assert artifact_texts(fleet.completed(name, task)) == [f"publish {fleet.binding} / yes / yes"]


@pytest.mark.parametrize("skill", ["silent", "careless"])
def test_what_is_not_declared_or_not_well_is_not_started(fleet: Fleet, skill: str) -> None:
    text = f"{skill} {fleet.binding}"
    task = fleet.send(DESK, skill, text)
    assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
    fleet.people("POST", f"tasks/{task.id}/cancel", {})
    assert text not in fleet.desk.received


def test_a_notice_that_is_not_taken_comes_again_and_the_task_waits_for_nobody(fleet: Fleet) -> None:
    fleet.hook.failing = 1
    task = fleet.send(DESK, "open_pr", "open pr 18")
    fleet.completed(DESK, task)
    fleet.hook.hears(task.id, "started")
    assert fleet.hook.failing == 0


def test_a_halt_of_one_agent_ends_what_runs_there_and_lets_the_others_be(fleet: Fleet) -> None:
    name, other = DESK, SISTER
    running = {each: fleet.send(each, "sitrep", "hold", immediately=True) for each in ELSEWHERE}
    eventually(lambda: all(fleet.far(each).holding == 1 for each in ELSEWHERE))
    fleet.cli("halt", "--agent", name, "--reason", HALTED)
    try:
        assert fleet.settled(name, running[name]).status.state == pb.TASK_STATE_CANCELED
        eventually(lambda: fleet.far(name).holding == 0)
        assert fleet.shown()[name]["halted"] == f"agent:demo/{name}"
        refused = f"refused {fleet.binding}"
        answer = fleet.raw(name, refused)
        assert (answer.status_code, HALTED in answer.text) == (503, True)
        fleet.completed(other, fleet.send(other, "sitrep", "sitrep"))
        assert fleet.far(other).holding == 1
    finally:
        fleet.cli("resume", "--agent", name)
    fleet.people("POST", f"tasks/{running[other].id}/cancel", {})
    eventually(lambda: fleet.far(other).holding == 0)
    fleet.completed(name, fleet.send(name, "sitrep", "sitrep"))
    assert refused not in fleet.far(name).received


def test_an_agent_whose_server_is_gone_is_kept_and_shown_as_stale(fleet: Fleet) -> None:
    name = "leaving"
    with served(lambda url: desk_app(url, Desk())) as url:
        fresh = json.loads(fleet.cli("agents", "add", name, url, "--json"))
    assert not fresh["stale"]
    refreshed = fleet.place.cli("agents", "refresh", name, label="oncall", check=False)
    assert refreshed.returncode == 1
    stale = fleet.shown()[name]
    assert stale["stale"]
    assert stale["problem"]
    assert stale["skills"] == fresh["skills"]
    fleet.people("POST", f"agents/{name}/remove", {}, label="oncall")
