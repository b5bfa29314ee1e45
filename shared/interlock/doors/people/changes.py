"""The change feed: a long poll, so that nothing is polled blindly."""

import asyncio
import time
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Door
from interlock.engine.calls import Call
from interlock.engine.changes import Seen, look
from interlock.engine.errors import store_errors
from interlock.oversight.principals import Principal

MAX_WAIT = 25
"""Seconds: API Gateway ends a request after 29."""
POLL_SECONDS = 1.0
MAX_TOKEN = 512

Since = Annotated[str | None, Query(max_length=MAX_TOKEN)]
Wait = Annotated[int, Query(ge=0, le=MAX_WAIT)]


class ChangesBody(Wire):
    """`changed` is empty where the wait was over. `since` is for the next call."""

    since: str
    changed: list[Literal["checkpoints", "halts", "fleet"]]
    now: str


def unnoted(request: Request) -> None:
    """A wait tells nothing of anybody, and would be most of the trail."""
    call: Call = request.state.call
    call.unnoted = True


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    def seen_by(who: Principal) -> Seen:
        with store_errors():
            return look(engine, who)

    @routes.get("/changes", dependencies=[Depends(unnoted)])
    async def changes(
        who: Caller, request: Request, since: Since = None, wait: Wait = MAX_WAIT
    ) -> ChangesBody:
        """Waits until something has changed since that, `wait` seconds at most: then read again what is
        shown. Without `since` it answers at once. A change may come to be known late, or never: read
        again now and then."""
        until = time.monotonic() + wait
        before = Seen.parse(since) if since is not None else None
        seen = await run_in_threadpool(seen_by, who)
        while before is not None and not seen.changed_since(before):
            if time.monotonic() + POLL_SECONDS > until or await request.is_disconnected():
                break
            await asyncio.sleep(POLL_SECONDS)
            seen = await run_in_threadpool(seen_by, who)
        return ChangesBody(
            since=seen.token,
            changed=[topic.value for topic in seen.changed_since(before or seen)],
            now=timestamp(engine.clock.now()),
        )

    return routes
