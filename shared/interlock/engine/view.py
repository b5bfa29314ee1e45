"""A task as its readers see it, built from META and the events up to META's number."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from interlock.a2a.models import (
    Artifact,
    JsonObject,
    Message,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from interlock.engine.ports import Item, Key, Table
from interlock.engine.records import Checkpoint, Event, TaskMeta, event_key, read_event, task_pk
from interlock.oversight import approvals, delegation, hitl_prompt

EVENTS = "EVT#"
META = "META"


class TaskView(NamedTuple):
    """META and every event up to its number: as it was read, or as one's own write has left it."""

    meta: TaskMeta
    events: list[Event]


def load(table: Table, tenant: str, task_id: str, known: Sequence[Event] = ()) -> TaskView | None:
    """One query reads META first and the events after it, newest first; those that are `known` not again.

    So every event up to META's number was written before META was read, and the view is never torn; an event
    above that number was written in between, and is left out.
    """
    rows = _rows(table, tenant, task_id, event_key(tenant, task_id, len(known) + 1).sk)
    return _view(rows, known)


def load_with_ask(
    table: Table, tenant: str, task_id: str, ask_id: str
) -> tuple[TaskView | None, Checkpoint | None]:
    """The same query goes on to one of the task's checkpoints, which is read last."""
    key = Checkpoint.key_of(tenant, task_id, ask_id)
    rows = _rows(table, tenant, task_id, key.sk)
    asks = [Checkpoint.read(item) for at, item in rows if at == key]
    return _view(rows), asks[0] if asks else None


def _rows(table: Table, tenant: str, task_id: str, first: str) -> list[tuple[Key, Item]]:
    rows: list[tuple[Key, Item]] = []
    cursor: str | None = None
    while True:
        page = table.query(task_pk(tenant, task_id), first=first, last=META, descending=True, cursor=cursor)
        rows += page.rows
        cursor = page.cursor
        if cursor is None:
            return rows


def _view(rows: Sequence[tuple[Key, Item]], known: Sequence[Event] = ()) -> TaskView | None:
    if not rows or rows[0][0].sk != META:
        return None
    meta = TaskMeta.read(rows[0][1])
    newest = event_key(meta.tenant, meta.task_id, meta.seq).sk
    events = [read_event(item) for key, item in rows if EVENTS < key.sk <= newest]
    events.reverse()
    events[:0] = known
    if len(events) != meta.seq:
        raise AssertionError(f"{len(events)} events of a task that has {meta.seq}")
    return TaskView(meta, events)


def history(events: Iterable[Event]) -> list[Message]:
    """Messages in the order in which they were admitted; the current status message is not among them."""
    messages: list[Message] = []
    said: Message | None = None
    for event in events:
        if event.status is not None:
            if said is not None:
                messages.append(said)
            said = event.status.message
        if event.message is not None:
            messages.append(event.message)
    return messages


def artifacts(events: Iterable[Event]) -> list[Artifact]:
    """Artifacts in the order in which they first appeared, chunks put together (specification 4.2.2)."""
    found: dict[str, Artifact] = {}
    for event in events:
        artifact = event.artifact
        if artifact is None:
            continue
        before = found.get(artifact.artifact_id)
        if event.append and before is not None:
            artifact = before.model_copy(update={"parts": before.parts + artifact.parts})
        found[artifact.artifact_id] = artifact
    return list(found.values())


def present(
    meta: TaskMeta,
    events: Sequence[Event],
    extensions: frozenset[str],
    *,
    history_length: int | None = None,
    include_artifacts: bool = True,
    progress: JsonObject | None = None,
    delegated: Sequence[JsonObject] = (),
) -> Task:
    """The task for a request that activated `extensions`. A history length of 0 omits the history.

    `progress` is that of the quorum it waits for, if it does. `delegated` is what it has handed down.
    """
    last = next(event.status for event in reversed(events) if event.status is not None)
    if progress is not None and last.message is not None:
        metadata = {**(last.message.metadata or {}), approvals.QUORUM_KEY: progress}
        last = last.model_copy(update={"message": last.message.model_copy(update={"metadata": metadata})})
    return Task.model_construct(
        id=meta.task_id,
        context_id=meta.context_id,
        status=shown_status(last, extensions),
        artifacts=(artifacts(events) or None) if include_artifacts else None,
        history=_shown_history(history(events), history_length, extensions),
        metadata=_metadata(meta, delegated),
    )


def _metadata(meta: TaskMeta, delegated: Sequence[JsonObject]) -> JsonObject | None:
    members: JsonObject = {}
    if delegated:
        members[delegation.KEY] = list(delegated)
    if meta.depth or meta.lapses_at is not None:
        terms = {"depth": meta.depth, "leaseUntil": meta.lease_until, "deadline": meta.deadline}
        members[delegation.TAKEN] = {name: term for name, term in terms.items() if term is not None}
    return members or None


def quorum_progress(table: Table, meta: TaskMeta) -> JsonObject | None:
    """Who has approved so far, and how many it takes: of a task that waits for more than one approval."""
    if meta.ask is None or not meta.approval or meta.required < 2:
        return None
    item = table.get(Checkpoint.key_of(meta.tenant, meta.task_id, meta.ask))
    if item is None:
        return None
    ask = Checkpoint.read(item)
    votes = {who: approvals.Vote(*vote) for who, vote in json.loads(ask.votes).items()}
    asked = approvals.Asked.from_json(ask.approval or "{}")
    return {"approvedBy": list(approvals.approved_by(votes, asked.digest)), "required": asked.gate.quorum}


def _shown_history(
    messages: list[Message], length: int | None, extensions: frozenset[str]
) -> list[Message] | None:
    kept = messages if length is None else messages[-length:] if length else []
    return [shown(message, extensions) for message in kept] or None


def shown_status(status: TaskStatus, extensions: frozenset[str]) -> TaskStatus:
    if status.message is None:
        return status
    return status.model_copy(update={"message": shown(status.message, extensions)})


def shown(message: Message, extensions: frozenset[str]) -> Message:
    """Without the prompt envelope, unless the request activated hitl-prompt/v1."""
    if hitl_prompt.URI in extensions or hitl_prompt.URI not in (message.metadata or {}):
        return message
    metadata = {key: value for key, value in (message.metadata or {}).items() if key != hitl_prompt.URI}
    listed = [uri for uri in message.extensions or [] if uri != hitl_prompt.URI]
    return message.model_copy(update={"metadata": metadata or None, "extensions": listed or None})


def stream_response(meta: TaskMeta, event: Event, extensions: frozenset[str]) -> StreamResponse:
    """What a stream says of an event."""
    if event.artifact is not None:
        artifact = TaskArtifactUpdateEvent(
            task_id=meta.task_id,
            context_id=meta.context_id,
            artifact=event.artifact,
            append=event.append,
            last_chunk=event.last_chunk,
        )
        return StreamResponse(artifact_update=artifact)
    if event.status is None:
        raise AssertionError("an event with neither status nor artifact")
    status = TaskStatusUpdateEvent(
        task_id=meta.task_id, context_id=meta.context_id, status=shown_status(event.status, extensions)
    )
    return StreamResponse(status_update=status)
