"""What it costs on AWS: the counted units, and what goes with them, at list prices. A model, not a bill.

Requests and units are those that `operations` and `modes` count. How long functions run was not measured on
AWS, so `DOOR_MS`, `WORKER_MS` and `LOG_BYTES` are assumed. No free tier is taken off; the agent's own work,
models and traffic to the internet are not in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.performance import modes, operations
from tests.performance.halts import REQUEST_SECONDS
from tests.performance.operations import FACTS, OperationCost
from tools.laptop.template import template

from interlock.bootstrap import STOPS_AT_ONCE
from interlock.doors.people.changes import MAX_WAIT, POLL_SECONDS
from interlock.engine.records import SHARDS

AS_OF = "2026-12-01"
PRICES = {
    "read unit": 0.125e-6,
    "write unit": 0.625e-6,
    "API request": 3.50e-6,
    "invocation": 0.20e-6,
    "GB-second, arm64": 0.0000133334,
    "queue request": 0.40e-6,
    "log byte": 0.50e-9,
    "key and month": 1.00,
    "alarm metric and month": 0.10,
}
"""USD, us-east-1, as https://aws.amazon.com/<service>/pricing/ lists them."""
DOOR_MS, WORKER_MS, LOG_BYTES = 50, 100, 1024
"""Assumed: of an invocation of a door, with its share of the authorizer; of a worker; and what each logs."""
DOOR_GB, WORKER_GB, FEED_GB, STOP_GB = 1.0, 1.0, 0.25, 1.769
"""As the template has them; workers as the largest."""
HOUR, MONTH_MINUTES = 3600, 30 * 24 * 60
POLLERS, LONG_POLL_SECONDS = 5, 20
"""Of Lambda, for each queue that it reads while nothing comes: long polls, side by side."""


@dataclass(frozen=True, slots=True)
class Money:
    """`dollars` is of all of it; what is beside it is what it is made of, but for `fixed` dollars."""

    what: str
    api_requests: float = 0.0
    invocations: float = 0.0
    gb_seconds: float = 0.0
    reads: float = 0.0
    writes: float = 0.0
    queue_requests: float = 0.0
    fixed: float = 0.0
    dollars: float = 0.0


def measure() -> list[Money]:
    costs = {cost.operation: cost for cost in [*operations.measure(), *modes.measure()]}
    question = ("send, returning immediately", "turn that asks", "answer at the people's door")
    gated = ("send, gated, without renderers", "approval that starts a task, without renderers")
    ends = "turn that an answer started"
    return [
        _thousand("1,000 questions, asked and answered", costs, (*question, ends), turns=2, facts=9),
        _thousand("1,000 gated actions, approved and done", costs, (*gated, ends), turns=1, facts=8),
        _waiting(),
        *(_halt(costs, running) for running in (0, 1_000, 10_000)),
        _idle(costs),
    ]


def _thousand(
    what: str, costs: Mapping[str, OperationCost], steps: tuple[str, ...], *, turns: int, facts: int
) -> Money:
    """From the send to the end of the task: four calls (send, a page of the inbox, the decision, the
    task again), each authenticated and noted, then the facts sealed one after the other."""
    calls = 4
    each_call = (costs["authenticate a bearer token"], costs["note a call on the audit trail"])
    looks = (costs["list 50 open checkpoints"], costs["get a task"])
    sealed = costs[f"seal {FACTS} facts"]
    taken = [*(costs[step] for step in steps), *looks, *each_call * calls]
    workers = turns + 2  # the stream is read once, and sealed once, or less where more comes at once
    wakes = sum(cost.wakes for cost in taken) + 1
    return _priced(
        Money(
            what,
            api_requests=1000 * calls,
            invocations=1000 * (calls + workers),
            gb_seconds=1000 * (calls * DOOR_GB * DOOR_MS + workers * WORKER_GB * WORKER_MS) / 1000,
            reads=1000 * (sum(cost.reads for cost in taken) + sealed.reads / FACTS * facts),
            writes=1000 * (sum(cost.writes for cost in taken) + sealed.writes / FACTS * facts),
            queue_requests=1000 * 3 * wakes,
        )
    )


def _waiting() -> Money:
    """A page or `inbox --watch` that is open for an hour, and nothing comes: polls, one after the other."""
    polls = HOUR / MAX_WAIT
    return _priced(
        Money(
            "a page that is open for an hour",
            api_requests=polls,
            invocations=polls,
            gb_seconds=HOUR * FEED_GB,
            reads=HOUR / POLL_SECONDS
            + polls,  # two rows, read without a promise of how new: half a unit each
        )
    )


def _halt(costs: Mapping[str, OperationCost], running: int) -> Money:
    """Declared, walked, and what waits for a worker taken back."""
    halt, stop = costs["halt"], costs["stop of a turn that waits"]
    walk = costs["walk of a shard where nothing runs, the last"]
    return _priced(
        Money(
            f"a halt with {running:,} accepted turns",
            api_requests=1,
            invocations=1 + SHARDS,
            gb_seconds=STOP_GB * (SHARDS * WORKER_MS / 1000 + running * 2 * REQUEST_SECONDS / STOPS_AT_ONCE),
            reads=halt.reads + SHARDS * walk.reads + running * stop.reads,
            writes=halt.writes + SHARDS * walk.writes + running * stop.writes,
            queue_requests=3 * SHARDS,
        )
    )


def _idle(costs: Mapping[str, OperationCost]) -> Money:
    """The sweeper each minute, Lambda's polls of the queues, keys and alarms as the template has them."""
    sweep = costs["sweep that finds nothing"]
    resources = list(template()["Resources"].values())
    alarms = [found["Properties"] for found in resources if found["Type"] == "AWS::CloudWatch::Alarm"]
    watched = sum(
        len([m for m in found.get("Metrics", [{"MetricStat": 1}]) if "MetricStat" in m]) for found in alarms
    )
    keys = sum(found["Type"] == "AWS::KMS::Key" for found in resources)
    queues = sum("RedrivePolicy" in found.get("Properties", {}) for found in resources)
    return _priced(
        Money(
            "a month in which nothing happens",
            invocations=MONTH_MINUTES,
            gb_seconds=MONTH_MINUTES * WORKER_GB * WORKER_MS / 1000,
            reads=MONTH_MINUTES * sweep.reads,
            writes=MONTH_MINUTES * sweep.writes,
            queue_requests=queues * POLLERS * MONTH_MINUTES * 60 / LONG_POLL_SECONDS,
            fixed=keys * PRICES["key and month"] + watched * PRICES["alarm metric and month"],
        )
    )


def _priced(money: Money) -> Money:
    dollars = (
        money.fixed
        + money.api_requests * PRICES["API request"]
        + money.invocations * (PRICES["invocation"] + LOG_BYTES * PRICES["log byte"])
        + money.gb_seconds * PRICES["GB-second, arm64"]
        + money.reads * PRICES["read unit"]
        + money.writes * PRICES["write unit"]
        + money.queue_requests * PRICES["queue request"]
    )
    return replace(money, dollars=dollars)
