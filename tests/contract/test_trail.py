"""The audit chain under many appenders at once, on the stores it may be kept in."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from tests.support.emulator import Emulator, create_table
from tests.support.stores import Store

from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable
from interlock.adapters.memory import MemoryTable
from interlock.engine.facts import Fact, fact_pk
from interlock.engine.seal import Sealer, export, records_pk, rows, seal
from interlock.oversight.audit import verify

APPENDERS = 64
SEALERS = 4


@pytest.fixture(params=["twin", "emulator"])
def two_tables(request: pytest.FixtureRequest) -> Store:
    """A store whose audit trail is in a table of its own."""
    if request.param == "twin":
        return MemoryTable()
    emulator: Emulator = request.getfixturevalue("emulator")
    client = emulator.dynamodb
    return DynamoTable(client, create_table(client), create_table(client))


def test_64_appenders_and_sealers_at_once_make_one_chain_without_a_gap(two_tables: Store) -> None:
    def append(number: int) -> None:
        two_tables.write(Fact("call", detail={"number": number}).put("acme", datetime.now(UTC)))

    def keep_sealing(_: int) -> None:
        while len(list(rows(two_tables, records_pk("acme")))) < APPENDERS:
            seal(Sealer(two_tables, SystemClock()), "acme")

    with ThreadPoolExecutor(APPENDERS + SEALERS) as pool:
        sealing = [pool.submit(keep_sealing, number) for number in range(SEALERS)]
        list(pool.map(append, range(APPENDERS)))
        for each in sealing:
            each.result(timeout=60)
    lines = list(export(two_tables, "acme"))
    records = [json.loads(line) for line in lines]
    assert sorted(record["detail"]["number"] for record in records) == list(range(APPENDERS))
    assert [record["seq"] for record in records] == list(range(1, APPENDERS + 1))
    assert [finding for finding in verify(lines, lambda *_: False).findings if finding.line] == []
    assert two_tables.query(fact_pk("acme")).rows == ()


def test_the_trail_is_in_its_own_table_and_facts_are_not(emulator: Emulator) -> None:
    client = emulator.dynamodb
    core, audit = create_table(client), create_table(client)
    both = DynamoTable(client, core, audit)
    both.write(Fact("call").put("acme", datetime.now(UTC)))
    assert len(DynamoTable(client, core).query(fact_pk("acme")).rows) == 1
    seal(Sealer(both, SystemClock()), "acme")
    assert len(DynamoTable(client, audit).query(records_pk("acme")).rows) == 1
    assert DynamoTable(client, core).query(records_pk("acme")).rows == ()
    assert DynamoTable(client, core).query(fact_pk("acme")).rows == ()
