"""A task as its readers see it, built from META and the events up to META's number."""

from collections.abc import Iterable, Sequence

from interlock.a2a.models import (
    Artifact,
    Message,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from interlock.engine.ports import Page, Table
from interlock.engine.records import Event, TaskMeta, read_event, task_pk
from interlock.oversight import hitl_prompt


def load(table: Table, tenant: str, task_id: str) -> tuple[TaskMeta, list[Event]] | None:
    """One query reads META first and the events after it, newest first.

    So every event up to META's number was written before META was read, and the view is never torn; an event
    above that number was written in between, and is left out.
    """
    rows: list[Page] = []
    cursor: str | None = None
    while True:
        page = table.query(
            task_pk(tenant, task_id), first="EVT#", last="META", descending=True, cursor=cursor
        )
        rows.append(page)
        cursor = page.cursor
        if cursor is None:
            break
    items = [row for page in rows for row in page.rows]
    if not items or items[0][0].sk != "META":
        return None
    meta = TaskMeta.read(items[0][1])
    events = [read_event(item) for key, item in items[1:] if int(key.sk[4:]) <= meta.seq]
    if len(events) != meta.seq:
        raise AssertionError(f"{len(events)} events of a task that has {meta.seq}")
    events.reverse()
    return meta, events


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
) -> Task:
    """The task for a request that activated `extensions`. A history length of 0 omits the history."""
    last = next(event.status for event in reversed(events) if event.status is not None)
    return Task.model_construct(
        id=meta.task_id,
        context_id=meta.context_id,
        status=shown_status(last, extensions),
        artifacts=(artifacts(events) or None) if include_artifacts else None,
        history=_shown_history(history(events), history_length, extensions),
    )


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
