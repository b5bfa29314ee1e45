"""The people's door: what waits for a person, and the operator's switch. OpenAPI describes it for clients.

Errors have the form of A2A's HTTP+JSON binding (specification 11.6): a client reads both doors alike.
"""

from fastapi import APIRouter, FastAPI

from interlock.doors.people import (
    agents,
    attention,
    audit,
    away,
    changes,
    checkpoints,
    decisions,
    drills,
    halts,
    me,
    statistics,
    tasks,
)
from interlock.doors.people.door import Door, handle_errors
from interlock.engine.authenticate import Authenticate
from interlock.engine.calls import Calls
from interlock.engine.context import Engine
from interlock.engine.ports import Table
from interlock.engine.registry import Registry
from interlock.oversight.modes import Policy


def create_app(
    engine: Engine,
    identify: Authenticate,
    calls: Calls | None = None,
    registry: Registry | None = None,
    trail: Table | None = None,
) -> FastAPI:
    """`calls` and `trail` are None where there is no audit trail. `registry` knows the agents that run
    here."""
    door = Door(engine, identify, calls)
    nouns = (me, checkpoints, decisions, attention, tasks, halts, drills, away, changes, statistics)
    return _app(
        *(noun.router(door) for noun in nouns),
        agents.router(door, registry or Registry(engine, Policy())),
        audit.router(door, trail),
    )


def create_feed(engine: Engine, identify: Authenticate, calls: Calls | None = None) -> FastAPI:
    """The change feed alone. On Lambda each who waits takes up one that runs: not those of the door."""
    return _app(changes.router(Door(engine, identify, calls)))


def _app(*routers: APIRouter) -> FastAPI:
    app = FastAPI(
        title="Interlock, the people's door",
        version="1",
        openapi_url="/people/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for router in routers:
        app.include_router(router)
    handle_errors(app)
    return app
