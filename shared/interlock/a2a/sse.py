"""Streams as Server-Sent Events (A2A 1.0.1, sections 3.1.2, 9.4.2 and 11.7; WHATWG HTML, section 9.2).

A stream is read from where the events are kept, so any number of them on any process see the same events in
the same order. An event is one `data:` line; a comment now and then keeps the connection from looking idle.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.responses import StreamingResponse

from interlock.a2a.service import EventStream

Run = Callable[..., Awaitable[Any]]
"""`await run(function, *arguments)`: where the calls of the service happen."""

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": open\n\n"


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

    def response(
        self,
        headers: dict[str, str],
        event: Callable[[str], str],
        error: Callable[[Exception], str],
    ) -> StreamingResponse:
        """`event` puts the JSON of a `StreamResponse` into the binding's envelope, `error` an error."""
        sent = {**headers, "cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._lines(event, error), headers=sent, media_type=EVENT_STREAM)

    async def _lines(
        self, event: Callable[[str], str], error: Callable[[Exception], str]
    ) -> AsyncIterator[bytes]:
        try:
            async for data in self._events():
                yield HEARTBEAT if data is None else f"data: {event(data)}\n\n".encode()
        except Exception as exc:  # noqa: BLE001 (the binding says what the client is told)
            yield f"data: {error(exc)}\n\n".encode()
        finally:
            # Also when the client went away, and with it whatever was awaited here.
            with anyio.CancelScope(shield=True):
                await self.run(self.stream.close)

    async def _events(self) -> AsyncIterator[str | None]:
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
