"""Who the caller is here."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from interlock.a2a.models import Wire, timestamp
from interlock.doors.people.door import Door
from interlock.oversight.principals import Principal


class MeBody(Wire):
    """`now` is the server's clock."""

    id: str
    tenant: str
    kind: Literal["person", "service"]
    roles: list[str]
    now: str


def router(door: Door) -> APIRouter:
    routes = door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/me")
    def me(who: Caller) -> MeBody:
        """The caller, as this deployment knows them."""
        return MeBody(
            id=who.id,
            tenant=who.tenant,
            kind=who.kind.value,
            roles=sorted(role.value for role in who.roles),
            now=timestamp(door.engine.clock.now()),
        )

    return routes
