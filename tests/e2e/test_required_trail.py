"""Where the audit trail is required: what can not be sealed is not done, and is done once it can be again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx
import pytest
from tests.support.crowd import at_once
from tests.support.redeployed import DOORS, function_name, redeployed
from tests.support.stored import Stored
from tests.support.story import BINDINGS, Place, eventually
from tests.support.votes import UNAVAILABLE, WAYS, admitted, connection, insist, message
from tools.deploy.local import Stack

from interlock.a2a.models import TaskState
from interlock.engine.records import Checkpoint

QUICKLY = {"VisibilityTimeout": "1"}
"""What the sealer failed to take comes back at once, as it else does after two minutes."""


@pytest.fixture(scope="module")
def required(deployment: Stack, stack: Place) -> Iterator[Place]:
    sqs, url = deployment.client("sqs"), deployment.outputs["AuditQueue"]
    kept = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(QUICKLY))["Attributes"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes=QUICKLY)
    with redeployed(deployment, *DOORS, INTERLOCK_AUDIT="required"):
        yield stack
    sqs.set_queue_attributes(QueueUrl=url, Attributes=kept)


@contextmanager
def refusing_audit_table(deployment: Stack) -> Iterator[None]:
    """Its one writer may not write there."""
    iam = deployment.client("iam")
    config = deployment.client("lambda").get_function_configuration(
        FunctionName=function_name(deployment, "AuditFunction")
    )
    role, name = config["Role"].rpartition("/")[2], "refused"
    statement = {"Effect": "Deny", "Action": "dynamodb:PutItem", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=policy)
    try:
        yield
    finally:
        iam.delete_role_policy(RoleName=role, PolicyName=name)


def test_a_decision_that_can_not_be_sealed_is_refused_and_changes_nothing_until_it_can(
    deployment: Stack, required: Place, stored: Stored
) -> None:
    sent = required.caller("agent", BINDINGS[0]).send("refund 7 250.00", immediately=True)
    task_id = sent.id
    eventually(lambda: stored.meta(task_id).task_state is TaskState.INPUT_REQUIRED)
    (request,) = stored.requests(task_id)
    digest = json.loads(request.approval or "{}")["digest"]

    def decide(way: int, said: str, http: httpx.Client) -> httpx.Response:
        wire = {"requestId": request.ask_id, "decision": said, "digest": digest}
        return WAYS[way](http, task_id, request.ask_id, wire)

    alice, bob, agent = (connection(required.url, required.tokens[who]) for who in ("alice", "bob", "agent"))
    with alice, bob, agent:
        before = stored.rows(task_id)
        with refusing_audit_table(deployment):
            refused = at_once(
                partial(decide, 0, "approve", alice),
                partial(decide, 2, "deny", bob),
                lambda: agent.post("/message:send", json=message(task_id)),
            )
            for reply in refused:
                assert isinstance(reply, httpx.Response)
                assert UNAVAILABLE in reply.text, reply.text
            assert stored.rows(task_id) == before

        assert admitted(insist(lambda: decide(0, "approve", alice)))
        assert admitted(insist(lambda: decide(2, "approve", bob)))
    eventually(lambda: stored.meta(task_id).task_state is TaskState.COMPLETED)
    assert [found.status for found in stored.requests(task_id)] == [Checkpoint.APPROVED]
