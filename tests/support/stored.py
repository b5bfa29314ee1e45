"""What a deployment has stored, read as its deployer."""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from tests.support.story import IDENTITIES
from tools.deploy.local import Stack

from interlock.adapters.dynamodb import DynamoTable
from interlock.engine.ports import Item, Key
from interlock.engine.records import Checkpoint, TaskMeta, task_pk
from interlock.engine.seal import export

TENANT = IDENTITIES["agent"][0]
PEERS = "interlock/peers"
"""The secret with the agents that a deployment may call, by its name. None, unless a test puts some there."""


@dataclass(frozen=True)
class Stored:
    """Of the tenant of the tests."""

    table: DynamoTable

    @classmethod
    def of(cls, stack: Stack) -> "Stored":
        client = stack.client("dynamodb")
        return cls(DynamoTable(client, stack.outputs["CoreTable"], stack.outputs["AuditTable"]))

    def meta(self, task_id: str) -> TaskMeta:
        item = self.table.get(TaskMeta.key_of(TENANT, task_id))
        assert item is not None
        return TaskMeta.read(item)

    def rows(self, task_id: str) -> tuple[tuple[Key, Item], ...]:
        """All that is stored of a task."""
        return self.table.query(task_pk(TENANT, task_id)).rows

    def requests(self, task_id: str) -> list[Checkpoint]:
        return [Checkpoint.read(item) for key, item in self.rows(task_id) if key.sk.startswith("ASK#")]

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """The audit trail as far as it is sealed, by task, in its order."""
        found = defaultdict(list)
        for line in export(self.table, TENANT):
            record = json.loads(line)
            found[record.get("taskId", "")].append(record)
        return found
