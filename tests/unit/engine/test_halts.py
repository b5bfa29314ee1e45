"""Halting: what is refused meanwhile and how, what is served, and who may declare and lift it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.support import approvals
from tests.support.halt_records import SCOPES, facts, report, standing
from tests.support.halting import ACME, ALL, DESK, REASON, WORK, halt, resume, run_of, walk_all
from tests.support.twin import (
    AGENT,
    ANN,
    BEN,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound, Unavailable
from interlock.a2a.models import TaskState
from interlock.agents import Turn
from interlock.engine.context import new_id
from interlock.engine.create import LIFTED
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerRefused
from interlock.engine.facts import HALT
from interlock.engine.halt import Lifted, declare, declare_as, lift
from interlock.engine.halts import UNREADABLE, Halted
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.records import Checkpoint
from interlock.engine.resume import resume_task
from interlock.engine.run_turn import start
from interlock.engine.sweep import sweep
from interlock.oversight.approvals import KEY
from interlock.oversight.halts import MAX_REASON, Scope
from interlock.oversight.hitl_prompt import RESPONSE_KEY
from interlock.oversight.principals import Kind, Principal, Role

YES = {"approved": True}
SEND_KEY = "a-key-of-the-caller-0001"
OTHERS = (
    Scope("other"),
    Scope("acme", agent="clerk"),
    Scope("acme", skill="rest"),
    Scope("other", agent="desk"),
)


def quiet() -> Deployment:
    return Deployment(running(nothing), at_once=False)


def refused(deployment: Deployment, call: Callable[[], Any], reason: str = REASON) -> None:
    """The call is told of the halt, and nobody is woken."""
    woken = list(deployment.waker.turns)
    with pytest.raises(Halted) as caught:
        call()
    assert caught.value.message == f"halted: {reason}"
    assert (caught.value.http_status, caught.value.status, caught.value.code) == (503, "UNAVAILABLE", -32603)
    assert deployment.waker.turns == woken


def state(deployment: Deployment, task_id: str) -> TaskState:
    return deployment.meta(task_id).task_state


# What a halt covers, and what is told of several.


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_send_that_is_covered_is_refused_and_leaves_nothing_that_could_run(scope: Scope) -> None:
    deployment = quiet()
    halt(deployment, scope)
    refused(deployment, deployment.send)
    assert deployment.run_rows() == {}
    (meta,) = (item for key, item in deployment.rows().items() if key.sk == "META")
    assert (meta["state"], meta["halted"], meta["withdrawn"]) == (TaskState.CANCELED.value, True, True)


@pytest.mark.parametrize("scope", OTHERS, ids=str)
def test_a_send_that_is_not_covered_goes_on(scope: Scope) -> None:
    deployment = quiet()
    halt(deployment, scope)
    task = deployment.send()
    deployment.work()
    assert state(deployment, task.id) is TaskState.COMPLETED


def test_of_several_reasons_that_of_the_widest_scope_is_told() -> None:
    deployment = Deployment(asking())
    task = deployment.send()
    for scope in reversed(SCOPES):
        halt(deployment, scope, f"{scope} is down")
        refused(deployment, deployment.send, f"{scope} is down")
        refused(deployment, lambda: deployment.answer(ANN, task.id, YES), f"{scope} is down")
    for scope in SCOPES:
        refused(deployment, deployment.send, f"{scope} is down")
        refused(deployment, lambda: deployment.answer(ANN, task.id, YES), f"{scope} is down")
        assert resume(deployment, scope) is Lifted.LIFTED
    assert deployment.answer(ANN, task.id, YES).status.state is TaskState.COMPLETED
    deployment.send()


def test_halting_again_replaces_the_reason_and_wakes_for_what_runs() -> None:
    deployment = quiet()
    halt(deployment, reason="first", by=OPS)
    deployment.clock.advance(1)
    again = halt(deployment, reason="second")
    assert again == standing(deployment)
    assert (again.generation, again.reason, again.by) == (2, "second", PLATFORM.id)
    assert deployment.waker.walks == [("tenant:acme", 1), ("tenant:acme", 2)]
    refused(deployment, deployment.send, "second")
    assert resume(deployment) is Lifted.LIFTED
    deployment.send()


def test_halting_again_after_it_was_lifted_is_a_halt_of_its_own() -> None:
    deployment = quiet()
    halt(deployment)
    resume(deployment)
    again = halt(deployment)
    assert (again.generation, again.walked_at, again.stopped) == (2, None, 0)
    refused(deployment, deployment.send)


# Lifting.


def test_lifting_lifts_exactly_its_scope() -> None:
    deployment = quiet()
    for scope in SCOPES:
        halt(deployment, scope)
    for scope in SCOPES:
        assert resume(deployment, scope) is Lifted.LIFTED
        left = [one for one in SCOPES if standing(deployment, one).on]
        assert left == list(SCOPES[SCOPES.index(scope) + 1 :])


@pytest.mark.parametrize("once_halted", [False, True])
def test_lifting_what_is_not_halted_writes_nothing_and_is_not_on_the_trail(once_halted: bool) -> None:
    deployment = quiet()
    halt(deployment, DESK)
    if once_halted:
        halt(deployment)
        resume(deployment)
    with deployment.unchanged():
        assert resume(deployment) is Lifted.NOTHING


def test_lifting_a_halt_that_was_replaced_since_lifts_nothing_and_says_so() -> None:
    deployment = quiet()
    seen = halt(deployment)
    halt(deployment, reason="something else")
    with deployment.unchanged():
        assert lift(deployment.engine, OPS, ACME, seen.generation) is Lifted.HALTED_ANEW
    refused(deployment, deployment.send, "something else")
    assert lift(deployment.engine, OPS, ACME, 2) is Lifted.LIFTED


def test_a_halt_that_comes_while_one_is_lifted_stays() -> None:
    deployment = quiet()
    halt(deployment)
    walk_all(deployment)
    deployment.hook(before=once("write", lambda: halt(deployment, reason="something else")))
    assert resume(deployment) is Lifted.HALTED_ANEW
    refused(deployment, deployment.send, "something else")


def test_what_was_lifted_keeps_when_and_by_whom() -> None:
    deployment = quiet()
    halt(deployment)
    walk_all(deployment)
    deployment.clock.advance(60)
    resume(deployment, by=OPS)
    lifted = standing(deployment)
    assert (lifted.on, lifted.generation) == (None, 1)
    assert (lifted.resumed_at, lifted.resumed_by) == ("2026-01-01T12:01:00.000000Z", OPS.id)
    halt(deployment)
    assert standing(deployment).resumed_at == "2026-01-01T12:01:00.000000Z"


# The copies.


def test_all_copies_of_a_halt_are_written_as_one_and_are_the_same() -> None:
    deployment = quiet()
    written: list[int] = []

    def note(operation: str, writes: tuple[Any, ...]) -> None:
        if operation == "write":
            written.append(sum(write.key.pk.startswith("HALT#") for write in writes))

    deployment.hook(after=note)
    halted = halt(deployment)
    walk_all(deployment)
    resume(deployment)
    assert len(halted.copies()) == 8
    # Declared, walked to the end, and lifted.
    assert [number for number in written if number] == [8, 8, 8]
    assert len({str(deployment.rows()[key]) for key in halted.copies()}) == 1


def test_every_task_finds_the_halt_in_whichever_copy_it_reads() -> None:
    deployment = quiet()
    read: set[str] = set()

    def note(operation: str, keys: tuple[Any, ...]) -> None:
        if operation == "snapshot":
            read.update(key.pk for key in keys if key.pk.startswith("HALT#"))

    halt(deployment)
    deployment.hook(before=note)
    for _ in range(200):
        refused(deployment, deployment.send)
    assert read == {key.pk for key in standing(deployment).copies()}


# Decisions of people: refused, not consumed, and taken afterwards.


@dataclass(frozen=True)
class Waiting:
    """A task that waits, and what is done about it; `done` says whether that was taken."""

    deployment: Deployment
    task_id: str
    act: Callable[[], Any]
    done: Callable[[], bool]


def went_on(deployment: Deployment, task_id: str) -> Callable[[], bool]:
    return lambda: deployment.meta(task_id).turn == 2


def an_answer() -> Waiting:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    said = message(task_id=task_id, metadata=answer_to(deployment.open_prompt(task_id), YES))
    return Waiting(deployment, task_id, lambda: deployment.send(said, ANN), went_on(deployment, task_id))


def answer_to(prompt_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {RESPONSE_KEY: {"prompt_id": prompt_id, "payload": payload}}


def a_vote() -> Waiting:
    deployment = Deployment(asking(allowed_responders=["consensus:2"]), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    said = message(task_id=task_id, metadata=answer_to(deployment.open_prompt(task_id), YES))
    return Waiting(
        deployment,
        task_id,
        lambda: deployment.send(said, ANN),
        lambda: ANN.id in deployment.prompts(task_id)[0].votes,
    )


def a_decision(said: str, quorum: int = 1) -> Callable[[], Waiting]:
    def waiting() -> Waiting:
        deployment = Deployment(approvals.asking_leave(quorum=quorum), at_once=False)
        task_id = deployment.send().id
        deployment.work()
        request_id, asked = approvals.open_request(deployment, task_id)
        decision = approvals.decision(task_id, request_id, said, digest=asked.digest)
        return Waiting(
            deployment,
            task_id,
            lambda: deployment.send(decision, ANN),
            lambda: ANN.id in deployment.prompts(task_id)[0].votes,
        )

    return waiting


def a_continuation() -> Waiting:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    act = lambda: deployment.send(message("never mind", task_id=task_id))  # noqa: E731
    return Waiting(deployment, task_id, act, went_on(deployment, task_id))


def a_credential() -> Waiting:
    async def signs_in(turn: Turn) -> None:
        await turn.require_auth("sign in")

    deployment = Deployment(running(signs_in), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    act = lambda: resume_task(deployment.engine, ANN, task_id)  # noqa: E731
    return Waiting(deployment, task_id, act, went_on(deployment, task_id))


DECISIONS: dict[str, Callable[[], Waiting]] = {
    "an answer": an_answer,
    "a vote of a consensus": a_vote,
    "an approval": a_decision("approve"),
    "a denial": a_decision("deny"),
    "a vote of a quorum": a_decision("approve", 2),
    "a message that goes on": a_continuation,
    "a credential": a_credential,
}


@pytest.mark.parametrize("scope", SCOPES, ids=str)
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_is_refused_while_halted_and_not_consumed(decision: str, scope: Scope) -> None:
    waiting = DECISIONS[decision]()
    halt(waiting.deployment, scope)
    with waiting.deployment.unchanged():
        refused(waiting.deployment, waiting.act)
    walk_all(waiting.deployment, scope)
    assert state(waiting.deployment, waiting.task_id).interrupted
    assert resume(waiting.deployment, scope) is Lifted.LIFTED
    assert not waiting.done()
    waiting.act()
    assert waiting.done()


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_halt_that_comes_between_the_reading_and_the_writing_is_seen(decision: str) -> None:
    waiting = DECISIONS[decision]()
    waiting.deployment.hook(before=once("write", lambda: halt(waiting.deployment)))
    refused(waiting.deployment, waiting.act)
    assert not waiting.done()
    resume(waiting.deployment)
    waiting.act()
    assert waiting.done()


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_that_was_taken_before_the_halt_is_told_so_though_its_reply_was_lost(
    decision: str,
) -> None:
    waiting = DECISIONS[decision]()

    def lose() -> None:
        halt(waiting.deployment)
        raise OutcomeUnknown

    waiting.deployment.hook(after=once("write", lose))
    waiting.act()
    assert waiting.done()


@pytest.mark.parametrize("decision", ["an answer", "an approval", "a denial", "a vote of a quorum"])
def test_a_repeat_of_what_was_accepted_is_told_so_also_while_halted(decision: str) -> None:
    waiting = DECISIONS[decision]()
    waiting.act()
    halt(waiting.deployment)
    with waiting.deployment.unchanged():
        waiting.act()


@pytest.mark.parametrize("decision", ["an answer", "an approval", "a denial"])
def test_who_was_accepted_at_another_door_meanwhile_is_told_so_and_not_of_the_halt(decision: str) -> None:
    waiting = DECISIONS[decision]()

    def accepted_and_halted() -> None:
        waiting.act()
        halt(waiting.deployment)

    waiting.deployment.hook(before=once("write", accepted_and_halted))
    waiting.act()
    assert waiting.done()


# The order: a halt is told before whatever else is wrong, but not to who may not know of the task.


def wrong_answers(
    deployment: Deployment, task_id: str
) -> dict[str, tuple[type[A2AError] | None, Callable[[], Any]]]:
    prompt_id = deployment.open_prompt(task_id)

    def sent(who: Principal, prompt: str, payload: dict[str, Any]) -> Callable[[], Any]:
        return lambda: deployment.send(message(task_id=task_id, metadata=answer_to(prompt, payload)), who)

    return {
        "of no prompt": (AnswerRefused, sent(ANN, new_id(), YES)),
        "not allowed": (PermissionDenied, sent(BEN, prompt_id, YES)),
        "breaks the schema": (None, sent(ANN, prompt_id, {"approved": "yes"})),
        "other context": (
            InvalidParams,
            lambda: deployment.send(message(task_id=task_id, context_id="another", role="ROLE_USER")),
        ),
        "a decision where none is asked for": (
            InvalidParams,
            lambda: deployment.send(approvals.decision(task_id, prompt_id), ANN),
        ),
        "a decision that is malformed": (
            InvalidParams,
            lambda: deployment.send(message(task_id=task_id, metadata={KEY: {"decision": "maybe"}}), ANN),
        ),
        "no credential is waited for": (None, lambda: resume_task(deployment.engine, ANN, task_id)),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        "of no prompt",
        "not allowed",
        "breaks the schema",
        "other context",
        "a decision where none is asked for",
        "a decision that is malformed",
        "no credential is waited for",
    ],
)
def test_while_halted_nothing_else_that_is_wrong_is_told(wrong: str) -> None:
    deployment = Deployment(asking(allowed_responders=[f"specific:{ANN.id}"]))
    task_id = deployment.send().id
    expected, act = wrong_answers(deployment, task_id)[wrong]
    with pytest.raises(expected or A2AError) as told:
        act()
    assert not isinstance(told.value, Halted)
    halt(deployment)
    with deployment.unchanged():
        refused(deployment, act)


def test_an_answer_that_is_late_or_lost_is_told_of_the_halt_first() -> None:
    deployment = Deployment(asking(deadline=timedelta(minutes=5)))
    late, lost = deployment.send().id, deployment.send().id
    prompt_id = deployment.open_prompt(lost)
    deployment.answer(ANN, lost, YES)
    halt(deployment)
    deployment.clock.advance(301)
    refused(deployment, lambda: deployment.answer(ANN, late, YES))
    refused(deployment, lambda: deployment.answer(BEN, lost, YES, prompt_id=prompt_id))
    refused(deployment, lambda: deployment.send(message(task_id=lost)))
    resume(deployment)
    with pytest.raises(AnswerRefused):
        deployment.answer(ANN, late, YES)
    with pytest.raises(AnswerRefused):
        deployment.answer(BEN, lost, YES, prompt_id=prompt_id)


@pytest.mark.parametrize("who", [SPY, NOBODY, PEER], ids=lambda who: f"{who.tenant} {who.id}")
def test_who_may_not_see_a_task_is_not_told_that_it_is_halted(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)
    halt(deployment)
    with pytest.raises(TaskNotFound):
        deployment.answer(who, task_id, YES, prompt_id=prompt_id)
    with pytest.raises(TaskNotFound):
        deployment.send(message(task_id=task_id), who)


# What is served.


def test_reads_lists_and_cancels_are_served_while_halted() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    halt(deployment, ALL)
    assert deployment.get(task_id).status.state is TaskState.INPUT_REQUIRED
    assert [task.id for task in deployment.listed().tasks] == [task_id]
    assert deployment.cancel(task_id).status.state is TaskState.CANCELED


# Deadlines.


@pytest.mark.parametrize("timer", ["delayed message", "sweeper"])
def test_a_deadline_that_passes_while_halted_is_handled_after_it(timer: str) -> None:
    deployment = Deployment(asking(deadline=timedelta(minutes=5)))
    task_id = deployment.send().id
    ((key, _),) = deployment.waker.timers
    halt(deployment)
    walk_all(deployment)
    deployment.clock.advance(600)
    with deployment.unchanged():
        if timer == "sweeper":
            assert sweep(deployment.engine) == 0
        else:
            handle_due(deployment.engine, key)
    assert state(deployment, task_id) is TaskState.INPUT_REQUIRED
    resume(deployment)
    assert sweep(deployment.engine) == 0
    assert state(deployment, task_id) is TaskState.FAILED
    assert deployment.prompts(task_id)[0].status == Checkpoint.EXPIRED
    assert deployment.due_rows() == {}


# Sends that are repeated, and sends that race.


def test_a_send_that_was_accepted_is_refused_again_while_halted_and_stays_accepted() -> None:
    deployment = Deployment(asking())
    sent = message()
    task = deployment.send(sent, key=SEND_KEY)
    halt(deployment)
    with deployment.unchanged():
        refused(deployment, lambda: deployment.send(sent, key=SEND_KEY))
    resume(deployment)
    assert deployment.send(sent, key=SEND_KEY).id == task.id


def test_a_message_that_went_on_is_refused_again_while_halted_and_told_so_after() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    said = message(task_id=task_id)
    deployment.send(said, key=SEND_KEY)
    halt(deployment)
    with deployment.unchanged():
        refused(deployment, lambda: deployment.send(said, key=SEND_KEY))
    resume(deployment)
    assert deployment.send(said, key=SEND_KEY).id == task_id
    assert deployment.meta(task_id).turn == 2


def test_a_send_that_was_refused_makes_a_new_task_under_the_same_key_once_it_is_lifted() -> None:
    deployment = quiet()
    sent = message()
    halt(deployment)
    for _ in range(2):
        refused(deployment, lambda: deployment.send(sent, key=SEND_KEY))
    withdrawn = deployment.listed().tasks
    assert [task.status.state for task in withdrawn] == [TaskState.CANCELED] * 2
    for task in withdrawn:
        assert task.status.message is not None
        assert task.status.message.text == f"halted: {REASON}"
    resume(deployment)
    task = deployment.send(sent, key=SEND_KEY)
    assert task.id not in {one.id for one in withdrawn}
    assert deployment.send(sent, key=SEND_KEY).id == task.id


def test_a_send_whose_task_was_withdrawn_by_a_walk_is_refused_though_it_is_lifted_by_then() -> None:
    deployment = quiet()
    sent = message()

    def halted_meanwhile() -> None:
        halt(deployment)
        resume(deployment)

    deployment.hook(before=once("snapshot", halted_meanwhile))
    refused(deployment, lambda: deployment.send(sent, key=SEND_KEY), LIFTED)
    assert deployment.run_rows() == {}
    task = deployment.send(sent, key=SEND_KEY)
    assert state(deployment, task.id) is TaskState.SUBMITTED


def test_a_repeated_send_whose_task_is_withdrawn_while_it_looks_makes_a_new_one() -> None:
    deployment = quiet()
    sent = message()
    first = deployment.send(sent, key=SEND_KEY)

    def halted_meanwhile() -> None:
        halt(deployment)
        resume(deployment)

    deployment.hook(before=once("snapshot", halted_meanwhile))
    again = deployment.send(sent, key=SEND_KEY)
    assert again.id != first.id
    assert (state(deployment, first.id), state(deployment, again.id)) == (
        TaskState.CANCELED,
        TaskState.SUBMITTED,
    )


def test_a_send_whose_turn_was_claimed_before_it_finds_the_halt_is_refused_and_the_turn_stopped() -> None:
    deployment = quiet()
    ran: list[str] = []

    def claimed_and_halted() -> None:
        ((task_id, turn),) = [(run["task_id"], run["turn"]) for run in deployment.run_rows().values()]
        run = start(deployment.engine, "acme", str(task_id), int(turn))
        assert run is not None
        ran.append(str(task_id))
        halt(deployment)

    deployment.hook(before=once("snapshot", claimed_and_halted))
    refused(deployment, deployment.send)
    assert run_of(deployment, ran[0]).phase == "stopping"


def test_a_send_whose_turn_was_over_before_it_finds_the_halt_was_accepted() -> None:
    deployment = quiet()

    def done_and_halted() -> None:
        (row,) = deployment.run_rows().values()
        deployment.run_turn("acme", str(row["task_id"]), 1)
        halt(deployment)

    deployment.hook(before=once("snapshot", done_and_halted))
    assert deployment.send().status.state is TaskState.COMPLETED


def test_a_send_that_is_withdrawn_while_it_looks_at_its_task_is_refused() -> None:
    deployment = quiet()
    halt(deployment)
    # The row is read, the walk withdraws the task, and then the task is read.
    deployment.hook(after=once("get_many", lambda: walk_all(deployment)))
    refused(deployment, deployment.send)
    assert deployment.run_rows() == {}


@pytest.mark.parametrize("loses", ["before", "after"])
def test_a_send_takes_its_task_back_although_replies_are_lost(loses: str) -> None:
    deployment = quiet()
    halt(deployment)
    writes: list[int] = []

    def hook(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write":
            writes.append(1)
            if len(writes) == 2:
                raise OutcomeUnknown

    deployment.hook(**{loses: hook})
    refused(deployment, deployment.send)
    assert len(writes) >= 2
    assert deployment.run_rows() == {}


# Who may, and what is on the trail.


OPERATING_AGENT = Principal("bearer:bot", "acme", Kind.SERVICE, frozenset(Role))
ONLY_PLATFORM = (ALL, Scope("other"), Scope("other", agent="desk"), Scope("other", skill="work"))


@pytest.mark.parametrize("scope", [ACME, DESK, WORK], ids=str)
def test_an_operator_of_a_tenant_halts_and_resumes_within_it(scope: Scope) -> None:
    deployment = quiet()
    assert halt(deployment, scope, by=OPS).by == OPS.id
    assert resume(deployment, scope, by=OPS) is Lifted.LIFTED


@pytest.mark.parametrize(
    ("who", "scopes"),
    [
        (OPS, ONLY_PLATFORM),
        (ANN, SCOPES),
        (AGENT, SCOPES),
        (NOBODY, SCOPES),
        (OPERATING_AGENT, SCOPES),
    ],
    ids=lambda value: value.id if isinstance(value, Principal) else "",
)
def test_nobody_else_may_halt_or_resume(who: Principal, scopes: tuple[Scope, ...]) -> None:
    deployment = quiet()
    for scope in scopes:
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            declare(deployment.engine, who, scope, REASON)
        halt(deployment, scope)
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            lift(deployment.engine, who, scope)


@pytest.mark.parametrize("reason", ["", "  ", "a\nb", "x" * (MAX_REASON + 1), "\u202e"])
def test_a_reason_is_one_line_of_text(reason: str) -> None:
    deployment = quiet()
    with deployment.unchanged(), pytest.raises(InvalidParams, match="reason"):
        halt(deployment, reason=reason)
    halt(deployment, reason="x" * MAX_REASON)


def test_a_halt_and_its_end_are_on_the_trail_with_the_operator_as_actor() -> None:
    deployment = quiet()
    task = deployment.send()
    halt(deployment, reason="first", by=OPS)
    deployment.clock.advance(1)
    walk_all(deployment)
    deployment.clock.advance(1)
    resume(deployment, by=PLATFORM)
    named = {"scope": "tenant:acme", "generation": 1}
    halted, stopped, resumed = facts(deployment, HALT)
    assert halted["actor"] == {"subject": OPS.id, "scheme": "operator"}
    assert halted["detail"] == {"action": "halt", **named, "reason": "first"}
    assert stopped["detail"] == {"action": "stopped", **named, "stopped": [task.id], "count": 1}
    assert resumed["actor"] == {"subject": PLATFORM.id, "scheme": "operator"}
    assert resumed["detail"] == {"action": "resume", **named}


@pytest.mark.parametrize(
    ("scope", "chain"), [(ALL, ""), (ACME, "acme"), (DESK, "acme"), (WORK, "acme"), (Scope("other"), "other")]
)
def test_a_halt_is_on_the_trail_of_its_tenant(scope: Scope, chain: str) -> None:
    deployment = quiet()
    halt(deployment, scope)
    assert [fact["detail"]["scope"] for fact in facts(deployment, HALT, chain=chain)] == [str(scope)]


def test_a_halt_by_the_deployments_own_credentials_is_on_the_trail_too() -> None:
    deployment = quiet()
    declare_as(deployment.engine, "aws:arn:aws:iam::123456789012:user/on-call", ALL, REASON)
    (halted,) = facts(deployment, HALT, chain="")
    assert halted["actor"] == {
        "subject": "aws:arn:aws:iam::123456789012:user/on-call",
        "scheme": "operator",
    }
    refused(deployment, deployment.send)


# Lost replies, and a state that can not be read.


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_halt_whose_reply_is_lost_is_declared_once(lost: str) -> None:
    deployment = quiet()
    deployment.hook(**{lost: once("write", no_answer)})
    declared = halt(deployment)
    assert (declared.generation, declared) == (1, standing(deployment))
    assert len(facts(deployment, HALT)) == 1
    assert deployment.waker.walks == [("tenant:acme", 1)]


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_resume_whose_reply_is_lost_is_done_once_and_told_so(lost: str) -> None:
    deployment = quiet()
    halt(deployment)
    walk_all(deployment)
    deployment.hook(**{lost: once("write", no_answer)})
    assert resume(deployment) is Lifted.LIFTED
    assert [fact["detail"]["action"] for fact in facts(deployment, HALT)].count("resume") == 1


def test_a_halt_that_can_not_be_written_is_not_said_to_hold() -> None:
    deployment = quiet()
    deployment.hook(before=lambda name, _: no_answer() if name == "write" else None)
    with pytest.raises(Unavailable):
        halt(deployment)
    deployment.hook()
    assert deployment.waker.walks == []
    deployment.send()


def unreadable(error: Exception) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(operation: str, _: tuple[Any, ...]) -> None:
        if operation == "snapshot":
            raise error

    return hook


ERRORS = [OutcomeUnknown(), ValueError("no such thing"), KeyError("Responses"), OSError(), Unavailable()]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_a_send_that_can_not_read_the_halt_state_is_refused_and_taken_back(error: Exception) -> None:
    deployment = quiet()
    sent = message()
    deployment.hook(before=unreadable(error))
    refused(deployment, lambda: deployment.send(sent, key=SEND_KEY), UNREADABLE)
    assert deployment.run_rows() == {}
    deployment.hook()
    assert deployment.send(sent, key=SEND_KEY).status.state is TaskState.SUBMITTED


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_a_repeated_send_that_can_not_read_the_halt_state_is_refused(error: Exception) -> None:
    deployment = quiet()
    sent = message()
    task = deployment.send(sent, key=SEND_KEY)
    deployment.hook(before=unreadable(error))
    with deployment.unchanged():
        refused(deployment, lambda: deployment.send(sent, key=SEND_KEY), UNREADABLE)
    deployment.hook()
    assert deployment.send(sent, key=SEND_KEY).id == task.id


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_a_turn_whose_worker_can_not_read_the_halt_state_is_not_run(error: Exception) -> None:
    ran: list[str] = []

    async def code(turn: Turn) -> None:
        ran.append(turn.task_id)

    deployment = Deployment(running(code), at_once=False)
    task = deployment.send()
    deployment.hook(before=unreadable(error))
    deployment.work()
    assert ran == []
    ended = deployment.get(task.id)
    assert ended.status.state is TaskState.CANCELED
    assert ended.status.message is not None
    assert ended.status.message.text == f"halted: {UNREADABLE}"
    assert deployment.run_rows() == {}


def test_a_decision_that_gets_no_answer_from_the_store_is_not_taken() -> None:
    waiting = an_answer()
    waiting.deployment.hook(before=lambda name, _: no_answer() if name == "write" else None)
    with waiting.deployment.unchanged(), pytest.raises(Unavailable):
        waiting.act()
    waiting.deployment.hook()
    waiting.act()
    assert waiting.done()


# Turns.


def test_a_turn_that_is_claimed_while_halted_never_runs() -> None:
    ran: list[str] = []

    async def code(turn: Turn) -> None:
        ran.append(turn.task_id)

    deployment = Deployment(running(code), at_once=False)
    task = deployment.send()
    halt(deployment)
    deployment.work()
    assert ran == []
    ended = deployment.get(task.id)
    assert ended.status.state is TaskState.CANCELED
    assert ended.status.message is not None
    assert ended.status.message.text == f"halted: {REASON}"
    (row,) = report(deployment)
    assert (row.task_id, row.started, row.ended_at is not None) == (task.id, False, True)
    resume(deployment)
    deployment.run_turn("acme", task.id, 1)
    assert ran == []


def test_a_halt_that_comes_between_the_claim_and_the_code_keeps_it_from_running() -> None:
    ran: list[str] = []

    async def code(turn: Turn) -> None:
        ran.append(turn.task_id)

    deployment = Deployment(running(code), at_once=False)
    sent = message()
    task = deployment.send(sent, key=SEND_KEY)
    deployment.hook(before=once("snapshot", lambda: halt(deployment)))
    deployment.work()
    assert ran == []
    assert state(deployment, task.id) is TaskState.CANCELED
    assert [row.started for row in report(deployment)] == [False]
    resume(deployment)
    # It did not start, so its key is free.
    assert deployment.send(sent, key=SEND_KEY).id != task.id


def test_a_turn_that_an_answer_queued_is_stopped_too_and_its_key_stays() -> None:
    deployment = Deployment(asking(), at_once=False)
    sent = message()
    task = deployment.send(sent, key=SEND_KEY)
    deployment.work()
    deployment.answer(ANN, task.id, YES)
    halt(deployment)
    deployment.work()
    assert state(deployment, task.id) is TaskState.CANCELED
    resume(deployment)
    assert deployment.send(sent, key=SEND_KEY).id == task.id


def test_a_vote_that_was_counted_before_a_halt_still_counts_after_it() -> None:
    deployment = Deployment(asking(allowed_responders=["consensus:2"]))
    task_id = deployment.send().id
    deployment.answer(ANN, task_id, YES)
    halt(deployment)
    refused(deployment, lambda: deployment.answer(BEN, task_id, YES))
    resume(deployment)
    assert deployment.answer(BEN, task_id, YES).status.state is TaskState.COMPLETED


@pytest.mark.parametrize("scope", [ALL, ACME, DESK, WORK], ids=str)
def test_a_direct_reply_is_refused_too(scope: Scope) -> None:
    agent = running(nothing)
    agent.reply_with(lambda message: "at once")
    deployment = Deployment(agent)
    assert deployment.sent().message is not None
    halt(deployment, scope)
    refused(deployment, deployment.sent)
    resume(deployment, scope)
    assert deployment.sent().message is not None


def test_a_direct_reply_is_refused_where_the_halt_state_can_not_be_read() -> None:
    agent = running(nothing)
    agent.reply_with(lambda message: "at once")
    deployment = Deployment(agent)
    deployment.hook(before=once("snapshot", no_answer))
    refused(deployment, deployment.sent, UNREADABLE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": {RESPONSE_KEY: {}}},
        {"metadata": {RESPONSE_KEY: "x"}},
        {"context_id": "another", "metadata": {RESPONSE_KEY: {"prompt_id": "0" * 8, "payload": {}}}},
        {"context_id": "another", "metadata": {KEY: {}}},
        {"context_id": "another"},
    ],
    ids=["malformed", "no object", "context of an answer", "context of a decision", "context of a message"],
)
def test_while_halted_nothing_else_that_is_wrong_with_a_message_to_a_task_is_told(
    wrong: dict[str, Any],
) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    sent = message("x", task_id=task_id, **wrong)
    with pytest.raises(InvalidParams):
        deployment.send(sent)
    halt(deployment)
    refused(deployment, lambda: deployment.send(sent))
    with pytest.raises(TaskNotFound):
        deployment.send(sent, PEER)
