"""What the contract is about: a table with its views, and helpers to read all of it."""

from collections.abc import Iterator
from typing import Any, Protocol

from interlock.engine.ports import Item, Key, Page, Table, Views


class Store(Table, Views, Protocol):
    pass


def pages_of(store: Store, pk: str, **options: Any) -> Iterator[Page]:
    cursor = None
    while True:
        page = store.query(pk, cursor=cursor, **options)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def pages_of_view(store: Store, view: str, **options: Any) -> Iterator[Page]:
    cursor = None
    while True:
        page = store.query_view(view, cursor=cursor, **options)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


def rows_of(pages: Iterator[Page]) -> list[tuple[Key, Item]]:
    return [row for page in pages for row in page.rows]
