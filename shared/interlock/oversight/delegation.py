"""What travels with work that one agent hands to another ("Stopping what an agent started"; leases).

A claim about the parent can only take something away from the child: who may not approve, how long it runs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

KEY = "interlock.delegation/v1"
"""In the metadata of the request: `{depth, excluded?, leaseSeconds?, deadline?, parent?}`."""

TAKEN = "interlock.delegated/v1"
"""In the metadata of a task that was delegated, as `{depth, leaseUntil?, deadline?}`: its server keeps to the
terms, and knows a send by its key. To another, to send again is to hand over more work."""

MAX_DEPTH = 16
MAX_EXCLUDED = 64
MAX_LEASE = timedelta(days=1)
MIN_LEASE = timedelta(seconds=3)

_IDENTITY = re.compile(r"\S{1,256}")


class MalformedTerms(ValueError):
    """The text is fit to be shown."""


class Outcome(StrEnum):
    """How delegated work ended, as its parent knows it."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"
    INTERRUPTED = "interrupted"
    """It waits for an answer or a credential: handed back to the parent, not canceled."""
    MESSAGE = "message"
    """Answered directly, without a task."""
    LOST = "lost"
    """It could not be followed any more, and is being canceled."""
    CANCEL_REQUESTED = "cancel_requested"
    """Its server took the cancel, and has not said that it ended."""
    CANCEL_FAILED = "cancel_failed"
    """Nobody there has taken the cancel, until it was given up."""
    UNREACHABLE = "unreachable"
    """Whether there is such a task is not known, and it can not be found."""


@dataclass(frozen=True, slots=True)
class Terms:
    """`depth` counts from the first parent. `excluded` may not approve what the child asks leave for. The
    child is canceled when its lease was not renewed in time, or its deadline has passed. `parent` is the task
    that delegated it: believed only by whoever has that task, and finds the delegation there."""

    depth: int = 0
    excluded: frozenset[str] = frozenset()
    lease: timedelta | None = None
    deadline: datetime | None = None
    parent: str | None = None

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"depth": self.depth}
        if self.excluded:
            wire["excluded"] = sorted(self.excluded)
        if self.parent is not None:
            wire["parent"] = self.parent
        if self.lease is not None:
            wire["leaseSeconds"] = self.lease.total_seconds()
        if self.deadline is not None:
            wire["deadline"] = self.deadline.astimezone(UTC).isoformat().replace("+00:00", "Z")
        return wire


def parse_terms(metadata: Mapping[str, Any] | None) -> Terms | None:
    """None for work that was not delegated. Raises `MalformedTerms`."""
    if metadata is None or KEY not in metadata:
        return None
    said = metadata[KEY]
    if not isinstance(said, dict):
        raise MalformedTerms(f"{KEY} must be an object")
    depth, excluded = said.get("depth", 0), said.get("excluded", [])
    if type(depth) is not int or not 0 <= depth <= MAX_DEPTH:
        raise MalformedTerms(f"{KEY}.depth must be 0 to {MAX_DEPTH}")
    if (
        not isinstance(excluded, list)
        or len(excluded) > MAX_EXCLUDED
        or not all(isinstance(who, str) and _IDENTITY.fullmatch(who) for who in excluded)
    ):
        raise MalformedTerms(f"{KEY}.excluded must be at most {MAX_EXCLUDED} identities")
    parent = said.get("parent")
    if parent is not None and (not isinstance(parent, str) or not _IDENTITY.fullmatch(parent)):
        raise MalformedTerms(f"{KEY}.parent must be the id of a task")
    lease, deadline = _lease(said.get("leaseSeconds")), _deadline(said.get("deadline"))
    return Terms(depth, frozenset(excluded), lease, deadline, parent)


def check_lease(lease: timedelta) -> None:
    """Raises `MalformedTerms`."""
    if not MIN_LEASE <= lease <= MAX_LEASE:
        raise MalformedTerms(f"a lease is {MIN_LEASE.seconds} seconds to a day")


def check_deadline(at: datetime) -> datetime:
    """In UTC. Raises `MalformedTerms`."""
    try:
        if at.tzinfo is not None:
            return at.astimezone(UTC)
    except OverflowError:
        pass
    raise MalformedTerms("a deadline is a time with its zone, before the year 10000")


def _lease(seconds: object) -> timedelta | None:
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise MalformedTerms(f"{KEY}.leaseSeconds must be a number")
    if not MIN_LEASE.total_seconds() <= seconds <= MAX_LEASE.total_seconds():
        raise MalformedTerms(f"{KEY}.leaseSeconds: a lease is {MIN_LEASE.seconds} seconds to a day")
    return timedelta(seconds=seconds)


def _deadline(text: object) -> datetime | None:
    if text is None:
        return None
    try:
        if isinstance(text, str) and len(text) <= 40:
            return check_deadline(datetime.fromisoformat(text))
    except ValueError:
        pass
    raise MalformedTerms(f"{KEY}.deadline must be a time of RFC 3339")
