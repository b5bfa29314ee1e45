"""The public agent card at its well-known path (A2A 1.0.1, sections 8.2 and 8.6)."""

from collections.abc import Awaitable, Callable
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from interlock.a2a.card import AgentCard

CARD_PATH = "/.well-known/agent-card.json"
MAX_AGE = 300
"""Seconds that a client or a proxy may keep the card."""


def card_endpoint(card: AgentCard, public_url: str | None) -> Callable[[Request], Awaitable[Response]]:
    """`GET` and `HEAD` of the card (section 8.6). `public_url` goes before the request's own address."""
    fixed_url = public_url.rstrip("/") if public_url else None

    async def serve(request: Request) -> Response:
        body = card.served_at(fixed_url or base_url(request, CARD_PATH)).wire_json().encode()
        etag = f'"{sha256(body).hexdigest()}"'
        headers = {"etag": etag, "cache-control": f"public, max-age={MAX_AGE}"}
        if _has(request.headers, etag):
            return Response(status_code=304, headers=headers)
        headers["content-length"] = str(len(body))
        shown = b"" if request.method == "HEAD" else body
        return Response(shown, headers=headers, media_type="application/json")

    return serve


def base_url(request: Request, path: str) -> str:
    """Where the caller finds the root of this app, without a trailing slash; `path` is what it asked for.

    Behind API Gateway the stage is part of the caller's path only, which is in the event of the adapter.
    """
    root: str = request.scope.get("root_path", "")
    if "aws.event" in request.scope:
        caller_path = request.scope["aws.event"].get("requestContext", {}).get("path", "")
        root = caller_path.removesuffix(path) if caller_path.endswith(path) else root
    url = request.base_url.replace(path=root.rstrip("/"), query="")
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return str(url.replace(scheme=forwarded) if forwarded in ("http", "https") else url)


def _has(headers: Headers, etag: str) -> bool:
    """RFC 9110, section 13.1.2."""
    known = headers.get("if-none-match", "")
    return known.strip() == "*" or etag in {entry.strip().removeprefix("W/") for entry in known.split(",")}
