"""Event source mappings of DynamoDB streams, with the semantics of AWS Lambda.

The emulator's own reader ignores which records of a batch failed, retries for ever, and looks at no queue
while a function runs. This one checkpoints, bisects, retries and gives up (AWS Lambda Developer Guide,
"Process DynamoDB records").
"""

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

POLL_SECONDS = 0.02
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 1.0

Record = dict[str, Any]
Invoke = Callable[[Record], Record | None]
Clients = Callable[[str], Any]
"""AWS clients by service: `boto3.client`, or one that is bound to an endpoint."""

logger = logging.getLogger(__name__)


class FunctionFailed(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Mapping:
    """The settings of an event source mapping. `function` is an ARN or a name, `on_failure` a queue's ARN."""

    function: str
    stream: str
    start: str
    batch_size: int
    bisect: bool
    max_retries: int
    max_age: int
    reports_failures: bool
    on_failure: str
    filters: tuple[Any, ...]

    @classmethod
    def read(cls, function: str, stream: str, settings: Record) -> Self:
        """From the Lambda API, or from a template: they have the names in common."""
        return cls(
            function=function,
            stream=stream,
            start=settings["StartingPosition"],
            batch_size=settings["BatchSize"],
            bisect=settings["BisectBatchOnFunctionError"],
            max_retries=settings["MaximumRetryAttempts"],
            max_age=settings["MaximumRecordAgeInSeconds"],
            reports_failures="ReportBatchItemFailures" in settings["FunctionResponseTypes"],
            on_failure=settings["DestinationConfig"]["OnFailure"]["Destination"],
            filters=tuple(json.loads(f["Pattern"]) for f in settings["FilterCriteria"]["Filters"]),
        )


@contextmanager
def stream_mappings(clients: Clients) -> Iterator[None]:
    """Takes over all mappings of streams that the Lambda API knows, each in a thread, until it is left."""
    stop = threading.Event()
    readers = [
        threading.Thread(target=StreamReader(mapping, invoke, clients, stop).run, daemon=True)
        for mapping, invoke in _taken_over(clients)
    ]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def _taken_over(clients: Clients) -> Iterator[tuple[Mapping, Invoke]]:
    functions = clients("lambda")
    for settings in functions.list_event_source_mappings()["EventSourceMappings"]:
        if ":dynamodb:" in settings["EventSourceArn"]:
            functions.update_event_source_mapping(UUID=settings["UUID"], Enabled=False)
            function = settings["FunctionArn"]
            yield Mapping.read(function, settings["EventSourceArn"], settings), _invoker(functions, function)


def _invoker(functions: Any, function: str) -> Invoke:
    def invoke(event: Record) -> Record | None:
        answer = functions.invoke(FunctionName=function, Payload=json.dumps(event))
        body: Record | None = json.load(answer["Payload"])
        if "FunctionError" in answer:
            raise FunctionFailed(function)
        return body

    return invoke


class StreamReader:
    """Reads a stream of one shard for a mapping, and answers for what its function fails to take."""

    def __init__(self, mapping: Mapping, invoke: Invoke, clients: Clients, stop: threading.Event) -> None:
        self.mapping = mapping
        self.invoke = invoke
        self.stop = stop
        self._streams = clients("dynamodbstreams")
        self._queues = clients("sqs")

    def run(self) -> None:
        (shard,) = self._streams.describe_stream(StreamArn=self.mapping.stream)["StreamDescription"]["Shards"]
        iterator = self._streams.get_shard_iterator(
            StreamArn=self.mapping.stream, ShardId=shard["ShardId"], ShardIteratorType=self.mapping.start
        )["ShardIterator"]
        while not self.stop.is_set():
            page = self._streams.get_records(ShardIterator=iterator)
            iterator = page["NextShardIterator"]
            records = [record for raw in page["Records"] if self._wanted(record := self._event(raw))]
            for first in range(0, len(records), self.mapping.batch_size):
                self.deliver(records[first : first + self.mapping.batch_size])
            if not page["Records"]:
                self.stop.wait(POLL_SECONDS)

    def deliver(self, records: Sequence[Record]) -> None:
        """Until the function has taken them all, or they are given up, in order."""
        retries = 0
        while records and not self.stop.is_set():
            records = records[self._taken(records) :]
            if not records:
                return
            if self.mapping.bisect and len(records) > 1:
                # Bisecting does not count as a retry.
                half = len(records) // 2
                self.deliver(records[:half])
                self.deliver(records[half:])
                return
            if retries == self.mapping.max_retries:
                self._give_up(records, "RetryAttemptsExhausted", retries + 1)
                return
            if _age(records[0]) > self.mapping.max_age:
                self._give_up(records, "RecordAgeExceeded", retries + 1)
                return
            self.stop.wait(min(FIRST_RETRY_SECONDS * 2**retries, LAST_RETRY_SECONDS))
            retries += 1

    def _taken(self, records: Sequence[Record]) -> int:
        """How many records the function took, from the first on."""
        try:
            answer = self.invoke({"Records": list(records)})
        except Exception as error:  # noqa: BLE001 (whatever it is, the records are tried again or parked)
            logger.warning("%s failed: %r", self.mapping.function, error)
            return 0
        failures = (answer or {}).get("batchItemFailures") or []
        if not (self.mapping.reports_failures and failures):
            return len(records)
        sequence = [record["dynamodb"]["SequenceNumber"] for record in records]
        failed = {failure["itemIdentifier"] for failure in failures}
        # An identifier that is not of the batch fails all of it.
        return min(map(sequence.index, failed)) if failed <= set(sequence) else 0

    def _give_up(self, records: Sequence[Record], condition: str, invocations: int) -> None:
        queue = self._queues.get_queue_url(QueueName=self.mapping.on_failure.rsplit(":", 1)[-1])["QueueUrl"]
        body = {
            "version": "1.0",
            "requestContext": {
                "functionArn": self.mapping.function,
                "condition": condition,
                "approximateInvokeCount": invocations,
            },
            "DDBStreamBatchInfo": {
                "streamArn": self.mapping.stream,
                "startSequenceNumber": records[0]["dynamodb"]["SequenceNumber"],
                "endSequenceNumber": records[-1]["dynamodb"]["SequenceNumber"],
                "batchSize": len(records),
            },
        }
        self._queues.send_message(QueueUrl=queue, MessageBody=json.dumps(body))

    def _event(self, raw: Record) -> Record:
        """The record as a function gets it, which is JSON all through."""
        event = {**raw, "eventSourceARN": self.mapping.stream}
        plain: Record = json.loads(json.dumps(event, default=_plain))
        return plain

    def _wanted(self, record: Record) -> bool:
        return any(matches(pattern, record) for pattern in self.mapping.filters)


def matches(pattern: Any, value: Any) -> bool:
    """Whether a value fits a filter pattern: objects of alternatives, each a literal or a prefix."""
    if isinstance(pattern, dict):
        return isinstance(value, dict) and all(matches(pattern[name], value.get(name)) for name in pattern)
    return any(
        isinstance(value, str) and value.startswith(alternative["prefix"])
        if isinstance(alternative, dict)
        else value == alternative
        for alternative in pattern
    )


def _age(record: Record) -> float:
    created: float = record["dynamodb"]["ApproximateCreationDateTime"]
    return time.time() - created


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(type(value))
