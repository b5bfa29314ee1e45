"""What the two bindings call: the operations of A2A 1.0 (section 3.1), free of any transport."""

from dataclasses import dataclass, field
from typing import Protocol

from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SendMessageRequest,
    SendMessageResponse,
    Task,
)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a request carries beside its parameters (section 3.2.6).

    `credential` is the `Authorization` header as received, or None. `extensions` are the URIs that
    are both requested and supported, as declared in the card. `idempotency_key` is the header's
    value, unchecked.
    """

    credential: str | None = None
    extensions: frozenset[str] = field(default_factory=frozenset)
    idempotency_key: str | None = None


class A2AService(Protocol):
    """Each method raises `A2AError` and nothing else that a caller may see."""

    def send_message(self, context: CallContext, request: SendMessageRequest) -> SendMessageResponse: ...

    def get_task(self, context: CallContext, request: GetTaskRequest) -> Task: ...

    def list_tasks(self, context: CallContext, request: ListTasksRequest) -> ListTasksResponse: ...

    def cancel_task(self, context: CallContext, request: CancelTaskRequest) -> Task: ...

    def authenticate(self, context: CallContext) -> None:
        """Raises `Unauthenticated` unless the credential is valid: for what needs no task."""
