"""Delayed queue -> what is due; schedule -> each minute, what no one woke for."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import EventType
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.batches import emit, process_batch

UNSEALED_SECONDS = "UnsealedFactSeconds"

logger = Logger()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse | None:
    if "Records" in event:
        return process_batch(EventType.SQS, event, _handle_due, context)
    try:
        bootstrap.sweep()
    finally:
        emit(UNSEALED_SECONDS, MetricUnit.Seconds, bootstrap.wake_sealers())
    return None


def _handle_due(record: SQSRecord) -> None:
    due = record.json_body
    bootstrap.handle_due(due["pk"], due["sk"])
