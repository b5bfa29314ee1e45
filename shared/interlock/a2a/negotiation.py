"""What a request settles before its parameters matter: version, extensions, media types.

A2A 1.0.1, sections 3.2.6, 3.6, 9.1, 11.1 and 14.2; docs/topics/extensions.md, "Extension Activation".
"""

from collections.abc import Collection, Iterable

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from interlock.a2a.card import PROTOCOL_VERSION, PROTOCOL_VERSION_0_3, AgentCard, essence
from interlock.a2a.errors import (
    ExtensionSupportRequired,
    RequestContentTypeNotSupported,
    VersionNotSupported,
)

VERSION = "A2A-Version"
"""A header, or a query parameter where a client can not set headers (section 3.6.1)."""
EXTENSIONS = "A2A-Extensions"
EXTENSIONS_0_3 = "X-A2A-Extensions"
"""The name of the header in 0.3; accepted from everyone."""

JSON = "application/json"
A2A_JSON = "application/a2a+json"

MAX_REQUESTED_EXTENSIONS = 64
"""URIs looked at; further ones count as unknown, and unknown ones are ignored."""


def asked_version(request: HTTPConnection) -> str:
    """The version that a request asks for; one that asks for nothing means 0.3 (section 3.6.2)."""
    asked = request.headers.get(VERSION) or request.query_params.get(VERSION, "")
    return asked.strip() or PROTOCOL_VERSION_0_3


def check_version(request: HTTPConnection, served: Collection[str] = (PROTOCOL_VERSION,)) -> str:
    """The version that the request asks for. Raises `VersionNotSupported` unless it is served."""
    asked = asked_version(request)
    if asked not in served:
        raise VersionNotSupported(metadata={"supportedVersions": ", ".join(sorted(served))})
    return asked


class Extensions:
    """The extensions a card declares, and which of them a request activates."""

    def __init__(self, card: AgentCard) -> None:
        declared = card.capabilities.extensions or []
        self._declared = {extension.uri.lower(): extension.uri for extension in declared}
        self._required = frozenset(extension.uri for extension in declared if extension.required)

    def activate(self, headers: Headers) -> frozenset[str]:
        """URIs that are requested and declared, as the card spells them."""
        values = headers.getlist(EXTENSIONS) + headers.getlist(EXTENSIONS_0_3)
        if not values:
            return frozenset()
        requested = ",".join(values).lower().split(",", MAX_REQUESTED_EXTENSIONS)
        known = (self._declared.get(uri.strip()) for uri in requested[:MAX_REQUESTED_EXTENSIONS])
        return frozenset(uri for uri in known if uri is not None)

    def check_required(self, activated: frozenset[str]) -> None:
        """Raises `ExtensionSupportRequired`, naming what is missing."""
        missing = self._required - activated
        if missing:
            raise ExtensionSupportRequired(metadata={"extensions": ", ".join(sorted(missing))})


def echo(activated: Iterable[str], name: str = EXTENSIONS) -> dict[str, str]:
    """The response headers that say what was activated."""
    uris = sorted(activated)
    return {name: ", ".join(uris)} if uris else {}


def check_content_type(headers: Headers) -> None:
    """Raises `RequestContentTypeNotSupported` unless the body is declared to be JSON."""
    if essence(headers.get("content-type", "")) not in (JSON, A2A_JSON):
        raise RequestContentTypeNotSupported(metadata={"supported": f"{JSON}, {A2A_JSON}"})


def response_media_type(headers: Headers) -> str:
    """For HTTP+JSON: the protocol's own media type where the request names it, else plain JSON."""
    accept = headers.get("accept", "").lower()
    if A2A_JSON in accept and any(_accepts_a2a_json(entry) for entry in accept.split(",")):
        return A2A_JSON
    return A2A_JSON if essence(headers.get("content-type", "")) == A2A_JSON else JSON


def _accepts_a2a_json(entry: str) -> bool:
    media_range, *parameters = (piece.strip() for piece in entry.split(";"))
    return media_range == A2A_JSON and not any(
        name == "q" and not value.strip("0.") for name, _, value in (p.partition("=") for p in parameters)
    )
