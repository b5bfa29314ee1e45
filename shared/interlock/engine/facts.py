"""Facts of the audit trail: each is a row in the transaction of what it tells of, and is sealed later.

A fact names people, tasks and outcomes, and holds digests; content, comments and payloads are never in it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

from interlock.a2a.models import timestamp
from interlock.engine.ports import Item, Key, Page, Put, Table, Write
from interlock.engine.records import SCHEMA_VERSION, Event, TaskMeta, instant

TASK_EVENT = "task.event"
RUN_STARTED = "run.started"
CANCEL_REQUESTED = "task.cancel_requested"
PROMPT_OPENED = "prompt.opened"
PROMPT_ANSWERED = "prompt.answered"
PROMPT_REFUSED = "prompt.refused"
PROMPT_EXTENDED = "prompt.extended"
PROMPT_EXPIRED = "prompt.expired"
APPROVAL = "approval"
HALT = "halt"
RUN_STOPPING = "run.stopping"
RUN_WROTE_LATE = "run.wrote_late"
DELEGATION = "delegation"
AGENT = "agent"
AWAY = "away"
NOTICE = "notice"
REVIEWER_ASKED = "reviewer.asked"
VETO_OPENED = "veto.opened"
VETO_PASSED = "veto.passed"
VETO_VETOED = "veto.vetoed"
VETO_RESTARTED = "veto.restarted"
CALL = "call"
CALL_ADMITTED = "call.admitted"

FACTS = "FACT#"
"""Begins the partitions of facts that wait to be sealed, one for each chain."""

_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)
_trace: ContextVar[str | None] = ContextVar("trace", default=None)


@contextmanager
def traced(traceparent: str | None) -> Iterator[None]:
    """What is written inside belongs to the trace of this header (W3C Trace Context 3.2), if it is valid."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    token = _trace.set(f"{found[1]}-{found[2]}" if found else None)
    try:
        yield
    finally:
        _trace.reset(token)


def current_trace() -> str | None:
    """`<trace id>-<span id>`."""
    return _trace.get()


@dataclass(frozen=True, slots=True)
class Fact:
    """`by` is the identity that acted; None where it was nobody, as when a time passed. `members` are the
    other members of the record (`a2a-audit/1`)."""

    kind: str
    by: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)

    def about(self, meta: TaskMeta, event: Event | None = None) -> "Fact":
        """A fact of the task as `meta` has it, with its last event."""
        members = {
            "trace": _trace_member(current_trace() or meta.trace),
            "taskId": meta.task_id,
            "contextId": meta.context_id,
            "messageId": event.message.message_id
            if event is not None and event.message is not None
            else None,
            "runSeq": meta.turn,
            "eventSeq": meta.seq if event is not None else None,
            "state": meta.state,
        }
        digests = (
            {**self.digests, "event": text_digest(event.wire_json())} if event is not None else self.digests
        )
        return replace(self, digests=digests, members={**members, **self.members})

    def put(self, chain: str, now: datetime) -> Put:
        """The row. Facts of a chain sort by their time; the rest of the key is random."""
        record = {
            "trace": _trace_member(current_trace()),
            **self.members,
            "time": timestamp(now),
            "kind": self.kind,
            "actor": actor(self.by),
            "digests": dict(self.digests),
            "detail": {name: value for name, value in self.detail.items() if value is not None},
        }
        body = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        return Put(Key(fact_pk(chain), f"{instant(now)}#{uuid4()}"), {"v": SCHEMA_VERSION, "body": body})


@dataclass(frozen=True, slots=True)
class WithoutFacts:
    """Implements `Table` where there is no audit trail: nothing is written for it."""

    table: Table

    def get(self, key: Key) -> Item | None:
        return self.table.get(key)

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        return self.table.get_many(keys)

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        return self.table.snapshot(keys)

    def query(self, pk: str, **options: Any) -> Page:
        return self.table.query(pk, **options)

    def write(self, *writes: Write) -> None:
        self.table.write(*(write for write in writes if not write.key.pk.startswith(FACTS)))


def fact_pk(chain: str) -> str:
    return f"{FACTS}{chain}"


def chain_of(pk: str) -> str:
    """The chain whose facts are in a partition of `fact_pk`."""
    return pk.removeprefix(FACTS)


def actor(identity: str | None) -> dict[str, str]:
    """`<scheme>:<label>` as the members of the record; empty for nobody."""
    if identity is None:
        return {}
    scheme, colon, subject = identity.partition(":")
    return {"subject": subject, "scheme": scheme} if colon else {"subject": identity}


def text_digest(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


def _trace_member(trace: str | None) -> dict[str, str]:
    if trace is None:
        return {}
    trace_id, _, span_id = trace.partition("-")
    return {"traceId": trace_id, "spanId": span_id}
