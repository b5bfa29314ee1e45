"""The AWS emulator as a child process, and what a test creates on it."""

import select
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from interlock.adapters.dynamodb import INDEX, DynamoTable, dynamodb_client
from interlock.adapters.sqs import sqs_client

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_sqs import SQSClient

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "tools" / "emulator" / ".venv" / "bin" / "python"
LAUNCHER = ROOT / "tools" / "emulator" / "emulator.py"
START_SECONDS = 30.0


@dataclass(frozen=True)
class Emulator:
    url: str

    @cached_property
    def dynamodb(self) -> "DynamoDBClient":
        return dynamodb_client(self.url)

    @cached_property
    def sqs(self) -> "SQSClient":
        return sqs_client(self.url)

    def table(self) -> DynamoTable:
        """A new, empty core table."""
        return DynamoTable(self.dynamodb, create_table(self.dynamodb))

    def queue(self) -> str:
        """The URL of a new standard queue."""
        return create_queue(self.sqs)


def create_table(client: "DynamoDBClient") -> str:
    """The core table under a name of its own."""
    name = f"table-{uuid4().hex}"
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": attribute, "AttributeType": "S"}
            for attribute in ("pk", "sk", "view", "view_at")
        ],
        KeySchema=[
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": INDEX,
                "KeySchema": [
                    {"AttributeName": "view", "KeyType": "HASH"},
                    {"AttributeName": "view_at", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    return name


def create_queue(client: "SQSClient") -> str:
    return client.create_queue(QueueName=f"queue-{uuid4().hex}")["QueueUrl"]


@contextmanager
def running_emulator(*options: str) -> Iterator[Emulator]:
    """Starts the emulator on a free port of the loopback and ends it again."""
    if not PYTHON.exists():
        pytest.fail("the emulator is not installed: run `make setup`", pytrace=False)
    process = subprocess.Popen(
        [PYTHON, LAUNCHER, "--port", "0", *options], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield Emulator(_wait_until_healthy(process))
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stdout is not None:
            process.stdout.close()


def _wait_until_healthy(process: "subprocess.Popen[str]") -> str:
    deadline = time.monotonic() + START_SECONDS
    assert process.stdout is not None
    if not select.select([process.stdout], [], [], START_SECONDS)[0]:
        pytest.fail("the emulator did not print its URL")
    url = process.stdout.readline().strip()
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_ministack/health", timeout=1) as answer:
                if answer.status == 200:
                    return url
        except (OSError, ValueError):
            time.sleep(0.02)
    pytest.fail("the emulator did not start")
