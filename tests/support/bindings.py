"""Both A2A bindings in the same terms: an operation, its parameters, and what came of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import httpx
from starlette.types import ASGIApp
from tests.support.calls import call

from interlock.a2a.errors import A2AError

HEADERS = {"A2A-Version": "1.0"}

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a request came to, without what only its binding says.

    `error` has `message` and `details`, and beside them what an extension adds.
    """

    http: httpx.Response = field(compare=False)
    code: int = field(compare=False)
    result: Any = None
    error: Mapping[str, Any] | None = None

    def refused(self, expected: type[A2AError]) -> Mapping[str, Any]:
        """The error, which must be this one, on whichever binding."""
        assert self.error is not None, self.result
        assert self.error["details"][0]["reason"] == expected.reason
        assert self.error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
        if self.code < 0:
            assert (self.code, self.http.status_code) == (expected.code, expected.jsonrpc_http_status)
        else:
            assert self.code == self.http.status_code == expected.http_status
        return self.error

    @property
    def task(self) -> Any:
        """Of a send, a read or a cancel that succeeded."""
        assert self.error is None, self.error
        return self.result.get("task", self.result)


class JsonRpc:
    name: ClassVar[str] = "JSON-RPC"

    def path(self, method: str) -> str:
        return "/"

    def body(self, method: str, params: bytes) -> bytes:
        return b'{"jsonrpc": "2.0", "id": 1, "method": "%s", "params": %s}' % (method.encode(), params)

    def request(
        self,
        app: ASGIApp,
        method: str,
        params: Params,
        who: str | None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        body = self.body(method, json.dumps(params).encode())
        return call(app, "POST", "/", who=who, body=body, headers=headers)

    def outcome(self, response: httpx.Response) -> Outcome:
        body = response.json()
        assert body["jsonrpc"] == "2.0"
        if "error" not in body:
            assert (response.status_code, body["id"]) == (200, 1)
            return Outcome(response, 0, result=body["result"])
        error = body["error"]
        data = error["data"]
        members = {"details": data} if isinstance(data, list) else data
        return Outcome(response, error["code"], error={"message": error["message"], **members})


class HttpJson:
    name: ClassVar[str] = "HTTP+JSON"

    def path(self, method: str) -> str:
        return {"SendMessage": "/message:send"}[method]

    def body(self, method: str, params: bytes) -> bytes:
        return params

    def request(
        self,
        app: ASGIApp,
        method: str,
        params: Params,
        who: str | None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        rest = {name: value for name, value in params.items() if name != "id"}
        path = f"/tasks/{quote(str(params.get('id', '')), safe='')}"
        if method == "SendMessage":
            return call(app, "POST", "/message:send", who=who, body=params, headers=headers)
        if method == "CancelTask":
            return call(app, "POST", f"{path}:cancel", who=who, body=rest or None, headers=headers)
        if method == "ListTasks":
            path = "/tasks"
        query = urlencode({name: json.dumps(v) if isinstance(v, bool) else v for name, v in rest.items()})
        return call(app, "GET", f"{path}?{query}", who=who, headers=headers)

    def outcome(self, response: httpx.Response) -> Outcome:
        body = response.json()
        if "error" not in body:
            assert response.status_code == 200
            return Outcome(response, 0, result=body)
        error = dict(body["error"])
        code = error.pop("code")
        assert error.pop("status").isupper()
        return Outcome(response, code, error=error)


Binding = JsonRpc | HttpJson
BINDINGS: tuple[Binding, ...] = (JsonRpc(), HttpJson())


@dataclass
class Client:
    """Calls one app by one binding, and keeps what it was told."""

    app: ASGIApp
    binding: Binding
    told: list[Outcome] = field(default_factory=list)

    def call(
        self,
        method: str,
        params: Params,
        who: str | None = "agent",
        headers: Mapping[str, str] | None = None,
    ) -> Outcome:
        response = self.binding.request(self.app, method, params, who, {**HEADERS, **(headers or {})})
        return self._told(response)

    def send_bytes(
        self, params: bytes, who: str | None = "agent", headers: Mapping[str, str] | None = None
    ) -> Outcome:
        """A SendMessage whose parameters are these bytes, whatever they are."""
        body = self.binding.body("SendMessage", params)
        path = self.binding.path("SendMessage")
        sent = {**HEADERS, **(headers or {})}
        return self._told(call(self.app, "POST", path, who=who, body=body, headers=sent))

    def _told(self, response: httpx.Response) -> Outcome:
        outcome = self.binding.outcome(response)
        self.told.append(outcome)
        return outcome
