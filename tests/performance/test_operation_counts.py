"""Requests to DynamoDB are counted, not timed: an operation that gets dearer fails here."""

import pytest
from tests.performance.operations import OperationCost, answer_after, measure

READ, BATCH, QUERY, WRITE = "GetItem", "BatchGetItem", "Query", "TransactWriteItems"
SNAPSHOT = "TransactGetItems"
"""Of what halts a task, and of the task: the one read that halting costs a send, and a turn."""
MOST_WRITE_UNITS = 72
"""Of one question to a person, from the send to the end of the task."""

EXPECTED = {
    "authenticate a bearer token": [READ],
    "note a call on the audit trail": ["PutItem"],
    "send, returning immediately": [WRITE, SNAPSHOT],
    "send with an idempotency key": [WRITE, SNAPSHOT],
    "send that goes on with a task": [QUERY, WRITE],
    "get a task": [QUERY],
    "list 50 tasks": [QUERY, BATCH, QUERY],
    "list 50 open checkpoints": [QUERY],
    "list 50 closed checkpoints": [QUERY],
    "get a checkpoint": [BATCH],
    "turn that asks": [QUERY, WRITE, SNAPSHOT, WRITE],
    "turn that completes": [QUERY, WRITE, SNAPSHOT, WRITE],
    "answer at the people's door": [BATCH, WRITE],
    "answer over A2A": [QUERY, WRITE],
    "answer again, having won": [BATCH],
    "answer that comes too late": [BATCH, SNAPSHOT],
    "turn that an answer started": [QUERY, WRITE, SNAPSHOT, WRITE],
    "wake for a turn that is done": [QUERY],
    "vote that does not decide": [BATCH, WRITE],
    "vote that decides": [BATCH, WRITE],
    "cancel": [QUERY, WRITE],
    "halt": [READ, WRITE],
    "resume": [READ, WRITE],
    "send while halted": [WRITE, SNAPSHOT, BATCH, WRITE],
    "answer while halted": [BATCH, WRITE, BATCH],
    "look of a running turn, each second": [BATCH],
    "stop of a turn that waits": [BATCH, WRITE],
    "end of a turn that was stopped": [BATCH, WRITE],
    "deadline that passes": [READ, BATCH, WRITE],
    "seal 30 facts": [QUERY, QUERY, WRITE, QUERY],
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


def test_halting_slows_a_send_by_one_strong_read_and_an_answer_by_none(
    measured: dict[str, OperationCost],
) -> None:
    reads = (READ, BATCH, QUERY, SNAPSHOT)
    sent = measured["send, returning immediately"].requests
    assert [request for request in sent if request in reads] == [SNAPSHOT]
    assert measured["answer at the people's door"].requests == (BATCH, WRITE)


def test_one_question_to_a_person_stays_within_its_write_units(measured: dict[str, OperationCost]) -> None:
    assert measured["one whole question: these four steps"].writes <= MOST_WRITE_UNITS


def test_what_an_answer_costs_does_not_grow_with_the_task() -> None:
    assert answer_after(events=2) == answer_after(events=200)
