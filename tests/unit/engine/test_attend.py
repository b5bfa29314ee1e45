"""More time, claims, and passing on: who may, what is kept, and that a deadline has one outcome."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import asking_leave, decide
from tests.support.twin import (
    AGENT,
    ANN,
    BEN,
    BOT,
    CAROL,
    NOBODY,
    OPS,
    PEER,
    SPY,
    START,
    Deployment,
    asking,
    no_answer,
    once,
)

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound
from interlock.a2a.models import TaskState
from interlock.agents import Agent
from interlock.engine.attend import Claimed
from interlock.engine.claim import claim, unclaim
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerRefused
from interlock.engine.extend import extend
from interlock.engine.facts import fact_pk
from interlock.engine.halt import declare
from interlock.engine.halts import Halted
from interlock.engine.hand_over import hand_over
from interlock.engine.inbox import open_checkpoints
from interlock.engine.records import Checkpoint, instant
from interlock.engine.shown import Question
from interlock.oversight.approvals import Gate
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Principal

MINUTE = timedelta(minutes=1)
UNTIL = START + 10 * MINUTE


class House:
    """A deployment with one checkpoint that waits for a minute."""

    def __init__(self, agent: Agent | None = None, who: Principal = AGENT, *, notices: bool = False) -> None:
        self.deployment = Deployment(agent or asking(deadline=MINUTE))
        self.deployment.engine = replace(self.deployment.engine, notices=notices)
        self.engine = self.deployment.engine
        self.task_id = self.deployment.send("go", who).id
        self.ask_id = self.deployment.open_prompt(self.task_id)

    @property
    def checkpoint(self) -> Checkpoint:
        (found,) = self.deployment.prompts(self.task_id)
        return found

    def extend(self, who: Principal = ANN, until: Any = UNTIL) -> Question:
        return extend(self.engine, who, self.task_id, self.ask_id, until)

    def claim(self, who: Principal = ANN) -> Question:
        return claim(self.engine, who, self.task_id, self.ask_id)

    def unclaim(self, who: Principal = ANN) -> Question:
        return unclaim(self.engine, who, self.task_id, self.ask_id)

    def pass_on(self, who: Principal = ANN, to: str = BEN.id, note: str | None = None) -> Question:
        return hand_over(self.engine, who, self.task_id, self.ask_id, to, note)

    def acts(self) -> list[Callable[..., Question]]:
        return [self.extend, self.claim, self.pass_on]

    def facts(self, kind: str) -> list[dict[str, Any]]:
        rows = self.deployment.table.query(fact_pk("acme")).rows
        facts = [json.loads(str(item["body"])) for _, item in rows]
        return [fact for fact in facts if fact["kind"] == kind]

    def due(self, kind: str) -> list[str]:
        return sorted(str(item["at"]) for item in self.deployment.due_rows().values() if item["kind"] == kind)

    def timers(self, *, past: timedelta) -> None:
        """All that falls due until then is looked at, in its order."""
        self.deployment.clock.advance(past.total_seconds())
        now = instant(self.deployment.clock.now())
        for key in sorted(self.deployment.due_rows(), key=lambda key: key.sk):
            if key.sk < now:
                handle_due(self.engine, key)


# More time.


def test_a_deadline_is_put_off_and_the_inbox_is_in_its_order() -> None:
    house = House()
    other = House(asking(deadline=5 * MINUTE))
    assert other.checkpoint.deadline == instant(START + 5 * MINUTE)
    question = house.extend()
    assert question.checkpoint == house.checkpoint
    found = house.checkpoint
    assert (found.deadline, found.extended_by) == (instant(UNTIL), ANN.id)
    house.deployment.send()
    ((first, second), _) = open_checkpoints(house.engine, ANN, None)
    assert (first.checkpoint.ask_id != house.ask_id, second.checkpoint.ask_id) == (True, house.ask_id)
    assert (found.due_key, UNTIL) in house.deployment.waker.timers
    (fact,) = house.facts("prompt.extended")
    assert fact["actor"]["subject"] == "ann"
    assert fact["detail"] == {
        "prompt": house.ask_id,
        "before": instant(START + MINUTE),
        "until": instant(UNTIL),
    }


def test_the_old_deadline_passes_without_effect_and_the_new_one_ends_it() -> None:
    house = House()
    house.extend()
    assert house.due("deadline") == [instant(START + MINUTE), instant(UNTIL)]
    house.timers(past=5 * MINUTE)
    assert house.checkpoint.status == Checkpoint.OPEN
    assert house.due("deadline") == [instant(UNTIL)]
    house.timers(past=6 * MINUTE)
    assert house.checkpoint.status == Checkpoint.EXPIRED
    assert house.deployment.meta(house.task_id).task_state is TaskState.FAILED
    assert house.due("deadline") == []


def test_what_has_more_time_is_answered_in_it() -> None:
    house = House()
    house.extend()
    house.deployment.clock.advance(300)
    house.deployment.answer(ANN, house.task_id, {"approved": True})
    assert house.checkpoint.status == Checkpoint.ANSWERED


def test_an_extension_between_the_look_and_the_write_of_an_expiry_wins() -> None:
    house = House()
    late = Principal(OPS.id, OPS.tenant, OPS.kind, OPS.roles)
    clock = house.deployment.clock

    def extends() -> None:
        # By a host whose clock is a little behind: its own says that there is time left.
        behind = type(clock)()
        behind.advance(59)
        extend(replace(house.engine, clock=behind), late, house.task_id, house.ask_id, UNTIL)

    (key,) = house.deployment.due_rows()
    clock.advance(60)
    house.deployment.hook(before=once("write", extends))
    handle_due(house.engine, key)
    assert house.checkpoint.status == Checkpoint.OPEN
    assert house.due("deadline") == [instant(UNTIL)]


def test_an_expiry_between_the_look_and_the_write_of_an_extension_wins() -> None:
    house = House()
    (key,) = house.deployment.due_rows()

    def expires() -> None:
        house.deployment.clock.advance(60)
        handle_due(house.engine, key)

    house.deployment.hook(before=once("write", expires))
    with pytest.raises(AnswerRefused):
        house.extend()
    assert house.checkpoint.status == Checkpoint.EXPIRED
    assert house.due("deadline") == []


def test_a_deadline_that_passes_between_the_look_and_the_write_is_over() -> None:
    house = House()
    house.deployment.hook(before=once("write", lambda: house.deployment.clock.advance(60)))
    # The write carries the time of the look: whoever read before the deadline has written in time.
    house.extend()
    house.deployment.clock.advance(0)
    assert house.checkpoint.deadline == instant(UNTIL)
    over = House()
    over.deployment.clock.advance(60)
    with over.deployment.unchanged(), pytest.raises(AnswerRefused) as refused:
        over.extend()
    assert refused.value.extension_data is not None
    assert refused.value.extension_data["reason"] == "expired"


def test_a_vote_that_comes_between_is_kept() -> None:
    house = House(asking(deadline=MINUTE, allowed_responders=["consensus:2"]))
    house.deployment.hook(
        before=once("write", lambda: house.deployment.answer(BEN, house.task_id, {"approved": True}))
    )
    house.extend()
    found = house.checkpoint
    assert (list(json.loads(found.votes)), found.deadline) == ([BEN.id], instant(UNTIL))


def test_a_lost_reply_is_found_out() -> None:
    house = House()
    house.deployment.hook(after=once("write", no_answer))
    house.extend()
    assert len(house.facts("prompt.extended")) == 1
    with house.deployment.unchanged():
        house.extend()  # said again


@pytest.mark.parametrize(
    "until",
    [START + MINUTE, START + MINUTE / 2, START - MINUTE, START + timedelta(days=7, microseconds=1)],
)
def test_a_deadline_is_put_off_only_and_by_seven_days_at_most(until: Any) -> None:
    house = House()
    with house.deployment.unchanged(), pytest.raises(InvalidParams):
        house.extend(until=until)
    house.extend(until=START + timedelta(days=7))


def test_what_has_no_deadline_needs_no_more_time() -> None:
    house = House(asking())
    with house.deployment.unchanged(), pytest.raises(InvalidParams):
        house.extend()


def test_more_time_is_given_while_halted_too_and_starts_nothing() -> None:
    house = House()
    declare(house.engine, OPS, Scope("acme"), "an incident")
    house.extend()
    assert house.checkpoint.deadline == instant(UNTIL)
    assert house.deployment.run_rows() == {}


def test_where_people_are_told_they_are_reminded_of_the_new_time() -> None:
    house = House(notices=True)
    before = house.due("remind")
    house.extend()
    after = [at for at in house.due("remind") if at not in before]
    assert after == [instant(START + 5 * MINUTE), instant(START + 8 * MINUTE)]


# Claims.


def test_a_claim_says_who_until_when_and_keeps_nobody_from_deciding() -> None:
    house = House()
    house.claim()
    found = house.checkpoint
    assert (found.claim_by, found.claim_until) == (ANN.id, instant(START + 15 * MINUTE))
    house.deployment.answer(BEN, house.task_id, {"approved": True})
    assert house.checkpoint.status == Checkpoint.ANSWERED


def test_a_claim_of_somebody_else_stands_until_it_is_over_or_taken_back() -> None:
    house = House(asking(deadline=60 * MINUTE))
    house.claim()
    with house.deployment.unchanged():
        for act in (house.claim, house.unclaim, lambda who: house.pass_on(who, OPS.id)):
            with pytest.raises(Claimed) as claimed:
                act(BEN)
            assert ANN.id in str(claimed.value.details)
    house.unclaim()
    with house.deployment.unchanged():
        house.unclaim()
    house.claim(BEN)
    house.deployment.clock.advance(15 * 60)
    house.claim(ANN)
    assert house.checkpoint.claim_by == ANN.id


def test_two_who_claim_at_once_have_one_winner() -> None:
    house = House()
    house.deployment.hook(before=once("write", lambda: house.claim(BEN)))
    with pytest.raises(Claimed):
        house.claim(ANN)
    assert house.checkpoint.claim_by == BEN.id


# Passing on.


def test_passed_on_to_somebody_the_claim_is_theirs_for_a_day_and_they_are_told() -> None:
    house = House(asking(deadline=timedelta(days=2)), notices=True)
    house.deployment.waker.notices.clear()
    house.pass_on(to=BEN.id, note="you know this")
    found = house.checkpoint
    assert (found.claim_by, found.claim_until) == (BEN.id, instant(START + timedelta(days=1)))
    assert found.claim_note == "you know this"
    rows = house.deployment.table.query(f"T#acme#{house.task_id}", first="NOTE#", last="NOTE#~").rows
    assert [item["tells"] for _, item in rows if item["tells"] == "handed"] == ["handed"]
    assert house.deployment.waker.notices == [("acme", house.task_id)]
    (fact,) = house.facts("reviewer.asked")
    assert fact["actor"]["subject"] == "ann"
    assert fact["detail"] == {"prompt": house.ask_id, "asked": BEN.id, "passed": "passed"}


def test_what_was_passed_on_is_taken_back_by_whoever_did_so_and_by_operators() -> None:
    house = House(asking(deadline=timedelta(days=2)))
    house.pass_on(to=NOBODY.id)
    with house.deployment.unchanged(), pytest.raises(Claimed):
        house.claim(BEN)
    house.unclaim()
    assert house.checkpoint.claim_by is None
    house.pass_on(to=NOBODY.id)
    house.claim(OPS)
    taken = house.checkpoint
    assert (taken.claim_by, taken.claim_from) == (OPS.id, None)
    with house.deployment.unchanged(), pytest.raises(Claimed):
        house.unclaim()


def test_passed_on_to_the_operators_they_are_asked_now() -> None:
    house = House(notices=True)
    house.claim()
    house.pass_on(to="operators")
    found = house.checkpoint
    assert json.loads(found.hops) == [[AGENT.id, "passed"], ["people", "passed"], ["operators"]]
    assert (found.hop_until, found.claim_by) == (None, None)
    with house.deployment.unchanged():
        house.pass_on(to="operators")
    rows = house.deployment.table.query(f"T#acme#{house.task_id}", first="NOTE#", last="NOTE#~").rows
    assert [item["tells"] for _, item in rows if item["tells"] == "escalated"] == ["escalated"]
    house.timers(past=MINUTE / 2)
    assert json.loads(house.checkpoint.hops)[-1] == ["operators"]


@pytest.mark.parametrize("to", ["", "ben", "operator", "bearer:", "Bearer:ben", "bearer:b en", ANN.id])
def test_it_is_passed_on_to_somebody_else(to: str) -> None:
    house = House()
    with house.deployment.unchanged(), pytest.raises(InvalidParams):
        house.pass_on(to=to)


def test_it_is_not_passed_on_to_who_asked_nor_past_those_who_are_named() -> None:
    house = House(asking_leave(gate=Gate(frozenset({ANN.id, BEN.id, CAROL.id}))), CAROL)
    named = House(asking(allowed_responders=[f"specific:{ANN.id}", f"specific:{BEN.id}"]))
    for each, to in ((house, CAROL.id), (house, NOBODY.id), (named, NOBODY.id)):
        with each.deployment.unchanged(), pytest.raises(InvalidParams):
            each.pass_on(to=to)
    for each in (house, named):
        each.pass_on(to=BEN.id)


def test_nothing_is_passed_on_while_halted() -> None:
    house = House()
    declare(house.engine, OPS, Scope("acme"), "an incident")
    with house.deployment.unchanged():
        for to in (BEN.id, "operators", "nonsense"):
            with pytest.raises(Halted):
                house.pass_on(to=to)


# Who may, and of what.


@pytest.mark.parametrize(
    ("who", "error"),
    [
        (AGENT, PermissionDenied),
        (BOT, PermissionDenied),
        (PEER, TaskNotFound),
        (NOBODY, TaskNotFound),
        (SPY, TaskNotFound),
        (OPS, None),
        (ANN, None),
    ],
    ids=lambda value: str(getattr(value, "id", value)),
)
def test_people_who_may_decide_it_or_operate_the_tenant(who: Principal, error: type[A2AError] | None) -> None:
    for number in range(3):
        house = House()
        act = house.acts()[number]
        if error is None:
            act(who)
            continue
        with house.deployment.unchanged(), pytest.raises(error):
            act(who)


def test_who_asked_has_no_part_in_it_not_as_an_operator_either() -> None:
    carol = replace(CAROL, roles=CAROL.roles | OPS.roles)
    house = House(asking_leave(deadline=MINUTE), carol)
    with house.deployment.unchanged():
        for act in house.acts():
            with pytest.raises(PermissionDenied):
                act(carol)


def test_of_what_is_closed_nothing_is_changed() -> None:
    house = House(asking_leave(deadline=MINUTE))
    decide(house.deployment, BEN, house.task_id)
    with house.deployment.unchanged():
        for act in house.acts():
            with pytest.raises(AnswerRefused):
                act(ANN)
