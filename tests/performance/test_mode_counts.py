"""What a mode costs in requests: a send that waits for people is one write, and to tell of it adds none."""

import pytest
from tests.performance.modes import measure
from tests.performance.operations import OperationCost

from interlock.agents import Mode

READ, BATCH, QUERY, WRITE = "GetItem", "BatchGetItem", "Query", "TransactWriteItems"
SNAPSHOT = "TransactGetItems"
AT_ONCE = (Mode.AUTONOMOUS, Mode.NOTIFICATION)


@pytest.fixture(scope="module")
def measured() -> dict[str, OperationCost]:
    return {cost.operation: cost for cost in measure()}


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("where", ["with renderers", "without renderers"])
def test_a_send_makes_one_write_and_reads_the_halts_where_it_starts_at_once(
    measured: dict[str, OperationCost], mode: Mode, where: str
) -> None:
    expected = (WRITE, SNAPSHOT) if mode in AT_ONCE else (WRITE,)
    assert measured[f"send, {mode}, {where}"].requests == expected


def test_what_starts_such_a_task_makes_one_write(measured: dict[str, OperationCost]) -> None:
    assert measured["window that passes, with renderers"].requests == (READ, BATCH, SNAPSHOT, WRITE)
    assert measured["approval that starts a task, with renderers"].requests == (QUERY, WRITE)


def test_what_is_autonomous_pays_for_none_of_it(measured: dict[str, OperationCost]) -> None:
    with_, without = (measured[f"send, autonomous, {where} renderers"] for where in ("with", "without"))
    assert (with_.requests, with_.reads, with_.writes) == (without.requests, without.reads, without.writes)
