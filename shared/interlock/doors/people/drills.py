"""Drills: a canary is started, halted, and what that took is recorded."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from pydantic import ConfigDict, Field

from interlock.a2a.models import MAX_ID_LENGTH, Wire
from interlock.doors.people.door import Door, described
from interlock.doors.people.halts import Generation
from interlock.engine.canary import canary_scope
from interlock.engine.drill import Seen, canary, record, start_canary
from interlock.engine.errors import store_errors
from interlock.engine.records import TaskMeta
from interlock.oversight.principals import Principal

MAX_MILLISECONDS = 3_600_000

TaskId = Annotated[str, Path(min_length=1, max_length=MAX_ID_LENGTH)]
Milliseconds = Annotated[int, Field(ge=0, le=MAX_MILLISECONDS)]


class CanaryBody(Wire):
    """A task of A2A that works until it is stopped. `scope` halts nothing else; `state` is of `TaskState`."""

    task_id: str
    scope: str
    state: str


class SeenBody(Wire):
    """`generation` is of the halt of the canary's scope. What the operator saw is in milliseconds since the
    halt was asked for: when it was said to hold, and when a new canary was refused, if it was."""

    model_config = ConfigDict(extra="forbid", strict=True)

    generation: Generation
    declared_ms: Milliseconds
    refused_ms: Milliseconds | None = None


class DrillBody(Wire):
    """As it is on the trail. `signalledMs` and `confirmedMs` are since the halt was written, by the servers'
    clocks: when the canary's code was told to stop, and when it was known to run no more."""

    task_id: str
    scope: str
    generation: int
    declared_ms: int
    refused_ms: int | None = None
    signalled_ms: int | None = None
    confirmed_ms: int | None = None


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.post("/drills")
    def start_drill(who: Caller) -> CanaryBody:
        """Starts a canary for an operator. It is refused like any new task while a halt covers it."""
        with store_errors():
            return _canary(start_canary(engine, who))

    @routes.get("/drills/{task_id}")
    def get_drill(who: Caller, task_id: TaskId) -> CanaryBody:
        """A canary, as it is now."""
        with store_errors():
            return _canary(canary(engine, who, task_id))

    @routes.post("/drills/{task_id}", response_model_exclude_none=True, openapi_extra=described(SeenBody))
    def record_drill(
        who: Caller, task_id: TaskId, body: Annotated[SeenBody, Depends(door.body(SeenBody))]
    ) -> DrillBody:
        """Records the figures of a drill on the audit trail."""
        seen = Seen(body.declared_ms, body.refused_ms)
        with store_errors():
            drill = record(engine, who, task_id, body.generation, seen)
        return DrillBody(
            task_id=drill.task_id,
            scope=drill.halt.scope,
            generation=drill.halt.generation,
            declared_ms=seen.declared,
            refused_ms=seen.refused,
            signalled_ms=drill.signalled,
            confirmed_ms=drill.confirmed,
        )

    return routes


def _canary(meta: TaskMeta) -> CanaryBody:
    return CanaryBody(task_id=meta.task_id, scope=str(canary_scope(meta.tenant)), state=meta.state)
