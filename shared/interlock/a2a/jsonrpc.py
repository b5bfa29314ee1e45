"""The JSON-RPC 2.0 binding (A2A 1.0.1, section 9): one URL, the method in the body.

Errors travel with HTTP 200, except the refusals 401 and 403, and 413 for a body that was not read.
"""

import json
from collections.abc import Iterable, Mapping

from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.a2a import strict_json
from interlock.a2a.body import read_body
from interlock.a2a.card import PROTOCOL_VERSION_0_3
from interlock.a2a.errors import A2AError, InvalidParams, InvalidRequest, MethodNotFound
from interlock.a2a.models import Wire
from interlock.a2a.negotiation import (
    EXTENSIONS,
    EXTENSIONS_0_3,
    JSON,
    asked_version,
    check_content_type,
    check_version,
    echo,
)
from interlock.a2a.operations import Operation, Server, error_headers, parse, told
from interlock.a2a.sse import OpenStream

MAX_ID_LENGTH = 256
MAX_DEPTH = strict_json.MAX_DEPTH + 1
"""The envelope is one level around what the other binding gets."""

Id = str | int | None
_BAD_ID = f"id must be an integer or a string of at most {MAX_ID_LENGTH} characters"


class JsonRpc:
    """An ASGI app for `POST` of one request object. `versions` are those it serves, with their methods."""

    def __init__(self, server: Server, versions: Mapping[str, Iterable[Operation]]) -> None:
        self._server = server
        self._versions = {
            version: {operation.name: operation for operation in operations}
            for version, operations in versions.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, http: Request) -> Response:
        request_id: Id = None
        activated = self._server.extensions.activate(http.headers)
        headers = echo(activated, self._extensions_header(http))
        try:
            check_content_type(http.headers)
            envelope = await self._envelope(http)
            request_id = _id(envelope)
            result = await self._result(http, activated, envelope)
            if isinstance(result, OpenStream):
                return result.response(
                    headers,
                    lambda event: _result_body(request_id, event),
                    lambda exc: error_body(request_id, told(exc, "a JSON-RPC stream")),
                )
        except Exception as exc:  # noqa: BLE001 (`told` logs what is not the protocol's own)
            error = told(exc, "a JSON-RPC call")
            headers = {**headers, **error_headers(error)}
            return Response(error_body(request_id, error), error.jsonrpc_http_status, headers, JSON)
        return Response(_result_body(request_id, result), 200, headers, JSON)

    def _extensions_header(self, http: Request) -> str:
        speaks_0_3 = asked_version(http) == PROTOCOL_VERSION_0_3 and PROTOCOL_VERSION_0_3 in self._versions
        return EXTENSIONS_0_3 if speaks_0_3 else EXTENSIONS

    async def _envelope(self, http: Request) -> Mapping[str, JsonValue]:
        body = await read_body(http, self._server.max_body)
        value = strict_json.loads(body, max_bytes=self._server.max_body, max_depth=MAX_DEPTH)
        if isinstance(value, list):
            raise InvalidRequest("Batch requests are not supported")
        if not isinstance(value, dict):
            raise InvalidRequest("A request must be an object")
        return value

    async def _result(
        self, http: Request, activated: frozenset[str], envelope: Mapping[str, JsonValue]
    ) -> str | OpenStream:
        method, params = _call(envelope)
        version = check_version(http, self._versions)
        self._server.extensions.check_required(activated)
        operation = self._versions[version].get(method)
        if operation is None:
            raise MethodNotFound(f"A2A {version} has no such method")
        if not isinstance(params, dict):
            raise InvalidParams("params must be an object")

        def request(model: type[Wire]) -> Wire:
            parsed = parse(model, params)
            if "id" not in envelope:
                raise InvalidRequest(_BAD_ID)  # a notification, and every operation has an answer
            return parsed

        return await self._server.call(operation, http, activated, request)


def _result_body(request_id: Id, result: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{json.dumps(request_id)},"result":{result}}}'


def error_body(request_id: Id, error: A2AError) -> str:
    """`data` is the list of details, or an object around it where an extension adds members."""
    data: JsonValue = error.details
    if error.extension_data is not None:
        data = {**error.extension_data, "details": data}
    return json.dumps(
        {
            "jsonrpc": "2.0",
            "id": request_id,
            "error": {"code": error.code, "message": error.message, "data": data},
        }
    )


def _id(envelope: Mapping[str, JsonValue]) -> Id:
    """The id where it is one that can be answered to, else None."""
    value = envelope.get("id")
    if isinstance(value, str) and len(value) <= MAX_ID_LENGTH:
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _call(envelope: Mapping[str, JsonValue]) -> tuple[str, JsonValue]:
    """Method and parameters. A missing id is the last thing that is looked at."""
    if "id" in envelope and _id(envelope) is None:
        raise InvalidRequest(_BAD_ID)
    if envelope.get("jsonrpc") != "2.0":
        raise InvalidRequest('jsonrpc must be "2.0"')
    method = envelope.get("method")
    if not isinstance(method, str):
        raise InvalidRequest("method must be a string")
    params = envelope.get("params")
    return method, {} if params is None else params
