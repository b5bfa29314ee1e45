"""A table that is busy as DynamoDB can be, in time that is simulated: whoever waits lets others go on.

Two requests of which one is a transaction conflict while they touch an item at the same time, also one that a
transaction only has a condition on (Amazon DynamoDB Developer Guide, "Transaction conflict handling"). The
later one is refused. Emulators know no conflicts.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from greenlet import getcurrent, greenlet

from interlock.adapters.dynamodb import BACK_OFF_SECONDS, READ_TRIES
from interlock.engine.ports import Item, Key, OutcomeUnknown, Page, Table, Write

START = datetime(2026, 1, 1, tzinfo=UTC)
WRITE_SECONDS = 0.02
"""Of a transaction, in which its items are held; a single write and a read take half of it."""


@dataclass
class Timeline:
    """Implements `Clock`. Actors are functions that sleep; between that, time stands still."""

    time: float = 0.0
    _waiting: list[tuple[float, int, greenlet]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=count)

    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    def sleep(self, seconds: float) -> None:
        me = getcurrent()
        if me.parent is None:
            # Nobody else is there yet.
            self.time += seconds
            return
        heapq.heappush(self._waiting, (self.time + seconds, next(self._numbers), me))
        me.parent.switch()

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._waiting, (seconds, next(self._numbers), greenlet(act)))

    def run(self) -> None:
        """Until all have ended."""
        while self._waiting:
            self.time, _, actor = heapq.heappop(self._waiting)
            actor.switch()


@dataclass
class BusyTable:
    """Implements `Table`. `conflicts` counts the requests that were refused for one."""

    table: Table
    timeline: Timeline
    held: Counter[Key] = field(default_factory=Counter)
    conflicts: int = 0

    def get(self, key: Key) -> Item | None:
        self.timeline.sleep(WRITE_SECONDS / 2)
        return self.table.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        self.timeline.sleep(WRITE_SECONDS / 2)
        return self.table.get_many(keys)

    def query(self, pk: str, **options: Any) -> Page:
        self.timeline.sleep(WRITE_SECONDS / 2)
        return self.table.query(pk, **options)

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        """Tried again as `DynamoTable` does."""
        for attempt in range(1, READ_TRIES + 1):
            self.timeline.sleep(WRITE_SECONDS / 2)
            if not any(self.held[key] for key in keys):
                return self.table.snapshot(keys)
            self.conflicts += 1
            self.timeline.sleep(BACK_OFF_SECONDS * 2**attempt / 2)
        raise OutcomeUnknown("TransactionConflict")

    def write(self, *writes: Write) -> None:
        keys = [write.key for write in writes]
        if any(self.held[key] for key in keys):
            self.conflicts += 1
            self.timeline.sleep(WRITE_SECONDS / 2)
            raise OutcomeUnknown("TransactionConflict")
        with self._holding(keys if len(keys) > 1 else []):
            self.timeline.sleep(WRITE_SECONDS if len(keys) > 1 else WRITE_SECONDS / 2)
        self.table.write(*writes)

    @contextmanager
    def _holding(self, keys: Sequence[Key]) -> Iterator[None]:
        self.held.update(keys)
        yield
        self.held.subtract(keys)
