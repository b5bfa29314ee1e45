"""The contract's fixtures: the same tests run on the in-memory twin, on moto and on the emulator."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from moto import mock_aws
from tests.support.emulator import Emulator, create_table
from tests.support.stores import Store

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.memory import MemoryTable


@pytest.fixture(scope="session")
def moto_client(no_aws: None) -> "DynamoDBClient":
    return dynamodb_client()


@pytest.fixture(params=["twin", "moto", "emulator"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A new, empty table with its views."""
    if request.param == "moto":
        client = request.getfixturevalue("moto_client")
        with mock_aws():
            yield DynamoTable(client, create_table(client))
    else:
        yield _exact(request)


@pytest.fixture(params=["twin", "emulator"])
def exact_store(request: pytest.FixtureRequest) -> Store:
    """Without moto, which compares as Python does and is some bytes off in an item's size."""
    return _exact(request)


def _exact(request: pytest.FixtureRequest) -> Store:
    if request.param == "twin":
        return MemoryTable()
    emulator: Emulator = request.getfixturevalue("emulator")
    return emulator.table()
