"""The agent cards of peers (A2A 1.0.1, section 8): which interface of a peer is called."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Annotated

from pydantic import Field, ValidationError

from interlock.a2a.card import PROTOCOL_VERSION
from interlock.a2a.models import MAX_ENTRIES, JsonObject, OptionalIdentifier, Wire
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_bindings import BINDINGS, Binding, read_object, refuses
from interlock.adapters.peer_http import VERSION, Request, ask, at_home
from interlock.engine.peers import PeerAddress, PeerRefused

WELL_KNOWN = "/.well-known/agent-card.json"
FRESH_SECONDS = 600.0
"""So long a card is taken for the peer's."""
MAX_KNOWN = 256
MAX_CARD_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The interface of a peer that is called."""

    binding: Binding
    url: str
    tenant: str | None


class Interface(Wire):
    url: Annotated[str, Field(max_length=2048)]
    protocol_binding: str
    protocol_version: str
    tenant: OptionalIdentifier = None


class Card(Wire):
    """What matters here of a card, which need not be as strict as ours in the rest."""

    supported_interfaces: Annotated[list[Interface], Field(max_length=MAX_ENTRIES)] = Field(
        default_factory=list
    )
    url: str | None = None
    """Of A2A 0.3, which had no list of interfaces."""


class Cards:
    """Endpoints of peers, from their cards."""

    def __init__(self, outbound: Outbound, *, now: Callable[[], float] = monotonic) -> None:
        self._outbound = outbound
        self._now = now
        self._known: dict[PeerAddress, tuple[float, Endpoint]] = {}
        self._changing = Lock()

    def endpoint(self, to: PeerAddress, *, seconds: float) -> Endpoint:
        """Raises `PeerRefused` where there is none that can be called, or `PeerUnreachable`."""
        with self._changing:
            read_at, endpoint = self._known.get(to, (0.0, None))
        if endpoint is not None and self._now() - read_at < FRESH_SECONDS:
            return endpoint
        endpoint = self._chosen(to, _valid(self._read(to, seconds)))
        with self._changing:
            self._known.pop(to, None)
            while len(self._known) >= MAX_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[to] = self._now(), endpoint
        return endpoint

    def forget(self, to: PeerAddress) -> None:
        """What the card said has not worked: it is read again next time."""
        with self._changing:
            self._known.pop(to, None)

    def read(self, to: PeerAddress, *, seconds: float) -> JsonObject:
        """The card as it is, of a peer that can be called. Raises as `endpoint` does."""
        card = self._read(to, seconds)
        self._chosen(to, _valid(card))
        return card

    def _read(self, to: PeerAddress, seconds: float) -> JsonObject:
        request = Request("GET", to.url.rstrip("/") + WELL_KNOWN)
        answer = ask(
            self._outbound,
            to,
            request,
            {VERSION: PROTOCOL_VERSION},
            seconds=seconds,
            max_bytes=MAX_CARD_BYTES,
        )
        if refuses(answer):
            raise PeerRefused(f"the peer has no agent card: the answer was {answer.status}")
        return read_object(answer)

    def _chosen(self, to: PeerAddress, card: Card) -> Endpoint:
        """The first that is usable, in the card's order; with a credential, the first that may be told it."""
        usable = [interface for interface in card.supported_interfaces if self._usable(to, interface)]
        if to.authorization is not None:
            usable.sort(key=lambda interface: not at_home(to, interface.url))
        if not usable:
            versions = {interface.protocol_version for interface in card.supported_interfaces}
            if all(map(_is_0_3, versions)) and (versions or card.url is not None):
                raise PeerRefused(f"the peer speaks A2A 0.3 only, and not {PROTOCOL_VERSION}")
            raise PeerRefused(
                f"the peer's agent card has no interface for A2A {PROTOCOL_VERSION} that may be called"
            )
        first = usable[0]
        return Endpoint(BINDINGS[first.protocol_binding], first.url, to.tenant or first.tenant)

    def _usable(self, to: PeerAddress, interface: Interface) -> bool:
        if interface.protocol_binding not in BINDINGS or interface.protocol_version != PROTOCOL_VERSION:
            return False
        if to.tenant is not None and interface.tenant not in (None, to.tenant):
            return False
        try:
            self._outbound.check(interface.url)
        except ValueError:
            return False
        # Paths are appended to it, and a query would swallow them.
        return interface.protocol_binding == "JSONRPC" or "?" not in interface.url


def _valid(card: JsonObject) -> Card:
    try:
        return Card.model_validate(card)
    except ValidationError:
        raise PeerRefused("the peer's agent card is not valid") from None


def _is_0_3(version: str) -> bool:
    return version == "0.3" or version.startswith("0.3.")
