"""What it costs is computed, and the page says what is computed."""

import re
from pathlib import Path

import pytest
from tests.performance.money import Money, measure

PAGE = Path(__file__).parents[2] / "docs" / "cost.md"


@pytest.fixture(scope="module")
def measured() -> dict[str, Money]:
    return {money.what: money for money in measure()}


def test_the_page_says_what_is_computed(measured: dict[str, Money]) -> None:
    """If this fails, take what `python -m tests.performance money` prints."""
    rows = re.findall(r"^\| (.+) \| ([0-9.]+) \|$", PAGE.read_text(), re.MULTILINE)
    told = {what: float(dollars) for what, dollars in rows}
    assert told == {what: pytest.approx(money.dollars, rel=0.1) for what, money in measured.items()}


def test_a_halt_costs_by_what_runs_and_nothing_beside(measured: dict[str, Money]) -> None:
    none, some, many = (
        measured[f"a halt with {number} accepted turns"] for number in ("0", "1,000", "10,000")
    )
    assert many.writes - none.writes == 10 * (some.writes - none.writes)
    assert many.api_requests == none.api_requests == 1
