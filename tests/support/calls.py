"""Requests to an ASGI app, as clients send them."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx
from starlette.types import ASGIApp


def call(
    app: ASGIApp,
    method: str,
    path: str,
    *,
    who: str | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """One request. `who` is the bearer token; a body of bytes is sent as it is, any other as JSON."""
    sent: dict[str, str] = {} if who is None else {"Authorization": f"Bearer {who}"}
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    if content is not None:
        sent["Content-Type"] = "application/json"
    sent |= headers or {}
    sent = {name: value for name, value in sent.items() if value}

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://interlock.test") as client:
            return await client.request(method, path, content=content, headers=sent)

    return asyncio.run(send())
