"""Streams of a task: from its log, in its order, as many as a tenant may have."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from greenlet import getcurrent, greenlet
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    NOBODY,
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
    TaskNotFound,
    Unavailable,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from interlock.agents import Turn
from interlock.engine.context import Limits
from interlock.engine.follow import (
    DirectReply,
    Slot,
    TaskStream,
    send_streaming_message,
    subscribe_to_task,
)
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import streams_pk
from interlock.engine.run_turn import TurnRun, claim
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Principal

NONE: frozenset[str] = frozenset()


def stream(
    deployment: Deployment, what: Message | None = None, who: Principal = AGENT, **more: Any
) -> TaskStream:
    request = SendMessageRequest(message=what or message())
    more.setdefault("extensions", PROMPTS)
    found = send_streaming_message(deployment.engine, deployment.agent, who, request, **more)
    assert isinstance(found, TaskStream)
    return found


def subscribe(
    deployment: Deployment, task_id: str, who: Principal = AGENT, extensions: frozenset[str] = PROMPTS
) -> TaskStream:
    return subscribe_to_task(
        deployment.engine, who, SubscribeToTaskRequest(id=task_id), extensions=extensions
    )


def what(response: StreamResponse) -> str:
    if response.task is not None:
        return f"task {response.task.status.state.value.removeprefix('TASK_STATE_')}"
    if response.status_update is not None:
        return response.status_update.status.state.value.removeprefix("TASK_STATE_")
    assert response.artifact_update is not None
    return response.artifact_update.artifact.parts[0].text or ""


def read(stream: TaskStream) -> list[str]:
    return [what(response) for response in stream.read()]


def task_of(deployment: Deployment) -> TurnRun:
    """The claimed turn of the one task that there is."""
    ((tenant, task_id, turn),) = deployment.waker.turns
    deployment.waker.turns.clear()
    run = claim(deployment.engine, tenant, task_id, turn)
    assert run is not None
    return run


async def three_things(turn: Turn) -> None:
    await turn.artifact("one")
    await turn.artifact("two")
    await turn.complete("done")


def waiting(**options: Any) -> Deployment:
    return Deployment(asking(**options), at_once=False)


class TestStreams:
    def test_of_a_send_begins_with_the_task_and_ends_with_it(self) -> None:
        deployment = Deployment(running(three_things), at_once=False)
        following = stream(deployment)
        assert not following.ended
        assert read(following) == ["task SUBMITTED"]
        assert read(following) == []
        deployment.work()
        assert not following.ended
        assert read(following) == ["WORKING", "one", "two", "COMPLETED"]
        assert following.ended

    def test_each_update_comes_once_when_it_is_there(self) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        following = stream(deployment)
        seen = [read(following)]
        run = task_of(deployment)
        seen.append(read(following))
        for text in ("a", "b"):
            run.say(text)
            seen.append(read(following))
        run.finish(TaskState.FAILED, "no")
        seen.append(read(following))
        assert seen == [["task SUBMITTED"], ["WORKING"], ["WORKING"], ["WORKING"], ["FAILED"]]
        assert following.ended

    def test_of_a_send_ends_when_somebody_is_asked_and_a_subscription_goes_on(self) -> None:
        deployment = waiting()
        following = stream(deployment)
        (task,) = following.read()
        assert task.task is not None
        subscribed = subscribe(deployment, task.task.id)
        deployment.work()
        assert read(following) == ["WORKING", "INPUT_REQUIRED"]
        assert following.ended
        assert read(subscribed) == ["task SUBMITTED"]
        assert read(subscribed) == ["WORKING", "INPUT_REQUIRED"]
        assert not subscribed.ended
        deployment.answer(ANN, task.task.id, {"approved": True})
        deployment.work()
        assert read(subscribed) == ["WORKING", "COMPLETED"]
        assert subscribed.ended

    def test_of_a_send_stays_open_while_a_credential_is_missing(self) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        following = stream(deployment)
        task_of(deployment).require_auth("Sign in first")
        read(following)
        assert read(following) == ["WORKING", "AUTH_REQUIRED"]
        assert not following.ended

    def test_what_was_written_with_the_end_of_one_is_not_told(self) -> None:
        """A stream of a send ends with the question, even if the answer is there already."""
        deployment = waiting()
        following = stream(deployment)
        (task,) = following.read()
        assert task.task is not None
        deployment.work()
        deployment.answer(ANN, task.task.id, {"approved": True})
        deployment.work()
        assert read(following) == ["WORKING", "INPUT_REQUIRED"]
        assert following.ended

    def test_of_a_message_that_goes_on_begins_with_what_that_did(self) -> None:
        deployment = waiting()
        task_id = deployment.send().id
        deployment.work()
        following = stream(deployment, message(task_id=task_id))
        assert read(following) == ["task WORKING"]
        deployment.work()
        assert read(following) == ["COMPLETED"]

    def test_of_an_answer_that_is_one_of_several_ends_at_once(self) -> None:
        deployment = waiting(allowed_responders=["consensus:2"])
        task_id = deployment.send().id
        deployment.work()
        said = {"prompt_id": deployment.open_prompt(task_id), "payload": {"approved": True}}
        answer = message(task_id=task_id, metadata={hitl_prompt.RESPONSE_KEY: said})
        following = stream(deployment, answer, ANN)
        assert read(following) == ["task INPUT_REQUIRED"]
        assert following.ended

    def test_of_a_send_that_was_repeated_is_the_same_tasks(self) -> None:
        deployment = Deployment(running(three_things))
        first = stream(deployment, message(message_id="m"), idempotency_key="k" * 16)
        (task,) = first.read()
        again = stream(deployment, message(message_id="m"), idempotency_key="k" * 16)
        (same,) = again.read()
        assert task.task is not None
        assert same.task is not None
        assert same.task.id == task.task.id
        assert same.task.status.state is TaskState.COMPLETED
        assert again.ended

    def test_of_a_direct_reply_is_exactly_that_message(self) -> None:
        deployment = Deployment(running(nothing))
        deployment.agent.reply_with(lambda _: "Hello")
        following = send_streaming_message(
            deployment.engine,
            deployment.agent,
            AGENT,
            SendMessageRequest(message=message()),
            extensions=NONE,
        )
        assert isinstance(following, DirectReply)
        assert not following.ended
        (response,) = following.read()
        assert response.message is not None
        assert (response.message.role, response.message.parts) == (Role.AGENT, [Part(text="Hello")])
        assert following.ended
        following.keep_open()
        following.close()
        assert slots(deployment) == {}

    @pytest.mark.parametrize("extensions", [PROMPTS, NONE], ids=["activated", "not"])
    def test_shows_the_envelope_of_a_prompt_to_who_activated_it(self, extensions: frozenset[str]) -> None:
        deployment = waiting()
        following = stream(deployment, extensions=extensions)
        (task,) = following.read()
        deployment.work()
        *_, asked = following.read()
        assert task.task is not None
        again = subscribe(deployment, task.task.id, extensions=extensions)
        (current,) = again.read()
        assert asked.status_update is not None
        assert current.task is not None
        for status in (asked.status_update.status, current.task.status):
            assert status.message is not None
            shown = hitl_prompt.URI in (status.message.metadata or {})
            assert shown is bool(extensions)
            assert (hitl_prompt.URI in (status.message.extensions or [])) is bool(extensions)

    def test_more_events_than_a_page_has(self, monkeypatch: pytest.MonkeyPatch) -> None:
        deployment = Deployment(running(three_things), at_once=False)
        following = stream(deployment)
        read(following)
        deployment.work()
        monkeypatch.setattr("interlock.adapters.memory.PAGE_BYTES", 1)
        seen = []
        while not following.ended:
            seen += read(following)
        assert seen == ["WORKING", "one", "two", "COMPLETED"]

    def test_a_number_that_is_not_there_yet_is_waited_for(self) -> None:
        """A query is no snapshot: it may pass the place of an event before it is there, and see the next."""
        deployment = Deployment(running(three_things), at_once=False)
        following = stream(deployment)
        read(following)
        deployment.work()
        hidden = dict(deployment.rows())
        key = next(key for key in hidden if key.sk == "EVT#0000000003")
        partition = deployment.table._partitions[key.pk]
        item = partition.items.pop(key.sk)
        partition.order.remove(key.sk)
        assert read(following) == ["WORKING"]
        assert read(following) == []
        partition.items[key.sk] = item
        partition.order.append(key.sk)
        partition.order.sort()
        assert read(following) == ["one", "two", "COMPLETED"]

    def test_a_store_that_does_not_answer_is_asked_again(self) -> None:
        deployment = Deployment(running(three_things), at_once=False)
        following = stream(deployment)
        read(following)
        deployment.work()
        deployment.hook(before=once("query", no_answer))
        assert read(following) == []
        assert read(following) == ["WORKING", "one", "two", "COMPLETED"]

    def test_a_read_is_one_query(self) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        following = stream(deployment)
        read(following)
        calls: list[str] = []
        deployment.hook(before=lambda operation, _: calls.append(operation))
        read(following)
        assert calls == ["query"]


class TestSubscriptions:
    def test_a_task_that_has_ended_has_none(self) -> None:
        deployment = Deployment(running(nothing))
        task_id = deployment.send().id
        with pytest.raises(UnsupportedOperation):
            subscribe(deployment, task_id)
        assert slots(deployment) == {}

    @pytest.mark.parametrize("who", [PEER, SPY, NOBODY])
    def test_who_may_not_see_the_task_is_told_that_it_is_not_there(self, who: Principal) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        task_id = deployment.send().id
        refusals = []
        for wanted in (task_id, "no-such-task"):
            with pytest.raises(TaskNotFound) as refused:
                subscribe(deployment, wanted, who)
            refusals.append(refused.value.message)
        assert refusals[0] == refusals[1]
        assert slots(deployment) == {}

    def test_an_approver_may_follow(self) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        assert read(subscribe(deployment, deployment.send().id, ANN)) == ["task SUBMITTED"]

    def test_another_tenant_can_not_be_named(self) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        request = SubscribeToTaskRequest(id=deployment.send().id, tenant="other")
        with pytest.raises(InvalidParams):
            subscribe_to_task(deployment.engine, AGENT, request, extensions=NONE)


def slots(deployment: Deployment, tenant: str = "acme") -> dict[str, str]:
    """Holder by number."""
    rows = deployment.table.query(streams_pk(tenant)).rows
    return {key.sk: str(item["holder"]) for key, item in rows}


class TestSlots:
    def limited(self, streams: int) -> Deployment:
        return Deployment(running(nothing), at_once=False, limits=Limits(streams=streams))

    def test_so_many_streams_at_once_and_no_more(self) -> None:
        deployment = self.limited(3)
        opened = [stream(deployment) for _ in range(3)]
        assert len(slots(deployment)) == 3
        attempts: list[Callable[[], TaskStream]] = [
            lambda: stream(deployment),
            lambda: subscribe(deployment, deployment.waker.turns[0][1]),
        ]
        for attempt in attempts:
            with deployment.unchanged(), pytest.raises(Unavailable) as refused:
                attempt()
            assert refused.value.retry_after == 5
            assert refused.value.http_status == 503
        opened[1].close()
        stream(deployment)

    def test_each_tenant_for_itself(self) -> None:
        deployment = self.limited(1)
        stream(deployment)
        stream(deployment, who=SPY)
        assert len(slots(deployment)) == len(slots(deployment, "other")) == 1

    def test_one_that_is_closed_is_free(self) -> None:
        deployment = self.limited(1)
        stream(deployment).close()
        assert slots(deployment) == {}

    def test_one_of_a_process_that_died_is_free_after_its_lease(self) -> None:
        deployment = self.limited(1)
        lost = stream(deployment)
        deployment.clock.advance(59)
        with pytest.raises(Unavailable):
            stream(deployment)
        deployment.clock.advance(1)
        following = stream(deployment)
        with pytest.raises(Unavailable):
            lost.keep_open()
        lost.close()
        assert len(slots(deployment)) == 1, "it was the other's already"
        following.keep_open()

    def test_one_that_is_kept_open_is_not_lost(self) -> None:
        deployment = self.limited(1)
        following = stream(deployment)
        for _ in range(5):
            deployment.clock.advance(59)
            following.keep_open()
        with pytest.raises(Unavailable):
            stream(deployment)

    def test_one_that_is_renewed_between_a_look_and_the_taking_is_not_taken(self) -> None:
        deployment = self.limited(1)
        slow = stream(deployment)
        deployment.clock.advance(60)
        deployment.hook(before=once("write", slow.keep_open))
        with pytest.raises(Unavailable):
            stream(deployment)
        slow.keep_open()

    def test_two_never_have_the_same(self) -> None:
        deployment = self.limited(2)
        rivals: list[TaskStream] = []
        deployment.hook(before=once("write", lambda: rivals.append(stream(deployment))))
        stream(deployment)
        assert len(rivals) == 1
        assert len(set(slots(deployment).values())) == 2

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_a_lost_reply_takes_one_and_not_two(self, lost: str) -> None:
        deployment = self.limited(2)
        deployment.hook(**{lost: once("write", no_answer)})
        slot = Slot(deployment.engine, "acme")
        assert len(slots(deployment)) == 1
        slot.release()
        assert slots(deployment) == {}

    def test_a_renewal_without_an_answer_ends_nothing(self) -> None:
        deployment = self.limited(1)
        following = stream(deployment)
        deployment.hook(before=once("write", no_answer))
        following.keep_open()

    def test_a_release_without_an_answer_fails_no_one(self) -> None:
        deployment = self.limited(1)
        following = stream(deployment)
        deployment.hook(before=once("write", no_answer))
        following.close()
        deployment.clock.advance(60)
        stream(deployment)

    def test_a_send_that_is_refused_leaves_none(self) -> None:
        deployment = waiting()
        task_id = deployment.send().id
        refused: list[tuple[Callable[[], object], type[Exception]]] = [
            (lambda: stream(deployment, who=NOBODY), PermissionDenied),
            (lambda: stream(deployment, message(task_id="gone")), TaskNotFound),
            (lambda: stream(deployment, message(task_id=task_id)), UnsupportedOperation),
        ]
        with deployment.unchanged():
            for attempt, error in refused:
                with pytest.raises(error):
                    attempt()

    def test_where_all_are_taken_nothing_is_admitted(self) -> None:
        deployment = Deployment(asking(APPROVAL), at_once=False, limits=Limits(streams=1))
        task_id = deployment.send().id
        deployment.work()
        subscribe(deployment, task_id)
        said = {"prompt_id": deployment.open_prompt(task_id), "payload": {"approved": True}}
        answer = message(task_id=task_id, metadata={hitl_prompt.RESPONSE_KEY: said})
        with deployment.unchanged(), pytest.raises(Unavailable):
            stream(deployment, answer, ANN)
        assert deployment.meta(task_id).task_state is TaskState.INPUT_REQUIRED

    def test_many_that_come_at_once_all_get_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In lockstep: all have looked before any of them takes one."""
        monkeypatch.setattr("interlock.engine.follow.random", random.Random(1))
        deployment = self.limited(40)

        def others_first(operation: str, arguments: tuple[Any, ...]) -> None:
            schedule = getcurrent().parent
            assert schedule is not None
            schedule.switch()

        deployment.hook(before=others_first)
        callers = [greenlet(lambda: Slot(deployment.engine, "acme")) for _ in range(30)]
        while callers:
            for caller in callers:
                caller.switch()
            callers = [caller for caller in callers if not caller.dead]
        assert len(set(slots(deployment).values())) == 30

    def test_a_store_that_never_answers_is_said_to_be_unavailable(self) -> None:
        deployment = self.limited(1)

        def never(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write":
                raise OutcomeUnknown

        deployment.hook(before=never)
        with pytest.raises(Unavailable):
            stream(deployment)
