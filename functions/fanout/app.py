"""Table stream -> queues: the second waker, for turns whose first wake was lost."""

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
    return process_batch(EventType.DynamoDBStreams, event, _wake_waiting, context)


def _wake_waiting(record: DynamoDBRecord) -> None:
    """The mapping lets through only rows of turns that no one had claimed when they were written."""
    run = record.dynamodb.new_image if record.dynamodb else {}
    bootstrap.wake_waiting(run["tenant"], run["task_id"], int(run["turn"]))
