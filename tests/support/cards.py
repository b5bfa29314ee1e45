"""Agent cards as other agents have them, and who fetches them in a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.engine.peers import PeerAddress, PeerRefused
from interlock.oversight import modes

URL = "https://agents.example/desk"


def card(
    declared: Mapping[str, Any] | None = None,
    *skills: str,
    radii: Mapping[str, str] | None = None,
    uri: str = modes.URI,
    **more: Any,
) -> dict[str, Any]:
    """Lists `skills`, or those that it declares modes of."""
    extensions: list[dict[str, Any]] = [{"uri": uri, "params": {"skills": dict(declared or {})}}]
    if radii is not None:
        extensions.append(
            {"uri": modes.BLAST_URI, "params": {"skills": {k: {"radius": v} for k, v in radii.items()}}}
        )
    return {
        "name": "desk elsewhere",
        "description": "Does things",
        "version": "1",
        "capabilities": {"extensions": extensions},
        "skills": [
            {"id": each, "name": each, "description": each, "tags": [each]}
            for each in skills or declared or ()
        ],
        **more,
    }


@dataclass
class FakeCards:
    """Implements `PeerCards`: `cards` by URL, or the exception that is raised for it."""

    cards: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        self.asked.append((tenant, name_or_url))
        if "://" in name_or_url:
            return PeerAddress(name_or_url)
        if name_or_url not in self.peers:
            raise PeerRefused("no peer of this name is configured")
        return PeerAddress(self.peers[name_or_url], authorization="Bearer secret")

    def card(self, to: PeerAddress) -> Any:
        found = self.cards.get(to.url, PeerRefused("the peer has no agent card: the answer was 404"))
        if isinstance(found, Exception):
            raise found
        return found
