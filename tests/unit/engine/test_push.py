"""Push notifications: whose the configurations are, and what arrives, in which order, whatever fails."""

import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.push import (
    CREDENTIALS,
    TOKEN,
    URL,
    Arrived,
    Inbox,
    Outbox,
    acknowledge,
    asked,
    fail,
    with_push,
)
from tests.support.twin import (
    AGENT,
    ANN,
    OPS,
    PEER,
    PROMPTS,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import (
    InvalidParams,
    PermissionDenied,
    PushNotificationNotSupported,
    TaskNotFound,
    Unavailable,
)
from interlock.a2a.models import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from interlock.agents import Turn
from interlock.engine import push
from interlock.engine.due import handle_due
from interlock.engine.ports import OutcomeUnknown, Put, Update
from interlock.engine.push import MAX_CONFIGS, MAX_TRIES, SealFailed
from interlock.engine.records import PushConfig, instant, parse_instant
from interlock.engine.run_turn import claim
from interlock.engine.sweep import sweep
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Principal

NONE: frozenset[str] = frozenset()


async def three_things(turn: Turn) -> None:
    await turn.artifact("one")
    await turn.artifact("two")
    await turn.complete("done")


THREE = ["WORKING", "one", "two", "COMPLETED"]


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return with_push(Deployment(running(three_things), at_once=False), tmp_path)


@pytest.fixture
def asker(tmp_path: Path) -> Outbox:
    return with_push(Deployment(asking(), at_once=False), tmp_path)


def create(
    outbox: Outbox, task_id: str, who: Principal = AGENT, **changes: Any
) -> TaskPushNotificationConfig:
    return push.create(outbox.push, who, asked(task_id=task_id, **changes), extensions=NONE)


def listed(outbox: Outbox, task_id: str, **page: Any) -> list[str | None]:
    request = ListTaskPushNotificationConfigsRequest(task_id=task_id, **page)
    return [config.id for config in push.list_configs(outbox.push, AGENT, request).configs]


def get(outbox: Outbox, task_id: str, config_id: str, who: Principal = AGENT) -> TaskPushNotificationConfig:
    request = GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    return push.get(outbox.push, who, request)


def delete(outbox: Outbox, task_id: str, config_id: str, who: Principal = AGENT) -> None:
    request = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    push.delete(outbox.push, who, request)


def notified(outbox: Outbox, **changes: Any) -> str:
    """A task that was sent with a configuration, and whose turn has run."""
    task_id = outbox.deployment.send(notify=asked(id="c-1", **changes)).id
    outbox.deployment.work()
    return task_id


class TestConfigurations:
    def test_what_was_created_can_be_read_and_deleted(self, outbox: Outbox) -> None:
        task_id = outbox.deployment.send().id
        created = create(outbox, task_id)
        assert created == asked(id=created.id, task_id=task_id)
        assert created.id
        assert get(outbox, task_id, created.id) == created
        assert listed(outbox, task_id) == [created.id]
        delete(outbox, task_id, created.id)
        delete(outbox, task_id, created.id)
        assert listed(outbox, task_id) == []
        with pytest.raises(TaskNotFound):
            get(outbox, task_id, created.id)

    def test_an_id_of_the_callers_own_is_kept_and_replaces(self, outbox: Outbox) -> None:
        task_id = outbox.deployment.send().id
        create(outbox, task_id, id="mine")
        create(outbox, task_id, id="mine", url="https://hooks.example/two")
        assert listed(outbox, task_id) == ["mine"]
        assert get(outbox, task_id, "mine").url == "https://hooks.example/two"

    def test_lists_come_in_pages(self, outbox: Outbox) -> None:
        task_id = outbox.deployment.send().id
        for name in ("c", "a", "b"):
            create(outbox, task_id, id=name)
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=2)
        first = push.list_configs(outbox.push, AGENT, request)
        assert [config.id for config in first.configs] == ["a", "b"]
        assert listed(outbox, task_id, page_token=first.next_page_token) == ["c"]
        assert listed(outbox, task_id, page_size=0) == ["a", "b", "c"]
        last = ListTaskPushNotificationConfigsRequest(task_id=task_id, page_size=3)
        assert push.list_configs(outbox.push, AGENT, last).next_page_token == ""

    @pytest.mark.parametrize(
        ("who", "refused"),
        [(PEER, TaskNotFound), (SPY, TaskNotFound), (ANN, PermissionDenied), (OPS, PermissionDenied)],
        ids=["peer", "spy", "approver", "operator"],
    )
    def test_they_are_the_owners_alone(
        self, outbox: Outbox, who: Principal, refused: type[Exception]
    ) -> None:
        task_id = outbox.deployment.send().id
        create(outbox, task_id, id="mine")
        with outbox.deployment.unchanged():
            for attempt in (
                lambda: create(outbox, task_id, who),
                lambda: get(outbox, task_id, "mine", who),
                lambda: delete(outbox, task_id, "mine", who),
                lambda: push.list_configs(
                    outbox.push, who, ListTaskPushNotificationConfigsRequest(task_id=task_id)
                ),
            ):
                with pytest.raises(refused):
                    attempt()

    @pytest.mark.parametrize("task_id", ["no-such-task", "\x00", "x" * 256])
    def test_a_task_that_is_not_there_has_none(self, outbox: Outbox, task_id: str) -> None:
        for attempt in (
            lambda: create(outbox, task_id),
            lambda: get(outbox, task_id, "mine"),
            lambda: delete(outbox, task_id, "mine"),
        ):
            with pytest.raises(TaskNotFound):
                attempt()

    def test_the_task_has_to_be_named(self, outbox: Outbox) -> None:
        with pytest.raises(InvalidParams, match="taskId"):
            push.create(outbox.push, AGENT, asked(), extensions=NONE)

    @pytest.mark.parametrize(
        "changes",
        [
            {"url": "http://hooks.example/"},
            {"url": "https://127.0.0.1/"},
            {"url": "https://hooks.example/" + "x" * 4096},
            {"token": "two\r\nlines"},
            {"token": "caf\u00e9"},
            {"authentication": AuthenticationInfo(scheme="", credentials="x")},
            {"authentication": AuthenticationInfo(scheme="Bearer x\r\nHost: other", credentials="x")},
            {"authentication": AuthenticationInfo(scheme="Bearer", credentials="x\nCookie: y")},
            {"id": "a/b"},
            {"id": "with space"},
            {"id": "\u4e2d" * 250},
        ],
        ids=lambda changes: json.dumps(
            {name: str(value)[:20] for name, value in changes.items()}, ensure_ascii=True
        ),
    )
    def test_what_could_not_be_sent_as_it_is_is_refused(
        self, outbox: Outbox, changes: dict[str, Any]
    ) -> None:
        task_id = outbox.deployment.send().id
        with outbox.deployment.unchanged(), pytest.raises(InvalidParams):
            create(outbox, task_id, **changes)

    @pytest.mark.parametrize("config_id", ["a/b", "\u4e2d" * 250])
    def test_an_id_that_can_not_be_is_not_there(self, outbox: Outbox, config_id: str) -> None:
        task_id = outbox.deployment.send().id
        with pytest.raises(TaskNotFound):
            get(outbox, task_id, config_id)
        delete(outbox, task_id, config_id)

    def test_a_task_has_so_many_at_most(self, outbox: Outbox) -> None:
        task_id = outbox.deployment.send().id
        for number in range(MAX_CONFIGS):
            create(outbox, task_id, id=f"c-{number}")
        with outbox.deployment.unchanged(), pytest.raises(InvalidParams, match="at most"):
            create(outbox, task_id)
        create(outbox, task_id, id="c-0", token="another")
        assert get(outbox, task_id, "c-0").token == "another"

    def test_nothing_of_them_can_be_read_where_they_are_kept_or_in_a_log(
        self, outbox: Outbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        outbox.inbox.then = fail
        task_id = notified(outbox, url="https://hooks.example/private-path")
        outbox.deliver("acme", task_id)
        kept = repr(outbox.deployment.rows())
        assert "c-1" in kept
        assert "not acknowledged" in caplog.text
        for secret in (CREDENTIALS, TOKEN, "private-path"):
            assert secret not in kept
            assert secret not in caplog.text + repr([vars(record) for record in caplog.records])

    def test_one_that_was_moved_to_another_task_does_not_open(self, outbox: Outbox) -> None:
        one, other = outbox.deployment.send().id, outbox.deployment.send().id
        create(outbox, one, id="mine")
        item = outbox.deployment.rows()[PushConfig.key_of("acme", one, "mine")]
        outbox.deployment.table.write(
            Put(PushConfig.key_of("acme", other, "mine"), {**item, "task_id": other})
        )
        with pytest.raises(Unavailable):
            get(outbox, other, "mine")

    def test_a_key_that_does_not_answer_is_no_fault_of_the_caller(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_key(secret: bytes, context: str) -> bytes:
            raise SealFailed("no answer")

        task_id = outbox.deployment.send().id
        monkeypatch.setattr(outbox.push.sealer, "seal", no_key)
        with outbox.deployment.unchanged(), pytest.raises(Unavailable):
            create(outbox, task_id)

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_creating_survives_a_lost_reply(self, outbox: Outbox, lost: str) -> None:
        task_id = outbox.deployment.send().id
        outbox.deployment.hook(**{lost: once("write", no_answer)})
        created = create(outbox, task_id)
        assert listed(outbox, task_id) == [created.id]

    def test_a_lost_reply_loses_no_event(self, asker: Outbox) -> None:
        """What was recorded between the try that was carried out and the next one is still to be sent."""
        deployment = asker.deployment
        task_id = deployment.send().id

        def work_and_lose_the_reply() -> None:
            deployment.work()
            raise OutcomeUnknown

        deployment.hook(after=once("write", work_and_lose_the_reply))
        create(asker, task_id)
        asker.work()
        assert asker.inbox.whats() == ["WORKING", "INPUT_REQUIRED"]

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_deleting_survives_a_lost_reply(self, outbox: Outbox, lost: str) -> None:
        task_id = outbox.deployment.send().id
        create(outbox, task_id, id="mine")
        outbox.deployment.hook(**{lost: once("write", no_answer)})
        delete(outbox, task_id, "mine")
        assert listed(outbox, task_id) == []

    def test_one_that_comes_while_a_turn_runs_does_not_stop_it(self, outbox: Outbox) -> None:
        deployment = outbox.deployment
        task_id = deployment.send().id
        run = claim(deployment.engine, "acme", task_id, 1)
        assert run is not None
        create(outbox, task_id, id="mine")
        run.say("going on")
        run.finish(TaskState.COMPLETED, "done")
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING", "COMPLETED"]


class TestInline:
    def test_of_a_new_task(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE
        assert get(outbox, task_id, "c-1") == asked(id="c-1", task_id=task_id)

    def test_of_a_task_that_goes_on_with_a_message(self, asker: Outbox) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        deployment.send(message(task_id=task_id), notify=asked())
        deployment.work()
        asker.work()
        asker.deliver("acme", task_id)
        assert asker.inbox.whats() == ["WORKING", "COMPLETED"]

    def test_of_a_task_that_goes_on_with_an_answer(self, asker: Outbox) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        deployment.answer(AGENT, task_id, {"approved": True}, notify=asked(task_id=task_id))
        deployment.work()
        asker.deliver("acme", task_id)
        assert asker.inbox.whats() == ["WORKING", "COMPLETED"]

    def test_is_told_of_what_its_message_did_even_if_it_comes_late(self, asker: Outbox) -> None:
        """The task is finished before the configuration is kept."""
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()

        def finish() -> None:
            deployment.hook(before=once("query", deployment.work))

        deployment.hook(after=once("write", finish))
        deployment.send(message(task_id=task_id), notify=asked())
        assert deployment.meta(task_id).task_state is TaskState.COMPLETED
        assert not deployment.meta(task_id).push
        # Whoever was woken for it may be lost, and then it is found.
        assert deployment.waker.pushes == [("acme", task_id)]
        deployment.waker.pushes.clear()
        deployment.clock.advance(30)
        sweep(deployment.engine)
        asker.work()
        assert asker.inbox.whats() == ["WORKING", "COMPLETED"]

    @pytest.mark.parametrize(
        "notify",
        [asked(url="https://10.0.0.1/"), asked(task_id="another"), asked(token="two\nlines")],
        ids=["address", "other task", "header"],
    )
    def test_one_that_is_refused_keeps_the_message_out(
        self, asker: Outbox, notify: TaskPushNotificationConfig
    ) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        with deployment.unchanged():
            for going_on in (message(task_id=task_id), message()):
                with pytest.raises(InvalidParams):
                    deployment.send(going_on, notify=notify)

    def test_one_too_many_keeps_the_message_out(self, asker: Outbox) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        for _ in range(MAX_CONFIGS):
            create(asker, task_id)
        with deployment.unchanged(), pytest.raises(InvalidParams, match="at most"):
            deployment.send(message(task_id=task_id), notify=asked())

    def test_somebody_elses_answer_brings_none(self, asker: Outbox) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            deployment.answer(ANN, task_id, {"approved": True}, notify=asked())

    def test_is_refused_where_push_notifications_are_off(self) -> None:
        deployment = Deployment(running(nothing))
        with deployment.unchanged(), pytest.raises(PushNotificationNotSupported):
            deployment.send(notify=asked())

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_survives_a_lost_reply(self, outbox: Outbox, lost: str) -> None:
        outbox.deployment.hook(**{lost: once("write", no_answer)})
        task_id = notified(outbox)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE


class TestDelivery:
    def test_sends_each_event_as_a_stream_would_with_what_was_agreed(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.deliver("acme", task_id)
        first = outbox.inbox.arrived[0]
        assert first.url == URL
        assert first.headers == {
            "Content-Type": "application/a2a+json",
            "Authorization": f"Bearer {CREDENTIALS}",
            "X-A2A-Notification-Token": TOKEN,
        }
        assert first.body["statusUpdate"]["taskId"] == task_id
        assert [set(arrived.body) for arrived in outbox.inbox.arrived] == [
            {"statusUpdate"},
            {"artifactUpdate"},
            {"artifactUpdate"},
            {"statusUpdate"},
        ]

    def test_sends_no_header_that_was_not_agreed(self, outbox: Outbox) -> None:
        task_id = notified(outbox, token=None, authentication=None)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.arrived[0].headers == {"Content-Type": "application/a2a+json"}

    def test_a_scheme_may_go_without_credentials(self, outbox: Outbox) -> None:
        task_id = notified(outbox, authentication=AuthenticationInfo(scheme="Negotiate"))
        outbox.deliver("acme", task_id)
        assert outbox.inbox.arrived[0].headers["Authorization"] == "Negotiate"

    @pytest.mark.parametrize("extensions", [PROMPTS, NONE], ids=["activated", "not"])
    def test_shows_the_envelope_of_a_prompt_to_who_activated_it(
        self, asker: Outbox, extensions: frozenset[str]
    ) -> None:
        task_id = asker.deployment.send(notify=asked(), extensions=extensions).id
        asker.deployment.work()
        asker.deliver("acme", task_id)
        said = asker.inbox.arrived[-1].body["statusUpdate"]["status"]["message"]
        assert (hitl_prompt.URI in said.get("metadata", {})) is bool(extensions)

    def test_begins_with_what_comes_after(self, asker: Outbox) -> None:
        deployment = asker.deployment
        task_id = deployment.send().id
        deployment.work()
        create(asker, task_id)
        asker.deliver("acme", task_id)
        assert asker.inbox.arrived == []
        deployment.answer(ANN, task_id, {"approved": True})
        deployment.work()
        asker.deliver("acme", task_id)
        assert asker.inbox.whats() == ["WORKING", "COMPLETED"]

    def test_of_a_task_that_has_ended_there_is_nothing_more(self, outbox: Outbox) -> None:
        deployment = outbox.deployment
        task_id = deployment.send().id
        deployment.work()
        before = deployment.meta(task_id)
        created = create(outbox, task_id)
        assert listed(outbox, task_id) == [created.id]
        assert deployment.meta(task_id) == before
        assert deployment.due_rows() == {}
        outbox.work()
        assert outbox.inbox.arrived == []

    def test_each_configuration_for_itself(self, outbox: Outbox) -> None:
        bad = "https://hooks.example/bad"

        def refuse_bad(arrived: Arrived) -> None:
            if arrived.url == bad:
                fail(arrived)

        outbox.inbox.then = refuse_bad
        task_id = outbox.deployment.send(notify=asked(id="a", url=bad)).id
        create(outbox, task_id, id="b")
        outbox.deployment.work()
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE
        assert outbox.inbox.whats(bad) == ["WORKING"]

    def test_more_events_than_a_page_has(self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
        task_id = notified(outbox)
        monkeypatch.setattr("interlock.adapters.memory.PAGE_BYTES", 1)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE

    def test_what_is_recorded_meanwhile_is_sent_too(self, asker: Outbox) -> None:
        """Its own wake finds the configuration held, and goes away."""
        deployment = asker.deployment
        task_id = deployment.send(notify=asked()).id
        run = claim(deployment.engine, "acme", task_id, 1)
        assert run is not None

        def say_more(arrived: Arrived) -> None:
            asker.inbox.then = acknowledge
            run.say("more")
            asker.deliver("acme", task_id)

        asker.inbox.then = say_more
        asker.deliver("acme", task_id)
        assert asker.inbox.whats() == ["WORKING", "WORKING"]
        assert asker.inbox.arrived[1].body["statusUpdate"]["status"]["message"]["parts"] == [{"text": "more"}]

    def test_a_worker_whose_time_is_over_lets_another_go_on(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.inbox.then = lambda _: outbox.deployment.clock.advance(6)
        outbox.deliver("acme", task_id, seconds=10)
        assert outbox.inbox.whats() == THREE[:2]
        assert outbox.deployment.waker.pushes == [("acme", task_id)]
        outbox.work(seconds=10)
        assert outbox.inbox.whats() == THREE

    def test_without_any_time_nothing_is_begun(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.deliver("acme", task_id, seconds=0)
        assert outbox.inbox.arrived == []
        assert outbox.deployment.waker.pushes == [("acme", task_id)]

    def test_nothing_is_sent_for_a_task_that_is_not_there(self, outbox: Outbox) -> None:
        outbox.deliver("acme", "gone")
        assert outbox.inbox.arrived == []

    def test_one_that_was_deleted_is_sent_nothing_more(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        delete(outbox, task_id, "c-1")
        outbox.deliver("acme", task_id)
        assert outbox.inbox.arrived == []

    def test_one_that_is_deleted_meanwhile_is_sent_nothing_more(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.inbox.then = lambda _: delete(outbox, task_id, "c-1")
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING"]
        assert listed(outbox, task_id) == []

    def test_one_that_is_deleted_while_it_fails_stays_deleted(self, outbox: Outbox) -> None:
        def delete_and_fail(arrived: Arrived) -> None:
            delete(outbox, task_id, "c-1")
            fail(arrived)

        task_id = notified(outbox)
        outbox.inbox.then = delete_and_fail
        outbox.deliver("acme", task_id)
        assert listed(outbox, task_id) == []
        assert outbox.parked == []


class Crash(BaseException):
    """The process dies."""


def die() -> None:
    raise Crash


class TestWorkers:
    def test_two_at_once_do_not_interleave(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.inbox.then = lambda _: outbox.deliver("acme", task_id)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE

    def test_two_that_read_at_once_do_not_both_deliver(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.deployment.hook(before=once("write", lambda: outbox.deliver("acme", task_id)))
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE

    def test_what_another_has_just_taken_is_left_to_it(self, outbox: Outbox) -> None:
        task_id = notified(outbox)

        def another_dies_over_it() -> None:
            outbox.inbox.then = lambda _: die()
            with pytest.raises(Crash):
                outbox.deliver("acme", task_id)
            outbox.inbox.then = acknowledge

        outbox.deployment.hook(before=once("write", another_dies_over_it))
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING"]

    def test_one_that_died_after_a_request_has_it_sent_again_and_the_order_is_kept(
        self, outbox: Outbox
    ) -> None:
        task_id = notified(outbox)

        def crash_at_the_second_acknowledgement(arrived: Arrived) -> None:
            if arrived.what == "one":
                outbox.deployment.hook(before=once("write", die))

        outbox.inbox.then = crash_at_the_second_acknowledgement
        with pytest.raises(Crash):
            outbox.deliver("acme", task_id)
        outbox.inbox.then = acknowledge
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING", "one"], "it may still be at work"
        outbox.deployment.clock.advance(60)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING", "one", "one", "two", "COMPLETED"]

    def test_one_that_was_silent_for_too_long_is_replaced_and_stops(self, outbox: Outbox) -> None:
        task_id = notified(outbox)

        def sleep(arrived: Arrived) -> None:
            outbox.inbox.then = acknowledge
            outbox.deployment.clock.advance(60)
            outbox.deliver("acme", task_id)

        outbox.inbox.then = sleep
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING", *THREE]
        assert outbox.config(task_id, "c-1").delivered == outbox.deployment.meta(task_id).seq

    def test_one_that_goes_on_is_not_replaced(self, outbox: Outbox) -> None:
        task_id = notified(outbox)

        def slow(arrived: Arrived) -> None:
            outbox.deployment.clock.advance(59)
            outbox.deliver("acme", task_id)

        outbox.inbox.then = slow
        outbox.deliver("acme", task_id, seconds=1000)
        assert outbox.inbox.whats() == THREE

    @pytest.mark.parametrize("lost", ["before", "after"])
    @pytest.mark.parametrize("number", range(6))
    def test_whatever_reply_is_lost_all_arrives_in_order(
        self, outbox: Outbox, number: int, lost: str
    ) -> None:
        task_id = notified(outbox)
        writes = iter(range(100))

        def lose(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write" and next(writes) == number:
                raise OutcomeUnknown

        outbox.deployment.hook(**{lost: lose})
        outbox.deliver("acme", task_id)
        outbox.deployment.clock.advance(60)
        outbox.deliver("acme", task_id)
        whats = outbox.inbox.whats()
        assert list(dict.fromkeys(whats)) == THREE
        assert len(whats) <= len(THREE) + 1
        assert outbox.config(task_id, "c-1").delivered == outbox.deployment.meta(task_id).seq


class TestRetries:
    def due(self, outbox: Outbox) -> Iterator[Any]:
        for key, item in outbox.deployment.due_rows().items():
            if item["kind"] == "push" and item["id"] == "c-1":
                yield key, parse_instant(str(item["at"]))

    def test_what_failed_comes_again_and_what_follows_waits(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        outbox.inbox.then = fail
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING"]
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == ["WORKING"], "not before its time"
        ((key, at),) = self.due(outbox)
        assert (key, at) in outbox.deployment.waker.timers
        outbox.inbox.then = acknowledge
        outbox.deployment.clock.advance((at - outbox.deployment.clock.now()).total_seconds())
        handle_due(outbox.deployment.engine, key)
        outbox.work()
        assert outbox.inbox.whats() == ["WORKING", *THREE]

    def test_tries_lie_further_and_further_apart_and_end_where_it_is_seen(
        self, outbox: Outbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        deployment = outbox.deployment
        task_id = notified(outbox)
        outbox.inbox.then = fail
        for tries in range(1, MAX_TRIES):
            before = deployment.clock.now()
            outbox.deliver("acme", task_id)
            config = outbox.config(task_id, "c-1")
            assert config.tries == tries
            assert config.retry_at is not None
            wait = (parse_instant(config.retry_at) - before).total_seconds()
            longest = min(2.0 * 2**tries, 3600.0)
            assert longest / 2 <= wait <= longest
            deployment.clock.advance(wait)
            assert outbox.parked == []
        outbox.deliver("acme", task_id)
        assert [(c.tenant, c.task_id, c.config_id) for c in outbox.parked] == [("acme", task_id, "c-1")]
        assert outbox.config(task_id, "c-1").status == PushConfig.PARKED
        deployment.clock.advance(100_000)
        outbox.deliver("acme", task_id)
        assert len(outbox.inbox.arrived) == MAX_TRIES
        assert sweep(deployment.engine) == 0
        assert deployment.due_rows() == {}
        assert deployment.waker.pushes == []

    def test_tries_begin_anew_with_each_event(self, outbox: Outbox) -> None:
        deployment = outbox.deployment
        task_id = notified(outbox)
        outbox.inbox.then = fail
        for _ in range(3):
            outbox.deliver("acme", task_id)
            deployment.clock.advance(3600)
        outbox.inbox.then = lambda _: deployment.clock.advance(10)
        outbox.deliver("acme", task_id, seconds=10)
        outbox.inbox.then = fail
        outbox.deliver("acme", task_id)
        config = outbox.config(task_id, "c-1")
        assert (config.tries, config.delivered) == (1, 2)

    def test_one_that_is_created_again_is_tried_again(self, outbox: Outbox) -> None:
        task_id = self.given_up(outbox)
        create(outbox, task_id, id="c-1")
        assert outbox.config(task_id, "c-1").status == PushConfig.ACTIVE

    def given_up(self, outbox: Outbox) -> str:
        task_id = notified(outbox)
        outbox.inbox.then = fail
        for _ in range(MAX_TRIES):
            outbox.deliver("acme", task_id)
            outbox.deployment.clock.advance(3600)
        return task_id

    def test_what_can_not_be_parked_is_not_given_up(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        parked: list[PushConfig] = []

        def no_queue(config: PushConfig) -> None:
            if not parked:
                parked.append(config)
                raise ConnectionError

        monkeypatch.setattr(Inbox, "post", lambda *_: fail(Arrived("", {}, {})))
        outbox.push = push.Push(outbox.deployment.engine, outbox.push.sealer, outbox.inbox, no_queue)
        task_id = notified(outbox)
        for _ in range(MAX_TRIES - 1):
            outbox.deliver("acme", task_id)
            outbox.deployment.clock.advance(3600)
        with pytest.raises(ConnectionError):
            outbox.deliver("acme", task_id)
        assert outbox.config(task_id, "c-1").status == PushConfig.ACTIVE
        outbox.deployment.clock.advance(60)
        outbox.deliver("acme", task_id)
        assert outbox.config(task_id, "c-1").status == PushConfig.PARKED

    def test_a_key_that_does_not_answer_counts_as_a_try(
        self, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_key(sealed: bytes, context: str) -> bytes:
            raise SealFailed("no answer")

        task_id = notified(outbox)
        with monkeypatch.context() as patch:
            patch.setattr(outbox.push.sealer, "unseal", no_key)
            outbox.deliver("acme", task_id)
        assert outbox.config(task_id, "c-1").tries == 1
        outbox.deployment.clock.advance(4)
        outbox.deliver("acme", task_id)
        assert outbox.inbox.whats() == THREE


class TestGuards:
    """The rows that go with events: somebody looks whether they were delivered."""

    def test_what_nobody_was_woken_for_is_found(self, outbox: Outbox) -> None:
        task_id = notified(outbox)
        assert outbox.deployment.waker.pushes == []
        sweep(outbox.deployment.engine)
        assert outbox.deployment.waker.pushes == [], "not before its time"
        outbox.deployment.clock.advance(30)
        assert sweep(outbox.deployment.engine) == 0
        assert set(outbox.deployment.waker.pushes) == {("acme", task_id)}
        outbox.work()
        assert outbox.inbox.whats() == THREE

    def test_a_row_stays_until_it_was_delivered(self, outbox: Outbox) -> None:
        notified(outbox)
        for _ in range(3):
            outbox.deployment.clock.advance(30)
            sweep(outbox.deployment.engine)
            assert outbox.deployment.due_rows()
        outbox.work()
        outbox.deployment.clock.advance(30)
        outbox.deployment.waker.pushes.clear()
        sweep(outbox.deployment.engine)
        assert outbox.deployment.due_rows() == {}
        assert outbox.deployment.waker.pushes == []

    def test_a_row_is_armed_before_it_is_due(self, outbox: Outbox) -> None:
        notified(outbox)
        (key, *_) = outbox.deployment.due_rows()
        outbox.deployment.waker.timers.clear()
        handle_due(outbox.deployment.engine, key)
        due = outbox.deployment.clock.now() + timedelta(seconds=30)
        assert outbox.deployment.waker.timers == [(key, due)]

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_looking_survives_a_lost_reply(self, outbox: Outbox, lost: str) -> None:
        task_id = notified(outbox)
        outbox.deployment.clock.advance(30)
        outbox.deployment.hook(**{lost: once("write", no_answer)})
        assert sweep(outbox.deployment.engine) == 0
        assert ("acme", task_id) in outbox.deployment.waker.pushes

    def test_two_that_look_at_once_leave_one_row(self, outbox: Outbox) -> None:
        outbox.deployment.send(notify=asked())
        run = claim(outbox.deployment.engine, "acme", outbox.deployment.waker.turns[0][1], 1)
        assert run is not None
        (key,) = outbox.deployment.due_rows()
        outbox.deployment.clock.advance(30)
        outbox.deployment.hook(before=once("write", lambda: handle_due(outbox.deployment.engine, key)))
        handle_due(outbox.deployment.engine, key)
        assert len(outbox.deployment.due_rows()) == 1
        assert len(outbox.deployment.waker.pushes) == 1

    def test_a_task_without_configurations_pays_nothing(self, outbox: Outbox) -> None:
        task_id = outbox.deployment.send().id
        outbox.deployment.work()
        assert outbox.deployment.due_rows() == {}
        events = [item for key, item in outbox.deployment.rows().items() if key.sk.startswith("EVT#")]
        assert not any("push" in item for item in events)
        assert not outbox.deployment.meta(task_id).push

    def test_events_to_be_delivered_are_marked_for_the_stream(self, outbox: Outbox) -> None:
        notified(outbox)
        rows = outbox.deployment.rows()
        marked = {key.sk: item.get("push") for key, item in rows.items() if key.sk.startswith("EVT#")}
        assert list(marked.values()) == [None, True, True, True, True]


def test_a_retry_row_and_its_configuration_agree(outbox: Outbox) -> None:
    """Both are of one write, so that no retry is without its row."""
    seen: list[tuple[object, ...]] = []
    task_id = notified(outbox)
    outbox.inbox.then = fail
    outbox.deployment.hook(
        after=lambda operation, writes: seen.append(writes) if operation == "write" else None
    )
    outbox.deliver("acme", task_id)
    (update, put) = seen[-1]
    assert isinstance(update, Update)
    assert isinstance(put, Put)
    assert update.set["retry_at"] == put.item["at"]
    assert str(update.set["retry_at"]) > instant(outbox.deployment.clock.now())
