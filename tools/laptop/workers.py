"""What Lambda does for the functions of a deployment, with threads that call the same handlers."""

import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

Handler = Callable[[dict[str, Any], "Context"], Any]

TIMEOUT_SECONDS = 60
LONG_POLL_SECONDS = 2
MINUTE = 60.0

logger = logging.getLogger("interlock.laptop")


@dataclass(frozen=True)
class Context:
    """What a function can ask about its invocation."""

    function_name: str
    aws_request_id: str = field(default_factory=lambda: str(uuid4()))
    started: float = field(default_factory=time.monotonic)
    memory_limit_in_mb: int = 1024

    @property
    def invoked_function_arn(self) -> str:
        return f"arn:aws:lambda:us-east-1:000000000000:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        return int((self.started + TIMEOUT_SECONDS - time.monotonic()) * 1000)


def load_handler(name: str, root: Path) -> Handler:
    """The handler of functions/NAME/app.py, under a module name of its own: they are all called `app`."""
    spec = importlib.util.spec_from_file_location(f"functions_{name}", root / "functions" / name / "app.py")
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    handler: Handler = module.handler
    return handler


def serve_queue(
    sqs: "SQSClient", url: str, batch_size: int, name: str, handler: Handler, stop: threading.Event
) -> None:
    """Hands over what comes, until it is told to stop."""
    while not stop.is_set():
        try:
            deliver(sqs, url, batch_size, name, handler)
        except Exception:
            if not stop.is_set():
                logger.exception("%s failed, its messages come back", name)


class Crew:
    """Workers of one queue, one message each, that are more while there is more to do, as those of Lambda."""

    def __init__(
        self, sqs: "SQSClient", url: str, name: str, handler: Handler, least: int, most: int
    ) -> None:
        self._sqs, self._url, self._name, self._handler = sqs, url, name, handler
        self._least, self._most = least, most
        self._idle = self._all = 0
        self._lock = threading.Lock()

    def serve(self, stop: threading.Event) -> None:
        for _ in range(self._least):
            self._hire(stop)

    def _hire(self, stop: threading.Event) -> None:
        self._idle += 1
        self._all += 1
        threading.Thread(target=self._work, args=(stop,), name=self._name, daemon=True).start()

    def _work(self, stop: threading.Event) -> None:
        def handle(event: dict[str, Any], context: Context) -> Any:
            with self._lock:
                self._idle -= 1
                if not self._idle and self._all < self._most:
                    self._hire(stop)
            try:
                return self._handler(event, context)
            finally:
                with self._lock:
                    self._idle += 1

        while not stop.is_set():
            try:
                if deliver(self._sqs, self._url, 1, self._name, handle):
                    continue
            except Exception:
                if not stop.is_set():
                    logger.exception("%s failed, its messages come back", self._name)
            with self._lock:
                if self._idle > self._least:
                    self._idle -= 1
                    self._all -= 1
                    return


def deliver(
    sqs: "SQSClient",
    url: str,
    batch_size: int,
    name: str,
    handler: Handler,
    wait_seconds: int = LONG_POLL_SECONDS,
) -> bool:
    """Hands a batch to the handler, and deletes what it does not report as failed. False: there was none."""
    messages = sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=batch_size,
        WaitTimeSeconds=wait_seconds,
        AttributeNames=["All"],
    ).get("Messages", [])
    if not messages:
        return False
    answer = handler({"Records": [_record(message, url) for message in messages]}, Context(name))
    failed = {failure["itemIdentifier"] for failure in (answer or {}).get("batchItemFailures", [])}
    for message in messages:
        if message["MessageId"] not in failed:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return True


def serve_minutes(name: str, handler: Handler, stop: threading.Event) -> None:
    while not stop.wait(MINUTE):
        try:
            handler({"source": "aws.scheduler", "detail-type": "Scheduled Event"}, Context(name))
        except Exception:
            logger.exception("%s failed, the next minute comes anyway", name)


def _record(message: Any, url: str) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {},
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:000000000000:{url.rsplit('/', 1)[-1]}",
        "awsRegion": "us-east-1",
    }
