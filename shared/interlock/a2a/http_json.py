"""The HTTP+JSON binding (A2A 1.0.1, section 11): paths below an interface URL, each also below `/{tenant}`.

A tenant can not be called `tasks`: as a prefix it reads like the collection.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from interlock.a2a import operations, strict_json
from interlock.a2a.body import read_body
from interlock.a2a.errors import (
    A2AError,
    FieldViolation,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotAllowed,
    MethodNotFound,
    RequestContentTypeNotSupported,
)
from interlock.a2a.models import JsonObject, Wire
from interlock.a2a.negotiation import check_content_type, check_version, echo, response_media_type
from interlock.a2a.operations import Operation, Server, error_headers, parse, parse_query, told
from interlock.a2a.sse import OpenStream

V = TypeVar("V")

_PATHS: Mapping[str, Mapping[str, Operation]] = {
    "/message:send": {"POST": operations.SEND_MESSAGE},
    "/message:stream": {"POST": operations.SEND_STREAMING_MESSAGE},
    "/tasks": {"GET": operations.LIST_TASKS},
    "/tasks/{id}:cancel": {"POST": operations.CANCEL_TASK},
    # The specification's text says POST, its protobuf says GET.
    "/tasks/{id}:subscribe": {
        "GET": operations.SUBSCRIBE_TO_TASK,
        "POST": operations.SUBSCRIBE_TO_TASK,
    },
    "/tasks/{id}": {"GET": operations.GET_TASK},
    "/tasks/{taskId}/pushNotificationConfigs": {
        "GET": operations.LIST_PUSH_CONFIGS,
        "POST": operations.CREATE_PUSH_CONFIG,
    },
    "/tasks/{taskId}/pushNotificationConfigs/{id}": {
        "DELETE": operations.DELETE_PUSH_CONFIG,
        "GET": operations.GET_PUSH_CONFIG,
    },
    "/extendedAgentCard": {"GET": operations.GET_EXTENDED_CARD},
}
"""A path with a verb comes before the one that would take the verb for a part of the id."""


def routes(server: Server, below: str = "") -> list[Route]:
    """`below` is the path that they all begin with."""
    return [
        Route(below + prefix + path, Resource(server, methods))
        for prefix in ("", "/{tenant}")
        for path, methods in _PATHS.items()
    ]


class Resource:
    """An ASGI app for one path: an operation for each HTTP method."""

    def __init__(self, server: Server, methods: Mapping[str, Operation]) -> None:
        self._server = server
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(Request(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, http: Request) -> Response:
        media_type = response_media_type(http.headers)
        operation = self._methods.get(http.method)
        if operation is None:
            return error_response(MethodNotAllowed(), media_type, {"allow": ", ".join(sorted(self._methods))})
        activated = self._server.extensions.activate(http.headers)
        headers = echo(activated)
        try:
            if http.method == "POST" and "content-type" in http.headers:
                check_content_type(http.headers)
            check_version(http)
            self._server.extensions.check_required(activated)
            params = await self._params(http)
            result = await self._server.call(operation, http, activated, params)
            if isinstance(result, OpenStream):
                return result.response(
                    headers, lambda event: event, lambda exc: error_body(told(exc, operation.name))
                )
        except Exception as exc:  # noqa: BLE001 (`told` logs what is not the protocol's own)
            return error_response(told(exc, operation.name), media_type, headers)
        if operation.cache_control is not None:
            headers["cache-control"] = operation.cache_control
        return Response(result, 200, headers, media_type)

    async def _params(self, http: Request) -> Callable[[type[Wire]], Wire]:
        """What makes the request object, of the path and the body or the query."""
        path = {name: value for name, value in http.path_params.items() if name != operations.AGENT}
        if http.method == "POST":
            body = await self._body(http)
            return lambda model: parse(model, _bound(body, path))
        query = http.query_params.multi_items()
        params = dict(query)
        if len(params) != len(query):
            raise InvalidParams("A query parameter occurs twice")
        return lambda model: parse_query(model, _bound(params, path))

    async def _body(self, http: Request) -> JsonObject:
        """The object in the body; nothing is an empty one."""
        body = await read_body(http, self._server.max_body)
        if not body:
            return {}
        if "content-type" not in http.headers:
            raise RequestContentTypeNotSupported
        value = strict_json.loads(body, max_bytes=self._server.max_body)
        if not isinstance(value, dict):
            raise InvalidRequest("The body must be an object")
        return value


def _bound(params: Mapping[str, V], path: Mapping[str, str]) -> dict[str, V | str]:
    """The parameters with those of the path, which a body or a query may repeat but not contradict."""
    contradicted = [name for name, value in path.items() if params.get(name, "") not in ("", None, value)]
    if contradicted:
        raise InvalidParams(
            violations=[FieldViolation(name, "must be as in the path") for name in contradicted]
        )
    return {**params, **path}


def error_response(error: A2AError, media_type: str, headers: Mapping[str, str]) -> Response:
    return Response(error_body(error), error.http_status, {**headers, **error_headers(error)}, media_type)


def error_body(error: A2AError) -> str:
    return json.dumps({"error": error_members(error)})


def error_members(error: A2AError) -> dict[str, Any]:
    """Members that an extension adds stand beside `details`."""
    return {
        **(error.extension_data or {}),
        "code": error.http_status,
        "status": error.status,
        "message": error.message,
        "details": error.details,
    }


async def http_exception(request: Request, exc: Exception) -> Response:
    """What the router itself refuses, in the protocol's form."""
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    error = {404: MethodNotFound, 405: MethodNotAllowed}.get(status, InternalError)()
    headers = dict((exc.headers if isinstance(exc, HTTPException) else None) or {})
    return error_response(error, response_media_type(request.headers), headers)
