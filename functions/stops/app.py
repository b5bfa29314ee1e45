"""Queue -> one shard of the running work walked for a halt, and what it covers stopped."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import EventType
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.batches import process_batch

logger = Logger()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    return process_batch(EventType.SQS, event, _walk, context)


def _walk(record: SQSRecord) -> None:
    walk = record.json_body
    bootstrap.walk(walk["scope"], walk["generation"], walk["shard"])
