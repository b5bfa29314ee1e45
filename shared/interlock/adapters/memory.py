"""The in-memory twins of the AWS adapters. They pass the same contract tests.

One process, nothing kept: for tests, benchmarks and exploring interleavings. A call is atomic, reads are
strongly consistent and the view never lags, so whatever AWS may do beyond that has to be injected around it.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any

from interlock.adapters.paging import (
    check_range,
    key_cursor,
    parse_key_cursor,
    parse_view_cursor,
    view_cursor,
)
from interlock.adapters.sizes import (
    PAGE_BYTES,
    TRANSACTION_BYTES,
    check_key,
    check_keys,
    check_size,
    check_writes,
    item_size,
)
from interlock.engine.ports import (
    LAST,
    Condition,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    Page,
    Put,
    Update,
    Value,
    Write,
)

_Place = tuple[str, str, str]
"""Of an item in a view: view_at, pk, sk."""


class _Partition:
    __slots__ = ("items", "order")

    def __init__(self) -> None:
        self.items: dict[str, tuple[Item, int]] = {}
        self.order: list[str] = []


class MemoryTable:
    """Implements `Table` and `Views`."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._partitions: dict[str, _Partition] = {}
        self._views: dict[str, list[_Place]] = {}

    def get(self, key: Key) -> Item | None:
        check_key(key)
        with self._lock:
            old = self._find(key)
            return None if old is None else dict(old)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        check_keys(keys)
        with self._lock:
            found = [self._find(key) for key in keys]
            return [None if item is None else dict(item) for item in found]

    snapshot = get_many

    def query(
        self,
        pk: str,
        *,
        first: str = "",
        last: str = LAST,
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        if not check_range(first, last, limit):
            return Page((), None)
        after = None if cursor is None else parse_key_cursor(cursor, pk, first, last)
        with self._lock:
            partition = self._partitions.get(pk)
            if partition is None:
                return Page((), None)
            order = partition.order
            begin, end = bisect_left(order, first), bisect_right(order, last)
            if after is not None:
                if descending:
                    end = bisect_left(order, after)
                else:
                    begin = bisect_right(order, after)
            places = order[begin:end]
            if descending:
                places.reverse()
            rows: list[tuple[Key, Item]] = []
            read = 0
            for sk in places:
                if len(rows) == limit or read >= PAGE_BYTES:
                    return Page(tuple(rows), key_cursor(rows[-1][0]))
                item, size = partition.items[sk]
                rows.append((Key(pk, sk), dict(item)))
                read += size
            return Page(tuple(rows), None)

    def query_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        if not check_range(first, last, limit):
            return Page((), None)
        after = None
        if cursor is not None:
            view_at, key = parse_view_cursor(cursor, view, first, last)
            after = (view_at, key.pk, key.sk)
        with self._lock:
            places = self._in_view(view, first, last)
            if after is not None:
                places = (
                    places[: bisect_left(places, after)]
                    if descending
                    else places[bisect_right(places, after) :]
                )
            rows: list[tuple[Key, Item]] = []
            read = 0
            for _, pk, sk in reversed(places) if descending else places:
                item, size = self._partitions[pk].items[sk]
                if not _matches(item, equals):
                    continue
                if len(rows) == limit or read >= PAGE_BYTES:
                    key, previous = rows[-1]
                    return Page(tuple(rows), view_cursor(view, str(previous["view_at"]), key))
                rows.append((Key(pk, sk), dict(item)))
                read += size
            return Page(tuple(rows), None)

    def count_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
    ) -> int:
        if not check_range(first, last, None):
            return 0
        with self._lock:
            places = self._in_view(view, first, last)
            if not equals:
                return len(places)
            return sum(_matches(self._partitions[pk].items[sk][0], equals) for _, pk, sk in places)

    def peek(self, keys: Sequence[Key]) -> list[Item | None]:
        return self.get_many(keys)

    def write(self, *writes: Write) -> None:
        check_writes(writes)
        with self._lock:
            olds = [self._find(write.key) for write in writes]
            changes = [_change(write, old) for write, old in zip(writes, olds, strict=True)]
            failed = {
                position: {} if old is None else dict(old)
                for position, (write, old) in enumerate(zip(writes, olds, strict=True))
                if write.conditions and not _hold(write.conditions, write.key, old)
            }
            if failed:
                raise ConditionFailed(failed)
            for _, size in changes:
                check_size(size)
            if len(writes) > 1 and sum(size for _, size in changes) > TRANSACTION_BYTES:
                raise ValueError(f"a transaction has at most {TRANSACTION_BYTES} bytes")
            for write, old, (new, size) in zip(writes, olds, changes, strict=True):
                if new is not old:
                    self._replace(write.key, old, new, size)

    def _find(self, key: Key) -> Item | None:
        partition = self._partitions.get(key.pk)
        row = None if partition is None else partition.items.get(key.sk)
        return None if row is None else row[0]

    def _in_view(self, view: str, first: str, last: str) -> list[_Place]:
        places = self._views.get(view, [])
        return places[bisect_left(places, (first,)) : bisect_left(places, (last + "\0",))]

    def _replace(self, key: Key, old: Item | None, new: Item | None, size: int) -> None:
        self._move_in_views(key, old, new)
        partition = self._partitions.get(key.pk)
        if partition is None:
            if new is None:
                return
            partition = self._partitions[key.pk] = _Partition()
        if new is not None:
            if old is None:
                insort(partition.order, key.sk)
            partition.items[key.sk] = new, size
        elif old is not None:
            del partition.items[key.sk]
            del partition.order[bisect_left(partition.order, key.sk)]
            if not partition.order:
                del self._partitions[key.pk]

    def _move_in_views(self, key: Key, old: Item | None, new: Item | None) -> None:
        before, after = _view_place(key, old), _view_place(key, new)
        if before == after:
            return
        if before is not None:
            view, place = before
            places = self._views[view]
            del places[bisect_left(places, place)]
            if not places:
                del self._views[view]
        if after is not None:
            view, place = after
            insort(self._views.setdefault(view, []), place)


def _view_place(key: Key, item: Item | None) -> tuple[str, _Place] | None:
    if item is None or "view" not in item or "view_at" not in item:
        return None
    return str(item["view"]), (str(item["view_at"]), key.pk, key.sk)


def _same(one: Value | None, other: Value) -> bool:
    # A number is never equal to a truth value, as it would be in Python.
    return type(one) is type(other) and one == other


def _exceeds(one: Any, other: Any) -> bool:
    # What DynamoDB compares by UTF-8 bytes, Python compares by code points: the order is the same.
    return type(one) is type(other) and one > other


def _matches(item: Item, equals: Mapping[str, Value]) -> bool:
    return all(_same(item.get(name), value) for name, value in equals.items())


def _hold(conditions: Iterable[Condition], key: Key, old: Item | None) -> bool:
    for condition in conditions:
        name = condition.attribute
        value = None
        if old is not None:
            value = key.pk if name == "pk" else key.sk if name == "sk" else old.get(name)
        if isinstance(condition, Missing):
            if value is not None:
                return False
        elif isinstance(condition, Equals):
            if not _same(value, condition.value):
                return False
        elif not _exceeds(value, condition.value):
            return False
    return True


def _change(write: Write, old: Item | None) -> tuple[Item | None, int]:
    """The item after the write, and its size."""
    if isinstance(write, Put):
        new = dict(write.item)
    elif isinstance(write, Update):
        new = {} if old is None else dict(old)
        new.update(write.set)
        for name in write.remove:
            new.pop(name, None)
    else:
        check_key(write.key)
        return None if isinstance(write, Delete) else old, 0
    return new, item_size(write.key, new)


class MemoryWaker:
    """Implements `Waker`: keeps the wakes until somebody takes them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._turns: list[tuple[str, str, int]] = []
        self._pushes: list[tuple[str, str]] = []
        self._timers: list[tuple[Key, datetime]] = []
        self._chains: list[str] = []
        self._walks: list[tuple[str, int]] = []
        self._children: list[tuple[str, str]] = []
        self._notices: list[tuple[str, str]] = []
        self._refreshes: list[tuple[str, str]] = []

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        with self._lock:
            self._turns.append((tenant, task_id, turn))

    def wake_push(self, tenant: str, task_id: str) -> None:
        with self._lock:
            self._pushes.append((tenant, task_id))

    def wake_seal(self, chain: str) -> None:
        with self._lock:
            self._chains.append(chain)

    def wake_walk(self, scope: str, generation: int) -> None:
        with self._lock:
            self._walks.append((scope, generation))

    def wake_children(self, tenant: str, task_id: str) -> None:
        with self._lock:
            self._children.append((tenant, task_id))

    def wake_refresh(self, tenant: str, name: str) -> None:
        with self._lock:
            self._refreshes.append((tenant, name))

    def wake_notices(self, tenant: str, task_id: str) -> None:
        with self._lock:
            self._notices.append((tenant, task_id))

    def wake_timer(self, key: Key, at: datetime) -> None:
        with self._lock:
            self._timers.append((key, at))

    def take_turns(self) -> list[tuple[str, str, int]]:
        """Tenant, task and turn of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._turns = self._turns, []
            return taken

    def take_pushes(self) -> list[tuple[str, str]]:
        """Tenant and task of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._pushes = self._pushes, []
            return taken

    def take_chains(self) -> list[str]:
        """The chain of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._chains = self._chains, []
            return taken

    def take_walks(self) -> list[tuple[str, int]]:
        """Scope and generation of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._walks = self._walks, []
            return taken

    def take_children(self) -> list[tuple[str, str]]:
        """Tenant and task of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._children = self._children, []
            return taken

    def take_refreshes(self) -> list[tuple[str, str]]:
        """Tenant and name of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._refreshes = self._refreshes, []
            return taken

    def take_notices(self) -> list[tuple[str, str]]:
        """Tenant and task of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._notices = self._notices, []
            return taken

    def take_timers(self) -> list[tuple[Key, datetime]]:
        """Due row and time of every wake since the last call, oldest first."""
        with self._lock:
            taken, self._timers = self._timers, []
            return taken
