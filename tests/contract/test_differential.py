"""The twin and the emulator, given the same calls, give the same outcomes and end in the same state."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.emulator import Emulator
from tests.support.stores import Store

from interlock.adapters.memory import MemoryTable
from interlock.engine.ports import (
    Check,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    GreaterThan,
    Item,
    Key,
    Missing,
    Page,
    Put,
    Update,
    Value,
    Write,
)

PARTITIONS = ("p", "q")
SORTS = ("1", "2", "\U0001f600")
Outcome = str | dict[int, Item]

keys = st.builds(Key, st.sampled_from(PARTITIONS), st.sampled_from(SORTS))
values: st.SearchStrategy[Value] = st.sampled_from([1, True, "1", b"1"])
ordered: st.SearchStrategy[Value] = st.sampled_from([1, "", b""])
names = st.sampled_from(["v", "w"])
times = st.sampled_from(["1", "2", "\U0001f600"])
items: st.SearchStrategy[Item] = st.fixed_dictionaries(
    {}, optional={"a": values, "b": values, "view": names, "view_at": times}
)
attributes = st.sampled_from(["a", "b", "view", "view_at"])
condition: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Equals, st.just("a"), values),
    st.builds(GreaterThan, st.just("a"), ordered),
    st.builds(Missing, st.sampled_from(["a", "view", "pk"])),
)
conditions: st.SearchStrategy[tuple[Condition, ...]] = st.one_of(
    st.just(()), st.just(()), st.just(()), st.lists(condition, min_size=1, max_size=2).map(tuple)
)


def update(key: Key, item: Item, removed: list[str], conditions: tuple[Condition, ...]) -> Update:
    remove = tuple(name for name in removed if name not in item)
    known = any(isinstance(condition, Equals | GreaterThan) for condition in conditions)
    return Update(key, item if item or (remove and known) else {"c": 1}, remove, conditions)


writes: st.SearchStrategy[Write] = st.one_of(
    st.builds(update, keys, items, st.lists(attributes, unique=True, max_size=2), conditions),
    st.builds(Put, keys, items, conditions),
    st.builds(update, keys, items, st.lists(attributes, unique=True, max_size=2), conditions),
    st.builds(Put, keys, items, conditions),
    st.builds(Delete, keys, conditions),
    st.builds(Check, keys, condition.map(lambda one: (one,))),
)
calls = st.one_of(
    writes.map(lambda write: [write]),
    st.lists(writes, min_size=2, max_size=3, unique_by=lambda write: write.key),
    st.lists(writes, min_size=2, max_size=3, unique_by=lambda write: write.key),
)
beginnings = st.dictionaries(keys, items, max_size=6)
programs = st.lists(calls, min_size=1, max_size=6)


def outcome(store: Store, call: list[Write]) -> Outcome:
    try:
        store.write(*call)
    except ConditionFailed as failure:
        return failure.old
    except ValueError:
        return "refused"
    return "written"


def state(store: Store) -> list[object]:
    """All that can be read; rows of a view at one time have no order of their own."""
    rows: list[object] = []
    for descending in (False, True):
        rows += [store.query(pk, descending=descending) for pk in PARTITIONS]
        rows += [_by_time(store.query_view(view, descending=descending)) for view in ("v", "w")]
    keys = [Key(pk, sk) for pk in PARTITIONS for sk in SORTS]
    rows += [store.get_many(keys), store.snapshot(keys)]
    rows += [store.count_view(view, equals={"a": 1}) for view in ("v", "w")]
    return rows


def _by_time(page: Page) -> list[tuple[Value, list[tuple[Key, Item]]]]:
    groups: dict[Value, list[tuple[Key, Item]]] = {}
    for key, item in page.rows:
        groups.setdefault(item["view_at"], []).append((key, item))
    return [(at, sorted(rows, key=lambda row: (row[0].pk, row[0].sk))) for at, rows in groups.items()]


@pytest.fixture(scope="module")
def table(emulator: Emulator) -> Store:
    return emulator.table()


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(beginning=beginnings, program=programs)
def test_the_twin_does_what_dynamodb_does(
    table: Store, beginning: dict[Key, Item], program: list[list[Write]]
) -> None:
    twin = MemoryTable()
    for key in (Key(pk, sk) for pk in PARTITIONS for sk in SORTS):
        if key in beginning:
            twin.write(Put(key, beginning[key]))
            table.write(Put(key, beginning[key]))
        else:
            table.write(Delete(key))
    for call in program:
        assert outcome(twin, call) == outcome(table, call), call
    assert state(twin) == state(table)
