"""Searching the audit trail of a tenant, the newest first: a bounded look at a time.

Records are found by their number alone, so what is looked for is compared record by record; only a time is
found by halving, because the numbers of a chain go with it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.a2a.models import timestamp
from interlock.engine.facts import actor
from interlock.engine.ports import Item, Table
from interlock.engine.seal import head, records_pk, seq_sk
from interlock.oversight.principals import Kind, Principal, Role

MATCHES = 50
"""On a page."""
LOOKED_AT = 1000
"""Records for one page: some 900 KB, so it is one or two queries."""
OUT_OF_ORDER = timedelta(minutes=15)
"""By how much a record may be older than one before it: facts are sealed later, and hosts have clocks of
their own."""
MAX_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for. `who` is an identity, also where it acted as an operator; times are of records."""

    task: str | None = None
    who: str | None = None
    method: str | None = None
    kind: str | None = None
    after: datetime | None = None
    before: datetime | None = None

    def matches(self, record: Mapping[str, Any]) -> bool:
        time = record["time"]
        return (
            self.task in (None, record.get("taskId"))
            and self.method in (None, record.get("method"))
            and self.kind in (None, record["kind"])
            and (self.who is None or _acted(record, self.who))
            and (self.after is None or time >= timestamp(self.after))
            and (self.before is None or time < timestamp(self.before))
        )


@dataclass(frozen=True, slots=True)
class Found:
    """`looked` records were compared for this page."""

    records: list[dict[str, Any]]
    cursor: str | None
    looked: int


def search(trail: Table | None, caller: Principal, wanted: Wanted, cursor: str | None) -> Found:
    """In the caller's tenant. `trail` is None where there is none. Raises `PermissionDenied` for who is no
    operator, `InvalidParams` for a bad cursor."""
    if caller.kind is not Kind.PERSON or not caller.has(Role.OPERATOR):
        raise PermissionDenied("Only a tenant's operators search its trail")
    if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= MAX_DIGITS):
        raise InvalidParams("The cursor is not valid")
    if trail is None:
        return Found([], None, 0)
    pk = records_pk(caller.tenant)
    last = int(cursor) - 1 if cursor is not None else _last(trail, caller.tenant, wanted.before)
    oldest = timestamp(_moved(wanted.after, -OUT_OF_ORDER)) if wanted.after is not None else ""
    records: list[dict[str, Any]] = []
    looked, reached, more = 0, last, last > 0
    while more and looked < LOOKED_AT and len(records) < MATCHES:
        page = trail.query(pk, last=seq_sk(reached), descending=True, limit=LOOKED_AT - looked)
        more = page.cursor is not None
        for _, item in page.rows:
            record = _record(item)
            looked, reached = looked + 1, record["seq"] - 1
            if record["time"] < oldest:
                return Found(records, None, looked)
            if wanted.matches(record):
                records.append(record)
                if len(records) == MATCHES:
                    more = reached > 0
                    break
    return Found(records, str(reached + 1) if more and reached > 0 else None, looked)


def _last(trail: Table, chain: str, before: datetime | None) -> int:
    """The number from which to look back: of the newest record, or of one that is surely not before."""
    newest = head(trail, chain).seq
    if before is None:
        return newest
    bound = timestamp(_moved(before, OUT_OF_ORDER))
    low, high = 0, newest
    while low < high:
        middle = (low + high) // 2
        rows = trail.query(records_pk(chain), first=seq_sk(middle + 1), limit=1).rows
        if rows and _record(rows[0][1])["time"] < bound:
            low = max(_record(rows[0][1])["seq"], middle + 1)
        else:
            high = middle
    return min(low, newest)


def _moved(at: datetime, by: timedelta) -> datetime:
    """Itself, where there is no time so early or so late."""
    try:
        return at + by
    except OverflowError:
        return at


def _record(item: Item) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(item["record"]))
    return found


def _acted(record: Mapping[str, Any], who: str) -> bool:
    return record.get("actor") in (actor(who), actor(f"operator:{who}"))
