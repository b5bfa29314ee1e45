"""People at the command line, against the same deployments; and the conformance scenarios against them."""

import json
from itertools import product
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.crowd import FULL
from tests.support.story import (
    BINDINGS,
    PATIENCE_SECONDS,
    Caller,
    Place,
    artifact_texts,
    envelope,
    eventually,
    said,
)
from tools.deploy.local import STACK

SCENARIOS = [f"CF-{number}" for number in range(1, 8)]
EVERYWHERE = list(product(("laptop", "stack"), BINDINGS))
CONFORMING = EVERYWHERE if FULL else [("laptop", "JSONRPC"), ("stack", "HTTP+JSON")]


@pytest.fixture
def agent(place: Place) -> Caller:
    return place.caller("agent", "JSONRPC")


def waiting(place: Place, task: pb.Task, label: str = "alice") -> dict[str, Any]:
    """The task's row in the inbox of `label`."""
    listed = json.loads(place.cli("inbox", "--json", label=label).stdout)["checkpoints"]
    (row,) = [row for row in listed if row["taskId"] == task.id]
    found: dict[str, Any] = row
    return found


def test_a_person_finds_the_question_and_answers_it(place: Place, agent: Caller) -> None:
    asked = agent.send("release 3.0.0")
    row = waiting(place, asked)
    assert row["prompt"] == "Release 3.0.0?"
    assert row["checkpointId"] == envelope(asked)["prompt_id"]
    assert row["requestedBy"] == "bearer:agent"
    assert "Release 3.0.0?" in place.cli("inbox", label="alice").stdout

    answered = place.cli(
        "answer", row["reference"], "--set", "approved=true", "--set", "comment=go", label="bob"
    )
    assert answered.stdout == "Accepted.\n"
    done = agent.settled(asked.id)
    assert done.status.state == pb.TASK_STATE_COMPLETED
    assert artifact_texts(done) == ["3.0.0 released, approved by bearer:bob"]
    assert "Release 3.0.0?" not in place.cli("inbox", label="alice").stdout


def test_the_same_answer_again_is_told_that_it_won_and_another_that_it_lost(
    place: Place, agent: Caller
) -> None:
    asked = agent.send("release 3.1.0")
    reference = f"{asked.id}/{envelope(asked)['prompt_id']}"
    denial = ("answer", reference, "--payload", '{"approved": false, "comment": "too early"}')
    first = place.cli(*denial, label="bob")
    again = place.cli(*denial, label="bob")
    assert first.stdout == again.stdout == "Accepted.\n"
    lost = place.cli("answer", reference, "--set", "approved=true", label="alice", check=False)
    assert lost.returncode == 1
    assert "answered by bearer:bob" in lost.stderr
    done = agent.settled(asked.id)
    assert (done.status.state, said(done)) == (pb.TASK_STATE_REJECTED, "3.1.0 was not released: too early")


def test_a_refund_is_approved_by_two_at_the_command_line(place: Place, agent: Caller) -> None:
    asked = agent.settled(agent.send("refund 1182 140").id)
    reference = waiting(place, asked)["reference"]
    first = place.cli("approve", reference, label="alice")
    assert '"amount": "140.00"' in first.stdout
    assert first.stdout.endswith("Counted: it takes 2 approvals.\n")
    assert waiting(place, asked, "bob")["approval"]["approvedBy"] == ["bearer:alice"]
    assert place.cli("approve", reference, label="bob").stdout.endswith("Approved.\n")
    done = agent.settled(asked.id)
    assert (done.status.state, said(done)) == (
        pb.TASK_STATE_COMPLETED,
        "Refunded 140.00 to order 1182.",
    )


def test_a_denial_at_the_command_line_reaches_the_agent(laptop: Place) -> None:
    agent = laptop.caller("agent", "JSONRPC")
    asked = agent.settled(agent.send("refund 1182 39.99").id)
    reference = waiting(laptop, asked)["reference"]
    assert laptop.cli("deny", reference, "--comment", "paid twice", label="carol").stdout.endswith(
        "Denied.\n"
    )
    done = agent.settled(asked.id)
    assert (done.status.state, said(done)) == (pb.TASK_STATE_REJECTED, "Not refunded: paid twice.")


def test_every_violation_is_shown(laptop: Place) -> None:
    agent = laptop.caller("agent", "JSONRPC")
    asked = agent.send("release 3.2.0")
    reference = f"{asked.id}/{envelope(asked)['prompt_id']}"
    wrong = ("answer", reference, "--payload", '{"approved": "yes please", "extra": 42}')
    refused = laptop.cli(*wrong, label="alice", check=False)
    assert refused.returncode == 1
    assert "/approved" in refused.stderr
    assert "/extra" in refused.stderr
    assert waiting(laptop, asked)["status"] == "open"
    agent.cancel(asked.id)


def test_who_may_not_answer_is_told_so(laptop: Place) -> None:
    agent = laptop.caller("agent", "JSONRPC")
    asked = agent.send("release 3.3.0")
    row = waiting(laptop, asked, label="oncall")
    refused = laptop.cli("answer", row["reference"], "--set", "approved=true", label="oncall", check=False)
    assert refused.returncode == 1
    assert agent.get(asked.id).status.state == pb.TASK_STATE_INPUT_REQUIRED
    assert laptop.cli("inbox", label="agent", check=False).returncode == 1
    agent.cancel(asked.id)


@pytest.mark.parametrize(("place", "binding"), CONFORMING, indirect=True)
def test_the_conformance_scenarios_pass(place: Place, binding: str) -> None:
    done = place.cli("conformance", place.url, "--binding", binding, "--json", label="agent", check=False)
    report = json.loads(done.stdout)
    figures = {row["id"]: row["figure"] for row in report["scenarios"]}
    assert done.returncode == 0, figures
    assert report["passed"]
    assert report["interface"]["binding"] == binding
    assert list(figures) == SCENARIOS
    assert all(row["passed"] for row in report["scenarios"])
    assert "20 trials" in figures["CF-4"]


def test_what_runs_is_halted_and_resumed_at_the_command_line(place: Place, agent: Caller) -> None:
    running = agent.send("work 300", immediately=True)
    eventually(lambda: agent.get(running.id).status.state == pb.TASK_STATE_WORKING)
    halt = ("halt", "--skill", "work", "--reason", "an incident", "--json")
    halted = json.loads(place.cli(*halt, label="oncall").stdout)
    assert (halted["scope"], halted["persisted"]) == ("skill:demo/work", True)
    assert running.id in halted["stopped"]
    stopped = agent.settled(running.id)
    assert (stopped.status.state, said(stopped)) == (pb.TASK_STATE_CANCELED, "halted: an incident")
    assert "an incident" in place.cli("status", label="alice").stdout
    refused = place.cli("resume", "--skill", "work", label="alice", check=False)
    assert (refused.returncode, refused.stderr) == (1, "Only an operator may resume this\n")
    resumed = place.cli("resume", "--skill", "work", label="oncall")
    assert resumed.stdout == "Lifted the halt of skill:demo/work.\n"
    assert agent.settled(agent.send("work 0.1").id).status.state == pb.TASK_STATE_COMPLETED


def test_a_drill_shows_that_a_halt_works_and_halts_nothing_else(place: Place, agent: Caller) -> None:
    bystander = agent.send("work 300", immediately=True)
    eventually(lambda: agent.get(bystander.id).status.state == pb.TASK_STATE_WORKING)
    figures = json.loads(place.cli("drill", "--json", label="oncall").stdout)
    assert figures["scope"] == "skill:demo/interlock-canary"
    for stage in ("declaredMs", "refusedMs", "signalledMs", "confirmedMs"):
        assert 0 <= figures[stage] < PATIENCE_SECONDS * 1000
    assert "problem" not in figures
    assert agent.get(bystander.id).status.state == pb.TASK_STATE_WORKING
    agent.cancel(bystander.id)
    halts = json.loads(place.cli("status", "--json", label="oncall").stdout)
    assert figures["scope"] not in [found["scope"] for found in halts["halts"]]


def test_the_glass_is_broken_with_the_deployers_credentials(stack: Place) -> None:
    glass = ("--skill", "demo/work", "--break-glass", "--stack", STACK)
    halted = json.loads(stack.cli("halt", *glass, "--reason", "the API is down", "--json").stdout)
    assert halted["by"].startswith("aws:arn:")
    shown = json.loads(stack.cli("status", "--json", label="oncall").stdout)["halts"]
    assert [found["reason"] for found in shown if found["scope"] == "skill:demo/work"] == ["the API is down"]
    assert stack.cli("resume", *glass).stdout == "Lifted the halt of skill:demo/work.\n"
