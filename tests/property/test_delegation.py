"""Delegated work under interleavings, faults and crashes of both servers and of the calls between them.

Each setting is who takes part; the schedule draws the rest. After it everybody is dead, what was under way
arrives once more, and the sweeper settles what is left.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.delegating import (
    ACTORS,
    ASKS,
    CANCELS,
    DETACHES,
    DROPS,
    LEASES,
    WAITS,
    WORKS,
    Delegating,
    Stranger,
)
from tests.property.halting import small_world
from tests.property.test_protocol import EXAMPLES, NEVER_A_FAULT, ROUNDS
from tests.property.world import Broken, Faults, Schedule

from interlock.engine import cancel, children
from interlock.engine.delegate import Handed
from interlock.engine.errors import SendCanceled
from interlock.engine.ports import Put, Write
from interlock.engine.records import Delegation, SendKey

BOTH = ("send", "worker 1", "child 1", "outbox 1", "network 1")
SETTINGS: Mapping[str, Sequence[str]] = {
    "cancel": (*BOTH, "cancel", "outbox 2", "child 2", "network 2"),
    "halt": (*BOTH, "halt", "walker", "lift", "worker 2", "outbox 2"),
    "child halted": (*BOTH, "halt child", "walker", "lift child", "cancel", "child 2", "network 2"),
    "lost worker": (*BOTH, "sweeper 1", "worker 2", "sweeper 2", "outbox 2", "network 2"),
    "time": (*BOTH, "timer", "cancel", "sweeper 1", "child 2"),
    "everything": ACTORS,
}
DOES = (WAITS, DROPS, DETACHES, CANCELS, LEASES)
ACTS = [(does, child) for does in DOES for child in (WORKS, ASKS)]


def play(
    actors: Sequence[str],
    numbers: Sequence[int],
    *,
    does: str = WAITS,
    child: str = WORKS,
    ours: bool = True,
    rerun: bool = False,
    calm: int = 12,
    lasting: int = 0,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
) -> Delegating:
    """Plays the part of the story that `actors` name, and checks it at rest. Raises `Broken`."""
    with small_world(1):
        world = Delegating(
            Schedule(numbers),
            lambda run: None,
            does=does,
            child_does=child,
            ours=ours,
            rerun=rerun,
            sabotage=sabotage,
            fault_at=fault_at,
            fates=(Faults.NONE,) * calm + Faults.TABLE[-4:],
            lasting=lasting,
        )
        everybody = world.all()
        try:
            world.run({name: everybody[name] for name in actors})
            world.at_rest()
            if world.broken is not None:
                raise world.broken
        except AssertionError as error:
            told = f"{does}, {child}, {'ours' if ours else 'a stranger'}"
            raise Broken(f"{error}\n{told}\n" + "\n".join(world.trace)) from error
        return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(list(SETTINGS)),
    st.lists(st.integers(0, 2**16), max_size=400),
    st.sampled_from(ACTS),
    st.booleans(),
    st.sampled_from([12, 60, 1000]),
    st.sampled_from([0, 1, 4]),
)
def test_what_is_handed_down_never_goes_on_without_its_parent(
    name: str, numbers: list[int], acts: tuple[str, str], ours: bool, calm: int, lasting: int
) -> None:
    play(SETTINGS[name], numbers, does=acts[0], child=acts[1], ours=ours, calm=calm, lasting=lasting)


def draw(
    seed: int, rounds: int, *, setting: str | None = None, **fixed: Any
) -> Iterator[tuple[Sequence[str], list[int], dict[str, Any]]]:
    chance = random.Random(seed)
    for number in range(rounds):
        does, child = chance.choice(ACTS)
        options: dict[str, Any] = {
            "does": does,
            "child": child,
            "ours": chance.random() < 0.7,
            "rerun": chance.random() < 0.2,
            "calm": chance.choice((12, 60, 1000)),
            "lasting": chance.choice((0, 1, 4)),
        }
        numbers = [chance.randrange(2**16) for _ in range(chance.randrange(30, 700))]
        name = setting or list(SETTINGS)[number % len(SETTINGS)]
        yield SETTINGS[name], numbers, options | fixed


def test_long_random_schedules_hold_and_reach_every_outcome() -> None:
    reached: set[tuple[str, str | None]] = set()
    for actors, numbers, options in draw(31, ROUNDS // 2):
        world = play(actors, numbers, **options)
        reached |= {(record.status, record.outcome) for record in world.records().values()}
    assert reached >= {
        ("settled", "completed"),
        ("settled", "failed"),
        ("settled", "canceled"),
        ("settled", "unreachable"),
        ("waiting", "interrupted"),
        ("detached", None),
    }


IN_ORDER = ("send", "worker 1", "child 1", "outbox 1")


@pytest.mark.parametrize(
    ("does", "child", "ours"),
    [*((does, child, True) for does, child in ACTS), *((does, WORKS, False) for does in DOES)],
)
@pytest.mark.parametrize(
    "fault", [Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER]
)
def test_whatever_step_fails_or_is_the_last_nothing_goes_on(
    fault: int, does: str, child: str, ours: bool
) -> None:
    options: dict[str, Any] = {"does": does, "child": child, "ours": ours}
    steps = play(IN_ORDER, NEVER_A_FAULT, **options).steps
    assert steps >= 8
    for step in range(1, steps + 1):
        play(IN_ORDER, NEVER_A_FAULT, fault_at={step: fault}, **options)


# Mistakes that must be found.


def no_note(engine: Any, caller: Any, key: str) -> str:
    """The note of a canceled send is forgotten."""
    row = SendKey.key_of(caller.tenant, caller.id, key)
    item = engine.table.get(row)
    if item is None:
        raise SendCanceled(metadata={})
    return SendKey.read(item).task_id


def sent_first(handed: Handed) -> None:
    """Recorded only once it was sent."""


def detached_without_a_look(handed: Handed) -> None:
    handed._change(status=Delegation.DETACHED)


def no_due_row(write: Write) -> Write:
    if isinstance(write, Put) and write.key.pk.startswith("DUE#") and "#delegated#" in write.key.sk:
        return replace(write, key=replace(write.key, pk="ASTRAY"))
    return write


def freed_key(write: Write) -> Write:
    """The key of delegated work is free again when a halt takes it back."""
    if isinstance(write, Put) and write.key.sk == "META" and write.item.get("depth"):
        return replace(write, item={**write.item, "send_key": write.item["context_id"]})
    return write


def never_lapses(write: Write) -> Write:
    if isinstance(write, Put) and "#lapse#" in write.key.sk:
        return replace(write, key=replace(write.key, pk="ASTRAY"))
    return write


def patched(target: Any, name: str, new: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(target, name, new)


MISTAKES: Mapping[str, tuple[Callable[[], AbstractContextManager[Any]], dict[str, Any], str]] = {
    "no note": (patched(cancel, "sent_as", no_note), {"ours": True}, "I4|I2"),
    "not recorded": (patched(Handed, "note", sent_first), {}, "I8"),
    "let go when over": (patched(Handed, "detach", detached_without_a_look), {"does": DETACHES}, "I4"),
    "nobody looks": (patched(children, "forsaken", lambda *_: False), {}, "I8|comes to rest"),
    "everybody cancels": (patched(children, "forsaken", lambda *_: True), {}, "looks after|I5"),
    "given up too early": (patched(children, "LATE", timedelta(days=-1)), {"ours": False}, "I4"),
    "one of several": (patched(Stranger, "find", lambda *_: []), {"ours": False}, "I4|I8"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str) -> None:
    plant, options, invariant = MISTAKES[name]

    def explore() -> None:
        for actors, numbers, drawn in draw(7, 3000, **options):
            with plant():
                play(actors, numbers, **drawn)

    with pytest.raises(AssertionError, match=invariant):
        explore()


@pytest.mark.parametrize(
    ("mistake", "options", "invariant"),
    [
        (no_due_row, {}, "I8"),
        (freed_key, {"ours": True, "setting": "child halted"}, "I2|I4"),
        (never_lapses, {"ours": True, "does": LEASES, "child": ASKS}, "I4"),
    ],
)
def test_a_write_that_goes_wrong_is_found(
    mistake: Callable[[Write], Write], options: dict[str, Any], invariant: str
) -> None:
    def explore() -> None:
        for actors, numbers, drawn in draw(8, 6000, **options):
            play(actors, numbers, sabotage=mistake, **drawn)

    with pytest.raises(AssertionError, match=invariant):
        explore()
