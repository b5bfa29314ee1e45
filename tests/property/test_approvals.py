"""The invariants I2 and I3, and those of every task, where people vote on what an agent asks leave for.

The story: a request that takes two of three, with a deadline; three who approve, one of them twice, one who
denies, one who sends it back with another action, the agent that asked, a plain message, a cancel, the
deadline, a lost worker.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_protocol import (
    AGENT,
    ANN,
    BOB,
    EXAMPLES,
    NEVER_A_FAULT,
    ROUNDS,
    SPY,
    Story,
    elsewhere,
    schedules,
    unconditional,
)
from tests.property.world import Broken, Faults, Schedule, World

from interlock.a2a.errors import PermissionDenied, TaskNotFound, Unavailable
from interlock.a2a.models import JsonObject, Message, Part, TaskState
from interlock.a2a.models import Role as MessageRole
from interlock.engine.answer import Admitted
from interlock.engine.decide import Deciding, asked_of, decide
from interlock.engine.ports import Equals, Put, Update, Write
from interlock.engine.records import Checkpoint, Event, TaskMeta, read_event
from interlock.engine.run_turn import TurnRun
from interlock.oversight.approvals import APPROVE, DENY, KEY, Changes, Decision, Gate, Vote, approved_by
from interlock.oversight.principals import Kind, Principal, Role

CLEO, DAN, EVE = (
    Principal(f"bearer:{label}", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
    for label in ("cleo", "dan", "eve")
)
ACTION: JsonObject = {"amount": "40.00"}
EDITED: JsonObject = {"amount": "30.00"}
QUORUM = 2
DECIDED = {
    Checkpoint.APPROVED: APPROVE,
    Checkpoint.DENIED: DENY,
    Checkpoint.CHANGES_REQUESTED: "changes",
}


def asks_leave(run: TurnRun) -> None:
    if run.approval is None or run.approval.edited is not None:
        action = ACTION if run.approval is None else EDITED
        run.request_approval(action, "Refund", gate=Gate(quorum=QUORUM), deadline=timedelta(minutes=5))
    else:
        run.finish(TaskState.COMPLETED, run.approval.decision)


@dataclass
class Ballot(Story):
    """The same task, and people who vote on what it asks leave for; each is told of which and what."""

    seen: dict[str, list[str]] = field(default_factory=dict)
    """Who has voted on each request, at the last look."""

    def vote(self, who: Principal, said: str, edited: JsonObject | None = None) -> Callable[[], Any]:
        def actor() -> tuple[str, Admitted]:
            requests = self.world.wait_for(self.prompts)
            request = requests[self.world.schedule.choose(len(requests))]
            return request.ask_id, self._decide(who, request, said, edited)

        return actor

    def _decide(
        self, who: Principal, request: Checkpoint, said: str, edited: JsonObject | None = None
    ) -> Admitted:
        decision = Decision(request.ask_id, said, asked_of(request).digest)
        message = Message(
            message_id=f"{who.id}-{said}",
            role=MessageRole.USER,
            parts=[Part(text=said)],
            task_id=request.task_id,
            metadata={KEY: decision.to_wire()},
        )
        changes = Changes(edited) if edited is not None else None
        admitted, view = decide(self.world.engine, Deciding(who, request.task_id, message, changes=changes))
        if len(view.events) != view.meta.seq:
            raise Broken("I7 the task that was decided with is torn")
        return admitted

    def requester(self) -> str:
        """The agent itself, which is no person, asked, and may not decide."""
        request = self.world.wait_for(lambda: [p for p in self.prompts() if p.status == Checkpoint.OPEN])[0]
        try:
            self._decide(AGENT, request, APPROVE)
        except PermissionDenied:
            return "denied"
        raise Broken("I3 who asked has decided")

    def stranger(self) -> str:
        request = self.world.wait_for(self.prompts)[0]
        try:
            self._decide(SPY, request, APPROVE)
        except (TaskNotFound, Unavailable):
            return "saw nothing"
        raise Broken("I9 another tenant has voted")

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "worker 1": self.work,
            "ann": self.vote(ANN, APPROVE),
            "bob": self.vote(BOB, APPROVE),
            "cleo": self.vote(CLEO, APPROVE),
            "worker 2": self.work,
            "ann again": self.vote(ANN, APPROVE),
            "dan": self.vote(DAN, DENY),
            "eve": self.vote(EVE, DENY, EDITED),
            "requester": self.requester,
            "worker 3": self.work,
            "cancel": self.cancel,
            "go on": self.go_on,
            "lease lapses": self.time_passes(2),
            "sweeper": self.sweeper,
            "deadline passes": self.time_passes(5),
            "timer": self.timer,
            "worker 4": self.work,
            "stranger": self.stranger,
        }

    # What must hold in every state.

    def watch(self, world: World) -> None:
        super().watch(world)
        for request in self.prompts():
            votes = votes_of(request)
            lost = set(self.seen.get(request.ask_id, [])) - votes.keys()
            if lost:
                raise Broken(f"I3 the votes of {sorted(lost)} are gone")
            self.seen[request.ask_id] = list(votes)
            self._count(request, votes)

    def _count(self, request: Checkpoint, votes: Mapping[str, Vote]) -> None:
        """A vote and what it decides are one write: nobody ever sees a quorum that is not acted on."""
        approvers = approved_by(votes, asked_of(request).digest)
        others = [who for who, vote in votes.items() if vote.decision != APPROVE]
        if request.status == Checkpoint.APPROVED:
            if len(approvers) != QUORUM or others:
                raise Broken(f"I3 approved by {approvers}, and not by {others}")
        elif len(approvers) >= QUORUM:
            raise Broken(f"I3 {approvers} have approved and it is {request.status}")
        elif len(others) != (request.status in (Checkpoint.DENIED, Checkpoint.CHANGES_REQUESTED)):
            raise Broken(f"I3 {others} have not approved and it is {request.status}")

    # What must hold at rest.

    def _answers(self, meta: TaskMeta) -> None:
        events = [read_event(item) for item in self.log[meta.task_id].values()]
        requests = {request.ask_id: request for request in self.prompts()}
        self._outcomes(requests, events)
        self._voters(requests)
        inputs = [event for event in events if event.message is not None]
        if meta.inputs != len(inputs) or (not self.world.rerun and meta.turn != meta.inputs):
            raise Broken(f"I2 {meta.turn} turns of {len(inputs)} inputs")

    def _outcomes(self, requests: Mapping[str, Checkpoint], events: Sequence[Event]) -> None:
        outcomes = [event.approval for event in events if event.approval is not None]
        decided = {ask_id for ask_id, request in requests.items() if request.status in DECIDED}
        if sorted(str(outcome["requestId"]) for outcome in outcomes) != sorted(decided):
            raise Broken("I2 a decision started no turn, or more than one")
        for outcome in outcomes:
            request = requests[str(outcome["requestId"])]
            if outcome["decision"] != DECIDED[request.status]:
                raise Broken("I3 the agent is told another outcome")
            if outcome["approvers"] != approved_by(votes_of(request), asked_of(request).digest):
                raise Broken("I3 the agent is told of other approvers")

    def _voters(self, requests: Mapping[str, Checkpoint]) -> None:
        for name in ("ann", "bob", "cleo", "ann again", "dan", "eve"):
            told = self.world.told.get(name)
            if not isinstance(told, tuple):
                continue
            request, who = requests[told[0]], f"bearer:{name.split()[0]}"
            vote = votes_of(request).get(who)
            if vote is None:
                raise Broken(f"I3 {who} was told to have voted and has not")
            if told[1] is Admitted.ACCEPTED and DECIDED.get(request.status) != vote.decision:
                raise Broken(f"I3 {who} was told to have decided and it is {request.status}")


def votes_of(request: Checkpoint) -> dict[str, Vote]:
    return {who: Vote(*vote) for who, vote in json.loads(request.votes).items()}


def play(
    numbers: Sequence[int],
    *,
    rerun: bool = False,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
    only: Sequence[str] = (),
) -> World:
    """Plays the story, or the part of it that `only` names, and checks it at rest. Raises `Broken`."""
    world = World(Schedule(numbers), asks_leave, rerun=rerun, sabotage=sabotage, fault_at=fault_at)
    ballot = Ballot(world)
    actors = ballot.all()
    try:
        world.run({name: actors[name] for name in only or actors})
        ballot.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**16), max_size=220), st.booleans())
def test_the_count_is_exact_whatever_happens(numbers: list[int], rerun: bool) -> None:
    play(numbers, rerun=rerun)


def test_long_random_schedules_hold_the_invariants_and_reach_every_outcome() -> None:
    reached: set[str] = set()
    for numbers in schedules(3, ROUNDS // 3):
        world = play(numbers)
        reached |= {request.status for request in Ballot(world).prompts()}
        for name, told in world.told.items():
            outcome = told[1].value if isinstance(told, tuple) else type(told).__name__
            reached.add(f"{name}: {outcome}")
    assert reached >= {
        *DECIDED,
        "canceled",
        "expired",
        "superseded",
        "ann: accepted",
        "ann: counted",
        "ann again: counted",
        "cleo: InvalidParams",
        "dan: accepted",
        "eve: accepted",
        "requester: str",
        "stranger: str",
    }


VOTES_IN_ORDER = ("send", "worker 1", "ann", "bob", "worker 2")
DENIED_IN_ORDER = ("send", "worker 1", "ann", "dan", "worker 2")
CHANGED_IN_ORDER = ("send", "worker 1", "eve", "worker 2", "ann", "bob", "worker 3")


@pytest.mark.parametrize(
    ("actors", "ended"),
    [
        (VOTES_IN_ORDER, [Checkpoint.APPROVED]),
        (DENIED_IN_ORDER, [Checkpoint.DENIED]),
        (CHANGED_IN_ORDER[:4], [Checkpoint.CHANGES_REQUESTED, Checkpoint.EXPIRED]),
    ],
)
def test_one_after_the_other_without_a_fault(actors: tuple[str, ...], ended: list[str]) -> None:
    world = play(NEVER_A_FAULT, only=actors)
    assert sorted(request.status for request in Ballot(world).prompts()) == ended


@pytest.mark.parametrize("actors", [VOTES_IN_ORDER, DENIED_IN_ORDER, CHANGED_IN_ORDER], ids="-".join)
@pytest.mark.parametrize(
    "fault", [Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER]
)
def test_whatever_step_fails_or_is_the_last_no_vote_is_lost(fault: int, actors: tuple[str, ...]) -> None:
    """Also between the deciding vote and whatever comes after it."""
    steps = play(NEVER_A_FAULT, only=actors).steps
    assert steps >= 11
    for step in range(1, steps + 1):
        play(NEVER_A_FAULT, only=actors, fault_at={step: fault})


def votes_not_checked(write: Write) -> Write:
    """Of an open request every vote is written over what others wrote meanwhile."""
    if not isinstance(write, Update) or "votes" not in write.set:
        return write
    kept = (c for c in write.conditions if not (isinstance(c, Equals) and c.attribute == "rev"))
    return replace(write, conditions=tuple(kept))


def no_vote_kept(write: Write) -> Write:
    """The write that closes a request forgets the vote that decided."""
    if isinstance(write, Update) and write.set.get("status") in DECIDED:
        kept = {name: value for name, value in write.set.items() if name != "votes"}
        return Update(write.key, kept, write.remove, write.conditions)
    return write


@pytest.mark.parametrize(
    ("mistake", "invariant"),
    [
        (unconditional("ASK"), "I1|I3"),
        (votes_not_checked, "I3"),
        (unconditional("META", "EVT", "ASK"), "I"),
        (no_vote_kept, "I3"),
        (elsewhere(Put), "I8"),
    ],
    ids=[
        "request not checked",
        "votes not checked",
        "nothing checked",
        "deciding vote forgotten",
        "no RUN row",
    ],
)
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write], invariant: str) -> None:
    def explore() -> None:
        for numbers in schedules(4, 300):
            play(numbers, sabotage=mistake)

    with pytest.raises(AssertionError, match=invariant):
        explore()
