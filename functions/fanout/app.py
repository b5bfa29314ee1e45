"""Table stream -> queues: wakes deliveries and sealers, and again turns and walks whose wake was lost.

It also tells people who wait for changes that there was one.
"""

from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import EventType
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.dynamo_db_stream_event import DynamoDBRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.batches import process_batch

if TYPE_CHECKING:
    from interlock.engine.pulse import Beat

logger = Logger()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    sealing: set[str] = set()
    raised: set[Beat] = set()

    def wake(record: DynamoDBRecord) -> None:
        _wake(record, sealing, raised)

    return process_batch(EventType.DynamoDBStreams, event, wake, context)


def _wake(record: DynamoDBRecord, sealing: set[str], raised: "set[Beat]") -> None:
    """The mapping lets through turns that no one had claimed yet, events that are to be delivered, facts that
    are to be sealed, and all changes of halts, checkpoints and registered agents: a chain is woken for once,
    and so are people."""
    change = record.dynamodb
    if change is None:
        raise ValueError("a record without a change")
    pk, sk = change.keys["pk"], change.keys["sk"]
    if pk.startswith("FACT#"):
        if pk not in sealing:
            bootstrap.wake_sealer(pk)
            sealing.add(pk)
    elif pk.startswith("RUN#"):
        run = change.new_image
        bootstrap.wake_waiting(run["tenant"], run["task_id"], int(run["turn"]))
    elif sk.startswith("EVT#"):
        bootstrap.wake_delivery(pk)
    else:
        if pk.startswith("HALT#"):
            halt = change.new_image
            if "on" in halt and "walked_at" not in halt:
                bootstrap.wake_walk(halt["scope"], int(halt["generation"]))
        bootstrap.beat(pk, sk, raised)
