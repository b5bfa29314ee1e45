"""Queue -> push notifications of one task, the cancel of what it has delegated, or the card of an agent."""

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
    return process_batch(EventType.SQS, event, _deliver, context)


def _deliver(record: SQSRecord, lambda_context: LambdaContext) -> None:
    wake = record.json_body
    if "refresh" in wake:
        bootstrap.refresh_agent(wake["tenant"], wake["refresh"])
        return
    if wake.get("tell") == "notices":
        bootstrap.deliver_notices(wake["tenant"], wake["task"])
        return
    if wake.get("cancel") == "children":
        bootstrap.cancel_children(wake["tenant"], wake["task"])
        return
    remaining = lambda_context.get_remaining_time_in_millis() / 1000
    bootstrap.deliver(wake["tenant"], wake["task"], remaining)
