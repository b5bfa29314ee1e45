"""The same story with the official JavaScript SDK: each call is a process of node that knows nothing yet."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from tests.support.story import PATIENCE_SECONDS, ROOT, Place

from interlock.oversight.hitl_prompt import RESPONSE_KEY, URI

PROJECT = ROOT / "tools/a2a-js"
RELEASED = "released, approved by bearer:alice"
ASKED = ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
"""The states on the way to a question. A stream may begin when the first of them are over."""

Json = dict[str, Any]


@pytest.fixture(scope="module")
def node() -> str:
    """Fails, so that nobody takes a run without it for a proof."""
    found = shutil.which("node")
    if found is None or not (PROJECT / "node_modules/@a2a-js/sdk").is_dir():
        pytest.fail("needs node, and `npm ci` in tools/a2a-js: make setup")
    return found


@dataclass(frozen=True)
class JavaScript:
    """Somebody with the SDK's client."""

    node: str
    url: str
    binding: str
    token: str | None

    @contextmanager
    def calling(self, method: str, request: Json) -> Iterator[Iterator[Json]]:
        """What it prints, line by line, while it still runs."""
        command = [self.node, "call.js", self.url, self.binding, method, json.dumps(request), URI]
        environment = {name: value for name, value in os.environ.items() if name != "TOKEN"}
        environment |= {"TOKEN": self.token} if self.token is not None else {}
        with subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                yield (json.loads(line) for line in process.stdout)
                assert process.wait(timeout=PATIENCE_SECONDS) == 0
            finally:
                process.kill()

    def call(self, method: str, request: Json) -> Json:
        with self.calling(method, request) as results:
            (result,) = results
        return result

    def send(self, text: str, **more: Any) -> Json:
        return self.call("sendMessage", {"message": message(text, **more)})

    def stream(self, text: str, **more: Any) -> list[Json]:
        with self.calling("sendMessageStream", {"message": message(text, **more)}) as events:
            return list(events)

    def answer(self, task: Json, payload: Json) -> Json:
        return self.send("answer", **reply(task, payload))


def message(text: str, **more: Any) -> Json:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}


def reply(task: Json, payload: Json) -> Json:
    """What of a message makes it the answer to the prompt that `task` waits for."""
    prompt_id = task["status"]["message"]["metadata"][URI]["prompt_id"]
    return {"taskId": task["id"], "metadata": {RESPONSE_KEY: {"prompt_id": prompt_id, "payload": payload}}}


def states(events: list[Json]) -> list[str]:
    """Of the task that a stream begins with, and of each change."""
    (first, *later) = events
    changes = [event["statusUpdate"] for event in later if "statusUpdate" in event]
    return [change["status"]["state"].removeprefix("TASK_STATE_") for change in (first["task"], *changes)]


@pytest.fixture
def agent(node: str, place: Place, binding: str) -> JavaScript:
    return JavaScript(node, place.url, binding, place.tokens["agent"])


@pytest.fixture
def alice(node: str, place: Place, binding: str) -> JavaScript:
    return JavaScript(node, place.url, binding, place.tokens["alice"])


def test_an_agent_asks_a_person_answers_and_the_agent_goes_on(agent: JavaScript, alice: JavaScript) -> None:
    asked = agent.send("release 1.2.0")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    envelope = asked["status"]["message"]["metadata"][URI]
    assert envelope["prompt"] == "Release 1.2.0?"
    seen = alice.call("getTask", {"id": asked["id"]})
    assert seen["status"] == asked["status"]

    done = alice.answer(seen, {"approved": True})
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    assert done["artifacts"][0]["parts"] == [{"text": f"1.2.0 {RELEASED}"}]
    assert agent.call("getTask", {"id": asked["id"]}) == done
    listed = agent.call("listTasks", {"contextId": asked["contextId"]})
    assert [(task["id"], task["status"]) for task in listed["tasks"]] == [(done["id"], done["status"])]


def test_errors_are_those_that_the_sdk_knows(agent: JavaScript) -> None:
    unknown = agent.call("getTask", {"id": str(uuid4())})
    assert (unknown["error"], unknown["reason"]) == ("TaskNotFoundError", "TASK_NOT_FOUND")
    done = agent.send("what can you do?")
    assert done["status"]["state"] == "TASK_STATE_COMPLETED"
    refused = agent.call("cancelTask", {"id": done["id"]})
    assert (refused["error"], refused["reason"]) == ("TaskNotCancelableError", "TASK_NOT_CANCELABLE")


def test_a_task_is_canceled(agent: JavaScript) -> None:
    asked = agent.send("release 1.4.0")
    assert agent.call("cancelTask", {"id": asked["id"]})["status"]["state"] == "TASK_STATE_CANCELED"


def test_the_extended_card_is_for_who_says_who_it_is(node: str, place: Place, agent: JavaScript) -> None:
    assert {"release", "expense"} <= {skill["id"] for skill in agent.call("getAgentCard", {})["skills"]}
    nobody = JavaScript(node, place.url, agent.binding, None)
    assert nobody.call("getAgentCard", {})["message"] == "Authentication required"


@pytest.mark.parametrize("place", ["laptop"], indirect=True)
def test_the_signature_of_the_card_holds(agent: JavaScript) -> None:
    card = agent.call("verifyAgentCard", {})
    assert card["signatures"]
    assert card["securitySchemes"]


@pytest.mark.parametrize("place", ["laptop"], indirect=True)
def test_a_stream_ends_at_the_question_and_another_sees_what_follows(
    agent: JavaScript, alice: JavaScript
) -> None:
    asked = agent.stream("release 1.5.0")
    seen = states(asked)
    assert seen == ASKED[-len(seen) :]
    with agent.calling("resubscribeTask", {"id": asked[0]["task"]["id"]}) as events:
        first = next(events)["task"]
        assert first["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        answered = alice.stream("answer", **reply(first, {"approved": True}))
        followed = [{"task": first}, *events]
    assert states(followed)[-1] == states(answered)[-1] == "COMPLETED"
    # Both were told the same, each from where it began.
    assert followed[len(followed) - len(answered) + 1 :] == answered[1:]
    (artifact,) = [event["artifactUpdate"]["artifact"] for event in followed if "artifactUpdate" in event]
    assert artifact["parts"] == [{"text": f"1.5.0 {RELEASED}"}]


@pytest.mark.parametrize("place", ["stack"], indirect=True)
def test_where_nothing_streams_the_client_is_answered_at_once(agent: JavaScript) -> None:
    (only,) = agent.stream("release 1.6.0")
    assert only["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@pytest.mark.parametrize("place", ["laptop"], indirect=True)
def test_configurations_of_push_notifications_are_kept(agent: JavaScript) -> None:
    task_id = agent.send("release 1.7.0")["id"]
    config = {"id": "mine", "taskId": task_id, "url": "http://127.0.0.1:9/hook", "token": "t"}
    assert agent.call("createTaskPushNotificationConfig", config) == config
    named = {"taskId": task_id, "id": "mine"}
    assert agent.call("getTaskPushNotificationConfig", named) == config
    assert agent.call("listTaskPushNotificationConfig", {"taskId": task_id}) == {"configs": [config]}
    assert agent.call("deleteTaskPushNotificationConfig", named) == {}
    assert agent.call("getTaskPushNotificationConfig", named)["error"] == "TaskNotFoundError"
