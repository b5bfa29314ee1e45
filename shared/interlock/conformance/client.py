"""A small A2A 1.0 client that sees what a conformance check must see: statuses, headers, error members.

It is deliberately not ours on the wire: replies stay JSON as they came.
"""

import itertools
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from interlock.a2a.models import JsonObject

TIMEOUT_SECONDS = 35.0
"""Longer than a blocking send of any gateway."""
VERSION = "1.0"
WELL_KNOWN = "/.well-known/agent-card.json"


class Binding(StrEnum):
    JSONRPC = "JSONRPC"
    HTTP_JSON = "HTTP+JSON"


class CardError(Exception):
    """There is no usable agent card. The text is fit to be shown."""


@dataclass(frozen=True, slots=True)
class Interface:
    """Where and how an agent is called; `tenant` is to be repeated in every request (section 8.3.2)."""

    url: str
    binding: Binding
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """`result` of a success; else what was refused: `code` is JSON-RPC's, `document` the whole body."""

    status: int
    document: Any
    result: JsonObject | None
    code: int | None
    extensions: frozenset[str]

    @property
    def accepted(self) -> bool:
        return self.result is not None

    def refused_as(self, status: int, code: int) -> bool:
        return not self.accepted and (self.status == status or self.code == code)

    def __str__(self) -> str:
        code = "" if self.code is None else f" {self.code}"
        return f"{self.status}{code}"


def fetch_card(url: str, token: str | None) -> JsonObject:
    """The card of the agent at `url`, or at its host. Raises `CardError` or `httpx.TransportError`."""
    base = url.rstrip("/")
    parts = urlsplit(base)
    places = [base] if base.endswith(".json") else [base + WELL_KNOWN]
    if parts.path and not base.endswith(".json"):
        places.append(f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}")
    with _client(token) as client:
        for place in places:
            reply = client.get(place, headers={"A2A-Version": VERSION})
            if reply.is_success:
                card = _json(reply)
                if isinstance(card, dict):
                    return card
                raise CardError(f"{place} is not a JSON object")
    raise CardError(f"{place} answered {reply.status_code}")


def choose_interface(card: Mapping[str, Any], binding: Binding | None) -> Interface:
    """The first that the card prefers, among those of version 1.0 and of a binding known here."""
    for entry in _objects(card.get("supportedInterfaces")):
        offered = entry.get("protocolBinding")
        version = str(entry.get("protocolVersion")).split(".")[:2]
        if version != VERSION.split(".") or offered not in tuple(Binding):
            continue
        if binding is None or offered == binding:
            return Interface(
                str(entry.get("url")).rstrip("/"), Binding(offered), str(entry.get("tenant") or "")
            )
    raise CardError(f"the card offers no {binding or 'known'} interface of version {VERSION}")


def extension_of(card: Mapping[str, Any], uri: str) -> Mapping[str, Any] | None:
    capabilities = card.get("capabilities")
    listed = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return next((entry for entry in _objects(listed) if str(entry.get("uri")).lower() == uri.lower()), None)


class Client:
    """One connection to an agent. `extension` is activated unless a call says otherwise."""

    def __init__(self, interface: Interface, token: str | None, extension: str) -> None:
        self._interface = interface
        self._extension = extension
        self._http = _client(token)
        self._ids: Iterator[int] = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def send(self, message: JsonObject, *, wait: bool = True, activate: bool = True) -> Reply:
        request: JsonObject = {"message": message}
        if not wait:
            request["configuration"] = {"returnImmediately": True}
        return self._call("SendMessage", "POST", "/message:send", request, activate=activate)

    def get_task(self, task_id: str, *, activate: bool = True) -> Reply:
        path = f"/tasks/{quote(task_id, safe='')}"
        return self._call("GetTask", "GET", path, {"id": task_id}, activate=activate)

    def cancel(self, task_id: str) -> Reply:
        path = f"/tasks/{quote(task_id, safe='')}:cancel"
        return self._call("CancelTask", "POST", path, {"id": task_id}, activate=True)

    def _call(self, method: str, verb: str, path: str, params: JsonObject, *, activate: bool) -> Reply:
        headers = {"A2A-Version": VERSION, "Accept": "application/json"}
        if activate:
            headers["A2A-Extensions"] = self._extension
        tenant = self._interface.tenant
        if self._interface.binding is Binding.JSONRPC:
            body: JsonObject = {
                "jsonrpc": "2.0",
                "id": next(self._ids),
                "method": method,
                "params": {**params, "tenant": tenant} if tenant else params,
            }
            return _jsonrpc_reply(self._http.post(self._interface.url, json=body, headers=headers))
        prefix = f"/{quote(tenant, safe='')}" if tenant else ""
        content = params if path.endswith(":send") else {}
        return _http_reply(
            self._http.request(
                verb,
                f"{self._interface.url}{prefix}{path}",
                json=content if verb == "POST" else None,
                headers=headers,
            )
        )


def _client(token: str | None) -> httpx.Client:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.Client(headers=headers, timeout=TIMEOUT_SECONDS, verify=_trusted())


@cache
def _trusted() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


def _jsonrpc_reply(reply: httpx.Response) -> Reply:
    document = _json(reply)
    result, code = None, None
    if isinstance(document, dict):
        error = document.get("error")
        if isinstance(error, dict) and isinstance(error.get("code"), int):
            code = error["code"]
        elif reply.is_success and isinstance(document.get("result"), dict):
            result = document["result"]
    return Reply(reply.status_code, document, result, code, _activated(reply))


def _http_reply(reply: httpx.Response) -> Reply:
    document = _json(reply)
    result = document if reply.is_success and isinstance(document, dict) else None
    return Reply(reply.status_code, document, result, None, _activated(reply))


def _activated(reply: httpx.Response) -> frozenset[str]:
    listed = reply.headers.get("A2A-Extensions", "").split(",")
    return frozenset(uri.strip().lower() for uri in listed)


def _json(reply: httpx.Response) -> Any:
    try:
        return reply.json()
    except (ValueError, RecursionError):
        return None


def _objects(listed: Any) -> list[dict[str, Any]]:
    return [member for member in listed if isinstance(member, dict)] if isinstance(listed, list) else []
