"""A server whose first call is held up, on its way there or back, for as long as a test wants."""

import asyncio
from enum import Enum
from threading import Event

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOK_SECONDS = 0.01


class Way(Enum):
    THERE = "before it has arrived"
    BACK = "after it was carried out"


class Holding:
    """Wraps an app. Of what is posted the first is held, if there is a way; everything else passes."""

    def __init__(self, app: ASGIApp, way: Way | None = None) -> None:
        self._app = app
        self._way = way
        self.held = Event()
        """It has come to where it is held."""
        self.let_go = Event()
        self.answered = Event()
        self.answer = b""
        """To what was held, once that is answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._way is None or scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        way, self._way = self._way, None
        # Whole, for whoever sent it may be gone by then.
        request = [await receive()]
        while request[-1].get("more_body"):
            request.append(await receive())
        said: list[Message] = []

        async def again() -> Message:
            if request:
                return request.pop(0)
            return await asyncio.Future()

        async def keep(message: Message) -> None:
            said.append(message)

        if way is Way.THERE:
            await self._hold()
        await self._app(scope, again, keep)
        self.answer = b"".join(message.get("body", b"") for message in said)
        if way is Way.BACK:
            await self._hold()
        self.answered.set()
        for message in said:
            await send(message)

    async def _hold(self) -> None:
        self.held.set()
        while not self.let_go.is_set():
            await asyncio.sleep(LOOK_SECONDS)
