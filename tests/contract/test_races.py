"""Fifty at once: one conditional write decides, and every loser is told who won."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from tests.support.stores import Store, pages_of, rows_of

from interlock.engine.ports import Check, ConditionFailed, Equals, Item, Key, Missing, Put, Update

CROWD = 50
KEY = Key("T#acme#1", "ASK#1")
META = Key("T#acme#1", "META")
HALT = Key("HALT#0", "acme")


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    """Threads change places so often that a twin without its lock is caught."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(act: Callable[[int], object]) -> list[object]:
    """What each of the crowd came back with, a `ConditionFailed` included."""
    barrier = Barrier(CROWD)

    def run(number: int) -> object:
        barrier.wait(timeout=30)
        try:
            return act(number)
        except ConditionFailed as failure:
            return failure

    with ThreadPoolExecutor(CROWD) as pool:
        return list(pool.map(run, range(CROWD)))


def winners(outcomes: list[object]) -> list[int]:
    return [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, ConditionFailed)]


def losses(outcomes: list[object]) -> list[dict[int, Item]]:
    return [outcome.old for outcome in outcomes if isinstance(outcome, ConditionFailed)]


def test_one_of_fifty_creates_the_item(exact_store: Store) -> None:
    outcomes = at_once(lambda number: exact_store.write(Put(KEY, {"by": number}, (Missing("by"),))))
    (winner,) = winners(outcomes)
    assert exact_store.get(KEY) == {"by": winner}
    assert losses(outcomes) == [{0: {"by": winner}}] * (CROWD - 1)


def test_one_of_fifty_updates_the_revision_that_all_read(exact_store: Store) -> None:
    exact_store.write(Put(KEY, {"rev": 1}))
    outcomes = at_once(
        lambda number: exact_store.write(
            Update(KEY, {"rev": 2, "by": number}, conditions=(Equals("rev", 1),))
        )
    )
    (winner,) = winners(outcomes)
    assert exact_store.get(KEY) == {"rev": 2, "by": winner}
    assert losses(outcomes) == [{0: {"rev": 2, "by": winner}}] * (CROWD - 1)


def test_one_of_fifty_transactions_is_written_and_none_of_the_others(exact_store: Store) -> None:
    exact_store.write(Put(KEY, {"status": "open"}), Put(META, {"rev": 1}))

    def answer(number: int) -> None:
        exact_store.write(
            Update(KEY, {"status": "answered", "by": number}, conditions=(Equals("status", "open"),)),
            Update(META, {"rev": 2, "by": number}, conditions=(Equals("rev", 1),)),
            Put(Key("T#acme#1", f"EVT#{number:02}"), {"by": number}, (Missing("by"),)),
        )

    outcomes = at_once(answer)
    (winner,) = winners(outcomes)
    assert rows_of(pages_of(exact_store, "T#acme#1")) == [
        (KEY, {"status": "answered", "by": winner}),
        (Key("T#acme#1", f"EVT#{winner:02}"), {"by": winner}),
        (META, {"rev": 2, "by": winner}),
    ]
    assert losses(outcomes) == [{0: {"status": "answered", "by": winner}, 1: {"rev": 2, "by": winner}}] * (
        CROWD - 1
    )


def test_a_count_never_falls_short(exact_store: Store) -> None:
    exact_store.write(Put(KEY, {"votes": 0}))

    def vote(number: int) -> None:
        while True:
            item = exact_store.get(KEY)
            assert item is not None
            votes = item["votes"]
            assert isinstance(votes, int)
            try:
                exact_store.write(
                    Update(
                        KEY, {"votes": votes + 1, f"by{number}": True}, conditions=(Equals("votes", votes),)
                    )
                )
            except ConditionFailed:
                continue
            return

    at_once(vote)
    assert exact_store.get(KEY) == {"votes": CROWD} | {f"by{number}": True for number in range(CROWD)}


def test_nothing_is_written_beside_a_check_once_it_fails(exact_store: Store) -> None:
    def act(number: int) -> None:
        if number == CROWD // 2:
            exact_store.write(Put(HALT, {"halted": True}))
        else:
            exact_store.write(Put(Key("acts", f"{number:02}"), {}), Check(HALT, (Missing("halted"),)))

    outcomes = at_once(act)
    acted = [number for number in winners(outcomes) if number != CROWD // 2]
    assert [key.sk for key, _ in exact_store.query("acts").rows] == [f"{number:02}" for number in acted]
    assert losses(outcomes) == [{1: {"halted": True}}] * (CROWD - 1 - len(acted))
    late = at_once(act)
    assert winners(late) == [CROWD // 2]
