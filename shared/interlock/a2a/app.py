"""The agents' door: both bindings and the card on one Starlette app."""

import re

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from interlock.a2a import http_json, strict_json
from interlock.a2a.card import AgentCard
from interlock.a2a.jsonrpc import JsonRpc
from interlock.a2a.negotiation import Extensions
from interlock.a2a.operations import Server, inline
from interlock.a2a.service import A2AService
from interlock.a2a.sse import Pace, Run
from interlock.a2a.well_known import CARD_PATH, card_endpoint


def create_app(
    service: A2AService,
    card: AgentCard,
    *,
    run: Run = inline,
    public_url: str | None = None,
    max_body: int = strict_json.MAX_BYTES,
    pace: Pace = Pace(),  # noqa: B008 (frozen)
) -> Starlette:
    """Serves JSON-RPC and HTTP+JSON at the same URL, which the card names.

    `run` decides where the service is called: `inline`, or `starlette.concurrency.run_in_threadpool` where
    requests come at once. `public_url` is that URL where the requests' own address is not the one to publish.
    `max_body` is in bytes, `pace` is that of streams. Raises `ValueError` for a card that declares what is
    not served here.
    """
    capabilities = card.capabilities
    if capabilities.extended_agent_card:
        raise ValueError("the card declares a capability that is not served")
    server = Server(service, capabilities, Extensions(card), run, max_body, pace)
    rpc = Route("/", JsonRpc(server), methods=["POST"])
    # Below a root path or a stage, clients post to the URL with and without a slash at the end.
    rpc.path_regex = re.compile("^/?$")
    app = Starlette(
        routes=[rpc, Route(CARD_PATH, card_endpoint(card, public_url)), *http_json.routes(server)],
        exception_handlers={HTTPException: http_json.http_exception},
    )
    app.router.redirect_slashes = False
    return app
