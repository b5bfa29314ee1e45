"""Agents that say what a test wants, well or ill, and clients for them."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.receivers import PUBLIC_NAME, Authority, Receiver, receiving, reply

from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_cards import WELL_KNOWN
from interlock.adapters.peer_directory import Directory, nothing
from interlock.adapters.peers import HttpPeers

Say = Callable[[BaseHTTPRequestHandler], None]

TASK: Mapping[str, Any] = {
    "id": "task-1",
    "contextId": "context-1",
    "status": {"state": "TASK_STATE_WORKING"},
}


def interface(url: str, binding: str = "JSONRPC", version: str = "1.0", **more: Any) -> dict[str, Any]:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version, **more}


def card(*interfaces: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """With members that a client has no use for, and such as are empty."""
    return {"name": "peer", "skills": [], "provider": None, "supportedInterfaces": list(interfaces), **more}


def say(value: object, status: int = 200, content_type: str = "application/json") -> Say:
    return reply(json.dumps(value).encode(), status, content_type)


def result(value: object) -> Say:
    return say({"jsonrpc": "2.0", "id": 1, "result": value})


def error(code: int, **more: Any) -> Say:
    return say({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", **more}})


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Hangs up in the middle of the answer."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"jsonrpc": "2.0", ')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang(handler: BaseHTTPRequestHandler) -> None:
    """Until the other side has had enough."""
    handler.connection.settimeout(30)
    handler.connection.recv(1)


@dataclass
class Peer:
    """`card` and `answers` are said in turn, the last one for ever."""

    receiver: Receiver
    url: str
    card: list[Say]
    answers: list[Say]

    @property
    def calls(self) -> list[tuple[str, str, dict[str, str], Any]]:
        """Method, path, headers (by lower-case names) and body of each request but those for the card."""
        return [
            (
                method,
                path,
                {name.lower(): value for name, value in headers.items()},
                json.loads(body) if body else None,
            )
            for method, path, headers, body in self.receiver.requests
            if not path.endswith(WELL_KNOWN)
        ]

    @property
    def card_reads(self) -> int:
        return len(self.receiver.requests) - len(self.calls)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        said = self.card if handler.path.endswith(WELL_KNOWN) else self.answers
        (said.pop(0) if len(said) > 1 else said[0])(handler)


@contextmanager
def peer(
    *answers: Say, bindings: tuple[str, ...] = ("JSONRPC",), authority: Authority | None = None
) -> Iterator[Peer]:
    """Its card has itself with `bindings`. With an authority it is at `PUBLIC_NAME`, over TLS."""
    tls = authority.server(PUBLIC_NAME) if authority is not None else None
    with receiving(tls=tls) as receiver:
        url = receiver.url if authority is None else f"https://{PUBLIC_NAME}:{receiver.port}"
        own = card(*(interface(url, binding) for binding in bindings))
        served = Peer(receiver, url, [say(own)], list(answers))
        receiver.answer = served.answer
        yield served


@dataclass
class Time:
    """A clock that whoever sleeps moves on."""

    at: float = 0.0
    slept: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds


class RealTime(Time):
    """One that goes on by itself; sleeping takes none of it."""

    def now(self) -> float:
        return time.monotonic()


def client(clock: Time | None = None, *, outbound: Outbound | None = None, **seconds: float) -> HttpPeers:
    """Of a laptop, unless `outbound` says otherwise; no peers are configured."""
    clock, chosen = clock or Time(), outbound or Outbound(local=True)
    limits: dict[str, Any] = seconds
    return HttpPeers(chosen, Directory(nothing, chosen), sleep=clock.sleep, now=clock.now, **limits)
