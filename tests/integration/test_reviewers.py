"""A chain of three agents over HTTP: whom a question was put to, and why, is on the audit trail."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from tests.support import twin
from tests.support.loopback import served
from tests.support.twin import Deployment, asking, message

from interlock.engine.context import Limits
from interlock.engine.due import handle_due
from interlock.engine.ports import Put
from interlock.engine.records import Delegation
from interlock.engine.reviewers import HOP
from interlock.engine.seal import Sealer, export, seal
from interlock.oversight import delegation
from interlock.oversight.hitl_prompt import URI
from interlock.oversight.principals import Kind, Principal, Role
from interlock.oversight.reviewers import PASS_ON

TOP, MIDDLE, BOTTOM = "top", "peer", "agent"
"""Each has its work done by the next."""
HOP_SECONDS = Limits().agent_hop


@dataclass
class Chain:
    deployment: Deployment
    http: httpx.Client

    def ask(self, method: str, path: str, who: str, body: Any = None) -> httpx.Response:
        headers = {"A2A-Version": "1.0", "A2A-Extensions": URI, "Authorization": f"Bearer {who}"}
        return self.http.request(method, path, headers=headers, json=body)

    def send(self, who: str, *, metadata: Any = None, **more: Any) -> dict[str, Any]:
        body = {"message": message(**more).wire(), "metadata": metadata or {}}
        task: dict[str, Any] = self.ask("POST", "/message:send", who, body).raise_for_status().json()["task"]
        return task

    def handed(self, parent: str, who: str, number: int) -> str:
        """The task that `who` was given for one which has recorded that it hands it down."""
        made = Delegation("acme", parent, f"delegation-{number}", "self", 1, 1, "2026-01-01", "2026-01-01")
        self.deployment.table.write(Put(made.key, made.item()))
        terms = {delegation.KEY: {"depth": number, "parent": parent}}
        task_id: str = self.send(who, metadata=terms, context_id=made.id)["id"]
        return task_id

    def three(self, *who: str) -> str:
        """The question of the last of these, which are the owners of the tasks."""
        task_id = self.send(who[0])["id"]
        for number, owner in enumerate(who[1:], 1):
            task_id = self.handed(task_id, owner, number)
        return str(task_id)

    def shown(self, task_id: str) -> list[tuple[str, str | None]]:
        """The chain, as people see it on the checkpoint."""
        prompt = self.deployment.open_prompt(task_id)
        with served(lambda url: self.deployment.people_door()) as url:
            headers = {"Authorization": "Bearer ann"}
            path = f"{url}/people/tasks/{task_id}/checkpoints/{prompt}"
            found = httpx.get(path, headers=headers).raise_for_status().json()
        return [(hop["who"], hop.get("outcome")) for hop in found["chain"]]

    def pass_on(self, task_id: str, who: str) -> None:
        self.deployment.clock.advance(1)  # the trail has its facts in the order of their times
        named = {PASS_ON: {"prompt_id": self.deployment.open_prompt(task_id)}}
        body = {"message": message("not mine to say", task_id=task_id, metadata=named).wire()}
        task = self.ask("POST", "/message:send", who, body).raise_for_status().json()["task"]
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"

    def silence(self) -> None:
        self.deployment.clock.advance(HOP_SECONDS)
        for key, item in self.deployment.due_rows().items():
            if item["kind"] == HOP:
                handle_due(self.deployment.engine, key)

    def trail(self, task_id: str) -> list[tuple[str | None, str, str]]:
        """Who said so, how it was passed on, and who was asked then: as it was sealed and is exported."""
        seal(Sealer(self.deployment.table, self.deployment.clock), "acme")
        records = [json.loads(line) for line in export(self.deployment.table, "acme")]
        return [
            (
                record["actor"]["subject"] if "actor" in record else None,
                record["detail"]["passed"],
                record["detail"]["asked"],
            )
            for record in records
            if record["kind"] == "reviewer.asked" and record["taskId"] == task_id
        ]


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    top = Principal(f"bearer:{TOP}", "acme", Kind.SERVICE, frozenset({Role.CALLER}))
    monkeypatch.setitem(twin.TOKENS, TOP, top)
    deployment = Deployment(asking())
    deployment.engine = replace(deployment.engine, notices=True)
    with served(lambda url: deployment.agents_door()) as url, httpx.Client(base_url=url) as http:
        yield Chain(deployment, http)


def test_the_second_of_three_passes_on_and_the_third_is_asked(chain: Chain) -> None:
    task_id = chain.three(TOP, MIDDLE, BOTTOM)
    assert chain.ask("GET", f"/tasks/{task_id}", TOP).status_code == 200
    for who in (BOTTOM, MIDDLE):
        chain.pass_on(task_id, who)
    passed = [(BOTTOM, "passed", f"bearer:{MIDDLE}"), (MIDDLE, "passed", f"bearer:{TOP}")]
    assert chain.trail(task_id) == passed
    assert chain.shown(task_id) == [
        (f"bearer:{BOTTOM}", "passed"),
        (f"bearer:{MIDDLE}", "passed"),
        (f"bearer:{TOP}", None),
        ("people", None),
        ("operators", None),
    ]


def test_one_that_never_answers_is_passed_over(chain: Chain) -> None:
    task_id = chain.three(TOP, MIDDLE, BOTTOM)
    chain.pass_on(task_id, BOTTOM)
    chain.silence()
    assert chain.trail(task_id) == [
        (BOTTOM, "passed", f"bearer:{MIDDLE}"),
        (None, "timed out", f"bearer:{TOP}"),
    ]


def test_a_name_that_is_forged_in_metadata_is_never_asked(chain: Chain) -> None:
    forged = {"dispatcherAgent": f"bearer:{TOP}", "source": {"interface": "a2a", "agentId": f"bearer:{TOP}"}}
    claimed = {delegation.KEY: {"depth": 1, "parent": chain.send(TOP)["id"]}}
    task_id = chain.send(BOTTOM, metadata={**claimed, **forged})["id"]
    assert chain.ask("GET", f"/tasks/{task_id}", TOP).status_code == 404
    chain.pass_on(task_id, BOTTOM)
    chain.silence()
    assert chain.trail(task_id) == [(BOTTOM, "passed", "people")]


def test_of_a_circle_each_is_asked_once(chain: Chain) -> None:
    task_id = chain.three(BOTTOM, MIDDLE, BOTTOM)
    chain.pass_on(task_id, BOTTOM)
    chain.pass_on(task_id, MIDDLE)
    assert chain.trail(task_id) == [
        (BOTTOM, "passed", f"bearer:{MIDDLE}"),
        (MIDDLE, "passed", "people"),
    ]
