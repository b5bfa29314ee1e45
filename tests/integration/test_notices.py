"""Notices over HTTP to a web hook that is down, slow, or told twice: none is lost, and no task waits."""

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from tests.support.calls import call
from tests.support.fleet import Hook, hooked
from tests.support.receivers import status
from tests.support.twin import ANN, CAROL, Deployment, asking, no_answer, once

from interlock.a2a.models import TaskState
from interlock.adapters import renderers
from interlock.adapters.outbound import Outbound
from interlock.adapters.renderers import ConfiguredRenderers
from interlock.engine.due import handle_due
from interlock.engine.notices import (
    GIVEN_UP,
    LONGEST_RETRY,
    MAX_TRIES,
    UNRENDERED,
    Telling,
    deliver_notices,
)
from interlock.engine.tells import TELL

FOR_EVER = 10**6
QUICKLY = 0.2


@dataclass
class Place:
    """A deployment of an agent that asks, and a web hook by which people are told."""

    hook: Hook
    chain: tuple[str, ...] = ("hook",)
    deployment: Deployment = field(default_factory=lambda: Deployment(asking()))

    def __post_init__(self) -> None:
        self.deployment.engine = replace(self.deployment.engine, notices=True)
        document = {"renderers": {"hook": self.hook.renderer}, "default": self.chain}
        chosen = ConfiguredRenderers(lambda: json.dumps(document).encode(), Outbound(local=True), no_topics)
        self.telling = Telling(self.deployment.engine, chosen)

    def ask(self) -> str:
        """Of a person: then people are told first, or that is tried."""
        task_id = self.deployment.send(who=CAROL).id
        self.outbox()
        return task_id

    def outbox(self) -> None:
        """What the outbox does for whatever it was woken for."""
        woken, self.deployment.waker.notices = self.deployment.waker.notices, []
        for tenant, task_id in dict.fromkeys(woken):
            deliver_notices(self.telling, tenant, task_id)

    def later(self) -> None:
        self.deployment.clock.advance(LONGEST_RETRY.total_seconds())
        for key, item in self.deployment.due_rows().items():
            if item["kind"] == TELL:
                handle_due(self.deployment.engine, key)
        self.outbox()

    @property
    def requests(self) -> int:
        assert self.hook.server is not None
        return len(self.hook.server.requests)

    @property
    def waiting(self) -> list[Any]:
        """In people's inbox."""
        listed = call(self.deployment.people_door(), "GET", "/people/checkpoints", who="ann")
        return [row["taskId"] for row in listed.json()["checkpoints"]]


def no_topics() -> Any:
    raise AssertionError("nothing is published here")


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def dawdle(handler: BaseHTTPRequestHandler) -> None:
    """Until whoever called has had enough."""
    handler.connection.recv(1)
    handler.close_connection = True


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hooked() as found:
        yield found


@pytest.fixture
def place(hook: Hook) -> Place:
    return Place(hook)


@pytest.mark.parametrize("trouble", [status(503), hang_up, dawdle], ids=["fails", "hangs up", "is slow"])
def test_while_a_receiver_is_down_work_goes_on_and_what_it_missed_comes_later(
    place: Place, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(renderers, "HOOK_SECONDS", QUICKLY)
        place.hook.trouble, place.hook.failing = trouble, FOR_EVER
        tasks = [place.ask() for _ in range(2)]
        assert (place.hook.notices, place.requests) == ({}, 2)
        assert sorted(place.waiting) == sorted(tasks)
        done = place.deployment.answer(ANN, tasks[0], {"approved": True})
        assert done.status.state is TaskState.COMPLETED
        place.later()
        assert place.hook.notices == {}
    place.hook.failing = 0
    place.later()
    assert [place.hook.told(task_id) for task_id in tasks] == [["asked", "settled"], ["asked"]]
    taken = place.requests
    place.later()
    assert place.requests == taken


def test_what_comes_twice_has_the_same_id(place: Place) -> None:
    place.deployment.send(who=CAROL)
    place.deployment.hook(before=once("write", no_answer))
    place.outbox()
    place.later()
    assert place.requests == 2
    assert len(place.hook.notices) == 1
    assert place.hook.unsigned == 0


def test_two_workers_at_once_tell_the_same(place: Place) -> None:
    task_id = place.deployment.send(who=CAROL).id
    place.deployment.hook(
        before=once("write", lambda: deliver_notices(place.telling, "acme", task_id)),
    )
    place.outbox()
    assert place.requests == 2
    assert place.hook.told(task_id) == ["asked"]
    place.later()
    assert place.requests == 2


def test_what_is_given_up_rings_and_stays_in_the_inbox(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.hook.failing = FOR_EVER
    task_id = place.ask()
    for _ in range(MAX_TRIES + 1):
        place.later()
    assert place.requests == MAX_TRIES
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [GIVEN_UP]
    assert place.waiting == [task_id]


def test_without_a_renderer_it_rings_and_the_question_is_in_the_inbox(
    hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(hook, chain=())
    task_id = place.ask()
    place.later()
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [UNRENDERED]
    assert (place.requests, place.waiting) == (0, [task_id])
