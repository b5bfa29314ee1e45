"""The billing desk: refunds that the right people have approved, each as a whole story."""

import json
from typing import Any

import httpx
import pytest
from tests.support.approvals import DIGEST, decide, open_request, status_metadata
from tests.support.calls import call
from tests.support.twin import AGENT, ALICE, ANN, BOB, CAROL, Deployment

from interlock.a2a.errors import PermissionDenied
from interlock.a2a.models import Task, TaskState
from interlock.agents.demo import agent
from interlock.oversight.approvals import KEY, QUORUM_KEY
from interlock.oversight.canonical_json import digest


@pytest.fixture
def demo() -> Deployment:
    return Deployment(agent)


def text_of(task: Task) -> str | None:
    return task.status.message.text if task.status.message is not None else None


def receipt(task: Task) -> Any:
    (artifact,) = task.artifacts or []
    assert artifact.name == "receipt"
    return artifact.parts[0].data


def send_back(deployment: Deployment, who: str, task_id: str, **body: Any) -> httpx.Response:
    deployment.clock.advance(1)
    request_id, asked = open_request(deployment, task_id)
    path = f"/people/tasks/{task_id}/checkpoints/{request_id}/decide"
    body = {"decision": "changes", "digest": asked.digest, **body}
    return call(deployment.people_door(), "POST", path, who=who, body=body)


def test_below_a_hundred_it_takes_one(demo: Deployment) -> None:
    task = demo.send("refund 1182 39.99")
    assert (task.status.state, text_of(task)) == (TaskState.INPUT_REQUIRED, "Refund 39.99 to order 1182")
    assert QUORUM_KEY not in status_metadata(task)
    task = decide(demo, ALICE, task.id)
    assert (task.status.state, text_of(task)) == (TaskState.COMPLETED, "Refunded 39.99 to order 1182.")
    paid = receipt(task)
    assert (paid["order"], paid["amount"], paid["approvedBy"]) == (1182, "39.99", [ALICE.id])


@pytest.mark.parametrize(("amount", "needed"), [("99.99", 1), ("100", 2), ("100.00", 2), ("250.5", 2)])
def test_from_a_hundred_on_it_takes_two(demo: Deployment, amount: str, needed: int) -> None:
    task = demo.send(f"refund 1182 {amount}")
    if needed == 2:
        task = decide(demo, BOB, task.id)
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert status_metadata(task)[QUORUM_KEY] == {"approvedBy": [BOB.id], "required": 2}
    task = decide(demo, ALICE, task.id)
    assert task.status.state is TaskState.COMPLETED
    assert receipt(task)["approvedBy"] == [ALICE.id, BOB.id][:needed]


def test_forty_have_the_digest_that_is_known(demo: Deployment) -> None:
    task = demo.send("refund 1182 40")
    assert status_metadata(task)[KEY]["digest"] == DIGEST


def test_nobody_but_the_three_approves_and_whoever_asked_never(demo: Deployment) -> None:
    task_id = demo.send("refund 1182 39.99", CAROL).id
    for who in (CAROL, ANN):
        with demo.unchanged(), pytest.raises(PermissionDenied):
            decide(demo, who, task_id)
    assert decide(demo, BOB, task_id).status.state is TaskState.COMPLETED


@pytest.mark.parametrize(
    ("comment", "said"),
    [("fraud", "Not refunded: fraud."), (None, "Not refunded: no reason given.")],
)
def test_a_denied_refund_is_not_made(demo: Deployment, comment: str | None, said: str) -> None:
    task_id = demo.send("refund 1182 250").id
    decide(demo, ALICE, task_id)
    task = decide(demo, BOB, task_id, "deny", comment=comment)
    assert (task.status.state, text_of(task)) == (TaskState.REJECTED, said)
    assert task.artifacts is None


@pytest.mark.parametrize(
    "text", ["refund 1182", "refund x 1", "refund 1182 1.234", "refund 1182 -4", "refund "]
)
def test_what_is_no_refund_is_rejected(demo: Deployment, text: str) -> None:
    assert demo.send(text).status.state is TaskState.REJECTED


def test_an_edit_is_three_facts_and_approved_by_another_than_its_editor(demo: Deployment) -> None:
    proposed = {"tool": "refund", "order": 1182, "amount": "250.00"}
    edited = {**proposed, "amount": "39.99"}
    task_id = demo.send("refund 1182 250").id
    first = demo.open_prompt(task_id)
    assert send_back(demo, "alice", task_id, edited=edited, comment="she kept one").status_code == 200
    second, asked = open_request(demo, task_id)
    assert (asked.action, asked.gate.quorum) == (edited, 1)
    assert asked.requesters == {AGENT.id, ALICE.id}
    with demo.unchanged(), pytest.raises(PermissionDenied):
        decide(demo, ALICE, task_id)
    task = decide(demo, BOB, task_id)
    assert (receipt(task)["amount"], receipt(task)["approvedBy"]) == ("39.99", [BOB.id])

    said = [one for one in task.history or [] if KEY in (one.metadata or {})]
    facts: list[Any] = [(one.metadata or {})[KEY] for one in said]
    assert [(fact["requestId"], fact["digest"]) for fact in facts] == [
        (first, digest(proposed)),
        (first, digest(proposed)),
        (second, digest(edited)),
        (second, digest(edited)),
    ], "proposed, decided, and what was done"
    assert [fact.get("decision") for fact in facts] == [None, "deny", None, "approve"]
    assert [(part.text, part.data) for part in said[1].parts] == [("she kept one", None), (None, edited)]


@pytest.mark.parametrize(
    "edited",
    [
        None,
        {"tool": "refund", "order": "1182", "amount": "1.00"},
        {"tool": "refund", "order": True, "amount": "1.00"},
        {"tool": "refund", "order": 1182, "amount": "all"},
        {"tool": "refund", "order": 1182},
        {},
    ],
    ids=json.dumps,
)
def test_changes_that_are_no_refund_are_not_made(demo: Deployment, edited: dict[str, Any] | None) -> None:
    task_id = demo.send("refund 1182 250").id
    body = {} if edited is None else {"edited": edited}
    assert send_back(demo, "alice", task_id, **body).json() == {"status": "accepted"}
    task = demo.get(task_id)
    assert (task.status.state, task.artifacts) == (TaskState.REJECTED, None)
