"""Wakes through Amazon SQS: standard queues for turns, for what falls due, and for what is to be delivered,
and one that keeps the order for the audit trail.

A wake follows a decision that is already committed, so it may fail and must not fail the caller: it is
logged and counted, and the stream and the minute sweeper find what nobody was woken for.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from interlock.adapters.aws import create_client
from interlock.engine.ports import Clock, Key
from interlock.engine.records import SHARDS, Delegation, PushConfig

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

MAX_DELAY_SECONDS = 900
"""Of one message (Amazon SQS Developer Guide, "Amazon SQS message timers")."""

_log = logging.getLogger(__name__)


def sqs_client(endpoint_url: str | None = None) -> "SQSClient":
    """A client that gives up early. A wake that is sent twice does no harm, so it is sent again once."""
    config = Config(
        connect_timeout=1,
        read_timeout=2,
        retries={"total_max_attempts": 2, "mode": "standard"},
        tcp_keepalive=True,
        max_pool_connections=64,
    )
    client: SQSClient = create_client("sqs", endpoint_url, config)
    return client


class SqsWaker:
    """Implements `Waker`.

    Messages are JSON objects: `{"tenant", "task", "turn"}` on the queue of turns; `{"pk", "sk"}` on that of
    timers; `{"chain"}` on the audit queue; `{"scope", "generation", "shard"}` on the queue of stops. On the
    outbox `{"tenant", "task"}` for the deliveries of a task, with `"cancel": "children"` for what it
    delegated and `"tell": "notices"` for its notices, and `{"tenant", "refresh"}` for a registered agent.
    Turns and the outbox are grouped by tenant, so that no tenant's backlog holds up another's.
    """

    def __init__(
        self,
        client: "SQSClient",
        *,
        turns_queue_url: str,
        timers_queue_url: str,
        outbox_queue_url: str,
        audit_queue_url: str,
        stops_queue_url: str,
        clock: Clock,
    ) -> None:
        self._client = client
        self._turns = turns_queue_url
        self._timers = timers_queue_url
        self._outbox = outbox_queue_url
        self._audit = audit_queue_url
        self._stops = stops_queue_url
        self._clock = clock
        self._failures = count(1)

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        self._send(self._turns, {"tenant": tenant, "task": task_id, "turn": turn}, MessageGroupId=tenant)

    def wake_push(self, tenant: str, task_id: str) -> None:
        self._send(self._outbox, {"tenant": tenant, "task": task_id}, MessageGroupId=tenant)

    def wake_seal(self, chain: str) -> None:
        """Queued first in, first out, for each chain by itself: one sealer at a time."""
        unique = str(uuid4())
        self._send(self._audit, {"chain": chain}, MessageGroupId=chain or "-", MessageDeduplicationId=unique)

    def wake_walk(self, scope: str, generation: int) -> None:
        entries = [
            {
                "Id": str(number),
                "MessageBody": _body({"scope": scope, "generation": generation, "shard": number}),
            }
            for number in range(SHARDS)
        ]
        with self._losing():
            self._client.send_message_batch(QueueUrl=self._stops, Entries=entries)  # type: ignore[arg-type]

    def wake_children(self, tenant: str, task_id: str) -> None:
        body = {"tenant": tenant, "task": task_id, "cancel": "children"}
        self._send(self._outbox, body, MessageGroupId=tenant)

    def wake_refresh(self, tenant: str, name: str) -> None:
        self._send(self._outbox, {"tenant": tenant, "refresh": name}, MessageGroupId=tenant)

    def wake_notices(self, tenant: str, task_id: str) -> None:
        self._send(
            self._outbox, {"tenant": tenant, "task": task_id, "tell": "notices"}, MessageGroupId=tenant
        )

    def wake_timer(self, key: Key, at: datetime) -> None:
        """What is further off than a message can wait is not sent: the sweeper arms it when it is near."""
        delay = max(0, math.ceil((at - self._clock.now()).total_seconds()))
        if delay <= MAX_DELAY_SECONDS:
            self._send(self._timers, {"pk": key.pk, "sk": key.sk}, DelaySeconds=delay)

    def _send(self, queue_url: str, body: Mapping[str, str | int], **options: object) -> None:
        with self._losing():
            self._client.send_message(
                QueueUrl=queue_url,
                MessageBody=_body(body),
                **options,  # type: ignore[arg-type]
            )

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except (BotoCoreError, ClientError, ResponseParserError):
            _log.warning("wake lost", extra={"lost_wakes": next(self._failures)}, exc_info=True)


def _body(wake: Mapping[str, str | int]) -> str:
    return json.dumps(wake, separators=(",", ":"))


class SqsPark:
    """Puts push notification configurations and delegations that are given up on a queue, whose alarm rings.

    Not a wake: it raises what SQS raises, so that it is tried again.
    """

    def __init__(self, client: "SQSClient", queue_url: str) -> None:
        self._client = client
        self._queue_url = queue_url

    def __call__(self, given_up: PushConfig | Delegation) -> None:
        named = {"tenant": given_up.tenant, "task": given_up.task_id}
        if isinstance(given_up, PushConfig):
            named["config"] = given_up.config_id
        else:
            named["delegation"] = given_up.id
        self._client.send_message(QueueUrl=self._queue_url, MessageBody=_body(named))
