"""Table stream -> queues: wakes deliveries and sealers, and again turns and walks whose wake was lost."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import EventType
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.batches import process_batch

logger = Logger()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    sealing: set[str] = set()

    def wake(record: DynamoDBRecord) -> None:
        _wake(record, sealing)

    return process_batch(EventType.DynamoDBStreams, event, wake, context)


def _wake(record: DynamoDBRecord, sealing: set[str]) -> None:
    """The mapping lets through turns that no one had claimed yet, events that are to be delivered, facts that
    are to be sealed, and halts that hold: a chain is woken for once."""
    change = record.dynamodb
    if change is None:
        raise ValueError("a record without a change")
    pk = change.keys["pk"]
    if pk.startswith("FACT#"):
        if pk not in sealing:
            bootstrap.wake_sealer(pk)
            sealing.add(pk)
    elif change.keys["sk"].startswith("EVT#"):
        bootstrap.wake_delivery(pk)
    elif pk.startswith("HALT#"):
        halt = change.new_image
        if "walked_at" not in halt:
            bootstrap.wake_walk(halt["scope"], int(halt["generation"]))
    else:
        run = change.new_image
        bootstrap.wake_waiting(run["tenant"], run["task_id"], int(run["turn"]))
