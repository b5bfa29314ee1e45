"""A proxy on the loopback that answers, or fails to, as AWS and networks do and emulators do not."""

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Reply:
    """An answer in the service's place; nothing is done."""

    body: Mapping[str, Any]
    status: int = 200


def refusal(code: str, status: int = 400, **members: object) -> Reply:
    """An error in DynamoDB's form."""
    return Reply(
        {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "injected"} | members, status
    )


@dataclass(frozen=True)
class LostRequest:
    """The connection ends before anything was done."""


@dataclass(frozen=True)
class LostReply:
    """What was asked for is done, and the connection ends before the answer; `sent` bytes of it arrive."""

    sent: int | None = None


@dataclass(frozen=True)
class LateReply:
    """What was asked for is done, and the answer comes when nobody waits for it any more."""


Fault = Reply | LostRequest | LostReply | LateReply


_CONFLICT = refusal(
    "TransactionCanceledException",
    CancellationReasons=[{"Code": "TransactionConflict", "Message": "injected"}],
)
LOSSY: tuple[Fault | None, ...] = (LostReply(), LostRequest(), _CONFLICT, *[None] * 9)
"""To be drawn from: a network that loses requests and replies, before a table that is busy."""


class FaultProxy:
    """Forwards to `upstream`, except for requests that a fault was put in the way of.

    `operations` are the names of those that came in, in their order (`PutItem`).
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.operations: list[str] = []
        self._faults: deque[Fault | None] = deque()
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.url = ""

    def fail(self, *faults: Fault | None) -> None:
        """The next requests meet these, in their order; None lets one pass. Those after them pass."""
        self._faults.extend(faults)

    def reset(self) -> None:
        self.operations.clear()
        self._faults.clear()

    def arrived(self, operation: str) -> Fault | None:
        with self._lock:
            self.operations.append(operation)
            return self._faults.popleft() if self._faults else None


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    proxy = FaultProxy(upstream)
    server = _Server(("127.0.0.1", 0), _Handler)
    server.proxy = proxy
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: FaultProxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        proxy = self.server.proxy
        request = self.rfile.read(int(self.headers["Content-Length"]))
        fault = proxy.arrived(self.headers["X-Amz-Target"].rpartition(".")[2])
        # Only where the client sees it end: it would take an answered connection up again.
        self.close_connection = isinstance(fault, LostRequest | LostReply)
        if isinstance(fault, LostRequest):
            return
        if isinstance(fault, Reply):
            self._answer(fault.status, json.dumps(fault.body).encode())
            return
        status, reply = self._forward(request)
        if isinstance(fault, LateReply):
            proxy.closing.wait()
        elif isinstance(fault, LostReply):
            if fault.sent is not None:
                self._answer(status, reply, sent=fault.sent)
        else:
            self._answer(status, reply)

    def _forward(self, request: bytes) -> tuple[int, bytes]:
        upstream = self.server.proxy.upstream
        connection = HTTPConnection(str(upstream.hostname), upstream.port, timeout=10)
        try:
            connection.request("POST", self.path, request, dict(self.headers))
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes, sent: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass
