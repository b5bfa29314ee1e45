"""What the engine needs from the outside. `adapters` implements these, twice: for AWS and in memory.

The store is a table of items under a partition and a sort key, with conditional writes. It is kept this
small on purpose: every decision is visible in the engine as the conditions it is made under, and the
in-memory twin can be believed because one contract test runs on it and on DynamoDB.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pydantic import JsonValue

from interlock.oversight.schema_gate import Violation

Value = str | int | bool | bytes
Item = dict[str, Value]
"""Attributes of one item without its keys. Structure is kept as JSON text."""


AUDIT = "AUDIT#"
"""Begins the partitions of the audit trail, which a deployment keeps in a table of their own."""
LAST = "\U0010ffff"
"""Sorts behind every sort key."""


@dataclass(frozen=True, slots=True)
class Key:
    pk: str
    sk: str


# Conditions: each is about one attribute of the item as it is before the write.


@dataclass(frozen=True, slots=True)
class Equals:
    attribute: str
    value: Value


@dataclass(frozen=True, slots=True)
class GreaterThan:
    attribute: str
    value: Value


@dataclass(frozen=True, slots=True)
class Missing:
    """The attribute is absent; with `Put`, on an attribute every item has, the item is absent."""

    attribute: str


Condition = Equals | GreaterThan | Missing


@dataclass(frozen=True, slots=True)
class Put:
    """Writes the whole item."""

    key: Key
    item: Item
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Changes attributes of an item. Without a condition it creates the item, as DynamoDB does."""

    key: Key
    set: Item = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete:
    """Deleting what is not there succeeds, unless a condition says otherwise."""

    key: Key
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """Only within several writes: the condition must hold, the item stays."""

    key: Key
    conditions: tuple[Condition, ...]


Write = Put | Update | Delete | Check


class StoreError(Exception):
    pass


class ConditionFailed(StoreError):
    """Somebody else progressed, and nothing was written.

    `old` holds, by the position of the write, the item as it was where that write's condition failed
    (an empty dict for an absent item); positions that did not fail are not in it.
    """

    def __init__(self, old: Mapping[int, Item]) -> None:
        self.old = dict(old)
        super().__init__(f"condition failed at {sorted(self.old)}")


class OutcomeUnknown(StoreError):
    """No answer, a conflict or a throttle: it may or may not be written. Read again, then decide."""


@dataclass(frozen=True, slots=True)
class Page:
    """Items of a query with their keys. `cursor` is opaque and None on the last page."""

    rows: tuple[tuple[Key, Item], ...]
    cursor: str | None


class Table(Protocol):
    """Raises `OutcomeUnknown` where the store does not answer. Reads are strongly consistent."""

    def get(self, key: Key) -> Item | None: ...

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Up to 100 distinct keys, one round trip, in the order asked for. Not a snapshot."""

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        """The same as all of them were at one moment, for twice the units."""

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
        """Items of a partition with first <= sort key <= last. Pages end at 1 MB or `limit`."""

    def write(self, *writes: Write) -> None:
        """All or nothing, at most 100. Raises `ConditionFailed` or `OutcomeUnknown`."""


class Views(Protocol):
    """The eventually consistent index over items that carry `view` and `view_at`.

    It may lag, so no decision may rest on it.
    """

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
        """At most `limit` items that match `equals`, and fewer where they are large: pages end at 1 MB.

        Without `equals` it is one request. Raises `ValueError` for a cursor not ours.
        """

    def count_view(
        self,
        view: str,
        *,
        first: str = "",
        last: str = LAST,
        equals: Mapping[str, Value] = {},
    ) -> int: ...

    def peek(self, keys: Sequence[Key]) -> list[Item | None]:
        """As `Table.get_many`, for half the units: as the items were a moment ago."""


class Waker(Protocol):
    """Wakes somebody who then reads and decides. Late, repeated or lost wakes do no harm."""

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None: ...

    def wake_push(self, tenant: str, task_id: str) -> None:
        """Events of the task are to be delivered to its push notification configurations."""

    def wake_seal(self, chain: str) -> None:
        """There are facts to be sealed into the chain."""

    def wake_walk(self, scope: str, generation: int) -> None:
        """What runs is to be stopped for a halt: a wake for each shard."""

    def wake_children(self, tenant: str, task_id: str) -> None:
        """What the task has delegated may have to be canceled."""

    def wake_refresh(self, tenant: str, name: str) -> None:
        """The card of a registered agent is to be fetched."""

    def wake_notices(self, tenant: str, task_id: str) -> None:
        """Notices of the task are to be given to their renderers."""

    def wake_timer(self, key: Key, at: datetime) -> None:
        """The due row under `key` is to be looked at, not before `at`."""


class Clock(Protocol):
    def now(self) -> datetime:
        """Aware, in UTC."""

    def sleep(self, seconds: float) -> None: ...


class SchemaGuard(Protocol):
    """Untrusted schemas and payloads: bounded in time and memory, no network, nothing executed."""

    def check(self, schema: Any) -> None:
        """Raises `SchemaRefused`."""

    def validate(self, schema: Mapping[str, JsonValue], payload: JsonValue) -> list[Violation]:
        """Every violation, up to a bound; empty when valid. Raises `PayloadUndecided`."""
