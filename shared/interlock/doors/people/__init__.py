"""The people's door: what waits for a person, and the operator's switch. OpenAPI describes it for clients.

Errors have the form of A2A's HTTP+JSON binding (specification 11.6): a client reads both doors alike.
"""

from fastapi import FastAPI

from interlock.doors.people import agents, away, checkpoints, decisions, drills, halts, me, tasks
from interlock.doors.people.door import Door, handle_errors
from interlock.engine.authenticate import Authenticate
from interlock.engine.calls import Calls
from interlock.engine.context import Engine
from interlock.engine.registry import Registry
from interlock.oversight.modes import Policy


def create_app(
    engine: Engine, identify: Authenticate, calls: Calls | None = None, registry: Registry | None = None
) -> FastAPI:
    """`calls` is None where there is no audit trail. `registry` knows the agents that run here."""
    door = Door(engine, identify, calls)
    app = FastAPI(
        title="Interlock, the people's door",
        version="1",
        openapi_url="/people/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for noun in (me, checkpoints, decisions, tasks, halts, drills, away):
        app.include_router(noun.router(door))
    app.include_router(agents.router(door, registry or Registry(engine, Policy())))
    handle_errors(app)
    return app
