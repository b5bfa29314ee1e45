"""One table of scenarios on both bindings, through the real app, engine and agents.

Each scenario is played on each binding, on a deployment of its own. What it expects holds on both, and what
both were told is the same but for ids.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.bindings import BINDINGS, Binding, Client, Outcome
from tests.support.twin import ANN, APPROVAL, Deployment, asking, no_answer, running

from interlock.a2a import errors
from interlock.a2a.errors import A2AError
from interlock.agents import Turn
from interlock.agents.demo import agent as demo
from interlock.engine.errors import AnswerInvalid, AnswerRefused
from interlock.oversight import hitl_prompt

WITH_PROMPTS = {"A2A-Extensions": hitl_prompt.URI}
ECHO = "a2a-extensions"
NOW = {"returnImmediately": True}
YES = {"approved": True}

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def message(text: str = "release 1.2.0", message_id: str = "m-1", **more: Any) -> dict[str, Any]:
    return {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **more}


@dataclass
class Stage:
    """A deployment, and a client of one binding."""

    deployment: Deployment
    client: Client

    def send(self, said: dict[str, Any] | None = None, who: str | None = "agent", **more: Any) -> Outcome:
        headers = more.pop("headers", WITH_PROMPTS)
        return self.client.call("SendMessage", {"message": said or message(), **more}, who, headers)

    def answer(
        self, task_id: str, payload: Any, who: str | None = "ann", *, said: Any = None, **more: Any
    ) -> Outcome:
        """Answers the prompt that is open, if `said` is not something else."""
        if said is None:
            said = {"prompt_id": self.deployment.open_prompt(task_id), "payload": payload}
        metadata = {"hitl_response_for": said}
        more.setdefault("message_id", "m-2")
        return self.send(message("answer", taskId=task_id, metadata=metadata, **more), who)

    def get(
        self, task_id: str, who: str | None = "agent", headers: Any = WITH_PROMPTS, **more: Any
    ) -> Outcome:
        return self.client.call("GetTask", {"id": task_id, **more}, who, headers)

    def list(self, who: str | None = "agent", headers: Any = WITH_PROMPTS, **more: Any) -> Outcome:
        return self.client.call("ListTasks", more, who, headers)

    def cancel(self, task_id: str, who: str | None = "agent", **more: Any) -> Outcome:
        return self.client.call("CancelTask", {"id": task_id, **more}, who)

    @contextmanager
    def refusing(self, expected: type[A2AError]) -> Iterator[None]:
        """What is called inside is refused with this error, which is short, and nothing is stored."""
        told = len(self.client.told)
        with self.deployment.unchanged():
            yield
        assert len(self.client.told) > told
        for outcome in self.client.told[told:]:
            outcome.refused(expected)
            assert len(outcome.http.content) < 4096


Scenario = Callable[[Stage], None]
SCENARIOS: dict[str, tuple[Scenario, Callable[[], Deployment]]] = {}


def scenario(deployed: Callable[[], Deployment] = lambda: Deployment(demo)) -> Callable[[Scenario], Scenario]:
    def add(play: Scenario) -> Scenario:
        SCENARIOS[play.__name__.replace("_", " ")] = play, deployed
        return play

    return add


# A send, and what it waits for.


@scenario()
def send_and_wait_for_the_question(stage: Stage) -> None:
    told = stage.send()
    assert told.http.headers[ECHO] == hitl_prompt.URI
    status = told.task["status"]
    assert status["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert status["message"]["parts"] == [{"text": "Release 1.2.0?"}]
    assert status["message"]["extensions"] == [hitl_prompt.URI]
    envelope = status["message"]["metadata"][hitl_prompt.URI]
    assert set(envelope) == {"prompt_id", "prompt", "response_schema", "allowed_responders"}


@scenario(lambda: Deployment(demo, at_once=False))
def send_and_return_immediately(stage: Stage) -> None:
    told = stage.send(configuration=NOW)
    assert told.task["status"]["state"] == "TASK_STATE_SUBMITTED"


@scenario(lambda: Deployment(demo, at_once=False))
def send_and_wait_in_vain(stage: Stage) -> None:
    assert stage.send().task["status"]["state"] == "TASK_STATE_SUBMITTED"


@scenario()
def send_without_the_extension(stage: Stage) -> None:
    told = stage.send(headers={})
    assert ECHO not in told.http.headers
    asked = told.task["status"]["message"]
    assert asked["parts"] == [{"text": "Release 1.2.0?"}]
    assert "metadata" not in asked
    assert "extensions" not in asked
    assert hitl_prompt.URI in stage.get(told.task["id"]).http.text


@scenario()
def activate_the_extension_in_every_spelling(stage: Stage) -> None:
    for headers in (
        {"X-A2A-Extensions": hitl_prompt.URI},
        {"A2A-Extensions": f" urn:unknown , {hitl_prompt.URI.upper()} "},
        {"A2A-Extensions": f"{hitl_prompt.URI},{hitl_prompt.URI}"},
    ):
        told = stage.send(headers=headers)
        assert told.http.headers[ECHO] == hitl_prompt.URI
        assert hitl_prompt.URI in told.task["status"]["message"]["metadata"]


@scenario()
def activate_an_extension_that_is_unknown(stage: Stage) -> None:
    told = stage.send(headers={"A2A-Extensions": f"{hitl_prompt.URI}x, urn:unknown"})
    assert ECHO not in told.http.headers


@scenario()
def echo_the_extension_on_errors_too(stage: Stage) -> None:
    assert stage.get("none").http.headers[ECHO] == hitl_prompt.URI


@scenario()
def send_and_be_answered_by_a_message(stage: Stage) -> None:
    with stage.deployment.unchanged():
        told = stage.send(message("tck-message-response"))
    assert told.result["message"]["parts"] == [{"text": "Direct message response"}]


@scenario()
def send_with_a_hint(stage: Stage) -> None:
    told = stage.send(message("lunch"), metadata={"skillHint": "expense"})
    assert told.task["status"]["message"]["parts"] == [{"text": "How much was it, in euros?"}]
    with stage.refusing(errors.InvalidParams):
        stage.send(message("lunch"), metadata={"skillHint": "unknown"})


@scenario()
def send_with_no_history(stage: Stage) -> None:
    assert "history" not in stage.send(configuration={"historyLength": 0}).task


@scenario()
def send_twice_under_one_key(stage: Stage) -> None:
    headers = {"Idempotency-Key": "0123456789abcdef"}
    first = stage.send(headers=headers)
    with stage.deployment.unchanged():
        again = stage.send(headers=headers)
    assert again == first
    with stage.refusing(errors.InvalidParams):
        stage.send(message("release 2"), headers=headers)
        stage.send(headers={"Idempotency-Key": "short"})


@scenario()
def send_twice_without_a_key(stage: Stage) -> None:
    assert stage.send().task["id"] != stage.send().task["id"]


# Answers.


@scenario()
def answer_and_go_on(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    task = stage.answer(task_id, YES).task
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["status"]["message"]["parts"] == [{"text": "Released 1.2.0."}]
    (artifact,) = task["artifacts"]
    assert artifact["parts"] == [{"text": f"1.2.0 released, approved by {ANN.id}"}]
    assert "hitl_response_for" not in json.dumps(task["status"])


@scenario()
def answer_in_snake_case(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    said = {"prompt_id": stage.deployment.open_prompt(task_id), "payload": YES}
    snake = {"message_id": "m-2", "role": 1, "parts": [{"text": "ok"}], "task_id": task_id}
    told = stage.send({**snake, "metadata": {"hitl_response_for": said}}, "ann")
    assert told.task["status"]["state"] == "TASK_STATE_COMPLETED"


@scenario()
def answer_again_and_be_told_the_same(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    said = {"prompt_id": stage.deployment.open_prompt(task_id), "payload": YES}
    first = stage.answer(task_id, None, said=said)
    with stage.deployment.unchanged():
        assert stage.answer(task_id, None, said=said) == first


@scenario()
def answer_second(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    said = {"prompt_id": stage.deployment.open_prompt(task_id), "payload": YES}
    stage.answer(task_id, None, said=said)
    with stage.refusing(AnswerRefused):
        error = stage.answer(task_id, None, "ben", said=said).refused(AnswerRefused)
    assert error["extension"] == hitl_prompt.URI
    assert error["prompt_id"] == said["prompt_id"]
    assert "reason" not in error
    assert error["details"][0]["metadata"] == {"winner": ANN.id}


@scenario()
def answer_a_prompt_that_is_none(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    other = stage.send().task["id"]
    with stage.refusing(AnswerRefused):
        for prompt_id in (str(uuid4()), stage.deployment.open_prompt(other)):
            stage.answer(task_id, None, said={"prompt_id": prompt_id, "payload": {"approved": 1}})


@scenario()
def answer_against_the_schema(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    with stage.refusing(AnswerInvalid):
        wrong = {"approved": "yes please", "extra_unknown_field": 42}
        error = stage.answer(task_id, wrong).refused(AnswerInvalid)
    assert [(found["path"], found["keyword"]) for found in error["validation_errors"]] == [
        ("/approved", "type"),
        ("/extra_unknown_field", "additionalProperties"),
    ]
    assert error["prompt_id"] == stage.deployment.open_prompt(task_id)
    assert stage.answer(task_id, YES).task["status"]["state"] == "TASK_STATE_COMPLETED"


@scenario()
def answer_malformed(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    right = {"prompt_id": stage.deployment.open_prompt(task_id), "payload": YES}
    with stage.refusing(errors.InvalidParams):
        wrong: tuple[Any, ...] = (
            {**right, "extra": 1},
            {"payload": YES},
            [],
            "yes",
            {**right, "prompt_id": "1"},
        )
        for said in wrong:
            stage.answer(task_id, None, said=said)
        stage.send(message(metadata={"hitl_response_for": right}))


@scenario()
def answer_without_the_right_to(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    with stage.refusing(errors.PermissionDenied):
        stage.answer(task_id, YES, "ops")
        stage.answer(task_id, {"approved": 1}, "ops")


@scenario()
def answer_what_is_not_seen(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    with stage.refusing(errors.TaskNotFound):
        for who in ("peer", "spy", "nobody", "platform"):
            stage.answer(task_id, YES, who)


@scenario(lambda: Deployment(asking(APPROVAL, deadline=timedelta(minutes=1))))
def answer_too_late(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    stage.deployment.clock.advance(60)
    with stage.refusing(AnswerRefused):
        assert stage.answer(task_id, YES).refused(AnswerRefused)["reason"] == "expired"


@scenario(lambda: Deployment(asking(APPROVAL, allowed_responders=["consensus:2"])))
def answer_with_several(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    assert stage.answer(task_id, YES, "ann").task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    with stage.refusing(errors.PermissionDenied):
        stage.answer(task_id, YES, "bot")
    assert stage.answer(task_id, YES, "ben").task["status"]["state"] == "TASK_STATE_COMPLETED"


# Messages to a task.


@scenario()
def go_on_without_an_answer(stage: Stage) -> None:
    task = stage.send().task
    went_on = stage.send(message("well?", taskId=task["id"])).task
    assert went_on["contextId"] == task["contextId"]
    assert went_on["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    with stage.refusing(errors.PermissionDenied):
        stage.send(message(taskId=task["id"]), "ann")
    with stage.refusing(errors.TaskNotFound):
        stage.send(message(taskId=task["id"]), "peer")
        stage.send(message(taskId="none"))
    with stage.refusing(errors.InvalidParams):
        stage.send(message(taskId=task["id"], contextId="another"))


@scenario(lambda: Deployment(demo, at_once=False))
def disturb_a_task_that_works(stage: Stage) -> None:
    task_id = stage.send(configuration=NOW).task["id"]
    with stage.refusing(errors.UnsupportedOperation):
        stage.send(message(taskId=task_id))


@scenario()
def disturb_a_task_that_is_over(stage: Stage) -> None:
    task_id = stage.send(message("help")).task["id"]
    with stage.refusing(errors.UnsupportedOperation):
        stage.send(message(taskId=task_id))


# Reading and canceling.


@scenario()
def read_a_task(stage: Stage) -> None:
    sent = stage.send().task
    for who in ("agent", "ann", "ops"):
        assert stage.get(sent["id"], who).task == sent
    assert "history" not in stage.get(sent["id"], historyLength=0).task
    assert hitl_prompt.URI not in stage.get(sent["id"], headers={}).http.text
    with stage.refusing(errors.TaskNotFound):
        for who in ("peer", "spy", "nobody", "platform"):
            stage.get(sent["id"], who)
        stage.get("none")
        stage.get("T#acme#x")


@scenario()
def list_tasks(stage: Stage) -> None:
    for number in range(3):
        stage.send(message(f"release {number}", contextId=f"c-{number % 2}"))
        stage.deployment.clock.advance(1)
    listed = stage.list().result
    assert (listed["pageSize"], listed["totalSize"], listed["nextPageToken"]) == (50, 3, "")
    assert len(stage.list(contextId="c-0").result["tasks"]) == 2
    first = stage.list(pageSize=2, historyLength=1, includeArtifacts=True).result
    assert len(first["tasks"]) == 2
    assert len(stage.list(pageSize=2, pageToken=first["nextPageToken"]).result["tasks"]) == 1
    assert stage.list(status="TASK_STATE_COMPLETED").result["tasks"] == []
    assert stage.list(statusTimestampAfter="2026-01-01T12:00:02Z").result["totalSize"] == 1
    assert stage.list("peer").result["totalSize"] == 0
    with stage.refusing(errors.InvalidParams):
        for bad in ({"pageSize": 0}, {"pageSize": 101}, {"pageToken": "x"}, {"historyLength": -1}):
            stage.list(**bad)


@scenario()
def cancel_a_task(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    with stage.refusing(errors.TaskNotFound):
        stage.cancel(task_id, "peer")
        stage.cancel(task_id, "spy")
        stage.cancel("none")
    first = stage.cancel(task_id)
    assert first.task["status"]["state"] == "TASK_STATE_CANCELED"
    assert stage.cancel(task_id, metadata={"why": "again"}) == first


@scenario()
def cancel_what_is_over(stage: Stage) -> None:
    task_id = stage.send(message("help")).task["id"]
    with stage.refusing(errors.TaskNotCancelable):
        stage.cancel(task_id)


# Bad input.


@scenario()
def send_bad_members(stage: Stage) -> None:
    with stage.refusing(errors.InvalidParams):
        for said in (
            {},
            message(message_id=""),
            message(message_id="x" * 257),
            message(message_id=1),  # type: ignore[arg-type]
            message(taskId="x" * 257),
            message(contextId="x" * 257),
            message(parts=[]),
            message(parts=[{}]),
            message(parts=[{"text": "a", "data": 1}]),
            message(parts=[{"text": 1}]),
            message(parts=[{"text": "a"}] * 257),
            message(role="ROLE_AGENT"),
            message(role="user"),
            message(metadata=[]),
            message(extensions="x"),
        ):
            stage.client.call("SendMessage", {"message": said})
        stage.client.call("SendMessage", {})
        stage.client.call("SendMessage", {"message": message(), "configuration": {"historyLength": -1}})
        stage.client.call("SendMessage", {"message": message(), "configuration": {"returnImmediately": 1}})
        stage.client.call("SendMessage", {"message": message(), "tenant": "other"})


@scenario()
def send_a_push_configuration(stage: Stage) -> None:
    with stage.refusing(errors.PushNotificationNotSupported):
        stage.send(configuration={"taskPushNotificationConfig": {"url": "https://example.com"}})


VALID = json.dumps({"message": message()}).encode()


@scenario()
def send_what_is_not_json(stage: Stage) -> None:
    with stage.refusing(errors.ParseError):
        for params in (
            b"{",
            VALID[:-1],
            VALID + b"}",
            b"\xff\xfe",
            VALID.replace(b"release", b"\xc3\x28"),
            VALID.replace(b"release", b"\\ud800"),
            VALID.replace(b'"m-1"', b'"m-1", "messageId": "m-1"'),
            VALID.replace(b'"message"', b'"message": null, "message"'),
            VALID.replace(b'"m-1"', b"NaN"),
            VALID.replace(b'"m-1"', b"1" * 400),
            VALID.replace(b'"m-1"', b"[" * 70 + b"]" * 70),
            b"[" * 200_000,
        ):
            stage.client.send_bytes(params)


@scenario()
def send_what_is_too_large(stage: Stage) -> None:
    large = json.dumps({"message": message("x" * 2**20)}).encode()
    with stage.refusing(errors.RequestTooLarge):
        stage.client.send_bytes(large)


@scenario()
def send_something_else_than_an_object(stage: Stage) -> None:
    with stage.deployment.unchanged():
        for params in (b"[]", b'"x"', b"1", b"true"):
            assert stage.client.send_bytes(params).error is not None
    # JSON-RPC says it of its parameters, HTTP+JSON of the request.
    stage.client.told.clear()


@scenario()
def send_another_content_type(stage: Stage) -> None:
    with stage.deployment.unchanged():
        for content_type in ("text/plain", "application/xml", "multipart/form-data; boundary=x", "json"):
            told = stage.client.send_bytes(VALID, headers={"Content-Type": content_type})
            told.refused(errors.RequestContentTypeNotSupported)
    for content_type in ("application/json; charset=utf-8", "application/a2a+json", "Application/JSON"):
        assert stage.client.send_bytes(VALID, headers={"Content-Type": content_type}).task


@scenario()
def speak_another_version(stage: Stage) -> None:
    with stage.refusing(errors.VersionNotSupported):
        for version in ("", "0.3", "1.1", "2.0", "1", "1.0.0", "x"):
            stage.send(headers={"A2A-Version": version})


@scenario()
def call_without_a_credential(stage: Stage) -> None:
    task_id = stage.send().task["id"]
    with stage.refusing(errors.Unauthenticated):
        for who in (None, "mallory"):
            for told in (
                stage.send(who=who),
                stage.get(task_id, who),
                stage.list(who),
                stage.cancel(task_id, who),
                stage.answer(task_id, YES, who),
            ):
                assert told.http.headers["www-authenticate"] == "Bearer"


@scenario()
def start_a_task_without_the_right_to(stage: Stage) -> None:
    with stage.refusing(errors.PermissionDenied):
        for who in ("ann", "ops", "nobody", "platform"):
            stage.send(who=who)


@scenario(lambda: Deployment(demo, check_parts=True))
def send_a_part_that_no_skill_takes(stage: Stage) -> None:
    with stage.refusing(errors.ContentTypeNotSupported):
        stage.send(message(parts=[{"text": "a", "mediaType": "video/mp4"}]))
    assert stage.send(message(parts=[{"text": "help", "mediaType": "text/plain"}])).task


@scenario()
def send_a_part_of_any_type_where_that_is_not_checked(stage: Stage) -> None:
    assert stage.send(message(parts=[{"text": "help", "mediaType": "video/mp4"}])).task


# Our own trouble.


@scenario()
def meet_a_store_that_does_not_answer(stage: Stage) -> None:
    stage.deployment.hook(before=lambda operation, arguments: no_answer())
    with stage.refusing(errors.Unavailable):
        for told in (stage.send(), stage.get("x"), stage.cancel("x"), stage.answer("x", None, said=SOME)):
            assert told.error is not None
            assert told.error["message"] == "Temporarily unavailable, try again"


SOME = {"prompt_id": str(uuid4()), "payload": YES}


@scenario()
def meet_a_mistake_of_ours(stage: Stage) -> None:
    def broken(operation: str, arguments: tuple[Any, ...]) -> None:
        raise RuntimeError("password=hunter2")

    stage.deployment.hook(before=broken)
    with stage.refusing(errors.InternalError):
        for told in (stage.send(), stage.get("x"), stage.cancel("x"), stage.answer("x", None, said=SOME)):
            assert "hunter2" not in told.http.text


async def breaks(turn: Turn) -> None:
    raise RuntimeError("password=hunter2")


@scenario(lambda: Deployment(running(breaks)))
def meet_an_agent_that_fails(stage: Stage) -> None:
    told = stage.send()
    assert told.task["status"]["state"] == "TASK_STATE_FAILED"
    assert "hunter2" not in told.http.text


# Both bindings.


def same_ids(outcomes: list[Outcome]) -> list[Any]:
    """What was told, with each id by the order in which it first came up."""
    text = json.dumps([(outcome.result, outcome.error) for outcome in outcomes], sort_keys=True)
    text = re.sub(r'"nextPageToken": "[^"]+"', '"nextPageToken": "..."', text)
    numbers: dict[str, str] = {}
    told: list[Any] = json.loads(UUID.sub(lambda m: numbers.setdefault(m[0], f"id-{len(numbers)}"), text))
    return told


def played(name: str, binding: Binding) -> list[Outcome]:
    play, deployed = SCENARIOS[name]
    deployment = deployed()
    client = Client(deployment.agents_door(), binding)
    play(Stage(deployment, client))
    return client.told


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_bindings_keep_to_the_scenario_and_say_the_same(name: str) -> None:
    by_rpc, by_http = (same_ids(played(name, binding)) for binding in BINDINGS)
    assert by_rpc == by_http
