"""A cold start, in a fresh interpreter: from nothing to the first answer. Prints which modules that took.

    python -m tests.performance.probe a2a

Nobody listens at the store's endpoint: calls of it are made and refused, and the answer says so.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOBODY = "http://127.0.0.1:9"
"""The discard port."""

FUNCTIONS = {
    "a2a": "a2a-jsonrpc",
    "operator": "operator-checkpoints",
    "inbox": "inbox",
    "feed": "feed-changes",
    "authorizer": "authorizer",
    "turns": "turns",
    "fanout": "fanout",
    "timers": "timers",
    "outbox": "outbox",
    "channels": "channels-slack",
}
"""Function -> the event in `events/` that starts it."""
REFERENCE = "reference"
"""What they are compared with: the server of a2a-sdk on Mangum, with a client of boto3."""

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_ENDPOINT_URL": NOBODY,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "INTERLOCK_TABLE": "core",
    "INTERLOCK_IDENTITIES_TABLE": "identities",
    "INTERLOCK_TURNS_QUEUE": f"{NOBODY}/000000000000/turns",
    "INTERLOCK_TIMERS_QUEUE": f"{NOBODY}/000000000000/timers",
    "INTERLOCK_OUTBOX_QUEUE": f"{NOBODY}/000000000000/outbox",
    "LOG_LEVEL": "CRITICAL",
    "POWERTOOLS_METRICS_NAMESPACE": "Interlock",
    "POWERTOOLS_SERVICE_NAME": "interlock",
}

Handler = Callable[[Any, Any], Any]


class Context:
    """What a function can ask about its invocation."""

    function_name = "probe"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:eu-central-1:000000000000:function:probe"
    aws_request_id = "00000000-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def function(name: str) -> Handler:
    sys.path.insert(0, str(ROOT / "functions" / name))
    handler: Handler = importlib.import_module("app").handler
    return handler


def reference() -> Handler:
    import boto3
    from botocore.exceptions import BotoCoreError
    from mangum import Mangum
    from tests.performance.reference_server import create_app

    serve = Mangum(create_app(), lifespan="off")
    client = boto3.client("dynamodb")

    def handler(event: Any, context: Any) -> Any:
        try:
            client.get_item(TableName="core", Key={"pk": {"S": "pk"}, "sk": {"S": "sk"}})
        except BotoCoreError:
            return serve(event, context)
        raise AssertionError("somebody listens on the discard port")

    return handler


def main(name: str) -> None:
    os.environ.update(ENVIRONMENT)
    raw = (ROOT / "events" / f"{FUNCTIONS.get(name, FUNCTIONS['a2a'])}.json").read_text()
    event = json.loads(raw.replace("Bearer example", f"Bearer il_{'A' * 43}"))
    handler = reference() if name == REFERENCE else function(name)
    imported = sorted(sys.modules)
    try:
        answer = handler(event, Context())
    except Exception as error:  # noqa: BLE001 (an authorizer without a store answers by raising)
        answer = repr(error)
    modules = sorted(sys.modules)
    print(json.dumps({"imported": imported, "answered": modules, "answer": answer, "peak": peak_memory()}))


def peak_memory() -> float:
    """MiB of this process, 0 where the system does not say. What `getrusage` says begins before `exec`."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0.0
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) / 1024


if __name__ == "__main__":
    main(sys.argv[1])
