"""An app served on loopback by uvicorn, as on a laptop, at a URL that it is told beforehand."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp


@contextmanager
def served(make_app: Callable[[str], ASGIApp]) -> Iterator[str]:
    """The URL, where the app is until the block ends."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        # Whoever connects from now on waits until the server accepts.
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make_app(url), lifespan="off", ws="none", log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield url
        finally:
            server.should_exit = True
            thread.join()
