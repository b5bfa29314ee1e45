"""A page of the inbox is the same work with ten open checkpoints and with ten thousand."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import pytest
from playwright.sync_api import Browser, expect
from tests.support.browsing import Asker, Seat, deployer, seated
from tests.support.story import Place, run_cli

from interlock.engine.records import task_pk

TENANT = "crowd"
FEW = 10
MANY = 10_000
PAGE = 50
BATCH = 25


@pytest.fixture(scope="module")
def crowd(place: Place) -> Place:
    """A tenant of its own, whose inbox nobody else fills."""
    environment = deployer(place)

    def token(label: str, *options: str) -> str:
        create = ("tokens", "create", f"{TENANT}-{label}", "--tenant", TENANT, *options, "--json")
        found: str = json.loads(run_cli(*create, environment=environment, folder=place.folder).stdout)[
            "token"
        ]
        return found

    tokens = {"agent": token("agent"), "alice": token("alice", "--kind", "person", "--role", "approver")}
    return replace(place, tokens=tokens)


def copy(place: Place, task: str, number: int) -> None:
    """Puts copies of the question of `task` into the core table, straight."""
    environment = deployer(place)
    table = environment["INTERLOCK_TABLE"]
    client = boto3.client(
        "dynamodb",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        region_name=environment["AWS_DEFAULT_REGION"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )
    (item,) = client.query(
        TableName=table,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :ask)",
        ExpressionAttributeValues={":pk": {"S": task_pk(TENANT, task)}, ":ask": {"S": "ASK#"}},
    )["Items"]
    written, ask = json.dumps(item), item["sk"]["S"].removeprefix("ASK#")
    copies = [
        json.loads(written.replace(task, str(uuid4())).replace(ask, str(uuid4()))) for _ in range(number)
    ]
    for start in range(0, number, BATCH):
        puts: Any = [{"PutRequest": {"Item": each}} for each in copies[start : start + BATCH]]
        assert not client.batch_write_item(RequestItems={table: puts})["UnprocessedItems"]


@pytest.fixture
def task(crowd: Place) -> str:
    asker = Asker.at(crowd)
    with asker.http:
        return asker.send("refund 7700 12.50")


@pytest.fixture
def seat(browser: Browser, crowd: Place, task: str) -> Iterator[Seat]:
    """Whose feed is silent, so that what is asked for is asked for by the first look alone."""
    seat = seated(browser, crowd)
    seat.page.route("**/people/changes*", lambda route: None)
    seat.go("waiting")
    seat.sign_in(crowd.tokens["alice"])
    expect(seat.listed.first).to_be_visible()
    yield seat
    seat.page.unroute_all(behavior="ignoreErrors")
    seat.page.context.close()
    assert seat.faults == []


def looked(seat: Seat) -> list[str]:
    """What a look at the list asks of the people's door."""
    asked: list[str] = []
    seat.page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    seat.page.reload()
    expect(seat.listed.first).to_be_visible()
    seat.page.wait_for_load_state("load")
    return sorted(path for path in asked if path.startswith("/people/"))


def test_a_look_is_the_same_work_however_many_wait(crowd: Place, seat: Seat, task: str) -> None:
    copy(crowd, task, FEW - 1)
    few = looked(seat)
    expect(seat.listed).to_have_count(FEW)
    copy(crowd, task, MANY - FEW)
    many = looked(seat)
    expect(seat.listed).to_have_count(PAGE)
    assert many == few
    assert many.count("/people/checkpoints") == 1
    seat.picture("many")
    with seat.page.expect_response("**/people/checkpoints?*") as more:
        seat.does("Show more")
    assert more.value.ok
    expect(seat.listed).to_have_count(2 * PAGE)
