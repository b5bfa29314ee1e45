"""The five modes of hitl-mode-v1, as the newsroom of the demo declares them."""

import json
import time
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]
from tests.support.story import Caller, Place, envelope, eventually, said

from interlock.oversight import modes
from interlock.oversight.approvals import KEY

WINDOW_SECONDS = 10


@pytest.fixture
def agent(place: Place) -> Caller:
    return place.caller("agent", "JSONRPC")


def reference(task: pb.Task) -> str:
    return f"{task.id}/{envelope(task)['prompt_id']}"


def decided(place: Place, task: pb.Task, label: str, *said: str) -> str:
    return place.cli(said[0], reference(task), "--yes", *said[1:], label=label).stdout


def test_the_card_declares_the_mode_of_each_skill(agent: Caller) -> None:
    extensions = {extension.uri: extension.params for extension in agent.card().capabilities.extensions}
    declared = MessageToDict(extensions[modes.URI])["skills"]
    newsroom = {
        skill: declared[skill]["mode"]
        for skill in ("sitrep", "open_pr", "merge_pr", "production_deploy", "publish_post")
    }
    assert newsroom == {
        "sitrep": "autonomous",
        "open_pr": "notification",
        "merge_pr": "veto",
        "production_deploy": "gated",
        "publish_post": "compound",
    }
    assert declared["merge_pr"]["vetoTtlMs"] == WINDOW_SECONDS * 1000
    assert declared["production_deploy"]["reviewer"] == "operator"


def test_what_is_autonomous_or_notifies_runs(agent: Caller) -> None:
    for text in ("sitrep", "open pr fix the typo"):
        assert agent.settled(agent.send(text).id).status.state == pb.TASK_STATE_COMPLETED


def test_a_window_of_veto_is_waited_for_and_may_be_used(place: Place, agent: Caller) -> None:
    begun = time.monotonic()
    passing, vetoed = (agent.send(f"merge pr {number}", immediately=True) for number in (17, 18))
    for task in (passing, vetoed):
        assert task.status.state == pb.TASK_STATE_SUBMITTED
        assert "unless it is canceled" in said(task)
    shown = json.loads(place.cli("inbox", "--json", label="alice").stdout)["checkpoints"]
    rows: dict[str, Any] = {row["taskId"]: row for row in shown}
    assert rows[vetoed.id]["kind"] == "window"
    assert place.cli("cancel", vetoed.id, label="alice").stdout == "Canceled.\n"
    eventually(lambda: agent.get(passing.id).status.state == pb.TASK_STATE_COMPLETED)
    # Not before its end, by this clock, which began before the server's.
    assert time.monotonic() - begun >= WINDOW_SECONDS
    assert said(agent.get(passing.id)) == "Merged 17."
    assert agent.get(vetoed.id).status.state == pb.TASK_STATE_CANCELED


def test_a_gated_skill_starts_once_it_is_approved(place: Place, agent: Caller) -> None:
    approved, denied = agent.send("deploy 1.2.0"), agent.send("deploy 1.2.1")
    for task in (approved, denied):
        assert task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        assert "This reaches everybody at once." in said(task)
        assert MessageToDict(task.status.message.metadata)[KEY]["requestedBy"] == "bearer:agent"
    assert "Approved." in decided(place, approved, "bob", "approve")
    done = agent.settled(approved.id)
    assert (done.status.state, said(done)) == (pb.TASK_STATE_COMPLETED, "Deployed 1.2.0.")
    decided(place, denied, "bob", "deny", "--comment", "not today")
    ended = agent.settled(denied.id)
    assert ended.status.state == pb.TASK_STATE_REJECTED
    assert "nothing was run" in said(ended)


def test_a_compound_skill_asks_at_each_of_its_checkpoints(place: Place, agent: Caller) -> None:
    start = agent.send("publish why we halt")
    decided(place, start, "alice", "approve")
    seen = {reference(start)}
    for question in ("draft", "as it is now"):
        asked = agent.settled(start.id)
        assert asked.status.state == pb.TASK_STATE_INPUT_REQUIRED
        assert question in said(asked)
        assert reference(asked) not in seen
        seen.add(reference(asked))
        place.cli("answer", reference(asked), "--set", "good=true", label="bob")
    for old in seen:
        refused = place.cli("answer", old, "--set", "good=true", label="carol", check=False)
        assert refused.returncode != 0
    done = agent.settled(start.id)
    assert (done.status.state, said(done)) == (pb.TASK_STATE_COMPLETED, "Published 'why we halt'.")
