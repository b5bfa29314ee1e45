"""One table of scenarios for streams, played by every way to ask for one; each must tell the same.

The app is served by uvicorn on loopback; turns run when the scenario says so, while streams are open.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from tests.support.loopback import served
from tests.support.streams import PATIENCE_SECONDS, WAYS, Caller, Event, Stream, Way, said
from tests.support.twin import ANN, Deployment, asking, message, no_answer, running

from interlock.a2a.models import TaskState
from interlock.a2a.sse import Pace
from interlock.agents import Agent, Turn
from interlock.engine.context import Limits
from interlock.engine.records import streams_pk
from interlock.engine.resume import resume_task
from interlock.engine.run_turn import TurnRun, claim
from interlock.oversight import hitl_prompt

QUICK = Pace(shortest_pause=0.002, longest_pause=0.01)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
GO = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "go"}]}


@dataclass
class Stage:
    """A deployment whose door streams, called one way. `told` is all that was heard."""

    deployment: Deployment
    url: str
    way: Way
    told: list[Event] = field(default_factory=list)

    def caller(self, who: str | None = "agent", *, prompts: bool = False) -> Caller:
        headers = {"A2A-Extensions": hitl_prompt.URI} if prompts else {}
        return Caller(self.url, self.way, who, headers)

    @contextmanager
    def sent(self, what: dict[str, Any] | None = None, **more: Any) -> Iterator["Heard"]:
        with self.caller(**more).send(what or GO) as stream:
            yield Heard(self, stream)

    @contextmanager
    def subscribed(self, task_id: str, **more: Any) -> Iterator["Heard"]:
        with self.caller(**more).subscribe(task_id) as stream:
            yield Heard(self, stream)

    def claimed(self) -> TurnRun:
        ((tenant, task_id, turn),) = self.deployment.waker.turns
        self.deployment.waker.turns.clear()
        run = claim(self.deployment.engine, tenant, task_id, turn)
        assert run is not None
        return run

    @property
    def slots(self) -> int:
        return len(self.deployment.table.query(streams_pk("acme")).rows)


@dataclass
class Heard:
    stage: Stage
    stream: Stream

    def next(self) -> str:
        event = self.stream.next()
        assert event is not None, "the stream has ended"
        self.stage.told.append(event)
        return said(event)

    def rest(self) -> list[str]:
        """To the end of the stream."""
        events = self.stream.rest()
        self.stage.told += events
        return [said(event) for event in events]

    def refused(self, reason: str) -> Event:
        refusal = self.stream.refusal()
        details = refusal.pop("details", None) or refusal.pop("data")
        assert details[0]["reason"] == reason
        for only_of_a_binding in ("code", "status"):
            refusal.pop(only_of_a_binding, None)
        self.stage.told.append({**refusal, "details": details})
        return refusal


@contextmanager
def staged(
    way: Way, agent: Agent, *, pace: Pace = QUICK, streaming: bool = True, **options: Any
) -> Iterator[Stage]:
    deployment = Deployment(agent, at_once=False, **options)
    door = deployment.agents_door(streaming=streaming, pace=pace)
    with served(lambda _: door) as url:
        yield Stage(deployment, url, way)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


async def three_things(turn: Turn) -> None:
    await turn.artifact("one")
    await turn.say("between")
    await turn.artifact("two")
    await turn.complete("done")


def a_send_is_followed_to_its_end(way: Way) -> Stage:
    with staged(way, running(three_things)) as stage, stage.sent() as heard:
        assert heard.next() == "task SUBMITTED"
        assert stage.slots == 1
        stage.deployment.work()
        assert heard.rest() == ["WORKING", "one", "WORKING", "two", "COMPLETED"]
        eventually(lambda: stage.slots == 0)
    return stage


def each_event_comes_when_it_is_there(way: Way) -> Stage:
    with staged(way, running(three_things)) as stage, stage.sent() as heard:
        heard.next()
        run = stage.claimed()
        assert heard.next() == "WORKING"
        for text in ("a", "b", "c"):
            run.say(text)
            assert heard.next() == "WORKING"
        run.finish(TaskState.FAILED, "no")
        assert heard.rest() == ["FAILED"]
    return stage


def a_question_ends_the_stream_of_a_send_and_shows_its_prompt(way: Way) -> Stage:
    with staged(way, asking()) as stage, stage.sent(prompts=True) as heard:
        assert heard.stream.response.headers["a2a-extensions"] == hitl_prompt.URI
        heard.next()
        stage.deployment.work()
        assert heard.rest() == ["WORKING", "INPUT_REQUIRED"]
        shown = stage.told[-1]["statusUpdate"]["status"]["message"]
        prompt = shown["metadata"][hitl_prompt.URI]
        assert prompt["prompt"] == "Go on?"
        assert shown["extensions"] == [hitl_prompt.URI]
    return stage


def who_did_not_ask_for_prompts_gets_none(way: Way) -> Stage:
    with staged(way, asking()) as stage, stage.sent() as heard:
        assert "a2a-extensions" not in heard.stream.response.headers
        heard.next()
        stage.deployment.work()
        heard.rest()
        shown = stage.told[-1]["statusUpdate"]["status"]["message"]
        assert not {"metadata", "extensions"} & set(shown)
        assert shown["parts"] == [{"text": "Go on?"}]
    return stage


def a_subscription_goes_on_over_a_question(way: Way) -> Stage:
    with staged(way, asking()) as stage:
        task_id = stage.deployment.send().id
        stage.deployment.work()
        with stage.subscribed(task_id) as heard:
            assert heard.next() == "task INPUT_REQUIRED"
            stage.deployment.answer(ANN, task_id, {"approved": True})
            assert heard.next() == "WORKING"
            stage.deployment.work()
            assert heard.rest() == ["COMPLETED"]
    return stage


def a_credential_that_is_missing_keeps_the_stream_of_a_send_open(way: Way) -> Stage:
    async def sign_in(turn: Turn) -> None:
        if turn.resumed:
            await turn.complete("signed in")
        else:
            await turn.require_auth("Sign in first")

    with staged(way, running(sign_in)) as stage, stage.sent() as heard:
        heard.next()
        stage.deployment.work()
        assert [heard.next(), heard.next()] == ["WORKING", "AUTH_REQUIRED"]
        task_id = stage.told[0]["task"]["id"]
        resume_task(stage.deployment.engine, ANN, task_id)
        assert heard.next() == "WORKING"
        stage.deployment.work()
        assert heard.rest() == ["COMPLETED"]
    return stage


def a_direct_reply_is_all_there_is(way: Way) -> Stage:
    agent = running(three_things)
    agent.reply_with(lambda _: "Hello")
    with staged(way, agent) as stage, stage.sent() as heard:
        assert heard.rest() == ["Hello"]
        assert set(stage.told[0]) == {"message"}
        assert stage.slots == 0
    return stage


def a_task_that_is_not_there_or_not_to_be_seen_is_not_found(way: Way) -> Stage:
    with staged(way, asking()) as stage:
        task_id = stage.deployment.send().id
        for wanted, who in (("no-such-task", "agent"), (task_id, "peer"), (task_id, "spy")):
            with stage.subscribed(wanted, who=who) as heard:
                refusal = heard.refused("TASK_NOT_FOUND")
                assert refusal["message"] == "Task not found"
        assert stage.slots == 0
    return stage


def a_task_that_has_ended_is_not_followed(way: Way) -> Stage:
    with staged(way, running(three_things)) as stage:
        task_id = stage.deployment.send().id
        stage.deployment.work()
        with stage.subscribed(task_id) as heard:
            heard.refused("UNSUPPORTED_OPERATION")
        with stage.sent({**GO, "taskId": task_id}) as heard:
            heard.refused("UNSUPPORTED_OPERATION")
        assert stage.slots == 0
    return stage


def who_calls_is_asked_first(way: Way) -> Stage:
    with staged(way, asking()) as stage:
        task_id = stage.deployment.send().id
        for who in (None, "nobody-known"):
            with stage.sent(who=who) as heard:
                heard.refused("UNAUTHENTICATED")
                assert heard.stream.response.status_code == 401
                assert heard.stream.response.headers["www-authenticate"] == "Bearer"
            with stage.subscribed(task_id, who=who) as heard:
                heard.refused("UNAUTHENTICATED")
    return stage


def a_door_that_does_not_stream_says_so(way: Way) -> Stage:
    with staged(way, asking(), streaming=False) as stage:
        task_id = stage.deployment.send().id
        before = stage.deployment.rows()
        with stage.sent() as heard:
            heard.refused("UNSUPPORTED_OPERATION")
        with stage.subscribed(task_id) as heard:
            heard.refused("UNSUPPORTED_OPERATION")
        with stage.subscribed(task_id, who=None) as heard:
            heard.refused("UNAUTHENTICATED")
        assert stage.deployment.rows() == before
    return stage


def a_tenant_has_so_many_streams_and_one_that_goes_away_makes_room(way: Way) -> Stage:
    with staged(way, asking(), limits=Limits(streams=2)) as stage, ExitStack() as open_ones:
        task_id = stage.deployment.send().id
        first, _ = [open_ones.enter_context(leaving(stage, task_id)) for _ in range(2)]
        with stage.subscribed(task_id) as heard:
            heard.refused("UNAVAILABLE")
            assert heard.stream.response.headers["retry-after"] == "5"
            expected = 200 if way.binding == "JSONRPC" else 503
            assert heard.stream.response.status_code == expected
        with stage.sent(who="spy") as heard:
            assert heard.next() == "task SUBMITTED"
        first.close()
        eventually(lambda: stage.slots == 1)
        with stage.subscribed(task_id) as heard:
            assert heard.next() == "task SUBMITTED"
    return stage


@contextmanager
def leaving(stage: Stage, task_id: str) -> Iterator[ExitStack]:
    """A stream that is open, until what it gives is closed."""
    with ExitStack() as stack:
        heard = stack.enter_context(stage.subscribed(task_id))
        heard.next()
        yield stack


def whoever_goes_away_stops_the_reading(way: Way) -> Stage:
    with staged(way, asking()) as stage:
        task_id = stage.deployment.send().id
        reads: list[str] = []

        def count(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "query" and str(arguments[0]).startswith("T#"):
                reads.append(operation)

        with stage.subscribed(task_id) as heard:
            heard.next()
            stage.deployment.hook(before=count)
            eventually(lambda: len(reads) > 5)
        eventually(lambda: stage.slots == 0)
        before = len(reads)
        time.sleep(10 * QUICK.longest_pause)
        assert len(reads) == before
    return stage


def silence_is_filled_and_ends_cleanly_at_the_cap(way: Way) -> Stage:
    pace = Pace(0.002, 0.01, heartbeat=0.02, longest=0.3)
    with staged(way, asking(), pace=pace) as stage:
        with stage.sent() as heard:
            assert heard.rest() == ["task SUBMITTED"]
            assert heard.stream.comments > 2
            assert not heard.stream.failed
        task_id = stage.told[0]["task"]["id"]
        stage.deployment.work()
        with stage.subscribed(task_id) as heard:
            assert heard.next() == "task INPUT_REQUIRED"
    return stage


def what_goes_wrong_inside_is_told_without_its_reasons(way: Way) -> Stage:
    with staged(way, asking()) as stage, stage.sent() as heard:
        heard.next()

        def broken(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "query":
                raise RuntimeError("internal detail")

        stage.deployment.hook(before=broken)
        (error,) = heard.stream.rest()
        assert heard.stream.failed
        assert error["message"] == "Internal error"
        assert "internal detail" not in json.dumps(error)
    return stage


def a_store_that_does_not_answer_is_waited_for(way: Way) -> Stage:
    with staged(way, running(three_things)) as stage, stage.sent() as heard:
        heard.next()
        failures = iter(range(3))

        def lost(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "query" and next(failures, None) is not None:
                no_answer()

        stage.deployment.hook(before=lost)
        eventually(lambda: next(failures, None) is None)
        stage.deployment.work()
        assert heard.rest()[-1] == "COMPLETED"
    return stage


SCENARIOS: list[Callable[[Way], Stage]] = [
    a_send_is_followed_to_its_end,
    each_event_comes_when_it_is_there,
    a_question_ends_the_stream_of_a_send_and_shows_its_prompt,
    who_did_not_ask_for_prompts_gets_none,
    a_subscription_goes_on_over_a_question,
    a_credential_that_is_missing_keeps_the_stream_of_a_send_open,
    a_direct_reply_is_all_there_is,
    a_task_that_is_not_there_or_not_to_be_seen_is_not_found,
    a_task_that_has_ended_is_not_followed,
    who_calls_is_asked_first,
    a_door_that_does_not_stream_says_so,
    a_tenant_has_so_many_streams_and_one_that_goes_away_makes_room,
    whoever_goes_away_stops_the_reading,
    silence_is_filled_and_ends_cleanly_at_the_cap,
    what_goes_wrong_inside_is_told_without_its_reasons,
    a_store_that_does_not_answer_is_waited_for,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_every_way_tells_the_same(scenario: Callable[[Way], Stage]) -> None:
    told = [without_ids(scenario(way).told) for way in WAYS]
    assert told[0] == told[1] == told[2]


def without_ids(events: list[Event]) -> Any:
    """The same ids get the same names, in the order in which they appear. The clock stands still."""
    names: dict[str, str] = {}
    text = UUID.sub(lambda found: names.setdefault(found[0], f"id-{len(names)}"), json.dumps(events))
    return json.loads(text)


def test_any_number_of_readers_sees_the_same_in_the_same_order() -> None:
    """Three follow while the task goes on, each begins at another moment, and one of them leaves."""
    agent = running(three_things)
    with staged(WAYS[0], agent) as stage:
        heard: dict[int, list[Event]] = {}
        task_id = stage.deployment.send().id
        run = stage.claimed()
        ready = threading.Barrier(4)

        def follow(number: int) -> None:
            with Caller(stage.url, WAYS[number]).subscribe(task_id) as stream:
                first = stream.next()
                assert first is not None
                heard[number] = [first]
                ready.wait(PATIENCE_SECONDS)
                if number == 1:
                    return
                heard[number] += stream.rest()

        readers = [threading.Thread(target=follow, args=(number,)) for number in range(3)]
        for reader in readers:
            reader.start()
        ready.wait(PATIENCE_SECONDS)
        for number in range(50):
            run.say(str(number))
        with Caller(stage.url, WAYS[0]).subscribe(task_id) as late:
            (current,) = [late.next()]
            assert current is not None
            run.finish(TaskState.COMPLETED, "done")
            end = late.rest()
        for reader in readers:
            reader.join()
        texts = [
            [event["statusUpdate"]["status"].get("message", {}).get("parts") for event in heard[number][1:]]
            for number in (0, 2)
        ]
        assert (
            texts[0] == texts[1] == [[{"text": str(number)}] for number in range(50)] + [[{"text": "done"}]]
        )
        assert [said(event) for event in end] == ["COMPLETED"]
        assert current["task"]["status"]["message"]["parts"] == [{"text": "49"}]
        assert len(heard[1]) == 1


def test_a_stream_that_nobody_takes_from_holds_nothing_up() -> None:
    with staged(WAYS[0], running(three_things)) as stage:
        task_id = stage.deployment.send().id
        with Caller(stage.url, WAYS[0]).subscribe(task_id) as idle:
            with Caller(stage.url, WAYS[0]).subscribe(task_id) as other:
                stage.deployment.work()
                assert [said(event) for event in other.rest()][-1] == "COMPLETED"
            assert [said(event) for event in idle.rest()][-1] == "COMPLETED"


def test_the_people_door_resumes_what_a_stream_waits_for() -> None:
    async def sign_in(turn: Turn) -> None:
        if turn.resumed:
            await turn.complete("signed in")
        else:
            await turn.require_auth("Sign in first")

    deployment = Deployment(running(sign_in), at_once=False)
    door = deployment.agents_door(streaming=True, pace=QUICK)
    with (
        served(lambda _: door) as url,
        served(lambda _: deployment.people_door()) as people,
        Caller(url, WAYS[1]).send(GO) as stream,
    ):
        task = stream.next()
        assert task is not None
        deployment.work()
        assert [said(stream.next() or {}) for _ in range(2)] == ["WORKING", "AUTH_REQUIRED"]
        resumed = httpx.post(
            f"{people}/people/tasks/{task['task']['id']}/resume",
            headers={"Authorization": "Bearer ann"},
            timeout=PATIENCE_SECONDS,
        )
        assert (resumed.status_code, resumed.json()) == (200, {"status": "resumed"})
        deployment.work()
        assert [said(event) for event in stream.rest()] == ["WORKING", "COMPLETED"]


def test_a_message_of_the_owner_resumes_it_too() -> None:
    async def sign_in(turn: Turn) -> None:
        if len(turn.history) > 1:
            await turn.complete(turn.message.text)
        else:
            await turn.require_auth("Sign in first")

    with staged(WAYS[1], running(sign_in)) as stage, stage.sent() as heard:
        heard.next()
        stage.deployment.work()
        assert [heard.next(), heard.next()] == ["WORKING", "AUTH_REQUIRED"]
        stage.deployment.send(message("done", task_id=stage.told[0]["task"]["id"]))
        stage.deployment.work()
        assert heard.rest() == ["WORKING", "COMPLETED"]
