"""Searching the trail: what is found of it, in bounded looks, and by whom."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.twin import ANN, OPS, PLATFORM, SPY, START, Deployment, asking

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.adapters.memory import MemoryTable
from interlock.engine import search as module
from interlock.engine.ports import Delete, Key, Put
from interlock.engine.seal import Sealer, records_pk, seal, seq_sk
from interlock.engine.search import Found, Wanted, search
from interlock.oversight.principals import Kind, Principal, Role

MINUTE = timedelta(minutes=1)


def trail(times: int = 0, **members: Any) -> MemoryTable:
    """Records 1, 2, ... a minute apart."""
    table = MemoryTable()
    for seq in range(1, times + 1):
        time = (START + (seq - 1) * MINUTE).isoformat().replace("+00:00", ".000Z")
        record = {"seq": seq, "hash": "", "time": time, "kind": "call", "method": f"m{seq % 3}", **members}
        table.write(Put(Key(records_pk("acme"), seq_sk(seq)), {"v": 1, "record": json.dumps(record)}))
    return table


def numbers(found: Found) -> list[int]:
    return [record["seq"] for record in found.records]


def test_real_records_are_found_by_what_they_are_about() -> None:
    deployment = Deployment(asking())
    one, other = deployment.send().id, deployment.send().id
    deployment.answer(ANN, one, {"approved": True})
    seal(Sealer(deployment.table, deployment.clock), "acme")

    def kinds(**wanted: Any) -> list[str]:
        return [record["kind"] for record in search(deployment.table, OPS, Wanted(**wanted), None).records]

    assert kinds(kind="prompt.answered") == kinds(who=ANN.id) == ["prompt.answered"]
    assert "prompt.answered" in kinds(task=one)
    assert "prompt.answered" not in kinds(task=other)
    assert set(kinds(task=one)) | set(kinds(task=other)) == set(kinds())
    assert kinds(who="bearer:ann", task=other) == kinds(method="people.answer") == []


def test_who_acted_as_an_operator_is_found_by_their_name() -> None:
    table = trail(1, actor={"scheme": "operator", "subject": "bearer:ops"})
    assert numbers(search(table, OPS, Wanted(who="bearer:ops"), None)) == [1]
    assert numbers(search(table, OPS, Wanted(who="bearer:op"), None)) == []


def test_times_may_be_the_first_or_the_last_there_are() -> None:
    first, last = map(datetime.fromisoformat, ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"))
    table = trail(3)
    assert numbers(search(table, OPS, Wanted(after=first, before=last), None)) == [3, 2, 1]
    assert numbers(search(table, OPS, Wanted(after=last), None)) == []
    assert numbers(search(table, OPS, Wanted(before=first), None)) == []


@pytest.mark.parametrize("looked", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("matches", [1, 2, 50])
def test_pages_join_without_a_gap(monkeypatch: pytest.MonkeyPatch, looked: int, matches: int) -> None:
    monkeypatch.setattr(module, "LOOKED_AT", looked)
    monkeypatch.setattr(module, "MATCHES", matches)
    table, cursor, total = trail(10), None, 0
    found: list[int] = []
    while True:
        page = search(table, OPS, Wanted(method="m1"), cursor)
        assert page.looked <= looked
        assert len(page.records) <= matches
        found, total, cursor = found + numbers(page), total + page.looked, page.cursor
        if cursor is None:
            break
    assert (found, total) == ([10, 7, 4, 1], 10)


def test_a_time_is_found_without_looking_at_what_is_newer() -> None:
    table = trail(1000)
    wanted = Wanted(before=START + 500 * MINUTE, after=START + 490 * MINUTE)
    found = search(table, OPS, wanted, None)
    assert numbers(found) == list(range(500, 490, -1))
    assert found.cursor is None
    assert found.looked < 60


def test_the_times_include_their_beginning_and_not_their_end() -> None:
    wanted = Wanted(after=START + MINUTE, before=START + 3 * MINUTE)
    assert numbers(search(trail(5), OPS, wanted, None)) == [3, 2]


def test_what_was_purged_is_not_found_and_in_nobodys_way() -> None:
    table = trail(100)
    table.write(*(Delete(Key(records_pk("acme"), seq_sk(seq))) for seq in range(1, 91)))
    assert numbers(search(table, OPS, Wanted(before=START + 95 * MINUTE), None)) == [95, 94, 93, 92, 91]
    assert numbers(search(table, OPS, Wanted(before=START + 5 * MINUTE), None)) == []


def test_a_record_that_is_late_is_found() -> None:
    table = trail(30)
    record = {"seq": 31, "hash": "", "time": "2026-01-01T12:20:00.500Z", "kind": "late"}
    table.write(Put(Key(records_pk("acme"), seq_sk(31)), {"v": 1, "record": json.dumps(record)}))
    wanted = Wanted(kind="late", after=START + 20 * MINUTE, before=START + 21 * MINUTE)
    assert numbers(search(table, OPS, wanted, None)) == [31]


def test_only_operators_of_the_tenant_and_people_search_it() -> None:
    table = trail(3)
    service = Principal("bearer:x", "acme", Kind.SERVICE, frozenset({Role.OPERATOR}))
    for who in (ANN, PLATFORM, service):
        with pytest.raises(PermissionDenied):
            search(table, who, Wanted(), None)
    assert search(table, SPY, Wanted(), None) == Found([], None, 0)
    assert search(None, OPS, Wanted(), None) == Found([], None, 0)


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "\u0663", "1" * 17])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidParams):
        search(trail(1), OPS, Wanted(), cursor)


@pytest.mark.parametrize("cursor", ["0", "1"])
def test_below_the_first_there_is_nothing(cursor: str) -> None:
    assert search(trail(1), OPS, Wanted(), cursor) == Found([], None, 0)
