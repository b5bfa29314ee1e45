"""Event source mappings of DynamoDB streams, with the semantics of AWS Lambda.

The emulator's own reader ignores which records of a batch failed, retries for ever, and looks at no queue
while a function runs. This one takes the mappings over: it has their configuration from the Lambda API, and
checkpoints, bisects, retries and gives up by it (AWS Lambda Developer Guide, "Process DynamoDB records").
"""

import base64
import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import boto3
from tools.emulator.process import REGION

POLL_SECONDS = 0.02
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 1.0

Record = dict[str, Any]


@contextmanager
def stream_mappings(endpoint: str) -> Iterator[None]:
    """Serves all mappings of streams that there are, each in a thread, until it is left."""
    stop = threading.Event()
    readers = [
        threading.Thread(target=StreamMapping(mapping, endpoint, stop).run, daemon=True)
        for mapping in _taken_over(endpoint)
    ]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:
        stop.set()
        for reader in readers:
            reader.join()


def _taken_over(endpoint: str) -> Iterator[dict[str, Any]]:
    functions = _client("lambda", endpoint)
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        if ":dynamodb:" in mapping["EventSourceArn"]:
            functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
            yield mapping


class StreamMapping:
    """One mapping: a stream of one shard, a function, and what to do with records it fails for."""

    def __init__(self, mapping: dict[str, Any], endpoint: str, stop: threading.Event) -> None:
        self.function: str = mapping["FunctionArn"]
        self.stream: str = mapping["EventSourceArn"]
        self.start: str = mapping["StartingPosition"]
        self.batch_size: int = mapping["BatchSize"]
        self.bisect: bool = mapping["BisectBatchOnFunctionError"]
        self.max_retries: int = mapping["MaximumRetryAttempts"]
        self.max_age: int = mapping["MaximumRecordAgeInSeconds"]
        self.reports_failures = "ReportBatchItemFailures" in mapping["FunctionResponseTypes"]
        self.on_failure: str = mapping["DestinationConfig"]["OnFailure"]["Destination"]
        self.filters = [json.loads(f["Pattern"]) for f in mapping["FilterCriteria"]["Filters"]]
        self.stop = stop
        self._functions = _client("lambda", endpoint)
        self._streams = _client("dynamodbstreams", endpoint)
        self._queues = _client("sqs", endpoint)

    def run(self) -> None:
        (shard,) = self._streams.describe_stream(StreamArn=self.stream)["StreamDescription"]["Shards"]
        iterator = self._streams.get_shard_iterator(
            StreamArn=self.stream, ShardId=shard["ShardId"], ShardIteratorType=self.start
        )["ShardIterator"]
        while not self.stop.is_set():
            page = self._streams.get_records(ShardIterator=iterator)
            iterator = page["NextShardIterator"]
            records = [record for raw in page["Records"] if self._wanted(record := self._event(raw))]
            for first in range(0, len(records), self.batch_size):
                self.deliver(records[first : first + self.batch_size])
            if not page["Records"]:
                self.stop.wait(POLL_SECONDS)

    def deliver(self, records: Sequence[Record]) -> None:
        """Until the function has taken them all, or they are given up, in order."""
        retries = 0
        while records and not self.stop.is_set():
            taken = self._invoke(records)
            records = records[taken:]
            if not records:
                return
            if self.bisect and len(records) > 1:
                # Bisecting does not count as a retry.
                half = len(records) // 2
                self.deliver(records[:half])
                self.deliver(records[half:])
                return
            if retries == self.max_retries:
                self._give_up(records, "RetryAttemptsExhausted", retries + 1)
                return
            if _age(records[0]) > self.max_age:
                self._give_up(records, "RecordAgeExceeded", retries + 1)
                return
            self.stop.wait(min(FIRST_RETRY_SECONDS * 2**retries, LAST_RETRY_SECONDS))
            retries += 1

    def _invoke(self, records: Sequence[Record]) -> int:
        """How many records are done, from the first on."""
        answer = self._functions.invoke(
            FunctionName=self.function, Payload=json.dumps({"Records": records}, default=_plain)
        )
        body = json.load(answer["Payload"])
        if answer.get("FunctionError"):
            return 0
        failures = (body or {}).get("batchItemFailures") or []
        if not (self.reports_failures and failures):
            return len(records)
        sequence = [record["dynamodb"]["SequenceNumber"] for record in records]
        failed = {failure["itemIdentifier"] for failure in failures}
        # An identifier that is not of the batch fails all of it.
        return min(map(sequence.index, failed)) if failed <= set(sequence) else 0

    def _give_up(self, records: Sequence[Record], condition: str, invocations: int) -> None:
        queue = self._queues.get_queue_url(QueueName=self.on_failure.rsplit(":", 1)[-1])["QueueUrl"]
        body = {
            "version": "1.0",
            "requestContext": {
                "functionArn": self.function,
                "condition": condition,
                "approximateInvokeCount": invocations,
            },
            "DDBStreamBatchInfo": {
                "streamArn": self.stream,
                "startSequenceNumber": records[0]["dynamodb"]["SequenceNumber"],
                "endSequenceNumber": records[-1]["dynamodb"]["SequenceNumber"],
                "batchSize": len(records),
            },
        }
        self._queues.send_message(QueueUrl=queue, MessageBody=json.dumps(body))

    def _event(self, raw: Record) -> Record:
        return {**raw, "eventSourceARN": self.stream}

    def _wanted(self, record: Record) -> bool:
        return any(matches(pattern, record) for pattern in self.filters)


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
    created: datetime = record["dynamodb"]["ApproximateCreationDateTime"]
    return time.time() - created.timestamp()


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(type(value))


def _client(service: str, endpoint: str) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106
    )
