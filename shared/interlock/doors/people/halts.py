"""The operator's switch: halting, lifting a halt, and what became of what was running."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ConfigDict, Field

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Cursor, Door, described
from interlock.engine.calls import Call
from interlock.engine.errors import store_errors
from interlock.engine.halt import declare, lift
from interlock.engine.halt_report import Became, Found, HaltReport, first_report, listed, report
from interlock.engine.records import Halt, parse_instant
from interlock.oversight.halts import MAX_REASON, Scope
from interlock.oversight.principals import Principal

MAX_SCOPE = 256
"""Characters: more than those of any tenant with any agent."""
MAX_GENERATION = 10**9

ScopeText = Annotated[str, Field(min_length=1, max_length=MAX_SCOPE)]
Generation = Annotated[int, Field(ge=1, le=MAX_GENERATION)]


class HaltBody(Wire):
    """`scope` is `all`, `tenant:<tenant>`, `agent:[<tenant>/]<agent>` or `skill:[<tenant>/]<skill>`; without
    a tenant it is the caller's."""

    model_config = ConfigDict(extra="forbid", strict=True)

    scope: ScopeText
    reason: Annotated[str, Field(min_length=1, max_length=MAX_REASON)]


class ResumeBody(Wire):
    """`generation` names the halt that was seen: one that was declared since then stays."""

    model_config = ConfigDict(extra="forbid", strict=True)

    scope: ScopeText
    generation: Generation | None = None


class LiftedBody(Wire):
    """`nothing`: it was not halted. `halted-anew`: since that generation, so it still is."""

    status: Literal["lifted", "nothing", "halted-anew"]


class HaltedBody(Wire):
    """A halt. It holds while `on`. `reason` is text of whoever halted.

    `walkedAt` is when everything that it found running was stopped, or told to stop.
    """

    scope: str
    generation: int
    on: bool
    reason: str
    by: str
    halted_at: str
    walked_at: str | None = None
    resumed_at: str | None = None
    resumed_by: str | None = None


class HaltsBody(Wire):
    """Halts that stand, then those lifted lately, the newest first. `now` is the server's clock."""

    halts: list[HaltedBody]
    now: str


class CountsBody(Wire):
    """Turns that were running. `asked`: told to stop, and not heard of yet. `confirmed`: they run no more.
    `abandoned`: told to stop, and never heard of. `withdrawn`: their code had not begun."""

    asked: int
    confirmed: int
    abandoned: int
    withdrawn: int


class StoppedBody(Wire):
    """One turn of a task that was running. `endedAt` is when it was known to run no more, or given up."""

    tenant: str
    task_id: str
    turn: int
    state: Literal["asked", "confirmed", "abandoned", "withdrawn"]
    stopped_at: str
    ended_at: str | None = None


class ReportBody(HaltedBody):
    """`counts` and `stopped` are of what the caller may know of. Pages after the first have no `counts`, nor
    has one of a halt that was just declared and of which nothing could be read yet."""

    counts: CountsBody | None = None
    stopped: list[StoppedBody]
    cursor: str | None = None


def never_held_up(request: Request) -> None:
    """A halt is on the trail like any call, but is refused or made to wait by nothing that is wrong there."""
    call: Call = request.state.call
    call.held_up = False


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/halts", response_model_exclude_none=True)
    def list_halts(who: Caller) -> HaltsBody:
        """The halts that concern the caller: of the own tenant, and of everything."""
        with store_errors():
            halts = listed(engine, who)
        return HaltsBody(
            halts=[HaltedBody(**_halted(halt)) for halt in halts], now=timestamp(engine.clock.now())
        )

    @routes.post(
        "/halts",
        response_model_exclude_none=True,
        openapi_extra=described(HaltBody),
        dependencies=[Depends(never_held_up)],
    )
    def halt(who: Caller, body: Annotated[HaltBody, Depends(door.body(HaltBody))]) -> ReportBody:
        """Halts: once this is answered, nothing that the scope covers starts. Again, it replaces the reason.

        What runs is told to stop at the same time; the report says how far that has come.
        """
        scope = _scope(body.scope, who)
        with store_errors():
            declared = declare(engine, who, scope, body.reason)
        return _report(first_report(engine, who, declared))

    @routes.post("/halts/resume", openapi_extra=described(ResumeBody))
    def resume_halted(who: Caller, body: Annotated[ResumeBody, Depends(door.body(ResumeBody))]) -> LiftedBody:
        """Lifts the halt of exactly this scope, once what it found running was stopped."""
        with store_errors():
            lifted = lift(engine, who, _scope(body.scope, who), body.generation)
        return LiftedBody(status=lifted.value)

    @routes.get("/halts/report", response_model_exclude_none=True)
    def report_halt(
        who: Caller,
        scope: Annotated[str, Query(min_length=1, max_length=MAX_SCOPE)],
        generation: Annotated[int | None, Query(ge=1, le=MAX_GENERATION)] = None,
        cursor: Cursor = None,
    ) -> ReportBody:
        """The newest halt of a scope, which `generation` may name, and what it found running."""
        with store_errors():
            return _report(report(engine, who, _scope(scope, who), generation, cursor))

    return routes


def _scope(text: str, who: Principal) -> Scope:
    try:
        return Scope.parse(text, who.tenant)
    except ValueError as error:
        raise InvalidParams(str(error)) from error


def _halted(halt: Halt) -> dict[str, object]:
    return {
        "scope": halt.scope,
        "generation": halt.generation,
        "on": halt.on is True,
        "reason": halt.reason,
        "by": halt.by,
        "halted_at": _time(halt.halted_at),
        "walked_at": _time(halt.walked_at),
        **({} if halt.on else {"resumed_at": _time(halt.resumed_at), "resumed_by": halt.resumed_by}),
    }


def _report(found: HaltReport) -> ReportBody:
    counts = found.counts
    return ReportBody(
        **_halted(found.halt),
        counts=CountsBody(**{kind.value: counts[kind] for kind in Became}) if counts is not None else None,
        stopped=[_stopped(one) for one in found.found],
        cursor=found.cursor,
    )


def _stopped(found: Found) -> StoppedBody:
    row = found.row
    return StoppedBody(
        tenant=row.tenant,
        task_id=row.task_id,
        turn=row.turn,
        state=found.became.value,
        stopped_at=_time(row.stopped_at),
        ended_at=_time(row.ended_at or row.abandoned_at),
    )


def _time(at: str | None) -> str | None:
    return timestamp(parse_instant(at)) if at is not None else None
