"""Deciding at the people's door by what was shown: one at a time, and several at once."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.approvals import DIGEST, asking_leave
from tests.support.calls import call
from tests.support.twin import ANN, Deployment, asking
from tests.unit.doors.test_people import refusal

from interlock.adapters.clock import SystemClock
from interlock.agents import Agent, Turn
from interlock.doors.people.decisions import BATCH_TIME
from interlock.doors.people.door import RefusalBody
from interlock.engine.calls import Calls
from interlock.engine.facts import fact_pk
from interlock.engine.records import Checkpoint
from interlock.engine.seal import Sealer, seal

WRONG = "sha256:" + "0" * 64


def both() -> Agent:
    """Asks what the message says: `leave` for an action, or an answer."""
    agent = Agent("desk", "Asks before it acts")

    @agent.skill("work", "Works")
    async def work(turn: Turn) -> None:
        if turn.approval is not None or turn.answer is not None:
            await turn.complete("done")
        elif turn.text == "leave":
            await turn.request_approval({"refund": 1}, "Refund 1")
        else:
            await turn.ask(f"{turn.text}?")

    return agent


class Batch:
    """A deployment where several things wait."""

    def __init__(self, *texts: str) -> None:
        self.deployment = Deployment(both())
        self.app = self.deployment.people_door()
        for text in texts:
            self.deployment.send(text)
        listed = call(self.app, "GET", "/people/checkpoints", who="ann").json()["checkpoints"]
        self.shown = {shown["prompt"]: shown for shown in listed}

    def item(self, prompt: str, **members: Any) -> dict[str, Any]:
        shown = self.shown[prompt]
        said = {"decision": "approve"} if "approval" in shown else {"payload": {"text": "yes"}}
        names = {"taskId": shown["taskId"], "checkpointId": shown["checkpointId"], "digest": shown["digest"]}
        item = {**names, **said, **members}
        return {name: value for name, value in item.items() if value is not None}

    def send(self, *items: dict[str, Any], who: str | None = "ann") -> httpx.Response:
        return call(self.app, "POST", "/people/decisions", who=who, body={"items": items})

    def results(self, *items: dict[str, Any], who: str = "ann") -> list[Any]:
        """What became of each: its status, or the reason of its refusal."""
        response = self.send(*items, who=who)
        assert response.status_code == 200
        found: list[Any] = []
        for item, result in zip(items, response.json()["results"], strict=True):
            assert (result["taskId"], result["checkpointId"]) == (item["taskId"], item["checkpointId"])
            if "error" in result:
                assert RefusalBody.model_validate({"error": result["error"]}, extra="forbid")
                found.append(result["error"]["details"][0]["reason"])
            else:
                found.append(result["status"])
        return found

    def checkpoint(self, prompt: str) -> Checkpoint:
        shown = self.shown[prompt]
        (found,) = self.deployment.prompts(shown["taskId"])
        return found


# Several at once.


def test_each_is_decided_by_itself_and_in_order() -> None:
    batch = Batch("one", "leave", "two")
    bad = batch.item("two?", digest=WRONG)
    assert batch.results(batch.item("one?"), bad, batch.item("Refund 1")) == [
        "accepted",
        "INVALID_PARAMS",
        "accepted",
    ]
    statuses = [batch.checkpoint(prompt).status for prompt in ("one?", "two?", "Refund 1")]
    assert statuses == ["answered", "open", "approved"]


def test_who_sends_it_again_is_told_the_same_and_who_is_late_who_won() -> None:
    batch = Batch("one", "leave")
    items = [batch.item("one?"), batch.item("Refund 1", comment="fine")]
    assert batch.results(*items) == ["accepted", "accepted"]
    with batch.deployment.unchanged():
        assert batch.results(*items) == ["accepted", "accepted"]
        assert batch.results(*items, who="ben") == ["HITL_ALREADY_ANSWERED_OR_UNKNOWN", "INVALID_PARAMS"]
    assert batch.checkpoint("Refund 1").comment == "fine"


def test_who_may_not_is_refused_each() -> None:
    batch = Batch("one", "leave")
    items = [batch.item("one?"), batch.item("Refund 1")]
    with batch.deployment.unchanged():
        assert batch.results(*items, who="ops") == ["PERMISSION_DENIED", "PERMISSION_DENIED"]
        assert batch.results(*items, who="spy") == ["TASK_NOT_FOUND", "TASK_NOT_FOUND"]
        refusal(batch.send(*items, who=None), 401, "UNAUTHENTICATED")


def test_what_is_left_when_the_time_is_over_is_to_come_again() -> None:
    batch = Batch("one", "two")

    def slow(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write":
            batch.deployment.clock.advance(BATCH_TIME.total_seconds())

    batch.deployment.hook(after=slow)
    assert batch.results(batch.item("one?"), batch.item("two?")) == ["accepted", "UNAVAILABLE"]
    assert batch.checkpoint("two?").status == "open"


@pytest.mark.parametrize(
    "change",
    [
        {"digest": None},
        {"digest": ""},
        {"digest": "d" * 257},
        {"payload": None},
        {"decision": "approve"},
        {"comment": "why"},
        {"decision": "changes", "payload": None},
        {"checkpointId": "x"},
        {"taskId": ""},
        {"taskId": "t" * 257},
        {"viewedMs": -1},
        {"viewedMs": 86_400_001},
        {"viewedMs": "1"},
        {"viewedMs": 1.5},
        {"viewedMs": True},
        {"by": "bearer:ben"},
    ],
    ids=repr,
)
def test_a_batch_with_a_malformed_item_is_refused_whole(change: dict[str, Any]) -> None:
    batch = Batch("one", "two")
    with batch.deployment.unchanged():
        response = batch.send(batch.item("two?"), batch.item("one?", **change))
        refusal(response, 400, "INVALID_PARAMS")


def test_a_batch_has_from_1_to_50_items_and_none_twice() -> None:
    batch = Batch("one")
    item = batch.item("one?")
    in_capitals = {**item, "checkpointId": item["checkpointId"].upper()}
    others = [{**item, "checkpointId": str(uuid4())} for _ in range(50)]
    with batch.deployment.unchanged():
        for items in ([], [item, item], [item, in_capitals], [item, *others]):
            refusal(batch.send(*items), 400, "INVALID_PARAMS")
    assert batch.results(item, *others[1:])[0] == "accepted"


# What the trail has of it.


def noted(batch: Batch, kind: str) -> list[dict[str, Any]]:
    rows = batch.deployment.table.query(fact_pk("acme")).rows
    facts = [json.loads(str(item["body"])) for _, item in rows]
    return [fact for fact in facts if fact["kind"] == kind]


def test_each_is_on_the_trail_as_if_it_had_come_by_itself() -> None:
    batch, single = Batch("one", "leave"), Batch("one", "leave")
    for each in (batch, single):
        each.deployment.calls = Calls(each.deployment.engine)
        each.app = each.deployment.people_door()
    wrong = {"digest": WRONG}
    batch.results(batch.item("one?", **wrong), batch.item("Refund 1", decision="deny"))
    for prompt, route in (("one?", "answer"), ("Refund 1", "decide")):
        item = single.item(prompt, **(wrong if route == "answer" else {"decision": "deny"}))
        path = f"/people/tasks/{item.pop('taskId')}/checkpoints/{item.pop('checkpointId')}/{route}"
        call(single.app, "POST", path, who="ann", body=item)

    def told(found: Batch, kind: str) -> list[tuple[Any, ...]]:
        names = {shown["taskId"]: prompt for prompt, shown in found.shown.items()}
        facts = [fact for fact in noted(found, kind) if fact.get("taskId")]
        return sorted(
            (fact["method"], names[fact["taskId"]], json.dumps(fact["outcome"]), fact["actor"]["subject"])
            for fact in facts
        )

    for kind in ("call", "prompt.refused"):
        assert told(batch, kind) == told(single, kind) != []
    (whole,) = [fact for fact in noted(batch, "call") if not fact.get("taskId")]
    assert (whole["method"], whole["outcome"]) == ("people.decide_many", {"status": "ok"})
    (refused,) = noted(batch, "prompt.refused")
    assert refused["detail"]["prompt"] == batch.shown["one?"]["checkpointId"]


def test_where_a_seal_is_required_a_batch_waits_for_one_after_all_of_it() -> None:
    batch = Batch("one", "two")
    deployment = batch.deployment
    seals: list[str] = []

    def sealed(chain: str) -> None:
        seals.append(chain)
        seal(Sealer(deployment.table, SystemClock()), chain)

    deployment.waker.wake_seal = sealed  # type: ignore[method-assign]
    deployment.calls = Calls(deployment.engine, required=True)
    batch.app = deployment.people_door()
    assert batch.results(batch.item("one?"), batch.item("two?")) == ["accepted", "accepted"]
    assert seals == ["acme", "acme"]  # before it begins, and after all
    assert noted(batch, "call") == []


# One at a time.


def test_an_answer_by_digest_is_to_what_was_shown() -> None:
    batch = Batch("one")
    item = batch.item("one?")
    path = f"/people/tasks/{item['taskId']}/checkpoints/{item['checkpointId']}/answer"
    body = {"payload": {"text": "yes"}, "digest": WRONG}
    with batch.deployment.unchanged():
        refusal(call(batch.app, "POST", path, who="ann", body=body), 400, "INVALID_PARAMS")
        refusal(call(batch.app, "POST", path, who="ops", body=body), 403, "PERMISSION_DENIED")
        for digest in ("", "d" * 257, 7):
            bad = {**body, "digest": digest}
            refusal(call(batch.app, "POST", path, who="ann", body=bad), 400, "INVALID_PARAMS")
    given = call(batch.app, "POST", path, who="ann", body={**body, "digest": item["digest"]})
    assert given.json() == {"status": "accepted"}


@pytest.mark.parametrize("quorum", [1, 2])
def test_how_long_it_was_shown_is_kept_with_each_vote(quorum: int) -> None:
    deployment = Deployment(asking_leave(quorum=quorum))
    app, task_id = deployment.people_door(), deployment.send().id
    path = f"/people/tasks/{task_id}/checkpoints/{deployment.open_prompt(task_id)}/decide"
    body = {"decision": "approve", "digest": DIGEST}
    for viewed in (-1, 86_400_001, "1", 1.5):
        bad = {**body, "viewedMs": viewed}
        refusal(call(app, "POST", path, who="ann", body=bad), 400, "INVALID_PARAMS")
    call(app, "POST", path, who="ann", body={**body, "viewedMs": 1200})
    if quorum == 2:
        call(app, "POST", path, who="ben", body={**body, "viewedMs": 0})
    (found,) = deployment.prompts(task_id)
    assert json.loads(found.viewed or "") == {ANN.id: 1200, **({"bearer:ben": 0} if quorum == 2 else {})}


@pytest.mark.parametrize("needed", [1, 2])
def test_so_it_is_of_an_answer(needed: int) -> None:
    deployment = Deployment(asking(allowed_responders=[f"consensus:{needed}"]))
    app, task_id = deployment.people_door(), deployment.send().id
    path = f"/people/tasks/{task_id}/checkpoints/{deployment.open_prompt(task_id)}/answer"
    for who in ("ann", "ben")[:needed]:
        body = {"payload": {"approved": True}, "viewedMs": 5}
        assert call(app, "POST", path, who=who, body=body).status_code == 200
    (found,) = deployment.prompts(task_id)
    assert set(json.loads(found.viewed or "").values()) == {5}
    assert found.status == Checkpoint.ANSWERED
