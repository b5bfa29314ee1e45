"""What a call costs on DynamoDB, from items whose sizes are known."""

from collections.abc import Callable

import pytest
from tests.support import units
from tests.support.emulator import Emulator, create_table
from tests.support.faults import LostReply, fault_proxy
from tests.support.stores import Store
from tests.support.units import Cost, CountingTable, Request, cost

from interlock.adapters import dynamodb
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.memory import MemoryTable
from interlock.adapters.sizes import item_size, number_size, value_size
from interlock.engine.ports import (
    Check,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)

KEYS = 4 + 2  # The names pk and sk, and one letter each.


def sized(size: int) -> Item:
    """An item of so many bytes under a key of one letter each."""
    return {"f": "x" * (size - KEYS - 1)}


def in_view(size: int, view_at: str = "1") -> Item:
    """The same, in the view v."""
    return {"view": "v", "view_at": view_at, "f": "x" * (size - KEYS - len("viewvview_at1f"))}


A, B, C = Key("p", "a"), Key("p", "b"), Key("p", "c")


@pytest.fixture
def memory() -> MemoryTable:
    return MemoryTable()


@pytest.fixture
def table(memory: MemoryTable) -> CountingTable:
    return CountingTable(memory)


@pytest.mark.parametrize(
    ("number", "size"),
    [
        (0, 1),
        (1, 2),
        (27, 2),
        (-27, 3),
        (127, 3),
        (1234, 3),
        (12345, 4),
        (10, 2),
        (100, 2),
        (120, 3),
        (10**37, 2),
        (10**38 - 1, 20),
        (1 - 10**38, 21),
    ],
)
def test_a_number_takes_half_a_byte_a_digit(number: int, size: int) -> None:
    assert number_size(number) == size


def test_a_value_takes_what_it_is() -> None:
    assert [value_size(value) for value in ("", "ab", "\u00fc", "\U0001f600", b"\xff\x00", True, False)] == [
        0,
        2,
        2,
        4,
        2,
        1,
        1,
    ]


def test_an_item_takes_its_names_and_keys_too() -> None:
    assert item_size(Key("p\u00fc", "s"), {}) == 4 + 3 + 1
    assert item_size(A, {"\u00fc": "\u00fc", "n": 12, "b": True}) == KEYS + 4 + 3 + 2
    assert item_size(A, sized(1024)) == 1024
    assert item_size(A, in_view(1024)) == 1024


@pytest.mark.parametrize(("size", "reads"), [(100, 1), (4096, 1), (4097, 2), (8192, 2)])
def test_a_strong_read_takes_a_unit_for_each_four_kilobytes(
    memory: MemoryTable, table: CountingTable, size: int, reads: float
) -> None:
    memory.write(Put(A, sized(size)))
    assert table.get(A) == sized(size)
    assert table.take() == [Request("GetItem", reads=reads)]
    assert table.take() == []


def test_absent_items_are_paid_for(table: CountingTable) -> None:
    table.get(A)
    table.get_many([A, B])
    table.query("p")
    table.query_view("v")
    assert cost(table.take()) == Cost(4, reads=1 + 2 + 1 + 0.5, writes=0)


def test_a_batch_rounds_each_item_up_and_a_query_their_sum(memory: MemoryTable, table: CountingTable) -> None:
    memory.write(Put(A, sized(2048)), Put(B, sized(2048)), Put(C, sized(4097)))
    table.get_many([A, B, C])
    table.get_many([])
    table.snapshot([A, B, C])
    table.query("p", last="b")
    table.query("p")
    assert table.take() == [
        Request("BatchGetItem", reads=1 + 1 + 2),
        Request("TransactGetItems", reads=2 + 2 + 4),
        Request("Query", reads=1),
        Request("Query", reads=3),
    ]


def test_a_page_pays_for_the_item_that_says_there_is_another(
    memory: MemoryTable, table: CountingTable
) -> None:
    memory.write(Put(A, in_view(4096)), Put(B, in_view(4096)), Put(C, in_view(4096)))
    assert len(table.query("p", limit=1).rows) == 1
    assert len(table.query("p", limit=3).rows) == 3
    assert len(table.query_view("v", limit=1).rows) == 1
    assert table.take() == [
        Request("Query", reads=2),
        Request("Query", reads=3),
        Request("Query", reads=1),
    ]


def test_a_view_is_read_at_half_price_whatever_matches(memory: MemoryTable, table: CountingTable) -> None:
    memory.write(Put(A, in_view(4096)), Put(B, in_view(4096) | {"n": 1}))
    assert table.query_view("v", equals={"n": 1}, limit=1).rows == ((B, in_view(4096) | {"n": 1}),)
    assert table.count_view("v", equals={"n": 1}) == 1
    assert table.take() == [Request("Query", reads=1.5), Request("Query", reads=1.5)]


@pytest.mark.parametrize(
    ("before", "write", "request_"),
    [
        (None, Put(A, sized(1024)), Request("PutItem", writes=1)),
        (None, Put(A, sized(1025)), Request("PutItem", writes=2)),
        (sized(3000), Put(A, sized(10)), Request("PutItem", writes=3)),
        (sized(1000), Update(A, {"g": "x" * 100}), Request("UpdateItem", writes=2)),
        (sized(3000), Update(A, {"f": ""}), Request("UpdateItem", writes=3)),
        (sized(3000), Delete(A), Request("DeleteItem", writes=3)),
        (None, Delete(A), Request("DeleteItem", writes=1)),
        (None, Put(A, in_view(1025)), Request("PutItem", writes=4)),
        (in_view(1025), Delete(A), Request("DeleteItem", writes=4)),
        (in_view(1025), Put(A, in_view(1025)), Request("PutItem", writes=2)),
        (in_view(1000), Update(A, {"n": 1}), Request("UpdateItem", writes=2)),
        (in_view(1000), Update(A, {"view_at": "2"}), Request("UpdateItem", writes=3)),
        (
            in_view(1000),
            Update(A, {}, ("view",), (Equals("view", "v"),)),
            Request("UpdateItem", writes=2),
        ),
    ],
)
def test_a_write_pays_for_the_larger_item_and_for_the_index(
    memory: MemoryTable, table: CountingTable, before: Item | None, write: Write, request_: Request
) -> None:
    if before is not None:
        memory.write(Put(A, before))
    table.write(write)
    assert table.take() == [request_]


def test_a_transaction_pays_twice_except_for_the_index(memory: MemoryTable, table: CountingTable) -> None:
    memory.write(Put(C, sized(1025)))
    table.write(
        Put(A, in_view(1000), (Missing("f"),)),
        Put(B, sized(2000)),
        Check(C, (Equals("f", sized(1025)["f"]),)),
    )
    assert table.take() == [Request("TransactWriteItems", writes=2 * (1 + 2 + 2) + 1)]


def test_a_condition_that_fails_is_paid_for_without_the_index(
    memory: MemoryTable, table: CountingTable
) -> None:
    memory.write(Put(A, in_view(1025)))
    with pytest.raises(ConditionFailed):
        table.write(Put(A, in_view(10 + 100), (Missing("f"),)))
    with pytest.raises(ConditionFailed):
        table.write(Delete(A, (Missing("f"),)), Put(B, sized(10)))
    assert table.take() == [Request("PutItem", writes=2), Request("TransactWriteItems", writes=2 * (2 + 1))]


def test_what_is_refused_is_not_sent(table: CountingTable) -> None:
    with pytest.raises(ValueError, match="one key"):
        table.write(Put(A, {}), Delete(A))
    assert table.take() == []


def test_what_is_counted_is_what_is_sent(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamodb, "FILTERED_PAGE", 4)
    monkeypatch.setattr(units, "FILTERED_PAGE", 4)
    name = create_table(emulator.dynamodb)
    rows = [Put(Key("p", f"{n:02}"), {"view": "v", "view_at": f"{n:02}", "n": n % 9}) for n in range(20)]
    with fault_proxy(emulator.url) as proxy:
        behind: Store = DynamoTable(dynamodb_client(proxy.url), name)
        table = CountingTable(behind, sizes_from=DynamoTable(emulator.dynamodb, name))
        calls: list[Callable[[], object]] = [
            lambda: table.write(*rows),
            lambda: table.write(Put(A, {})),
            lambda: table.write(Update(A, {"n": 1})),
            lambda: table.write(Delete(A)),
            lambda: table.get(A),
            lambda: table.get_many([A, B]),
            lambda: table.get_many([]),
            lambda: table.snapshot([A, B]),
            lambda: table.snapshot([]),
            lambda: table.query("p", limit=3),
            lambda: table.query_view("v"),
            lambda: table.query_view("v", limit=3),
            lambda: table.query_view("v", equals={"n": 3}),
            lambda: table.query_view("v", equals={"n": 3}, limit=1),
            lambda: table.query_view("v", equals={"n": 3}, limit=2),
            lambda: table.query_view("v", equals={"n": 77}, limit=1),
            lambda: table.query_view("v", equals={"n": 77}, limit=9, descending=True),
            lambda: table.count_view("v", equals={"n": 3}),
        ]
        for call in calls:
            call()
            assert [request.operation for request in table.take()] == proxy.operations
            proxy.reset()
        proxy.fail(LostReply())
        with pytest.raises(OutcomeUnknown):
            table.write(Put(A, {}))
        assert table.take() == [Request("PutItem", writes=1)]
