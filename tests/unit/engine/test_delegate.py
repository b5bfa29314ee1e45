"""Handing work down, from a run: recorded before it is sent, followed, settled or let go."""

from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from tests.support.halting import halt
from tests.support.others import NAME, Other, Stranger, failing, refusal
from tests.support.parent import Parent
from tests.support.twin import PEER, START, Deployment, asking, message, no_answer, nothing, once, running

from interlock.a2a.errors import TaskNotFound, Unauthenticated
from interlock.a2a.models import Message, Part, TaskState
from interlock.a2a.models import Role as MessageRole
from interlock.engine.children import MAX_DELEGATIONS
from interlock.engine.delegate import LOST_AFTER, SEND_SECONDS, Handed, Settled
from interlock.engine.peers import PeerUnreachable
from interlock.engine.records import Delegation
from interlock.engine.run_turn import Refused, TurnEnded, TurnStopped
from interlock.oversight.delegation import KEY, MAX_DEPTH, MAX_EXCLUDED, TAKEN, Outcome, Terms

OPEN, SETTLED, CANCELING = Delegation.OPEN, Delegation.SETTLED, Delegation.CANCELING


def reply(message: Message) -> Message:
    return Message(message_id="m-1", role=MessageRole.AGENT, parts=[Part(text="done")])


# Before anything is sent.


def test_work_is_recorded_before_it_is_sent() -> None:
    parent = Parent(Stranger())
    parent.handed()
    assert parent.peers.calls == []
    record = parent.record
    assert (record.status, record.to, record.child) == (OPEN, NAME, None)
    assert (record.turn, record.fence) == (parent.run.turn, parent.run.fence)
    assert parent.deployment.meta(parent.task_id).delegates == 1
    assert [item["id"] for item in parent.deployment.due_rows().values()] == [record.id]


def test_its_id_is_the_key_of_its_send_and_its_context() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated(message(context_id="another"))
    assert stranger.called("send") == [parent.record.id]
    (task,) = stranger.tasks.values()
    assert (task.context_id, parent.record.child) == (parent.record.id, task.id)
    assert 0 < stranger.seconds[0] <= SEND_SECONDS


@pytest.mark.parametrize("ends", ["canceled", "lost", "over"])
def test_a_run_that_does_not_hold_its_turn_records_nothing(ends: str) -> None:
    parent = Parent(Stranger())
    handed = Handed(parent.run, parent.peers, NAME, message())
    if ends == "canceled":
        parent.deployment.cancel(parent.task_id)
    elif ends == "lost":
        parent.lose_worker()
    else:
        parent.run.finish(TaskState.COMPLETED)
    with pytest.raises(TurnEnded if ends == "over" else TurnStopped):
        handed.note()
    assert parent.records == []


def test_a_run_that_is_halted_records_nothing_and_stops() -> None:
    parent = Parent(Stranger())
    handed = Handed(parent.run, parent.peers, NAME, message())
    halt(parent.deployment)
    with pytest.raises(TurnStopped):
        handed.note()
    assert parent.records == []


def test_a_record_whose_reply_is_lost_is_found() -> None:
    parent = Parent(Stranger())
    parent.deployment.hook(after=once("write", no_answer))
    parent.handed()
    assert parent.deployment.meta(parent.task_id).delegates == 1
    assert parent.told == ["made"]


@pytest.mark.parametrize(
    ("to", "terms", "says"),
    [
        ("nobody", {}, "no peer"),
        (NAME, {"lease": timedelta(seconds=1)}, "lease"),
        (NAME, {"deadline": START.replace(tzinfo=None)}, "zone"),
    ],
)
def test_what_breaks_a_rule_is_refused(to: str, terms: dict[str, Any], says: str) -> None:
    parent = Parent(Stranger())
    with parent.deployment.unchanged(), pytest.raises(Refused, match=says):
        parent.delegated(to=to, **terms)


def test_agents_that_can_not_be_looked_up_are_refused() -> None:
    parent = Parent(Stranger())

    def unreadable(tenant: str, name: str) -> None:
        raise PeerUnreachable("the peers can not be read")

    parent.peers.resolve_for = unreadable  # type: ignore[assignment,method-assign]
    with pytest.raises(Refused, match="can not be read"):
        parent.delegated()


def test_a_task_hands_down_so_often() -> None:
    parent = Parent(Stranger())
    key = parent.deployment.meta(parent.task_id).key
    parent.deployment.table._partitions[key.pk].items["META"][0]["delegates"] = MAX_DELEGATIONS
    parent.run._reread()
    with pytest.raises(Refused, match="1000"):
        parent.delegated()


# What travels.


def terms_sent(parent: Parent, **terms: Any) -> Terms:
    return Handed(parent.run, parent.peers, NAME, message(), **terms)._terms


def delegated_task(depth: int = 1, **more: Any) -> dict[str, Any]:
    return {"metadata": {KEY: Terms(depth, **more).to_wire()}}


def test_the_first_parent_has_children_of_depth_one_and_excludes_its_requesters() -> None:
    parent = Parent(Stranger())
    assert terms_sent(parent) == Terms(1, frozenset({"bearer:agent"}), parent=parent.task_id)


def test_depth_and_exclusions_go_down_with_what_comes_to_them() -> None:
    parent = Parent(Stranger(), sent=delegated_task(3, excluded=frozenset({"bearer:alice"})))
    assert terms_sent(parent) == Terms(4, frozenset({"bearer:alice", "bearer:agent"}), parent=parent.task_id)


def test_where_requesters_may_approve_only_what_was_inherited_is_excluded() -> None:
    parent = Parent(Stranger(), sent=delegated_task(3, excluded=frozenset({"bearer:alice"})))
    sent = terms_sent(parent, self_approval=True)
    assert sent == Terms(4, frozenset({"bearer:alice"}), parent=parent.task_id)


def test_work_is_handed_down_only_so_deep() -> None:
    terms_sent(Parent(Stranger(), sent=delegated_task(MAX_DEPTH - 1)))
    with pytest.raises(Refused, match=str(MAX_DEPTH)):
        terms_sent(Parent(Stranger(), sent=delegated_task(MAX_DEPTH)))


def test_only_so_many_are_excluded() -> None:
    excluded = frozenset(f"bearer:{number}" for number in range(MAX_EXCLUDED))
    with pytest.raises(Refused, match=str(MAX_EXCLUDED)):
        terms_sent(Parent(Stranger(), sent=delegated_task(excluded=excluded)))


@pytest.mark.parametrize(
    ("own", "inherited", "effective"), [(1, 2, 1), (2, 1, 1), (None, 1, 1), (1, None, 1)]
)
def test_the_earlier_of_own_and_inherited_deadline_goes_down(
    own: int | None, inherited: int | None, effective: int
) -> None:
    hours = {hour: START + timedelta(hours=hour) for hour in (1, 2)}
    given: dict[str, Any] = {"deadline": hours[inherited]} if inherited else {}
    parent = Parent(Stranger(), sent=delegated_task(**given))
    assert terms_sent(parent, deadline=hours[own] if own else None).deadline == hours[effective]


# How it settles.


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (TaskState.COMPLETED, Outcome.COMPLETED),
        (TaskState.FAILED, Outcome.FAILED),
        (TaskState.REJECTED, Outcome.FAILED),
        (TaskState.CANCELED, Outcome.CANCELED),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "later"])
def test_a_child_that_ends_settles(state: TaskState, outcome: Outcome, at_once: bool) -> None:
    stranger = Stranger(answer=lambda _: state if at_once else TaskState.WORKING)
    parent = Parent(stranger)
    handed = parent.delegated()
    if not at_once:
        assert handed.look() is None
        stranger.set(str(parent.record.child), state)
        handed.look()
    assert handed.settled is not None
    assert handed.settled.task is not None
    assert (handed.settled.outcome, handed.settled.task.status.state) == (outcome, state)
    assert parent.how() == (SETTLED, outcome)
    assert parent.told == ["made", "settled"]


@pytest.mark.parametrize("state", [TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED])
def test_a_child_that_waits_is_handed_back(state: TaskState) -> None:
    stranger = Stranger(answer=lambda _: state)
    parent = Parent(stranger)
    handed = parent.delegated()
    assert handed.settled is not None
    assert handed.settled.outcome is Outcome.INTERRUPTED
    assert parent.how() == (Delegation.WAITING, Outcome.INTERRUPTED)


def test_a_direct_answer_settles() -> None:
    parent = Parent(Stranger(answer=reply))
    handed = parent.delegated()
    assert handed.settled is not None
    assert handed.settled.message is not None
    assert (handed.settled.outcome, handed.settled.message.text) == (Outcome.MESSAGE, "done")
    assert parent.how() == (SETTLED, Outcome.MESSAGE)


def test_a_send_that_is_refused_has_failed() -> None:
    parent = Parent(Stranger(before=failing("send", 1, refusal(Unauthenticated))))
    handed = parent.delegated()
    assert handed.settled is not None
    assert handed.settled.outcome is Outcome.FAILED
    assert "refused" in (handed.settled.text or "")
    assert parent.how() == (SETTLED, Outcome.FAILED)


def test_a_send_without_an_answer_is_looked_for() -> None:
    parent = Parent(Stranger(before=failing("send", 1)))
    handed = parent.delegated()
    assert handed.settled == Settled(Outcome.UNREACHABLE, text="The agent did not answer.")
    assert parent.how() == (CANCELING, Outcome.UNREACHABLE)
    assert parent.deployment.waker.children == [("acme", parent.task_id)]


def test_a_child_whose_server_is_silent_is_lost_after_a_time() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    stranger.before = failing("get", 99)
    parent.deployment.clock.advance(LOST_AFTER.total_seconds() - 1)
    assert handed.look() is None
    parent.deployment.clock.advance(1)
    settled = handed.look()
    assert settled is not None
    assert settled.outcome is Outcome.LOST
    assert parent.how() == (CANCELING, Outcome.LOST)
    assert parent.deployment.waker.children == [("acme", parent.task_id)]


def test_a_server_that_answers_again_in_time_has_lost_nothing() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    stranger.before = failing("get", 1)
    for _ in range(3):
        parent.deployment.clock.advance(LOST_AFTER.total_seconds() - 1)
        assert handed.look() is None


@pytest.mark.parametrize(
    ("error", "outcome"), [(TaskNotFound, Outcome.UNREACHABLE), (Unauthenticated, Outcome.LOST)]
)
def test_a_child_that_is_refused_is_given_up(error: Any, outcome: Outcome) -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    stranger.before = failing("get", 1, refusal(error))
    settled = handed.look()
    assert settled is not None
    assert settled.outcome is outcome
    assert parent.how() == (CANCELING, outcome)


def test_a_change_whose_reply_is_lost_is_known_by_itself() -> None:
    parent = Parent(Stranger(answer=lambda _: TaskState.COMPLETED))
    handed = parent.handed()
    parent.deployment.hook(after=once("write", no_answer))
    handed.send()
    assert parent.how() == (SETTLED, Outcome.COMPLETED)
    assert parent.told == ["made", "settled"]


# Let go, and given up.


def test_what_is_detached_is_nobodys() -> None:
    parent = Parent(Stranger())
    parent.delegated().detach()
    assert parent.how() == (Delegation.DETACHED, None)
    assert parent.told == ["detached", "made"]


@pytest.mark.parametrize("ends", ["canceled", "lost", "over"])
def test_a_run_that_does_not_hold_its_turn_lets_nothing_go(ends: str) -> None:
    """What a task had handed down when it was canceled is canceled."""
    parent = Parent(Stranger())
    handed = parent.delegated()
    if ends == "canceled":
        parent.deployment.cancel(parent.task_id)
    elif ends == "lost":
        parent.lose_worker()
    else:
        parent.run.finish(TaskState.COMPLETED)
    with pytest.raises(TurnStopped):
        handed.detach()
    assert parent.record.status != Delegation.DETACHED


def test_leased_work_is_not_let_go() -> None:
    parent = Parent(Stranger())
    with pytest.raises(Refused, match="lease"):
        parent.delegated(lease=timedelta(minutes=1)).detach()
    assert parent.record.status == OPEN


def test_what_has_settled_is_not_let_go_any_more() -> None:
    parent = Parent(Stranger(answer=lambda _: TaskState.COMPLETED))
    parent.delegated().detach()
    assert parent.how() == (SETTLED, Outcome.COMPLETED)


def test_what_was_let_go_is_still_followed_and_not_canceled() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    handed.detach()
    with pytest.raises(Refused, match="let go"):
        handed.cancel()
    stranger.set(str(parent.record.child), TaskState.COMPLETED)
    settled = handed.look()
    assert settled is not None
    assert settled.outcome is Outcome.COMPLETED
    assert parent.how() == (Delegation.DETACHED, None)


def test_what_is_canceled_by_its_run_is_canceled_while_that_goes_on() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    handed.cancel()
    assert handed.settled == Settled(Outcome.CANCEL_REQUESTED)
    parent.outbox()
    assert stranger.states == [TaskState.CANCELED]
    assert parent.run.is_held()
    for _ in range(3):
        parent.run.renew()
        parent.later(40)
    assert parent.how() == (SETTLED, Outcome.CANCELED)
    assert parent.run.is_held()


def test_what_is_canceled_while_it_is_sent_is_disowned_when_it_is_known() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.handed()
    stranger.after = lambda operation: handed.cancel() if operation == "send" else None
    handed.send()
    assert parent.record.child is not None
    parent.outbox()
    assert stranger.states == [TaskState.CANCELED]


# A reply that comes late.


@pytest.mark.parametrize("found", [False, True], ids=["not found meanwhile", "given up meanwhile"])
def test_a_late_reply_to_a_run_that_was_stopped_disowns_the_child(found: bool) -> None:
    stranger = Stranger(lists=False)
    parent = Parent(stranger)
    handed = parent.handed()

    def meanwhile(operation: str) -> None:
        if operation == "send":
            parent.deployment.cancel(parent.task_id)
            parent.outbox()
            if found:
                parent.until(lambda: parent.record.over)
                assert parent.how() == (SETTLED, Outcome.UNREACHABLE)

    stranger.after = meanwhile
    with pytest.raises(TurnStopped):
        handed.send()
    assert stranger.states == [TaskState.WORKING]
    parent.outbox()
    assert stranger.states == [TaskState.CANCELED]
    parent.until(lambda: parent.record.over)
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_a_child_that_is_known_after_all_is_canceled_without_a_wake() -> None:
    stranger = Stranger(lists=False)
    parent = Parent(stranger)
    handed = parent.handed()

    def meanwhile(operation: str) -> None:
        if operation == "send":
            parent.deployment.cancel(parent.task_id)
            parent.until(lambda: not parent.deployment.due_rows())

    stranger.after = meanwhile
    with pytest.raises(TurnStopped):
        handed.send()
    parent.deployment.waker.children.clear()
    parent.until(lambda: parent.record.over)
    assert stranger.states == [TaskState.CANCELED]
    assert parent.how() == (SETTLED, Outcome.CANCELED)


def test_a_late_reply_that_names_whom_the_search_has_found_changes_nothing() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.handed()

    def meanwhile(operation: str) -> None:
        if operation == "send":
            parent.deployment.cancel(parent.task_id)
            parent.outbox()
            assert parent.how() == (CANCELING, Outcome.CANCELED)

    stranger.after = meanwhile
    with pytest.raises(TurnStopped):
        handed.send()
    assert parent.how() == (CANCELING, Outcome.CANCELED)
    assert parent.deployment.waker.children == []


# Several threads.


def test_a_look_that_is_slow_holds_nothing_up_and_changes_nothing_afterwards() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.delegated()
    stranger.set(str(parent.record.child), TaskState.COMPLETED)
    detached: list[Thread] = []

    def meanwhile(operation: str) -> None:
        if operation == "get":
            thread = Thread(target=handed.detach)
            thread.start()
            thread.join(10)
            detached.append(thread)

    stranger.after = meanwhile
    settled = handed.look()
    assert not detached[0].is_alive()
    assert settled is not None
    assert settled.outcome is Outcome.COMPLETED
    assert parent.how() == (Delegation.DETACHED, None)


# Leases, from the parent's side.


def ours(script: Callable[[Any], Any] = nothing) -> Other:
    return Other(deployment=Deployment(running(script), at_once=False))


def test_ours_says_that_it_keeps_to_the_terms() -> None:
    other = ours()
    parent = Parent(other)
    parent.delegated(lease=timedelta(seconds=30))
    assert parent.record.ours
    task = other.deployment.get(str(parent.record.child), PEER)
    assert task.metadata == {TAKEN: {"depth": 1, "leaseUntil": "2026-01-01T12:00:30.000000Z"}}


def test_the_same_work_is_sent_again_to_renew_the_lease() -> None:
    other = ours()
    parent = Parent(other)
    handed = parent.delegated(lease=timedelta(seconds=30))
    child = str(parent.record.child)
    other.deployment.clock.advance(10)
    handed.renew()
    assert other.called("send") == [parent.record.id] * 2
    assert other.deployment.meta(child).lease_until == "2026-01-01T12:00:40.000000Z"
    assert len(other.deployment.listed(PEER).tasks) == 1
    assert other.seconds[1] == 10


def test_a_stranger_is_sent_nothing_twice() -> None:
    """To one who knows no keys it would be more work."""
    stranger = Stranger()
    parent = Parent(stranger)
    parent.delegated(lease=timedelta(seconds=30)).renew()
    assert len(stranger.tasks) == 1


@pytest.mark.parametrize("why", ["settled", "stopped", "no lease"])
def test_a_lease_is_not_renewed_any_more(why: str) -> None:
    other = ours()
    parent = Parent(other)
    handed = parent.delegated(lease=None if why == "no lease" else timedelta(seconds=30))
    if why == "settled":
        handed.cancel()
    elif why == "stopped":
        parent.deployment.cancel(parent.task_id)
        assert not parent.run.is_held()
    handed.renew()
    assert len(other.called("send")) == 1


def test_a_renewal_without_an_answer_is_no_end() -> None:
    other = ours()
    parent = Parent(other)
    handed = parent.delegated(lease=timedelta(seconds=30))
    other.before = failing("send", 1)
    handed.renew()
    assert handed.settled is None


# Going on with a child that waits.


def test_a_message_to_a_child_that_waits_goes_on_with_it() -> None:
    other = Other(deployment=Deployment(asking()))
    parent = Parent(other)
    first = parent.delegated()
    first.look()
    child = str(first.record.child)
    assert parent.how() == (Delegation.WAITING, Outcome.INTERRUPTED)
    handed = parent.delegated(message("never mind", task_id=child))
    handed.look()
    assert handed.settled is not None
    assert handed.settled.outcome is Outcome.COMPLETED
    assert [record.child for record in parent.records] == [child, child]


def test_a_message_to_a_child_that_waits_takes_no_lease() -> None:
    parent = Parent(Stranger())
    with pytest.raises(Refused, match="lease"):
        parent.handed(message(task_id="task-1"), lease=timedelta(seconds=30))


def test_nothing_is_followed_before_it_was_sent() -> None:
    stranger = Stranger()
    parent = Parent(stranger)
    handed = parent.handed(message(task_id="task-1"))
    assert handed.look() is None
    assert stranger.calls == []
