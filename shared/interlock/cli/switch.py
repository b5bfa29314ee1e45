"""The operator's switch, as the commands use it: by the people's door, or in its place by break-glass."""

import json
import time
from collections.abc import Callable
from typing import Protocol

from interlock.a2a.models import Wire
from interlock.cli.door import TRIES, Door, reason_of
from interlock.cli.output import Failure

MAX_PAGES = 1000
POLL_SECONDS = 0.5
WALK_SECONDS = 120.0
"""How long the walk of a halt is waited for."""
HEARD_SECONDS = 20.0
"""How long after it what was told to stop may take to be heard of: more than its grace."""
HOLDS = (
    "It may hold or not. Halt again: that does no harm. "
    "Where the deployment can not be reached, --break-glass halts it with your own AWS credentials."
)
MAY_BE_LIFTED = "It may be lifted or not. See `interlock status`, and resume again."


class Halt(Wire):
    """As the people's door shows it."""

    scope: str
    generation: int
    on: bool
    reason: str
    by: str
    halted_at: str
    walked_at: str | None = None
    resumed_at: str | None = None
    resumed_by: str | None = None


class Halts(Wire):
    halts: list[Halt]


class Counts(Wire):
    asked: int = 0
    confirmed: int = 0
    abandoned: int = 0
    withdrawn: int = 0

    @property
    def found(self) -> int:
        return self.asked + self.settled

    @property
    def settled(self) -> int:
        """Those that are known to run no more, or given up."""
        return self.confirmed + self.abandoned + self.withdrawn


class Stopped(Wire):
    task_id: str


class Report(Halt):
    counts: Counts | None = None
    stopped: list[Stopped]
    cursor: str | None = None


class KnownSkill(Wire):
    skill: str


class KnownAgent(Wire):
    agent: str
    skills: list[KnownSkill]


class Known(Wire):
    """As much of the fleet as has names."""

    agents: list[KnownAgent]


class Lifted(Wire):
    status: str


class Switch(Protocol):
    """Raises `Failure`."""

    def declare(self, scope: str, reason: str) -> Report: ...

    def listed(self) -> list[Halt]:
        """Those that stand, and those that were lifted lately."""

    def report(self, scope: str, generation: int | None = None, cursor: str | None = None) -> Report | None:
        """Of the newest halt of the scope. None: there is none, or not of that generation."""

    def lift(self, scope: str, generation: int | None) -> str:
        """`lifted`, `nothing` or `halted-anew`."""


class DoorSwitch:
    """Implements `Switch`."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def declare(self, scope: str, reason: str) -> Report:
        content = json.dumps({"scope": scope, "reason": reason})
        return self._door.post(Report, "halts", content, lost=HOLDS)

    def report(self, scope: str, generation: int | None = None, cursor: str | None = None) -> Report | None:
        query: dict[str, str | int] = {"scope": scope}
        if generation is not None:
            query["generation"] = generation
        if cursor is not None:
            query["cursor"] = cursor
        try:
            return self._door.get(Report, "halts/report", query, tries=TRIES)
        except Failure as failure:
            if reason_of(failure) == "HALT_NOT_FOUND":
                return None
            raise

    def lift(self, scope: str, generation: int | None) -> str:
        named = {"scope": scope} | ({} if generation is None else {"generation": generation})
        return self._door.post(Lifted, "halts/resume", json.dumps(named), lost=MAY_BE_LIFTED).status

    def listed(self) -> list[Halt]:
        return self._door.get(Halts, "halts").halts

    def agents(self) -> list[str]:
        return [known.agent for known in self._fleet()]

    def skills(self) -> list[str]:
        """Of all agents, as halts do not tell them apart."""
        return [skill.skill for known in self._fleet() for skill in known.skills]

    def _fleet(self) -> list[KnownAgent]:
        return self._door.get(Known, "fleet").agents


def newest(switch: Switch, halt: Halt, cursor: str | None = None) -> Report:
    """The report of exactly this halt."""
    report = switch.report(halt.scope, halt.generation, cursor)
    if report is None:
        raise Failure(f"{halt.scope} was halted anew, which holds. See `interlock status`.")
    return report


def follow(switch: Switch, declared: Report, show: Callable[[Report], object]) -> Report:
    """Until all that was found running is told to stop, and a little longer for what is not heard of yet."""
    report, begun, walked = declared, time.monotonic(), None
    while True:
        show(report)
        now = time.monotonic()
        if report.walked_at is not None:
            walked = walked or now
            if report.counts is not None and not report.counts.asked:
                return report
            if now - walked >= HEARD_SECONDS:
                return report
        elif now - begun >= WALK_SECONDS:
            return report
        time.sleep(POLL_SECONDS)
        report = newest(switch, declared)


def stopped_tasks(switch: Switch, report: Report) -> list[str]:
    """All that the halt found running, a task once."""
    tasks = dict.fromkeys(row.task_id for row in report.stopped)
    cursor = report.cursor
    for _ in range(MAX_PAGES):
        if cursor is None:
            break
        page = newest(switch, report, cursor)
        tasks |= dict.fromkeys(row.task_id for row in page.stopped)
        cursor = page.cursor
    return list(tasks)
