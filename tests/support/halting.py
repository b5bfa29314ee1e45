"""A twin whose operators halt it: declared and lifted as by the platform's operator, and walked at once."""

from tests.support.twin import AGENT, PLATFORM, Deployment

from interlock.engine.halt import Lifted, declare, lift, walk
from interlock.engine.records import SHARDS, Halt, Run
from interlock.engine.run_turn import claim
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Principal

ALL = Scope()
ACME = Scope("acme")
DESK = Scope("acme", agent="desk")
WORK = Scope("acme", skill="work")
"""The four that cover a task of the tests' agents."""
REASON = "an incident"


def halt(deployment: Deployment, scope: Scope = ACME, reason: str = REASON, by: Principal = PLATFORM) -> Halt:
    return declare(deployment.engine, by, scope, reason)


def resume(deployment: Deployment, scope: Scope = ACME, by: Principal = PLATFORM) -> Lifted:
    return lift(deployment.engine, by, scope)


def walk_all(deployment: Deployment, scope: Scope = ACME, generation: int = 1) -> None:
    """What the wakes of a halt lead to."""
    for number in range(SHARDS):
        walk(deployment.engine, scope, generation, number)


def started(deployment: Deployment, who: Principal = AGENT) -> str:
    """A task whose turn is claimed: its code runs, as far as anybody knows."""
    task_id = deployment.send(who=who).id
    assert claim(deployment.engine, who.tenant, task_id, 1) is not None
    return task_id


def run_of(deployment: Deployment, task_id: str) -> Run:
    found = map(Run.read, deployment.run_rows().values())
    return next(run for run in found if run.task_id == task_id)
