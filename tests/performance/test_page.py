"""What the page weighs is a number of bytes, and has a budget."""

from tests.performance.page import first, scripts, sizes

FIRST = 70_000
"""Bytes, gzipped, before the first paint."""
SCRIPTS = 120_000


def test_the_page_is_small() -> None:
    weights = sizes()
    assert first(weights) <= FIRST
    assert scripts(weights) <= SCRIPTS


def test_forms_and_figures_come_when_they_are_looked_at() -> None:
    weights = sizes()
    assert first(weights) < 0.8 * sum(weights.values())
