"""The terms that travel with delegated work: what is read of them, and within which bounds."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from interlock.oversight.delegation import (
    KEY,
    MAX_DEPTH,
    MAX_EXCLUDED,
    MalformedTerms,
    Terms,
    check_deadline,
    check_lease,
    parse_terms,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(),
        Terms(depth=MAX_DEPTH),
        Terms(1, frozenset({"bearer:alice", "jwt:bob"})),
        Terms(2, frozenset(), timedelta(seconds=3)),
        Terms(2, frozenset(), timedelta(seconds=4.5), NOON),
    ],
)
def test_what_is_sent_is_what_is_read(terms: Terms) -> None:
    assert parse_terms({KEY: terms.to_wire()}) == terms


@pytest.mark.parametrize("metadata", [None, {}, {"other": {"depth": 1}}])
def test_work_without_terms_was_not_delegated(metadata: dict[str, Any] | None) -> None:
    assert parse_terms(metadata) is None


def test_what_is_not_known_is_passed_over() -> None:
    assert parse_terms({KEY: {"depth": 1, "later": True}}) == Terms(1)


@pytest.mark.parametrize(
    "said",
    [
        "1",
        [],
        None,
        {"depth": -1},
        {"depth": MAX_DEPTH + 1},
        {"depth": True},
        {"depth": 1.0},
        {"depth": "1"},
        {"excluded": "bearer:alice"},
        {"excluded": ["bearer:alice"] * (MAX_EXCLUDED + 1)},
        {"excluded": ["two words"]},
        {"excluded": ["line\n"]},
        {"excluded": [""]},
        {"excluded": ["x" * 257]},
        {"excluded": [1]},
        {"leaseSeconds": 2.9},
        {"leaseSeconds": 86401},
        {"leaseSeconds": float("nan")},
        {"leaseSeconds": float("inf")},
        {"leaseSeconds": 10**400},
        {"leaseSeconds": "10"},
        {"leaseSeconds": True},
        {"parent": 5},
        {"parent": "two words"},
        {"deadline": 5},
        {"deadline": "tomorrow"},
        {"deadline": "2026-01-01T12:00:00"},
        {"deadline": "9999-12-31T23:59:59-23:59"},
        {"deadline": "0001-01-01T00:00:00+23:59"},
        {"deadline": "2026-01-01T12:00:00Z" + " " * 40},
    ],
)
def test_terms_that_break_a_rule_are_refused(said: Any) -> None:
    with pytest.raises(MalformedTerms, match=re.escape(KEY)):
        parse_terms({KEY: said})


def test_a_lease_has_bounds() -> None:
    for fine in (timedelta(seconds=3), timedelta(days=1)):
        check_lease(fine)
    for wrong in (timedelta(seconds=2.9), timedelta(days=1, seconds=1), timedelta()):
        with pytest.raises(MalformedTerms):
            check_lease(wrong)


def test_a_deadline_is_a_time_with_its_zone() -> None:
    there = timezone(timedelta(hours=2))
    assert check_deadline(datetime(2026, 1, 1, 14, tzinfo=there)).isoformat() == "2026-01-01T12:00:00+00:00"
    for wrong in (NOON.replace(tzinfo=None), datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))):
        with pytest.raises(MalformedTerms):
            check_deadline(wrong)
