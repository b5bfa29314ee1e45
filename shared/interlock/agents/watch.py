"""Looks after the turns that run in this process, from a thread of its own."""

import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.engine.run_turn import TurnRun

logger = logging.getLogger(__name__)

LOOK_EVERY_SECONDS = 0.8
"""With the requests of a look, a run is told of a cancel or a halt within a second."""


@dataclass(slots=True, eq=False)
class _Watched:
    run: TurnRun
    stop: Callable[[], None]
    until: float
    renew_at: float


class Watch:
    """Renews the leases of running turns, also of code that blocks, and stops those that are no longer ours.

    It ends with whoever holds it.
    """

    def __init__(self, renew_every: float) -> None:
        self._renew_every = renew_every
        self._turns: set[_Watched] = set()
        ended = threading.Event()
        threading.Thread(
            target=_look_again_and_again, args=(self._turns, renew_every, ended), name="watch", daemon=True
        ).start()
        weakref.finalize(self, ended.set)

    @contextmanager
    def over(self, run: TurnRun, seconds: float, stop: Callable[[], None]) -> Iterator[None]:
        """Meanwhile `stop` is called when the turn is no longer this run's.

        After `seconds` the lease is not renewed: a turn that has not ended by then counts as lost.
        """
        now = time.monotonic()
        turn = _Watched(run, stop, now + seconds, now + self._renew_every)
        self._turns.add(turn)
        try:
            yield
        finally:
            self._turns.discard(turn)


def _look_again_and_again(turns: set[_Watched], renew_every: float, ended: threading.Event) -> None:
    while not ended.wait(LOOK_EVERY_SECONDS):
        for turn in list(turns):
            try:
                _look(turn, renew_every)
            except Exception:
                logger.exception("a running turn could not be looked at")


def _look(turn: _Watched, renew_every: float) -> None:
    now = time.monotonic()
    if not turn.run.is_held():
        turn.stop()
    elif turn.renew_at <= now < turn.until:
        turn.run.renew()
        turn.renew_at = now + renew_every
