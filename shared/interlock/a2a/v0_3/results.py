"""What 0.3 clients are told (A2A 0.3.0, types/src/types.ts): bare objects that say their `kind`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import JsonValue

from interlock.a2a.errors import A2AError
from interlock.a2a.models import (
    Artifact,
    JsonObject,
    Message,
    Part,
    Role,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from interlock.a2a.service import EventStream
from interlock.a2a.v0_3.requests import WRAPPED, Kind


@dataclass(frozen=True, slots=True)
class Result:
    """A result in the form of 0.3, for what writes it."""

    value: JsonValue

    def wire_json(self) -> str:
        return json.dumps(self.value, ensure_ascii=False, separators=(",", ":"))


def _state(state: TaskState) -> str:
    if state is TaskState.UNSPECIFIED:
        return "unknown"
    return state.value.removeprefix("TASK_STATE_").lower().replace("_", "-")


def _set(**members: Any) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None}


def part(part: Part) -> JsonObject:
    if part.text is not None:
        return _set(kind=Kind.TEXT.value, text=part.text, metadata=part.metadata)
    if part.raw is None and part.url is None:
        if isinstance(part.data, dict):
            return _set(kind=Kind.DATA.value, data=part.data, metadata=part.metadata)
        wrapped = {**(part.metadata or {}), WRAPPED: True}
        return {"kind": Kind.DATA.value, "data": {"value": part.data}, "metadata": wrapped}
    file = _set(bytes=part.raw, uri=part.url, name=part.filename, mimeType=part.media_type)
    return _set(kind=Kind.FILE.value, file=file, metadata=part.metadata)


def _parts(parts: Sequence[Part]) -> list[JsonValue]:
    return [part(each) for each in parts]


def message(message: Message) -> JsonObject:
    return _set(
        kind="message",
        messageId=message.message_id,
        role="user" if message.role is Role.USER else "agent",
        parts=_parts(message.parts),
        contextId=message.context_id,
        taskId=message.task_id,
        metadata=message.metadata,
        extensions=message.extensions,
        referenceTaskIds=message.reference_task_ids,
    )


def artifact(artifact: Artifact) -> JsonObject:
    return _set(
        artifactId=artifact.artifact_id,
        parts=_parts(artifact.parts),
        name=artifact.name,
        description=artifact.description,
        metadata=artifact.metadata,
        extensions=artifact.extensions,
    )


def _status(status: TaskStatus) -> JsonObject:
    return _set(
        state=_state(status.state),
        message=message(status.message) if status.message is not None else None,
        timestamp=status.timestamp,
    )


def task(task: Task) -> JsonObject:
    return _set(
        kind="task",
        id=task.id,
        contextId=task.context_id or "",
        status=_status(task.status),
        artifacts=[artifact(each) for each in task.artifacts] if task.artifacts is not None else None,
        history=[message(each) for each in task.history] if task.history is not None else None,
        metadata=task.metadata,
    )


def status_update(event: TaskStatusUpdateEvent, *, final: bool) -> JsonObject:
    return _set(
        kind="status-update",
        taskId=event.task_id,
        contextId=event.context_id,
        status=_status(event.status),
        final=final,
        metadata=event.metadata,
    )


def artifact_update(event: TaskArtifactUpdateEvent) -> JsonObject:
    return _set(
        kind="artifact-update",
        taskId=event.task_id,
        contextId=event.context_id,
        artifact=artifact(event.artifact),
        append=event.append,
        lastChunk=event.last_chunk,
        metadata=event.metadata,
    )


def task_or_message(answered: Task | None, said: Message | None) -> JsonObject:
    if answered is not None:
        return task(answered)
    if said is not None:
        return message(said)
    raise AssertionError("a response without a member")


def event(response: StreamResponse, *, final: bool) -> JsonObject:
    """`final` is said of a status only: nothing else ends a stream of updates."""
    if response.status_update is not None:
        return status_update(response.status_update, final=final)
    if response.artifact_update is not None:
        return artifact_update(response.artifact_update)
    return task_or_message(response.task, response.message)


class Events:
    """An `EventStream` in the form of 0.3, event by event."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream

    @property
    def ended(self) -> bool:
        return self._stream.ended

    def read(self) -> list[Result]:
        news = self._stream.read()
        last = len(news) - 1 if self._stream.ended else None
        return [Result(event(response, final=number == last)) for number, response in enumerate(news)]

    def keep_open(self) -> None:
        self._stream.keep_open()

    def close(self) -> None:
        self._stream.close()


class Refused:
    """An `EventStream` of nothing but an error."""

    ended = False

    def __init__(self, error: A2AError) -> None:
        self._error = error

    def read(self) -> NoReturn:
        raise self._error

    def keep_open(self) -> None:
        pass

    def close(self) -> None:
        pass


def push_config(config: TaskPushNotificationConfig) -> JsonObject:
    authentication = config.authentication
    return {
        "taskId": config.task_id or "",
        "pushNotificationConfig": _set(
            id=config.id,
            url=config.url,
            token=config.token,
            authentication=_set(schemes=[authentication.scheme], credentials=authentication.credentials)
            if authentication is not None
            else None,
        ),
    }
