"""A decision on an approval request (approval/v1): the gate, and the count of a quorum.

What is looked at, in this order: does the caller see the task, is it a repeat of a decision of theirs, is it
halted, is the decision well formed, does the task wait for one, is it this request, is it this action, and
may this caller decide, for themselves or in the place of somebody who is away. A vote is one conditional
write; the one that decides closes the request, moves the task and queues the turn in one transaction, so the
count is exact and the agent goes on once (I2, I3).
"""

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from datetime import datetime

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.a2a.models import JsonObject, Message, TaskState
from interlock.engine.answer import Admitted, check_payload
from interlock.engine.away import Place, free, places_of
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask, count_vote, in_time, voted, wake_told
from interlock.engine.context import Engine, agent_message, attempts, move, new_id, queue_turn, status
from interlock.engine.errors import AnswerInvalid, UsedUp, used_up_in
from interlock.engine.facts import APPROVAL, Fact
from interlock.engine.halts import Halted, halted_comes_first, halted_in, unless_halted
from interlock.engine.ports import ConditionFailed, Equals, OutcomeUnknown, Write
from interlock.engine.records import Checkpoint, Event, instant
from interlock.engine.view import TaskView, load_with_ask
from interlock.engine.visibility import check_context, meta_key, not_found, sees
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import (
    APPROVE,
    CHANGES,
    DENY,
    KEY,
    RESPONSE_SCHEMA,
    Asked,
    Changes,
    Decision,
    MalformedDecision,
    Vote,
    approved_by,
    digest_of,
    parse_decision,
)
from interlock.oversight.away import with_vote
from interlock.oversight.principals import Kind, Principal, Role
from interlock.oversight.schema_gate import Violation

OUTCOMES: Mapping[str, str] = {
    APPROVE: Checkpoint.APPROVED,
    DENY: Checkpoint.DENIED,
    CHANGES: Checkpoint.CHANGES_REQUESTED,
}
"""How a request ends by a decision that settles it."""


@dataclass(frozen=True, slots=True)
class Deciding:
    """A message that carries a decision. `response` is its answer in the dialect of hitl-prompt/v1, if any.

    `changes`: the decider sends the action back instead. `via` names the channel that it came through; `also`
    goes into the transaction of the vote. `viewed_ms` says how long the action was before them, if they do.
    """

    by: Principal
    task_id: str
    message: Message
    response: hitl_prompt.Response | None = None
    changes: Changes | None = None
    via: str | None = None
    also: tuple[Write, ...] = ()
    viewed_ms: int | None = None


def decide(engine: Engine, deciding: Deciding) -> tuple[Admitted, TaskView]:
    """Raises `TaskNotFound`, `InvalidParams`, `PermissionDenied`, `AnswerInvalid`; then nothing changed."""
    op, decision, malformed = new_id(), None, None
    try:
        decision = parse_decision(deciding.message.metadata)
    except MalformedDecision as error:
        malformed = InvalidParams(str(error))
    refused: Halted | UsedUp | None = None
    for _ in attempts(engine.clock):
        view, ask = _read(engine, deciding, decision)
        meta = view.meta
        with halted_comes_first(engine, meta):
            check_context(deciding.message, meta)
            if decision is None:
                raise malformed or InvalidParams(f"{KEY} is missing")
            mine = _vote(deciding, decision)
            before = votes_of(ask) if ask is not None else {}
            if ask is not None and before.get(deciding.by.id) == mine:
                _check_response(engine, deciding, decision)
                # The same person, the same decision: told so, however the request has ended since.
                return Admitted.ACCEPTED if ask.status == OUTCOMES[mine.decision] else Admitted.COUNTED, view
            if refused is not None:
                raise refused
            if meta.ask is None or not meta.approval:
                raise InvalidParams("The task does not wait for an approval")
            if ask is None or ask.ask_id != meta.ask:
                raise InvalidParams("The decision answers another request")
            if ask.status != Checkpoint.OPEN:
                continue  # closed between the two reads
            now = engine.clock.now()
            asked = asked_of(ask)
            place = _check(engine, asked, ask, deciding, decision, now)
        if place is not None:
            mine = replace(mine, instead_of=place.of)
        votes = with_vote(before, _places(before), deciding.by.id, mine)
        settled = Settled(view, ask, votes, approved_by(votes, asked.digest), deciding, decision)
        settles = mine.decision != APPROVE or len(settled.approvers) >= asked.gate.quorum
        if settles:
            view, writes = _closing(settled, now, op)
        else:
            fact = settled.fact(reached=False).about(meta)
            cast = voted(ask, _stored(votes), deciding.by.id, deciding.viewed_ms)
            writes = [count_vote(ask, cast, now), fact.put(meta.tenant, now)]
        writes.extend(unless_halted(meta))
        writes.extend(place.checks if place is not None else ())
        writes.extend(deciding.also)
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes) or used_up_in(failed, writes, deciding.also)
            continue
        except OutcomeUnknown:
            continue
        if not settles:
            return Admitted.COUNTED, view
        if not view.meta.task_state.terminal:
            engine.waker.wake_turn(meta.tenant, meta.task_id, view.meta.turn)
        wake_told(engine.waker, meta)
        return Admitted.ACCEPTED, view
    raise AssertionError("attempts end by raising")


def asked_of(ask: Checkpoint) -> Asked:
    return Asked.from_json(ask.approval or "{}")


def _vote(deciding: Deciding, decision: Decision) -> Vote:
    changes = deciding.changes
    if changes is None:
        return Vote(decision.decision, decision.digest)
    return Vote(CHANGES, decision.digest, _digest_of(changes.action) if changes.action is not None else None)


def _digest_of(edited: JsonObject) -> str | None:
    """None where there is none: that is refused, but whoever may not decide is not told so."""
    try:
        return digest_of(edited)
    except ValueError:
        return None


def _read(
    engine: Engine, deciding: Deciding, decision: Decision | None
) -> tuple[TaskView, Checkpoint | None]:
    caller = deciding.by
    # One query, also where nothing that could be decided is named: then for the task alone.
    request_id = decision.request_id if decision is not None else ""
    meta_key(caller, deciding.task_id)
    view, ask = load_with_ask(engine.table, caller.tenant, deciding.task_id, request_id)
    if ask is not None and ask.kind != Checkpoint.APPROVAL:
        ask = None
    if view is None:
        raise not_found(deciding.task_id)
    if not sees(caller, view.meta) and (
        view.meta.isolated or ask is None or not names(engine, caller, asked_of(ask))
    ):
        raise not_found(deciding.task_id)
    return view, ask


def names(engine: Engine, caller: Principal, asked: Asked) -> bool:
    """Whether an approval request names the caller, or somebody in whose place they may decide."""
    return caller.id in (asked.gate.approvers or ()) or bool(_places_for(engine, caller, asked))


def _places_for(engine: Engine, caller: Principal, asked: Asked) -> list[Place]:
    return places_of(engine, caller, asked.gate.approvers or (), asked.excluded)


def _check(
    engine: Engine, asked: Asked, ask: Checkpoint, deciding: Deciding, decision: Decision, now: datetime
) -> Place | None:
    """In whose place the caller decides, if not for themselves."""
    caller, place = deciding.by, None
    if decision.digest != asked.digest:
        raise InvalidParams("The digest is not that of the action: another action was shown")
    may = asked.gate.may_decide(
        caller.id,
        is_person=caller.kind is Kind.PERSON,
        is_approver=caller.has(Role.APPROVER),
        requesters=asked.requesters,
    )
    if not may:
        place = free(_places_for(engine, caller, asked), _places(votes_of(ask)), caller)
        if place is None:
            raise PermissionDenied("You may not decide this request")
    if ask.deadline is not None and instant(now) >= ask.deadline:
        raise InvalidParams("The time for this decision is over")
    _check_response(engine, deciding, decision)
    if deciding.changes is not None and deciding.changes.action is not None:
        edited = _digest_of(deciding.changes.action)
        if edited is None:
            raise InvalidParams("The edited action has no canonical form (RFC 8785), or is too large")
        if edited == asked.digest:
            raise InvalidParams("The edited action is the one that was shown")
    return place


def _places(votes: Mapping[str, Vote]) -> dict[str, str | None]:
    return {who: vote.instead_of for who, vote in votes.items()}


def _check_response(engine: Engine, deciding: Deciding, decision: Decision) -> None:
    """A message in both dialects must say the same in both, and be valid in both."""
    response = deciding.response
    if response is None:
        return
    if response.prompt_id != decision.request_id:
        raise InvalidParams("The answer and the decision name different requests")
    check_payload(engine, RESPONSE_SCHEMA, response)
    if response.payload["decision"] != decision.decision:
        contradiction = Violation("/decision", "const", "the payload and the decision must say the same")
        raise AnswerInvalid(response.prompt_id, [contradiction])


def votes_of(ask: Checkpoint) -> dict[str, Vote]:
    return {who: Vote(*vote) for who, vote in json.loads(ask.votes).items()}


def _stored(votes: Mapping[str, Vote]) -> str:
    """A person to the members of their vote, without those at the end that are not there."""
    return json.dumps({who: _members(vote) for who, vote in votes.items()})


def _members(vote: Vote) -> list[str | None]:
    members = list(astuple(vote))
    while members[-1] is None:
        members.pop()
    return members


@dataclass(frozen=True, slots=True)
class Settled:
    """A request with the vote that settles it."""

    view: TaskView
    ask: Checkpoint
    votes: Mapping[str, Vote]
    approvers: list[str]
    deciding: Deciding
    decision: Decision

    @property
    def outcome(self) -> str:
        return OUTCOMES[self.votes[self.deciding.by.id].decision]

    def fact(self, *, reached: bool) -> Fact:
        """`reached`: whether the executor goes on with it."""
        asked, by = asked_of(self.ask), self.deciding.by.id
        digests = {"action": asked.digest}
        if (edited := self.votes[by].edited) is not None:
            digests["edited"] = edited
        detail = {
            "requestId": self.ask.ask_id,
            "decision": self.votes[by].decision,
            "insteadOf": self.votes[by].instead_of,
            "via": self.deciding.via,
            "requestedBy": self.ask.requested_by,
            "required": asked.gate.quorum,
            "approvedBy": list(self.approvers),
            "reachedExecutor": reached,
        }
        return Fact(APPROVAL, by, digests, detail)


def _closing(settled: Settled, now: datetime, op: str) -> tuple[TaskView, list[Write]]:
    """Request closed, task moved, event written and next turn queued: all or nothing (I2, I3).

    Carrying a decision does not make its author one whose words the run acts on: `last_author` stays. Asking
    for changes does: who edited an action may not approve the edit.
    """
    meta, deciding, decision = settled.view.meta, settled.deciding, settled.decision
    outcome: JsonObject = {
        **decision.to_wire(),
        "decision": settled.votes[deciding.by.id].decision,
        "approvers": list(settled.approvers),
        "action": asked_of(settled.ask).action,
        "decidedBy": deciding.by.id,
    }
    stood_in: JsonObject = {who: place for who, place in _places(settled.votes).items() if place is not None}
    if stood_in:
        outcome["insteadOf"] = stood_in
    if settled.ask.dispatch:
        return _dispatch_closing(settled, outcome, now, op)
    changes = {"turn": meta.turn + 1, "inputs": meta.inputs + 1, **NOTHING_ASKED}
    if deciding.changes is not None:
        changes["editors"] = " ".join(sorted({*meta.editors.split(), deciding.by.id}))
        if deciding.changes.action is not None:
            outcome["edited"] = deciding.changes.action
    event = Event(
        message=deciding.message.model_copy(update={"context_id": meta.context_id}),
        status=status(TaskState.WORKING, now),
        by=deciding.by.id,
        approval=outcome,
    )
    moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=settled.fact(reached=True))
    writes += [*_closed(settled, now, moved.turn), queue_turn(moved, now)]
    return TaskView(moved, [*settled.view.events, event]), writes


def _closed(settled: Settled, now: datetime, turn: int | None) -> list[Write]:
    deciding = settled.deciding
    changes = voted(settled.ask, _stored(settled.votes), deciding.by.id, deciding.viewed_ms)
    if settled.decision.comment is not None:
        changes["comment"] = settled.decision.comment
    return close_ask(
        settled.view.meta,
        settled.ask.ask_id,
        settled.outcome,
        now,
        by=deciding.by.id,
        turn=turn,
        conditions=(Equals("rev", settled.ask.rev), *in_time(settled.ask, now)),
        changes=changes,
    )


def _dispatch_closing(
    settled: Settled, outcome: JsonObject, now: datetime, op: str
) -> tuple[TaskView, list[Write]]:
    """Of a request whether the task may start: approved, its first turn is queued; else it ends, and nothing
    was run (hitl-mode-v1, gated)."""
    meta, deciding = settled.view.meta, settled.deciding
    starts = settled.outcome == Checkpoint.APPROVED
    refusal = agent_message(meta, "The start was not approved: nothing was run.")
    event = Event(
        message=deciding.message.model_copy(update={"context_id": meta.context_id}),
        status=status(TaskState.WORKING, now) if starts else status(TaskState.REJECTED, now, refusal),
        by=deciding.by.id,
        approval=outcome,
        dispatch=True,
    )
    changes = {**NOTHING_ASKED, **({"turn": 1} if starts else {})}
    fact = settled.fact(reached=starts)
    moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=fact)
    writes += _closed(settled, now, moved.turn if starts else None)
    if starts:
        writes.append(queue_turn(moved, now))
    return TaskView(moved, [*settled.view.events, event]), writes
