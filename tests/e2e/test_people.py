"""The people's API over HTTP, on a laptop and deployed: whoever waits is woken, several are decided at once,
and the history has them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.support.story import PATIENCE_SECONDS, Place, eventually

Json = dict[str, Any]


class People:
    """The people's door of a place, as one of its identities."""

    def __init__(self, place: Place, label: str) -> None:
        self._place, self._label = place, label

    def call(self, verb: str, path: str, body: Any = None, **query: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._place.tokens[self._label]}"}
        url = f"{self._place.url}/people{path}"
        return httpx.request(
            verb, url, json=body, params=query, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False
        )

    def get(self, path: str, **query: Any) -> Json:
        answer = self.call("GET", path, **query)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def waiting(self, *tasks: str) -> list[Json]:
        """The open checkpoints of these tasks, once the index has them all."""

        def all_of_them() -> list[Json]:
            listed = self.get("/checkpoints", limit=100)["checkpoints"]
            found = [one for one in listed if one["taskId"] in tasks]
            return found if len(found) == len(tasks) else []

        return eventually(all_of_them)


@pytest.fixture
def alice(place: Place) -> People:
    return People(place, "alice")


def test_who_waits_for_changes_is_woken_by_a_question(place: Place, alice: People) -> None:
    first = alice.get("/changes")
    assert first["changed"] == []
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(_until_changed, alice, first["since"])
        task = place.caller("agent", "HTTP+JSON").send("release 3.0.1")
        woken = waits.result()
    assert "checkpoints" in woken["changed"]
    (shown,) = alice.waiting(task.id)
    assert shown["mayDecide"] is True
    place.caller("agent", "HTTP+JSON").cancel(task.id)


def _until_changed(reader: People, since: str) -> Json:
    """A wait is 25 seconds at most, and a machine may be slow."""
    return (
        eventually(lambda: found if (found := reader.get("/changes", since=since))["changed"] else None) or {}
    )


def test_several_are_decided_at_once_and_the_history_has_them(place: Place, alice: People) -> None:
    agent = place.caller("agent", "HTTP+JSON")
    tasks = [agent.send(f"release 3.1.{number}").id for number in range(3)]
    shown = alice.waiting(*tasks)
    items = [
        {
            "taskId": one["taskId"],
            "checkpointId": one["checkpointId"],
            "digest": one["digest"],
            "payload": {"approved": True},
            "viewedMs": 4000,
        }
        for one in shown
    ]
    items[1]["digest"] = "sha256:" + "0" * 64
    results = alice.call("POST", "/decisions", {"items": items}).json()["results"]
    assert [one.get("status") for one in results] == ["accepted", None, "accepted"]
    assert results[1]["error"]["code"] == 400

    decided = {items[0]["taskId"], items[2]["taskId"]}

    def delivered() -> bool:
        found = [alice.get(f"/tasks/{one['taskId']}/checkpoints/{one['checkpointId']}") for one in shown]
        return [one.get("delivery", {}).get("status") for one in found] == ["delivered", None, "delivered"]

    eventually(delivered)
    closed = eventually(
        lambda: [
            one
            for one in alice.get("/history", limit=100)["checkpoints"]
            if one["taskId"] in decided and one["outcome"] == "answered"
        ]
    )
    assert {one["decidedBy"] for one in closed} == {"bearer:alice"}
    assert any(one["who"] == "bearer:alice" for one in alice.get("/statistics", days=1)["byPerson"])
    agent.cancel(items[1]["taskId"])


def test_an_operator_finds_on_the_trail_who_looked(place: Place, alice: People) -> None:
    assert alice.get("/me")["id"] == "bearer:alice"
    operator = People(place, "oncall")
    query = {"who": "bearer:alice", "method": "people.me"}
    found = eventually(lambda: operator.get("/audit", **query)["records"])
    assert found[0]["outcome"] == {"status": "ok"}
    assert alice.call("GET", "/audit").status_code == 403
