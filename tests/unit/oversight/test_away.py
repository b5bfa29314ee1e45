"""Who stands in for whom: dates, chains, cycles, who is kept out, and that a place counts once."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.oversight.away import MAX_CHAIN, Absence, chain, free_place, stands_in, with_vote

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def away(
    *pairs: str | tuple[str, str],
    since: datetime = NOW - HOUR,
    until: datetime = NOW + HOUR,
    said_by: str | None = None,
) -> dict[str, Absence]:
    """`ab`: a is away, and b stands in."""
    return {pair[0]: Absence(pair[0], pair[1], since, until, said_by or pair[0]) for pair in pairs}


def reached(absences: dict[str, Absence], who: str, excluded: Sequence[str] = ()) -> list[str]:
    return [step.substitute for step in chain(absences, who, NOW, excluded)]


def test_whoever_is_not_away_has_nobody_in_their_place() -> None:
    assert reached(away("ab"), "b") == []
    assert stands_in(away("ab"), "c", {"a"}, NOW) == {}


@pytest.mark.parametrize(
    ("since", "until", "holds"),
    [
        (NOW, NOW + HOUR, True),
        (NOW - HOUR, NOW, False),
        (NOW + timedelta(microseconds=1), NOW + HOUR, False),
        (NOW - HOUR, NOW + timedelta(microseconds=1), True),
    ],
)
def test_an_absence_begins_with_its_first_moment_and_is_over_at_its_last(
    since: datetime, until: datetime, holds: bool
) -> None:
    assert bool(stands_in(away("ab", since=since, until=until), "b", {"a"}, NOW)) is holds


def test_the_substitute_of_a_substitute_who_is_away_stands_in_too() -> None:
    absences = away("ab", "bc")
    assert reached(absences, "a") == ["b", "c"]
    assert list(stands_in(absences, "c", {"a"}, NOW)) == ["a"]
    assert [step.who for step in stands_in(absences, "c", {"a"}, NOW)["a"]] == ["a", "b"]
    assert [step.who for step in stands_in(absences, "b", {"a"}, NOW)["a"]] == ["a"]


def test_nobody_beyond_who_is_there_stands_in() -> None:
    later = away("bc", since=NOW + HOUR, until=NOW + 2 * HOUR)
    assert reached({**away("ab"), **later}, "a") == ["b"]


def test_a_chain_is_bounded() -> None:
    assert reached(away("ab", "bc", "cd", "de", "ef", "fg", "gh"), "a") == list("bcdef")
    assert MAX_CHAIN == 5


@pytest.mark.parametrize("pairs", [("ab", "ba"), ("ab", "bb"), ("ab", "bc", "cb"), ("ab", "bc", "ca")])
def test_a_cycle_is_cut(pairs: tuple[str, ...]) -> None:
    found = reached(away(*pairs), "a")
    assert found == list("bc")[: len(found)]
    assert "a" not in found


@pytest.mark.parametrize("excluded", ["a", "b", "c"])
def test_nobody_who_asked_is_on_the_way(excluded: str) -> None:
    assert "c" not in reached(away("ab", "bc"), "a", [excluded])


def test_what_somebody_who_asked_has_said_of_others_does_not_count() -> None:
    assert reached(away("ab", said_by="o"), "a") == ["b"]
    assert reached(away("ab", said_by="o"), "a", ["o"]) == []


def test_a_place_that_is_taken_is_not_free() -> None:
    assert free_place({}, "b", ["a"]) == "a"
    assert free_place({"a": None}, "b", ["a"]) is None
    assert free_place({"c": "a"}, "b", ["a"]) is None
    assert free_place({"c": "a"}, "b", ["a", "d"]) == "d"
    assert free_place({"b": "a"}, "b", ["a"]) == "a"


def test_ones_own_vote_takes_the_place_of_a_vote_in_it() -> None:
    assert with_vote({"b": 1, "c": 2}, {"b": "a", "c": "d"}, "a", 3) == {"c": 2, "a": 3}


NAME = st.sampled_from("abcd")


@given(
    st.dictionaries(NAME, NAME),
    st.sets(NAME, min_size=1),
    st.sets(NAME, max_size=1),
    st.lists(NAME, max_size=12),
)
@example({"a": "b"}, {"a"}, set(), ["b", "a"])
@example({"a": "b", "b": "c"}, {"a"}, set(), ["b", "c"])
def test_never_more_votes_than_those_who_are_named(
    pairs: dict[str, str], named: set[str], excluded: set[str], voters: list[str]
) -> None:
    """In whatever order they vote, for themselves or others: a person counts once, and so does a place."""
    absences = away(*pairs.items())
    votes: dict[str, str | None] = {}
    for voter in voters:
        place = None
        if voter not in named:
            place = free_place(votes, voter, stands_in(absences, voter, named, NOW, excluded))
        if voter in excluded or (voter not in named and place is None):
            continue
        votes = with_vote(votes, votes, voter, place)
        places = [place or who for who, place in votes.items()]
        assert len(places) == len(set(places))
        assert set(places) <= named - excluded
