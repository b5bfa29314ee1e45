"""The invariants I4 and I11, and those of every task, where operators halt and lift.

Each setting is a part of the story: who takes part, where they start, what the agent does. The schedule
draws the rest, as everywhere. After it the sweeper settles what is left, first as things are, then after a
resume; then who was told "halted" sends again, and what waits is answered.
"""

import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.halt_mistakes import MISTAKES
from tests.property.halting import (
    APPROVED_FIRST,
    ASKS,
    ASKS_LEAVE,
    NEEDS_CREDENTIAL,
    NEEDS_TWO,
    WORKS,
    Halting,
    HaltWorld,
    small_world,
)
from tests.property.test_protocol import EXAMPLES, NEVER_A_FAULT, ROUNDS
from tests.property.world import Broken, Faults, Schedule

from interlock.a2a.errors import A2AError
from interlock.engine.answer import Admitted
from interlock.engine.halt import Lifted
from interlock.engine.ports import Write

NOTHING, QUEUED, RUNNING, WAITING = "nothing", "queued", "running", "waiting"
"""Whether there is a task already, and how far it has come."""
DEADLINE = timedelta(minutes=5)


@dataclass(frozen=True)
class Setting:
    actors: tuple[str, ...]
    start: str = NOTHING
    begins: str = WORKS
    progress: bool = False
    heeds: bool = True
    deadline: timedelta | None = None


SENDS = ("send with key", "send again")
STOP = ("halt", "walker 1", "lift")
TWO_SCOPES = ("halt all", "halt", "walker 1", "walker 2", "lift all", "lift")
WORKERS = ("worker 1", "worker 2")

SETTINGS = {
    "send": Setting((*SENDS, *STOP, *WORKERS)),
    "send without key": Setting(("send", *STOP, *WORKERS)),
    "sends and sweeper": Setting((*SENDS, *STOP, "sweeper 1", "worker 1")),
    "two scopes": Setting((*SENDS, *TWO_SCOPES, "worker 1")),
    "other scopes": Setting(
        (*SENDS, "halt others", "walker 1", "walker 2", "lift others", *STOP, "worker 1")
    ),
    "two halts": Setting(
        ("send", "halt", "halt anew", "walker 1", "walker 2", "lift", "lift seen", "worker 1")
    ),
    "turn": Setting((*STOP, "walker 2", "watch", "ann", *WORKERS), QUEUED, ASKS, progress=True),
    "running turn": Setting((*STOP, "walker 2", "watch", "ann", *WORKERS), RUNNING, ASKS, progress=True),
    "stubborn turn": Setting(
        (*STOP, "walker 2", "watch", "ann", *WORKERS), RUNNING, ASKS, progress=True, heeds=False
    ),
    "turn of two scopes": Setting((*TWO_SCOPES, "watch", "ann", *WORKERS), QUEUED, ASKS, progress=True),
    "late walk": Setting(("halt", "walker 1", "lift", "send")),
    "late stop": Setting(("halt", "walker 1", "worker 1", "lift", "ann"), RUNNING, ASKS),
    "late sweep": Setting(("halt", "sweeper 1", "lift", "send")),
    "stop and cancel": Setting(
        (*STOP, "sweeper 1", "sweeper 2", "cancel", "watch", "worker 1"), QUEUED, ASKS
    ),
    "zombies": Setting((*STOP, "sweeper 1", "sweeper 2", *WORKERS, "ann"), QUEUED, ASKS, progress=True),
    "answers": Setting(("ann", "ann again", "message", *STOP, *WORKERS), WAITING, ASKS),
    "late answer": Setting(("ann", "ann again", "halt", "lift"), WAITING, ASKS),
    "answers of two scopes": Setting(("ann", "ann again", *TWO_SCOPES, "worker 1"), WAITING, ASKS),
    "deadline": Setting(
        ("ann", "ann again", *STOP, "deadline passes", "timer", "sweeper 1", "worker 1"),
        WAITING,
        ASKS,
        deadline=DEADLINE,
    ),
    "two answers": Setting(("ann", "ann again", "bob", *STOP, "worker 1"), WAITING, NEEDS_TWO),
    "votes": Setting(
        ("ann", "ann again", "bob", "dan", *STOP, "deadline passes", "timer", "worker 1"),
        WAITING,
        ASKS_LEAVE,
        deadline=DEADLINE,
    ),
    "dispatch": Setting((*SENDS, "ann", "bob", "dan", *STOP, *WORKERS), begins=APPROVED_FIRST),
    "dispatch of two scopes": Setting(
        (*SENDS, "ann", "bob", *TWO_SCOPES, "sweeper 1", "worker 1"), begins=APPROVED_FIRST
    ),
    "credential": Setting(("credential", "message", "cancel", *STOP, *WORKERS), WAITING, NEEDS_CREDENTIAL),
    "everything": Setting(
        (
            *(*SENDS, "send", *STOP, "halt anew", "walker 2", *WORKERS, "worker 3", "ann", "bob", "message"),
            *("cancel", "sweeper 1", "watch", "lift seen", "deadline passes", "timer"),
        ),
        begins=ASKS,
        progress=True,
        deadline=DEADLINE,
    ),
}


@dataclass(frozen=True)
class Chance:
    """How a schedule is drawn: as the fields of `World`. `calm` times out of four more, no step fails."""

    calm: int = 12
    lasting: int = 0
    shards: int = 1
    rerun: bool = False
    torn: bool = False
    held_up_at: frozenset[int] = frozenset()

    @property
    def fates(self) -> Sequence[int]:
        return (Faults.NONE,) * self.calm + (FAILURES if self.calm < NEVER else ())


FAILURES = (Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER)
NEVER = TO_THE_END = 1000
AT_FULL_SIZE = ROUNDS > 10_000


def play(
    name: str,
    numbers: Sequence[int],
    chance: Chance = Chance(),
    *,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
) -> Halting:
    """Plays a setting and checks it at rest. Raises `Broken`."""
    setting = SETTINGS[name]
    with small_world(chance.shards):
        world = HaltWorld(
            Schedule(numbers),
            lambda run: None,
            rerun=chance.rerun,
            sabotage=sabotage,
            fates=chance.fates,
            lasting=chance.lasting,
            torn=chance.torn,
            fault_at=fault_at,
            held_up_at=chance.held_up_at,
        )
        story = Halting(
            world,
            begins=setting.begins,
            progress=setting.progress,
            heeds=setting.heeds,
            deadline=setting.deadline,
        )
        if setting.start != NOTHING:
            begin(story, setting.start)
        actors = story.all()
        try:
            world.run({actor: actors[actor] for actor in setting.actors})
            story.at_rest()
            if world.broken is not None:
                raise world.broken
        except (AssertionError, A2AError) as error:
            raise Broken(f"{world.broken or error}\n{name}, {chance}\n" + "\n".join(world.trace)) from error
        return story


def begin(story: Halting, start: str) -> None:
    world = story.world
    world.acting = "earlier"
    task_id = story.sender("earlier")()
    if start == WAITING:
        world.work("acme", task_id, 1)
    if start == RUNNING:
        world.lead, world.led = "worker 1", lambda: story.runs


def chances(chance: random.Random) -> Chance:
    """Either anybody goes on at any time, or each goes on to its end but for a few who are held up."""
    held_up = chance.sample(range(1, 60), chance.randrange(1, 4)) if chance.random() < 0.5 else ()
    return Chance(
        held_up_at=frozenset(held_up),
        calm=chance.choice((12, 60, NEVER, NEVER)),
        lasting=TO_THE_END if held_up else chance.choice((0, 1, 4, 9)),
        shards=chance.choice((1, 1, 2)),
        rerun=chance.random() < 0.25,
        torn=chance.random() < 0.25,
    )


def draw(
    seed: int, rounds: int, names: Sequence[str] = tuple(SETTINGS)
) -> Iterator[tuple[str, list[int], Chance]]:
    chance = random.Random(seed)
    for number in range(rounds):
        numbers = [chance.randrange(2**16) for _ in range(chance.randrange(100, 400))]
        yield names[number % len(names)], numbers, chances(chance)


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each step that fails is logged, and there are thousands."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(list(SETTINGS)),
    st.lists(st.integers(0, 2**16), max_size=300),
    st.builds(
        Chance,
        calm=st.sampled_from([12, 60, NEVER]),
        lasting=st.sampled_from([0, 1, 4, 9]),
        shards=st.sampled_from([1, 2]),
        rerun=st.booleans(),
        torn=st.booleans(),
    ),
)
def test_the_invariants_hold_whatever_happens(name: str, numbers: list[int], chance: Chance) -> None:
    play(name, numbers, chance)


def test_long_random_schedules_hold_the_invariants_and_reach_every_outcome() -> None:
    reached: dict[str, set[str]] = {name: set() for name in SETTINGS}
    for name, numbers, chance in draw(21, ROUNDS // 4):
        reached[name] |= outcomes(play(name, numbers, chance))
    assert set().union(*reached.values()) >= {
        *("send: Halted", "send: accepted", "send again: Halted", "send again: accepted", "lift: lifted"),
        *("ann: Halted", "ann again: Halted", "bob: Halted", "message: Halted", "credential: Halted"),
        *("cancel: accepted", "ann again: counted", "lift seen: halted-anew", "lift all: lifted", "stopped"),
        *("answered", "approved", "denied", "expired", "superseded", "CANCELED", "COMPLETED", "FAILED"),
    }
    if not AT_FULL_SIZE:
        return
    for name, expected in REACHED.items():
        assert reached[name] >= set(expected), name


REACHED = {
    "send": ("send again: Halted", "send again: accepted", "lift: lifted", "stopped"),
    "send without key": ("send: Halted", "CANCELED", "COMPLETED"),
    "two scopes": ("send with key: Halted", "lift all: lifted", "stopped"),
    "two halts": ("lift seen: halted-anew", "lift: halted-anew", "lift: nothing"),
    "turn": ("ann: Halted", "ann: accepted", "stopped"),
    "running turn": ("ann: Halted", "ann: accepted", "stopped"),
    "stop and cancel": ("cancel: accepted", "stopped"),
    "zombies": ("FAILED", "stopped"),
    "answers": ("ann again: Halted", "message: Halted", "answered", "superseded"),
    "answers of two scopes": ("ann: Halted", "ann: accepted"),
    "deadline": ("expired", "answered", "ann: Halted"),
    "two answers": ("bob: Halted", "ann again: counted", "answered"),
    "votes": ("dan: Halted", "approved", "denied", "expired"),
    "dispatch": ("send with key: Halted", "approved", "denied", "COMPLETED"),
    "credential": ("credential: Halted", "credential: accepted", "message: Halted"),
    "everything": ("send: Halted", "cancel: accepted", "answered", "stopped"),
}


def outcomes(story: Halting) -> set[str]:
    picture = story.picture
    told = {f"{actor}: {outcome(each)}" for actor, each in story.world.told.items()}
    ended = {meta.state.removeprefix("TASK_STATE_") for meta in picture.metas.values()}
    return told | ended | {ask.status for ask in picture.asks.values()} | {"stopped" for _ in story.stopped}


def outcome(told: Any) -> str:
    """What an actor was told, in a word."""
    if isinstance(told, tuple):
        told = told[1]
    if isinstance(told, Admitted | Lifted):
        return told.value
    return "accepted" if isinstance(told, str) else type(told).__name__


def hold_up(name: str, every: int = 1, **options: Any) -> None:
    """One after the other, and at every step in turn whoever makes it waits for all others from then on."""
    calm = Chance(calm=NEVER)
    steps = play(name, NEVER_A_FAULT, calm, **options).world.steps
    for step in range(1, steps + 1, every):
        play(name, NEVER_A_FAULT, replace(calm, held_up_at=frozenset({step})), **options)


@pytest.mark.parametrize("name", SETTINGS)
def test_whoever_is_held_up_at_whatever_step_the_invariants_hold(name: str) -> None:
    """At every other step; at full size at every one."""
    hold_up(name, every=1 if AT_FULL_SIZE else 2)


@pytest.mark.parametrize("name", SETTINGS)
def test_whatever_step_fails_or_is_the_last_the_invariants_hold(name: str) -> None:
    """In one way after the other; at full size each step fails in every way."""
    calm = Chance(calm=NEVER)
    steps = play(name, NEVER_A_FAULT, calm).world.steps
    for step in range(1, steps + 1):
        for fault in FAILURES if AT_FULL_SIZE else FAILURES[step % len(FAILURES) :][:1]:
            play(name, NEVER_A_FAULT, calm, fault_at={step: fault})


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str) -> None:
    mistake = MISTAKES[name]

    def explore() -> None:
        with mistake.plant():
            for setting in mistake.settings:
                hold_up(setting, sabotage=mistake.sabotage)
            for setting, numbers, chance in draw(22, 2000, mistake.settings):
                play(setting, numbers, chance, sabotage=mistake.sabotage)

    with pytest.raises(AssertionError, match=mistake.invariant):
        explore()
