"""Signed cards (A2A 1.0.1, section 8.4): JWS (RFC 7515), detached, over canonical JSON (RFC 8785)."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, Protocol

from pydantic import JsonValue

from interlock.a2a.card import AgentCard, AgentCardSignature
from interlock.a2a.models import JsonObject

JWKS_PATH = "/.well-known/jwks.json"


class Signer(Protocol):
    """A private key that somebody else keeps. Raises `Unavailable` where that one does not answer."""

    @property
    def alg(self) -> str:
        """As JWS names it (RFC 7518, section 3.1)."""

    @property
    def kid(self) -> str: ...

    @property
    def public_jwk(self) -> JsonObject:
        """The public key (RFC 7517), with `kid`, `alg` and `use`."""

    def sign(self, data: bytes) -> bytes:
        """In the form of JWS: for ECDSA the two numbers one after the other, not DER."""


def signatures(card: AgentCard, signer: Signer, url: str) -> list[AgentCardSignature]:
    """What `signer` says of a card served at `url`, where its public key is found too.

    One signature for each way to read section 8.4.1: an object that is there and empty, as `params: {}`,
    stays by the presence rules of protobuf, and the official SDK drops it. One valid signature is enough.
    """
    header = {"alg": signer.alg, "kid": signer.kid, "typ": "JOSE", "jku": url + JWKS_PATH}
    protected = _base64url(json.dumps(header, separators=(",", ":")).encode())
    return [
        AgentCardSignature(
            protected=protected,
            signature=_base64url(signer.sign(f"{protected}.{_base64url(payload)}".encode())),
        )
        for payload in _payloads(card)
    ]


def _payloads(card: AgentCard) -> Iterator[bytes]:
    import rfc8785

    content = _present(card)
    present = rfc8785.dumps(content)
    yield present
    pruned = rfc8785.dumps(_pruned(content))
    if pruned != present:
        yield pruned


def _present(card: AgentCard) -> JsonObject:
    """Without signatures, and without what has its default and no presence: two members may be false."""
    wire: dict[str, Any] = card.model_copy(update={"signatures": None}).wire()
    for extension in wire["capabilities"].get("extensions", []):
        _drop_if_false(extension, "required")
    for scheme in wire.get("securitySchemes", {}).values():
        flows = scheme.get("oauth2SecurityScheme", {}).get("flows", {})
        _drop_if_false(flows.get("authorizationCode", {}), "pkceRequired")
    return wire


def _drop_if_false(members: dict[str, Any], name: str) -> None:
    if members.get(name) is False:
        del members[name]


def _pruned(value: JsonValue) -> JsonValue:
    """Without strings, lists and objects that are empty, or become so."""
    if isinstance(value, dict):
        members = ((name, _pruned(member)) for name, member in value.items())
        return {name: member for name, member in members if not _is_empty(member)}
    if isinstance(value, list):
        return [member for member in map(_pruned, value) if not _is_empty(member)]
    return value


def _is_empty(value: JsonValue) -> bool:
    return value is None or value in ("", [], {})


def _base64url(data: bytes) -> str:
    """Without padding (RFC 7515, section 2)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()
