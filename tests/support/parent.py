"""A deployment with a run that hands work down, and what is left of that."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tests.support.others import NAME, Others
from tests.support.twin import Deployment, message, nothing, running

from interlock.a2a.models import Message, TaskState
from interlock.engine.children import Children, cancel_children, delegations
from interlock.engine.delegate import Handed
from interlock.engine.facts import DELEGATION, FACTS
from interlock.engine.records import Delegation
from interlock.engine.run_turn import TurnRun, start
from interlock.engine.sweep import sweep


@dataclass
class Parent:
    """One task of the deployment, whose turn is claimed and runs until the test ends it."""

    peers: Others
    deployment: Deployment = field(default_factory=lambda: Deployment(running(nothing), at_once=False))
    sent: dict[str, Any] = field(default_factory=dict)
    """More of the send that makes the task."""
    parked: list[Delegation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task_id = self.deployment.send(**self.sent).id
        found = start(self.deployment.engine, "acme", self.task_id, 1)
        assert found is not None
        self.run: TurnRun = found
        self.children = Children(self.deployment.engine, self.peers, self.parked.append)

    def handed(self, what: Message | None = None, *, to: str = NAME, **terms: Any) -> Handed:
        """Recorded, and not yet sent."""
        handed = Handed(self.run, self.peers, to, what or message(), **terms)
        handed.note()
        return handed

    def delegated(self, what: Message | None = None, **terms: Any) -> Handed:
        """Recorded and sent."""
        handed = self.handed(what, **terms)
        handed.send()
        return handed

    @property
    def records(self) -> list[Delegation]:
        return delegations(self.deployment.table, "acme", self.task_id)

    @property
    def record(self) -> Delegation:
        (record,) = self.records
        return record

    def how(self) -> tuple[str, str | None]:
        """Status and outcome of the one delegation."""
        return self.record.status, self.record.outcome

    def lose_worker(self) -> None:
        """Its lease lapses, and the sweeper gives it up."""
        self.later(self.deployment.limits.lease + 1)

    def later(self, seconds: float = 0) -> None:
        """Time passes, the sweeper goes round, and what it wakes for is done."""
        self.deployment.clock.advance(seconds)
        assert sweep(self.deployment.engine) == 0
        self.outbox()

    def outbox(self) -> None:
        """Every wake is delivered."""
        while self.deployment.waker.children:
            cancel_children(self.children, *self.deployment.waker.children.pop(0))

    def until(self, done: Callable[[], bool], *, every: timedelta = timedelta(minutes=1)) -> datetime:
        """Time passes, by the sweeper's minutes, for at most a day."""
        for _ in range(24 * 60):
            if done():
                return self.deployment.clock.now()
            self.later(every.total_seconds())
        raise AssertionError("a day is over")

    @property
    def told(self) -> list[str]:
        """What the trail has of delegations, sorted."""
        rows = self.deployment.rows().items()
        facts = [json.loads(str(item["body"])) for key, item in rows if key.pk.startswith(FACTS)]
        return sorted(fact["detail"]["action"] for fact in facts if fact["kind"] == DELEGATION)

    def state(self) -> TaskState:
        return self.deployment.get(self.task_id).status.state
