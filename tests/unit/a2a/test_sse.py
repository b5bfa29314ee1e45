"""Server-Sent Events: what is written, when it ends, and that a client that goes away ends it."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from starlette.concurrency import run_in_threadpool
from starlette.types import Message as AsgiMessage

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import (
    Artifact,
    Part,
    StreamResponse,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from interlock.a2a.operations import inline
from interlock.a2a.sse import OpenStream, Pace, Run

FAST = Pace(shortest_pause=0.001, longest_pause=0.002, heartbeat=60, longest=60)
PATIENCE_SECONDS = 20.0


def said(state: TaskState) -> StreamResponse:
    status = TaskStatus(state=state)
    return StreamResponse(status_update=TaskStatusUpdateEvent(task_id="t", context_id="c", status=status))


def text(content: str) -> StreamResponse:
    artifact = Artifact(artifact_id="a", parts=[Part(text=content)])
    return StreamResponse(
        artifact_update=TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact)
    )


WORKING, DONE = said(TaskState.WORKING), said(TaskState.COMPLETED)


@dataclass
class Log:
    """Implements `EventStream`: gives one batch a read, then nothing, and ends if `finite`.

    An exception in the place of a batch is raised.
    """

    batches: list[Sequence[StreamResponse] | Exception]
    finite: bool = True
    kept_open: int = 0
    reads: int = 0
    closed: int = 0
    on_keep_open: Callable[[], None] = lambda: None

    @property
    def ended(self) -> bool:
        return self.finite and not self.batches

    def read(self) -> Sequence[StreamResponse]:
        assert not self.closed, "read after it was closed"
        self.reads += 1
        batch = self.batches.pop(0) if self.batches else []
        if isinstance(batch, Exception):
            raise batch
        return batch

    def keep_open(self) -> None:
        self.kept_open += 1
        self.on_keep_open()

    def close(self) -> None:
        self.closed += 1


@dataclass
class Client:
    """The other end: keeps what is sent, and may go away."""

    asgi: str = "2.3"
    sent: list[AsgiMessage] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    stuck: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def receive(self) -> AsgiMessage:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        if self.stuck and message["type"] == "http.response.body":
            await asyncio.Event().wait()
        if self.asgi == "2.4" and self.gone.is_set():
            raise OSError("the client has gone")
        self.sent.append(message)

    async def take(self, log: Log, pace: Pace = FAST, run: Run = inline) -> None:
        response = OpenStream(log, run, pace).response({"x-mine": "1"}, envelope, error_body)
        scope = {"type": "http", "asgi": {"spec_version": self.asgi}}
        await response(scope, self.receive, self.send)


def envelope(event: str) -> str:
    return f'{{"result":{event}}}'


def error_body(error: Exception) -> str:
    return json.dumps({"error": type(error).__name__})


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def within_time() -> None:
        await asyncio.wait_for(test(), PATIENCE_SECONDS)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(within_time())


def events(body: bytes) -> list[Any]:
    lines = body.decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def taken(log: Log, pace: Pace = FAST) -> Client:
    client = Client()

    async def test() -> None:
        await client.take(log, pace)

    run(test)
    return client


def test_each_event_is_one_data_line_in_its_envelope() -> None:
    log = Log([[WORKING], [text("a"), text("b")], [], [DONE]])
    client = taken(log)
    assert events(client.body) == [
        {"result": response.wire()} for response in (WORKING, text("a"), text("b"), DONE)
    ]
    assert log.closed == 1


def test_the_answer_says_that_it_is_a_stream_and_is_not_to_be_kept() -> None:
    client = taken(Log([[DONE]]))
    start, *_ = client.sent
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert start["status"] == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert headers["x-mine"] == "1"
    assert "content-length" not in headers
    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


@pytest.mark.parametrize("end", ["\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_no_text_ends_a_line_for_any_client(end: str) -> None:
    client = taken(Log([[text(f"a{end}b")]]))
    (line, rest) = client.body.decode().splitlines()
    assert (line[:6], rest) == ("data: ", "")
    assert events(client.body)[0]["result"] == text(f"a{end}b").wire()


def test_a_comment_now_and_then_keeps_it_open() -> None:
    log = Log([[WORKING], [], [], [], [], [], [DONE]])
    client = taken(log, Pace(0.001, 0.002, heartbeat=0, longest=60))
    assert client.body.count(b": open\n\n") == log.kept_open == 6
    assert len(events(client.body)) == 2


def test_it_ends_cleanly_at_the_cap() -> None:
    log = Log([[WORKING]], finite=False)
    client = taken(log, Pace(0.001, 0.002, heartbeat=60, longest=0.05))
    assert events(client.body) == [{"result": WORKING.wire()}]
    assert client.sent[-1]["more_body"] is False
    assert b"error" not in client.body
    assert log.closed == 1


def test_what_was_read_with_the_end_is_sent() -> None:
    log = Log([[WORKING, DONE]], finite=False)
    assert len(events(taken(log, Pace(longest=0)).body)) == 2


@pytest.mark.parametrize("error", [RuntimeError("internal detail"), Unavailable()])
def test_an_error_in_the_middle_is_told_and_ends_it(error: Exception) -> None:
    log = Log([[WORKING], error])
    client = taken(log)
    told = json.dumps({"error": type(error).__name__})
    assert client.body.decode().endswith(f"event: error\ndata: {told}\n\n")
    assert b"internal detail" not in client.body
    assert log.closed == 1


def test_a_stream_that_may_not_stay_open_ends_with_the_reason() -> None:
    def lost() -> None:
        raise Unavailable

    log = Log([[WORKING]], finite=False, on_keep_open=lost)
    client = taken(log, Pace(0.001, 0.002, heartbeat=0, longest=60))
    assert b'{"error": "Unavailable"}' in client.body
    assert log.closed == 1


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that are made, which take no time of ours."""
    made: list[float] = []
    sleep = anyio.sleep

    async def paused(seconds: float) -> None:
        made.append(seconds)
        await sleep(0)

    monkeypatch.setattr("interlock.a2a.sse.anyio.sleep", paused)
    monkeypatch.setattr("interlock.a2a.sse.anyio.current_time", lambda: sum(made))
    return made


def test_pauses_grow_while_nothing_comes_and_begin_anew_with_an_event(pauses: list[float]) -> None:
    taken(Log([[WORKING], [], [], [], [WORKING], [], [DONE]]), Pace(1.0, 2.0, heartbeat=60, longest=60))
    assert pauses == [1.0, 1.5, 2.0, 2.0, 1.0, 1.5]


def test_comments_are_as_far_apart_as_they_are_to_be(pauses: list[float]) -> None:
    log = Log([[WORKING], *[[]] * 20, [DONE]])
    client = taken(log, Pace(2.0, 2.0, heartbeat=15, longest=60))
    assert sum(pauses) == 42
    assert client.body.count(b": open\n\n") == log.kept_open == 2


def test_the_cap_is_counted_from_the_beginning(pauses: list[float]) -> None:
    taken(Log([], finite=False), Pace(2.0, 2.0, heartbeat=15, longest=840))
    assert sum(pauses) == 840


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("asgi", ["2.3", "2.4"])
def test_who_goes_away_while_nothing_comes_has_it_ended(asgi: str) -> None:
    async def test() -> None:
        log, client = Log([[WORKING]], finite=False), Client(asgi)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.take(log))
            await until(lambda: log.reads > 3)
            client.gone.set()
        reads = log.reads
        await asyncio.sleep(0.02)
        assert (log.reads, log.closed) == (reads, 1)

    run(test)


def test_who_goes_away_while_it_takes_nothing_has_it_ended() -> None:
    async def test() -> None:
        log, client = Log([[WORKING]], finite=False), Client(stuck=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.take(log))
            await until(lambda: log.reads > 0)
            client.gone.set()
        assert (log.reads, log.closed) == (1, 1)

    run(test)


def test_who_went_away_before_it_began_has_it_ended() -> None:
    async def test() -> None:
        log, client = Log([[WORKING]], finite=False), Client()
        client.gone.set()
        await client.take(log)
        assert log.closed == 1

    run(test)


def test_a_server_that_only_says_so_when_something_is_sent_has_it_ended() -> None:
    async def test() -> None:
        log, client = Log([[WORKING], [], [WORKING]], finite=False), Client("2.4")

        async def never() -> AsgiMessage:
            await asyncio.Event().wait()
            raise AssertionError

        client.receive = never  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.take(log))
            await until(lambda: log.reads > 0)
            client.gone.set()
        assert log.closed == 1

    run(test)


def test_a_server_that_ends_closes_its_streams() -> None:
    async def test() -> None:
        log, client = Log([[WORKING]], finite=False), Client()
        task = asyncio.create_task(client.take(log))
        await until(lambda: log.reads > 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert log.closed == 1

    run(test)


def test_whoever_gives_it_up_waits_for_its_close() -> None:
    """Under anyio what was cancelled may wait for nothing; a close in another thread must be waited for."""

    async def test() -> None:
        log, client = Log([[WORKING]], finite=False), Client()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.take, log, FAST, run_in_threadpool)
            await until(lambda: log.reads > 3)
            tasks.cancel_scope.cancel()
        assert log.closed == 1

    run(test)
