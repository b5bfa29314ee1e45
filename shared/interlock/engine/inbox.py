"""What people see: the open checkpoints of their tenant, and the closed ones."""

from dataclasses import replace

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.engine.answer import places_for
from interlock.engine.context import Engine
from interlock.engine.decide import names
from interlock.engine.records import Checkpoint, TaskMeta, history_view, inbox_view
from interlock.engine.shown import Question, WhyNot, delivery, question
from interlock.engine.visibility import not_found, sees
from interlock.oversight.principals import Principal, Role

PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


def open_checkpoints(
    engine: Engine, caller: Principal, cursor: str | None, limit: int = PAGE_SIZE
) -> tuple[list[Question], str | None]:
    """The tenant's open checkpoints, the most urgent first, from an index that may lag by a moment.

    Raises `PermissionDenied` for who is neither approver nor operator.
    """
    return _page(engine, caller, inbox_view(caller.tenant), cursor, limit)


def history(
    engine: Engine, caller: Principal, cursor: str | None, limit: int = PAGE_SIZE
) -> tuple[list[Question], str | None]:
    """The tenant's closed checkpoints, the newest first; as `open_checkpoints`."""
    return _page(engine, caller, history_view(caller.tenant), cursor, limit, descending=True)


def _page(
    engine: Engine, caller: Principal, view: str, cursor: str | None, limit: int, *, descending: bool = False
) -> tuple[list[Question], str | None]:
    """One query of the index, and nothing else, however many there are."""
    if not caller.has(Role.APPROVER, Role.OPERATOR):
        raise PermissionDenied
    try:
        page = engine.views.query_view(view, limit=limit, cursor=cursor, descending=descending)
    except ValueError as error:
        raise InvalidParams("The cursor is not valid") from error
    return [question(item) for _, item in page.rows], page.cursor


def checkpoint(engine: Engine, caller: Principal, task_id: str, ask_id: str) -> Question:
    """Raises `TaskNotFound` for a checkpoint that is not there or not for this caller to see."""
    found, meta = visible_checkpoint(engine, caller, task_id, ask_id)
    return replace(found, delivery=delivery(found.checkpoint, meta, engine.clock.now(), engine.limits))


def visible_checkpoint(
    engine: Engine, caller: Principal, task_id: str, ask_id: str
) -> tuple[Question, TaskMeta]:
    """The same with its task."""
    key = Checkpoint.key_of(caller.tenant, task_id, ask_id)
    item, meta_item = engine.table.get_many([key, TaskMeta.key_of(caller.tenant, task_id)])
    if item is None or meta_item is None:
        raise not_found(task_id)
    found, meta = question(item), TaskMeta.read(meta_item)
    if found.why_not(caller, engine.clock.now()) is WhyNot.NOT_NAMED:
        found = replace(found, stands_in=_is_named(engine, caller, meta, found))
    named = found.stands_in or (not sees(caller, meta) and _is_named(engine, caller, meta, found))
    if not (sees(caller, meta) or (not meta.isolated and named)):
        raise not_found(task_id)
    return found, meta


def _is_named(engine: Engine, caller: Principal, meta: TaskMeta, found: Question) -> bool:
    """The caller, or somebody in whose place they may decide."""
    if found.asked is not None and names(engine, caller, found.asked):
        return True
    responders = found.envelope.responders
    return caller.id in responders.named or bool(places_for(engine, caller, meta, responders))
