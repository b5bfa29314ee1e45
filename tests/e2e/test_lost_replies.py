"""The reply is lost after the commit, and the client sends the same again: it is told what it did, once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support.crowd import at_once, split
from tests.support.cutting import CuttingProxy, cutting_proxy
from tests.support.story import (
    PATIENCE_SECONDS,
    Caller,
    Place,
    artifact_texts,
    envelope,
    jsonrpc,
    said,
    trusted,
)

from interlock.oversight.hitl_prompt import RESPONSE_KEY

RIVALS = ("alice", "bob", "carol", "agent")


@pytest.fixture
def proxy(place: Place) -> Iterator[CuttingProxy]:
    with cutting_proxy(place.url) as proxy:
        yield proxy


@pytest.fixture
def agent(place: Place) -> Caller:
    return place.caller("agent", "JSONRPC")


def call(
    place: Place, proxy: CuttingProxy, label: str, method: str, path: str, **more: Any
) -> httpx.Response:
    """A request of its own connection, through the proxy."""
    headers = {
        "A2A-Version": "1.0",
        "Authorization": f"Bearer {place.tokens[label]}",
        **more.pop("headers", {}),
    }
    url = f"{proxy.url}{path}"
    return httpx.request(method, url, headers=headers, timeout=PATIENCE_SECONDS, verify=trusted(), **more)


def twice(proxy: CuttingProxy, send: Callable[[], httpx.Response]) -> httpx.Response:
    """Sends, loses the reply, and sends the same again."""
    proxy.cut()
    with pytest.raises(httpx.TransportError):
        send()
    assert proxy.left_to_cut == 0
    return send()


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}


def answer_to(asked: pb.Task, payload: Mapping[str, Any]) -> dict[str, Any]:
    response = {"prompt_id": envelope(asked)["prompt_id"], "payload": payload}
    return message("answer", taskId=asked.id, metadata={RESPONSE_KEY: response})


@pytest.mark.parametrize("way", ["JSONRPC", "HTTP+JSON", "people"])
def test_an_answer(place: Place, proxy: CuttingProxy, agent: Caller, way: str) -> None:
    asked = agent.send("release 7.0.0")
    sent = answer_to(asked, {"approved": True, "comment": way})
    checkpoint = f"/people/tasks/{asked.id}/checkpoints/{envelope(asked)['prompt_id']}/answer"
    send: Callable[..., httpx.Response] = {
        "JSONRPC": partial(call, path="", json=jsonrpc("SendMessage", {"message": sent})),
        "HTTP+JSON": partial(call, path="/message:send", json={"message": sent}),
        "people": partial(
            call,
            path=checkpoint,
            json={"payload": {"approved": True, "comment": way}},
            headers={"Idempotency-Key": str(uuid4())},
        ),
    }[way]
    again = twice(proxy, partial(send, place, proxy, "alice", "POST"))
    assert again.status_code == 200, again.text
    assert "error" not in again.json()
    # Another's, or its own under another id, is too late.
    late = agent.settled(asked.id)
    for label in ("bob", "alice"):
        body = {"message": answer_to(asked, {"approved": True, "comment": way})}
        refused = call(place, proxy, label, "POST", "/message:send", json=body)
        assert refused.status_code == 409
        assert refused.json()["error"]["details"][0]["metadata"] == {"winner": "bearer:alice"}
    assert late.status.state == pb.TASK_STATE_COMPLETED
    assert artifact_texts(late) == ["7.0.0 released, approved by bearer:alice"]
    assert len([entry for entry in late.history if RESPONSE_KEY in entry.metadata]) == 1
    assert agent.get(asked.id) == late


def test_an_answer_at_the_command_line(place: Place, proxy: CuttingProxy, agent: Caller) -> None:
    asked = agent.send("release 7.1.0")
    reference = f"{asked.id}/{envelope(asked)['prompt_id']}"
    through = replace(place, url=proxy.url)
    proxy.cut()
    done = through.cli("answer", reference, "--set", "approved=false", "--set", "comment=no", label="alice")
    assert done.stdout == "Accepted.\n"
    assert proxy.left_to_cut == 0
    assert said(agent.settled(asked.id)) == "7.1.0 was not released: no"


def test_all_rivals_lose_their_replies_and_one_is_told_that_it_won(
    place: Place, proxy: CuttingProxy, agent: Caller
) -> None:
    asked = agent.send("release 7.2.0")
    answers = {
        label: {"message": answer_to(asked, {"approved": False, "comment": label})} for label in RIVALS
    }

    def send(label: str) -> httpx.Response:
        return call(place, proxy, label, "POST", "/message:send", json=answers[label])

    proxy.cut(len(RIVALS))
    told, lost = split(at_once(*(partial(send, label) for label in RIVALS)))
    assert told == []
    assert all(isinstance(error, httpx.TransportError) for error in lost)
    replies, failures = split(at_once(*(partial(send, label) for label in RIVALS)))
    assert failures == []
    (winner,) = [RIVALS[number] for number, reply in replies if reply.status_code == 200]
    assert sorted(reply.status_code for _, reply in replies) == [200, 409, 409, 409]
    assert said(agent.settled(asked.id)) == f"7.2.0 was not released: {winner}"


def test_a_send_with_an_idempotency_key(place: Place, proxy: CuttingProxy, agent: Caller) -> None:
    sent = message("release 7.3.0", contextId=str(uuid4()))
    send = partial(call, place, proxy, "agent", "POST", "/message:send", json={"message": sent})
    task = twice(proxy, partial(send, headers={"Idempotency-Key": str(uuid4())})).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    listed = agent.list(context_id=sent["contextId"])
    assert [found.id for found in listed.tasks] == [task["id"]]


def test_a_cancel(place: Place, proxy: CuttingProxy, agent: Caller) -> None:
    asked = agent.send("release 7.4.0")
    again = twice(proxy, partial(call, place, proxy, "agent", "POST", f"/tasks/{asked.id}:cancel"))
    assert again.status_code == 200
    assert again.json()["status"]["state"] == "TASK_STATE_CANCELED"
