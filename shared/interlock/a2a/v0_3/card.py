"""One card for both: that of 1.0 with the members that 0.3 has under other names (A2A 0.3.0, section 5.5).

A reader of either takes what it knows and passes over the rest. A signature is over the card of 1.0, for 0.3
names no canonical form.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from interlock.a2a.card import PROTOCOL_VERSION_0_3, AgentCard, SecurityRequirement, SecurityScheme
from interlock.a2a.models import JsonObject

_TYPES = {
    "api_key_security_scheme": "apiKey",
    "http_auth_security_scheme": "http",
    "oauth2_security_scheme": "oauth2",
    "open_id_connect_security_scheme": "openIdConnect",
    "mtls_security_scheme": "mutualTLS",
}


def merged(card: AgentCard) -> JsonObject:
    """The wire form of a card that is served at an address which speaks 0.3 too."""
    (served,) = [
        interface
        for interface in card.supported_interfaces or []
        if interface.protocol_version == PROTOCOL_VERSION_0_3
    ]
    wire = card.wire()
    wire |= {
        "protocolVersion": f"{PROTOCOL_VERSION_0_3}.0",
        "url": served.url,
        "preferredTransport": served.protocol_binding,
        "supportsAuthenticatedExtendedCard": bool(card.capabilities.extended_agent_card),
    }
    if card.security_requirements is not None:
        wire["security"] = _security(card.security_requirements)
    if card.security_schemes is not None:
        wire["securitySchemes"] = {
            name: {**scheme.wire(), **_scheme(scheme)} for name, scheme in card.security_schemes.items()
        }
    wire["skills"] = [
        {**skill.wire(), "security": _security(skill.security_requirements)}
        if skill.security_requirements is not None
        else skill.wire()
        for skill in card.skills
    ]
    return wire


def _security(requirements: Sequence[SecurityRequirement]) -> list[JsonValue]:
    return [
        {name: list(scopes.scopes or []) for name, scopes in requirement.schemes.items()}
        for requirement in requirements
    ]


def _scheme(scheme: SecurityScheme) -> JsonObject:
    """The scheme as OpenAPI 3.0 has it, which 0.3 follows."""
    ((name, kind),) = [(name, kind) for name, kind in _TYPES.items() if getattr(scheme, name) is not None]
    members: JsonObject = getattr(scheme, name).wire()
    if kind == "apiKey":
        members["in"] = members.pop("location")
    return {"type": kind, **members}
