"""The audit trail of what went through a deployment: exported, and verified with the public key alone."""

import json
from typing import Any
from uuid import uuid4

from a2a.types import a2a_pb2 as pb
from tests.support.story import BINDINGS, IDENTITIES, Place, envelope, eventually
from tools.deploy.local import STACK

TENANT = IDENTITIES["agent"][0]
TO_BE_SEALED = 150.0
"""Seconds in which the sweeper has passed by twice, should a wake be lost."""


def records(place: Place, task_id: str) -> list[dict[str, Any]]:
    exported = place.cli("audit", "export", "--tenant", TENANT, "--stack", STACK).stdout.splitlines()
    found = [json.loads(line) for line in exported]
    return [record for record in found if record.get("taskId") == task_id]


def test_a_task_is_on_the_trail_from_the_first_message_to_the_last_effect(stack: Place) -> None:
    agent = stack.caller("agent", BINDINGS[0])
    asked = agent.send(f"release {uuid4()}")
    prompt = envelope(asked)["prompt_id"]
    answer = ("answer", f"{asked.id}/{prompt}", "--set", "approved=true")
    assert stack.cli(*answer, label="alice").stdout == "Accepted.\n"
    assert agent.settled(asked.id).status.state == pb.TASK_STATE_COMPLETED

    def completed() -> list[dict[str, Any]]:
        found = records(stack, asked.id)
        ended = [record for record in found if record.get("state") == "TASK_STATE_COMPLETED"]
        return found if ended and any(record["kind"] == "call" for record in found) else []

    kinds = {record["kind"] for record in eventually(completed, TO_BE_SEALED)}
    assert kinds >= {"call", "task.event", "run.started", "prompt.opened", "prompt.answered"}

    key, out = stack.folder / "audit-jwks.json", stack.folder / "trail.jsonl"
    key.write_text(stack.cli("audit", "key", "--stack", STACK).stdout)
    exporting = ("audit", "export", "--tenant", TENANT, "--stack", STACK, "--sign", "--out", str(out))
    stack.cli(*exporting)
    verified = stack.cli("audit", "verify", str(out), "--key", str(key), "--json")
    report = json.loads(verified.stdout)
    assert (report["findings"], report["signed"]) == ([], report["last"])
    out.write_text(out.read_text().replace("alice", "mallory"))
    assert stack.cli("audit", "verify", str(out), "--key", str(key), check=False).returncode == 1
