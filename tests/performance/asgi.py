"""A request to an ASGI app, without a socket and without a client's own costs."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Scope

HEADERS = {"content-type": "application/json", "a2a-version": "1.0"}


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes


def scope_of(path: str, body: bytes, headers: Mapping[str, str]) -> Scope:
    given = {**HEADERS, "host": "localhost", "content-length": str(len(body)), **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }


async def post(app: ASGIApp, path: str, body: bytes, headers: Mapping[str, str] = {}) -> Reply:
    chunks: list[bytes] = []
    status = 0

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            chunks.append(message.get("body", b""))

    await app(scope_of(path, body, headers), receive, send)
    return Reply(status, b"".join(chunks))
