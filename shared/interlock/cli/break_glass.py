"""Break-glass: the switch with the operator's own AWS credentials, where the doors can not be used."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from interlock.a2a.errors import InvalidParams, Unavailable
from interlock.a2a.models import timestamp
from interlock.adapters.deployment import (
    CORE_OUTPUT,
    DeploymentRefused,
    DeploymentUnreachable,
    aws_errors,
    core_engine,
    deployer,
    output_of,
)
from interlock.cli.output import Exit, Failure
from interlock.cli.switch import Counts, Report, Stopped
from interlock.cli.switch import Halt as ShownHalt
from interlock.engine.context import Engine
from interlock.engine.halt import current, declare_as, lift_as, walk
from interlock.engine.halt_report import HaltReport, all_listed, report_of
from interlock.engine.ports import StoreError
from interlock.engine.records import SHARDS, Halt, parse_instant
from interlock.oversight.halts import Scope

STOPS_AT_ONCE = 16


@contextmanager
def break_glass(table: str | None, stack: str | None, *, walking: bool) -> Iterator["BreakGlass"]:
    """`walking`: whether a report also stops what runs, as the deployment's functions would."""
    if table is None and stack is None:
        raise Failure("Name the core table with --table, or its stack with --stack.", Exit.USAGE)
    try:
        with aws_errors():
            # A table may be there from the environment, a stack never.
            name = output_of(stack, CORE_OUTPUT) if stack is not None else table or ""
            yield BreakGlass(core_engine(name), deployer(), walking=walking)
    except DeploymentUnreachable as error:
        raise Failure(f"AWS can not be reached: {error}", Exit.UNREACHABLE) from error
    except DeploymentRefused as error:
        raise Failure(f"AWS refused: {error}") from error
    except (StoreError, Unavailable) as error:
        said = "The table did not answer. What was asked for may be done or not: ask for it again."
        raise Failure(said, Exit.UNREACHABLE) from error
    except InvalidParams as error:
        raise Failure(f"{error.message}.", Exit.USAGE) from error


class BreakGlass:
    """Implements `Switch`. Nobody else may be there to stop what runs, so that is done here as well."""

    def __init__(self, engine: Engine, by: str, *, walking: bool) -> None:
        self._engine = engine
        self._by = by
        self._walking = walking

    def declare(self, scope: str, reason: str) -> Report:
        halt = declare_as(self._engine, self._by, _parse(scope), reason)
        return _shown(HaltReport(halt, None, (), None))

    def report(self, scope: str, generation: int | None = None, cursor: str | None = None) -> Report | None:
        table, parsed = self._engine.table, _parse(scope)
        halt = current(table, parsed)
        if halt is None or generation not in {None, halt.generation}:
            return None
        if self._walking and halt.on and halt.walked_at is None:
            with ThreadPoolExecutor(STOPS_AT_ONCE) as pool:
                for number in range(SHARDS):
                    walk(self._engine, parsed, halt.generation, number, pool.map)
            halt = current(table, parsed) or halt
        return _shown(report_of(table, halt, self._engine.clock.now(), cursor=cursor))

    def listed(self) -> list[ShownHalt]:
        return [ShownHalt(**_halt(halt)) for halt in all_listed(self._engine)]

    def lift(self, scope: str, generation: int | None) -> str:
        return lift_as(self._engine, self._by, _parse(scope), generation).value


def _parse(scope: str) -> Scope:
    try:
        return Scope.parse(scope, "")
    except ValueError as error:
        said = "Here the tenant has to be named: --agent TENANT/AGENT, --skill TENANT/SKILL."
        raise Failure(f"{scope} is no scope: {error}.", Exit.USAGE, details=[said]) from error


def _shown(found: HaltReport) -> Report:
    counts = found.counts
    return Report(
        **_halt(found.halt),
        counts=Counts(**{kind.value: number for kind, number in counts.items()}) if counts else None,
        stopped=[Stopped(task_id=one.row.task_id) for one in found.found],
        cursor=found.cursor,
    )


def _halt(halt: Halt) -> dict[str, Any]:
    return {
        "scope": halt.scope,
        "generation": halt.generation,
        "on": halt.on is True,
        "reason": halt.reason,
        "by": halt.by,
        "halted_at": timestamp(parse_instant(halt.halted_at)),
        "walked_at": _time(halt.walked_at),
        **({} if halt.on else {"resumed_at": _time(halt.resumed_at), "resumed_by": halt.resumed_by}),
    }


def _time(stored: str | None) -> str | None:
    return None if stored is None else timestamp(parse_instant(stored))
