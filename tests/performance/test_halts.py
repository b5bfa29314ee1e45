"""What a halt costs does not grow with the accepted work, and nothing starts after it."""

from tests.performance.halts import measure


def test_a_halt_costs_the_same_with_any_backlog_and_nothing_is_late() -> None:
    small, large = measure([10, 100], live=5)
    assert (small.halt_requests, small.halt_units) == (large.halt_requests, large.halt_units)
    assert (small.late, large.late) == (0, 0)
    # Each turn that is stopped is read and written, and no more.
    assert large.walk_requests - small.walk_requests <= 2 * (large.accepted - small.accepted)
