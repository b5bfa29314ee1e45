"""The two bindings as a client speaks them: operations to HTTP requests, and answers to results.

JSON-RPC (A2A 1.0.1, section 9) and HTTP+JSON (section 11). Of a peer's error only the code and the reason are
taken: the texts are ours.
"""

import json
import re
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import quote, urlencode

from pydantic import JsonValue

from interlock.a2a import errors, strict_json
from interlock.a2a.errors import A2AError
from interlock.a2a.models import JsonObject
from interlock.adapters.outbound import Answer
from interlock.adapters.peer_http import Request
from interlock.engine.peers import PeerRefused, PeerUnreachable

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_ANSWER_DEPTH = strict_json.MAX_DEPTH + 8
"""More is around a part in an answer than in the request that it came with."""
JSON_TYPES = ("application/json", "application/a2a+json")

_ERRORS: tuple[type[A2AError], ...] = (
    errors.ParseError,
    errors.InvalidRequest,
    errors.MethodNotFound,
    errors.InvalidParams,
    errors.TaskNotFound,
    errors.TaskNotCancelable,
    errors.PushNotificationNotSupported,
    errors.UnsupportedOperation,
    errors.ContentTypeNotSupported,
    errors.ExtendedAgentCardNotConfigured,
    errors.ExtensionSupportRequired,
    errors.VersionNotSupported,
)
_REFUSALS: tuple[type[A2AError], ...] = (
    errors.Unauthenticated,
    errors.PermissionDenied,
    errors.RequestTooLarge,
)
"""These share the code of `InvalidRequest`."""
_BY_CODE: Mapping[int, type[A2AError]] = {error.code: error for error in _ERRORS}
_BY_REASON: Mapping[str, type[A2AError]] = {error.reason: error for error in (*_ERRORS, *_REFUSALS)}
_BY_STATUS: Mapping[int, type[A2AError]] = {error.http_status: error for error in _REFUSALS}

_A2A_CODES = range(-32099, -32000)
"""For errors of the protocol's own (section 9.5)."""
_INVALID_AGENT_RESPONSE = -32006
"""The agent has run."""

_REDIRECTS = (301, 302, 307, 308)
_TRY_AGAIN = (408, 425, 429)
_NOT_IMPLEMENTED = 501

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_UNAVAILABLE = 503
_HALTED = "HALTED"
_REASON = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
"""Form and length of `google.rpc.ErrorInfo.reason`."""


class Binding(Protocol):
    def request(self, url: str, tenant: str | None, operation: str, params: JsonObject) -> Request:
        """`operation` is the method's name in JSON-RPC, `params` what it has there except the tenant."""

    def result(self, answer: Answer) -> JsonValue:
        """Raises `PeerRefused`, or `PeerUnreachable` for an answer that leaves open what happened."""


class JsonRpc:
    def request(self, url: str, tenant: str | None, operation: str, params: JsonObject) -> Request:
        addressed = {**params, "tenant": tenant} if tenant is not None else params
        # One request a connection: its id has nothing to tell apart.
        return Request(
            "POST", url, _body({"jsonrpc": "2.0", "id": 1, "method": operation, "params": addressed})
        )

    def result(self, answer: Answer) -> JsonValue:
        if refuses(answer):
            error = _refusal(answer)
            raise _refused(answer.status, _code(error), error.get("data"))
        reply = read_object(answer)
        if reply.get("jsonrpc") != "2.0":
            raise PeerUnreachable("the answer is not one of JSON-RPC")
        if "error" in reply:
            error = _object(reply["error"])
            code = _code(error)
            _check_halted(error.get("data"))
            # Any other code may as well say that it went wrong half way.
            if (
                code is None
                or code == _INVALID_AGENT_RESPONSE
                or not (code in _A2A_CODES or code in _BY_CODE)
            ):
                raise PeerUnreachable("the peer failed")
            raise _refused(answer.status, code, error.get("data"))
        if reply.get("id") != 1 or "result" not in reply:
            raise PeerUnreachable("the answer is not to the call")
        return reply["result"]


class HttpJson:
    def request(self, url: str, tenant: str | None, operation: str, params: JsonObject) -> Request:
        base = url.rstrip("/") + (f"/{_segment(tenant)}" if tenant is not None else "")
        rest = dict(params)
        task = f"{base}/tasks/{_segment(str(rest.pop('id', '')))}"
        query = f"?{urlencode(rest)}" if rest else ""
        match operation:
            case "SendMessage":
                return Request("POST", f"{base}/message:send", _body(rest))
            case "CancelTask":
                return Request("POST", f"{task}:cancel", _body(rest))
            case "GetTask":
                return Request("GET", task + query)
            case "ListTasks":
                return Request("GET", f"{base}/tasks{query}")
        raise ValueError(operation)

    def result(self, answer: Answer) -> JsonValue:
        if answer.status == _UNAVAILABLE:
            _check_halted(_refusal(answer).get("details"))
        if refuses(answer):
            details = _refusal(answer).get("details")
            known = _BY_REASON.get(_reason(details) or "")
            raise _refused(answer.status, known.code if known is not None else None, details)
        return read_object(answer)


BINDINGS: Mapping[str, Binding] = {"JSONRPC": JsonRpc(), "HTTP+JSON": HttpJson()}
"""By their names in the card."""


def refuses(answer: Answer) -> bool:
    """Whether the status is a certain no; False is a yes. Raises `PeerUnreachable` where it is neither."""
    status = answer.status
    if 200 <= status < 300:
        return False
    if status in (*_REDIRECTS, _NOT_IMPLEMENTED) or (400 <= status < 500 and status not in _TRY_AGAIN):
        return True
    raise PeerUnreachable(f"the answer was {status}")


def read_object(answer: Answer) -> JsonObject:
    """The object in a body. Raises `PeerUnreachable`."""
    if answer.content_type not in JSON_TYPES:
        raise PeerUnreachable("the answer is not JSON")
    try:
        value = strict_json.loads(answer.body or b"", max_bytes=MAX_ANSWER_BYTES, max_depth=MAX_ANSWER_DEPTH)
    except A2AError:
        raise PeerUnreachable("the answer is not JSON") from None
    if not isinstance(value, dict):
        raise PeerUnreachable("the answer is not an object")
    return value


def _refusal(answer: Answer) -> JsonObject:
    """The `error` of a refusal, or nothing where it has none: the status has said it all."""
    try:
        return _object(read_object(answer).get("error"))
    except PeerUnreachable:
        return {}


def _check_halted(details: JsonValue) -> None:
    """Raises `PeerRefused` where a server like ours says that it is halted: then nothing was started."""
    if _reason(details) == _HALTED:
        raise PeerRefused("the peer is halted", reason=_HALTED)


def _refused(status: int, code: int | None, details: JsonValue) -> PeerRefused:
    reason = _reason(details)
    known = _BY_REASON.get(reason or "") or _BY_STATUS.get(status) or _BY_CODE.get(code or 0)
    if known is not None:
        said = known.text
    elif status in _REDIRECTS:
        said = "it redirects, which is not followed"
    else:
        said = f"error {code}" if code is not None else f"status {status}"
    if reason is None and code is not None and known is not None:
        reason = known.reason
    return PeerRefused(f"the peer refused: {said}", code=code, reason=reason)


def _reason(details: JsonValue) -> str | None:
    """Where an extension adds members, JSON-RPC has an object around the details."""
    listed = details.get("details") if isinstance(details, dict) else details
    for detail in listed if isinstance(listed, list) else []:
        reason = _object(detail).get("reason")
        if _object(detail).get("@type") == _ERROR_INFO and isinstance(reason, str):
            return reason if _REASON.fullmatch(reason) else None
    return None


def _code(error: JsonObject) -> int | None:
    code = error.get("code")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _segment(text: str) -> str:
    return quote(text, safe="")


def _body(value: JsonObject) -> bytes:
    return json.dumps(value).encode()
