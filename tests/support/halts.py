"""Halts of a deployment, declared and lifted with its deployer's own credentials."""

from dataclasses import dataclass

from tests.support.twin import schema_worker
from tools.deploy.local import Stack

from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable
from interlock.adapters.sqs import SqsWaker
from interlock.engine.context import Engine
from interlock.engine.halt import Lifted, current, declare_as, lift_as
from interlock.engine.records import SHARDS, Halt, Run, run_pk
from interlock.oversight.halts import Scope

BY = "deployer"


@dataclass(frozen=True)
class Halts:
    engine: Engine

    @classmethod
    def of(cls, stack: Stack) -> "Halts":
        outputs, clock = stack.outputs, SystemClock()
        table = DynamoTable(stack.client("dynamodb"), outputs["CoreTable"], outputs["AuditTable"])
        waker = SqsWaker(
            stack.client("sqs"),
            turns_queue_url=outputs["TurnsQueue"],
            timers_queue_url=outputs["TimersQueue"],
            outbox_queue_url=outputs["OutboxQueue"],
            audit_queue_url=outputs["AuditQueue"],
            stops_queue_url=outputs["StopsQueue"],
            clock=clock,
        )
        return cls(Engine(table, table, waker, clock, schema_worker()))

    def declare(self, scope: Scope, reason: str) -> Halt:
        return declare_as(self.engine, BY, scope, reason)

    def lift(self, scope: Scope) -> Lifted:
        return lift_as(self.engine, BY, scope)

    def current(self, scope: Scope) -> Halt | None:
        return current(self.engine.table, scope)

    def running(self, tenant: str) -> list[Run]:
        """The work of a tenant that is accepted and not finished."""
        pages = [
            self.engine.table.query(run_pk(number), first=f"{tenant}#", last=f"{tenant}$").rows
            for number in range(SHARDS)
        ]
        return [Run.read(item) for rows in pages for _, item in rows]
