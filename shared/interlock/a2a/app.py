"""The agents' door: both bindings and the card on one Starlette app."""

import re
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from interlock.a2a import http_json, strict_json
from interlock.a2a.card import PROTOCOL_VERSION, PROTOCOL_VERSION_0_3, AgentCard
from interlock.a2a.jsonrpc import JsonRpc
from interlock.a2a.negotiation import Extensions
from interlock.a2a.operations import AGENT, OPERATIONS, Operation, Server, inline
from interlock.a2a.published import PublishedCard
from interlock.a2a.service import A2AService
from interlock.a2a.signing import JWKS_PATH, Signer
from interlock.a2a.sse import Pace, Run
from interlock.a2a.well_known import (
    CARD_PATH,
    CardOf,
    Merge,
    agent_card_endpoint,
    card_endpoint,
    jwks_endpoint,
)

BELOW = f"/agents/{{{AGENT}}}"


def create_app(
    service: A2AService,
    card: AgentCard,
    *,
    run: Run = inline,
    public_url: str | None = None,
    max_body: int = strict_json.MAX_BYTES,
    pace: Pace = Pace(),  # noqa: B008 (frozen)
    v0_3: bool = False,
    signer: Signer | None = None,
    agent_card: CardOf | None = None,
) -> Starlette:
    """Serves JSON-RPC and HTTP+JSON at the same URL, which the card names.

    `run` decides where the service is called: `inline`, or `starlette.concurrency.run_in_threadpool` where
    requests come at once. `public_url` is that URL where the requests' own address is not the one to publish.
    `max_body` is in bytes, `pace` is that of streams. `v0_3` serves clients of A2A 0.3 by JSON-RPC too, and a
    card that they can read. `signer` signs the card where its address is known to be ours. With `agent_card`
    more agents are served below `/agents/<name>`, whose cards it gives to callers that are authenticated.
    """
    server = Server(service, card.capabilities, Extensions(card), run, max_body, pace, public_url)
    versions: dict[str, Sequence[Operation]] = {PROTOCOL_VERSION: OPERATIONS}
    merge: Merge | None = None
    if v0_3:
        # Whoever does not serve it does not pay for it.
        from interlock.a2a import v0_3 as legacy

        versions[PROTOCOL_VERSION_0_3] = legacy.OPERATIONS
        merge = legacy.merged
    rpc = Route("/", JsonRpc(server, versions), methods=["POST"])
    # Below a root path or a stage, clients post to the URL with and without a slash at the end.
    rpc.path_regex = re.compile("^/?$")
    resources = http_json.routes(server)
    if agent_card is not None:
        own = agent_card_endpoint(agent_card, public_url, run, merge)
        resources += [
            Route(BELOW + CARD_PATH, own),
            Route(BELOW, JsonRpc(server, versions), methods=["POST"]),
            Route(BELOW + "/", JsonRpc(server, versions), methods=["POST"]),
            *http_json.routes(server, BELOW),
        ]
    for route in (rpc, *resources):
        # A line feed at the end of a path is part of it, which `$` does not see.
        route.path_regex = re.compile(route.path_regex.pattern.removesuffix("$") + r"\Z")
    published = PublishedCard(card, v0_3=v0_3, signer=signer)
    well_known = [Route(CARD_PATH, card_endpoint(published, public_url, run, merge))]
    if signer is not None:
        well_known.append(Route(JWKS_PATH, jwks_endpoint(signer, run)))
    app = Starlette(
        routes=[rpc, *well_known, *resources],
        exception_handlers={HTTPException: http_json.http_exception},
    )
    app.router.redirect_slashes = False
    return app
