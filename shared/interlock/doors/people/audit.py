"""The audit trail of the tenant, searched."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from interlock.a2a.models import MAX_ID_LENGTH, JsonObject, Wire, timestamp
from interlock.doors.people.door import MAX_TIME, Cursor, Door, time_of
from interlock.engine.away import MAX_IDENTITY
from interlock.engine.errors import store_errors
from interlock.engine.ports import Table
from interlock.engine.search import Wanted, search
from interlock.oversight.principals import Principal

MAX_NAME = 128

Task = Annotated[str | None, Query(min_length=1, max_length=MAX_ID_LENGTH)]
Identity = Annotated[str | None, Query(alias="who", min_length=1, max_length=MAX_IDENTITY)]
Name = Annotated[str | None, Query(min_length=1, max_length=MAX_NAME)]
Time = Annotated[str | None, Query(min_length=1, max_length=MAX_TIME)]


class RecordsBody(Wire):
    """Records `a2a-audit/1`, the newest first, of `looked` that were compared: a page may have none, and a
    `cursor`. `now` is the server's clock."""

    records: list[JsonObject]
    cursor: str | None = None
    looked: int
    now: str


def router(door: Door, trail: Table | None) -> APIRouter:
    routes = door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/audit", response_model_exclude_none=True)
    def search_audit(
        who: Caller,
        task: Task = None,
        identity: Identity = None,
        method: Name = None,
        kind: Name = None,
        after: Time = None,
        before: Time = None,
        cursor: Cursor = None,
    ) -> RecordsBody:
        """What is sealed of the caller's tenant: for its operators. `who` is an identity, as `bearer:alice`;
        `after` and `before` are of RFC 3339."""
        wanted = Wanted(
            task,
            identity,
            method,
            kind,
            time_of("after", after) if after is not None else None,
            time_of("before", before) if before is not None else None,
        )
        with store_errors():
            found = search(trail, who, wanted, cursor)
        return RecordsBody(
            records=found.records,
            cursor=found.cursor,
            looked=found.looked,
            now=timestamp(door.engine.clock.now()),
        )

    return routes
