"""The chain of those who are asked: dispatching agents first, then people, then operators (hitl-mode-v1)."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.approvals import asking_leave, decide
from tests.support.halting import halt, resume, walk_all
from tests.support.twin import AGENT, ANN, BOT, CAROL, PEER, Deployment, asking, message, no_answer, once

from interlock.a2a.errors import InvalidParams, PermissionDenied, TaskNotFound
from interlock.a2a.models import Task, TaskState
from interlock.agents import Agent, Turn
from interlock.engine.context import Limits
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerRefused
from interlock.engine.facts import fact_pk
from interlock.engine.halts import Halted
from interlock.engine.ports import Put, Update
from interlock.engine.records import Checkpoint, Delegation, Notice
from interlock.oversight import delegation, reviewers
from interlock.oversight.principals import Kind, Principal, Role
from interlock.oversight.reviewers import PASS_ON, Hop, chain_of

TOP = Principal("bearer:top", "acme", Kind.SERVICE, frozenset({Role.CALLER}))
NO = {"approved": False}
AGENT_HOP, PEOPLE_HOP = 300, 1800


class Place:
    def __init__(self, agent: Agent | None = None, **limits: Any) -> None:
        self.deployment = Deployment(agent or asking(), limits=Limits(**limits))
        self.deployment.engine = replace(self.deployment.engine, notices=True)

    def chain(self, task_id: str) -> list[tuple[str, str | None]]:
        prompt = self.deployment.prompts(task_id)[-1]
        return [(hop.who, hop.outcome) for hop in reviewers.from_json(prompt.hops)]

    def pass_on(self, task_id: str, who: Principal = AGENT, said: Any = None) -> Task:
        named = {"prompt_id": self.deployment.open_prompt(task_id)} if said is None else said
        sent = message("not mine to say", task_id=task_id, metadata={PASS_ON: named})
        return self.deployment.send(sent, who)

    def told(self, task_id: str) -> list[str]:
        pk = self.deployment.meta(task_id).key.pk
        rows = [Notice.read(item) for _, item in self.deployment.table.query(pk, first="NOTE#").rows]
        return [notice.tells for notice in sorted(rows, key=lambda notice: notice.at)]

    def time_passes(self, seconds: float) -> None:
        self.deployment.clock.advance(seconds)
        for key, item in self.deployment.due_rows().items():
            if item["kind"] == "hop":
                handle_due(self.deployment.engine, key)

    def trail(self) -> list[dict[str, Any]]:
        rows = self.deployment.table.query(fact_pk("acme")).rows
        facts = [json.loads(str(item["body"])) for _, item in rows]
        return [fact for fact in facts if fact["kind"] == "reviewer.asked"]

    def delegated(self, parent: str, *, context: str = "delegation-1", owner: Principal = PEER) -> str:
        """The child of a task that has recorded what it delegated."""
        made = Delegation("acme", parent, context, "self", 1, 1, "2026-01-01", "2026-01-01")
        self.deployment.table.write(Put(made.key, made.item()))
        terms = {delegation.KEY: {"depth": 1, "parent": parent}}
        return self.deployment.send(message("go", context_id=context), owner, metadata=terms).id


@pytest.fixture
def place() -> Place:
    return Place()


AGENTS = [("bearer:agent", None), ("people", None), ("operators", None)]


class TestWhoIsAsked:
    def test_the_agent_that_sent_the_work_then_people_then_operators(self, place: Place) -> None:
        assert place.chain(place.deployment.send().id) == AGENTS

    def test_of_a_person_people_at_once(self, place: Place) -> None:
        task_id = place.deployment.send(who=CAROL).id
        assert place.chain(task_id) == AGENTS[1:]
        assert place.told(task_id) == ["asked"]

    def test_a_skill_may_send_its_questions_straight_to_people(self) -> None:
        agent = Agent("desk", "d")

        @agent.skill("work", "w", reviewer="operator")
        async def work(turn: Turn) -> None:
            await turn.ask("Go on?")

        place = Place(agent)
        assert place.chain(place.deployment.send().id) == AGENTS[1:]

    def test_leave_is_never_asked_of_the_agent_that_wants_it(self) -> None:
        place = Place(asking_leave())
        task_id = place.deployment.send().id
        assert place.chain(task_id) == AGENTS[1:]
        assert decide(place.deployment, ANN, task_id).status.state is TaskState.COMPLETED

    def test_delegated_work_goes_up_the_chain_as_it_was_recorded(self, place: Place) -> None:
        top = place.deployment.send(who=TOP).id
        middle = place.delegated(top, context="delegation-1", owner=AGENT)
        bottom = place.delegated(middle, context="delegation-2", owner=PEER)
        assert [who for who, _ in place.chain(bottom)] == [
            "bearer:peer",
            "bearer:agent",
            "bearer:top",
            "people",
            "operators",
        ]

    def test_a_cycle_is_cut(self, place: Place) -> None:
        top = place.deployment.send(who=AGENT).id
        middle = place.delegated(top, context="delegation-1", owner=PEER)
        bottom = place.delegated(middle, context="delegation-2", owner=AGENT)
        assert [who for who, _ in place.chain(bottom)] == [
            "bearer:agent",
            "bearer:peer",
            "people",
            "operators",
        ]

    @pytest.mark.parametrize("terms", [{"parent": "none"}, {}, {"parent": None}])
    def test_a_parent_that_did_not_delegate_it_is_not_believed(
        self, place: Place, terms: dict[str, Any]
    ) -> None:
        claimed = {"depth": 1, **terms}
        forged = {"source": {"interface": "a2a", "agentId": "bearer:top"}, "dispatcherAgent": "bearer:top"}
        sent = message("go", context_id="context-1", metadata=forged)
        task_id = place.deployment.send(sent, metadata={delegation.KEY: claimed}).id
        assert place.chain(task_id) == AGENTS
        with pytest.raises(TaskNotFound):
            place.deployment.get(task_id, TOP)

    def test_nor_one_that_delegated_something_else(self, place: Place) -> None:
        top = place.deployment.send(who=TOP).id
        place.delegated(top, context="delegation-1")
        terms = {delegation.KEY: {"depth": 1, "parent": top}}
        task_id = place.deployment.send(message("go", context_id="delegation-2"), metadata=terms).id
        assert place.chain(task_id) == AGENTS

    def test_no_more_than_so_many(self) -> None:
        many = [f"bearer:{number}" for number in range(20)]
        hops = chain_of("bearer:x", many, straight_to_people=False)
        assert len(hops) == reviewers.MAX_AGENTS + 2

    @pytest.mark.parametrize(
        ("owner", "above", "expected"),
        [
            ("", [], ["people", "operators"]),
            ("a", ["b"], ["a", "b", "people", "operators"]),
            ("", ["b", "b"], ["b", "people", "operators"]),
        ],
    )
    def test_the_order(self, owner: str, above: Sequence[str], expected: list[str]) -> None:
        assert chain_of(owner, above, straight_to_people=False) == [Hop(who) for who in expected]


class TestPassingOn:
    def test_whoever_is_asked_passes_it_on_unchanged(self, place: Place) -> None:
        task_id = place.deployment.send().id
        prompt = place.deployment.open_prompt(task_id)
        assert place.told(task_id) == []
        task = place.pass_on(task_id)
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert place.deployment.open_prompt(task_id) == prompt
        assert place.chain(task_id) == [("bearer:agent", "passed"), *AGENTS[1:]]
        assert place.told(task_id) == ["asked"]
        (fact,) = place.trail()
        assert fact["actor"] == {"subject": "agent", "scheme": "bearer"}
        assert fact["detail"] == {"prompt": prompt, "asked": "people", "passed": "passed"}

    @pytest.mark.parametrize("text", ["", "  \n"])
    def test_a_reply_without_content_passes_on_too(self, place: Place, text: str) -> None:
        task_id = place.deployment.send().id
        place.deployment.send(message(text, task_id=task_id))
        assert place.chain(task_id)[0] == ("bearer:agent", "passed")

    def test_said_again_it_passes_on_nothing_more(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.pass_on(task_id)
        with place.deployment.unchanged():
            place.pass_on(task_id)
            place.deployment.send(message("", task_id=task_id))

    def test_a_lost_reply_passes_it_on_once(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.deployment.hook(after=once("write", no_answer))
        place.pass_on(task_id)
        assert place.chain(task_id) == [("bearer:agent", "passed"), *AGENTS[1:]]
        assert len(place.trail()) == 1

    @pytest.mark.parametrize("who", [ANN, CAROL], ids=lambda who: who.id)
    def test_nobody_else_does(self, place: Place, who: Principal) -> None:
        task_id = place.deployment.send().id
        with place.deployment.unchanged(), pytest.raises(PermissionDenied):
            place.pass_on(task_id, who)

    def test_whoever_does_not_see_the_task_is_told_nothing(self, place: Place) -> None:
        task_id = place.deployment.send().id
        with place.deployment.unchanged(), pytest.raises(TaskNotFound):
            place.pass_on(task_id, PEER)

    @pytest.mark.parametrize("said", [[], "x", {}, {"prompt_id": "x"}, {"prompt_id": 1}])
    def test_what_is_malformed_is_refused(self, place: Place, said: Any) -> None:
        task_id = place.deployment.send().id
        with place.deployment.unchanged(), pytest.raises(InvalidParams):
            place.pass_on(task_id, said=said)

    def test_a_question_that_is_answered_can_not_be_passed_on(self, place: Place) -> None:
        task_id = place.deployment.send().id
        prompt = place.deployment.open_prompt(task_id)
        place.deployment.answer(AGENT, task_id, NO)
        with place.deployment.unchanged(), pytest.raises(AnswerRefused):
            place.pass_on(task_id, said={"prompt_id": prompt})

    def test_not_while_halted(self, place: Place) -> None:
        task_id = place.deployment.send().id
        halt(place.deployment)
        walk_all(place.deployment)
        with place.deployment.unchanged(), pytest.raises(Halted):
            place.pass_on(task_id)
        resume(place.deployment)
        place.pass_on(task_id)
        assert place.chain(task_id)[0] == ("bearer:agent", "passed")

    def test_up_the_chain_each_may_answer_in_turn_or_pass_on(self, place: Place) -> None:
        top = place.deployment.send(who=TOP).id
        bottom = place.delegated(top, owner=PEER)
        place.pass_on(bottom, PEER)
        assert place.deployment.get(bottom, TOP).status.state is TaskState.INPUT_REQUIRED
        task = place.deployment.answer(TOP, bottom, {"approved": True})
        assert task.status.state is TaskState.COMPLETED
        (prompt,) = place.deployment.prompts(bottom)
        assert json.loads(prompt.winner or "")[0] == "bearer:top"


class TestTime:
    def test_an_agent_that_says_nothing_is_passed_over(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.time_passes(AGENT_HOP - 1)
        assert place.chain(task_id) == AGENTS
        place.time_passes(1)
        assert place.chain(task_id) == [("bearer:agent", "timed out"), *AGENTS[1:]]
        assert place.told(task_id) == ["asked"]
        assert place.deployment.waker.notices[-1] == ("acme", task_id)

    def test_and_may_still_answer(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.time_passes(AGENT_HOP)
        assert place.deployment.answer(AGENT, task_id, {"approved": True}).status.state is TaskState.COMPLETED

    def test_people_see_it_in_their_inbox_from_the_beginning(self, place: Place) -> None:
        task_id = place.deployment.send().id
        assert place.deployment.answer(ANN, task_id, {"approved": True}).status.state is TaskState.COMPLETED

    def test_when_people_say_nothing_it_is_escalated_and_stays_open(self, place: Place) -> None:
        task_id = place.deployment.send(who=CAROL).id
        place.time_passes(PEOPLE_HOP)
        assert place.chain(task_id) == [("people", "timed out"), ("operators", None)]
        assert place.told(task_id) == ["asked", "escalated"]
        place.time_passes(PEOPLE_HOP * 10)
        assert place.told(task_id) == ["asked", "escalated"]
        assert place.deployment.open_prompt(task_id)

    def test_or_it_is_rejected_where_that_is_configured(self) -> None:
        place = Place(unanswered="reject")
        task_id = place.deployment.send().id
        place.time_passes(AGENT_HOP)
        assert place.deployment.open_prompt(task_id)
        place.time_passes(PEOPLE_HOP)
        task = place.deployment.get(task_id)
        assert task.status.state is TaskState.FAILED
        assert [prompt.status for prompt in place.deployment.prompts(task_id)] == [Checkpoint.EXPIRED]

    def test_what_it_had_delegated_is_canceled_then(self) -> None:
        place = Place(unanswered="reject")
        meta = place.deployment.meta(place.deployment.send().id)
        place.deployment.engine.table.write(Update(meta.key, {"delegates": 1}))
        place.time_passes(AGENT_HOP)
        place.time_passes(PEOPLE_HOP)
        assert place.deployment.waker.children[-1] == (meta.tenant, meta.task_id)

    @pytest.mark.parametrize("unanswered", ["escalate", "reject"])
    def test_time_never_approves(self, unanswered: str) -> None:
        ran: list[Turn] = []

        async def note(turn: Turn) -> None:
            ran.append(turn)

        place = Place(asking_leave(then=note), unanswered=unanswered)
        place.deployment.send()
        for _ in range(5):
            place.time_passes(PEOPLE_HOP)
        assert ran == []

    def test_while_halted_nothing_is_passed_on_and_after_that_it_is(self, place: Place) -> None:
        task_id = place.deployment.send().id
        halt(place.deployment)
        walk_all(place.deployment)
        place.time_passes(AGENT_HOP)
        assert place.chain(task_id) == AGENTS
        resume(place.deployment)
        place.time_passes(0)
        assert place.chain(task_id)[0] == ("bearer:agent", "timed out")

    def test_a_timer_of_one_who_has_passed_it_on_passes_nothing_on(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.deployment.clock.advance(10)
        place.pass_on(task_id)
        place.time_passes(AGENT_HOP - 10)
        assert place.chain(task_id) == [("bearer:agent", "passed"), *AGENTS[1:]]

    def test_of_what_is_answered_the_rows_go(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.deployment.answer(ANN, task_id, NO)
        place.time_passes(AGENT_HOP)
        assert not [row for row in place.deployment.due_rows().values() if row["kind"] == "hop"]

    def test_a_lost_reply_passes_it_on_once(self, place: Place) -> None:
        task_id = place.deployment.send().id
        place.deployment.hook(after=once("write", no_answer))
        place.time_passes(AGENT_HOP)
        assert place.chain(task_id) == [("bearer:agent", "timed out"), *AGENTS[1:]]
        assert len(place.trail()) == 1


def test_an_agents_answer_is_recorded_as_its_own(place: Place) -> None:
    task_id = place.deployment.send().id
    place.deployment.answer(AGENT, task_id, NO)
    (prompt,) = place.deployment.prompts(task_id)
    assert json.loads(prompt.winner or "")[0] == AGENT.id


def test_an_agent_never_counts_towards_a_consensus() -> None:
    place = Place(asking(allowed_responders=["consensus:2"]))
    task_id = place.deployment.send().id
    for who in (AGENT, BOT):
        with place.deployment.unchanged(), pytest.raises(PermissionDenied):
            place.deployment.answer(who, task_id, NO)


def test_where_nobody_can_be_told_nothing_falls_due_and_the_word_of_an_agent_still_counts() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    assert deployment.due_rows() == {}
    deployment.send(message("", task_id=task_id))
    assert deployment.due_rows() == {}
    (prompt,) = deployment.prompts(task_id)
    assert reviewers.from_json(prompt.hops)[0] == Hop(AGENT.id, "passed")
