"""A proxy on the loopback that loses replies: what was asked for is done, and the connection ends."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from urllib.parse import urlsplit


class CuttingProxy:
    """Forwards bytes to the host of `upstream`, whose path its own `url` has too."""

    def __init__(self, upstream: str, port: int) -> None:
        parts = urlsplit(upstream)
        self.upstream = (str(parts.hostname), parts.port or 80)
        self.url = f"http://127.0.0.1:{port}{parts.path}"
        self.left_to_cut = 0
        self._lock = threading.Lock()

    def cut(self, replies: int = 1) -> None:
        """The next replies to a POST are lost, whole: their connections end as soon as they begin."""
        with self._lock:
            self.left_to_cut = replies

    def take_cut(self) -> bool:
        with self._lock:
            if not self.left_to_cut:
                return False
            self.left_to_cut -= 1
            return True


@contextmanager
def cutting_proxy(upstream: str) -> Iterator[CuttingProxy]:
    with _Server(("127.0.0.1", 0), _Connection) as server:
        server.proxy = CuttingProxy(upstream, server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.proxy
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    proxy: CuttingProxy


class _Connection(BaseRequestHandler):
    request: socket
    server: _Server
    posted = False
    """Whether the last request on this connection was a POST."""

    def handle(self) -> None:
        with create_connection(self.server.proxy.upstream) as upstream:
            threading.Thread(target=self._send_on, args=(upstream,), daemon=True).start()
            with suppress(OSError):
                while received := upstream.recv(65536):
                    if self.posted and self.server.proxy.take_cut():
                        break
                    self.request.sendall(received)
            for side in (self.request, upstream):
                with suppress(OSError):
                    side.shutdown(SHUT_RDWR)

    def _send_on(self, upstream: socket) -> None:
        with suppress(OSError):
            while received := self.request.recv(65536):
                if received.startswith((b"GET ", b"POST ")):
                    self.posted = received.startswith(b"POST ")
                upstream.sendall(received)
            upstream.shutdown(SHUT_RDWR)
