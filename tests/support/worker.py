"""A worker of the turns' queue in a process of its own, which stops itself where `workshop.HALT` says."""

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import boto3
from tests.support.workshop import halt
from tools.laptop.workers import Context, deliver, load_handler

from interlock import bootstrap
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.engine.context import Engine
from interlock.engine.ports import Write

ROOT = Path(__file__).parents[2]
PAUSE_SECONDS = 0.02


class HaltingTable(DynamoTable):
    """Stops the process once a write is done, before anybody knows that it is."""

    written = count(1)

    def write(self, *writes: Write) -> None:
        super().write(*writes)
        halt(str(next(self.written)))


def main() -> None:
    whole = bootstrap.engine()
    table = HaltingTable(dynamodb_client(), bootstrap.settings().table)
    engine = Engine(table, table, whole.waker, whole.clock, whole.guard, whole.limits)
    bootstrap.engine = lambda: engine  # type: ignore[assignment]
    turns = load_handler("turns", ROOT)

    def handler(event: dict[str, Any], context: Context) -> Any:
        halt("received")
        return turns(event, context)

    sqs, queue = boto3.client("sqs"), os.environ["INTERLOCK_TURNS_QUEUE"]
    while True:
        # No long poll: it would take a message for a process that is dead by then.
        if not deliver(sqs, queue, 1, "turns", handler, wait_seconds=0):
            time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
