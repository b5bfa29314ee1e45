"""I6: of a window of veto exactly one outcome comes to be, not before its end, and not while halted.

The story: a send of a skill with a window, two who cancel it, timers that come early, late, repeatedly or not
at all, a halt and its resume, the passing of time, workers.
"""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from tests.property.test_protocol import AGENT, ANN
from tests.property.world import Broken, Schedule, World

from interlock.a2a.models import (
    CancelTaskRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine.cancel import cancel_task
from interlock.engine.context import Skill
from interlock.engine.due import handle_due
from interlock.engine.halt import declare, lift
from interlock.engine.halts import standing_halts
from interlock.engine.ports import Check, Item, Update, Write
from interlock.engine.records import Checkpoint, TaskMeta, parse_instant
from interlock.engine.run_turn import TurnRun
from interlock.engine.send import send_message
from interlock.oversight.halts import Scope
from interlock.oversight.modes import Declared, Mode
from interlock.oversight.principals import Kind, Principal, Role

ROUNDS = int(os.environ.get("INTERLOCK_PROPERTY_ROUNDS", "600"))
OPERATOR = Principal("bearer:ops", "acme", Kind.PERSON, frozenset({Role.OPERATOR}))
TENANT = Scope("acme")
MINUTES = 5
SKILL = Skill("agent", "skill", declared=Declared(Mode.VETO, MINUTES * 60_000))


class WithWindow:
    """Implements `Directory`."""

    def reply(self, message: Message) -> Message | None:
        return None

    def route(self, message: Message, skill_hint: str | None) -> Skill:
        return SKILL


def completes(run: TurnRun) -> None:
    run.finish(TaskState.COMPLETED)


@dataclass
class Story:
    world: World
    statuses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.watchers.append(self.watch)

    def items(self, sk: str) -> list[Item]:
        return [
            item
            for pk, partition in self.world.table._partitions.items()
            if pk.startswith("T#")
            for at, (item, _) in partition.items.items()
            if at.startswith(sk)
        ]

    def meta(self) -> TaskMeta | None:
        found = self.items("META")
        return TaskMeta.read(found[0]) if found else None

    def send(self) -> str:
        message = Message(message_id="m-1", role=MessageRole.USER, parts=[Part(text="go")])
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=True)
        )
        engine = self.world.engine
        sent = send_message(
            engine, WithWindow(), AGENT, request, extensions=frozenset(), idempotency_key="k" * 16
        )
        assert sent.task is not None
        return sent.task.id

    def cancel(self, who: Principal, after: Callable[[], Any] = lambda: True) -> Callable[[], str]:
        def actor() -> str:
            meta = self.world.wait_for(self.meta)
            self.world.wait_for(after)
            task = cancel_task(
                self.world.engine, who, CancelTaskRequest(id=meta.task_id), extensions=frozenset()
            )
            return task.status.state.value

        return actor

    def timer(self) -> None:
        self.world.wait_for(self.world.due_rows)
        for key, _ in self.world.due_rows():
            handle_due(self.world.engine, key)

    def time_passes(self, minutes: int) -> Callable[[], None]:
        def actor() -> None:
            self.world.pause()
            self.world.clock.time += timedelta(minutes=minutes)

        return actor

    def halt(self) -> str:
        return str(declare(self.world.engine, OPERATOR, TENANT, "stop").generation)

    def resume(self) -> str:
        return lift(self.world.engine, OPERATOR, TENANT).value

    def work(self) -> None:
        tenant, task_id, turn = self.world.wait_for(lambda: next(iter(self.world.wakes.turns), None))
        self.world.work(tenant, task_id, turn)

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "cancel": self.cancel(AGENT),
            "veto": self.cancel(ANN),
            "cancel late": self.cancel(AGENT, after=lambda: self.world.ran),
            "early": self.timer,
            "timer": self.timer,
            "timer again": self.timer,
            "late": self.timer,
            "a while": self.time_passes(3),
            "longer": self.time_passes(3),
            "much longer": self.time_passes(9),
            "halt": self.halt,
            "resume": self.resume,
            "worker 1": self.work,
            "worker 2": self.work,
        }

    def watch(self, world: World) -> None:
        halted = bool(world.rows("HALT#00") and "on" in world.rows("HALT#00")[0][1])
        for item in self.items("ASK#"):
            window = Checkpoint.read(item)
            before = self.statuses.get(window.ask_id, Checkpoint.OPEN)
            if before not in (Checkpoint.OPEN, window.status):
                raise Broken(f"I6 {before} and {window.status}")
            if before == Checkpoint.OPEN and window.status == Checkpoint.PASSED:
                if halted:
                    raise Broken("I6 passed while halted")
                if window.deadline is None or world.clock.time < parse_instant(window.deadline):
                    raise Broken("I6 passed before the end")
            self.statuses[window.ask_id] = window.status
        meta = self.meta()
        if meta is not None and world.ran and list(self.statuses.values()) != [Checkpoint.PASSED]:
            raise Broken("I6 it runs, and its window has not passed")

    def at_rest(self) -> None:
        meta = self.meta()
        if meta is None:
            return
        (status,) = self.statuses.values()
        ran = bool(self.world.ran)
        canceled = meta.task_state is TaskState.CANCELED
        if self.world.run_rows() or self.world.due_rows():
            raise Broken("I8 a row is left")
        if status == Checkpoint.VETOED and (ran or not canceled):
            raise Broken("I6 vetoed, and not canceled")
        if status == Checkpoint.PASSED and not (ran or meta.task_state.terminal):
            raise Broken("I2 passed, and neither run nor ended")
        if status == Checkpoint.OPEN:
            raise Broken("I8 the window never ended")
        told = [self.world.told.get(name) for name in ("cancel", "veto", "cancel late")]
        if TaskState.CANCELED.value in told and not canceled:
            raise Broken("I5 a canceled task is something else")


def play(numbers: Sequence[int], sabotage: Callable[[Write], Write] = lambda write: write) -> Story:
    world = World(Schedule(numbers), completes, sabotage=sabotage)
    story = Story(world)
    try:
        world.run(story.all())
        if standing_halts(world.engine):
            # The operator comes back to it.
            lift(world.engine, OPERATOR, TENANT)
            world.settle()
        story.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return story


def schedules(seed: int, rounds: int) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(2**16) for _ in range(chance.randrange(30, 260))] for _ in range(rounds)]


def test_races_of_cancel_and_the_windows_end_have_one_outcome() -> None:
    reached: set[str] = set()
    for numbers in schedules(6, ROUNDS):
        story = play(numbers)
        reached |= set(story.statuses.values())
        reached |= {"restarted" for item in story.items("ASK#") if item.get("rev", 1) != 1}
        reached |= {f"{name}: {type(told).__name__}" for name, told in story.world.told.items()}
    assert reached >= {
        Checkpoint.PASSED,
        Checkpoint.VETOED,
        "restarted",
        "send: Halted",
        "cancel late: TaskNotCancelable",
        "cancel: str",
    }


def unchecked_halts(write: Write) -> Write:
    if isinstance(write, Check) and write.key.pk.startswith("HALT#"):
        # Holds whatever is there.
        return replace(write, key=replace(write.key, pk="NOWHERE"))
    return write


def unchecked_window(write: Write) -> Write:
    if isinstance(write, Update) and write.key.sk.startswith(("ASK#", "META")):
        return replace(write, conditions=())
    return write


@pytest.mark.parametrize("mistake", [unchecked_halts, unchecked_window])
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write]) -> None:
    def explore() -> None:
        for numbers in schedules(7, 1500):
            play(numbers, mistake)

    with pytest.raises(AssertionError, match="I"):
        explore()
