"""Requests to DynamoDB are counted, not timed: an operation that gets dearer fails here."""

import pytest
from tests.performance.operations import OperationCost, measure

READ, BATCH, QUERY, WRITE = "GetItem", "BatchGetItem", "Query", "TransactWriteItems"

EXPECTED = {
    "authenticate a bearer token": [READ],
    "send, returning immediately": [WRITE],
    "send with an idempotency key": [WRITE],
    "send that goes on with a task": [QUERY, WRITE],
    "get a task": [QUERY],
    "list 50 tasks": [QUERY, BATCH, QUERY],
    "list 50 open checkpoints": [QUERY],
    "get a checkpoint": [READ],
    "turn that asks": [QUERY, WRITE, WRITE],
    "turn that completes": [QUERY, WRITE, WRITE],
    "answer at the people's door": [BATCH, WRITE],
    "answer over A2A": [QUERY, WRITE],
    "answer again, having won": [BATCH],
    "answer that comes too late": [BATCH],
    "vote that decides": [BATCH, WRITE],
    "cancel": [QUERY, WRITE],
    "deadline that passes": [READ, BATCH, WRITE],
}


@pytest.fixture(scope="module")
def measured() -> dict[str, OperationCost]:
    return {cost.operation: cost for cost in measure()}


@pytest.mark.parametrize("operation", EXPECTED)
def test_an_operation_makes_just_these_requests(measured: dict[str, OperationCost], operation: str) -> None:
    assert list(measured[operation].requests) == EXPECTED[operation]


def test_a_send_and_an_answer_take_two_round_trips_at_most_and_a_read_one(
    measured: dict[str, OperationCost],
) -> None:
    assert len(measured["send with an idempotency key"].requests) <= 2
    assert len(measured["answer over A2A"].requests) <= 2
    assert len(measured["get a task"].requests) == 1
