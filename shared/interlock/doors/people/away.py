"""Out of office: who is away, until when, and who stands in for them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Door, TimeText, described, time_of
from interlock.engine.away import MAX_IDENTITY, clear_away, list_away, set_away
from interlock.engine.errors import store_errors
from interlock.engine.records import Away, parse_instant
from interlock.oversight.principals import Principal

IdentityText = Annotated[str, Field(min_length=1, max_length=MAX_IDENTITY)]


class AwayBody(Wire):
    """Identities are as `bearer:alice`, times as of RFC 3339. Without `since` it begins now, without `who` it
    is of the caller: only operators say so for somebody else."""

    model_config = ConfigDict(extra="forbid", strict=True)

    substitute: IdentityText
    until: TimeText
    since: TimeText | None = None
    who: IdentityText | None = None


class AbsenceBody(Wire):
    """`who` is away from `since` until `until`; `substitute` decides in their place. `saidBy` has said so."""

    who: str
    substitute: str
    since: str
    until: str
    said_by: str


class AbsencesBody(Wire):
    """What is not over, also what has not begun. `now` is the server's clock."""

    away: list[AbsenceBody]
    now: str


class ClearedBody(Wire):
    status: Literal["cleared", "nothing"]


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/away")
    def get_away(who: Caller) -> AbsencesBody:
        """Who is away: approvers and operators see all of their tenant, others what concerns them."""
        with store_errors():
            absences = [_absence(away) for away in list_away(engine, who)]
        return AbsencesBody(away=absences, now=timestamp(engine.clock.now()))

    @routes.put("/away", openapi_extra=described(AwayBody))
    def put_away(who: Caller, body: Annotated[AwayBody, Depends(door.body(AwayBody))]) -> AbsenceBody:
        """Says who stands in, and until when; it replaces what was said before."""
        since = time_of("since", body.since) if body.since is not None else None
        until = time_of("until", body.until)
        with store_errors():
            return _absence(set_away(engine, who, body.substitute, until, since=since, who=body.who))

    @routes.delete("/away")
    def delete_away(
        who: Caller, of: Annotated[str | None, Query(alias="who", max_length=MAX_IDENTITY)] = None
    ) -> ClearedBody:
        """Back again. What was decided meanwhile stays."""
        with store_errors():
            return ClearedBody(status="cleared" if clear_away(engine, who, of) else "nothing")

    return routes


def _absence(away: Away) -> AbsenceBody:
    return AbsenceBody(
        who=away.who,
        substitute=away.substitute,
        since=timestamp(parse_instant(away.since)),
        until=timestamp(parse_instant(away.until)),
        said_by=away.said_by,
    )
