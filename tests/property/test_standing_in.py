"""The invariant I3 where people stand in for people, who vote, are away and are back while steps fail and
actors die.

The story: a request that takes both Ann and Bob. Ann is away, and Dan stands in; Dan is away, and Eve does;
Ann names Eve instead, is back, or votes herself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_approvals import ACTION, DAN, EVE, QUORUM, Ballot, votes_not_checked
from tests.property.test_protocol import ANN, BOB, EXAMPLES, ROUNDS, Story, schedules
from tests.property.world import Broken, Schedule, World

from interlock.a2a.models import TaskState
from interlock.engine import decide
from interlock.engine.away import absence_of, clear_away, set_away
from interlock.engine.decide import asked_of, votes_of
from interlock.engine.ports import Check, Missing, Write
from interlock.engine.records import Away, Checkpoint, away_pk
from interlock.engine.run_turn import TurnRun
from interlock.oversight.approvals import APPROVE, DENY, Gate, Vote, approved_by
from interlock.oversight.away import Absence, stands_in
from interlock.oversight.principals import Principal

NAMED = frozenset({ANN.id, BOB.id})


def asks_both(run: TurnRun) -> None:
    if run.approval is None:
        run.request_approval(ACTION, "Refund", gate=Gate(NAMED, QUORUM), deadline=timedelta(minutes=5))
    else:
        run.finish(TaskState.COMPLETED, run.approval.decision)


@dataclass
class Office(Ballot):
    voted: dict[str, Mapping[str, Vote]] = field(default_factory=dict)
    """On each request, at the last look."""
    absences: list[Absence] = field(default_factory=list)
    """At the last look."""

    def away(self, who: Principal, substitute: Principal) -> Callable[[], Any]:
        def actor() -> str:
            until = self.world.engine.clock.now() + timedelta(minutes=3)
            return set_away(self.world.engine, who, substitute.id, until).substitute

        return actor

    def stand_in(self, who: Principal, said: str) -> Callable[[], Any]:
        """Who is told that they stand in, and then votes."""

        def actor() -> Any:
            self.world.wait_for(lambda: any(each.substitute == who.id for each in self.absences))
            return self.vote(who, said)()

        return actor

    def back(self, who: Principal) -> Callable[[], Any]:
        return lambda: clear_away(self.world.engine, who)

    def once_voted(self, actor: Callable[[], Any]) -> Callable[[], Any]:
        """What would end most stories before they begin."""

        def later() -> Any:
            self.world.wait_for(lambda: any(self.voted.values()))
            return actor()

        return later

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "worker 1": self.work,
            "ann is away": self.away(ANN, DAN),
            "dan": self.stand_in(DAN, APPROVE),
            "ann": self.vote(ANN, APPROVE),
            "dan is away": self.away(DAN, EVE),
            "eve": self.stand_in(EVE, APPROVE),
            "bob": self.vote(BOB, APPROVE),
            "dan again": self.vote(DAN, APPROVE),
            "ann names eve": self.once_voted(self.away(ANN, EVE)),
            "eve denies": self.stand_in(EVE, DENY),
            "ann is back": self.once_voted(self.back(ANN)),
            "worker 2": self.work,
            "absences pass": self.once_voted(self.time_passes(4)),
        }

    def watch(self, world: World) -> None:
        for request in self.prompts():
            votes, before = votes_of(request), self.voted.get(request.ask_id, {})
            self.voted[request.ask_id] = votes
            places = [vote.instead_of or who for who, vote in votes.items()]
            if len(places) != len(set(places)) or not set(places) <= NAMED:
                raise Broken(f"I3 votes in the places of {places}")
            for who in before.keys() - votes.keys():
                if before[who].instead_of not in votes:
                    raise Broken(f"I3 the vote of {who} is gone")
            for who in votes.keys() - before.keys():
                self._may(who, votes[who].instead_of)
            approved = approved_by(votes, asked_of(request).digest)
            if (len(approved) >= QUORUM) != (request.status == Checkpoint.APPROVED):
                raise Broken(f"I3 {approved} have approved and it is {request.status}")
        self.absences = [absence_of(Away.read(item)) for _, item in world.rows(away_pk("acme"))]
        Story.watch(self, world)

    def _may(self, who: str, place: str | None) -> None:
        """The write of a vote changes no absence: they are as they were when it was carried out. How late it
        was is left out, for the clock may have gone on since it was looked at."""
        if place is None:
            if who not in NAMED:
                raise Broken(f"I3 {who} has voted and is not named")
            return
        now = self.world.engine.clock.now()
        absences = {each.who: replace(each, until=now + timedelta(days=1)) for each in self.absences}
        if place not in stands_in(absences, who, NAMED, now):
            raise Broken(f"I3 {who} has voted for {place}, who has not said so")

    def _voters(self, requests: Mapping[str, Checkpoint]) -> None:
        for name in ("ann", "bob", "dan", "dan again", "eve", "eve denies"):
            told = self.world.told.get(name)
            if not isinstance(told, tuple):
                continue
            request, who = requests[told[0]], f"bearer:{name.split()[0]}"
            votes = votes_of(request)
            if who not in votes and (who in NAMED or ANN.id not in votes):
                raise Broken(f"I3 {who} was told to have voted and has not")


def play(
    numbers: Sequence[int],
    *,
    sabotage: Callable[[Write], Write] = lambda write: write,
    only: Sequence[str] = (),
) -> World:
    """Plays the story, or the part of it that `only` names, and checks it at rest. Raises `Broken`."""
    world = World(Schedule(numbers), asks_both, sabotage=sabotage)
    office = Office(world)
    actors = office.all()
    try:
        world.run({name: actors[name] for name in only or actors})
        office.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**16), max_size=220))
def test_a_place_counts_once_whatever_happens(numbers: list[int]) -> None:
    play(numbers)


def test_long_random_schedules_hold_the_invariant_and_reach_every_outcome() -> None:
    reached: set[str] = set()
    for numbers in schedules(5, ROUNDS // 3):
        world = play(numbers)
        for request in Office(world).prompts():
            reached |= {request.status}
            reached |= {f"{who} for {vote.instead_of}" for who, vote in votes_of(request).items()}
        for name, told in world.told.items():
            outcome = told[1].value if isinstance(told, tuple) else type(told).__name__
            reached.add(f"{name}: {outcome}")
    assert reached >= {
        Checkpoint.APPROVED,
        Checkpoint.DENIED,
        Checkpoint.EXPIRED,
        "bearer:dan for bearer:ann",
        "bearer:eve for bearer:ann",
        "bearer:ann for None",
        "dan: PermissionDenied",
        "dan: counted",
        "dan again: counted",
        "ann: counted",
        "bob: accepted",
        "eve denies: accepted",
    }


def explore(seed: int, rounds: int, **options: Any) -> None:
    for numbers in schedules(seed, rounds):
        play(numbers, **options)


def absences_not_checked(write: Write) -> Write:
    if isinstance(write, Check) and write.key.pk == away_pk("acme"):
        return replace(write, conditions=(Missing("nothing"),))
    return write


TAKEN_BACK = ("send", "worker 1", "ann is away", "bob", "dan", "ann is back")


@pytest.mark.parametrize(
    ("mistake", "actors"),
    [(absences_not_checked, TAKEN_BACK), (votes_not_checked, ())],
    ids=["absences not checked", "votes not checked"],
)
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write], actors: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError, match="I3"):
        explore(6, 600, sabotage=mistake, only=actors)


def test_a_vote_that_stays_beside_ones_own_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def added(votes: Mapping[str, Vote], places: object, voter: str, vote: Vote) -> dict[str, Vote]:
        return {**votes, voter: vote}

    monkeypatch.setattr(decide, "with_vote", added)
    with pytest.raises(AssertionError, match="I3 votes in the places"):
        explore(7, 300)
