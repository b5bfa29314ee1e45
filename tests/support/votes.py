"""Votes as clients send them: on both bindings of the agents' door, and at the people's."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx
from tests.support.story import PATIENCE_SECONDS, jsonrpc, trusted

from interlock.oversight.approvals import KEY

TRIES = 100
UNAVAILABLE = '"UNAVAILABLE"'
"""The reason of an error, on every binding."""
AGAIN = (UNAVAILABLE, '"HALTED"')
"""After these the same may be sent again: nothing is halted here, but nobody may have been able to look."""
Way = Callable[[httpx.Client, str, str, Mapping[str, Any]], httpx.Response]


def connection(url: str, token: str) -> httpx.Client:
    headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_SECONDS, verify=trusted())


def message(task_id: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {
        "messageId": str(uuid4()),
        "role": "ROLE_USER",
        "parts": [{"text": "go on"}],
        "taskId": task_id,
    }
    if metadata is not None:
        said["metadata"] = metadata
    return {"message": said, "configuration": {"returnImmediately": True}}


def _by_rpc(http: httpx.Client, task_id: str, _: str, wire: Mapping[str, Any]) -> httpx.Response:
    return http.post("/", json=jsonrpc("SendMessage", message(task_id, {KEY: wire})))


def _by_path(http: httpx.Client, task_id: str, _: str, wire: Mapping[str, Any]) -> httpx.Response:
    return http.post("/message:send", json=message(task_id, {KEY: wire}))


def _by_people(http: httpx.Client, task_id: str, request_id: str, wire: Mapping[str, Any]) -> httpx.Response:
    body = {name: wire[name] for name in ("decision", "digest")}
    return http.post(f"/people/tasks/{task_id}/checkpoints/{request_id}/decide", json=body)


WAYS: tuple[Way, ...] = (_by_rpc, _by_path, _by_people)


def insist(send: Callable[[], httpx.Response]) -> httpx.Response:
    """As a client does that gets no reply, or is told to try again: it says the same again."""
    for _ in range(TRIES):
        with suppress(httpx.TransportError):
            reply = send()
            if not any(reason in reply.text for reason in AGAIN) and not reply.is_server_error:
                return reply
    raise AssertionError("never answered")


def admitted(reply: httpx.Response) -> bool:
    """Refused are votes that came too late, and nothing else."""
    if reply.status_code == httpx.codes.OK and "error" not in reply.json():
        return True
    assert reply.json()["error"]["code"] in (400, -32602), reply.text
    return False
