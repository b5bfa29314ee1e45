"""What waits for a person, and what did."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Cursor, Door
from interlock.doors.people.shown import CheckpointBody, body
from interlock.engine.context import Engine
from interlock.engine.errors import store_errors
from interlock.engine.inbox import MAX_PAGE_SIZE, PAGE_SIZE, checkpoint, history, open_checkpoints
from interlock.engine.shown import Question
from interlock.oversight.principals import Principal


class InboxBody(Wire):
    """Open checkpoints, the most urgent first, or closed ones, the newest first. `now` is the server's
    clock."""

    checkpoints: list[CheckpointBody]
    cursor: str | None = None
    now: str


TaskId = Annotated[str, Path(min_length=1, max_length=256)]
CheckpointId = Annotated[UUID, Path()]
ListPage = Callable[[Engine, Principal, str | None, int], tuple[list[Question], str | None]]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)]


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    def listed(list_page: ListPage, who: Principal, cursor: str | None, limit: int) -> InboxBody:
        with store_errors():
            questions, following = list_page(engine, who, cursor, limit)
        now = engine.clock.now()
        return InboxBody(
            checkpoints=[body(question, who, now, engine.limits) for question in questions],
            cursor=following,
            now=timestamp(now),
        )

    @routes.get("/checkpoints", response_model_exclude_none=True)
    def list_open(who: Caller, cursor: Cursor = None, limit: Limit = PAGE_SIZE) -> InboxBody:
        """The open checkpoints of the caller's tenant."""
        return listed(open_checkpoints, who, cursor, limit)

    @routes.get("/history", response_model_exclude_none=True)
    def list_closed(who: Caller, cursor: Cursor = None, limit: Limit = PAGE_SIZE) -> InboxBody:
        """The closed checkpoints of the caller's tenant."""
        return listed(history, who, cursor, limit)

    @routes.get("/tasks/{task_id}/checkpoints/{checkpoint_id}", response_model_exclude_none=True)
    def get_one(who: Caller, task_id: TaskId, checkpoint_id: CheckpointId) -> CheckpointBody:
        """One checkpoint, open or closed."""
        with store_errors():
            found = checkpoint(engine, who, task_id, str(checkpoint_id))
        return body(found, who, engine.clock.now(), engine.limits)

    return routes
