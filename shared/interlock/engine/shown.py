"""A checkpoint as people see it: what is asked, whether the caller may decide it, and what happens otherwise.

Nothing here is read beyond the checkpoint itself, so a page of them costs one query. The server decides again
at the decision.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from interlock.engine.context import Limits
from interlock.engine.decide import asked_of
from interlock.engine.ports import Item
from interlock.engine.records import Checkpoint, TaskMeta, instant, parse_instant
from interlock.engine.reviewers import REJECT
from interlock.oversight import hitl_prompt, reviewers
from interlock.oversight.approvals import Asked, approved_by
from interlock.oversight.approvals import Vote as Decided
from interlock.oversight.principals import Kind, Principal, Role


class WhyNot(StrEnum):
    """Why a caller may not decide."""

    REQUESTER = "requester"
    """The run acts on their words."""
    NOT_NAMED = "not-named"
    NOT_APPROVER = "not-approver"
    CLOSED = "closed"
    """It is closed, or its time is over."""
    WINDOW = "window"
    """Nothing is asked: whoever is against it cancels the task."""


class Next(StrEnum):
    """What happens by itself to what nobody answers."""

    WAITS = "waits"
    PASSED_ON = "passed-on"
    ESCALATED = "escalated"
    ENDED = "ended"
    STARTS = "starts"


class Reached(StrEnum):
    """Whether the agent has what was decided."""

    ACCEPTED = "accepted"
    """Its next turn is queued."""
    DELIVERED = "delivered"
    """Its next turn has begun."""
    RETRYING = "retrying"
    """Its next turn is queued for long, and woken for again."""
    NOT_NEEDED = "not-needed"


@dataclass(frozen=True, slots=True)
class Delivery:
    """`at` is when the turn began, unless there was another one since."""

    status: Reached
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Vote:
    """`decision` is of an approval; `instead_of` is in whose place it was cast."""

    who: str
    decision: str | None = None
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """`asked` is what an approval asks leave for, and of whom. `stands_in`: for somebody who is named, as far
    as that was looked for."""

    checkpoint: Checkpoint
    envelope: hitl_prompt.Envelope
    votes: tuple[Vote, ...] = ()
    asked: Asked | None = None
    approved_by: tuple[str, ...] = ()
    stands_in: bool = False
    delivery: Delivery | None = None
    """Of a closed one, where its task was read too."""

    @property
    def digest(self) -> str:
        """Of exactly what is shown: the action, or the prompt with its schema."""
        return self.asked.digest if self.asked is not None else self.envelope.digest

    def why_not(self, caller: Principal, now: datetime) -> WhyNot | None:
        """None: the caller may decide."""
        found = self.checkpoint
        if found.status != Checkpoint.OPEN or over(found, now):
            return WhyNot.CLOSED
        return self.bars(caller)

    def bars(self, caller: Principal) -> WhyNot | None:
        """The same of one that is open and in time."""
        found = self.checkpoint
        if found.kind == Checkpoint.WINDOW:
            return WhyNot.WINDOW
        if self.stands_in:
            return None
        if self.asked is not None:
            return _may_not_approve(self.asked, caller)
        responders = self.envelope.responders
        chain = [found.requested_by, *(hop.who for hop in reviewers.from_json(found.hops))]
        authorised = caller.id in chain or caller.has(Role.APPROVER)
        if responders.people_only and caller.kind is not Kind.PERSON:
            return WhyNot.NOT_APPROVER
        if hitl_prompt.may_respond(responders, caller.id, authorised):
            return None
        return WhyNot.NOT_APPROVER if responders.open_to_any else WhyNot.NOT_NAMED

    def next(self, limits: Limits) -> tuple[Next, str | None] | None:
        """What happens by itself, and when. None: it is closed."""
        found = self.checkpoint
        if found.status != Checkpoint.OPEN:
            return None
        if found.kind == Checkpoint.WINDOW:
            return Next.STARTS, found.deadline
        if found.hop_until is not None and (found.deadline is None or found.hop_until < found.deadline):
            hop = reviewers.current(reviewers.from_json(found.hops))
            if hop.agent:
                return Next.PASSED_ON, found.hop_until
            return Next.ENDED if limits.unanswered == REJECT else Next.ESCALATED, found.hop_until
        return (Next.ENDED, found.deadline) if found.deadline is not None else (Next.WAITS, None)


def question(item: Item) -> Question:
    found = Checkpoint.read(item)
    envelope = hitl_prompt.Envelope.from_wire(json.loads(found.envelope))
    votes: Mapping[str, list[str]] = json.loads(found.votes)
    if found.kind != Checkpoint.APPROVAL:
        cast = [Vote(who, None, vote[2] if len(vote) > 2 else None) for who, vote in votes.items()]
        return Question(found, envelope, tuple(cast))
    asked = asked_of(found)
    decided = {who: Decided(*vote) for who, vote in votes.items()}
    cast = [Vote(who, vote.decision, vote.instead_of) for who, vote in decided.items()]
    return Question(found, envelope, tuple(cast), asked, tuple(approved_by(decided, asked.digest)))


def delivery(found: Checkpoint, meta: TaskMeta, now: datetime, limits: Limits) -> Delivery | None:
    """None: it is open."""
    if found.closed_at is None:
        return None
    if found.turn is None:
        return Delivery(Reached.NOT_NEEDED)
    if meta.claimed >= found.turn:
        return Delivery(Reached.DELIVERED, meta.claimed_at if meta.claimed == found.turn else None)
    if meta.task_state.terminal:
        return Delivery(Reached.NOT_NEEDED)
    late = parse_instant(found.closed_at) + timedelta(seconds=limits.wake_again) <= now
    return Delivery(Reached.RETRYING if late else Reached.ACCEPTED)


def over(found: Checkpoint, now: datetime) -> bool:
    """Whether its time is, although nobody may have closed it yet."""
    return found.deadline is not None and instant(now) >= found.deadline


def _may_not_approve(asked: Asked, caller: Principal) -> WhyNot | None:
    may = asked.gate.may_decide(
        caller.id,
        is_person=caller.kind is Kind.PERSON,
        is_approver=caller.has(Role.APPROVER),
        requesters=asked.requesters,
    )
    if may:
        return None
    if caller.id in asked.excluded:
        return WhyNot.REQUESTER
    return WhyNot.NOT_APPROVER if asked.gate.approvers is None else WhyNot.NOT_NAMED
