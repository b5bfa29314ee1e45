"""Out of office: who may say so, what is kept of it, and that B decides for A exactly where it says so."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.approvals import asking_leave, decide, decision, open_request
from tests.support.twin import (
    AGENT,
    ALICE,
    ANN,
    BEN,
    BOB,
    BOT,
    CAROL,
    CLEO,
    NOBODY,
    OPS,
    PLATFORM,
    SPY,
    START,
    Deployment,
    asking,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound
from interlock.a2a.models import TaskState
from interlock.agents import Turn
from interlock.agents.approval import Approval
from interlock.engine.answer import Admitted
from interlock.engine.away import KEYS_AT_ONCE, clear_away, list_away, places_of, set_away
from interlock.engine.decide import Deciding, votes_of
from interlock.engine.decide import decide as admit
from interlock.engine.facts import fact_pk
from interlock.engine.inbox import checkpoint
from interlock.engine.ports import Key
from interlock.engine.records import Away, Checkpoint, away_pk
from interlock.oversight.approvals import Changes, Gate, Vote, approved_by
from interlock.oversight.principals import Kind, Principal, Role

HOUR = timedelta(hours=1)
YES = {"approved": True}
DAVE = Principal("bearer:dave", "acme", Kind.PERSON)
"""Neither approver nor operator."""


def away(
    deployment: Deployment,
    who: Principal,
    substitute: Principal,
    *,
    by: Principal | None = None,
    until: timedelta = HOUR,
    since: timedelta | None = None,
) -> Away:
    now = deployment.clock.now()
    return set_away(
        deployment.engine,
        by or who,
        substitute.id,
        now + until,
        since=now + since if since is not None else None,
        who=who.id,
    )


def facts(deployment: Deployment, kind: str) -> list[dict[str, Any]]:
    rows = deployment.table.query(fact_pk("acme")).rows
    return [fact for fact in (json.loads(str(item["body"])) for _, item in rows) if fact["kind"] == kind]


def named(*who: Principal, **options: Any) -> Gate:
    return Gate(frozenset(one.id for one in who), **options)


def waiting(gate: Gate, who: Principal = AGENT, **options: Any) -> tuple[Deployment, str]:
    deployment = Deployment(asking_leave(gate=gate, **options))
    return deployment, deployment.send(who=who).id


def refused(deployment: Deployment, error: type[A2AError], what: Callable[[], Any]) -> None:
    with deployment.unchanged(), pytest.raises(error):
        what()


@pytest.fixture
def office() -> Deployment:
    return Deployment(running(nothing))


# Saying so.


def test_a_person_says_who_stands_in_for_them_and_until_when(office: Deployment) -> None:
    said = away(office, ANN, BOB)
    assert said == Away(
        "acme",
        ANN.id,
        BOB.id,
        "2026-01-01T12:00:00.000000Z",
        "2026-01-01T13:00:00.000000Z",
        ANN.id,
        "2026-01-01T12:00:00.000000Z",
    )
    assert office.table.get(Key("AWAY#acme", ANN.id)) == said.item()
    (fact,) = facts(office, "away")
    assert fact["actor"] == {"scheme": "bearer", "subject": "ann"}
    assert fact["detail"] == {
        "action": "set",
        "who": ANN.id,
        "substitute": BOB.id,
        "since": said.since,
        "until": said.until,
    }


def test_an_operator_says_so_for_somebody_else_and_nobody_else_does(office: Deployment) -> None:
    assert away(office, ANN, BOB, by=OPS).said_by == OPS.id
    assert facts(office, "away")[0]["actor"]["subject"] == "ops"
    for who in (BEN, PLATFORM, NOBODY, BOT):
        refused(office, PermissionDenied, lambda who=who: away(office, ANN, CLEO, by=who))  # type: ignore[misc]
        refused(office, PermissionDenied, lambda who=who: clear_away(office.engine, who, ANN.id))  # type: ignore[misc]
    assert clear_away(office.engine, OPS, ANN.id)


def test_an_operator_is_not_the_substitute_that_the_operator_names(office: Deployment) -> None:
    refused(office, PermissionDenied, lambda: away(office, ANN, OPS, by=OPS))
    assert away(office, ANN, OPS).substitute == OPS.id


def test_agents_are_not_away(office: Deployment) -> None:
    for who in (BOT, AGENT):
        refused(office, PermissionDenied, lambda who=who: away(office, who, ANN))  # type: ignore[misc]
        with pytest.raises(PermissionDenied):
            list_away(office.engine, who)


@pytest.mark.parametrize(
    ("substitute", "until", "since"),
    [
        (ANN.id, HOUR, None),
        ("bob", HOUR, None),
        ("bearer:", HOUR, None),
        ("bearer:a#b", HOUR, None),
        ("Bearer:bob", HOUR, None),
        ("bearer:" + "b" * 256, HOUR, None),
        (BOB.id, timedelta(0), None),
        (BOB.id, -HOUR, None),
        (BOB.id, -HOUR, -2 * HOUR),
        (BOB.id, HOUR, HOUR),
        (BOB.id, timedelta(days=366, seconds=1), None),
        (BOB.id, timedelta(days=367), timedelta(days=366)),
    ],
)
def test_what_no_absence_can_be_is_refused(
    office: Deployment, substitute: str, until: timedelta, since: timedelta | None
) -> None:
    at = START + since if since is not None else None
    refused(office, InvalidParams, lambda: set_away(office.engine, ANN, substitute, START + until, since=at))


def test_the_person_who_is_away_is_named_as_an_identity(office: Deployment) -> None:
    refused(office, InvalidParams, lambda: set_away(office.engine, OPS, BOB.id, START + HOUR, who="ann"))


def test_an_absence_is_at_most_a_year_ahead_and_never_began_before_it_was_said(office: Deployment) -> None:
    said = away(office, ANN, BOB, until=timedelta(days=366), since=-HOUR)
    assert (said.since, said.until[:10]) == ("2026-01-01T12:00:00.000000Z", "2027-01-02")


def test_saying_it_again_changes_nothing_and_something_else_replaces_it(office: Deployment) -> None:
    until = START + HOUR
    set_away(office.engine, ANN, BOB.id, until)
    office.clock.advance(5)
    with office.unchanged():
        set_away(office.engine, ANN, BOB.id, until)
        set_away(office.engine, ANN, BOB.id, until, since=START - HOUR)
    changed = set_away(office.engine, ANN, CLEO.id, until)
    assert (changed.substitute, changed.rev) == (CLEO.id, 2)
    assert len(facts(office, "away")) == 2


def test_a_lost_reply_is_recognised_and_a_race_is_won_by_one(office: Deployment) -> None:
    office.hooks.after = once("write", no_answer)
    assert away(office, ANN, BOB).rev == 1
    office.hooks.before = once("write", lambda: away(office, ANN, CLEO))
    assert away(office, ANN, BEN).rev == 3
    substitutes = [fact["detail"]["substitute"] for fact in facts(office, "away")]
    assert sorted(substitutes) == [BEN.id, BOB.id, CLEO.id]
    office.hooks.after = once("write", no_answer)
    assert clear_away(office.engine, ANN)
    assert office.table.query(away_pk("acme")).rows == ()
    assert len(facts(office, "away")) == 4


def test_who_is_back_says_so_once(office: Deployment) -> None:
    away(office, ANN, BOB)
    office.clock.advance(1)
    assert clear_away(office.engine, ANN)
    assert [fact["detail"]["action"] for fact in facts(office, "away")] == ["set", "clear"]
    with office.unchanged():
        assert not clear_away(office.engine, ANN)


def test_approvers_and_operators_see_who_is_away_and_others_what_concerns_them(office: Deployment) -> None:
    away(office, ANN, BOB)
    away(office, BEN, NOBODY, since=timedelta(minutes=30))
    for who in (CLEO, OPS, ANN):
        assert [one.who for one in list_away(office.engine, who)] == [ANN.id, BEN.id]
    assert [one.who for one in list_away(office.engine, NOBODY)] == [BEN.id]
    assert list_away(office.engine, DAVE) == []
    assert list_away(office.engine, SPY) == []
    office.clock.advance(3600)
    assert list_away(office.engine, CLEO) == []


# Deciding.


def test_who_stands_in_for_a_named_approver_decides_and_it_is_said_in_whose_place() -> None:
    seen: list[Approval] = []

    async def then(turn: Turn) -> None:
        assert turn.approval is not None
        seen.append(turn.approval)
        await turn.complete("done")

    deployment, task_id = waiting(named(ANN), then=then)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))
    away(deployment, ANN, BOB)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED
    (prompt,) = deployment.prompts(task_id)
    assert votes_of(prompt)[BOB.id].instead_of == ANN.id
    (fact,) = facts(deployment, "approval")
    assert (fact["actor"]["subject"], fact["detail"]["insteadOf"]) == ("bob", ANN.id)
    (approval,) = seen
    assert (approval.approvers, approval.decided_by) == ((BOB.id,), BOB.id)
    assert approval.instead_of == {BOB.id: ANN.id}


def test_a_decision_for_oneself_is_in_nobodys_place() -> None:
    seen: list[Approval] = []

    async def then(turn: Turn) -> None:
        assert turn.approval is not None
        seen.append(turn.approval)

    deployment, task_id = waiting(named(ANN, BOB), then=then)
    away(deployment, ANN, BOB)
    decide(deployment, BOB, task_id)
    assert seen[0].instead_of == {}
    assert "insteadOf" not in facts(deployment, "approval")[0]["detail"]


@pytest.mark.parametrize("said", ["deny", "changes"])
def test_the_other_decisions_are_in_their_place_too(said: str) -> None:
    deployment, task_id = waiting(named(ANN))
    away(deployment, ANN, BOB)
    request_id, asked = open_request(deployment, task_id)
    message = decision(task_id, request_id, "deny", digest=asked.digest)
    deployment.clock.advance(1)
    changes = Changes({"amount": "1.00"}) if said == "changes" else None
    assert admit(deployment.engine, Deciding(BOB, task_id, message, changes=changes))[0] is Admitted.ACCEPTED
    (fact,) = facts(deployment, "approval")
    assert (fact["detail"]["decision"], fact["detail"]["insteadOf"]) == (said, ANN.id)


def test_it_is_so_between_the_dates_by_our_clock() -> None:
    deployment, task_id = waiting(named(ANN))
    away(deployment, ANN, BOB, since=HOUR, until=2 * HOUR)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))
    deployment.clock.advance(2 * 3600)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))
    deployment.clock.advance(-1)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


def test_a_chain_is_followed_where_the_substitute_is_away_too() -> None:
    deployment, task_id = waiting(named(ANN))
    away(deployment, ANN, BOB)
    refused(deployment, PermissionDenied, lambda: decide(deployment, CLEO, task_id))
    away(deployment, BOB, CLEO)
    decide(deployment, CLEO, task_id)
    assert votes_of(deployment.prompts(task_id)[0])[CLEO.id].instead_of == ANN.id


def test_the_sixth_of_a_chain_does_not_decide() -> None:
    deployment, task_id = waiting(named(ANN))
    persons = [ANN, BEN, CLEO, ALICE, BOB, NOBODY, CAROL]
    for who, substitute in pairwise(persons):
        away(deployment, who, substitute)
    refused(deployment, PermissionDenied, lambda: decide(deployment, CAROL, task_id))
    assert decide(deployment, NOBODY, task_id).status.state is TaskState.COMPLETED


def test_a_substitution_that_is_taken_back_meanwhile_counts_for_nothing() -> None:
    """Also where the same is said anew: the write rests on what was read."""
    for then in (nothing_said, lambda deployment: away(deployment, ANN, CLEO)):
        deployment, task_id = waiting(named(ANN))
        away(deployment, ANN, BOB)

        def taken_back(deployment: Deployment = deployment, then: Any = then) -> None:
            deployment.clock.advance(1)
            clear_away(deployment.engine, ANN)
            then(deployment)

        deployment.hooks.before = once("write", taken_back)
        with pytest.raises(PermissionDenied):
            decide(deployment, BOB, task_id)
        assert deployment.prompts(task_id)[0].status == Checkpoint.OPEN
        assert deployment.prompts(task_id)[0].votes == "{}"


def nothing_said(deployment: Deployment) -> None:
    pass


def test_a_decision_that_was_made_in_somebodys_place_stays_once_they_are_back() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    decide(deployment, BOB, task_id)
    clear_away(deployment.engine, ANN)
    assert decide(deployment, BOB, task_id).status.state is TaskState.INPUT_REQUIRED  # told the same
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED


# Who does not.


def test_only_people_stand_in() -> None:
    deployment, task_id = waiting(named(ANN))
    away(deployment, ANN, BOT)
    away(deployment, BEN, AGENT)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOT, task_id))
    refused(deployment, PermissionDenied, lambda: decide(deployment, AGENT, task_id))


def test_another_tenant_has_people_of_the_same_names() -> None:
    deployment, task_id = waiting(named(ANN))
    stranger = replace(BOB, tenant="other")
    away(deployment, ANN, BOB)
    refused(deployment, TaskNotFound, lambda: decide(deployment, stranger, task_id))
    away(deployment, replace(ANN, tenant="other"), CLEO)
    refused(deployment, PermissionDenied, lambda: decide(deployment, CLEO, task_id))


def test_who_asked_does_not_stand_in() -> None:
    deployment, task_id = waiting(named(ANN), CAROL)
    away(deployment, ANN, CAROL)
    refused(deployment, PermissionDenied, lambda: decide(deployment, CAROL, task_id))


def test_nobody_stands_in_for_who_asked_nor_through_them_nor_by_their_word() -> None:
    deployment, task_id = waiting(named(ANN, CAROL), CAROL)
    away(deployment, CAROL, BOB)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))
    away(deployment, ANN, CAROL)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))

    boss = replace(OPS, roles=frozenset({Role.OPERATOR, Role.CALLER}))
    deployment, task_id = waiting(named(ANN), boss)
    away(deployment, ANN, BOB, by=boss)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))


def test_where_who_asked_may_approve_others_may_in_their_place() -> None:
    deployment, task_id = waiting(named(CAROL, self_approval=True), CAROL)
    away(deployment, CAROL, BOB)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


def test_a_gate_that_names_nobody_is_not_opened_by_it() -> None:
    deployment, task_id = waiting(Gate())
    away(deployment, ANN, NOBODY)
    refused(deployment, TaskNotFound, lambda: decide(deployment, NOBODY, task_id))


# The count.


def test_a_place_counts_once_whoever_votes_in_it() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    away(deployment, BOB, CLEO)
    decide(deployment, BOB, task_id)
    refused(deployment, PermissionDenied, lambda: decide(deployment, CLEO, task_id))
    assert deployment.prompts(task_id)[0].status == Checkpoint.OPEN


def test_who_has_voted_has_nobody_in_their_place() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    decide(deployment, ANN, task_id)
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))


def test_ones_own_vote_goes_before_that_in_ones_place() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    decide(deployment, BOB, task_id)
    assert decide(deployment, ANN, task_id).status.state is TaskState.INPUT_REQUIRED
    assert votes_of(deployment.prompts(task_id)[0]).keys() == {ANN.id}
    refused(deployment, PermissionDenied, lambda: decide(deployment, BOB, task_id))
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED


def test_who_stands_in_for_two_counts_once() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    away(deployment, BEN, BOB)
    for _ in range(2):
        assert decide(deployment, BOB, task_id).status.state is TaskState.INPUT_REQUIRED
    assert deployment.prompts(task_id)[0].votes.count("approve") == 1
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED


def test_who_stands_in_for_two_takes_the_place_that_is_free() -> None:
    deployment, task_id = waiting(named(ANN, BEN, quorum=2))
    away(deployment, ANN, BOB)
    away(deployment, BEN, BOB)
    decide(deployment, ANN, task_id)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED
    assert votes_of(deployment.prompts(task_id)[0])[BOB.id].instead_of == BEN.id


PEOPLE = [ANN, BEN, CLEO, BOB]
PERSON = st.sampled_from(PEOPLE)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(PERSON, PERSON), max_size=4),
    st.sets(st.integers(0, 3), min_size=2),
    st.lists(PERSON, max_size=8),
)
def test_never_more_votes_than_places_and_the_quorum_is_of_distinct_ones(
    absences: list[tuple[Principal, Principal]], places: set[int], voters: list[Principal]
) -> None:
    approvers = [PEOPLE[place] for place in places]
    quorum = len(approvers)
    deployment, task_id = waiting(named(*approvers, quorum=quorum))
    for who, substitute in absences:
        if who != substitute:
            away(deployment, who, substitute)
    request_id, asked = open_request(deployment, task_id)
    for voter in voters:
        try:
            admitted, _ = admit(
                deployment.engine,
                Deciding(voter, task_id, decision(task_id, request_id, digest=asked.digest)),
            )
        except (PermissionDenied, InvalidParams):
            admitted = None
        (request,) = deployment.prompts(task_id)
        votes = votes_of(request)
        taken = [vote.instead_of or who for who, vote in votes.items()]
        assert len(taken) == len(set(taken))
        assert set(taken) <= {one.id for one in approvers}
        assert admitted is None or votes[voter.id] == Vote("approve", asked.digest)
        assert (request.status == Checkpoint.APPROVED) == (len(approved_by(votes, asked.digest)) == quorum)


# What it costs, and who sees what.


def test_who_may_decide_anyway_reads_no_absence() -> None:
    deployment, task_id = waiting(named(ANN))
    away(deployment, ANN, BOB)
    read: list[Any] = []
    deployment.hooks.before = lambda operation, arguments: read.extend(
        key for key in arguments if isinstance(key, Key) and key.pk == away_pk("acme")
    )
    decide(deployment, ANN, task_id)
    assert read == []


def test_a_gate_of_many_is_read_in_batches(office: Deployment) -> None:
    away(office, ANN, BOB)
    others = {f"bearer:{number}" for number in range(KEYS_AT_ONCE)}
    (place,) = places_of(office.engine, BOB, {ANN.id, *others, "", "no identity"}, ())
    assert place.of == ANN.id


def test_who_stands_in_sees_what_the_one_who_is_away_would() -> None:
    deployment, task_id = waiting(named(NOBODY))
    ask_id = deployment.open_prompt(task_id)
    refused(deployment, TaskNotFound, lambda: checkpoint(deployment.engine, DAVE, task_id, ask_id))
    refused(deployment, TaskNotFound, lambda: decide(deployment, DAVE, task_id))
    away(deployment, NOBODY, DAVE)
    assert checkpoint(deployment.engine, DAVE, task_id, ask_id).asked is not None
    assert decide(deployment, DAVE, task_id).status.state is TaskState.COMPLETED


def test_nobody_sees_an_isolated_task_that_way() -> None:
    deployment = Deployment(asking_leave(isolated=True, gate=named(CAROL, self_approval=True)))
    task_id = deployment.send(who=CAROL).id
    ask_id = deployment.open_prompt(task_id)
    away(deployment, CAROL, BOB)
    refused(deployment, TaskNotFound, lambda: checkpoint(deployment.engine, BOB, task_id, ask_id))
    refused(deployment, TaskNotFound, lambda: decide(deployment, BOB, task_id))


# Prompts.


def prompted(*responders: str, who: Principal = AGENT) -> tuple[Deployment, str]:
    deployment = Deployment(asking(allowed_responders=list(responders)))
    return deployment, deployment.send(who=who).id


def test_who_stands_in_answers_a_prompt_for_somebody_specific() -> None:
    deployment, task_id = prompted(f"specific:{ANN.id}")
    refused(deployment, PermissionDenied, lambda: deployment.answer(BOB, task_id, YES))
    away(deployment, ANN, BOB)
    assert deployment.answer(BOB, task_id, YES).status.state is TaskState.COMPLETED
    (fact,) = facts(deployment, "prompt.answered")
    assert (fact["actor"]["subject"], fact["detail"]["insteadOf"]) == ("bob", ANN.id)
    assert json.loads(deployment.prompts(task_id)[0].votes)[BOB.id][2] == ANN.id


def test_who_stands_in_without_a_role_sees_the_prompt_and_answers() -> None:
    deployment, task_id = prompted(f"specific:{NOBODY.id}")
    ask_id = deployment.open_prompt(task_id)
    refused(deployment, TaskNotFound, lambda: deployment.answer(DAVE, task_id, YES))
    refused(deployment, TaskNotFound, lambda: checkpoint(deployment.engine, DAVE, task_id, ask_id))
    away(deployment, NOBODY, DAVE)
    assert checkpoint(deployment.engine, DAVE, task_id, ask_id).envelope.prompt_id == ask_id
    assert deployment.answer(DAVE, task_id, YES).status.state is TaskState.COMPLETED


def test_the_owner_does_not_answer_in_the_place_of_who_is_asked() -> None:
    deployment, task_id = prompted(f"specific:{ANN.id}", who=CAROL)
    away(deployment, ANN, CAROL)
    refused(deployment, PermissionDenied, lambda: deployment.answer(CAROL, task_id, YES))
    owned, task_id = prompted(f"specific:{CAROL.id}", who=CAROL)
    away(owned, CAROL, ANN)
    assert owned.answer(ANN, task_id, YES).status.state is TaskState.COMPLETED


def test_in_a_consensus_of_specific_people_a_place_counts_once() -> None:
    deployment, task_id = prompted(f"specific:{ANN.id}", f"specific:{BEN.id}", "consensus:2")
    away(deployment, ANN, BOB)
    away(deployment, BOB, CLEO)
    for _ in range(2):
        deployment.answer(BOB, task_id, YES, message_id="m")
    refused(deployment, PermissionDenied, lambda: deployment.answer(CLEO, task_id, YES))
    assert deployment.answer(ANN, task_id, YES).status.state is TaskState.INPUT_REQUIRED
    assert json.loads(deployment.prompts(task_id)[0].votes).keys() == {ANN.id}
    refused(deployment, PermissionDenied, lambda: deployment.answer(BOB, task_id, YES))
    assert deployment.answer(BEN, task_id, YES).status.state is TaskState.COMPLETED


def test_an_answer_rests_on_the_absence_that_was_read() -> None:
    deployment, task_id = prompted(f"specific:{ANN.id}")
    away(deployment, ANN, BOB)
    deployment.hooks.before = once("write", lambda: clear_away(deployment.engine, ANN))
    with pytest.raises(PermissionDenied):
        deployment.answer(BOB, task_id, YES)
    assert deployment.prompts(task_id)[0].status == Checkpoint.OPEN
