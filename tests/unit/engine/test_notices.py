"""Notices: told where people are, at least once, and never in the way of the task."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import asking_leave, decide
from tests.support.halting import halt, resume, walk_all
from tests.support.twin import AGENT, ANN, BEN, CAROL, Deployment, asking, message, no_answer, once

from interlock.a2a.models import TaskState
from interlock.agents import Agent, Mode, Turn
from interlock.engine.due import handle_due
from interlock.engine.hand_over import hand_over
from interlock.engine.notices import (
    FIRST_RETRY,
    GIVEN_UP,
    MAX_TRIES,
    UNRENDERED,
    Renderer,
    RenderFailed,
    Telling,
    deliver_notices,
)
from interlock.engine.records import Notice
from interlock.engine.tells import Tells

MINUTE = timedelta(minutes=1)


@dataclass
class Surface:
    """Implements `Renderer`: keeps what it was given, while it is up."""

    up: bool = True
    shown: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        if not self.up:
            raise RenderFailed("down")
        self.shown.append((notice_id, document))

    @property
    def told(self) -> list[str]:
        return [document["tells"] for _, document in self.shown]


@dataclass
class Surfaces:
    """Implements `Renderers`."""

    default: dict[str, Renderer] = field(default_factory=dict)
    by_interface: dict[str, dict[str, Renderer]] = field(default_factory=dict)
    readable: bool = True

    def chosen(self, tells: Tells, interface: str | None, tenant: str) -> Mapping[str, Renderer]:
        if not self.readable:
            raise RenderFailed("can not be read")
        return self.by_interface.get(interface or "", self.default)


class Place:
    def __init__(self, agent: Agent) -> None:
        self.deployment = Deployment(agent)
        self.deployment.engine = replace(self.deployment.engine, notices=True)
        self.surface = Surface()
        self.surfaces = Surfaces({"hook": self.surface})

    def ask(self) -> str:
        """A task of a person, so that no agent is asked before people are."""
        return self.deployment.send(who=CAROL).id

    def deliver(self, task_id: str) -> None:
        deliver_notices(Telling(self.deployment.engine, self.surfaces), "acme", task_id)

    def notices(self, task_id: str) -> list[Notice]:
        pk = self.deployment.meta(task_id).key.pk
        found = [Notice.read(item) for _, item in self.deployment.table.query(pk, first="NOTE#").rows]
        return sorted((one for one in found if isinstance(one, Notice)), key=lambda one: one.at)

    def expire(self) -> None:
        self.deployment.clock.advance(601)
        self.fall_due("deadline")

    def fall_due(self, kind: str) -> int:
        """Handles the rows of a kind that are due; how many there were."""
        now = self.deployment.clock.now()
        rows = {key: item for key, item in self.deployment.due_rows().items() if item["kind"] == kind}
        due = [key for key, item in rows.items() if str(item["at"]) <= f"{now:%Y-%m-%dT%H:%M:%S}.999999Z"]
        for key in due:
            handle_due(self.deployment.engine, key)
        return len(due)


def notifying() -> Agent:
    agent = Agent("desk", "Runs, and people are told")

    @agent.skill("work", "Works", mode=Mode.NOTIFICATION)
    async def work(turn: Turn) -> None:
        await turn.complete("done")

    return agent


def test_a_skill_that_notifies_runs_and_its_surface_is_told() -> None:
    place = Place(notifying())
    source = {"interface": "discord", "channelId": "c-1"}
    task = place.deployment.send(message("go", metadata={"source": source}))
    assert task.status.state is TaskState.COMPLETED
    assert place.deployment.waker.notices == [("acme", task.id)]
    place.deliver(task.id)
    ((notice_id, document),) = place.surface.shown
    (notice,) = place.notices(task.id)
    assert (notice.status, notice.told, notice.id) == (Notice.TOLD, "hook", notice_id)
    assert document["tells"] == "started"
    assert (document["agent"], document["skill"], document["mode"]) == ("desk", "work", "notification")
    assert document["source"] == source


def test_what_is_told_is_told_where_the_work_came_from() -> None:
    place = Place(notifying())
    discord = Surface()
    place.surfaces.by_interface["discord"] = {"discord": discord}
    sent = message("go", metadata={"source": {"interface": "discord"}})
    place.deliver(place.deployment.send(sent).id)
    assert (discord.told, place.surface.told) == (["started"], [])


def test_a_question_is_told_without_what_may_be_withheld() -> None:
    place = Place(asking_leave(deadline=timedelta(hours=1)))
    task_id = place.deployment.send().id
    place.deliver(task_id)
    ((_, document),) = place.surface.shown
    checkpoint = document["checkpoint"]
    assert (document["tells"], checkpoint["kind"], checkpoint["status"]) == ("asked", "approval", "open")
    assert checkpoint["digest"].startswith("sha256:")
    assert checkpoint["summary"] == "Refund 40.00 to order 1182"
    assert "40.00" not in json.dumps({**checkpoint, "summary": "", "prompt": ""})


def test_reminders_come_at_half_and_four_fifths_of_the_time_while_it_is_open() -> None:
    place = Place(asking(deadline=timedelta(minutes=10)))
    task_id = place.ask()
    place.deliver(task_id)
    place.deployment.clock.advance(299)
    assert place.fall_due("remind") == 0
    place.deployment.clock.advance(2)
    assert place.fall_due("remind") == 1
    place.deployment.clock.advance(180)
    assert place.fall_due("remind") == 1
    place.deliver(task_id)
    assert place.surface.told == ["asked", "reminder", "reminder"]


def test_nobody_is_reminded_of_what_is_answered() -> None:
    place = Place(asking(deadline=timedelta(minutes=10)))
    task_id = place.ask()
    place.deployment.answer(ANN, task_id, {"approved": True})
    place.deployment.clock.advance(500)
    assert place.fall_due("remind") == 2
    place.deliver(task_id)
    assert place.surface.told == ["asked", "settled"]
    assert not [item for item in place.deployment.due_rows().values() if item["kind"] == "remind"]


def test_while_halted_no_reminder_is_sent_and_after_that_it_is() -> None:
    place = Place(asking(deadline=timedelta(minutes=10)))
    task_id = place.ask()
    halt(place.deployment)
    walk_all(place.deployment)
    place.deployment.clock.advance(301)
    assert place.fall_due("remind") == 1
    assert len(place.notices(task_id)) == 1
    resume(place.deployment)
    assert place.fall_due("remind") == 1
    assert [notice.tells for notice in place.notices(task_id)] == ["asked", "reminder"]


def test_a_surface_that_is_down_holds_nothing_up_and_is_told_later() -> None:
    place = Place(asking())
    place.surface.up = False
    task_id = place.ask()
    place.deliver(task_id)
    assert place.deployment.answer(ANN, task_id, {"approved": True}).status.state is TaskState.COMPLETED
    place.surface.up = True
    place.deployment.waker.notices.clear()
    place.deployment.clock.advance(10)
    assert place.fall_due("tell") == 2
    assert set(place.deployment.waker.notices) == {("acme", task_id)}
    place.deliver(task_id)
    assert place.surface.told == ["asked", "settled"]


def test_a_question_that_is_passed_on_is_told_with_to_whom() -> None:
    place = Place(asking(deadline=timedelta(minutes=10)))
    task_id = place.ask()
    place.deliver(task_id)
    hand_over(place.deployment.engine, ANN, task_id, place.deployment.open_prompt(task_id), BEN.id)
    place.deliver(task_id)
    (_, asked), (_, handed) = place.surface.shown
    assert (asked["tells"], handed["tells"], handed["checkpoint"]["to"]) == ("asked", "handed", BEN.id)
    assert "to" not in asked["checkpoint"]


ENDS: dict[str, Callable[[Place, str], object]] = {
    "answered": lambda place, task_id: place.deployment.answer(ANN, task_id, {"approved": True}),
    "superseded": lambda place, task_id: place.deployment.send(message("no", task_id=task_id), CAROL),
    "canceled": lambda place, task_id: place.deployment.cancel(task_id, CAROL),
    "expired": lambda place, task_id: place.expire(),
}


@pytest.mark.parametrize("how", ENDS)
def test_however_a_question_ends_that_is_told_where_it_was_told_of(how: str) -> None:
    place = Place(asking(deadline=timedelta(minutes=10)))
    elsewhere = Surface()
    place.surfaces.by_interface["discord"] = {"discord": elsewhere}
    task_id = place.ask()
    place.deliver(task_id)
    place.deployment.waker.notices.clear()
    ENDS[how](place, task_id)
    assert ("acme", task_id) in place.deployment.waker.notices
    place.deliver(task_id)
    place.deliver(task_id)
    asked, settled = place.surface.shown[0][1], place.surface.shown[1][1]
    assert (settled["tells"], settled["checkpoint"]["status"]) == ("settled", how)
    assert settled["checkpoint"]["id"] == asked["checkpoint"]["id"]
    assert elsewhere.told == []


def test_an_end_is_told_by_those_alone_who_told_of_the_question() -> None:
    place = Place(asking())
    task_id = place.ask()
    place.deliver(task_id)
    late = Surface()
    place.surfaces.default["late"] = late
    place.deployment.answer(ANN, task_id, {"approved": True})
    place.deliver(task_id)
    assert (place.surface.told, late.told) == (["asked", "settled"], [])


def test_an_end_waits_for_who_is_still_telling_of_the_question() -> None:
    """One worker tells of the question while it is answered, and another of the answer."""
    place = Place(asking())
    task_id = place.ask()
    slow = place.surface.render

    def render(notice_id: str, document: Mapping[str, Any]) -> None:
        place.surface.render = refuse  # type: ignore[method-assign]
        place.deployment.answer(ANN, task_id, {"approved": True})
        place.deliver(task_id)
        assert [one.status for one in place.notices(task_id)] == [Notice.OPEN, Notice.OPEN]
        place.surface.render = slow  # type: ignore[method-assign]
        slow(notice_id, document)

    def refuse(notice_id: str, document: Mapping[str, Any]) -> None:
        raise RenderFailed("being told")

    place.surface.render = render  # type: ignore[method-assign]
    place.deliver(task_id)
    place.deliver(task_id)
    place.deliver(task_id)
    assert place.surface.told[-1] == "settled"
    assert {one.status for one in place.notices(task_id)} == {Notice.TOLD}


def test_nothing_is_said_of_the_end_of_what_nobody_was_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """The agent that dispatched it answers, before people are asked."""
    place = Place(asking())
    task_id = place.deployment.send().id
    place.deployment.answer(AGENT, task_id, {"approved": True})
    with caplog.at_level(logging.ERROR):
        place.deliver(task_id)
    assert (place.surface.told, caplog.records) == ([], [])
    assert [one.status for one in place.notices(task_id)] == [Notice.TOLD]


def test_what_a_surface_does_not_take_comes_again_without_waiting_for_the_sweeper() -> None:
    place = Place(asking())
    place.surface.up = False
    deployment, task_id = place.deployment, place.ask()
    place.deliver(task_id)
    key, at = deployment.waker.timers[-1]
    assert at == deployment.clock.now() + FIRST_RETRY
    deployment.waker.notices.clear()
    deployment.clock.advance(FIRST_RETRY.total_seconds())
    handle_due(deployment.engine, key)
    assert deployment.waker.notices == [("acme", task_id)]
    again, _ = deployment.waker.timers[-1]
    assert again in deployment.due_rows()
    assert key not in deployment.due_rows()


def test_of_several_only_those_are_told_again_that_were_not() -> None:
    place = Place(asking())
    other = Surface(up=False)
    place.surfaces.default["other"] = other
    task_id = place.ask()
    place.deliver(task_id)
    other.up = True
    place.deliver(task_id)
    assert (place.surface.told, other.told) == (["asked"], ["asked"])


def test_what_is_told_twice_has_the_same_id() -> None:
    place = Place(asking())
    task_id = place.ask()
    place.deployment.hook(before=once("write", no_answer))
    place.deliver(task_id)
    place.deliver(task_id)
    assert place.surface.told == ["asked", "asked"]
    assert len({notice_id for notice_id, _ in place.surface.shown}) == 1


def test_a_notice_that_nobody_takes_is_given_up_where_it_is_seen(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(asking())
    place.surface.up = False
    task_id = place.ask()
    with caplog.at_level(logging.ERROR):
        for _ in range(MAX_TRIES):
            place.deliver(task_id)
    (notice,) = place.notices(task_id)
    assert (notice.status, notice.tries) == (Notice.PARKED, MAX_TRIES)
    assert [record.message for record in caplog.records] == [GIVEN_UP]
    place.deployment.clock.advance(3600)
    place.fall_due("tell")
    assert not [item for item in place.deployment.due_rows().values() if item["kind"] == "tell"]


def test_without_a_renderer_that_is_logged_and_the_question_waits(caplog: pytest.LogCaptureFixture) -> None:
    place = Place(asking())
    place.surfaces.default.clear()
    task_id = place.ask()
    with caplog.at_level(logging.ERROR):
        place.deliver(task_id)
    assert [record.message for record in caplog.records] == [UNRENDERED]
    (notice,) = place.notices(task_id)
    assert notice.status == Notice.UNRENDERED
    assert place.deployment.open_prompt(task_id)


def test_renderers_that_can_not_be_read_are_asked_for_again() -> None:
    place = Place(asking())
    place.surfaces.readable = False
    task_id = place.ask()
    place.deliver(task_id)
    place.surfaces.readable = True
    place.deliver(task_id)
    assert place.surface.told == ["asked"]


@pytest.mark.parametrize("mode", [Mode.GATED, Mode.COMPOUND, Mode.VETO])
def test_what_has_to_be_approved_or_may_be_vetoed_is_told(mode: Mode) -> None:
    agent = Agent("desk", "d")

    @agent.skill("work", "w", mode=mode)
    async def work(turn: Turn) -> None:
        await turn.complete()

    place = Place(agent)
    task_id = place.deployment.send().id
    place.deliver(task_id)
    ((_, document),) = place.surface.shown
    assert (document["tells"], document["mode"]) == ("asked", mode.value)
    if mode is not Mode.VETO:
        assert decide(place.deployment, ANN, task_id).status.state is TaskState.COMPLETED


def test_nobody_is_told_of_a_task_that_nobody_else_sees() -> None:
    agent = Agent("desk", "d", isolated=True)

    @agent.skill("work", "w", mode=Mode.NOTIFICATION)
    async def work(turn: Turn) -> None:
        await turn.complete()

    place = Place(agent)
    assert place.notices(place.deployment.send().id) == []


def test_where_there_are_no_renderers_nothing_is_written() -> None:
    deployment = Deployment(asking(deadline=MINUTE))
    task_id = deployment.send().id
    assert not [key for key in deployment.rows() if key.sk.startswith("NOTE#")]
    assert [item["kind"] for item in deployment.due_rows().values()] == ["deadline"]
    assert deployment.waker.notices == []
    assert deployment.open_prompt(task_id)
