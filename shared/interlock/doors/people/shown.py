"""A checkpoint as the people's door shows it."""

from datetime import datetime
from typing import Literal

from interlock.a2a.models import JsonObject, Wire, timestamp
from interlock.engine.context import Limits
from interlock.engine.records import Checkpoint, parse_instant
from interlock.engine.shown import Question
from interlock.oversight import reviewers
from interlock.oversight.modes import Mode
from interlock.oversight.principals import Principal


class ApprovalBody(Wire):
    """What leave is asked for. A decision names the action by `digest`; `requesters` may not approve."""

    action: JsonObject
    summary: str
    digest: str
    approvers: list[str] | None = None
    requesters: list[str]
    approved_by: list[str]
    required: int


class HopBody(Wire):
    """`who` is an agent, `people` or `operators`; `outcome` is there once they have passed it on."""

    who: str
    outcome: str | None = None


class VoteBody(Wire):
    """`decision` is there for an approval, `insteadOf` where it was cast in the place of who is away."""

    who: str
    decision: str | None = None
    instead_of: str | None = None


class NextBody(Wire):
    """What happens by itself if nobody answers, and when. Nothing ever starts for that but the task of a
    window."""

    what: Literal["waits", "passed-on", "escalated", "ended", "starts"]
    at: str | None = None


class ClaimedBody(Wire):
    """Who looks at it. It keeps nobody from deciding. `note` is text of whoever passed it on to them."""

    who: str
    until: str
    note: str | None = None


class DeliveryBody(Wire):
    """Whether the agent's next turn has begun with what was decided; `at` is when, unless there was another
    one since."""

    status: Literal["accepted", "delivered", "retrying", "not-needed"]
    at: str | None = None


class CheckpointBody(Wire):
    """What waits, or waited, for a person. `prompt` is untrusted text; times are UTC.

    `kind` is prompt, approval, or window: of veto, which asks nothing and passes at its `deadline` unless the
    task is canceled. `dispatch`: it is about whether the task may start at all. `number` is of its task,
    counted from 1. `chain`: whom it is put to, one after the other.

    `digest` is of exactly what is shown: the action, or `{prompt, responseSchema}` (RFC 8785, SHA-256).
    `mode` and `radius` are of the skill. `mayDecide` is about the caller, `whyNot` says why not; in a list
    it is not known who stands in for somebody. `deadline` is the one that holds. Once it is closed, `outcome`
    is its `status`, and `decidedBy` whose act that was; `delivery` is in no list.
    """

    task_id: str
    checkpoint_id: str
    kind: Literal["prompt", "approval", "window"]
    number: int
    dispatch: bool
    chain: list[HopBody]
    agent: str
    skill: str
    requested_by: str
    prompt: str
    response_schema: JsonObject
    allowed_responders: list[str]
    needed: int
    votes: int
    asked_at: str
    deadline: str | None = None
    status: str
    approval: ApprovalBody | None = None
    digest: str
    mode: str
    radius: str | None = None
    may_decide: bool
    why_not: Literal["requester", "not-named", "not-approver", "closed", "window"] | None = None
    votes_by: list[VoteBody] | None = None
    if_unanswered: NextBody | None = None
    claim: ClaimedBody | None = None
    extended_by: str | None = None
    closed_at: str | None = None
    decided_by: str | None = None
    outcome: str | None = None
    comment: str | None = None
    delivery: DeliveryBody | None = None


def body(question: Question, who: Principal, now: datetime, limits: Limits) -> CheckpointBody:
    found, envelope = question.checkpoint, question.envelope
    why_not = question.why_not(who, now)
    return CheckpointBody(
        task_id=found.task_id,
        checkpoint_id=found.ask_id,
        kind=found.kind,
        number=found.number,
        dispatch=found.dispatch,
        chain=[HopBody(who=hop.who, outcome=hop.outcome) for hop in reviewers.from_json(found.hops)],
        agent=found.agent,
        skill=found.skill,
        requested_by=found.requested_by,
        prompt=envelope.prompt,
        response_schema=dict(envelope.response_schema),
        allowed_responders=list(envelope.allowed_responders),
        needed=envelope.responders.needed,
        votes=len(question.votes),
        asked_at=timestamp(parse_instant(found.asked_at)),
        deadline=_time(found.deadline),
        status=found.status,
        approval=_approval(question),
        digest=question.digest,
        mode=found.mode or Mode.AUTONOMOUS.value,
        radius=found.radius,
        may_decide=why_not is None,
        why_not=why_not.value if why_not is not None else None,
        votes_by=[VoteBody(who=v.who, decision=v.decision, instead_of=v.instead_of) for v in question.votes]
        or None,
        if_unanswered=_next(question, limits),
        claim=_claim(question, now),
        extended_by=found.extended_by,
        closed_at=_time(found.closed_at),
        decided_by=found.closed_by,
        outcome=found.status if found.closed_at is not None else None,
        comment=found.comment,
        delivery=_delivery(question),
    )


def _delivery(question: Question) -> DeliveryBody | None:
    delivery = question.delivery
    if delivery is None:
        return None
    return DeliveryBody(status=delivery.status.value, at=_time(delivery.at))


def _claim(question: Question, now: datetime) -> ClaimedBody | None:
    found = question.checkpoint
    if found.status != Checkpoint.OPEN or found.claim_by is None or found.claim_until is None:
        return None
    until = parse_instant(found.claim_until)
    if until <= now:
        return None
    return ClaimedBody(who=found.claim_by, until=timestamp(until), note=found.claim_note)


def _next(question: Question, limits: Limits) -> NextBody | None:
    following = question.next(limits)
    if following is None:
        return None
    what, at = following
    return NextBody(what=what.value, at=_time(at))


def _time(at: str | None) -> str | None:
    return timestamp(parse_instant(at)) if at is not None else None


def _approval(question: Question) -> ApprovalBody | None:
    asked = question.asked
    if asked is None:
        return None
    return ApprovalBody(
        action=asked.action,
        summary=asked.summary,
        digest=asked.digest,
        approvers=sorted(asked.gate.approvers) if asked.gate.approvers is not None else None,
        requesters=sorted(asked.requesters),
        approved_by=list(question.approved_by),
        required=asked.gate.quorum,
    )
