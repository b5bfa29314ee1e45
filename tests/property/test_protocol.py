"""The invariants I1, I2, I5, I7 to I9 and I12 under interleavings, faults and crashes that a schedule draws.

The story: a send (and its retry under one key), turns on several workers, a prompt with a deadline, two
people who answer it differently and one who repeats the answer, others who put its deadline off, claim it and
pass it on, a plain message, a cancel, the deadline, a lost worker.
"""

import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.world import Broken, Faults, OneSkill, Schedule, World, is_terminal

from interlock.a2a.errors import A2AError, TaskNotFound
from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine.answer import Admitted, Answer, admit_answer, answered_task
from interlock.engine.cancel import cancel_task
from interlock.engine.claim import claim
from interlock.engine.due import handle_due
from interlock.engine.extend import extend
from interlock.engine.get import get_task
from interlock.engine.hand_over import hand_over
from interlock.engine.ports import Delete, Item, Put, Update, Write
from interlock.engine.records import Checkpoint, TaskMeta, parse_instant
from interlock.engine.run_turn import TurnRun
from interlock.engine.send import send_message
from interlock.engine.sweep import sweep
from interlock.oversight.principals import Kind, Principal, Role

AGENT = Principal("bearer:agent", "acme", Kind.SERVICE, frozenset({Role.CALLER}))
ANN = Principal("bearer:ann", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
BOB = Principal("bearer:bob", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
SPY = Principal("bearer:ann", "other", Kind.PERSON, frozenset({Role.APPROVER, Role.CALLER, Role.OPERATOR}))

EXAMPLES = int(os.environ.get("INTERLOCK_PROPERTY_EXAMPLES", "400"))
ROUNDS = int(os.environ.get("INTERLOCK_PROPERTY_ROUNDS", "1500"))


def asks_then_completes(run: TurnRun) -> None:
    if run.answer is None:
        run.say("thinking")
        run.ask("Go on?", {"type": "object"}, deadline=timedelta(minutes=5))
    else:
        run.say("going on")
        run.finish(TaskState.COMPLETED, "done")


@dataclass
class Story:
    """The actors, over one world. There is one task, or none if the send was never carried out."""

    world: World

    def __post_init__(self) -> None:
        self.log: dict[str, dict[int, Item]] = {}
        self.ended: dict[str, Item] = {}
        self.asks: dict[str, Item] = {}
        self.world.watchers.append(self.watch)

    # What is there, looked at without a step.

    def metas(self) -> list[Item]:
        return [
            item
            for (pk, items) in self._partitions()
            if pk.startswith("T#")
            for sk, item in items
            if sk == "META"
        ]

    def meta(self) -> TaskMeta | None:
        found = self.metas()
        # What could not read the halt state took its task back, and its key could make another one.
        accepted = [item for item in found if "withdrawn" not in item or not item["withdrawn"]]
        if len(accepted) > 1:
            raise Broken("I2 one idempotency key made two tasks")
        return TaskMeta.read((accepted or found)[0]) if found else None

    def prompts(self) -> list[Checkpoint]:
        return [
            Checkpoint.read(item)
            for pk, items in self._partitions()
            for sk, item in items
            if pk.startswith("T#") and sk.startswith("ASK#")
        ]

    def _partitions(self) -> list[tuple[str, list[tuple[str, Item]]]]:
        return [
            (pk, [(sk, row[0]) for sk, row in partition.items.items()])
            for pk, partition in self.world.table._partitions.items()
        ]

    # The actors.

    def send(self) -> str:
        message = Message(message_id="m-1", role=MessageRole.USER, parts=[Part(text="go")])
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=True)
        )
        sent = send_message(
            self.world.engine,
            OneSkill(self.world.rerun),
            AGENT,
            request,
            extensions=frozenset(),
            idempotency_key="k" * 16,
        )
        assert sent.task is not None
        return sent.task.id

    def answer(self, who: Principal, message_id: str, yes: bool) -> Callable[[], tuple[str, Admitted]]:
        def actor() -> tuple[str, Admitted]:
            prompt = self.world.wait_for(lambda: next(iter(self.prompts()), None))
            return prompt.ask_id, self._admit(who, prompt, message_id, yes)

        return actor

    def _admit(self, who: Principal, prompt: Checkpoint, message_id: str, yes: bool) -> Admitted:
        payload: dict[str, Any] = {"yes": yes}
        said = {"prompt_id": prompt.ask_id, "payload": payload}
        message = Message(
            message_id=message_id,
            role=MessageRole.USER,
            parts=[Part(text="answer")],
            task_id=prompt.task_id,
            metadata={"hitl_response_for": said},
        )
        answer = Answer(who, prompt.task_id, prompt.ask_id, payload, message)
        if who is not BOB:
            return admit_answer(self.world.engine, answer)
        view = answered_task(self.world.engine, answer)
        if len(view.events) != view.meta.seq:
            raise Broken("I7 the task that was answered with is torn")
        return Admitted.ACCEPTED

    def extend(self) -> tuple[str, str]:
        """And until when, once that was said to hold."""
        prompt = self.world.wait_for(lambda: next(iter(self.prompts()), None))
        until = self.world.clock.now() + timedelta(minutes=20)
        question = extend(self.world.engine, ANN, prompt.task_id, prompt.ask_id, until)
        return prompt.ask_id, question.checkpoint.deadline or ""

    def claim(self) -> None:
        prompt = self.world.wait_for(lambda: next(iter(self.prompts()), None))
        claim(self.world.engine, BOB, prompt.task_id, prompt.ask_id)

    def pass_on(self, to: str) -> Callable[[], None]:
        def actor() -> None:
            prompt = self.world.wait_for(lambda: next(iter(self.prompts()), None))
            hand_over(self.world.engine, ANN, prompt.task_id, prompt.ask_id, to)

        return actor

    def go_on(self) -> str:
        meta = self.world.wait_for(lambda: (m := self.meta()) and m.state == TaskState.INPUT_REQUIRED and m)
        message = Message(
            message_id="m-2", role=MessageRole.USER, parts=[Part(text="never mind")], task_id=meta.task_id
        )
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=True)
        )
        send_message(self.world.engine, OneSkill(self.world.rerun), AGENT, request, extensions=frozenset())
        return "went on"

    def cancel(self) -> str:
        meta = self.world.wait_for(self.meta)
        self.world.pause()
        task = cancel_task(
            self.world.engine, AGENT, CancelTaskRequest(id=meta.task_id), extensions=frozenset()
        )
        return task.status.state.value

    def work(self) -> None:
        """A worker takes any message there ever was, at any time: late, repeated, in any order."""
        wakes = self.world.wakes.turns
        self.world.wait_for(lambda: wakes)
        newest_first = list(reversed(wakes))
        choice = newest_first[self.world.schedule.choose(len(wakes))]
        self.world.work(*choice)

    def time_passes(self, minutes: float) -> Callable[[], None]:
        def actor() -> None:
            self.world.pause()
            self.world.clock.time += timedelta(minutes=minutes)

        return actor

    def its_time_passes(self) -> None:
        prompt = self.world.wait_for(lambda: next(iter(self.prompts()), None))
        self.world.pause()
        self.world.clock.time = max(self.world.clock.time, parse_instant(prompt.deadline or ""))

    def timer(self) -> None:
        key = self.world.wait_for(lambda: next(iter(self.world.wakes.timers), None))
        handle_due(self.world.engine, key)

    def sweeper(self) -> None:
        self.world.wait_for(self.meta)
        sweep(self.world.engine)

    def spy(self) -> str:
        """Somebody of another tenant who knows every id (I9)."""
        meta = self.world.wait_for(self.meta)
        prompts = self.prompts()
        attempts: list[Callable[[], Any]] = [
            lambda: get_task(self.world.engine, SPY, GetTaskRequest(id=meta.task_id), extensions=frozenset()),
            lambda: cancel_task(
                self.world.engine, SPY, CancelTaskRequest(id=meta.task_id), extensions=frozenset()
            ),
            *(lambda p=p: self._admit(SPY, p, "m-9", True) for p in prompts),
        ]
        for attempt in attempts:
            try:
                attempt()
            except TaskNotFound:
                continue
            except A2AError as error:
                if error.http_status == 503:
                    continue
                raise Broken("I9 another tenant's task is known to be there") from error
            raise Broken("I9 another tenant was served")
        return "saw nothing"

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "worker 1": self.work,
            "send again": self.send,
            "worker 2": self.work,
            "ann": self.answer(ANN, "a-1", True),
            "extend": self.extend,
            "bob": self.answer(BOB, "b-1", False),
            "claim": self.claim,
            "ann again": self.answer(ANN, "a-1", True),
            "worker 3": self.work,
            "cancel": self.cancel,
            "go on": self.go_on,
            "lease lapses": self.time_passes(2),
            "sweeper": self.sweeper,
            "deadline passes": self.time_passes(5),
            "timer": self.timer,
            "extend again": self.extend,
            "pass on": self.pass_on("operators"),
            "hand over": self.pass_on(BOB.id),
            "its time passes": self.its_time_passes,
            "sweeper again": self.sweeper,
            "worker 4": self.work,
            "spy": self.spy,
        }

    # What must hold in every state.

    def watch(self, world: World) -> None:
        for item in self.metas():
            self._watch_task(world, TaskMeta.read(item), item)
        for prompt in self.prompts():
            before = self.asks.get(prompt.ask_id)
            if before is not None and before["status"] != Checkpoint.OPEN and prompt.item() != before:
                raise Broken("I1 a closed prompt changed")
            self.asks[prompt.ask_id] = prompt.item()
        for turn, times in world.ran.items():
            if times > 1:
                raise Broken(f"I2 turn {turn} ran {times} times")

    def _watch_task(self, world: World, meta: TaskMeta, item: Item) -> None:
        rows = world.rows(meta.key.pk)
        events = {int(key.sk[4:]): event for key, event in rows if key.sk.startswith("EVT#")}
        if sorted(events) != list(range(1, meta.seq + 1)):
            raise Broken(f"I7 events {sorted(events)} of a task with {meta.seq}")
        for number, event in self.log.get(meta.task_id, {}).items():
            if events[number] != event:
                raise Broken(f"I7 event {number} changed")
        self.log[meta.task_id] = events
        if self.ended.get(meta.task_id, item) != item:
            raise Broken("I5 a terminal task changed")
        if is_terminal(item):
            self.ended[meta.task_id] = item

    # What must hold at rest.

    def at_rest(self) -> None:
        world, meta = self.world, self.meta()
        if meta is None:
            if isinstance(world.told.get("send"), str):
                raise Broken("I8 an accepted send is lost")
            return
        state = meta.task_state
        if world.run_rows():
            raise Broken("I8 a RUN row is left")
        if not (state.terminal or state.interrupted):
            raise Broken(f"I8 the task is stuck {meta.state}")
        if world.due_rows():
            raise Broken("I8 a DUE row is left although its time has passed")
        open_ones = [prompt for prompt in self.prompts() if prompt.status == Checkpoint.OPEN]
        if len(open_ones) != (state is TaskState.INPUT_REQUIRED):
            raise Broken(f"I8 {len(open_ones)} open prompts of a task that is {meta.state}")
        self._answers(meta)
        self._extensions()
        if world.told.get("cancel") == TaskState.CANCELED.value and not any(
            item["state"] == TaskState.CANCELED.value for item in self.metas()
        ):
            raise Broken("I5 a canceled task is something else")
        for turn in range(1, meta.turn + 1):
            if not world.rerun and not world.ran.get((meta.task_id, turn)) and not state.terminal:
                raise Broken(f"I2 turn {turn} never ran and the task did not end")

    def _extensions(self) -> None:
        """Each that was told to hold did: nothing expired before, and only another one put it off further."""
        for name in ("extend", "extend again"):
            told = self.world.told.get(name)
            if not isinstance(told, tuple):
                continue
            ask_id, until = told
            (prompt,) = [found for found in self.prompts() if found.ask_id == ask_id]
            if (prompt.deadline or "") < until:
                raise Broken("I12 a deadline that was put off is not")
            if prompt.status == Checkpoint.EXPIRED and (prompt.closed_at or "") < (prompt.deadline or ""):
                raise Broken("I12 a prompt expired before its deadline")

    def _answers(self, meta: TaskMeta) -> None:
        accepted: dict[str, set[str]] = {}
        for name in ("ann", "bob", "ann again"):
            told = self.world.told.get(name)
            if isinstance(told, tuple) and told[1] is Admitted.ACCEPTED:
                accepted.setdefault(told[0], set()).add(name.split()[0])
        for prompt in self.prompts():
            told_yes = accepted.get(prompt.ask_id, set())
            if len(told_yes) > 1:
                raise Broken("I1 two answers of one prompt were accepted")
            won = json.loads(prompt.winner)[0] if prompt.winner else None
            if told_yes and won != f"bearer:{next(iter(told_yes))}":
                raise Broken("I1 somebody was told to have won who did not")
            if won is not None and prompt.status != Checkpoint.ANSWERED:
                raise Broken("I1 a winner of a prompt that was not answered")


def play(
    numbers: Sequence[int],
    *,
    rerun: bool = False,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
    only: Sequence[str] = (),
    fates: Sequence[int] = Faults.TABLE,
) -> World:
    """Plays the story, or the part of it that `only` names, and checks it at rest. Raises `Broken`."""
    world = World(
        Schedule(numbers),
        asks_then_completes,
        rerun=rerun,
        sabotage=sabotage,
        fault_at=fault_at,
        fates=fates,
    )
    story = Story(world)
    actors = story.all()
    try:
        world.run({name: actors[name] for name in only or actors})
        story.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**16), max_size=220), st.booleans())
def test_the_invariants_hold_whatever_happens(numbers: list[int], rerun: bool) -> None:
    play(numbers, rerun=rerun)


def schedules(seed: int, rounds: int) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(2**16) for _ in range(chance.randrange(40, 260))] for _ in range(rounds)]


def test_long_random_schedules_hold_the_invariants_and_reach_every_outcome() -> None:
    reached: set[str] = set()
    for numbers in schedules(1, ROUNDS):
        world = play(numbers)
        story = Story(world)
        reached |= {prompt.status for prompt in story.prompts()}
        meta = story.meta()
        reached |= {meta.state} if meta else {"never sent"}
        reached |= {f"{name}: {type(told).__name__}" for name, told in world.told.items()}
    assert reached >= {
        "answered",
        "canceled",
        "expired",
        "superseded",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_FAILED",
        "never sent",
        "bob: AnswerRefused",
        "ann again: tuple",
        "extend: tuple",
        "extend: AnswerRefused",
        "spy: str",
    }


NEVER_A_FAULT = [0] * 1000
IN_ORDER = ("send", "worker 1", "ann", "worker 2", "bob")


def test_one_after_the_other_without_a_fault_the_story_completes() -> None:
    world = play(NEVER_A_FAULT, only=IN_ORDER)
    assert [prompt.status for prompt in Story(world).prompts()] == [Checkpoint.ANSWERED]
    assert (meta := Story(world).meta()) is not None
    assert meta.task_state is TaskState.COMPLETED


@pytest.mark.parametrize("rerun", [False, True], ids=["fails", "runs again"])
@pytest.mark.parametrize(
    "fault", [Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER]
)
def test_whatever_step_fails_or_is_the_last_nothing_is_stuck(fault: int, rerun: bool) -> None:
    """Every step of the story in turn; `at_rest` says that no task is left without an end or a question."""
    steps = play(NEVER_A_FAULT, only=IN_ORDER, rerun=rerun).steps
    assert steps >= 12
    for step in range(1, steps + 1):
        play(NEVER_A_FAULT, only=IN_ORDER, rerun=rerun, fault_at={step: fault})


def unconditional(*records: str) -> Callable[[Write], Write]:
    """Writes on these records are made whatever is there."""

    def change(write: Write) -> Write:
        named = any(record in write.key.sk or record in write.key.pk for record in records)
        return replace(write, conditions=()) if named else write

    return change


def elsewhere(kind: type[Put] | type[Delete]) -> Callable[[Write], Write]:
    """Such writes of RUN rows go astray."""

    def change(write: Write) -> Write:
        if isinstance(write, kind) and write.key.pk.startswith("RUN#"):
            return replace(write, key=replace(write.key, pk="ASTRAY"))
        return write

    return change


def fence_stays(write: Write) -> Write:
    if (
        isinstance(write, Update)
        and write.key.sk == "META"
        and write.set.get("state") == "TASK_STATE_CANCELED"
    ):
        return replace(write, set={**write.set, "state": "TASK_STATE_WORKING"})
    return write


def expires_unseen(write: Write) -> Write:
    """Whatever has become of the prompt since it was read."""
    if isinstance(write, Update) and write.set.get("status") == Checkpoint.EXPIRED:
        return replace(write, conditions=tuple(c for c in write.conditions if c.attribute != "rev"))
    return write


@pytest.mark.parametrize(
    ("mistake", "invariant"),
    [
        (unconditional("META", "EVT"), "I"),
        (unconditional("META", "EVT", "ASK"), "I1|I5|I7"),
        (unconditional("META", "EVT", "RUN"), "I2|I5|I7"),
        (elsewhere(Put), "I8"),
        (elsewhere(Delete), "I8"),
        (fence_stays, "I5|I8"),
    ],
    ids=[
        "no revision",
        "prompt not checked",
        "claim not checked",
        "no RUN row",
        "RUN row stays",
        "no cancel",
    ],
)
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write], invariant: str) -> None:
    def explore() -> None:
        for numbers in schedules(2, 300):
            play(numbers, sabotage=mistake)

    with pytest.raises(AssertionError, match=invariant):
        explore()


RACE = ("send", "worker 1", "extend", "its time passes", "timer")


NO_FAULT = (Faults.NONE,)


@pytest.mark.parametrize("fates", [Faults.TABLE, NO_FAULT], ids=["faults", "no faults"])
def test_a_deadline_that_is_put_off_while_it_passes_has_one_outcome(fates: Sequence[int]) -> None:
    outcomes = set()
    for numbers in schedules(3, ROUNDS):
        world = play(numbers, only=RACE, fates=fates)
        told = world.told.get("extend")
        outcomes.add("extended" if isinstance(told, tuple) else type(told).__name__)
    assert outcomes >= {"extended", "AnswerRefused"}


def test_an_expiry_that_does_not_look_at_that_is_found() -> None:
    def explore() -> None:
        for numbers in schedules(4, 1000):
            play(numbers, only=RACE, sabotage=expires_unseen, fates=NO_FAULT)

    with pytest.raises(AssertionError, match="I12"):
        explore()
