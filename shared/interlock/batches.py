"""Batches of a queue or a stream: each record for itself, and failures that can be seen."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

FAILED_RECORDS = "FailedRecords"

logger = Logger()


def process_batch(
    event_type: EventType,
    event: dict[str, Any],
    record_handler: Callable[..., None],
    context: LambdaContext,
) -> PartialItemFailureResponse:
    """Calls `record_handler` with each record, and with `lambda_context` where it takes that.

    A record whose handler raises is logged, counted and reported as failed; the others are done.
    """
    processor = BatchProcessor(
        event_type,
        raise_on_entire_batch_failure=False,
        # Powertools takes its own logger too.
        logger=logger,  # type: ignore[arg-type]
    )
    response = process_partial_response(event, record_handler, processor, context)
    failed = len(response["batchItemFailures"])
    if failed:
        # Lambda's own Errors stay at zero for a batch that fails in part.
        emit(FAILED_RECORDS, MetricUnit.Count, failed)
    return response


def emit(name: str, unit: MetricUnit, value: float) -> None:
    """Publishes one metric now, as the environment names it now."""
    metrics = Metrics()
    metrics.add_metric(name, unit, value)
    metrics.flush_metrics()
    # Where metrics are off, a flush keeps them all, until there are a hundred and they are printed after all.
    metrics.clear_metrics()
