"""What people see: the open checkpoints of their tenant."""

import json
from dataclasses import dataclass

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.engine.answer import places_for
from interlock.engine.context import Engine
from interlock.engine.decide import asked_of, names
from interlock.engine.ports import Item
from interlock.engine.records import Checkpoint, TaskMeta, inbox_view
from interlock.engine.visibility import not_found, sees
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import Asked, Vote, approved_by
from interlock.oversight.principals import Principal, Role

PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class Question:
    """A checkpoint as a person sees it: its prompt, what it asks leave for, and who has decided so far."""

    checkpoint: Checkpoint
    envelope: hitl_prompt.Envelope
    votes: int
    asked: Asked | None = None
    approved_by: tuple[str, ...] = ()


def open_checkpoints(
    engine: Engine, caller: Principal, cursor: str | None
) -> tuple[list[Question], str | None]:
    """The tenant's open checkpoints, the most urgent first, from an index that may lag by a moment.

    Raises `PermissionDenied` for who is neither approver nor operator.
    """
    if not caller.has(Role.APPROVER, Role.OPERATOR):
        raise PermissionDenied
    try:
        page = engine.views.query_view(inbox_view(caller.tenant), limit=PAGE_SIZE, cursor=cursor)
    except ValueError as error:
        raise InvalidParams("The cursor is not valid") from error
    return [_question(item) for _, item in page.rows], page.cursor


def checkpoint(engine: Engine, caller: Principal, task_id: str, ask_id: str) -> Question:
    """Raises `TaskNotFound` for a checkpoint that is not there or not for this caller to see."""
    key = Checkpoint.key_of(caller.tenant, task_id, ask_id)
    item, meta_item = engine.table.get_many([key, TaskMeta.key_of(caller.tenant, task_id)])
    if item is None or meta_item is None:
        raise not_found(task_id)
    question, meta = _question(item), TaskMeta.read(meta_item)
    if not (sees(caller, meta) or (not meta.isolated and _is_named(engine, caller, meta, question))):
        raise not_found(task_id)
    return question


def _is_named(engine: Engine, caller: Principal, meta: TaskMeta, question: Question) -> bool:
    """The caller, or somebody in whose place they may decide."""
    if question.asked is not None and names(engine, caller, question.asked):
        return True
    responders = question.envelope.responders
    return caller.id in responders.named or bool(places_for(engine, caller, meta, responders))


def _question(item: Item) -> Question:
    found = Checkpoint.read(item)
    envelope = hitl_prompt.Envelope.from_wire(json.loads(found.envelope))
    votes = json.loads(found.votes)
    if found.kind != Checkpoint.APPROVAL:
        return Question(found, envelope, len(votes))
    asked = asked_of(found)
    approvers = approved_by({who: Vote(*vote) for who, vote in votes.items()}, asked.digest)
    return Question(found, envelope, len(votes), asked, tuple(approvers))
