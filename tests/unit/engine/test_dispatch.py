"""Modes: a skill that is gated starts once approved, one with a window of veto when that has ended (I6)."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import decide, decision, open_request, status_metadata
from tests.support.halting import halt, resume, walk_all
from tests.support.twin import (
    AGENT,
    ALICE,
    ANN,
    BEN,
    BOT,
    CAROL,
    PEER,
    Deployment,
    message,
    no_answer,
    once,
)

from interlock.a2a.errors import InvalidParams, PermissionDenied, TaskNotCancelable, UnsupportedOperation
from interlock.a2a.models import Part, TaskState
from interlock.agents import Agent, Gate, Mode, Turn
from interlock.engine.dispatch import EXCERPT, SKEW, WINDOW
from interlock.engine.due import handle_due
from interlock.engine.halts import Halted
from interlock.engine.ports import Key
from interlock.engine.records import Checkpoint
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.modes import DEFAULT_VETO_TTL_MS, MODE_STAMP, VETO_TTL_STAMP

TTL = timedelta(minutes=5)


async def done(turn: Turn) -> None:
    await turn.complete("done")


def skilled(mode: Mode, run: Callable[[Turn], Any] = done, **options: Any) -> Agent:
    agent = Agent("desk", "Works, in a mode")
    agent.skill("work", "Works", mode=mode, **options)(run)
    return agent


def noting(ran: list[Turn]) -> Callable[[Turn], Any]:
    async def run(turn: Turn) -> None:
        ran.append(turn)
        await turn.complete("done")

    return run


class TestGated:
    @pytest.fixture
    def ran(self) -> list[Turn]:
        return []

    @pytest.fixture(params=[Mode.GATED, Mode.COMPOUND])
    def deployment(self, request: pytest.FixtureRequest, ran: list[Turn]) -> Deployment:
        return Deployment(skilled(request.param, noting(ran)))

    def test_the_dispatch_itself_asks_before_anything_runs(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        task = deployment.send("go")
        assert task.status.state is TaskState.INPUT_REQUIRED
        request_id, asked = open_request(deployment, task.id)
        parts = [{"text": "go"}]
        assert asked.action == {"agent": "desk", "skill": "work", "input": {"parts": parts}}
        assert asked.requesters == {AGENT.id}
        metadata = status_metadata(task)
        assert metadata[approvals.KEY]["digest"] == approvals.digest_of(asked.action)
        assert metadata[hitl_prompt.URI]["prompt_id"] == request_id
        assert (ran, deployment.run_rows(), deployment.waker.turns) == ([], {}, [])

    def test_approved_it_runs_once_as_if_it_had_just_been_sent(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        task = deployment.send("go")
        assert decide(deployment, ANN, task.id).status.state is TaskState.COMPLETED
        (turn,) = ran
        assert (turn.message.text, turn.text, turn.approval, turn.answer) == ("go", "go", None, None)
        assert deployment.meta(task.id).turn == 1

    @pytest.mark.parametrize("said", ["deny"])
    def test_denied_it_ends_and_nothing_was_run(
        self, deployment: Deployment, ran: list[Turn], said: str
    ) -> None:
        task_id = deployment.send("go").id
        task = decide(deployment, ANN, task_id, said)
        assert task.status.state is TaskState.REJECTED
        assert task.status.message is not None
        assert "nothing was run" in task.status.message.text
        assert (ran, deployment.run_rows()) == ([], {})
        assert [prompt.status for prompt in deployment.prompts(task_id)] == [Checkpoint.DENIED]

    def test_who_asked_may_not_approve(self, deployment: Deployment, ran: list[Turn]) -> None:
        task_id = deployment.send("go", CAROL).id
        with pytest.raises(PermissionDenied):
            decide(deployment, CAROL, task_id)
        decide(deployment, ALICE, task_id)
        assert len(ran) == 1

    @pytest.mark.parametrize("who", [AGENT, BOT], ids=lambda who: who.id)
    def test_a_service_does_not_approve(self, deployment: Deployment, who: Any, ran: list[Turn]) -> None:
        task_id = deployment.send("go").id
        with pytest.raises(PermissionDenied):
            decide(deployment, who, task_id)
        assert ran == []

    def test_no_other_message_starts_it(self, deployment: Deployment, ran: list[Turn]) -> None:
        task_id = deployment.send("go").id
        with deployment.unchanged(), pytest.raises(UnsupportedOperation):
            deployment.send(message("now", task_id=task_id))
        with deployment.unchanged(), pytest.raises(InvalidParams):
            deployment.answer(ANN, task_id, {"decision": "approve"})
        assert ran == []

    def test_an_approval_of_another_input_counts_for_nothing(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        task_id, other_id = deployment.send("go").id, deployment.send("stay").id
        _, other = open_request(deployment, other_id)
        request_id, _ = open_request(deployment, task_id)
        with deployment.unchanged(), pytest.raises(InvalidParams):
            deployment.send(decision(task_id, request_id, digest=other.digest), ANN)
        assert ran == []

    def test_canceled_it_closes_what_it_asked(self, deployment: Deployment, ran: list[Turn]) -> None:
        task_id = deployment.send("go").id
        assert deployment.cancel(task_id).status.state is TaskState.CANCELED
        assert [prompt.status for prompt in deployment.prompts(task_id)] == [Checkpoint.CANCELED]
        with pytest.raises(InvalidParams):
            deployment.send(decision(task_id, deployment.prompts(task_id)[0].ask_id), ANN)
        assert ran == []

    def test_while_halted_it_is_refused_and_nothing_is_stored(self, deployment: Deployment) -> None:
        halt(deployment)
        walk_all(deployment)
        with deployment.unchanged(), pytest.raises(Halted):
            deployment.send("go", key="k" * 16)
        resume(deployment)
        assert deployment.send("go", key="k" * 16).status.state is TaskState.INPUT_REQUIRED

    def test_a_halt_keeps_it_waiting_and_its_approval_unconsumed(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        task_id = deployment.send("go").id
        halt(deployment)
        walk_all(deployment)
        with deployment.unchanged(), pytest.raises(Halted):
            decide(deployment, ANN, task_id)
        resume(deployment)
        decide(deployment, ANN, task_id)
        assert len(ran) == 1

    def test_a_retry_finds_the_same_task(self, deployment: Deployment) -> None:
        first = deployment.send(message("go", message_id="m"), key="k" * 16)
        assert deployment.send(message("go", message_id="m"), key="k" * 16).id == first.id

    def test_a_lost_reply_makes_one_task(self, deployment: Deployment) -> None:
        deployment.hook(after=once("write", no_answer))
        task = deployment.send("go")
        assert deployment.listed().total_size == 1
        assert deployment.open_prompt(task.id)

    def test_a_long_input_is_approved_by_its_digest(self, deployment: Deployment) -> None:
        text = "long " * 3000
        task = deployment.send(text)
        _, asked = open_request(deployment, task.id)
        digest = approvals.digest_of({"parts": [{"text": text}]})
        assert asked.action["input"] == {"digest": digest, "excerpt": text[:EXCERPT]}

    def test_what_has_no_canonical_form_can_not_be_put_before_people(self, deployment: Deployment) -> None:
        with deployment.unchanged(), pytest.raises(InvalidParams):
            deployment.send(message(parts=[Part(data={"n": 2**60})]))


def test_a_gate_says_who_approves_and_how_many() -> None:
    ran: list[Turn] = []
    gate = Gate(frozenset({ALICE.id, ANN.id, BEN.id}), quorum=2)
    deployment = Deployment(skilled(Mode.GATED, noting(ran), gate=gate))
    task_id = deployment.send("go").id
    assert decide(deployment, ALICE, task_id).status.state is TaskState.INPUT_REQUIRED
    with pytest.raises(PermissionDenied):
        decide(deployment, CAROL, task_id)
    assert ran == []
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED
    assert len(ran) == 1


def test_each_question_of_a_compound_task_is_a_checkpoint_with_a_number_and_an_id_of_its_own() -> None:
    async def draft_review_publish(turn: Turn) -> None:
        if len(turn.answers) < 2:
            await turn.ask(f"Step {len(turn.answers)}?", {"type": "object"})
        else:
            await turn.complete("published")

    deployment = Deployment(skilled(Mode.COMPOUND, draft_review_publish))
    task_id = deployment.send("go").id
    decide(deployment, ANN, task_id)
    first = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, {}, prompt_id=first)
    second = deployment.open_prompt(task_id)
    with deployment.unchanged(), pytest.raises(Exception, match="hitl_already_answered"):
        deployment.answer(BEN, task_id, {}, prompt_id=first)
    assert deployment.answer(ANN, task_id, {}, prompt_id=second).status.state is TaskState.COMPLETED
    assert sorted(prompt.number for prompt in deployment.prompts(task_id)) == [1, 2, 3]
    assert len({prompt.ask_id for prompt in deployment.prompts(task_id)}) == 3


class TestVeto:
    @pytest.fixture
    def ran(self) -> list[Turn]:
        return []

    @pytest.fixture
    def deployment(self, ran: list[Turn]) -> Deployment:
        return Deployment(skilled(Mode.VETO, noting(ran), veto=TTL))

    def row(self, deployment: Deployment) -> Key:
        (key,) = deployment.due_rows()
        return key

    def end(self, deployment: Deployment, seconds: float = SKEW.total_seconds()) -> None:
        """The clock goes on to the end of a window that has just been opened, and so far beyond it."""
        deployment.clock.advance(TTL.total_seconds() + seconds)

    def test_nothing_runs_before_the_window_has_ended(self, deployment: Deployment, ran: list[Turn]) -> None:
        task = deployment.send("go")
        assert task.status.state is TaskState.SUBMITTED
        assert task.status.message is not None
        assert "unless it is canceled" in task.status.message.text
        key = self.row(deployment)
        assert deployment.waker.timers == [(key, deployment.clock.now() + TTL)]
        for seconds in (0, TTL.total_seconds() - 1, 1.5):
            deployment.clock.advance(seconds)
            handle_due(deployment.engine, key)
            assert ran == []
        deployment.clock.advance(1)
        handle_due(deployment.engine, key)
        assert deployment.get(task.id).status.state is TaskState.COMPLETED
        assert [turn.message.text for turn in ran] == ["go"]
        assert deployment.due_rows() == deployment.run_rows() == {}
        assert [prompt.status for prompt in deployment.prompts(task.id)] == [Checkpoint.PASSED]

    def test_a_timer_that_comes_again_passes_nothing_again(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        deployment.send("go")
        key = self.row(deployment)
        self.end(deployment)
        for _ in range(3):
            handle_due(deployment.engine, key)
        assert len(ran) == 1

    @pytest.mark.parametrize("who", [AGENT, ANN], ids=lambda who: who.id)
    def test_until_then_whoever_may_cancel_vetoes(
        self, deployment: Deployment, ran: list[Turn], who: Any
    ) -> None:
        task_id = deployment.send("go").id
        key = self.row(deployment)
        self.end(deployment)
        assert deployment.cancel(task_id, who).status.state is TaskState.CANCELED
        assert [prompt.status for prompt in deployment.prompts(task_id)] == [Checkpoint.VETOED]
        handle_due(deployment.engine, key)
        assert (ran, deployment.due_rows()) == ([], {})

    def test_once_it_has_passed_a_cancel_is_too_late_for_what_has_run(self, deployment: Deployment) -> None:
        task_id = deployment.send("go").id
        self.end(deployment)
        handle_due(deployment.engine, self.row(deployment))
        with pytest.raises(TaskNotCancelable):
            deployment.cancel(task_id)

    def test_nobody_else_cancels(self, deployment: Deployment) -> None:
        task_id = deployment.send("go").id
        with deployment.unchanged(), pytest.raises(Exception, match="not found"):
            deployment.cancel(task_id, PEER)

    def test_it_takes_neither_messages_nor_answers(self, deployment: Deployment) -> None:
        task_id = deployment.send("go").id
        with deployment.unchanged(), pytest.raises(UnsupportedOperation):
            deployment.send(message("now", task_id=task_id))
        with deployment.unchanged(), pytest.raises(InvalidParams):
            deployment.answer(ANN, task_id, {})

    def test_while_halted_it_does_not_pass_and_after_that_the_window_starts_anew(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        task_id = deployment.send("go").id
        key = self.row(deployment)
        halt(deployment)
        walk_all(deployment)
        self.end(deployment)
        handle_due(deployment.engine, key)
        assert (ran, list(deployment.due_rows())) == ([], [key])
        resume(deployment)
        handle_due(deployment.engine, key)
        assert ran == []
        again = self.row(deployment)
        assert again != key
        self.end(deployment, -1)
        handle_due(deployment.engine, again)
        assert ran == []
        deployment.clock.advance(2)
        handle_due(deployment.engine, again)
        assert len(ran) == 1
        assert deployment.get(task_id).status.state is TaskState.COMPLETED

    def test_a_halt_that_was_over_before_the_end_changes_nothing(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        deployment.send("go")
        halt(deployment)
        walk_all(deployment)
        deployment.clock.advance(10)
        resume(deployment)
        self.end(deployment)
        handle_due(deployment.engine, self.row(deployment))
        assert len(ran) == 1

    def test_a_halt_between_the_look_and_the_write_keeps_it(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        deployment.send("go")
        key = self.row(deployment)
        self.end(deployment)
        deployment.hook(after=once("snapshot", lambda: halt(deployment)))
        handle_due(deployment.engine, key)
        assert (ran, list(deployment.due_rows())) == ([], [key])

    def test_what_can_not_be_known_to_be_unhalted_does_not_pass(
        self, deployment: Deployment, ran: list[Turn]
    ) -> None:
        deployment.send("go")
        key = self.row(deployment)
        self.end(deployment)
        deployment.hook(before=once("snapshot", no_answer))
        handle_due(deployment.engine, key)
        assert (ran, list(deployment.due_rows())) == ([], [key])

    def test_a_lost_reply_of_the_pass_runs_it_once(self, deployment: Deployment, ran: list[Turn]) -> None:
        task_id = deployment.send("go").id
        key = self.row(deployment)
        self.end(deployment)
        deployment.hook(after=once("write", no_answer))
        handle_due(deployment.engine, key)
        assert deployment.meta(task_id).turn == 1
        assert deployment.due_rows() == {}
        deployment.run_turn("acme", task_id, 1)
        assert len(ran) == 1


def test_a_window_is_a_minute_unless_it_is_declared_otherwise() -> None:
    deployment = Deployment(skilled(Mode.VETO))
    task_id = deployment.send("go").id
    (window,) = deployment.prompts(task_id)
    assert (window.kind, window.window_ms) == (Checkpoint.WINDOW, DEFAULT_VETO_TTL_MS)
    assert [item["kind"] for item in deployment.due_rows().values()] == [WINDOW]


@pytest.mark.parametrize("mode", [Mode.AUTONOMOUS, Mode.NOTIFICATION])
def test_other_modes_run_at_once(mode: Mode) -> None:
    ran: list[Turn] = []
    deployment = Deployment(skilled(mode, noting(ran)))
    assert deployment.send("go").status.state is TaskState.COMPLETED
    assert len(ran) == 1


def test_stamps_of_a_caller_are_taken_out_and_its_surface_is_kept() -> None:
    deployment = Deployment(skilled(Mode.AUTONOMOUS))
    source = {"interface": "discord", "channelId": "c-1", "userId": "u-1", "other": "x"}
    stamped = {MODE_STAMP: "autonomous", VETO_TTL_STAMP: 1, "mine": True, "source": source}
    task = deployment.send(message("go", metadata=stamped))
    assert task.history is not None
    assert task.history[0].metadata == {"mine": True, "source": source}
    kept = '{"interface": "discord", "channelId": "c-1", "userId": "u-1"}'
    assert deployment.meta(task.id).source == kept


@pytest.mark.parametrize(
    "source", [None, "discord", {}, {"channelId": "c"}, {"interface": 1}, {"interface": "x" * 300}]
)
def test_a_surface_that_is_none_is_not_kept(source: Any) -> None:
    deployment = Deployment(skilled(Mode.AUTONOMOUS))
    assert deployment.meta(deployment.send(message("go", metadata={"source": source})).id).source is None


def test_a_mode_that_contradicts_is_refused_when_it_is_declared() -> None:
    with pytest.raises(ValueError, match="isolated"):
        Agent("desk", "d", isolated=True).skill("work", "w", mode=Mode.GATED)
    agent = Agent("desk", "d")
    with pytest.raises(ValueError, match="vetoTtlMs"):
        agent.skill("work", "w", mode=Mode.VETO, veto=timedelta())
    with pytest.raises(ValueError, match="reviewer"):
        agent.skill("work", "w", mode=Mode.GATED, reviewer="somebody")
