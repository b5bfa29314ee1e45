"""Hearing of changes without asking: streams by the official SDK's client, and web hooks."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from a2a.client import Client, ClientCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from tests.support.story import (
    PATIENCE_SECONDS,
    Caller,
    Place,
    envelope,
    eventually,
    said,
)
from tools.deploy.local import Stack

from interlock.oversight.hitl_prompt import RESPONSE_KEY, URI

Follow = Callable[[Client, ClientCallContext], AsyncIterator[pb.StreamResponse]]


def follow(
    caller: Caller, start: Follow, react: Callable[[pb.StreamResponse], None]
) -> list[pb.StreamResponse]:
    """All that comes, to the end. `react` is called with each as it comes, in another thread."""

    async def to_the_end(client: Client, context: ClientCallContext) -> list[pb.StreamResponse]:
        seen: list[pb.StreamResponse] = []
        async for response in start(client, context):
            seen.append(response)
            await asyncio.to_thread(react, response)
        return seen

    return caller.call(to_the_end, streaming=True)


def nothing(response: pb.StreamResponse) -> None:
    pass


def sending(text: str) -> Follow:
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    request = pb.SendMessageRequest(message=message)
    return lambda client, context: client.send_message(request, context=context)


def states(responses: list[pb.StreamResponse]) -> list[str]:
    found = []
    for response in responses:
        holder = response.task if response.HasField("task") else response.status_update
        if not response.HasField("artifact_update"):
            found.append(pb.TaskState.Name(holder.status.state).removeprefix("TASK_STATE_"))
        else:
            found.append("".join(part.text for part in response.artifact_update.artifact.parts))
    return found


class TestStreams:
    def test_a_send_is_followed_to_its_question_and_the_task_to_its_end(
        self, laptop: Place, binding: str
    ) -> None:
        agent, alice = laptop.caller("agent", binding), laptop.caller("alice", binding)
        asked = follow(agent, sending("release 3.0.0"), nothing)
        assert states(asked) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
        prompt = asked[-1].status_update.status.message
        assert URI in prompt.metadata
        task = agent.get(asked[0].task.id)

        def answer(response: pb.StreamResponse) -> None:
            if response.HasField("task"):
                alice.answer(task, {"approved": True}, immediately=True)

        request = pb.SubscribeToTaskRequest(id=task.id)
        rest = follow(agent, lambda client, context: client.subscribe(request, context=context), answer)
        assert states(rest) == [
            "INPUT_REQUIRED",
            "WORKING",
            "3.0.0 released, approved by bearer:alice",
            "COMPLETED",
        ]
        assert agent.get(task.id).status.state == pb.TASK_STATE_COMPLETED

    def test_an_answer_is_followed_too(self, laptop: Place, binding: str) -> None:
        alice = laptop.caller("alice", binding)
        task = laptop.caller("agent", binding).send("release 3.1.0")
        response = {"prompt_id": envelope(task)["prompt_id"], "payload": {"approved": False}}
        message = pb.Message(message_id="m-2", role=pb.ROLE_USER, parts=[pb.Part(text="no")], task_id=task.id)
        message.metadata.update({RESPONSE_KEY: response})
        request = pb.SendMessageRequest(message=message)
        seen = follow(alice, lambda client, context: client.send_message(request, context=context), nothing)
        assert states(seen)[0] == "WORKING"
        assert states(seen)[-1] in ("REJECTED", "COMPLETED")

    def test_where_the_transport_does_not_stream_the_card_says_so_and_so_does_the_door(
        self, stack: Place, binding: str
    ) -> None:
        agent = stack.caller("agent", binding)
        assert not agent.card().capabilities.streaming
        # The client sees it too, and sends without a stream.
        (response,) = follow(agent, sending("release 3.2.0"), nothing)
        assert said(response.task) == "Release 3.2.0?"
        path, body = {
            "JSONRPC": ("/", {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": "x"}}),
            "HTTP+JSON": ("/tasks/x:subscribe", {}),
        }[binding]
        headers = {"Authorization": f"Bearer {agent.token}", "A2A-Version": "1.0"}
        refused = httpx.post(f"{stack.url}{path}", json=body, headers=headers, timeout=PATIENCE_SECONDS)
        assert "UNSUPPORTED_OPERATION" in refused.text


class Receiver(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.received: list[tuple[dict[str, str], Any]] = []
        self.failures = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        failing = self.server.failures > 0
        self.server.failures -= failing
        self.server.received.append((dict(self.headers), body))
        self.send_response(503 if failing else 204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def config(url: str) -> pb.TaskPushNotificationConfig:
    return pb.TaskPushNotificationConfig(
        url=url,
        id="hook",
        token="t0ken",
        authentication=pb.AuthenticationInfo(scheme="Bearer", credentials="s3cret"),
    )


class TestWebHooks:
    def test_all_that_follows_arrives_in_order_even_if_it_fails_at_first(
        self, laptop: Place, binding: str, receiver: Receiver
    ) -> None:
        receiver.failures = 1
        agent, alice = laptop.caller("agent", binding), laptop.caller("alice", binding)
        asked = agent.send("release 4.0.0", notify=config(receiver.url))
        alice.answer(asked, {"approved": True})

        def arrived() -> list[str]:
            bodies = [body for _, body in receiver.received]
            return [
                body["statusUpdate"]["status"]["state"].removeprefix("TASK_STATE_")
                if "statusUpdate" in body
                else body["artifactUpdate"]["artifact"]["parts"][0]["text"]
                for body in bodies
            ]

        eventually(lambda: "COMPLETED" in arrived())
        assert arrived() == [
            "WORKING",
            "WORKING",
            "INPUT_REQUIRED",
            "WORKING",
            "4.0.0 released, approved by bearer:alice",
            "COMPLETED",
        ]
        for headers, _ in receiver.received:
            assert headers["Authorization"] == "Bearer s3cret"
            assert headers["X-A2A-Notification-Token"] == "t0ken"
            assert headers["Content-Type"] == "application/a2a+json"

    def test_configurations_are_kept_for_their_owner(
        self, place: Place, binding: str, receiver: Receiver
    ) -> None:
        agent, alice = place.caller("agent", binding), place.caller("alice", binding)
        task = agent.send("release 4.1.0")
        wanted = config("https://hooks.invalid/hook")
        wanted.task_id = task.id
        made = agent.call(
            lambda client, context: client.create_task_push_notification_config(wanted, context=context)
        )
        assert made == wanted
        named = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        assert (
            agent.call(
                lambda client, context: client.get_task_push_notification_config(named, context=context)
            )
            == wanted
        )
        with pytest.raises(sdk.A2AError):
            alice.call(
                lambda client, context: client.get_task_push_notification_config(named, context=context)
            )
        deleted = pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
        agent.call(
            lambda client, context: client.delete_task_push_notification_config(deleted, context=context)
        )
        with pytest.raises(sdk.A2AError):
            agent.call(
                lambda client, context: client.get_task_push_notification_config(named, context=context)
            )

    def test_a_deployment_calls_nothing_of_its_own_network(
        self, stack: Place, binding: str, receiver: Receiver
    ) -> None:
        agent = stack.caller("agent", binding)
        for url in (receiver.url, "https://127.0.0.1/", "https://169.254.169.254/latest/meta-data/"):
            with pytest.raises(sdk.A2AError):
                agent.send("release 4.2.0", notify=config(url))
        assert receiver.received == []

    def test_a_deployment_unseals_and_tries_and_comes_back_to_it(
        self, deployment: Stack, stack: Place
    ) -> None:
        """From the table's stream to the outbox: what it calls does not exist, which is all that fails."""
        agent = stack.caller("agent", "HTTP+JSON")
        asked = agent.send("release 4.3.0", notify=config("https://hooks.invalid/hook"))
        key = {"pk": {"S": f"T#demo#{asked.id}"}, "sk": {"S": "PUSH#hook"}}
        table, dynamodb = deployment.outputs["CoreTable"], deployment.client("dynamodb")

        def tried() -> Any:
            item = dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True)["Item"]
            return item if int(item["tries"]["N"]) >= 2 else None

        item = eventually(tried)
        assert b"s3cret" not in item["sealed"]["B"]
        assert item["delivered"]["N"] == "1"
