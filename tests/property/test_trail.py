"""The invariant I10: whatever happens, each fact is on its chain exactly once, and the chain never forks.

The story of `test_protocol`, with two sealers that may run at any time, lose replies, and die.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.test_protocol import (
    AGENT,
    EXAMPLES,
    NEVER_A_FAULT,
    ROUNDS,
    Story,
    asks_then_completes,
    schedules,
)
from tests.property.world import Broken, Faults, Schedule, World

from interlock.engine.facts import FACTS, fact_pk
from interlock.engine.ports import AUDIT, Delete, Item, Key, Put, Write
from interlock.engine.seal import Sealer, export, records_pk, seal
from interlock.oversight.audit import verify

ACTORS = ("send", "worker 1", "sealer 1", "ann", "sealer 2", "worker 2", "cancel", "sealer 3")
IN_ORDER = ("send", "worker 1", "sealer 1", "ann", "worker 2", "sealer 2")


class Trail(Story):
    """The facts that were ever there, and the records of them."""

    def __post_init__(self) -> None:
        self.sealed: dict[str, Item] = {}
        super().__post_init__()

    def sealer(self) -> int:
        self.world.wait_for(lambda: self.world.table.query(fact_pk(AGENT.tenant)).rows)
        return seal(Sealer(self.world.engine.table, self.world.clock), AGENT.tenant)

    def all(self) -> dict[str, Callable[[], Any]]:
        return {**super().all(), "sealer 1": self.sealer, "sealer 2": self.sealer, "sealer 3": self.sealer}

    def watch(self, world: World) -> None:
        super().watch(world)
        records = dict(self._records())
        for sk, record in self.sealed.items():
            if records.get(sk) != record:
                raise Broken(f"I10 record {sk} changed")
        self.sealed = records

    def _records(self) -> list[tuple[str, Item]]:
        return [(key.sk, item) for key, item in self.world.rows(records_pk(AGENT.tenant))]

    def at_rest(self) -> None:
        super().at_rest()
        table = self.world.table
        seal(Sealer(table, self.world.clock), AGENT.tenant)
        report = verify(export(table, AGENT.tenant), lambda *_: False)
        if [finding for finding in report.findings if finding.line]:
            raise Broken(f"I10 the chain is broken: {report.findings}")
        meta = self.meta()
        events = Counter(
            record["eventSeq"]
            for _, item in self._records()
            if "eventSeq" in (record := json.loads(str(item["record"])))
        )
        if events != Counter(range(1, (meta.seq if meta else 0) + 1)):
            raise Broken(f"I10 events on the chain: {events}, of a task with {meta and meta.seq}")


def play(
    numbers: Sequence[int],
    *,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
    only: Sequence[str] = ACTORS,
) -> World:
    world = World(Schedule(numbers), asks_then_completes, sabotage=sabotage, fault_at=fault_at)
    trail = Trail(world)
    actors = trail.all()
    try:
        world.run({name: actors[name] for name in only})
        trail.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return world


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**16), max_size=160))
def test_every_fact_is_on_the_chain_exactly_once_whatever_happens(numbers: list[int]) -> None:
    play(numbers)


def test_long_random_schedules_seal_beside_each_other() -> None:
    sealers = Counter[str]()
    for numbers in schedules(10, ROUNDS // 5):
        world = play(numbers)
        sealers.update(name for name, told in world.told.items() if name.startswith("sealer") and told)
    assert len(sealers) == 3


@pytest.mark.parametrize(
    "fault", [Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER]
)
def test_whatever_step_fails_or_is_the_last_the_chain_is_whole(fault: int) -> None:
    steps = play(NEVER_A_FAULT, only=IN_ORDER).steps
    for step in range(1, steps + 1):
        play(NEVER_A_FAULT, only=IN_ORDER, fault_at={step: fault})


def anywhere(write: Write) -> Write:
    """A record is put whether or not there is one of its number."""
    named = isinstance(write, Put) and write.key.pk.startswith(AUDIT)
    return replace(write, conditions=()) if named else write


def whatever_is_there(write: Write) -> Write:
    """A record is put over another, and its fact need not be there."""
    unconditional = isinstance(write, Delete) and write.key.pk.startswith(FACTS)
    return replace(write, conditions=()) if unconditional else anywhere(write)


def fact_is_lost(write: Write) -> Write:
    if isinstance(write, Put) and write.key.pk.startswith(FACTS) and "task.event" in str(write.item["body"]):
        return replace(write, key=Key("ASTRAY", write.key.sk))
    return write


@pytest.mark.parametrize("mistake", [whatever_is_there, fact_is_lost], ids=["no condition", "fact astray"])
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write]) -> None:
    def explore() -> None:
        for numbers in schedules(11, 300):
            play(numbers, sabotage=mistake)

    with pytest.raises(AssertionError, match="I10"):
        explore()
