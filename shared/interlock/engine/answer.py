"""A person's answer to a prompt (hitl-prompt/v1, "Acceptance and rejection"): accepted at most once.

What is looked at, in this order: can the caller see the task, is it a repeat of what was accepted, is it
halted, is the prompt open, may the caller respond, for themselves or in the place of somebody who is away,
is there time left, does the payload fit.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.a2a.models import JsonObject, Message, TaskState
from interlock.engine.away import Place, free, places_of
from interlock.engine.checkpoints import (
    NOTHING_ASKED,
    close_ask,
    count_vote,
    in_time,
    voted,
    wake_told,
    winner,
)
from interlock.engine.context import Engine, attempts, move, new_id, queue_turn, status
from interlock.engine.errors import AnswerInvalid, AnswerRefused, UsedUp, used_up_in
from interlock.engine.facts import PROMPT_ANSWERED, Fact
from interlock.engine.halts import Halted, halted_comes_first, halted_in, unless_halted
from interlock.engine.ports import (
    ConditionFailed,
    Equals,
    OutcomeUnknown,
    Write,
)
from interlock.engine.records import Checkpoint, Event, TaskMeta, instant
from interlock.engine.view import TaskView, load_with_ask
from interlock.engine.visibility import check_context, meta_key, not_found, sees
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.away import with_vote
from interlock.oversight.canonical_json import NotCanonical, digest
from interlock.oversight.principals import Kind, Principal, Role
from interlock.oversight.schema_gate import PayloadUndecided, Violation

NO_CANONICAL_FORM = "The payload has no canonical form (RFC 8785), or is larger than the limits"

Votes = dict[str, list[str]]
"""Identity -> [digest of the payload, message id], and in whose place it was given, if not in their own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`via` names the channel that it came through; `also` goes into the transaction of the vote. `digest` is
    of what was shown, and `viewed_ms` says for how long, where that is known."""

    by: Principal
    task_id: str
    prompt_id: str
    payload: JsonObject
    message: Message
    via: str | None = None
    also: tuple[Write, ...] = ()
    digest: str | None = None
    viewed_ms: int | None = None


class Admitted(StrEnum):
    ACCEPTED = "accepted"
    """It closed the prompt, now or in an earlier try, and the task goes on."""
    COUNTED = "counted"
    """It is one of several that the prompt needs."""


def admit_answer(engine: Engine, answer: Answer) -> Admitted:
    """Decides by one write, and wakes the next turn if the prompt is closed by it.

    Raises `TaskNotFound`, `AnswerRefused` (409), `PermissionDenied`, `AnswerInvalid` (422), `InvalidParams`.
    """
    return _admit(engine, answer, _read)[0]


def answered_task(engine: Engine, answer: Answer) -> TaskView:
    """The same, for who is then told of the whole task: it is read in the same round trip."""
    return _admit(engine, answer, _read_whole)[1]


def _admit(engine: Engine, answer: Answer, read: "Read") -> tuple[Admitted, TaskView]:
    op, payload_digest = new_id(), _payload_digest(answer.payload)
    mine = [payload_digest, answer.message.message_id]
    checked = False
    refused: Halted | UsedUp | None = None
    for _ in attempts(engine.clock):
        view, ask = _visible(engine, answer, *read(engine, answer))
        meta = view.meta
        if ask is not None and ask.status == Checkpoint.OPEN and meta.ask != ask.ask_id:
            # Closed between the two reads.
            continue
        votes: Votes = json.loads(ask.votes) if ask is not None else {}
        if ask is not None and _won(ask, votes, answer, mine):
            return Admitted.ACCEPTED, view
        if refused is not None and not _is(votes.get(answer.by.id), mine):
            raise refused
        with halted_comes_first(engine, meta):
            check_context(answer.message, meta)
            if ask is None:
                raise AnswerRefused(answer.prompt_id)
            if ask.kind == Checkpoint.APPROVAL:
                raise InvalidParams(f"An approval needs {approvals.KEY}, with the digest of the action")
            if ask.kind == Checkpoint.WINDOW:
                raise InvalidParams("Nothing is asked: whoever is against it cancels the task")
            envelope = hitl_prompt.Envelope.from_wire(json.loads(ask.envelope))
            now = engine.clock.now()
            place = _check_open(engine, meta, ask, envelope, answer, now)
            if not checked:
                check_payload(
                    engine, envelope.response_schema, hitl_prompt.Response(answer.prompt_id, answer.payload)
                )
                checked = True
        if _is(votes.get(answer.by.id), mine):
            return Admitted.COUNTED, view
        given = [*mine, place.of] if place is not None else mine
        votes = with_vote(votes, _places(votes), answer.by.id, given)
        needed = envelope.responders.needed
        decides = needed == 1 or _agreeing(votes, payload_digest) >= needed
        if decides:
            view, writes = _closing(view, ask, votes, answer, now, op)
        else:
            fact = _fact(ask, answer, votes, closes=False).about(meta)
            cast = voted(ask, json.dumps(votes), answer.by.id, answer.viewed_ms)
            writes = [count_vote(ask, cast, now), fact.put(meta.tenant, now)]
        writes.extend(unless_halted(meta))
        writes.extend(place.checks if place is not None else ())
        writes.extend(answer.also)
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes) or used_up_in(failed, writes, answer.also)
            continue
        except OutcomeUnknown:
            continue
        if not decides:
            return Admitted.COUNTED, view
        engine.waker.wake_turn(meta.tenant, meta.task_id, view.meta.turn)
        wake_told(engine.waker, meta)
        return Admitted.ACCEPTED, view
    raise AssertionError("attempts end by raising")


def _payload_digest(payload: JsonObject) -> str:
    """Empty where there is no canonical form: such a payload was never accepted, and will not be."""
    try:
        return digest(payload)
    except NotCanonical:
        return ""


Read = Callable[[Engine, Answer], tuple[TaskView | None, Checkpoint | None]]
"""The task and the checkpoint in one round trip. No snapshot: the write is conditional on what was read."""


def _read(engine: Engine, answer: Answer) -> tuple[TaskView | None, Checkpoint | None]:
    """Two items, without the events: what it costs does not grow with the task."""
    ask_key = Checkpoint.key_of(answer.by.tenant, answer.task_id, answer.prompt_id)
    meta_item, ask_item = engine.table.get_many([meta_key(answer.by, answer.task_id), ask_key])
    view = TaskView(TaskMeta.read(meta_item), []) if meta_item is not None else None
    return view, Checkpoint.read(ask_item) if ask_item is not None else None


def _read_whole(engine: Engine, answer: Answer) -> tuple[TaskView | None, Checkpoint | None]:
    meta_key(answer.by, answer.task_id)
    return load_with_ask(engine.table, answer.by.tenant, answer.task_id, answer.prompt_id)


def _visible(
    engine: Engine, answer: Answer, view: TaskView | None, ask: Checkpoint | None
) -> tuple[TaskView, Checkpoint | None]:
    caller = answer.by
    if view is None:
        raise not_found(answer.task_id)
    if not sees(caller, view.meta):
        responders = _responders(ask) if ask is not None else None
        if responders is None or not (
            caller.id in responders.named or places_for(engine, caller, view.meta, responders)
        ):
            raise not_found(answer.task_id)
    return view, ask


def _responders(ask: Checkpoint) -> hitl_prompt.Responders:
    return hitl_prompt.Envelope.from_wire(json.loads(ask.envelope)).responders


def _won(ask: Checkpoint, votes: Votes, answer: Answer, mine: list[str]) -> bool:
    """A retry of what was accepted (same caller, message id, payload), whatever became of the task since."""
    if ask.status != Checkpoint.ANSWERED or ask.winner is None:
        return False
    by, message_id, payload_digest = json.loads(ask.winner)
    if by == answer.by.id and [payload_digest, message_id] == mine:
        return True
    return _is(votes.get(answer.by.id), mine) and payload_digest == mine[0]


def _is(vote: list[str] | None, mine: list[str]) -> bool:
    """Whether it is this answer, in whoever's place it was given."""
    return vote is not None and vote[:2] == mine


def _places(votes: Votes) -> dict[str, str | None]:
    return {who: vote[2] if len(vote) > 2 else None for who, vote in votes.items()}


def places_for(
    engine: Engine, caller: Principal, meta: TaskMeta, responders: hitl_prompt.Responders
) -> list[Place]:
    """In whose place the caller may answer. Who owns the task and is not named has no part in that."""
    return places_of(engine, caller, responders.named, {meta.owner} - responders.named)


def _check_open(
    engine: Engine,
    meta: TaskMeta,
    ask: Checkpoint,
    envelope: hitl_prompt.Envelope,
    answer: Answer,
    now: datetime,
) -> Place | None:
    """In whose place the caller answers, if not for themselves. Raises unless they may still do so."""
    if ask.status != Checkpoint.OPEN:
        if ask.status == Checkpoint.EXPIRED:
            raise AnswerRefused(ask.ask_id, "expired")
        raise AnswerRefused(ask.ask_id, winner=json.loads(ask.winner)[0] if ask.winner else None)
    caller, responders, place = answer.by, envelope.responders, None
    asked = caller.id == meta.owner or caller.id in meta.dispatchers.split()
    authorised = asked or caller.has(Role.APPROVER)
    if not hitl_prompt.may_respond(responders, caller.id, authorised):
        place = free(places_for(engine, caller, meta, responders), _places(json.loads(ask.votes)), caller)
        if place is None:
            raise PermissionDenied("You may not answer this prompt")
    if responders.people_only and caller.kind is not Kind.PERSON:
        raise PermissionDenied("Only people count towards a consensus")
    if answer.digest is not None and answer.digest != envelope.digest:
        raise InvalidParams("The digest is not that of the prompt: another one was shown")
    if ask.deadline is not None and instant(now) >= ask.deadline:
        raise AnswerRefused(ask.ask_id, "expired")
    return place


def check_payload(engine: Engine, schema: Mapping[str, Any], response: hitl_prompt.Response) -> None:
    """Raises `AnswerInvalid` for a payload without a canonical form, or that breaks the schema."""
    if not _payload_digest(response.payload):
        raise AnswerInvalid(response.prompt_id, [Violation("", "limits", NO_CANONICAL_FORM)])
    try:
        violations = engine.guard.validate(schema, response.payload)
    except PayloadUndecided as error:
        violations = [Violation("", "limits", str(error))]
    if violations:
        raise AnswerInvalid(response.prompt_id, violations)


def _agreeing(votes: Votes, payload_digest: str) -> int:
    return Counter(vote[0] for vote in votes.values())[payload_digest]


def _fact(ask: Checkpoint, answer: Answer, votes: Votes, *, closes: bool) -> Fact:
    payload_digest = votes[answer.by.id][0]
    detail = {
        "prompt": ask.ask_id,
        "insteadOf": _places(votes)[answer.by.id],
        "requestedBy": ask.requested_by,
        "closes": closes,
        "via": answer.via,
    }
    return Fact(PROMPT_ANSWERED, answer.by.id, digests={"payload": payload_digest}, detail=detail)


def _closing(
    view: TaskView, ask: Checkpoint, votes: Votes, answer: Answer, now: datetime, op: str
) -> tuple[TaskView, list[Write]]:
    """Prompt closed, task moved, event written and next turn queued: all or nothing (I1, I2)."""
    meta = view.meta
    stored = answer.message.model_copy(update={"context_id": meta.context_id})
    event = Event(message=stored, status=status(TaskState.WORKING, now), by=answer.by.id, answers=ask.ask_id)
    changes = {
        "turn": meta.turn + 1,
        "inputs": meta.inputs + 1,
        "last_author": answer.by.id,
        **NOTHING_ASKED,
    }
    fact = _fact(ask, answer, votes, closes=True)
    moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=fact)
    closed = close_ask(
        meta,
        ask.ask_id,
        Checkpoint.ANSWERED,
        now,
        by=answer.by.id,
        turn=moved.turn,
        conditions=(Equals("rev", ask.rev), *in_time(ask, now)),
        changes={
            "winner": winner(answer.by.id, answer.message.message_id, votes[answer.by.id][0]),
            **voted(ask, json.dumps(votes), answer.by.id, answer.viewed_ms),
        },
    )
    return TaskView(moved, [*view.events, event]), [*writes, *closed, queue_turn(moved, now)]
