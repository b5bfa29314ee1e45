"""Mistakes about halts that somebody might make: each is planted in the engine, to see that it is found."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.property import halting
from tests.property.halting import LookingTable

from interlock.engine import answer, create, halt, halts, run_turn, stop, sweep
from interlock.engine.context import Engine, new_run
from interlock.engine.facts import FACTS
from interlock.engine.halt import Lifted
from interlock.engine.halts import HALTS, UNREADABLE, Halted, Moment, look, standing_halts
from interlock.engine.ports import (
    Check,
    ConditionFailed,
    Delete,
    Item,
    Key,
    Missing,
    Put,
    Table,
    Update,
    Write,
)
from interlock.engine.records import Halt, Run, TaskMeta
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Principal

Sabotage = Callable[[Write], Write]


def as_meant(write: Write) -> Write:
    return write


@dataclass(frozen=True)
class Mistake:
    """`settings` are where it shows, and `invariant` is a pattern of how."""

    settings: tuple[str, ...]
    invariant: str
    plant: Callable[[], AbstractContextManager[Any]] = nullcontext
    sabotage: Sabotage = as_meant


def patched(*changes: tuple[Any, str, Any]) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def plant() -> Iterator[None]:
        with ExitStack() as stack:
            for where, name, instead in changes:
                stack.enter_context(patch.object(where, name, instead))
            yield

    return plant


def acting(table: Table) -> str:
    assert isinstance(table, LookingTable)
    return table._world.acting


# Looking.


def sees_nothing(engine: Engine, meta: TaskMeta) -> Moment:
    item = engine.table.get(meta.key)
    return Moment(None, None, TaskMeta.read(item) if item is not None else None)


def takes_no_answer_for_no_halt(engine: Engine, meta: TaskMeta) -> Moment:
    moment = look(engine, meta)
    return sees_nothing(engine, meta) if moment.why == UNREADABLE else moment


def one_by_one(table: LookingTable, keys: list[Key]) -> list[Item | None]:
    return [table.get(key) for key in keys]


def writes_after(engine: Engine, new: create.New) -> Any:
    if standing_halts(engine):
        raise Halted("seen before anything was written")
    return write_task(engine, new)


def claims_after(engine: Engine, *turn: Any) -> run_turn.TurnRun | None:
    return claim(engine, *turn) if not standing_halts(engine) else None


write_task, claim = create._write_task, run_turn.claim


# Walking and stopping.


def the_halt_that_was(table: Table, scope: Scope) -> Halt | None:
    """What is walked for holds for ever."""
    found = current(table, scope)
    return replace(found, on=True) if found is not None and acting(table).startswith("walker") else found


def walked_already(table: Table, scope: Scope) -> Halt | None:
    found = current(table, scope)
    if found is not None and acting(table).startswith("lift"):
        return replace(found, walked_at=found.walked_at or found.halted_at)
    return found


current = halt.current


def stops_any_turn(engine: Engine, seen: Run, why: str, halted: Halt | None = None) -> None:
    item = engine.table.get(seen.key)
    stop.stop_turn(engine, Run.read(item) if item is not None else seen, why, halted)


def stops_nothing(engine: Engine, seen: Run, why: str, halted: Halt | None = None) -> None:
    pass


def refuses_at_once(engine: Engine, seen: Run, why: str, halted: Halt | None = None) -> None:
    raise Halted(why)


def without_its_row(engine: Engine, seen: Run) -> tuple[TaskMeta | None, Run | None]:
    meta, run = read_run(engine, seen)
    if meta is not None and run is None:
        run = new_run(meta, engine.clock.now())
    return meta, run


read_run = stop.read_run


@contextmanager
def halts_before_rows() -> Iterator[None]:
    """The sweeper reads what is halted once, before all else."""
    read: list[dict[Scope, Halt]] = []

    def first(engine: Engine) -> None:
        read.append(standing_halts(engine))
        halt.wake_walks(engine)

    with patch.object(sweep, "wake_walks", first), patch.object(sweep, "standing_halts", lambda _: read[-1]):
        yield


def lifts_whatever_holds(
    engine: Engine, by: Principal, scope: Scope, generation: int | None = None
) -> Lifted:
    told = halt.lift(engine, by, scope, generation)
    return halt.lift(engine, by, scope) if told is Lifted.HALTED_ANEW else told


def halted_at_once(failed: ConditionFailed, writes: list[Write]) -> None:
    """Without looking whether an own earlier try was counted."""
    refused = halts.halted_in(failed, writes)
    if refused is not None:
        raise refused


# What is written.


def unconditional(kind: type[Put] | type[Update] | type[Check] | type[Delete], pk: str) -> Sabotage:
    """Such writes are made whatever is there."""

    def change(write: Write) -> Write:
        meant = isinstance(write, kind) and write.key.pk.startswith(pk)
        return replace(write, conditions=(Missing("nothing"),)) if meant else write

    return change


def astray(of: Callable[[Write], bool]) -> Sabotage:
    def change(write: Write) -> Write:
        return replace(write, key=Key("ASTRAY", write.key.sk), conditions=()) if of(write) else write

    return change


def no_fence(write: Write) -> Write:
    """A stop tells the run, and leaves it the right to write."""
    if isinstance(write, Update) and write.key.sk == "META" and write.set.keys() == {"rev", "fence"}:
        return replace(write, set={"rev": write.set["rev"]})
    return write


def is_halt_fact(write: Write) -> bool:
    return (
        isinstance(write, Put)
        and write.key.pk.startswith(FACTS)
        and '"kind":"halt"' in str(write.item["body"])
    )


SENDS = ("send", "send without key")

MISTAKES = {
    "send does not look": Mistake(SENDS, "I4", patched((create, "look", sees_nothing))),
    "send looks first": Mistake(
        SENDS,
        "I4",
        patched((create, "_write_task", writes_after), (create, "look", sees_nothing)),
    ),
    "claim does not look": Mistake(SENDS, "I4", patched((run_turn, "look", sees_nothing))),
    "claim looks first": Mistake(
        SENDS,
        "I4",
        patched((run_turn, "claim", claims_after), (run_turn, "look", sees_nothing)),
    ),
    "both look first": Mistake(
        SENDS,
        "I4",
        patched(
            (create, "_write_task", writes_after),
            (create, "look", sees_nothing),
            (run_turn, "claim", claims_after),
            (run_turn, "look", sees_nothing),
        ),
    ),
    "claim does not check its signal": Mistake(
        ("stubborn turn",), "I4|I5", patched((run_turn.TurnRun, "holds", lambda run, meta: True))
    ),
    "no answer is no halt": Mistake(
        SENDS,
        "I11",
        patched(
            (create, "look", takes_no_answer_for_no_halt), (run_turn, "look", takes_no_answer_for_no_halt)
        ),
    ),
    "scopes one by one": Mistake(("two scopes",), "I4", patched((LookingTable, "snapshot", one_by_one))),
    "repeated send does not look": Mistake(
        ("send", "two scopes"), "I4 a send that began", patched((Moment, "refuse", lambda moment: None))
    ),
    "a claimed turn is left to its claimer": Mistake(
        SENDS, "I4 a send is refused", patched((create, "stop_turn", refuses_at_once))
    ),
    "withdrawal keeps the key": Mistake(
        ("send",),
        "I8 somebody alone",
        sabotage=astray(lambda write: isinstance(write, Delete) and write.key.pk.startswith("IDEM#")),
    ),
    "walk does not look again": Mistake(
        ("late walk",),
        "I4 a stop of",
        patched((halt, "current", the_halt_that_was)),
    ),
    "walk stops nothing": Mistake(
        ("turn", "send"), "I4 resume leaves", patched((halt, "stop_turn", stops_nothing))
    ),
    "resume does not wait for the walk": Mistake(
        ("turn", "send"), "I4", patched((halt, "current", walked_already))
    ),
    "resume names no halt": Mistake(
        ("two halts",), "I4 a resume that was asked", patched((halting, "lift", lifts_whatever_holds))
    ),
    "stop names no turn": Mistake(
        ("late stop",), "I4 a stop of", patched((halt, "stop_turn", stops_any_turn))
    ),
    "stop needs no row": Mistake(
        ("turn",),
        "I4 a halt ends",
        patched((stop, "read_run", without_its_row)),
        unconditional(Delete, "RUN#"),
    ),
    "stop leaves the fence": Mistake(("stubborn turn",), "I4 .* was stopped", sabotage=no_fence),
    "sweeper reads halts first": Mistake(("late sweep",), "I4 a stop of", halts_before_rows),
    "a lost turn is queued while halted": Mistake(
        ("zombies",), "I4 turn 2 is queued", patched((sweep, "unless_halted", lambda meta: []))
    ),
    "answer does not look": Mistake(("answers", "two answers"), "I4", sabotage=unconditional(Check, HALTS)),
    "vote does not look": Mistake(("votes",), "I4", sabotage=unconditional(Check, HALTS)),
    "dispatch does not look": Mistake(("dispatch",), "I4", sabotage=unconditional(Check, HALTS)),
    "resumption does not look": Mistake(("credential",), "I4", sabotage=unconditional(Check, HALTS)),
    "deadline does not look": Mistake(("deadline",), "I4", sabotage=unconditional(Check, HALTS)),
    "halted is told before what was counted": Mistake(
        ("late answer",), "I1 .* is told halted", patched((answer, "halted_in", halted_at_once))
    ),
    "halt over a halt that was not read": Mistake(
        ("two halts",), "I4 halt", sabotage=unconditional(Put, HALTS)
    ),
    "one copy is written": Mistake(
        ("send",),
        "I4 the copies",
        sabotage=astray(lambda write: write.key.pk.startswith(HALTS) and write.key.pk != "HALT#00"),
    ),
    "walk ends twice": Mistake(("turn",), "I10", sabotage=unconditional(Update, HALTS)),
    "no fact of a halt": Mistake(("send",), "I10", sabotage=astray(is_halt_fact)),
}
