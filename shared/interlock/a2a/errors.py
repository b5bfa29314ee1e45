"""Every error the protocol can answer with (A2A 1.0.1, section 5.4).

An `A2AError` is what a caller is told: its texts are bounded and written by us, never taken from an
exception or from another party's input. The bindings turn it into their own wire form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

ERROR_DOMAIN = "a2a-protocol.org"


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One row of a `google.rpc.BadRequest`: the field's path on the wire, and what is wrong."""

    field: str
    description: str


class A2AError(Exception):
    """An error in the protocol's own terms.

    `metadata` becomes `ErrorInfo.metadata` (strings only). `extension_data`, when given, are members
    an extension adds: on JSON-RPC they make `error.data` an object, on HTTP+JSON they stand beside
    `details`. `retry_after` is in seconds.
    """

    code: ClassVar[int] = -32603
    http_status: ClassVar[int] = 500
    status: ClassVar[str] = "INTERNAL"
    reason: ClassVar[str] = "INTERNAL_ERROR"
    text: ClassVar[str] = "Internal error"
    jsonrpc_http_status: ClassVar[int] = 200
    """JSON-RPC errors travel with HTTP 200, except the refusals 401 and 403."""

    def __init__(
        self,
        message: str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
        extension_data: Mapping[str, JsonValue] | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.message = message or self.text
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)
        self.extension_data = dict(extension_data) if extension_data is not None else None
        self.retry_after = retry_after
        super().__init__(self.message)

    @property
    def details(self) -> list[JsonValue]:
        """The error's `google.rpc` details: `ErrorInfo`, and `BadRequest` where fields are at fault."""
        details: list[JsonValue] = [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.reason,
                "domain": ERROR_DOMAIN,
                "metadata": dict(self.metadata),
            }
        ]
        if self.violations:
            violations: list[JsonValue] = [
                {"field": violation.field, "description": violation.description}
                for violation in self.violations
            ]
            details.append(
                {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
            )
        return details


class InternalError(A2AError):
    pass


class Unavailable(A2AError):
    """The store did not answer in time, or too many conflicts: nothing was decided, try again."""

    http_status = 503
    status = "UNAVAILABLE"
    reason = "UNAVAILABLE"
    text = "Temporarily unavailable, try again"


class ParseError(A2AError):
    code = -32700
    http_status = 400
    status = "INVALID_ARGUMENT"
    reason = "PARSE_ERROR"
    text = "The body is not valid JSON"


class InvalidRequest(A2AError):
    code = -32600
    http_status = 400
    status = "INVALID_ARGUMENT"
    reason = "INVALID_REQUEST"
    text = "Invalid request"


class RequestTooLarge(InvalidRequest):
    http_status = 413
    jsonrpc_http_status = 413
    reason = "REQUEST_TOO_LARGE"
    text = "The body is larger than the limit"


class MethodNotFound(A2AError):
    code = -32601
    http_status = 404
    status = "NOT_FOUND"
    reason = "METHOD_NOT_FOUND"
    text = "Method not found"


class MethodNotAllowed(MethodNotFound):
    """The path is known, the HTTP method is not one of its own: plain HTTP semantics, 405."""

    http_status = 405
    status = "UNIMPLEMENTED"
    reason = "METHOD_NOT_ALLOWED"
    text = "Method not allowed on this path"


class InvalidParams(A2AError):
    code = -32602
    http_status = 400
    status = "INVALID_ARGUMENT"
    reason = "INVALID_PARAMS"
    text = "Invalid parameters"


class Unauthenticated(A2AError):
    """No credential, or one that is not (or no longer) valid."""

    code = -32600
    http_status = 401
    jsonrpc_http_status = 401
    status = "UNAUTHENTICATED"
    reason = "UNAUTHENTICATED"
    text = "Authentication required"


class PermissionDenied(A2AError):
    code = -32600
    http_status = 403
    jsonrpc_http_status = 403
    status = "PERMISSION_DENIED"
    reason = "PERMISSION_DENIED"
    text = "Permission denied"


class TaskNotFound(A2AError):
    code = -32001
    http_status = 404
    status = "NOT_FOUND"
    reason = "TASK_NOT_FOUND"
    text = "Task not found"


class TaskNotCancelable(A2AError):
    code = -32002
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "TASK_NOT_CANCELABLE"
    text = "The task is in a terminal state and can not be canceled"


class PushNotificationNotSupported(A2AError):
    code = -32003
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"
    text = "Push notifications are not supported"


class UnsupportedOperation(A2AError):
    code = -32004
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "UNSUPPORTED_OPERATION"
    text = "This operation is not supported"


class ContentTypeNotSupported(A2AError):
    code = -32005
    http_status = 400
    status = "INVALID_ARGUMENT"
    reason = "CONTENT_TYPE_NOT_SUPPORTED"
    text = "Content type not supported"


class RequestContentTypeNotSupported(ContentTypeNotSupported):
    """The request's own `Content-Type`: plain HTTP semantics, 415, on HTTP+JSON."""

    http_status = 415


class ExtendedAgentCardNotConfigured(A2AError):
    code = -32007
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
    text = "There is no extended agent card"


class ExtensionSupportRequired(A2AError):
    code = -32008
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "EXTENSION_SUPPORT_REQUIRED"
    text = "A required extension was not activated"


class VersionNotSupported(A2AError):
    code = -32009
    http_status = 400
    status = "FAILED_PRECONDITION"
    reason = "VERSION_NOT_SUPPORTED"
    text = "This A2A version is not supported"
