"""The A2A 1.0 data objects (specification/a2a.proto, release 1.0.1) as ProtoJSON.

Input is lenient: camelCase or snake_case names, enum names or numbers, unknown members are ignored. `null`
means unset, and so does the empty string where the proto field has no presence (`contextId`, `tenant`, ...).
Output (`wire()`, `wire_json()`) is strict: camelCase, enum names, nothing unset.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    model_validator,
)
from pydantic.alias_generators import to_camel

MAX_ID_LENGTH = 256
MAX_PARTS = 256
"""Parts of one message or artifact."""
MAX_ENTRIES = 64
"""Entries of every other list that a request may carry."""

JsonObject = dict[str, JsonValue]


def timestamp(at: datetime) -> str:
    """ISO 8601 in UTC with milliseconds and `Z` (specification 5.6.1)."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")[:23] + "Z"


class TaskState(StrEnum):
    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL

    @property
    def interrupted(self) -> bool:
        return self in _INTERRUPTED


_TERMINAL = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
_INTERRUPTED = frozenset({TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED})


class Role(StrEnum):
    UNSPECIFIED = "ROLE_UNSPECIFIED"
    USER = "ROLE_USER"
    AGENT = "ROLE_AGENT"


def _enum_by_number(enum: type[StrEnum]) -> BeforeValidator:
    """ProtoJSON parsers accept an enum's number as well as its name; in a query the number is text."""
    by_number: dict[Any, StrEnum] = {}
    for number, member in enumerate(enum):
        by_number[number] = by_number[str(number)] = member

    def convert(value: Any) -> Any:
        if isinstance(value, int | str) and not isinstance(value, bool):
            return by_number.get(value, value)
        return value

    return BeforeValidator(convert)


def _role_given(role: Role) -> Role:
    if role is Role.UNSPECIFIED:
        raise ValueError("is required")
    return role


def _unspecified_is_unset(state: TaskState | None) -> TaskState | None:
    return None if state is TaskState.UNSPECIFIED else state


def _empty_is_unset(value: Any) -> Any:
    return None if value == "" else value


_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def _rfc_3339(value: Any) -> Any:
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC_3339.fullmatch(value)):
        return value
    raise ValueError("must be an RFC 3339 timestamp")


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be an integer")  # noqa: TRY004 (pydantic reports ValueError)
    return value


StateField = Annotated[TaskState, _enum_by_number(TaskState)]
Int32 = Annotated[int, BeforeValidator(_no_bool), Field(ge=-(2**31), lt=2**31)]
Identifier = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)]
OptionalIdentifier = Annotated[Identifier | None, BeforeValidator(_empty_is_unset)]
OptionalText = Annotated[str | None, BeforeValidator(_empty_is_unset)]
Base64 = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/_-]*={0,2}$")]
PageToken = Annotated[str, Field(max_length=2048)]
Texts = Annotated[list[str], Field(max_length=MAX_ENTRIES)]
Instant = Annotated[datetime, BeforeValidator(_rfc_3339), AfterValidator(_in_utc)]
"""Aware, in UTC."""


class Wire(BaseModel):
    """Base of all wire objects. Models are built on first use, which keeps imports cheap."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True
    )

    def wire(self) -> JsonObject:
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def wire_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True)


class Part(Wire):
    """Exactly one of `text`, `raw` (base64), `url`, `data` (any JSON value but null)."""

    text: str | None = None
    raw: Base64 | None = None
    url: str | None = None
    data: JsonValue = None
    metadata: JsonObject | None = None
    filename: OptionalText = None
    media_type: OptionalText = None

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        contents = (self.text, self.raw, self.url, self.data)
        if sum(content is not None for content in contents) != 1:
            raise ValueError("exactly one of text, raw, url, data is required")
        return self


Parts = Annotated[list[Part], Field(min_length=1, max_length=MAX_PARTS)]


class Message(Wire):
    message_id: Identifier
    role: Annotated[Role, _enum_by_number(Role), AfterValidator(_role_given)]
    parts: Parts
    context_id: OptionalIdentifier = None
    task_id: OptionalIdentifier = None
    metadata: JsonObject | None = None
    extensions: Texts | None = None
    reference_task_ids: Texts | None = None

    @property
    def text(self) -> str:
        """The text parts, joined by line breaks."""
        return "\n".join(part.text for part in self.parts if part.text is not None)


class Artifact(Wire):
    artifact_id: Identifier
    parts: Parts
    name: str | None = None
    description: str | None = None
    metadata: JsonObject | None = None
    extensions: list[str] | None = None


class TaskStatus(Wire):
    state: StateField
    message: Message | None = None
    timestamp: str | None = None


class Task(Wire):
    id: str
    context_id: str | None = None
    status: TaskStatus
    artifacts: list[Artifact] | None = None
    history: list[Message] | None = None
    metadata: JsonObject | None = None


class TaskStatusUpdateEvent(Wire):
    task_id: str
    context_id: str
    status: TaskStatus
    metadata: JsonObject | None = None


class TaskArtifactUpdateEvent(Wire):
    task_id: str
    context_id: str
    artifact: Artifact
    append: bool | None = None
    last_chunk: bool | None = None
    metadata: JsonObject | None = None


class StreamResponse(Wire):
    """Exactly one member is set."""

    task: Task | None = None
    message: Message | None = None
    status_update: TaskStatusUpdateEvent | None = None
    artifact_update: TaskArtifactUpdateEvent | None = None


class AuthenticationInfo(Wire):
    scheme: str
    credentials: OptionalText = None


class TaskPushNotificationConfig(Wire):
    url: str
    tenant: OptionalText = None
    id: OptionalIdentifier = None
    task_id: OptionalIdentifier = None
    token: OptionalText = None
    authentication: AuthenticationInfo | None = None


class SendMessageConfiguration(Wire):
    accepted_output_modes: Texts | None = None
    task_push_notification_config: TaskPushNotificationConfig | None = None
    history_length: Annotated[Int32, Field(ge=0)] | None = None
    return_immediately: StrictBool | None = None


class SendMessageRequest(Wire):
    message: Message
    tenant: OptionalText = None
    configuration: SendMessageConfiguration | None = None
    metadata: JsonObject | None = None


class SendMessageResponse(Wire):
    """Exactly one member is set."""

    task: Task | None = None
    message: Message | None = None


class GetTaskRequest(Wire):
    id: Identifier
    tenant: OptionalText = None
    history_length: Annotated[Int32, Field(ge=0)] | None = None


class SubscribeToTaskRequest(Wire):
    id: Identifier
    tenant: OptionalText = None


class CancelTaskRequest(Wire):
    id: Identifier
    tenant: OptionalText = None
    metadata: JsonObject | None = None


class GetExtendedAgentCardRequest(Wire):
    tenant: OptionalText = None


class ListTasksRequest(Wire):
    tenant: OptionalText = None
    context_id: OptionalIdentifier = None
    status: Annotated[StateField | None, AfterValidator(_unspecified_is_unset)] = None
    page_size: Annotated[Int32, Field(ge=1, le=100)] | None = None
    page_token: Annotated[PageToken | None, BeforeValidator(_empty_is_unset)] = None
    history_length: Annotated[Int32, Field(ge=0)] | None = None
    status_timestamp_after: Instant | None = None
    include_artifacts: StrictBool | None = None


class GetTaskPushNotificationConfigRequest(Wire):
    task_id: Identifier
    id: Identifier
    tenant: OptionalText = None


class DeleteTaskPushNotificationConfigRequest(Wire):
    task_id: Identifier
    id: Identifier
    tenant: OptionalText = None


class ListTaskPushNotificationConfigsRequest(Wire):
    task_id: Identifier
    tenant: OptionalText = None
    page_size: Annotated[Int32, Field(ge=0, le=100)] | None = None
    page_token: Annotated[str, Field(max_length=2048)] | None = None


class ListTaskPushNotificationConfigsResponse(Wire):
    """Both members are always present."""

    configs: list[TaskPushNotificationConfig]
    next_page_token: str


class Empty(Wire):
    """`google.protobuf.Empty`."""


class ListTasksResponse(Wire):
    """All four members are always present, whatever their value."""

    tasks: list[Task]
    next_page_token: str
    page_size: int
    total_size: int
