"""Approval requests and decisions, for tests over the twin."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.twin import Deployment, message

from interlock.a2a.models import Message, Task
from interlock.agents import Agent, Turn
from interlock.engine.decide import asked_of
from interlock.engine.records import Checkpoint
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import KEY, URI, Asked, Gate
from interlock.oversight.principals import Principal

ACTION: dict[str, Any] = {"tool": "refund", "order": 1182, "amount": "40.00"}
DIGEST = "sha256:9dfdaf0fdc48912f539a8dcef195052a1959f82f4880c2ec3d0730fa96ad538c"
SUMMARY = "Refund 40.00 to order 1182"

Then = Callable[[Turn], Any]


async def done(turn: Turn) -> None:
    await turn.complete("done")


def asking_leave(
    action: Mapping[str, Any] = ACTION,
    *,
    gate: Gate | None = None,
    isolated: bool = False,
    then: Then = done,
    **options: Any,
) -> Agent:
    """An agent that asks leave for `action` until there is a decision, and then does what `then` says."""
    agent = Agent("desk", "Asks leave before it acts", isolated=isolated)

    @agent.skill("work", "Works", gate=gate)
    async def work(turn: Turn) -> None:
        if turn.approval is None:
            await turn.request_approval(action, SUMMARY, **options)
        else:
            await then(turn)

    return agent


def decision(task_id: str, request_id: str, said: str = "approve", **members: Any) -> Message:
    """A message that carries a decision; `response` is its payload in the dialect of hitl-prompt/v1."""
    response = members.pop("response", None)
    wire = {"requestId": request_id, "decision": said, "digest": DIGEST, **members}
    metadata: dict[str, Any] = {KEY: wire}
    if response is not None:
        metadata[hitl_prompt.RESPONSE_KEY] = {"prompt_id": request_id, "payload": response}
    return message(said, task_id=task_id, metadata=metadata, extensions=[URI])


def decide(
    deployment: Deployment, who: Principal, task_id: str, said: str = "approve", **members: Any
) -> Task:
    """Over A2A, on the request that is open and the action that it names, if no other is given."""
    if "requestId" not in members or "digest" not in members:
        asked = open_request(deployment, task_id)
        members = {"requestId": asked[0], "digest": asked[1].digest, **members}
    return deployment.send(decision(task_id, members.pop("requestId"), said, **members), who)


def open_request(deployment: Deployment, task_id: str) -> tuple[str, Asked]:
    """Its id and what it asks."""
    request_id = deployment.open_prompt(task_id)
    (found,) = [one for one in deployment.prompts(task_id) if one.ask_id == request_id]
    assert found.kind == Checkpoint.APPROVAL
    return request_id, asked_of(found)


def status_metadata(task: Task) -> dict[str, Any]:
    assert task.status.message is not None
    return task.status.message.metadata or {}
