"""What a task has handed down, once its run no longer looks after it: canceled, or visibly out of reach."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from threading import Event
from typing import Any

import pytest
from tests.support.halting import halt, walk_all
from tests.support.others import NAME, Other, Stranger, failing, refusal
from tests.support.parent import Parent
from tests.support.twin import AGENT, PEER, Deployment, no_answer, nothing, once, running

from interlock.a2a.errors import Unauthenticated
from interlock.a2a.models import Task, TaskState
from interlock.engine.children import LATE, MAX_LOOKS, Children, cancel_children
from interlock.engine.delegate import SEND_SECONDS
from interlock.engine.due import handle_due
from interlock.engine.errors import SendCanceled
from interlock.engine.facts import DELEGATION, FACTS
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable
from interlock.engine.ports import Put
from interlock.engine.records import Delegation
from interlock.engine.run_turn import TurnStopped
from interlock.oversight.delegation import KEY, Outcome, Terms

WORKING, CANCELED = TaskState.WORKING, TaskState.CANCELED
SETTLED, CANCELING, PARKED = Delegation.SETTLED, Delegation.CANCELING, Delegation.PARKED


def ours(script: Callable[[Any], Any] = nothing) -> Other:
    return Other(deployment=Deployment(running(script), at_once=False))


def child_state(other: Other, parent: Parent) -> TaskState:
    return other.deployment.get(str(parent.record.child), PEER).status.state


# What ends a parent cancels its children.


def canceled(parent: Parent) -> None:
    parent.deployment.cancel(parent.task_id)
    parent.outbox()


def halted(parent: Parent) -> None:
    halt(parent.deployment)
    walk_all(parent.deployment)
    parent.outbox()


def lost(parent: Parent) -> None:
    parent.lose_worker()


def lapsed(parent: Parent) -> None:
    parent.later(31)


def over(parent: Parent) -> None:
    """Dropped: it ended without having looked after what it handed down."""
    parent.run.finish(TaskState.COMPLETED)
    parent.later(61)


def asks(parent: Parent) -> None:
    parent.run.require_auth("Sign in")
    parent.later(61)


LEASED = {"metadata": {KEY: Terms(1, lease=timedelta(seconds=30)).to_wire()}}


@pytest.mark.parametrize("end", [canceled, halted, lost, lapsed, over, asks])
@pytest.mark.parametrize("peers", [ours, Stranger])
def test_a_child_is_canceled_with_its_parent(end: Callable[[Parent], None], peers: Callable[[], Any]) -> None:
    parent = Parent(peers(), sent=LEASED if end is lapsed else {})
    parent.delegated()
    assert parent.how() == (Delegation.OPEN, None)
    end(parent)
    assert parent.peers.states == [CANCELED]
    assert parent.peers.called("cancel") == [parent.record.child]
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    assert parent.told == ["cancel", "made", "settled"]


@pytest.mark.parametrize("end", [canceled, halted, lost, over])
def test_without_a_wake_it_is_found_all_the_same(end: Callable[[Parent], None]) -> None:
    parent = Parent(Stranger())
    parent.delegated()
    parent.outbox = lambda: parent.deployment.waker.children.clear()  # type: ignore[method-assign]
    end(parent)
    del parent.outbox
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_a_row_that_comes_back_is_woken_for_when_it_is_due() -> None:
    """Without the sweeper, which comes only each minute."""
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    stranger.before = failing("cancel", 3)
    canceled(parent)
    (key,) = parent.deployment.due_rows()
    for _ in range(3):
        parent.deployment.clock.advance(parent.deployment.limits.lease)
        handle_due(parent.deployment.engine, key)
        parent.outbox()
        key, at = parent.deployment.waker.timers[-1]
        assert key in parent.deployment.due_rows()
        assert at > parent.deployment.clock.now()
    assert stranger.states == [CANCELED]


def test_what_its_run_looks_after_is_left_alone() -> None:
    parent = Parent(Stranger())
    parent.delegated()
    for _ in range(3):
        parent.run.renew()
        parent.later(50)
        cancel_children(parent.children, "acme", parent.task_id)
    assert parent.how() == (Delegation.OPEN, None)
    assert parent.peers.called("cancel") == []


def test_what_was_detached_goes_on() -> None:
    parent = Parent(Stranger())
    parent.delegated().detach()
    canceled(parent)
    parent.later(61)
    assert parent.peers.called("cancel") == []
    assert parent.deployment.due_rows() == {}


def test_what_has_settled_is_left_alone() -> None:
    parent = Parent(Stranger(answer=lambda _: TaskState.COMPLETED))
    parent.delegated()
    canceled(parent)
    parent.later(61)
    assert parent.peers.called("cancel") == []
    assert parent.deployment.due_rows() == {}


def test_a_child_that_waits_stays_when_its_parent_ends() -> None:
    parent = Parent(Stranger(answer=lambda _: TaskState.INPUT_REQUIRED))
    parent.delegated()
    over(parent)
    parent.later(3600)
    assert parent.how() == (Delegation.WAITING, Outcome.INTERRUPTED)
    assert parent.peers.called("cancel") == []
    assert parent.deployment.due_rows() == {}


@pytest.mark.parametrize("woken", [True, False])
def test_a_child_that_waits_is_canceled_when_its_parent_is(woken: bool) -> None:
    parent = Parent(Stranger(answer=lambda _: TaskState.INPUT_REQUIRED))
    parent.delegated()
    parent.run.require_auth("Sign in")
    parent.later(3600)
    assert parent.how() == (Delegation.WAITING, Outcome.INTERRUPTED)
    parent.deployment.cancel(parent.task_id)
    if not woken:
        parent.deployment.waker.children.clear()
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_the_row_that_looks_is_gone_when_it_is_over() -> None:
    parent = Parent(Stranger())
    parent.delegated()
    canceled(parent)
    parent.until(lambda: parent.record.over)
    parent.later(61)
    assert parent.deployment.due_rows() == {}


def test_a_cancel_again_wakes_again() -> None:
    parent = Parent(Stranger())
    parent.delegated()
    parent.deployment.cancel(parent.task_id)
    parent.deployment.waker.children.clear()
    parent.deployment.cancel(parent.task_id)
    parent.outbox()
    assert parent.peers.states == [CANCELED]


def test_the_turn_of_a_run_ends_and_wakes() -> None:
    """Whatever ends it: `run_turn` wakes for what it had handed down."""
    stranger = Stranger()
    parent = Parent(stranger)

    class Hands:
        def execute(self, run: Any, seconds: float) -> None:
            parent.run = run
            parent.delegated()
            raise ValueError

    parent.deployment.executor = Hands()
    parent.task_id = parent.deployment.send().id
    parent.deployment.waker.turns.pop(0)
    parent.deployment.work()
    assert parent.state() is TaskState.FAILED
    parent.outbox()
    assert stranger.states == [CANCELED]


# A send that arrives late, or never.


def test_a_cancel_that_arrives_first_refuses_the_late_send_and_every_later_one() -> None:
    other = ours()
    parent = Parent(other)
    handed = parent.handed()
    canceled(parent)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    for _ in range(2):
        with pytest.raises(PeerRefused) as refused:
            other.send(
                other.resolve_for("acme", NAME), handed._message, key=handed.record.id, metadata={}, seconds=1
            )
        assert refused.value.reason == SendCanceled.reason
    with pytest.raises(TurnStopped):
        handed.send()
    assert other.deployment.listed(PEER).tasks == []
    assert other.deployment.run_rows() == {}


def test_a_parent_that_dies_before_it_sends_leaves_a_canceled_send() -> None:
    other = ours()
    parent = Parent(other)
    handed = parent.handed()
    lost(parent)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    with pytest.raises(TurnStopped):
        handed.send()
    assert other.deployment.listed(PEER).tasks == []


@pytest.mark.parametrize("peers", [ours, Stranger])
def test_a_parent_that_dies_between_send_and_reply_has_its_child_canceled(peers: Callable[[], Any]) -> None:
    parent = Parent(peers())
    handed = parent.handed()

    class Dies(BaseException):
        pass

    parent.peers.after = failing("send", 1, Dies())  # type: ignore[arg-type]
    with pytest.raises(Dies):
        handed.send()
    assert parent.record.child is None
    lost(parent)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    assert parent.record.child is not None
    assert parent.peers.states == [CANCELED]


def test_every_task_that_a_strange_server_made_of_one_send_is_canceled() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    for _ in range(2):
        stranger.send(stranger.resolve_for("acme", NAME), handed._message, key="", metadata={}, seconds=1)
    stranger.set(str(parent.record.child), TaskState.COMPLETED)
    canceled(parent)
    assert sorted(stranger.states) == sorted([TaskState.COMPLETED, CANCELED, CANCELED])
    assert parent.how() == (CANCELING, Outcome.COMPLETED)
    stranger.send(stranger.resolve_for("acme", NAME), handed._message, key="", metadata={}, seconds=1)
    parent.until(lambda: parent.record.over)
    assert stranger.states.count(CANCELED) == 3
    assert parent.how() == (SETTLED, Outcome.COMPLETED)


def test_at_a_strange_server_a_send_that_may_still_arrive_is_waited_for() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.handed()
    parent.deployment.cancel(parent.task_id)
    parent.outbox()
    assert parent.how() == (CANCELING, None)
    stranger.send(stranger.resolve_for("acme", NAME), handed._message, key="", metadata={}, seconds=1)
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    assert stranger.states == [CANCELED]


@pytest.mark.parametrize("lists", [True, False])
def test_what_never_arrives_at_a_strange_server_is_visibly_unreachable(lists: bool) -> None:
    parent = Parent(Stranger(lists=lists))
    parent.handed()
    began = parent.deployment.clock.now()
    parent.deployment.cancel(parent.task_id)
    parent.outbox()
    at = parent.until(lambda: parent.record.over, every=timedelta(seconds=5))
    assert at - began > timedelta(seconds=SEND_SECONDS) + LATE
    assert at - began < timedelta(minutes=3)
    assert parent.how() == (SETTLED, Outcome.UNREACHABLE)


def test_a_child_that_had_ended_before_is_told_as_it_ended() -> None:
    """Its id was never learned: a cancel by the key of its send is answered with it."""
    other = ours()
    parent = Parent(other)
    handed = parent.handed()
    other.after = failing("send", 1)
    other.before = lambda operation: other.deployment.work() if operation == "cancel" else None
    handed.send()
    assert parent.how() == (CANCELING, Outcome.UNREACHABLE)
    parent.outbox()
    assert parent.how() == (SETTLED, Outcome.COMPLETED)
    assert child_state(other, parent) is TaskState.COMPLETED


def test_a_child_that_is_gone_is_unreachable() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    stranger.tasks.clear()
    canceled(parent)
    assert parent.how() == (SETTLED, Outcome.UNREACHABLE)


# Tries.


def test_a_cancel_without_an_answer_is_tried_again_further_and_further_apart_until_it_is_parked() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    stranger.before = failing("cancel", 999)
    tries: list[float] = []

    def tried(called: str) -> None:
        if called == "cancel":
            tries.append((parent.deployment.clock.now() - began).total_seconds())
            raise PeerUnreachable("no answer")

    stranger.before = tried
    began = parent.deployment.clock.now()
    parent.deployment.cancel(parent.task_id)
    parent.outbox()
    assert parent.how() == (CANCELING, None)
    parent.until(lambda: parent.record.over, every=timedelta(seconds=5))
    assert len(tries) == MAX_LOOKS
    pauses = [after - before for before, after in pairwise(tries[1:])]
    assert pauses[0] < 30
    assert pauses[-1] > 7 * 60
    assert 3600 < tries[-1] < 3 * 3600
    assert parent.how() == (PARKED, Outcome.CANCEL_FAILED)
    assert [parked.id for parked in parent.parked] == [parent.record.id]
    assert parent.told == ["cancel", "made", "parked"]
    parent.later(3600)
    assert parent.deployment.due_rows() == {}
    assert len(tries) == MAX_LOOKS


def test_a_child_that_takes_the_cancel_and_never_ends_is_parked_as_that() -> None:
    parent = Parent(Stranger(heeds=False))
    parent.delegated()
    canceled(parent)
    assert parent.how() == (CANCELING, Outcome.CANCEL_REQUESTED)
    parent.until(lambda: parent.record.over)
    assert parent.how() == (PARKED, Outcome.CANCEL_REQUESTED)
    assert len(parent.parked) == 1


def test_a_send_that_nobody_can_be_asked_about_is_parked_as_unreachable() -> None:
    stranger = Stranger(before=failing("send", 1))
    parent = Parent(stranger)
    parent.delegated()
    stranger.before = failing("cancel", 999)
    parent.until(lambda: parent.record.over)
    assert parent.how() == (PARKED, Outcome.UNREACHABLE)


def test_a_refusal_is_no_end_of_the_child() -> None:
    """Such as of a credential that was changed, and will be put right."""
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    stranger.before = failing("cancel", 2, refusal(Unauthenticated))
    canceled(parent)
    assert parent.how() == (CANCELING, None)
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_an_agent_that_is_no_longer_configured_is_asked_for_again() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    known = stranger.resolve_for

    def forgotten(tenant: str, name: str) -> Any:
        raise PeerRefused("no peer of this name is configured")

    stranger.resolve_for = forgotten  # type: ignore[assignment,method-assign]
    canceled(parent)
    assert parent.how() == (CANCELING, None)
    stranger.resolve_for = known  # type: ignore[method-assign]
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_more_wakes_are_not_more_tries() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    for _ in range(5):
        parent.delegated()
    stranger.before = failing("cancel", 999)
    parent.deployment.cancel(parent.task_id)
    parent.outbox()
    for _ in range(20):
        parent.deployment.cancel(parent.task_id)
        parent.outbox()
    assert len(stranger.called("cancel")) == 5
    assert {record.looked for record in parent.records} == {1}


def test_a_slow_server_holds_no_other_up() -> None:
    stranger, went_on = Stranger(), Event()
    parent = Parent(stranger)
    parent.delegated()
    parent.delegated()
    first = parent.records[0].child
    cancel = stranger.cancel

    def slow(to: PeerAddress, task_id: str, **more: Any) -> Task:
        if task_id == first:
            assert went_on.wait(30)
        else:
            went_on.set()
        return cancel(to, task_id, **more)

    stranger.cancel = slow  # type: ignore[method-assign]
    parent.deployment.cancel(parent.task_id)
    with ThreadPoolExecutor(2) as pool:
        at_once = Children(parent.deployment.engine, stranger, parent.parked.append, pool.map)
        cancel_children(at_once, "acme", parent.task_id)
    assert stranger.states == [CANCELED, CANCELED]


def test_one_that_can_not_be_handled_is_told_of_after_all_others_were() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    for _ in range(3):
        parent.delegated()
    stranger.before = failing("cancel", 1, KeyError("a mistake of ours"))
    parent.deployment.cancel(parent.task_id)
    with pytest.raises(KeyError):
        cancel_children(parent.children, "acme", parent.task_id)
    assert stranger.states.count(CANCELED) == 2
    cancel_children(parent.children, "acme", parent.task_id)
    assert stranger.states.count(CANCELED) == 3


def test_a_dead_letter_that_can_not_be_written_keeps_it_from_being_parked() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    stranger.before = failing("cancel", 999)

    def down(parked: Delegation) -> None:
        raise ConnectionError

    parent.children = Children(parent.deployment.engine, stranger, down)
    parent.deployment.cancel(parent.task_id)
    with pytest.raises(ConnectionError):
        parent.until(lambda: parent.record.over)
    assert not parent.record.over
    parent.children = Children(parent.deployment.engine, stranger, parent.parked.append)
    parent.until(lambda: parent.record.over)
    assert len(parent.parked) == 1


@pytest.mark.parametrize("step", range(8))
@pytest.mark.parametrize("lost", [True, False], ids=["reply lost", "not carried out"])
def test_whichever_write_of_a_cancel_fails_it_is_canceled(step: int, lost: bool) -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    parent.deployment.cancel(parent.task_id)
    writes = iter(range(99))

    def fails(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write" and next(writes) == step:
            no_answer()

    parent.deployment.hook(**{"after" if lost else "before": fails})
    parent.outbox()
    parent.until(lambda: parent.record.over)
    assert stranger.states == [CANCELED]
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    assert parent.told == ["cancel", "made", "settled"]


def test_a_run_that_settles_it_at_that_moment_has_settled_it() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    stranger.set(str(parent.record.child), TaskState.COMPLETED)
    parent.deployment.cancel(parent.task_id)
    parent.deployment.hook(before=once("write", handed.look))
    parent.outbox()
    assert parent.how() == (SETTLED, Outcome.COMPLETED)
    assert stranger.called("cancel") == []


# The trail, and the parent task.


def test_the_trail_says_whom_and_how() -> None:
    parent = Parent(Stranger())
    parent.delegated()
    canceled(parent)
    parent.until(lambda: parent.record.over)
    rows = parent.deployment.rows().items()
    facts = [json.loads(str(item["body"])) for key, item in rows if key.pk.startswith(FACTS)]
    (settled,) = [
        fact for fact in facts if fact["kind"] == DELEGATION and fact["detail"]["action"] == "settled"
    ]
    record = parent.record
    assert settled["detail"] == {
        "action": "settled",
        "delegation": record.id,
        "to": NAME,
        "child": record.child,
        "outcome": "canceled",
    }
    assert settled["taskId"] == parent.task_id


def test_a_parent_shows_what_it_has_handed_down() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated()
    child = str(parent.record.child)
    stranger.before = failing("send", 1)
    parent.deployment.clock.advance(1)
    parent.delegated()
    first, second = parent.records
    assert parent.deployment.get(parent.task_id).metadata == {
        KEY: [
            {"id": first.id, "to": NAME, "status": "open", "taskId": child},
            {"id": second.id, "to": NAME, "status": "canceling", "outcome": "unreachable"},
        ]
    }
    canceled(parent)
    parent.until(lambda: parent.records[0].over)
    shown: Any = parent.deployment.get(parent.task_id).metadata
    assert shown[KEY][0] == {
        "id": first.id,
        "to": NAME,
        "status": "settled",
        "taskId": child,
        "outcome": "canceled",
    }


def test_a_task_that_handed_nothing_down_shows_nothing_and_costs_no_query() -> None:
    deployment = Deployment(running(nothing), at_once=False)
    task_id = deployment.send().id
    read: list[str] = []
    deployment.hook(before=lambda operation, _: read.append(operation))
    assert deployment.get(task_id).metadata is None
    assert read == ["query"]


# Whom a cancel by key reaches.


def test_another_callers_key_is_another_key() -> None:
    other = ours()
    parent = Parent(other)
    parent.delegated()
    with pytest.raises(SendCanceled):
        other.deployment.cancel("x", AGENT, metadata={"a2a-rust.com/idempotency-key": parent.record.id})
    assert child_state(other, parent) is TaskState.SUBMITTED


@pytest.mark.parametrize("code", [None, -32600, -32001])
def test_a_server_that_will_not_be_searched_is_asked_again_until_it_is_parked(code: int | None) -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    stranger.before = failing("send", 1)
    parent.delegated()
    assert parent.record.child is None

    def refuses(operation: str) -> None:
        if operation in ("cancel", "find"):
            raise PeerRefused("the peer refused: status 401", code=code)

    stranger.before = refuses
    canceled(parent)
    parent.until(lambda: parent.record.over)
    assert (parent.record.status, parent.record.outcome) == (Delegation.PARKED, Outcome.UNREACHABLE)
    assert len(parent.parked) == 1


def test_those_whose_servers_answer_are_canceled_before_those_that_have_not() -> None:
    other = ours()
    parent = Parent(other)
    first, second = parent.delegated(), parent.delegated()
    silent = replace(first.record, rev=first.record.rev + 1, looked=3)
    parent.deployment.table.write(Put(silent.key, silent.item()))
    asked: list[str] = []
    other.before = lambda operation: asked.append(operation)
    parent.deployment.cancel(parent.task_id)
    order: list[str] = []

    def one_by_one(cancel: Any, left: Any) -> list[Any]:
        listed = list(left)
        order.extend(each.id for each in listed)
        return [cancel(each) for each in listed]

    cancel_children(
        Children(parent.deployment.engine, other, lambda given_up: None, one_by_one), "acme", parent.task_id
    )
    assert order == [second.record.id, first.record.id]
