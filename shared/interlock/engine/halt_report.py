"""What people see of halts: those that stand, and of each what it found running and what became of that.

A turn that a halt found running is `withdrawn` (its code never ran), `confirmed` (told to stop, it runs no
more), `abandoned` (told to, it was not heard of again), or so far only `asked`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied
from interlock.engine.context import Engine
from interlock.engine.halt import current
from interlock.engine.ports import LAST, Item, Key, StoreError, Table
from interlock.engine.records import (
    SHARDS,
    Halt,
    Run,
    Stopped,
    halts_pk,
    instant,
    parse_instant,
    run_pk,
    stopped_pk,
)
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Kind, Principal, Role

PAGE_SIZE = 100
MAX_LISTED = 500
"""Halts that one answer lists."""
LIFTED_FOR = timedelta(days=1)
"""How long a halt that was lifted is still listed."""
UNHEARD_AFTER = timedelta(seconds=30)
"""Longer than the grace of code that was told to stop."""
READ_AT_ONCE = 100
MAX_KEY = 512


class HaltNotFound(A2AError):
    """The same for a scope that was never halted and for one that is not the caller's to know of."""

    code = -32602
    http_status = 404
    status = "NOT_FOUND"
    reason = "HALT_NOT_FOUND"
    text = "There is no such halt"


class Became(StrEnum):
    ASKED = "asked"
    CONFIRMED = "confirmed"
    ABANDONED = "abandoned"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Found:
    """A turn that the halt found running."""

    row: Stopped
    became: Became


@dataclass(frozen=True, slots=True)
class HaltReport:
    """`counts` are of all that the caller may know of; None on pages after the first, or where they are not
    known."""

    halt: Halt
    counts: dict[Became, int] | None
    found: tuple[Found, ...]
    cursor: str | None


def listed(engine: Engine, caller: Principal) -> list[Halt]:
    """The halts that concern the caller and stand, then those lifted lately; the newest first.

    Raises `PermissionDenied`.
    """
    _check(caller)
    return _listed(engine, [("", LAST)] if _sees_all(caller) else _concerning(caller.tenant))


def all_listed(engine: Engine) -> list[Halt]:
    """The same of everything, for who proved the right otherwise: with the deployment's own credentials."""
    return _listed(engine, [("", LAST)])


def _listed(engine: Engine, ranges: Sequence[tuple[str, str]]) -> list[Halt]:
    since = instant(engine.clock.now() - LIFTED_FOR)
    found = (
        Halt.read(item)
        for first, last in ranges
        for _, item in _pages(engine.table, halts_pk(0), first, last)
    )
    halts = [halt for halt in found if halt.on or (halt.resumed_at or "") >= since]
    halts.sort(key=lambda halt: (halt.on is True, halt.halted_at), reverse=True)
    return halts[:MAX_LISTED]


def report(
    engine: Engine,
    caller: Principal,
    scope: Scope,
    generation: int | None = None,
    cursor: str | None = None,
) -> HaltReport:
    """Of the newest halt of the scope, which `generation` may name. To a tenant's people it is of their
    tenant only. Raises `PermissionDenied`, `HaltNotFound`, `InvalidParams`.
    """
    _check(caller)
    halt = current(engine.table, scope) if _concerns(caller, scope) else None
    if halt is None or generation not in {None, halt.generation}:
        raise HaltNotFound
    return report_of(engine.table, halt, engine.clock.now(), _rows_of(caller), cursor)


def first_report(engine: Engine, caller: Principal, halt: Halt) -> HaltReport:
    """Of what the caller has just declared. It holds, so that nothing of it can be read is no failure."""
    try:
        return report_of(engine.table, halt, engine.clock.now(), _rows_of(caller))
    except StoreError:
        return HaltReport(halt, None, (), None)


def report_of(
    table: Table, halt: Halt, now: datetime, prefix: str = "", cursor: str | None = None
) -> HaltReport:
    """`prefix` is of the rows' keys, `<tenant>#<task>#<turn>`. Raises `InvalidParams` for a bad cursor."""
    if cursor is None:
        found = [one for number in range(SHARDS) for one in _found(table, halt, now, prefix, number)]
        counts = {kind: sum(one.became is kind for one in found) for kind in Became}
        return HaltReport(halt, counts, tuple(found[:PAGE_SIZE]), _cursor(found))
    number, after = _parse(cursor)
    rest: list[Found] = []
    while number < SHARDS and len(rest) <= PAGE_SIZE:
        rest += _found(table, halt, now, prefix, number, after, PAGE_SIZE + 1)
        number, after = number + 1, ""
    return HaltReport(halt, None, tuple(rest[:PAGE_SIZE]), _cursor(rest))


def _cursor(found: Sequence[Found]) -> str | None:
    """Names the last row of the page, if any is left after it."""
    if len(found) <= PAGE_SIZE:
        return None
    row = found[PAGE_SIZE - 1].row
    key = Stopped.key_of("", row.tenant, row.task_id, row.turn)
    return f"{key.pk[-2:]}.{key.sk}"


def _parse(cursor: str) -> tuple[int, str]:
    number, _, after = cursor.partition(".")
    if not (cursor.isascii() and number.isdecimal() and int(number) < SHARDS and 0 < len(after) <= MAX_KEY):
        raise InvalidParams("The cursor is not valid")
    return int(number), after


def _found(
    table: Table,
    halt: Halt,
    now: datetime,
    prefix: str,
    number: int,
    after: str = "",
    limit: int | None = None,
) -> list[Found]:
    """In one shard, behind the key `after`."""
    rows = list(islice(_rows(table, stopped_pk(halt.name, number), prefix, after), limit))
    asked = {key: row for key, row in rows if _became(row) is Became.ASKED}
    if not asked:
        return [Found(row, _became(row)) for _, row in rows]
    tenant = Scope.parse(halt.scope, "").tenant
    running = _running(table, number, f"{tenant}#" if tenant is not None else prefix)
    gone = [key for key, row in asked.items() if (row.tenant, row.task_id, row.turn) not in running]
    # Read again: what ended between the two reads has said by now how it did. Of what was ended otherwise, as
    # by a cancel, only the run itself says that its code has returned.
    ended = {key: _unheard(row, now) for key, row in _read(table, gone)}
    return [Found(row, ended.get(key, _became(row))) for key, row in rows]


def _unheard(row: Stopped, now: datetime) -> Became:
    became = _became(row)
    late = parse_instant(row.stopped_at) + UNHEARD_AFTER <= now
    return Became.ABANDONED if became is Became.ASKED and late else became


def _became(row: Stopped) -> Became:
    if row.abandoned_at is not None:
        return Became.ABANDONED
    if row.ended_at is None:
        return Became.ASKED
    return Became.CONFIRMED if row.started else Became.WITHDRAWN


def _rows(table: Table, pk: str, prefix: str, after: str) -> Iterator[tuple[Key, Stopped]]:
    for key, item in _pages(table, pk, max(prefix, after), prefix + LAST):
        if key.sk != after:
            yield key, Stopped.read(item)


def _read(table: Table, keys: Sequence[Key]) -> Iterator[tuple[Key, Stopped]]:
    for begin in range(0, len(keys), READ_AT_ONCE):
        some = keys[begin : begin + READ_AT_ONCE]
        for key, item in zip(some, table.get_many(some), strict=True):
            if item is not None:
                yield key, Stopped.read(item)


def _running(table: Table, number: int, prefix: str) -> set[tuple[str, str, int]]:
    runs = (Run.read(item) for _, item in _pages(table, run_pk(number), prefix, prefix + LAST))
    return {(run.tenant, run.task_id, run.turn) for run in runs}


def _check(caller: Principal) -> None:
    people = caller.kind is Kind.PERSON
    if not (people and caller.has(Role.APPROVER, Role.OPERATOR, Role.PLATFORM_OPERATOR)):
        raise PermissionDenied("Only people who approve or operate see halts")


def _sees_all(caller: Principal) -> bool:
    return caller.has(Role.PLATFORM_OPERATOR)


def _rows_of(caller: Principal) -> str:
    return "" if _sees_all(caller) else f"{caller.tenant}#"


def _concerns(caller: Principal, scope: Scope) -> bool:
    return _sees_all(caller) or scope.tenant in {None, caller.tenant}


def _concerning(tenant: str) -> list[tuple[str, str]]:
    """Only what concerns the caller is read, so nothing of others shows, not even in how long it takes."""
    ranges = [(str(scope), str(scope)) for scope in (Scope(), Scope(tenant))]
    return ranges + [(within, within + LAST) for within in (f"agent:{tenant}/", f"skill:{tenant}/")]


def _pages(table: Table, pk: str, first: str, last: str) -> Iterator[tuple[Key, Item]]:
    cursor: str | None = None
    while True:
        page = table.query(pk, first=first, last=last, cursor=cursor)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return
