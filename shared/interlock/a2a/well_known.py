"""What is public: the agent card (A2A 1.0.1, sections 8.2 and 8.6), and the key that it is verified with."""

import json
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from functools import lru_cache
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from interlock.a2a.address import Address, address
from interlock.a2a.card import PROTOCOL_VERSION, AgentCard
from interlock.a2a.http_json import error_response
from interlock.a2a.models import JsonObject
from interlock.a2a.negotiation import JSON, VERSION, asked_version
from interlock.a2a.operations import AGENT, told
from interlock.a2a.published import ADDRESSES, PublishedCard
from interlock.a2a.service import CallContext
from interlock.a2a.signing import Signer
from interlock.a2a.sse import Run

CARD_PATH = "/.well-known/agent-card.json"
MAX_AGE = 300
"""Seconds that a client or a proxy may keep the card."""
CURRENT_MAJOR = PROTOCOL_VERSION.partition(".")[0]

Endpoint = Callable[[Request], Awaitable[Response]]
Merge = Callable[[AgentCard], JsonObject]
CardOf = Callable[[CallContext], AgentCard]
"""The card of the agent that the context names, without its interfaces. Raises `A2AError`."""


def card_endpoint(
    card: PublishedCard, public_url: str | None, run: Run, merge: Merge | None = None
) -> Endpoint:
    """`GET` and `HEAD` of the card (section 8.6). `public_url` goes before the request's own address.

    `merge` makes it a card that clients of 0.3 read too, except for who asks for 1.0.
    """

    @lru_cache(2 * ADDRESSES)
    def written(at: Address, current: bool) -> tuple[bytes, str]:
        published, now = card.at(at), formatdate(usegmt=True)
        if merge is None or current:
            return published.wire_json().encode(), now
        return json.dumps(merge(published), ensure_ascii=False, separators=(",", ":")).encode(), now

    async def serve(request: Request) -> Response:
        current = asked_version(request).partition(".")[0] == CURRENT_MAJOR
        headers = {"vary": VERSION} if merge is not None else {}
        try:
            body, headers["last-modified"] = await run(written, address(request, public_url), current)
        except Exception as exc:  # noqa: BLE001 (`told` logs what is not the protocol's own)
            return error_response(told(exc, "the agent card"), JSON, headers)
        return _document(request, body, headers)

    return serve


def agent_card_endpoint(
    card_of: CardOf, public_url: str | None, run: Run, merge: Merge | None = None
) -> Endpoint:
    """The same of one of several agents, whose card is for callers that are authenticated, and not signed."""

    async def serve(request: Request) -> Response:
        name = request.path_params[AGENT]
        context = CallContext(
            credential=request.headers.get("authorization"),
            traceparent=request.headers.get("traceparent"),
            agent=name,
        )
        try:
            found: AgentCard = await run(card_of, context)
        except Exception as exc:  # noqa: BLE001 (`told` logs what is not the protocol's own)
            error = told(exc, "the card of an agent")
            return error_response(error, JSON, {"cache-control": "no-store"})
        url = f"{address(request, public_url).url}/agents/{name}"
        card = found.served_at(url, v0_3=merge is not None)
        current = merge is None or asked_version(request).partition(".")[0] == CURRENT_MAJOR
        written = card.wire() if merge is None or current else merge(card)
        body = json.dumps(written, ensure_ascii=False, separators=(",", ":")).encode()
        varies = "Authorization" if merge is None else f"Authorization, {VERSION}"
        return _document(request, body, {"vary": varies}, kept="private")

    return serve


def jwks_endpoint(signer: Signer, run: Run) -> Endpoint:
    """`GET` and `HEAD` of the JWK Set (RFC 7517, section 5)."""

    def written() -> bytes:
        return json.dumps({"keys": [signer.public_jwk]}, separators=(",", ":")).encode()

    async def serve(request: Request) -> Response:
        try:
            body = await run(written)
        except Exception as exc:  # noqa: BLE001 (`told` logs what is not the protocol's own)
            return error_response(told(exc, "the JWK Set"), JSON, {})
        return _document(request, body, {})

    return serve


def _document(request: Request, body: bytes, headers: dict[str, str], *, kept: str = "public") -> Response:
    etag = f'"{sha256(body).hexdigest()}"'
    headers = {**headers, "etag": etag, "cache-control": f"{kept}, max-age={MAX_AGE}"}
    if _is_known(request.headers, etag, headers.get("last-modified")):
        return Response(status_code=304, headers=headers)
    headers["content-length"] = str(len(body))
    shown = b"" if request.method == "HEAD" else body
    return Response(shown, headers=headers, media_type=JSON)


def _is_known(headers: Headers, etag: str, last_modified: str | None) -> bool:
    """RFC 9110, section 13.2.2.

    Of two processes with different cards, either may have written its own later: only an equal date says
    that it is the same card.
    """
    known = headers.get("if-none-match")
    if known is None:
        return last_modified is not None and headers.get("if-modified-since") == last_modified
    return known.strip() == "*" or etag in {entry.strip().removeprefix("W/") for entry in known.split(",")}
