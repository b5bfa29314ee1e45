"""What 0.3 clients send (A2A 0.3.0, types/src/types.ts), and the 1.0 request that it means."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StrictBool, model_validator

from interlock.a2a import models
from interlock.a2a.models import (
    MAX_PARTS,
    Base64,
    Identifier,
    Int32,
    JsonObject,
    OptionalIdentifier,
    OptionalText,
    Texts,
    Wire,
)

WRAPPED = "data_part_compat"
"""In a part's metadata: its data is the `value` of the object in its place, as the official SDK has it."""


class Kind(StrEnum):
    TEXT = "text"
    FILE = "file"
    DATA = "data"


class Role(StrEnum):
    USER = "user"
    AGENT = "agent"

    @property
    def current(self) -> models.Role:
        return models.Role.USER if self is Role.USER else models.Role.AGENT


class File(Wire):
    """Exactly one of `bytes` (base64) and `uri`."""

    bytes: Base64 | None = None
    uri: str | None = None
    name: OptionalText = None
    mime_type: OptionalText = None

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.bytes is None) == (self.uri is None):
            raise ValueError("exactly one of bytes, uri is required")
        return self


class Part(Wire):
    """The member that `kind` names is required; the others are ignored."""

    kind: Kind
    text: str | None = None
    file: File | None = None
    data: JsonObject | None = None
    metadata: JsonObject | None = None

    @model_validator(mode="after")
    def _content_of_its_kind(self) -> Self:
        if getattr(self, self.kind.value) is None:
            raise ValueError(f"{self.kind.value} is required")
        return self

    @property
    def current(self) -> models.Part:
        if self.kind is Kind.TEXT:
            return models.Part(text=self.text, metadata=self.metadata)
        if self.kind is Kind.DATA:
            data, metadata = _unwrapped(self.data or {}, self.metadata)
            return models.Part(data=data, metadata=metadata)
        file = self.file or File()
        return models.Part(
            raw=file.bytes,
            url=file.uri,
            filename=file.name,
            media_type=file.mime_type,
            metadata=self.metadata,
        )


def _unwrapped(data: JsonObject, metadata: JsonObject | None) -> tuple[JsonValue, JsonObject | None]:
    if metadata is None or metadata.get(WRAPPED) is not True or data.get("value") is None:
        return data, metadata
    return data["value"], {name: value for name, value in metadata.items() if name != WRAPPED} or None


class Message(Wire):
    message_id: Identifier
    role: Role
    parts: Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS)]
    kind: Literal["message"] = "message"
    context_id: OptionalIdentifier = None
    task_id: OptionalIdentifier = None
    metadata: JsonObject | None = None
    extensions: Texts | None = None
    reference_task_ids: Texts | None = None

    @property
    def current(self) -> models.Message:
        return models.Message(
            message_id=self.message_id,
            role=self.role.current,
            parts=[part.current for part in self.parts],
            context_id=self.context_id,
            task_id=self.task_id,
            metadata=self.metadata,
            extensions=self.extensions,
            reference_task_ids=self.reference_task_ids,
        )


HistoryLength = Annotated[Int32, Field(ge=0)]
"""0 is no limit, as in the official SDK of 0.3; in 1.0 it is no history."""


class PushNotificationAuthenticationInfo(Wire):
    schemes: Annotated[Texts, Field(min_length=1)]
    credentials: OptionalText = None


class PushNotificationConfig(Wire):
    url: str
    id: OptionalIdentifier = None
    token: OptionalText = None
    authentication: PushNotificationAuthenticationInfo | None = None

    def current(self, task_id: str | None = None) -> models.TaskPushNotificationConfig:
        authentication = self.authentication
        return models.TaskPushNotificationConfig(
            url=self.url,
            id=self.id,
            task_id=task_id,
            token=self.token,
            authentication=models.AuthenticationInfo(
                scheme=authentication.schemes[0], credentials=authentication.credentials
            )
            if authentication is not None
            else None,
        )


class MessageSendConfiguration(Wire):
    """Only `blocking: false` does not wait: unset means to wait, as in the official SDK."""

    accepted_output_modes: Texts | None = None
    history_length: HistoryLength | None = None
    push_notification_config: PushNotificationConfig | None = None
    blocking: StrictBool | None = None

    @property
    def current(self) -> models.SendMessageConfiguration:
        push = self.push_notification_config
        return models.SendMessageConfiguration(
            accepted_output_modes=self.accepted_output_modes,
            task_push_notification_config=push.current() if push is not None else None,
            history_length=self.history_length or None,
            return_immediately=self.blocking is False,
        )


class MessageSendParams(Wire):
    message: Message
    configuration: MessageSendConfiguration | None = None
    metadata: JsonObject | None = None

    @property
    def current(self) -> models.SendMessageRequest:
        return models.SendMessageRequest(
            message=self.message.current,
            configuration=self.configuration.current if self.configuration is not None else None,
            metadata=self.metadata,
        )


class TaskIdParams(Wire):
    id: Identifier
    metadata: JsonObject | None = None


class TaskQueryParams(TaskIdParams):
    history_length: HistoryLength | None = None


class TaskPushNotificationConfig(Wire):
    task_id: Identifier
    push_notification_config: PushNotificationConfig


class GetTaskPushNotificationConfigParams(TaskIdParams):
    push_notification_config_id: OptionalIdentifier = None


class DeleteTaskPushNotificationConfigParams(TaskIdParams):
    push_notification_config_id: Identifier
