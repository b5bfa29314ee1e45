"""Delegated work from its own side: the terms it runs by, the cancel of its send, and its lease."""

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import asking_leave, decide
from tests.support.halting import ALL, halt, resume, walk_all
from tests.support.others import Other
from tests.support.parent import Parent
from tests.support.twin import (
    AGENT,
    ALICE,
    ANN,
    BOB,
    CAROL,
    NOBODY,
    OPS,
    PEER,
    SPY,
    START,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import InvalidParams, PermissionDenied, TaskNotCancelable, TaskNotFound, Unavailable
from interlock.a2a.models import TaskState
from interlock.agents import Agent, Gate
from interlock.engine.due import handle_due
from interlock.engine.errors import SendCanceled
from interlock.engine.facts import DELEGATION, FACTS
from interlock.engine.halts import Halted
from interlock.engine.ports import Item
from interlock.engine.run_turn import claim
from interlock.engine.sweep import sweep
from interlock.oversight.delegation import KEY, TAKEN, Terms
from interlock.oversight.modes import Mode

KEYED = "a2a-rust.com/idempotency-key"
SEND = "k" * 16
TTL = timedelta(seconds=30)


def wire(terms: Terms) -> dict[str, Any]:
    return {KEY: terms.to_wire()}


def leased(lease: timedelta = TTL, **more: Any) -> dict[str, Any]:
    return wire(Terms(1, lease=lease, **more))


def deployed() -> Deployment:
    """One whose tasks wait for their turn."""
    return Deployment(running(nothing), at_once=False)


def state(deployment: Deployment, task_id: str) -> TaskState:
    return deployment.meta(task_id).task_state


def later(deployment: Deployment, seconds: float) -> None:
    deployment.clock.advance(seconds)
    assert sweep(deployment.engine) == 0


# The terms.


def test_a_delegated_task_says_which_terms_it_keeps_to() -> None:
    deployment = deployed()
    terms = Terms(2, frozenset({"bearer:alice"}), TTL, START + timedelta(hours=1))
    task = deployment.send(metadata=wire(terms))
    taken = {
        "depth": 2,
        "leaseUntil": "2026-01-01T12:00:30.000000Z",
        "deadline": "2026-01-01T13:00:00.000000Z",
    }
    assert task.metadata == {TAKEN: taken}
    assert deployment.get(task.id).metadata == {TAKEN: taken}
    meta = deployment.meta(task.id)
    assert (meta.depth, meta.inherited) == (2, "bearer:alice")


def test_a_task_that_nobody_delegated_says_nothing() -> None:
    deployment = deployed()
    task_id = deployment.send().id
    assert deployment.get(task_id).metadata is None
    assert deployment.due_rows() == {}


def test_terms_that_break_a_rule_refuse_the_send() -> None:
    deployment = deployed()
    with deployment.unchanged(), pytest.raises(InvalidParams, match="depth"):
        deployment.send(metadata={KEY: {"depth": 99}})


# Exclusions: four eyes are not got round by handing work down.


def refund(*requesters: str, self_approval: bool = False, **options: Any) -> tuple[Deployment, str]:
    gate = Gate(self_approval=self_approval)
    deployment = Deployment(asking_leave(gate=gate, **options))
    task = deployment.send(who=PEER, metadata=wire(Terms(1, frozenset(requesters))))
    return deployment, task.id


def test_who_may_not_approve_for_the_parent_may_not_for_the_child() -> None:
    deployment, task_id = refund(ALICE.id)
    with pytest.raises(PermissionDenied) as refused:
        decide(deployment, ALICE, task_id)
    assert refused.value.http_status == 403
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


def test_nor_where_the_skill_lets_requesters_approve() -> None:
    deployment, task_id = refund(ALICE.id, self_approval=True)
    with pytest.raises(PermissionDenied):
        decide(deployment, ALICE, task_id)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


def test_to_be_excluded_gives_no_rights() -> None:
    """An operator sees the task, and is no approver: a caller can not make one of them."""
    deployment, task_id = refund(OPS.id, self_approval=True)
    with pytest.raises(PermissionDenied):
        decide(deployment, OPS, task_id)


def test_exclusions_reach_through_two_levels() -> None:
    """Alice asks the first agent, which asks a second, which asks a third: she may not approve there."""
    third = Other(deployment=Deployment(asking_leave()))
    second = Parent(third, sent={"metadata": wire(Terms(1, frozenset({ALICE.id}))), "who": PEER})
    first_terms = Parent(third, sent={"who": CAROL}).handed()._terms
    assert first_terms.excluded == {CAROL.id}
    second.delegated()
    child = str(second.record.child)
    assert set(third.deployment.meta(child).inherited.split()) == {ALICE.id, PEER.id}
    with pytest.raises(PermissionDenied):
        decide(third.deployment, ALICE, child)
    assert decide(third.deployment, BOB, child).status.state is TaskState.COMPLETED


def test_nor_may_they_approve_that_it_starts() -> None:
    agent = Agent("desk", "Starts once that is approved")
    agent.skill("work", "Works", mode=Mode.GATED)(nothing)
    deployment = Deployment(agent)
    task_id = deployment.send(who=PEER, metadata=wire(Terms(1, frozenset({ALICE.id})))).id
    with pytest.raises(PermissionDenied):
        decide(deployment, ALICE, task_id)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


# The lease.


def test_a_lease_that_nobody_renews_lapses() -> None:
    deployment = deployed()
    task_id = deployment.send(metadata=leased()).id
    later(deployment, 29)
    assert state(deployment, task_id) is TaskState.SUBMITTED
    later(deployment, 1)
    task = deployment.get(task_id)
    assert task.status.state is TaskState.CANCELED
    assert task.status.message is not None
    assert "lease" in task.status.message.text
    assert deployment.run_rows() == deployment.due_rows() == {}


def test_a_lease_is_woken_for_when_it_lapses() -> None:
    """It is shorter than the sweeper's minute."""
    deployment = deployed()
    task_id = keyed(deployment)
    ((key, at),) = deployment.waker.timers
    assert at == START + TTL
    deployment.clock.advance(10)
    keyed(deployment)
    deployment.clock.advance(20)
    handle_due(deployment.engine, key)
    assert state(deployment, task_id) is TaskState.SUBMITTED
    key, at = deployment.waker.timers[-1]
    assert at == START + TTL + timedelta(seconds=10)
    deployment.clock.advance(10)
    handle_due(deployment.engine, key)
    assert state(deployment, task_id) is TaskState.CANCELED


def keyed(deployment: Deployment, **more: Any) -> str:
    return deployment.send(message("go", message_id="m-1"), key=SEND, metadata=leased(), **more).id


@pytest.mark.parametrize("times", [1, 5])
def test_a_send_again_renews_it(times: int) -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    for _ in range(times):
        later(deployment, 20)
        assert keyed(deployment) == task_id
    later(deployment, 29)
    assert state(deployment, task_id) is TaskState.SUBMITTED
    later(deployment, 1)
    assert state(deployment, task_id) is TaskState.CANCELED


def test_a_lease_that_has_lapsed_does_not_come_back() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    deployment.clock.advance(30)
    keyed(deployment)
    later(deployment, 0)
    assert state(deployment, task_id) is TaskState.CANCELED
    assert keyed(deployment) == task_id


def test_no_lease_is_granted_to_a_task_that_had_none() -> None:
    deployment = deployed()
    first = deployment.send(message("go", message_id="m-1"), key=SEND, metadata=wire(Terms(1)))
    assert keyed(deployment) == first.id
    assert deployment.meta(first.id).lease_until is None


def test_a_shorter_lease_takes_nothing_back() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    until = deployment.meta(task_id).lease_until
    short = leased(timedelta(seconds=3))
    deployment.send(message("go", message_id="m-1"), key=SEND, metadata=short)
    assert deployment.meta(task_id).lease_until == until


def test_whoever_knows_the_task_but_not_its_key_renews_nothing() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    until = deployment.meta(task_id).lease_until
    deployment.clock.advance(10)
    other = deployment.send(message("go", message_id="m-1"), PEER, key=SEND, metadata=leased()).id
    assert other != task_id
    assert deployment.meta(task_id).lease_until == until


def test_a_renewal_whose_reply_is_lost_is_made() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    deployment.clock.advance(10)
    deployment.hook(after=once("write", no_answer))
    keyed(deployment)
    assert str(deployment.meta(task_id).lease_until) >= "2026-01-01T12:00:40.000000Z"


@pytest.mark.parametrize(("lease", "deadline"), [(30, 60), (60, 30), (None, 30)])
def test_the_earlier_of_lease_and_deadline_ends_it(lease: int | None, deadline: int) -> None:
    deployment = deployed()
    terms = Terms(
        1,
        lease=timedelta(seconds=lease) if lease is not None else None,
        deadline=START + timedelta(seconds=deadline),
    )
    task_id = deployment.send(metadata=wire(terms)).id
    later(deployment, 29)
    assert state(deployment, task_id) is TaskState.SUBMITTED
    later(deployment, 1)
    assert state(deployment, task_id) is TaskState.CANCELED


def test_a_renewal_does_not_move_the_deadline() -> None:
    deployment = deployed()
    terms = wire(Terms(1, lease=TTL, deadline=START + timedelta(seconds=40)))
    sent = message("go", message_id="m-1")
    task_id = deployment.send(sent, key=SEND, metadata=terms).id
    later(deployment, 20)
    deployment.send(sent, key=SEND, metadata=terms)
    later(deployment, 19)
    assert state(deployment, task_id) is TaskState.SUBMITTED
    later(deployment, 1)
    assert state(deployment, task_id) is TaskState.CANCELED


def test_while_halted_a_lease_is_not_renewed_and_lapses() -> None:
    """A send is refused while halted; a cancel is not."""
    deployment = Deployment(asking())
    task_id = keyed(deployment)
    assert state(deployment, task_id) is TaskState.INPUT_REQUIRED
    halt(deployment)
    with pytest.raises(Halted):
        keyed(deployment)
    later(deployment, 30)
    assert state(deployment, task_id) is TaskState.CANCELED


def test_a_lapse_closes_the_open_prompt_and_fences_the_run() -> None:
    deployment = deployed()
    task_id = deployment.send(metadata=leased()).id
    run = claim(deployment.engine, "acme", task_id, 1)
    assert run is not None
    later(deployment, 30)
    assert not run.is_held()
    asked = Deployment(asking())
    waiting = asked.send(metadata=leased()).id
    later(asked, 30)
    (prompt,) = asked.prompts(waiting)
    assert prompt.status == "canceled"


def test_a_lease_that_lapses_in_a_window_of_veto_is_no_veto() -> None:
    agent = Agent("desk", "Starts unless somebody says no")
    agent.skill("work", "Works", mode=Mode.VETO)(nothing)
    deployment = Deployment(agent)
    task_id = deployment.send(metadata=leased()).id
    later(deployment, 30)
    assert state(deployment, task_id) is TaskState.CANCELED
    (window,) = deployment.prompts(task_id)
    assert window.status == "canceled"
    later(deployment, 60)
    assert state(deployment, task_id) is TaskState.CANCELED
    assert deployment.due_rows() == {}


def test_a_lease_of_a_task_that_has_ended_leaves_nothing() -> None:
    deployment = Deployment(running(nothing))
    task_id = deployment.send(metadata=leased()).id
    assert state(deployment, task_id) is TaskState.COMPLETED
    later(deployment, 30)
    assert state(deployment, task_id) is TaskState.COMPLETED
    assert deployment.due_rows() == {}


@pytest.mark.parametrize("lost", [True, False], ids=["reply lost", "not carried out"])
def test_a_lapse_whose_write_fails_is_made_once(lost: bool) -> None:
    deployment = deployed()
    task_id = deployment.send(metadata=leased()).id
    deployment.hook(**{"after" if lost else "before": once("write", no_answer)})
    later(deployment, 30)
    assert state(deployment, task_id) is TaskState.CANCELED
    assert deployment.meta(task_id).seq == 2


def test_a_renewal_that_comes_first_wins_over_the_lapse() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    deployment.clock.advance(29)
    row: Item = next(iter(deployment.due_rows().values()))
    assert row["kind"] == "lapse"

    def meanwhile() -> None:
        keyed(deployment)
        deployment.clock.advance(1)

    (key,) = deployment.due_rows()
    deployment.clock.advance(0.5)
    deployment.hook(after=once("get", meanwhile))
    handle_due(deployment.engine, key)
    later(deployment, 0)
    assert state(deployment, task_id) is TaskState.SUBMITTED


def test_the_trail_says_that_a_lease_was_renewed() -> None:
    deployment = deployed()
    keyed(deployment)
    deployment.clock.advance(10)
    keyed(deployment)
    rows = deployment.rows().items()
    facts = [json.loads(str(item["body"])) for key, item in rows if key.pk.startswith(FACTS)]
    assert [fact["detail"] for fact in facts if fact["kind"] == DELEGATION] == [{"action": "renewed"}]


# A cancel by the key of a send.


def by_key(deployment: Deployment, who: Any = AGENT, task_id: str = "none", key: str = SEND) -> Any:
    return deployment.cancel(task_id, who, metadata={KEYED: key})


def test_a_cancel_by_key_cancels_the_task_of_its_send() -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    task = by_key(deployment)
    assert (task.id, task.status.state) == (task_id, TaskState.CANCELED)
    assert by_key(deployment) == task


def test_a_cancel_by_key_gives_a_task_that_has_ended_as_it_is() -> None:
    deployment = Deployment(running(nothing))
    task_id = keyed(deployment)
    assert by_key(deployment).status.state is TaskState.COMPLETED
    with pytest.raises(TaskNotCancelable):
        deployment.cancel(task_id, metadata={KEYED: SEND})


def test_a_cancel_that_comes_first_refuses_the_send() -> None:
    deployment = deployed()
    with pytest.raises(SendCanceled) as canceled:
        by_key(deployment)
    assert isinstance(canceled.value, TaskNotFound)
    for _ in range(2):
        with deployment.unchanged(), pytest.raises(SendCanceled):
            keyed(deployment)
        with deployment.unchanged(), pytest.raises(SendCanceled):
            by_key(deployment)
    assert deployment.run_rows() == {}


def test_a_send_that_comes_at_that_moment_is_canceled_or_refused() -> None:
    deployment = deployed()
    deployment.hook(before=once("write", lambda: keyed(deployment)))
    assert by_key(deployment).status.state is TaskState.CANCELED
    other = deployed()

    def canceled() -> None:
        with pytest.raises(SendCanceled):
            by_key(other)

    other.hook(before=once("write", canceled))
    with pytest.raises(SendCanceled):
        keyed(other)
    assert other.run_rows() == {}


def test_a_note_whose_reply_is_lost_is_there() -> None:
    deployment = deployed()
    deployment.hook(after=once("write", no_answer))
    with pytest.raises(SendCanceled):
        by_key(deployment)
    with pytest.raises(SendCanceled):
        keyed(deployment)


def test_the_id_of_a_task_comes_before_a_key() -> None:
    """A key that a client sends with every request must not keep it from canceling."""
    deployment = deployed()
    task_id = deployment.send().id
    assert by_key(deployment, task_id=task_id).status.state is TaskState.CANCELED
    assert keyed(deployment)


@pytest.mark.parametrize("who", [PEER, SPY])
def test_the_key_of_another_caller_cancels_nothing(who: Any) -> None:
    deployment = deployed()
    task_id = keyed(deployment)
    with pytest.raises(SendCanceled):
        by_key(deployment, who)
    assert state(deployment, task_id) is TaskState.SUBMITTED


@pytest.mark.parametrize("who", [NOBODY, ANN])
def test_who_may_not_send_leaves_no_notes(who: Any) -> None:
    deployment = deployed()
    with deployment.unchanged(), pytest.raises(PermissionDenied):
        by_key(deployment, who)


@pytest.mark.parametrize("key", ["short", 5, "k" * 300])
def test_a_key_that_is_none_is_refused(key: Any) -> None:
    deployment = deployed()
    with deployment.unchanged(), pytest.raises(InvalidParams):
        by_key(deployment, key=key)


def test_while_halted_a_send_is_canceled_all_the_same() -> None:
    deployment = deployed()
    halt(deployment)
    with pytest.raises(SendCanceled):
        by_key(deployment)
    resume(deployment)
    with pytest.raises(SendCanceled):
        keyed(deployment)


def test_delegated_work_that_a_halt_took_back_is_not_started_by_a_late_send() -> None:
    """Its parent was told, or has canceled it, and looks after no second task."""
    deployment = deployed()
    halt(deployment, ALL)
    with pytest.raises(Unavailable):
        keyed(deployment)
    walk_all(deployment, ALL)
    resume(deployment, ALL)
    task = deployment.send(message("go", message_id="m-1"), key=SEND, metadata=leased())
    assert task.status.state is TaskState.CANCELED
    assert len(deployment.listed().tasks) == 1
    assert by_key(deployment).status.state is TaskState.CANCELED
