"""Queue -> facts sealed into the chain of each tenant that has some."""

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
    sealed: set[str] = set()

    def seal(record: SQSRecord) -> None:
        chain = record.json_body["chain"]
        if chain not in sealed:
            bootstrap.seal(chain)
            sealed.add(chain)

    return process_batch(EventType.SQS, event, seal, context)
