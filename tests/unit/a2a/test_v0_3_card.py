"""The card that clients of 0.3 read: that of 1.0 with members under other names."""

import subprocess
import sys
from typing import Any

import pytest
from tests.support.a2a_wire import Answer, Door, agent_card, ask

from interlock.a2a.card import AgentCapabilities, AgentCard
from interlock.a2a.v0_3.card import merged

PATH = "/.well-known/agent-card.json"
FLOW = {"tokenUrl": "https://a.example/t", "scopes": {"read": "to read"}}
SCHEMES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "key": (
        {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        {"type": "apiKey", "in": "header", "name": "X-Key"},
    ),
    "bearer": (
        {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT", "description": "d"}},
        {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT", "description": "d"},
    ),
    "oauth": (
        {"oauth2SecurityScheme": {"flows": {"clientCredentials": FLOW}}},
        {"type": "oauth2", "flows": {"clientCredentials": FLOW}},
    ),
    "oidc": (
        {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example/o"}},
        {"type": "openIdConnect", "openIdConnectUrl": "https://a.example/o"},
    ),
    "mtls": ({"mtlsSecurityScheme": {}}, {"type": "mutualTLS"}),
}


def get(*, v0_3: bool = True, card: AgentCard | None = None, query: str = "", **headers: str) -> Answer:
    door = Door(card=card or agent_card(), options={"v0_3": v0_3})
    sent = {"host": "agents.example", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return ask(door.app, "GET", PATH, headers=sent, query=query)


def test_the_members_of_0_3_are_added_and_those_of_1_0_stay() -> None:
    card = get().json()
    current = get(a2a_version="1.0").json()
    added = {
        "protocolVersion": "0.3.0",
        "url": "http://agents.example",
        "preferredTransport": "JSONRPC",
        "supportsAuthenticatedExtendedCard": False,
        "security": [{"bearer": []}],
    }
    assert {name: card.pop(name) for name in added} == added
    assert card.pop("securitySchemes") == {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}, "type": "http", "scheme": "Bearer"}
    }
    del current["securitySchemes"]
    assert card == current


def test_the_interface_of_0_3_comes_after_those_of_1_0() -> None:
    for version in ("", "1.0"):
        interfaces = get(a2a_version=version).json()["supportedInterfaces"]
        shown = [(interface["protocolBinding"], interface["protocolVersion"]) for interface in interfaces]
        assert shown == [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("JSONRPC", "0.3")]
        assert {interface["url"] for interface in interfaces} == {"http://agents.example"}


@pytest.mark.parametrize("name", SCHEMES)
def test_security_schemes_are_written_both_ways(name: str) -> None:
    current, legacy = SCHEMES[name]
    requirements = [{"schemes": {name: {"list": ["read"]}, "other": {}}}]
    wire: dict[str, Any] = agent_card().wire()
    skill = {**wire["skills"][0], "securityRequirements": requirements}
    wire |= {
        "securitySchemes": {name: current},
        "securityRequirements": requirements,
        "skills": [skill],
    }
    card = merged(AgentCard.model_validate(wire).served_at("https://a.example", v0_3=True))
    assert card["securitySchemes"] == {name: {**current, **legacy}}
    assert card["security"] == [{name: ["read"], "other": []}]
    assert card["skills"] == [{**skill, "security": [{name: ["read"], "other": []}]}]


def test_a_card_that_asks_for_nothing_says_nothing_of_it() -> None:
    card = agent_card(security_schemes=None, security_requirements=None)
    assert {"security", "securitySchemes"}.isdisjoint(get(card=card).json())


def test_an_extended_card_is_declared_under_both_names() -> None:
    card = get(card=agent_card(capabilities=AgentCapabilities(extended_agent_card=True))).json()
    assert (card["supportsAuthenticatedExtendedCard"], card["capabilities"]) == (
        True,
        {"extendedAgentCard": True},
    )


@pytest.mark.parametrize(
    ("version", "query", "pure"),
    [
        ("1.0", "", True),
        ("1.1", "", True),
        ("", "A2A-Version=1.0", True),
        ("", "", False),
        ("0.3", "", False),
        ("0.3.0", "", False),
        ("10.0", "", False),
    ],
)
def test_who_asks_for_1_x_gets_a_card_of_1_0(version: str, query: str, pure: bool) -> None:
    assert ("url" not in get(a2a_version=version, query=query).json()) is pure


def test_caches_are_told_what_the_card_depends_on() -> None:
    merged_card, current = get(), get(a2a_version="1.0")
    assert merged_card.headers["vary"] == current.headers["vary"] == "A2A-Version"
    assert merged_card.headers["etag"] != current.headers["etag"]
    known = merged_card.headers["etag"]
    assert get(if_none_match=known).status == 304
    assert get(a2a_version="1.0", if_none_match=known).status == 200
    assert "vary" not in get(v0_3=False).headers


def test_unless_it_is_set_the_card_is_one_of_1_0() -> None:
    card = get(v0_3=False).json()
    assert {"url", "protocolVersion", "preferredTransport", "security"}.isdisjoint(card)
    assert [interface["protocolVersion"] for interface in card["supportedInterfaces"]] == ["1.0", "1.0"]


def test_whoever_serves_neither_0_3_nor_signatures_does_not_load_them() -> None:
    code = (
        "import sys, interlock.a2a.app, interlock.doors.agents\n"
        "loaded = {'interlock.a2a.v0_3', 'cryptography', 'jwt'} & set(sys.modules)\n"
        "sys.exit(repr(loaded) if loaded else 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
