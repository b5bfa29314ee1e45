"""One of many answers is accepted, whoever they come from and however; all others are told who won."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as sdk
from tests.support.backend import Backend, running_backend
from tests.support.crowd import FULL, at_once, split
from tests.support.emulator import Emulator
from tests.support.faults import Fault, FaultProxy, LostReply, LostRequest, fault_proxy
from tests.support.story import PATIENCE_SECONDS, Place, envelope, eventually, jsonrpc, said, trusted
from tests.support.twin import message

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import Message, Task, TaskState
from interlock.engine.errors import AnswerRefused
from interlock.engine.ports import StoreError
from interlock.oversight.hitl_prompt import RESPONSE_KEY
from interlock.oversight.principals import Kind, Principal, Role

TRIES = 50
CROWD, PROMPTS = (50, 50) if FULL else (16, 4)
API_CROWD, API_PROMPTS = (50, 50) if FULL else (12, 2)
LOSSES: tuple[Fault | None, ...] = (LostReply(), LostRequest(), None, None, None, None, None, None)


def approver(number: int) -> Principal:
    return Principal(f"bearer:approver-{number}", "acme", Kind.PERSON, frozenset({Role.APPROVER}))


def payload(number: int) -> dict[str, Any]:
    return {"approved": bool(number % 2), "comment": f"of {number}"}


@pytest.fixture
def proxy(emulator: Emulator) -> Iterator[FaultProxy]:
    with fault_proxy(emulator.url) as proxy:
        yield proxy


@pytest.fixture
def backend(emulator: Emulator, proxy: FaultProxy, tmp_path: Path) -> Iterator[Backend]:
    with running_backend(emulator, tmp_path, AWS_ENDPOINT_URL_DYNAMODB=proxy.url) as backend:
        yield backend


@pytest.mark.parametrize("losses", [[], LOSSES], ids=["sound network", "lossy network"])
def test_one_of_many_answers_is_accepted(
    backend: Backend, proxy: FaultProxy, losses: Sequence[Fault | None]
) -> None:
    chance = Random(7)

    def race(answers: list[Message]) -> tuple[list[tuple[int, Task]], list[Exception]]:
        if losses:
            proxy.fail(*chance.choices(losses, k=100 * CROWD))
        acts = [partial(insist, backend, answer, approver(number)) for number, answer in enumerate(answers)]
        outcomes = at_once(*acts)
        proxy.reset()
        return split(outcomes)

    for _ in range(PROMPTS):
        sent = backend.send("go")
        backend.work()
        prompt_id = backend.meta(sent.id).ask
        answers = [answer_message(sent.id, prompt_id, number) for number in range(CROWD)]

        accepted, refused = race(answers)
        ((winner, task),) = accepted
        assert task.status.state == TaskState.WORKING
        check_refused(refused, approver(winner))

        # Woken twice, it is run once, and with what was accepted.
        backend.fan_out()
        backend.work()
        done = backend.get(sent.id)
        assert done.status.state == TaskState.COMPLETED
        assert done.artifacts is not None
        (artifact,) = done.artifacts
        assert (artifact.name, artifact.parts[0].data) == (approver(winner).id, payload(winner))
        assert len(backend.started(sent.id)) == 2

        # Whoever sends the same again is told the same again.
        accepted, refused = race(answers)
        assert [number for number, _ in accepted] == [winner]
        check_refused(refused, approver(winner))
        assert backend.get(sent.id) == done


def insist(backend: Backend, answer: Message, who: Principal) -> Task:
    """As a client does that gets no reply: it sends the same again."""
    for _ in range(TRIES):
        with suppress(StoreError, Unavailable):
            return backend.send(answer, who)
    raise AssertionError("never answered")


def answer_message(task_id: str, prompt_id: str | None, number: int) -> Message:
    response = {"prompt_id": prompt_id, "payload": payload(number)}
    return message("answer", task_id=task_id, metadata={RESPONSE_KEY: response})


def check_refused(refused: list[Exception], winner: Principal) -> None:
    assert len(refused) == CROWD - 1
    for error in refused:
        assert isinstance(error, AnswerRefused)
        assert (error.http_status, error.code) == (409, -32010)
        assert error.metadata == {"winner": winner.id}


# Through the API, by every way that an answer can take


Reply = tuple[bool, dict[str, Any]]
"""Whether the answer was accepted, and else the error."""


def by_jsonrpc(http: httpx.Client, task_id: str, message: Mapping[str, Any]) -> Reply:
    parameters = {"message": message, "configuration": {"returnImmediately": True}}
    reply = http.post("/", json=jsonrpc("SendMessage", parameters))
    assert reply.status_code == 200
    if "result" in reply.json():
        return True, {}
    error = reply.json()["error"]
    assert error["code"] == -32010
    return False, error["data"]


def by_http_json(http: httpx.Client, task_id: str, message: Mapping[str, Any]) -> Reply:
    body = {"message": message, "configuration": {"returnImmediately": True}}
    return accepted_or_conflict(http.post("/message:send", json=body))


def by_people(http: httpx.Client, task_id: str, message: Mapping[str, Any]) -> Reply:
    response = message["metadata"][RESPONSE_KEY]
    path = f"/people/tasks/{task_id}/checkpoints/{response['prompt_id']}/answer"
    return accepted_or_conflict(http.post(path, json={"payload": response["payload"]}))


def accepted_or_conflict(reply: httpx.Response) -> Reply:
    if reply.status_code == 200:
        return True, {}
    assert reply.status_code == 409, reply.text
    return False, reply.json()["error"]


WAYS = (by_jsonrpc, by_http_json, by_people)
LABELS = ("alice", "bob", "carol", "agent")


@pytest.fixture
def connections(place: Place) -> Iterator[Mapping[str, httpx.Client]]:
    """Each identity's connections."""
    opened = {
        label: httpx.Client(
            base_url=place.url,
            headers={"A2A-Version": "1.0", "Authorization": f"Bearer {place.tokens[label]}"},
            timeout=PATIENCE_SECONDS,
            verify=trusted(),
        )
        for label in LABELS
    }
    yield opened
    for http in opened.values():
        http.close()


def test_one_of_many_answers_is_accepted_through_the_api(
    place: Place, connections: Mapping[str, httpx.Client]
) -> None:
    agent = place.caller("agent", "JSONRPC")
    eventually(lambda: all_are_served(connections))
    for _ in range(API_PROMPTS):
        asked = agent.send("release 6.0.0")

        def act(number: int, asked: pb.Task = asked) -> Reply:
            response = {"prompt_id": envelope(asked)["prompt_id"], "payload": denial(number)}
            message = {
                "messageId": str(uuid4()),
                "role": "ROLE_USER",
                "parts": [{"text": "answer"}],
                "taskId": asked.id,
                "metadata": {RESPONSE_KEY: response},
            }
            return WAYS[number % len(WAYS)](connections[LABELS[number % len(LABELS)]], asked.id, message)

        outcomes = at_once(*(partial(act, number) for number in range(API_CROWD)))
        replies, failures = split(outcomes)
        assert failures == []
        (winner,) = [number for number, (accepted, _) in replies if accepted]
        for _, (accepted, error) in replies:
            if not accepted:
                assert error["prompt_id"] == envelope(asked)["prompt_id"]
                (info,) = error["details"]
                assert info["metadata"] == {"winner": f"bearer:{LABELS[winner % len(LABELS)]}"}

        done = agent.settled(asked.id)
        assert done.status.state == pb.TASK_STATE_REJECTED
        assert said(done) == f"6.0.0 was not released: {denial(winner)['comment']}"
        assert len([sent for sent in done.history if RESPONSE_KEY in sent.metadata]) == 1


def test_an_answer_and_a_cancel_at_once_through_the_api(place: Place) -> None:
    agent = place.caller("agent", "HTTP+JSON")
    for _ in range(API_PROMPTS):
        asked = agent.send("release 6.1.0")
        alice = place.caller("alice", "JSONRPC")
        answered, canceled = at_once(
            partial(alice.answer, asked, {"approved": True}), partial(agent.cancel, asked.id)
        )
        task = agent.settled(asked.id)
        if isinstance(canceled, Exception):
            # Only a task that is over can not be canceled.
            assert isinstance(canceled, sdk.TaskNotCancelableError), canceled
            assert task.status.state == pb.TASK_STATE_COMPLETED
        else:
            assert task.status.state == pb.TASK_STATE_CANCELED
        if isinstance(answered, Exception):
            assert re.search(r"-32010|409", str(answered)), answered
            assert not task.artifacts
            assert not [sent for sent in task.history if RESPONSE_KEY in sent.metadata]


def all_are_served(connections: Mapping[str, httpx.Client]) -> bool:
    """Starts as many of each function as will be there at once: a start takes longer than a race."""
    outcomes = at_once(
        *(
            partial(connections[label].get, path)
            for label in LABELS[:3]
            for path in ("/tasks", "/people/checkpoints")
        )
    )
    replies, failures = split(outcomes)
    return not failures and all(reply.status_code == 200 for _, reply in replies)


def denial(number: int) -> dict[str, Any]:
    return {"approved": False, "comment": f"because of {number}"}
