"""What a page of people's asks for costs the same with ten checkpoints and with ten thousand."""

from collections import defaultdict

import pytest
from tests.performance.inbox import COMPUTED, COUNTS, Full, InboxCost, computed

BATCH, QUERY = ("BatchGetItem",), ("Query",)


@pytest.fixture(scope="module")
def by_operation() -> dict[str, list[InboxCost]]:
    found: dict[str, list[InboxCost]] = defaultdict(list)
    full = [Full(count) for count in COUNTS]
    for cost in (*full[0].measure(), *full[1].measure(), *computed(full[0].sizes)):
        found[cost.operation].append(cost)
    return found


def test_each_page_is_one_query_and_costs_the_same_however_many_there_are(
    by_operation: dict[str, list[InboxCost]],
) -> None:
    pages = [costs for operation, costs in by_operation.items() if operation.endswith(("open", "closed"))]
    assert len(pages) == 4
    for costs in pages:
        assert [cost.there for cost in costs] == ["10", "10,000", f"{COMPUTED:,} (computed)"]
        assert {(cost.requests, cost.reads) for cost in costs} == {(QUERY, costs[0].reads)}


def test_so_do_one_checkpoint_and_the_look_of_who_waits(by_operation: dict[str, list[InboxCost]]) -> None:
    others = [
        costs for operation, costs in by_operation.items() if not operation.endswith(("open", "closed"))
    ]
    assert [[(cost.requests, cost.reads) for cost in costs] for costs in others] == [
        [(BATCH, 2.0)] * 2,
        [(BATCH, 1.0)] * 2,
    ]
