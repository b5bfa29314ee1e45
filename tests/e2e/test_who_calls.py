"""Who calls the deployed API: refused at the gateway and in the functions, and nothing of others is seen."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from tests.support.story import (
    PATIENCE_SECONDS,
    Caller,
    Place,
    create_identity,
    envelope,
    jsonrpc,
    trusted,
)
from tools.deploy.local import STACK, Stack

UNAUTHENTICATED = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "UNAUTHENTICATED",
    "domain": "a2a-protocol.org",
}
PATHS = [("POST", ""), ("POST", "/message:send"), ("GET", "/tasks"), ("GET", "/people/checkpoints")]


@pytest.fixture
def agent(stack: Place) -> Caller:
    return stack.caller("agent", "JSONRPC")


def call(stack: Place, method: str, path: str, token: str | None, body: Any = None) -> httpx.Response:
    headers = {"A2A-Version": "1.0", **({"Authorization": f"Bearer {token}"} if token is not None else {})}
    return httpx.request(
        method, f"{stack.url}{path}", headers=headers, json=body, timeout=PATIENCE_SECONDS, verify=trusted()
    )


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("token", [None, "il_" + "A" * 43, "x" * 4000], ids=["none", "unknown", "long"])
def test_without_a_valid_token_the_gateway_refuses(
    stack: Place, method: str, path: str, token: str | None
) -> None:
    refused = call(stack, method, path, token, {} if method == "POST" else None)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    # Both bindings' form in one, so that a client of either reads it; no request was read, so no id.
    document = refused.json()
    assert (document["jsonrpc"], document["id"]) == ("2.0", None)
    error = document["error"]
    assert (error["code"], error["status"]) == (-32600, "UNAUTHENTICATED")
    assert error["data"] == error["details"] == [UNAUTHENTICATED]


def test_a_credential_of_another_scheme_is_refused(stack: Place) -> None:
    token = stack.tokens["agent"]
    for credential in (f"Basic {token}", token, f"Bearer {token}x"):
        refused = httpx.get(f"{stack.url}/tasks", headers={"A2A-Version": "1.0", "Authorization": credential})
        assert refused.status_code == 401


def test_the_card_is_for_everybody(stack: Place) -> None:
    served = httpx.get(f"{stack.url}/.well-known/agent-card.json")
    assert served.status_code == 200
    assert "max-age" in served.headers["cache-control"]
    again = httpx.get(
        f"{stack.url}/.well-known/agent-card.json", headers={"If-None-Match": served.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_a_revoked_token_stops_at_once(deployment: Stack, stack: Place, tmp_path: Path) -> None:
    token = create_identity(deployment, tmp_path, "leaver", "demo", "person", "caller", "approver")
    request = jsonrpc("ListTasks", {}, request_id=7)
    assert call(stack, "POST", "/", token, request).json()["id"] == 7
    assert call(stack, "GET", "/people/checkpoints", token).status_code == 200
    stack.cli("tokens", "revoke", "leaver", "--stack", STACK)

    refused = call(stack, "POST", "/", token, request)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    # The gateway still has the authorizer's result, and let it through: it was the function that refused.
    assert refused.json()["id"] == 7
    assert refused.json()["error"]["code"] == -32600
    for path in ("/tasks", "/people/checkpoints"):
        refused = call(stack, "GET", path, token)
        assert refused.status_code == 401
        assert "jsonrpc" not in refused.json()


def test_identities_are_listed_without_their_tokens(stack: Place) -> None:
    listed = stack.cli("tokens", "list", "--stack", STACK, "--json").stdout
    assert {"bearer:agent", "bearer:alice", "bearer:spy"} <= {
        row["id"] for row in json.loads(listed)["identities"]
    }
    assert not any(token in listed for token in stack.tokens.values())


Operation = Callable[[Caller, pb.Task], object]
OPERATIONS: Mapping[str, Operation] = {
    "get": lambda caller, task: caller.get(task.id),
    "cancel": lambda caller, task: caller.cancel(task.id),
    "continue": lambda caller, task: caller.send("and now?", task_id=task.id),
    "answer": lambda caller, task: caller.answer(task, {"approved": True}),
}


@pytest.mark.parametrize("label", ["spy", "peer"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_task_is_not_found_by_another_tenant_nor_by_another_caller(
    stack: Place, binding: str, agent: Caller, label: str, operation: str
) -> None:
    asked = agent.send("release 4.0.0")
    other = stack.caller(label, binding)
    with pytest.raises(sdk.TaskNotFoundError) as refused:
        OPERATIONS[operation](other, asked)
    with pytest.raises(sdk.TaskNotFoundError) as absent:
        OPERATIONS[operation](other, pb.Task(id="not-there", status=asked.status))
    # The same words as for a task that never was.
    assert str(refused.value) == str(absent.value)
    assert agent.get(asked.id) == asked
    agent.cancel(asked.id)


@pytest.mark.parametrize("label", ["spy", "peer"])
def test_a_list_shows_nothing_of_others(stack: Place, binding: str, agent: Caller, label: str) -> None:
    asked = agent.send("release 4.1.0")
    listed = stack.caller(label, binding).list(context_id=asked.context_id)
    assert (list(listed.tasks), listed.total_size) == ([], 0)
    assert [task.id for task in agent.list(context_id=asked.context_id).tasks] == [asked.id]
    agent.cancel(asked.id)


def test_the_inbox_of_another_tenant_is_another(stack: Place, agent: Caller) -> None:
    asked = agent.send("release 4.2.0")
    checkpoint = f"/people/tasks/{asked.id}/checkpoints/{envelope(asked)['prompt_id']}"
    for label, status in (("spy", 404), ("peer", 404), ("alice", 200), ("oncall", 200), ("agent", 200)):
        assert call(stack, "GET", checkpoint, stack.tokens[label]).status_code == status, label
    inbox = call(stack, "GET", "/people/checkpoints", stack.tokens["spy"])
    assert inbox.json()["checkpoints"] == []
    answer = {"payload": {"approved": True}}
    refused = call(stack, "POST", f"{checkpoint}/answer", stack.tokens["spy"], answer)
    absent = call(
        stack, "POST", checkpoint.replace(asked.id, "not-there") + "/answer", stack.tokens["spy"], answer
    )
    assert refused.status_code == absent.status_code == 404
    assert refused.text == absent.text.replace("not-there", asked.id)
    assert agent.get(asked.id) == asked
    agent.cancel(asked.id)


def test_a_task_goes_on_only_for_its_owner_and_those_who_may_answer(
    stack: Place, binding: str, agent: Caller
) -> None:
    asked = agent.send("release 4.3.0")
    alice, oncall = stack.caller("alice", binding), stack.caller("oncall", binding)
    assert oncall.get(asked.id) == asked
    refused: Sequence[Callable[[], object]] = (
        lambda: oncall.answer(asked, {"approved": True}),
        lambda: alice.send("and now?", task_id=asked.id),
        lambda: alice.send("release 4.3.1"),
    )
    for attempt in refused:
        with pytest.raises(sdk.A2AError, match=r"403|-32600") as failure:
            attempt()
        assert not isinstance(failure.value, sdk.TaskNotFoundError)
    assert agent.get(asked.id) == asked
    assert oncall.cancel(asked.id).status.state == pb.TASK_STATE_CANCELED
