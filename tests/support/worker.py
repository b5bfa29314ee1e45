"""A worker of the turns' queue in a process of its own, which stops itself where `workshop.HALT` says."""

import os
import threading
from itertools import count
from pathlib import Path
from typing import Any

import boto3
from tests.support.workshop import halt
from tools.laptop.workers import Context, load_handler, serve_queue

from interlock import bootstrap
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.engine.context import Engine
from interlock.engine.ports import Write

ROOT = Path(__file__).parents[2]


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

    queue = os.environ["INTERLOCK_TURNS_QUEUE"]
    serve_queue(boto3.client("sqs"), queue, 1, "turns", handler, threading.Event())


if __name__ == "__main__":
    main()
