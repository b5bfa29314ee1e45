"""What the calls of an operation cost on DynamoDB: requests, and read and write units.

Computed from the sizes of the items by the rules of the Amazon DynamoDB Developer Guide ("DynamoDB on-demand
capacity mode", "Provisioned throughput considerations for Global Secondary Indexes", "Amazon DynamoDB
Transactions: how it works"), because what emulators report is not what AWS bills.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.stores import Store, pages_of_view

from interlock.adapters.dynamodb import FILTERED_PAGE, FILTERED_PAGES
from interlock.adapters.sizes import PAGE_BYTES, item_size
from interlock.engine.ports import (
    LAST,
    Check,
    ConditionFailed,
    Delete,
    Item,
    Key,
    OutcomeUnknown,
    Page,
    Put,
    Update,
    Value,
    Write,
)

READ_UNIT = 4096
WRITE_UNIT = 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request, by the name DynamoDB gives it, and the units it takes."""

    operation: str
    reads: float = 0.0
    writes: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    reads: float
    writes: float


def cost(requests: Iterable[Request]) -> Cost:
    made = list(requests)
    return Cost(len(made), sum(request.reads for request in made), sum(request.writes for request in made))


class CountingTable:
    """Implements `Table` and `Views`: passes calls on, and writes down what `DynamoTable` sends for them.

    It reads besides, to know how large the items are; `sizes_from` is where, if not from the table itself.
    Not for calls that race.
    """

    def __init__(self, table: Store, sizes_from: Store | None = None) -> None:
        self._table = table
        self._sizes = sizes_from or table
        self._requests: list[Request] = []

    def take(self) -> list[Request]:
        """The requests since the last call, in their order."""
        taken, self._requests = self._requests, []
        return taken

    def get(self, key: Key) -> Item | None:
        item = self._table.get(key)
        self._requests.append(Request("GetItem", reads=_read_units(_size(key, item))))
        return item

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        items = self._table.get_many(keys)
        if keys:
            # Each item is rounded up by itself, unlike those of a query.
            reads = sum(_read_units(_size(key, item)) for key, item in zip(keys, items, strict=True))
            self._requests.append(Request("BatchGetItem", reads=reads))
        return items

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        items = self._table.snapshot(keys)
        if keys:
            # A transaction reads each item twice.
            reads = sum(2 * _read_units(_size(key, item)) for key, item in zip(keys, items, strict=True))
            self._requests.append(Request("TransactGetItems", reads=reads))
        return items

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
        page = self._table.query(
            pk, first=first, last=last, descending=descending, limit=limit, cursor=cursor
        )
        size = _page_size(page)
        if page.cursor is not None and size < PAGE_BYTES:
            beyond = self._sizes.query(
                pk, first=first, last=last, descending=descending, limit=1, cursor=page.cursor
            )
            size += _page_size(beyond)
        self._requests.append(Request("Query", reads=_read_units(size)))
        return page

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
        page = self._table.query_view(
            view,
            first=first,
            last=last,
            equals=equals,
            descending=descending,
            limit=limit,
            cursor=cursor,
        )
        asked = None if limit is None else max(limit + 1, FILTERED_PAGE) if equals else limit + 1
        matches = 0
        for _ in range(FILTERED_PAGES):
            read = self._sizes.query_view(
                view, first=first, last=last, descending=descending, limit=asked, cursor=cursor
            )
            self._requests.append(_view_request(_page_size(read)))
            matches += sum(equals.items() <= item.items() for _, item in read.rows)
            cursor = read.cursor
            if limit is None or not equals or matches > limit:
                break
            if cursor is None:
                if len(read.rows) == asked:
                    # DynamoDB does not say that a full page is the last one.
                    self._requests.append(_view_request(0))
                break
        return page

    def count_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
    ) -> int:
        for page in pages_of_view(self._sizes, view, first=first, last=last):
            self._requests.append(_view_request(_page_size(page)))
        return self._table.count_view(view, first=first, last=last, equals=equals)

    def peek(self, keys: Sequence[Key]) -> list[Item | None]:
        reads = sum(
            _read_units(_size(key, item)) for key, item in zip(keys, self._sizes.get_many(keys), strict=True)
        )
        self._requests.append(Request("BatchGetItem", reads=reads / 2))
        return self._table.peek(keys)

    def write(self, *writes: Write) -> None:
        keys = [write.key for write in writes]
        known = dict(zip(keys, self._sizes.get_many(list(dict.fromkeys(keys))), strict=False))
        changes = [(write.key, known[write.key], _after(write, known[write.key])) for write in writes]
        try:
            self._table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            # A condition that fails is paid for, like the write; the index is not written.
            self._requests.append(_write_request(writes, changes, written=False))
            raise
        self._requests.append(_write_request(writes, changes, written=True))


_Change = tuple[Key, Item | None, Item | None]


def _after(write: Write, before: Item | None) -> Item | None:
    if isinstance(write, Put):
        return write.item
    if isinstance(write, Update):
        kept = {name: value for name, value in (before or {}).items() if name not in write.remove}
        return kept | write.set
    return None if isinstance(write, Delete) else before


def _write_request(writes: Sequence[Write], changes: Sequence[_Change], *, written: bool) -> Request:
    units = float(sum(_write_units(max(_size(key, old), _size(key, new))) for key, old, new in changes))
    if len(writes) > 1:
        # Prepared, then committed.
        operation, units = "TransactWriteItems", 2 * units
    else:
        operation = {Put: "PutItem", Update: "UpdateItem", Delete: "DeleteItem", Check: ""}[type(writes[0])]
    if written:
        units += sum(_index_units(*change) for change in changes)
    return Request(operation, writes=units)


def _index_units(key: Key, old: Item | None, new: Item | None) -> int:
    """An entry that moves is deleted and written; one that stays is written if anything of it changes."""
    was, is_now = _place(old), _place(new)
    if was == is_now:
        return 0 if was is None or old == new else _write_units(max(_size(key, old), _size(key, new)))
    return sum(
        _write_units(_size(key, item)) for place, item in ((was, old), (is_now, new)) if place is not None
    )


def _place(item: Item | None) -> tuple[Value, Value] | None:
    if item is None or "view" not in item or "view_at" not in item:
        return None
    return item["view"], item["view_at"]


def _view_request(size: int) -> Request:
    return Request("Query", reads=_read_units(size) / 2)


def _page_size(page: Page) -> int:
    return sum(item_size(key, item) for key, item in page.rows)


def _size(key: Key, item: Item | None) -> int:
    return 0 if item is None else item_size(key, item)


def _read_units(size: int) -> float:
    """Of a strongly consistent read; half of it of an eventually consistent one."""
    return float(max(1, -(-size // READ_UNIT)))


def _write_units(size: int) -> int:
    return max(1, -(-size // WRITE_UNIT))
