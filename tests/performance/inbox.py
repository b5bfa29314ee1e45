"""Requests and units of what people's pages ask for, with few and with many checkpoints of each kind.

A million of them is computed: what a page reads is `limit + 1` items of the index, so its units are those of
their sizes, however many there are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from uuid import uuid4

from tests.performance.operations import TEXT
from tests.support.twin import ANN, Deployment, asking
from tests.support.units import CountingTable, cost

from interlock.adapters.sizes import item_size
from interlock.doors.people.changes import POLL_SECONDS
from interlock.engine.changes import look
from interlock.engine.figures import figures
from interlock.engine.inbox import checkpoint, history, open_checkpoints
from interlock.engine.ports import Key, Put
from interlock.engine.records import Checkpoint, history_view, inbox_view, instant, parse_instant
from interlock.engine.shown import Question

COUNTS = (10, 10_000)
COMPUTED = 1_000_000
PAGE = 4
"""Small enough that the fewest fill two."""

ListPage = Callable[..., tuple[list[Question], str | None]]


@dataclass(frozen=True, slots=True)
class InboxCost:
    """`there` is how many checkpoints are open, and closed."""

    operation: str
    there: str
    requests: tuple[str, ...]
    reads: float


class Full:
    """A deployment with so many open checkpoints, and as many closed ones, all alike."""

    def __init__(self, count: int) -> None:
        self.twin = Deployment(asking(TEXT_SCHEMA, deadline=timedelta(hours=1)))
        self.there = count
        self.task_id = self.twin.send(TEXT).id
        self.ask_id = self.twin.open_prompt(self.task_id)
        (asked,) = self.twin.prompts(self.task_id)
        for number in range(count - 1):
            self._put(_another(asked, number))
        for number in range(count):
            self._put(_closed(_another(asked, number)))
        self.table = CountingTable(self.twin.table)
        self.engine = replace(self.twin.engine, table=self.table, views=self.table)

    def _put(self, checkpoint: Checkpoint) -> None:
        self.twin.table.write(Put(checkpoint.key, checkpoint.item()))

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of an open one in the index, and of a closed one."""
        found = []
        for view in (inbox_view("acme"), history_view("acme")):
            key, item = self.twin.table.query_view(view, limit=1).rows[0]
            found.append(item_size(Key(key.pk, key.sk), item))
        return found[0], found[1]

    def cost(self, operation: str, call: Callable[[], object]) -> InboxCost:
        self.table.take()
        call()
        requests = self.table.take()
        names = tuple(request.operation for request in requests)
        return InboxCost(operation, f"{self.there:,}", names, cost(requests).reads)

    def measure(self) -> Iterator[InboxCost]:
        lists: tuple[tuple[str, ListPage], ...] = (("open", open_checkpoints), ("closed", history))
        for name, listed in lists:
            _, cursor = listed(self.engine, ANN, None, PAGE)
            yield self.cost(f"first {PAGE} {name}", partial(listed, self.engine, ANN, None, PAGE))
            yield self.cost(f"next {PAGE} {name}", partial(listed, self.engine, ANN, cursor, PAGE))
        yield self.cost("one of them", lambda: checkpoint(self.engine, ANN, self.task_id, self.ask_id))
        yield self.cost(
            f"look of who waits for changes, each {POLL_SECONDS:g} s", lambda: look(self.engine, ANN)
        )


TEXT_SCHEMA = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}


def _another(asked: Checkpoint, number: int) -> Checkpoint:
    ask_id = str(uuid4())
    at = instant(parse_instant(asked.asked_at) + timedelta(hours=1, milliseconds=number))
    return replace(asked, task_id=str(uuid4()), ask_id=ask_id, deadline=at, view_at=f"{at}#{ask_id}")


def _closed(asked: Checkpoint) -> Checkpoint:
    at = asked.deadline
    return replace(
        asked,
        status=Checkpoint.ANSWERED,
        votes=f'{{"{ANN.id}": ["sha256:{"0" * 64}", "{uuid4()}"]}}',
        closed_at=at,
        closed_by=ANN.id,
        turn=2,
        view=history_view("acme"),
        view_at=f"{at}#{asked.ask_id}",
    )


def measure() -> list[InboxCost]:
    """The last are of `COMPUTED` checkpoints, from the sizes of one of each kind."""
    costs = [found for count in COUNTS for found in Full(count).measure()]
    figured = Full(1200)
    costs.append(figured.cost("statistics, of the newest 1,000", lambda: figures(figured.engine, ANN, 7)))
    return [*costs, *computed(Full(COUNTS[0]).sizes)]


def computed(sizes: tuple[int, int]) -> Iterator[InboxCost]:
    """By the rule of a query: what it reads, in units of 4 KB, at half the price as it may lag."""
    for name, size in zip(("open", "closed"), sizes, strict=True):
        units = max(1, -(-(PAGE + 1) * size // 4096)) / 2
        for which in ("first", "next"):
            yield InboxCost(f"{which} {PAGE} {name}", f"{COMPUTED:,} (computed)", ("Query",), units)
