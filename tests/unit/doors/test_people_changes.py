"""The long poll at the people's door: it wakes whoever waits, and holds nobody longer than they said."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from tests.support.calls import call
from tests.support.twin import Deployment, asking, identify
from tests.unit.doors.test_people import refusal

from interlock.doors.people import changes as feed
from interlock.doors.people import create_feed
from interlock.engine.calls import Calls
from interlock.engine.facts import fact_pk
from interlock.engine.pulse import Beat, Topic, raise_beat


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "POLL_SECONDS", 0.01)


@pytest.fixture
def deployment() -> Deployment:
    return Deployment(asking())


@pytest.fixture(params=["door", "feed"])
def app(deployment: Deployment, request: pytest.FixtureRequest) -> FastAPI:
    if request.param == "door":
        return deployment.people_door()
    return create_feed(deployment.engine, identify)


def get(app: FastAPI, query: str = "", who: str | None = "ann") -> httpx.Response:
    return call(app, "GET", f"/people/changes{query}", who=who)


@asynccontextmanager
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": "Bearer ann"}
    async with httpx.AsyncClient(transport=transport, base_url="http://i.test", headers=headers) as made:
        yield made


def test_without_a_token_it_answers_at_once(app: FastAPI) -> None:
    answer = get(app)
    assert answer.json() == {"since": ".-.", "changed": [], "now": "2026-01-01T12:00:00.000Z"}


def test_what_has_changed_since_is_told_at_once(app: FastAPI, deployment: Deployment) -> None:
    since = get(app).json()["since"]
    raise_beat(deployment.table, Beat("acme", Topic.CHECKPOINTS))
    raise_beat(deployment.table, Beat("acme", Topic.FLEET))
    answer = get(app, f"?since={since}").json()
    assert answer["changed"] == ["checkpoints", "fleet"]
    assert get(app, f"?since={answer['since']}&wait=0").json() == {**answer, "changed": []}


def test_where_nothing_changes_it_ends_when_the_wait_is_over(app: FastAPI) -> None:
    first = get(app).json()
    assert get(app, f"?since={first['since']}&wait=0").json() == first
    assert get(app, f"?since={first['since']}&wait=1").json() == first


def test_who_waits_is_woken_and_any_number_wait_at_once(app: FastAPI, deployment: Deployment) -> None:
    async def scenario() -> list[Any]:
        async with client(app) as http:
            since = (await http.get("/people/changes")).json()["since"]
            waiting = [asyncio.create_task(http.get(f"/people/changes?since={since}")) for _ in range(100)]
            await asyncio.sleep(0)
            # More than the pool has threads wait: it still serves others.
            assert (await http.get("/people/changes?wait=0")).status_code == 200
            raise_beat(deployment.table, Beat("acme", Topic.HALTS))
            return [(await one).json()["changed"] for one in waiting]

    assert asyncio.run(scenario()) == [["halts"]] * 100


@pytest.mark.parametrize(
    "query", ["?since=x", "?since=", "?wait=26", "?wait=-1", "?wait=x", f"?since={'a' * 513}"]
)
def test_what_is_malformed_is_refused(app: FastAPI, query: str) -> None:
    refusal(get(app, query), 400, "INVALID_PARAMS")


def test_who_sees_nothing_is_refused(app: FastAPI) -> None:
    for who in ("agent", "nobody"):
        refusal(get(app, who=who), 403, "PERMISSION_DENIED")
    refusal(get(app, who=None), 401, "UNAUTHENTICATED")


def test_only_refusals_are_on_the_trail(deployment: Deployment) -> None:
    deployment.calls = Calls(deployment.engine, required=True, seal_seconds=0)
    app = deployment.people_door()
    assert get(app).status_code == 200
    assert deployment.table.query(fact_pk("acme")).rows == ()
    refusal(get(app, who="nobody"), 503, "UNAVAILABLE")  # its seal is waited for in vain
    assert len(deployment.table.query(fact_pk("acme")).rows) == 1


def test_the_feed_alone_serves_nothing_else(deployment: Deployment) -> None:
    app = create_feed(deployment.engine, identify)
    refusal(call(app, "GET", "/people/checkpoints", who="ann"), 404, "METHOD_NOT_FOUND")
