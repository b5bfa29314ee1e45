"""What the two bindings call: the operations of A2A 1.0 (section 3.1), free of any transport."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from interlock.a2a.address import Address
from interlock.a2a.card import PROTOCOL_VERSION, AgentCard
from interlock.a2a.models import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SendMessageResponse,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a request carries beside its parameters (section 3.2.6).

    `credential` is the `Authorization` header as received, or None. `extensions` are the URIs that
    are both requested and supported, as declared in the card. `idempotency_key` is the header's
    value, unchecked. `address` is where the request came, for operations that are about it. `version` is that
    of the protocol it came in. `traceparent` is the header of W3C Trace Context, unchecked. `agent` is the
    name in the path, unchecked, where several agents have addresses of their own here.
    """

    credential: str | None = None
    extensions: frozenset[str] = field(default_factory=frozenset)
    idempotency_key: str | None = None
    address: Address | None = None
    version: str = PROTOCOL_VERSION
    traceparent: str | None = None
    agent: str | None = None


class EventStream(Protocol):
    """The events of one task, read from where they are kept; nothing is pushed into it."""

    @property
    def ended(self) -> bool:
        """Whether nothing more will come. What was read already is still to be sent."""

    def read(self) -> Sequence[StreamResponse]:
        """What is new since the last call, the current task first; empty if nothing is."""

    def keep_open(self) -> None:
        """Called now and then while the stream is open. Raises `A2AError` when it must end."""

    def close(self) -> None:
        """Called exactly once, however the stream ended."""


class A2AService(Protocol):
    """Each method raises `A2AError` and nothing else that a caller may see."""

    def send_message(self, context: CallContext, request: SendMessageRequest) -> SendMessageResponse: ...

    def get_task(self, context: CallContext, request: GetTaskRequest) -> Task: ...

    def list_tasks(self, context: CallContext, request: ListTasksRequest) -> ListTasksResponse: ...

    def cancel_task(self, context: CallContext, request: CancelTaskRequest) -> Task: ...

    def send_streaming_message(self, context: CallContext, request: SendMessageRequest) -> EventStream: ...

    def subscribe_to_task(self, context: CallContext, request: SubscribeToTaskRequest) -> EventStream: ...

    def create_push_config(
        self, context: CallContext, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig: ...

    def get_push_config(
        self, context: CallContext, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig: ...

    def list_push_configs(
        self, context: CallContext, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse: ...

    def delete_push_config(
        self, context: CallContext, request: DeleteTaskPushNotificationConfigRequest
    ) -> Empty: ...

    def get_extended_agent_card(
        self, context: CallContext, request: GetExtendedAgentCardRequest
    ) -> AgentCard: ...

    def authenticate(self, context: CallContext) -> None:
        """Raises `Unauthenticated` unless the credential is valid: for what needs no task."""
