"""What a halt costs does not grow with the accepted work, and nothing starts after it."""

from tests.performance.halts import TRIES, measure

LIVE = 5
MEANWHILE = 2 * LIVE + TRIES
"""How often others may write what the walk has just read: each live worker that it stops, and that it has
stopped; and each turn that would start. The walk looks again then."""


def test_a_halt_costs_the_same_with_any_backlog_and_nothing_is_late() -> None:
    small, large = measure([10, 200], live=LIVE)
    assert (small.halt_requests, small.halt_units) == (large.halt_requests, large.halt_units)
    assert (small.late, large.late) == (0, 0)
    # Each turn that is stopped is read and written, and no more.
    more = large.accepted - small.accepted
    assert large.walk_requests - small.walk_requests <= 2 * (more + MEANWHILE) < 3 * more
