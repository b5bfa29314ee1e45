"""Delegated work as an agent's code has it: start, wait, detach, cancel, and what becomes of it without."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from tests.support.others import NAME, Other, Others, Stranger, failing, refusal
from tests.support.twin import AGENT, PEER, Deployment, asking, message, nothing, running

import interlock.agents.delegation as module
from interlock.a2a.errors import Unauthenticated
from interlock.a2a.models import Message, Part, Task, TaskState
from interlock.a2a.models import Role as MessageRole
from interlock.agents import Delegation, Settled, Turn
from interlock.agents.executor import PythonExecutor
from interlock.engine.children import Children, cancel_children, delegations
from interlock.engine.records import Delegation as Record
from interlock.engine.run_turn import Refused, TurnStopped
from interlock.engine.sweep import sweep
from interlock.oversight.delegation import Outcome

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_LOOK_SECONDS", 0.002)
    monkeypatch.setattr(module, "LONGEST_LOOK_SECONDS", 0.01)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hangs goes on once it is set, and at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


@dataclass
class Desk:
    """A deployment whose one skill is `script`, and which hands work to `peers`."""

    peers: Others
    script: Callable[[Turn], Awaitable[None]]
    deployment: Deployment = field(init=False)

    def __post_init__(self) -> None:
        self.deployment = Deployment(running(self.script))
        self.deployment.executor = PythonExecutor(self.deployment.agent, peers=self.peers)

    def sent(self) -> Task:
        self.task = self.deployment.send()
        return self.task

    @property
    def records(self) -> list[Record]:
        return delegations(self.deployment.table, "acme", self.task.id)

    def later(self, seconds: float) -> None:
        self.deployment.clock.advance(seconds)
        assert sweep(self.deployment.engine) == 0

    def outbox(self) -> None:
        children = Children(self.deployment.engine, self.peers, lambda parked: None)
        while self.deployment.waker.children:
            cancel_children(children, *self.deployment.waker.children.pop(0))


def ran(peers: Others, script: Callable[[Turn], Awaitable[None]]) -> Desk:
    """Its one task has ended."""
    desk = Desk(peers, script)
    desk.sent()
    return desk


def waited(peers: Others, **options: Any) -> tuple[Desk, Settled]:
    found: list[Settled] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it", **options)
        found.append(await delegation.wait())
        assert delegation.outcome is found[0].outcome

    desk = ran(peers, script)
    assert desk.task.status.state is TaskState.COMPLETED
    return desk, found[0]


def ours(child: Callable[[Turn], Any] = nothing) -> Other:
    return Other(deployment=Deployment(running(child)))


# Handing over.


def test_the_text_the_hint_and_the_id_arrive() -> None:
    seen: list[Any] = []

    async def child(turn: Turn) -> None:
        seen.append((turn.text, turn.message.metadata, turn.context_id))

    desk, settled = waited(ours(child), skill="work")
    assert settled.outcome is Outcome.COMPLETED
    assert seen == [("do it", {"skillHint": "work"}, desk.records[0].id)]


def test_a_message_goes_as_it_is() -> None:
    seen: list[Any] = []

    async def child(turn: Turn) -> None:
        seen.append((turn.message.message_id, turn.message.metadata))

    async def script(turn: Turn) -> None:
        work = message("do it", message_id="m-7", metadata={"order": 1182})
        delegation = await turn.delegate(NAME, work, skill="work")
        await delegation.wait()

    ran(ours(child), script)
    assert seen == [("m-7", {"order": 1182, "skillHint": "work"})]


def test_a_deployment_without_other_agents_hands_nothing_down() -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(Refused, match="no work"):
            await turn.delegate(NAME, "do it")

    assert Deployment(running(script)).send().status.state is TaskState.COMPLETED


def test_an_agent_that_is_not_known_is_refused() -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(Refused, match="configured"):
            await turn.delegate("nobody", "do it")

    assert ran(Stranger(), script).records == []


def test_the_id_of_the_childs_task_is_known_at_once() -> None:
    stranger = Stranger()
    known: list[Any] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        known.extend((delegation.task_id, delegation.id, delegation.outcome))

    desk = ran(stranger, script)
    assert known == [next(iter(stranger.tasks)), desk.records[0].id, None]


def test_a_start_waits_only_so_long(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    assert module.START_SECONDS == 5.0
    monkeypatch.setattr(module, "START_SECONDS", 0.05)
    stranger = Stranger(before=lambda operation: assert_in_time(gate) if operation == "send" else None)
    found: list[Any] = []

    async def script(turn: Turn) -> None:
        began = time.monotonic()
        delegation = await turn.delegate(NAME, "do it")
        found.append(time.monotonic() - began < PATIENCE / 2)
        found.append(delegation.task_id)
        found.append(await delegation.wait(0.01))
        gate.set()
        stranger.answer = lambda _: TaskState.COMPLETED
        found.append((await delegation.wait()).outcome)
        found.append(delegation.task_id)

    stranger.answer = lambda _: TaskState.COMPLETED
    ran(stranger, script)
    assert found == [True, None, None, Outcome.COMPLETED, next(iter(stranger.tasks))]


def assert_in_time(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


def test_agents_that_hang_keep_neither_others_nor_the_turn_from_going_on(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    """More of them than a loop has threads for what blocks."""
    monkeypatch.setattr(module, "START_SECONDS", 0.01)
    hanging = iter(range(40))

    def hang(operation: str) -> None:
        if operation == "send" and next(hanging, None) is not None:
            assert_in_time(gate)

    stranger = Stranger(before=hang, answer=lambda _: TaskState.COMPLETED)
    found: list[Any] = []

    async def script(turn: Turn) -> None:
        await asyncio.gather(*(turn.delegate(NAME, "hang") for _ in range(40)))
        await turn.say("going on")
        last = await turn.delegate(NAME, "do it")
        found.append((await last.wait()).outcome)
        gate.set()

    desk = ran(stranger, script)
    assert found == [Outcome.COMPLETED]
    assert len(desk.records) == 41


# Waiting.


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (TaskState.COMPLETED, Outcome.COMPLETED),
        (TaskState.FAILED, Outcome.FAILED),
        (TaskState.CANCELED, Outcome.CANCELED),
        (TaskState.INPUT_REQUIRED, Outcome.INTERRUPTED),
        (TaskState.AUTH_REQUIRED, Outcome.INTERRUPTED),
    ],
)
def test_waiting_ends_with_the_child(state: TaskState, outcome: Outcome) -> None:
    stranger = Stranger()
    looks = iter(range(3))

    def before(operation: str) -> None:
        if operation == "get" and next(looks, None) is None:
            for task_id in stranger.tasks:
                stranger.set(task_id, state)

    stranger.before = before
    _, settled = waited(stranger)
    assert settled.outcome is outcome
    assert settled.task is not None
    assert settled.task.status.state is state


def test_a_child_of_ours_hands_its_question_back() -> None:
    desk, settled = waited(Other(deployment=Deployment(asking())))
    assert settled.outcome is Outcome.INTERRUPTED
    assert settled.task is not None
    assert settled.task.status.message is not None
    assert settled.task.status.message.text == "Go on?"
    desk.outbox()
    assert desk.peers.states == [TaskState.INPUT_REQUIRED]


def test_a_direct_answer_needs_no_waiting() -> None:
    said = Message(message_id="m-1", role=MessageRole.AGENT, parts=[Part(text="done")])
    _, settled = waited(Stranger(answer=lambda _: said))
    assert (settled.outcome, settled.message) == (Outcome.MESSAGE, said)


def test_a_refusal_is_told() -> None:
    _, settled = waited(Stranger(before=failing("send", 1, refusal(Unauthenticated))))
    assert settled.outcome is Outcome.FAILED
    assert settled.text


def test_no_answer_is_told() -> None:
    desk, settled = waited(Stranger(before=failing("send", 1)))
    assert settled.outcome is Outcome.UNREACHABLE
    assert desk.records[0].status == Record.CANCELING


def test_waiting_with_a_time_out_ends_without_an_end() -> None:
    stranger = Stranger()
    found: list[Any] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        found.append(await delegation.wait(0.03))
        stranger.set(str(delegation.task_id), TaskState.COMPLETED)
        settled = await delegation.wait(PATIENCE)
        assert settled is not None
        found.append(settled.outcome)

    ran(stranger, script)
    assert found == [None, Outcome.COMPLETED]


def test_a_time_out_in_the_middle_of_a_look_leaves_the_handle_whole(gate: threading.Event) -> None:
    """The look goes on in its thread, and what comes next is not taken for a stop."""
    stranger, looking = Stranger(), threading.Event()

    def before(operation: str) -> None:
        if operation == "get":
            looking.set()
            assert_in_time(gate)

    stranger.before = before
    found: list[Any] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        waiting = asyncio.create_task(delegation.wait(0.05))
        await asyncio.to_thread(looking.wait, PATIENCE)
        found.append(await waiting)
        stranger.set(str(delegation.task_id), TaskState.COMPLETED)
        await delegation.detach()
        gate.set()
        found.append((await delegation.wait()).outcome)

    desk = ran(stranger, script)
    assert desk.task.status.state is TaskState.COMPLETED
    assert found == [None, Outcome.COMPLETED]
    assert desk.records[0].status == Record.DETACHED


def test_several_are_waited_for_at_once() -> None:
    outcomes: list[Any] = []

    async def script(turn: Turn) -> None:
        handed = await asyncio.gather(*(turn.delegate(NAME, "do it") for _ in range(8)))
        outcomes.extend(await asyncio.gather(*(one.wait() for one in handed)))

    desk = ran(ours(), script)
    assert [one.outcome for one in outcomes] == [Outcome.COMPLETED] * 8
    assert {record.status for record in desk.records} == {Record.SETTLED}


# Without an end.


def test_what_was_dropped_is_canceled() -> None:
    stranger = Stranger()

    async def script(turn: Turn) -> None:
        await turn.delegate(NAME, "do it")

    desk = ran(stranger, script)
    assert desk.task.status.state is TaskState.COMPLETED
    desk.outbox()
    assert stranger.states == [TaskState.CANCELED]


def test_what_was_dropped_while_it_is_sent_is_canceled(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.01)
    other, arrived = ours(), threading.Event()

    def after(operation: str) -> None:
        if operation == "send":
            arrived.set()
            assert_in_time(gate)

    def before(operation: str) -> None:
        if operation == "send":
            assert_in_time(late)

    late = threading.Event()
    other.before, other.after = before, after

    async def script(turn: Turn) -> None:
        await turn.delegate(NAME, "do it")

    desk = ran(other, script)
    desk.outbox()
    assert (desk.records[0].status, desk.records[0].outcome) == (Record.SETTLED, Outcome.CANCELED)
    late.set()
    gate.set()
    assert other.deployment.listed(PEER).tasks == []


def test_what_was_let_go_goes_on() -> None:
    stranger = Stranger()

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        await delegation.detach()

    desk = ran(stranger, script)
    desk.outbox()
    assert stranger.states == [TaskState.WORKING]
    assert desk.records[0].status == Record.DETACHED


def test_what_is_let_go_has_been_sent(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.01)
    stranger = Stranger(before=lambda operation: assert_in_time(gate))

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        letting_go = asyncio.create_task(delegation.detach())
        await asyncio.sleep(0.02)
        assert not letting_go.done()
        gate.set()
        await letting_go

    desk = ran(stranger, script)
    assert desk.task.status.state is TaskState.COMPLETED
    assert stranger.states == [TaskState.WORKING]
    assert desk.records[0].status == Record.DETACHED


def test_what_is_canceled_is_canceled_while_the_turn_goes_on() -> None:
    stranger = Stranger()
    found: list[Any] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        await delegation.cancel()
        found.append((await delegation.wait()).outcome)
        await asyncio.to_thread(desk.outbox)
        found.extend(stranger.states)
        await turn.say("going on")

    desk = Desk(stranger, script)
    desk.sent()
    assert desk.task.status.state is TaskState.COMPLETED
    assert found == [Outcome.CANCEL_REQUESTED, TaskState.CANCELED]


def test_a_cancel_does_not_wait_for_the_send(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.01)
    stranger = Stranger(before=lambda operation: assert_in_time(gate))

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        await delegation.cancel()
        assert delegation.outcome is Outcome.CANCEL_REQUESTED
        gate.set()

    desk = ran(stranger, script)
    assert desk.task.status.state is TaskState.COMPLETED
    assert desk.records[0].outcome == Outcome.CANCEL_REQUESTED


def test_a_task_that_is_canceled_stops_the_waiting_and_the_child() -> None:
    stranger = Stranger()
    stopped: list[BaseException] = []

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        desk.deployment.cancel(turn.task_id)
        try:
            await delegation.wait()
        except BaseException as error:
            stopped.append(error)
            raise

    desk = Desk(stranger, script)
    desk.sent()
    assert desk.deployment.get(desk.task.id).status.state is TaskState.CANCELED
    assert isinstance(stopped[0], asyncio.CancelledError)
    desk.outbox()
    assert stranger.states == [TaskState.CANCELED]


def test_nothing_is_handed_down_by_a_task_that_was_canceled() -> None:
    stranger = Stranger()
    stopped: list[BaseException] = []

    async def script(turn: Turn) -> None:
        desk.deployment.cancel(turn.task_id)
        try:
            await turn.delegate(NAME, "do it")
        except TurnStopped as error:
            stopped.append(error)
            raise

    desk = Desk(stranger, script)
    desk.sent()
    assert len(stopped) == 1
    assert stranger.calls == []


def test_code_that_ends_with_an_error_has_its_children_canceled(caplog: pytest.LogCaptureFixture) -> None:
    stranger = Stranger()

    async def script(turn: Turn) -> None:
        await turn.delegate(NAME, "do it")
        raise ValueError

    with caplog.at_level(logging.CRITICAL):
        desk = ran(stranger, script)
    assert desk.task.status.state is TaskState.FAILED
    desk.outbox()
    assert stranger.states == [TaskState.CANCELED]


@pytest.mark.parametrize("after", ["all wait", "the wake is lost"])
def test_a_cancel_of_the_first_reaches_the_last_of_three(after: str) -> None:
    """Each hands its work to the next, and its question back."""

    async def script(turn: Turn) -> None:
        delegation = await turn.delegate(NAME, "do it")
        settled = await delegation.wait()
        assert settled.outcome is Outcome.INTERRUPTED
        await turn.ask("And?")

    last = Deployment(asking())
    second = Desk(Other(deployment=last), script)
    first = Desk(Other(deployment=second.deployment), script)
    first.sent()
    second.task = second.deployment.listed(PEER).tasks[0]
    assert [
        desk.deployment.get(desk.task.id, who).status.state for desk, who in ((first, AGENT), (second, PEER))
    ] == [
        TaskState.INPUT_REQUIRED,
        TaskState.INPUT_REQUIRED,
    ]
    first.outbox()
    second.outbox()
    assert second.peers.states == [TaskState.INPUT_REQUIRED]
    first.deployment.cancel(first.task.id)
    if after == "the wake is lost":
        first.deployment.waker.children.clear()
        first.later(3600)
    first.outbox()
    second.outbox()
    assert first.peers.states == [TaskState.CANCELED]
    assert second.peers.states == [TaskState.CANCELED]


# Leases.


def test_a_lease_is_renewed_while_the_turn_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RENEWALS", 3000)
    other = Other(deployment=Deployment(running(nothing), at_once=False))

    async def script(turn: Turn) -> None:
        await turn.delegate(NAME, "do it", lease=timedelta(seconds=30))
        began = time.monotonic()
        while len(other.called("send")) < 4:
            assert time.monotonic() - began < PATIENCE
            await asyncio.sleep(0.005)

    desk = ran(other, script)
    sends = other.called("send")
    assert set(sends) == {desk.records[0].id}
    assert len(other.deployment.listed(PEER).tasks) == 1


def test_a_lease_that_breaks_a_rule_is_refused() -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(Refused, match="lease"):
            await turn.delegate(NAME, "do it", lease=timedelta(seconds=1))

    assert ran(Stranger(), script).records == []


def test_a_delegation_that_was_not_started_is_a_mistake() -> None:
    async def wait() -> None:
        await Delegation(None, None).wait()  # type: ignore[arg-type]

    with pytest.raises(RuntimeError):
        asyncio.run(wait())
