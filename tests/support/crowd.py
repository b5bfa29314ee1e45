"""Many at once."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

FULL = os.environ.get("INTERLOCK_RACE") == "full"
"""Races at the size that `make race` has."""

T = TypeVar("T")


def at_once(*acts: Callable[[], T]) -> list[T | Exception]:
    """What each came back with, or what it raised. They begin together."""
    barrier = Barrier(len(acts))

    def run(act: Callable[[], T]) -> T | Exception:
        barrier.wait(timeout=60)
        try:
            return act()
        except Exception as error:  # noqa: BLE001 (it is for the test to judge)
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def split(outcomes: Sequence[T | Exception]) -> tuple[list[tuple[int, T]], list[Exception]]:
    """Who was accepted, by number, and why the others were not."""
    accepted = [(number, found) for number, found in enumerate(outcomes) if not isinstance(found, Exception)]
    return accepted, [found for found in outcomes if isinstance(found, Exception)]
