"""What a person is shown of a checkpoint: whether they may decide, why not, and what happens otherwise."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import DIGEST, asking_leave, decide
from tests.support.twin import (
    AGENT,
    ANN,
    BEN,
    BOT,
    CAROL,
    CLEO,
    NOBODY,
    OPS,
    START,
    Deployment,
    asking,
    message,
    running,
)

from interlock.a2a.models import Message, SendMessageConfiguration, SendMessageRequest
from interlock.agents import Agent, Turn
from interlock.engine.away import set_away
from interlock.engine.context import Limits, Skill
from interlock.engine.due import handle_due
from interlock.engine.inbox import checkpoint, open_checkpoints
from interlock.engine.records import instant
from interlock.engine.send import send_message
from interlock.engine.shown import Delivery, Next, Question, Reached, Vote, WhyNot
from interlock.oversight.approvals import Gate
from interlock.oversight.canonical_json import digest
from interlock.oversight.modes import Declared, Mode
from interlock.oversight.principals import Principal

MINUTE = timedelta(minutes=1)


def waiting(agent: Agent, who: Principal = AGENT, **options: Any) -> tuple[Deployment, Question]:
    deployment = Deployment(agent, **options)
    deployment.send("go", who)
    ((question,), _) = open_checkpoints(deployment.engine, ANN, None)
    return deployment, question


def declaring(mode: Mode) -> Agent:
    agent = Agent("desk", "Starts as its mode says")

    @agent.skill("work", "Works", mode=mode)
    async def work(turn: Turn) -> None:
        await turn.complete("done")

    return agent


# Whether they may decide.


@pytest.mark.parametrize(
    ("who", "why_not"),
    [
        (ANN, None),
        (AGENT, None),
        (BOT, None),
        (OPS, WhyNot.NOT_APPROVER),
        (NOBODY, WhyNot.NOT_APPROVER),
    ],
    ids=lambda value: str(getattr(value, "id", value)),
)
def test_a_prompt_is_answered_by_its_owner_and_approvers(who: Principal, why_not: WhyNot | None) -> None:
    _, question = waiting(asking())
    assert question.why_not(who, START) is why_not


def test_a_prompt_that_names_people_is_theirs() -> None:
    _, question = waiting(asking(allowed_responders=[f"specific:{NOBODY.id}"]))
    assert question.why_not(NOBODY, START) is None
    assert question.why_not(ANN, START) is WhyNot.NOT_NAMED


def test_a_consensus_counts_people() -> None:
    _, question = waiting(asking(allowed_responders=["consensus:2"]))
    assert question.why_not(ANN, START) is None
    assert question.why_not(BOT, START) is WhyNot.NOT_APPROVER


@pytest.mark.parametrize(
    ("who", "why_not"),
    [
        (ANN, None),
        (CAROL, WhyNot.REQUESTER),
        (BOT, WhyNot.NOT_APPROVER),
        (OPS, WhyNot.NOT_APPROVER),
    ],
    ids=lambda value: str(getattr(value, "id", value)),
)
def test_an_approval_is_given_by_approvers_who_did_not_ask(who: Principal, why_not: WhyNot | None) -> None:
    _, question = waiting(asking_leave(), CAROL)
    assert question.why_not(who, START) is why_not


def test_an_approval_that_names_people_is_theirs() -> None:
    _, question = waiting(asking_leave(gate=Gate(frozenset({BEN.id}))))
    assert question.why_not(BEN, START) is None
    assert question.why_not(ANN, START) is WhyNot.NOT_NAMED


def test_who_stands_in_may_decide_which_one_checkpoint_says_and_a_list_does_not() -> None:
    deployment, listed = waiting(asking_leave(gate=Gate(frozenset({BEN.id}))))
    set_away(deployment.engine, BEN, CLEO.id, START + 60 * MINUTE)
    found = listed.checkpoint
    for who, why_not in ((CLEO, None), (ANN, WhyNot.NOT_NAMED)):
        assert listed.why_not(who, START) is WhyNot.NOT_NAMED
        one = checkpoint(deployment.engine, who, found.task_id, found.ask_id)
        assert one.why_not(who, START) is why_not


def test_nothing_is_decided_of_a_window() -> None:
    _, question = waiting(declaring(Mode.VETO))
    assert question.why_not(ANN, START) is WhyNot.WINDOW


def test_what_is_closed_or_over_is_decided_by_nobody() -> None:
    deployment, question = waiting(asking(deadline=MINUTE))
    assert question.why_not(ANN, START + MINUTE - timedelta(microseconds=1)) is None
    assert question.why_not(ANN, START + MINUTE) is WhyNot.CLOSED
    found = question.checkpoint
    deployment.answer(ANN, found.task_id, {"approved": True})
    closed = checkpoint(deployment.engine, ANN, found.task_id, found.ask_id)
    assert closed.why_not(ANN, START) is WhyNot.CLOSED


# What they see.


def test_the_digest_is_of_what_is_shown() -> None:
    _, prompt = waiting(asking())
    shown = {"prompt": prompt.envelope.prompt, "responseSchema": prompt.envelope.response_schema}
    assert prompt.digest == digest(shown)
    _, approval = waiting(asking_leave())
    assert approval.digest == DIGEST


def test_the_votes_say_whose_they_are_and_in_whose_place() -> None:
    deployment, question = waiting(asking_leave(gate=Gate(frozenset({ANN.id, BEN.id}), 2)))
    set_away(deployment.engine, BEN, CLEO.id, START + 60 * MINUTE)
    decide(deployment, CLEO, question.checkpoint.task_id)
    ((voted,), _) = open_checkpoints(deployment.engine, ANN, None)
    assert voted.votes == (Vote(CLEO.id, "approve", BEN.id),)


@pytest.mark.parametrize("mode", [Mode.VETO, Mode.GATED, Mode.COMPOUND])
def test_the_mode_is_that_of_the_task(mode: Mode) -> None:
    _, question = waiting(declaring(mode))
    assert question.checkpoint.mode == mode


@pytest.mark.parametrize("mode", [Mode.VETO, Mode.GATED])
def test_what_the_skill_can_touch_is_shown(mode: Mode) -> None:
    class Directory:
        def reply(self, message: Message) -> None:
            pass

        def route(self, message: Message, skill_hint: str | None) -> Skill:
            return Skill("desk", "work", declared=Declared(mode), radius="repo")

    deployment = Deployment(asking())
    request = SendMessageRequest(
        message=message(), configuration=SendMessageConfiguration(return_immediately=True)
    )
    send_message(deployment.engine, Directory(), AGENT, request, extensions=frozenset())
    ((question,), _) = open_checkpoints(deployment.engine, ANN, None)
    assert question.checkpoint.radius == "repo"


# What happens if nobody answers.


def test_without_a_deadline_it_waits_and_with_one_it_ends() -> None:
    _, question = waiting(asking())
    assert question.next(Limits()) == (Next.WAITS, None)
    _, question = waiting(asking(deadline=MINUTE))
    assert question.next(Limits()) == (Next.ENDED, instant(START + MINUTE))


def test_a_window_starts_at_its_end() -> None:
    _, question = waiting(declaring(Mode.VETO))
    assert question.next(Limits()) == (Next.STARTS, instant(START + MINUTE))


@pytest.mark.parametrize(
    ("hops", "unanswered", "following"),
    [
        ('[["bearer:agent"], ["people"], ["operators"]]', "escalate", Next.PASSED_ON),
        ('[["people"], ["operators"]]', "escalate", Next.ESCALATED),
        ('[["people"], ["operators"]]', "reject", Next.ENDED),
    ],
)
def test_whoever_is_asked_passes_it_on_where_their_time_is_over_first(
    hops: str, unanswered: str, following: Next
) -> None:
    _, question = waiting(asking(deadline=3 * MINUTE))
    for minutes, expected in ((2, following), (4, Next.ENDED)):
        until = instant(START + minutes * MINUTE)
        asked = replace(question, checkpoint=replace(question.checkpoint, hops=hops, hop_until=until))
        at = instant(START + min(minutes, 3) * MINUTE)
        assert asked.next(Limits(unanswered=unanswered)) == (expected, at)


def test_nothing_happens_to_what_is_closed() -> None:
    deployment = Deployment(running(_asks_once))
    task_id = deployment.send().id
    prompt = deployment.open_prompt(task_id)
    deployment.cancel(task_id)
    assert checkpoint(deployment.engine, ANN, task_id, prompt).next(Limits()) is None


async def _asks_once(turn: Turn) -> None:
    await turn.ask("Go on?")


# Once it is closed.


def closed(deployment: Deployment, task_id: str) -> Question:
    prompt = max(deployment.prompts(task_id), key=lambda found: found.number).ask_id
    return checkpoint(deployment.engine, ANN, task_id, prompt)


def test_an_answer_is_accepted_then_retried_and_delivered_once_the_next_turn_has_begun() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    assert closed(deployment, task_id).delivery is None
    deployment.answer(ANN, task_id, {"approved": True})
    assert closed(deployment, task_id).delivery == Delivery(Reached.ACCEPTED)
    deployment.clock.advance(29)
    assert closed(deployment, task_id).delivery == Delivery(Reached.ACCEPTED)
    deployment.clock.advance(1)
    assert closed(deployment, task_id).delivery == Delivery(Reached.RETRYING)
    deployment.work()
    at = instant(deployment.clock.now())
    deployment.clock.advance(60)
    assert closed(deployment, task_id).delivery == Delivery(Reached.DELIVERED, at)


def test_when_an_answer_was_delivered_is_not_known_after_another_turn() -> None:
    async def asks_twice(turn: Turn) -> None:
        if len(turn.history) < 4:
            await turn.ask("Go on?")

    deployment = Deployment(running(asks_twice))
    task_id = deployment.send().id
    first = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, {"text": "yes"})
    deployment.answer(ANN, task_id, {"text": "yes"})
    found = checkpoint(deployment.engine, ANN, task_id, first)
    assert found.delivery == Delivery(Reached.DELIVERED)
    assert closed(deployment, task_id).delivery == Delivery(Reached.DELIVERED, instant(START))


def test_of_a_task_that_ended_before_its_turn_nothing_is_delivered() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.answer(ANN, task_id, {"approved": True})
    deployment.cancel(task_id)
    found = closed(deployment, task_id)
    assert (found.checkpoint.closed_by, found.delivery) == (ANN.id, Delivery(Reached.NOT_NEEDED))


@pytest.mark.parametrize(
    ("said", "status", "reached"),
    [("approve", "approved", Reached.DELIVERED), ("deny", "denied", Reached.NOT_NEEDED)],
)
def test_leave_to_start_is_delivered_where_it_starts(said: str, status: str, reached: Reached) -> None:
    deployment, question = waiting(declaring(Mode.GATED))
    decide(deployment, ANN, question.checkpoint.task_id, said, comment="so be it")
    found = closed(deployment, question.checkpoint.task_id)
    assert found.delivery is not None
    assert found.delivery.status is reached
    shown = found.checkpoint
    assert (shown.status, shown.closed_by, shown.comment) == (status, ANN.id, "so be it")


def test_a_decision_by_quorum_is_of_who_settled_it_and_a_cancel_of_who_canceled() -> None:
    deployment, question = waiting(asking_leave(quorum=2))
    task_id = question.checkpoint.task_id
    decide(deployment, ANN, task_id)
    decide(deployment, BEN, task_id)
    assert closed(deployment, task_id).checkpoint.closed_by == BEN.id
    canceled = deployment.send().id
    deployment.cancel(canceled)
    found = closed(deployment, canceled)
    assert (found.checkpoint.closed_by, found.delivery) == (AGENT.id, Delivery(Reached.NOT_NEEDED))


def test_what_ended_by_itself_was_nobodys() -> None:
    deployment, question = waiting(asking(deadline=MINUTE))
    deployment.clock.advance(60)
    (due,) = deployment.due_rows()
    handle_due(deployment.engine, due)
    found = closed(deployment, question.checkpoint.task_id)
    assert (found.checkpoint.status, found.checkpoint.closed_by) == ("expired", None)
    assert found.delivery == Delivery(Reached.NOT_NEEDED)
