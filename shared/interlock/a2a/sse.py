"""Streams as Server-Sent Events (A2A 1.0.1, sections 3.1.2, 9.4.2 and 11.7; WHATWG HTML, section 9.2).

A stream is read from where the events are kept, so any number of them on any process see the same events in
the same order. An event is one `data:` line; a comment now and then keeps the connection from looking idle.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from interlock.a2a.service import EventStream

Run = Callable[..., Awaitable[Any]]
"""`await run(function, *arguments)`: where the calls of the service happen."""
Envelope = Callable[[str], str]
"""The JSON of a `StreamResponse` to what the binding sends."""
ErrorBody = Callable[[Exception], str]

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": open\n\n"
_LINE_ENDS = str.maketrans({"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""JSON leaves them as they are, and there are clients that end a line at them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. `longest` is the cap after which a stream ends cleanly, for the client to subscribe again."""

    shortest_pause: float = 0.05
    longest_pause: float = 0.5
    heartbeat: float = 15.0
    longest: float = 840.0


@dataclass(frozen=True, slots=True)
class OpenStream:
    stream: EventStream
    run: Run
    pace: Pace

    def response(self, headers: dict[str, str], event: Envelope, error: ErrorBody) -> "EventStreamResponse":
        return EventStreamResponse(self, headers, event, error)

    async def lines(self, event: Envelope, error: ErrorBody) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._events()) as events:
                async for data in events:
                    yield HEARTBEAT if data is None else _field("data", event(data))
        except Exception as exc:  # noqa: BLE001 (the binding says what the client is told)
            yield b"event: error\n" + _field("data", error(exc))

    async def _events(self) -> AsyncGenerator[str | None, None]:
        """The events as JSON, and None where it is time for a heartbeat."""
        opened = beat = anyio.current_time()
        pause = self.pace.shortest_pause
        while True:
            news = await self.run(self.stream.read)
            for response in news:
                yield response.wire_json()
            now = anyio.current_time()
            if self.stream.ended or now - opened >= self.pace.longest:
                return
            pause = self.pace.shortest_pause if news else min(pause * 1.5, self.pace.longest_pause)
            if now - beat >= self.pace.heartbeat:
                beat = now
                await self.run(self.stream.keep_open)
                yield None
            await anyio.sleep(pause)

    async def close(self) -> None:
        await self.run(self.stream.close)


class EventStreamResponse(StreamingResponse):
    """Sends lines as they come. A client that goes away ends it, whatever it is waiting for."""

    def __init__(
        self, stream: OpenStream, headers: dict[str, str], event: Envelope, error: ErrorBody
    ) -> None:
        self._stream = stream
        self._lines = stream.lines(event, error)
        sent = {**headers, "cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(self._lines, headers=sent, media_type=EVENT_STREAM)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        try:
            async with aclosing(self._lines), anyio.create_task_group() as tasks:

                async def listen() -> None:
                    await self.listen_for_disconnect(receive)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(listen)
                # Servers of ASGI 2.4 say by this, too, that the client has gone.
                with suppress(OSError):
                    await self.stream_response(send)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._stream.close()


def _field(name: str, value: str) -> bytes:
    return f"{name}: {value.translate(_LINE_ENDS)}\n\n".encode()
