"""Streams on a laptop with the official SDK's client, on both bindings, and what polling sees of the same."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from tests.support.story import PATIENCE_SECONDS, Caller, Place, artifact_texts, envelope, trusted

from interlock.oversight.hitl_prompt import RESPONSE_KEY, URI

ASKED = [pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING, pb.TASK_STATE_INPUT_REQUIRED]
"""The states on the way to a question. A stream may begin when the first of them are over."""

Open = Callable[[Client, ClientCallContext], AsyncIterator[pb.StreamResponse]]


async def streamed(caller: Caller, stream: Open) -> AsyncGenerator[pb.StreamResponse, None]:
    """The events of a stream, which is let go with the iterator."""
    headers = {"Authorization": f"Bearer {caller.token}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS, verify=trusted()) as http:
        card = await A2ACardResolver(http, caller.url).get_agent_card()
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[caller.binding])
        parameters = ServiceParametersFactory.create([with_a2a_extensions([URI])])
        client = ClientFactory(config).create(card)
        async for event in stream(client, ClientCallContext(service_parameters=parameters)):
            yield event


def sending(text: str, *, answers: pb.Task | None = None) -> Open:
    message = pb.Message(message_id=str(uuid4()), role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    if answers is not None:
        message.task_id = answers.id
        said = {"prompt_id": envelope(answers)["prompt_id"], "payload": {"approved": True}}
        ParseDict({RESPONSE_KEY: said}, message.metadata)
    request = pb.SendMessageRequest(message=message)
    return lambda client, context: client.send_message(request, context=context)


def following(task_id: str) -> Open:
    request = pb.SubscribeToTaskRequest(id=task_id)
    return lambda client, context: client.subscribe(request, context=context)


def statuses(events: list[pb.StreamResponse]) -> list[pb.TaskStatus]:
    """Of the task that a stream begins with, and of each change."""
    changed = [event for event in events if not event.HasField("artifact_update")]
    return [(event.task if event.HasField("task") else event.status_update).status for event in changed]


@pytest.mark.parametrize("place", ["laptop"], indirect=True)
def test_what_is_streamed_is_what_is_polled(place: Place, binding: str) -> None:
    agent, alice = place.caller("agent", binding), place.caller("alice", binding)

    async def story() -> None:
        asked = [event async for event in streamed(agent, sending("release 1.8.0"))]
        seen = [status.state for status in statuses(asked)]
        assert seen == ASKED[-len(seen) :]
        task_id = asked[0].task.id
        waiting = await asyncio.to_thread(agent.get, task_id)
        assert waiting.status == statuses(asked)[-1]

        async with aclosing(streamed(agent, following(task_id))) as events:
            followed = [await anext(events)]
            assert followed[0].task.status == waiting.status
            answered = [event async for event in streamed(alice, sending("answer", answers=waiting))]
            followed += [event async for event in events]
        # Both were told the same, each from where it began.
        assert followed[len(followed) - len(answered) + 1 :] == answered[1:]

        done = await asyncio.to_thread(agent.get, task_id)
        assert done.status.state == pb.TASK_STATE_COMPLETED
        assert done.status == statuses(answered)[-1] == statuses(followed)[-1]
        artifacts = [
            event.artifact_update.artifact for event in followed if event.HasField("artifact_update")
        ]
        assert list(done.artifacts) == artifacts
        assert artifact_texts(done) == ["1.8.0 released, approved by bearer:alice"]

    asyncio.run(story())
