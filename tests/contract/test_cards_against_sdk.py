"""Signed cards, the extended card and the card for 0.3, against the official SDK of 1.0."""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
import rfc8785
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import ExtendedAgentCardNotConfiguredError
from a2a.utils.signing import InvalidSignaturesError, NoSignatureError, create_signature_verifier
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from starlette.concurrency import run_in_threadpool
from tests.support.a2a_wire import CREDENTIAL, FakeService, agent_card
from tests.support.loopback import served

from interlock.a2a.app import create_app
from interlock.a2a.card import AgentCapabilities, AgentCard, AgentExtension, SecurityScheme
from interlock.a2a.published import PublishedCard
from interlock.a2a.signing import Signer
from interlock.adapters.signing import FileSigner, create_signing_key
from interlock.agents.demo import agent
from interlock.doors.agents import agent_card as card_of
from interlock.doors.agents import extended_card
from interlock.settings import Settings

CARD = "/.well-known/agent-card.json"
Verify = Callable[[pb.AgentCard], None]

FULL = {
    "type": "object",
    "numbers": [1, 1.0, 0.1, 1e21, -5],
    "nothing": None,
    "empty": {"list": [], "text": "", "kept": False},
    "text": "\u20ac \u2028 \U0001f600",
}
CODE = {
    "oauth2SecurityScheme": {
        "flows": {
            "authorizationCode": {
                "authorizationUrl": "https://a.example/a",
                "tokenUrl": "https://a.example/t",
                "scopes": {"read": "to read"},
                "pkceRequired": False,
            }
        }
    }
}
CARDS: dict[str, AgentCard] = {
    "with what is empty": agent_card(capabilities=AgentCapabilities(extended_agent_card=True)),
    "without anything empty": agent_card(
        capabilities=AgentCapabilities(extended_agent_card=True),
        security_requirements=None,
    ),
    "with all of JSON": agent_card(
        capabilities=AgentCapabilities(
            extended_agent_card=True, extensions=[AgentExtension(uri="urn:a", required=False, params=FULL)]
        )
    ),
    "with OAuth": agent_card(
        capabilities=AgentCapabilities(extended_agent_card=True),
        security_schemes={"code": SecurityScheme.model_validate(CODE)},
    ),
    "of the demo": card_of(agent, oidc_issuer="https://id.example"),
}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    path = tmp_path_factory.mktemp("keys") / "key.pem"
    create_signing_key(path)
    return FileSigner(path)


@pytest.fixture(scope="module", params=CARDS)
def card(request: pytest.FixtureRequest) -> AgentCard:
    return CARDS[request.param]


@pytest.fixture(scope="module")
def url(signer: Signer, card: AgentCard) -> Iterator[str]:
    """Signed, readable for 0.3 too, with an extended card."""
    extended = PublishedCard(card.model_copy(update={"version": "extended"}), v0_3=True, signer=signer)

    def app(url: str) -> Any:
        service = FakeService(extended=extended)
        return create_app(service, card, run=run_in_threadpool, public_url=url, signer=signer, v0_3=True)

    with served(app) as address:
        yield address


def verifier(url: str) -> Verify:
    """The SDK's own, with the key that the card says where to find."""

    def key(kid: str | None, jku: str | None) -> jwt.PyJWK:
        assert jku == f"{url}/.well-known/jwks.json"
        (jwk,) = [jwk for jwk in httpx.get(jku).json()["keys"] if jwk["kid"] == kid]
        return jwt.PyJWK(jwk)

    verify: Verify = create_signature_verifier(key, ["ES256"])
    return verify


def fetched(url: str, **headers: str) -> Any:
    return httpx.get(url + CARD, headers=headers).json()


@pytest.mark.parametrize("headers", [{}, {"A2A-Version": "1.0"}], ids=["merged", "pure"])
def test_the_sdk_verifies_the_card(url: str, card: AgentCard, headers: dict[str, str]) -> None:
    async def run() -> pb.AgentCard:
        async with httpx.AsyncClient(headers=headers) as http:
            return await A2ACardResolver(http, url).get_agent_card(signature_verifier=verifier(url))

    assert asyncio.run(run()).name == card.name


def test_the_card_for_0_3_says_the_same_to_readers_of_1_0(url: str) -> None:
    merged, pure = fetched(url), fetched(url, **{"A2A-Version": "1.0"})
    assert parse_agent_card(merged) == ParseDict(pure, pb.AgentCard(), ignore_unknown_fields=False)


@pytest.mark.parametrize("signature", [0, 1])
def test_one_of_the_signatures_is_enough(url: str, signature: int) -> None:
    """The first is over the card as it is, the second over what the SDK leaves of it."""
    parsed = parse_agent_card(fetched(url))
    both = list(parsed.signatures)
    del parsed.signatures[:]
    parsed.signatures.extend(both[signature : signature + 1] or both)
    prunes_something = len(both) > 1
    if prunes_something and signature == 0:
        with pytest.raises(InvalidSignaturesError):
            verifier(url)(parsed)
    else:
        verifier(url)(parsed)


def test_the_first_signature_is_over_the_card_as_protobuf_has_it(url: str, signer: Signer) -> None:
    parsed = parse_agent_card(fetched(url))
    protected, signature = parsed.signatures[0].protected, parsed.signatures[0].signature
    del parsed.signatures[:]
    content = rfc8785.dumps(MessageToDict(parsed))
    payload = urlsafe_b64encode(content).rstrip(b"=").decode()
    key = jwt.PyJWK({**signer.public_jwk})
    assert jwt.PyJWS().decode(f"{protected}.{payload}.{signature}", key, ["ES256"]) == content


def test_a_card_that_was_changed_is_not_verified(url: str) -> None:
    parsed = parse_agent_card(fetched(url))
    parsed.supported_interfaces[0].url = "https://evil.example"
    with pytest.raises(InvalidSignaturesError):
        verifier(url)(parsed)


def test_another_key_does_not_verify_the_card(url: str, tmp_path: Path) -> None:
    create_signing_key(tmp_path / "other.pem")
    other = jwt.PyJWK({**FileSigner(tmp_path / "other.pem").public_jwk})
    with pytest.raises(InvalidSignaturesError):
        create_signature_verifier(lambda kid, jku: other, ["ES256"])(parse_agent_card(fetched(url)))


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_sdk_gets_and_verifies_the_extended_card(url: str, binding: str) -> None:
    async def run() -> pb.AgentCard:
        async with httpx.AsyncClient(headers={"Authorization": CREDENTIAL}) as http:
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
            client = await ClientFactory(config).create_from_url(url)
            return await client.get_extended_agent_card(
                pb.GetExtendedAgentCardRequest(), signature_verifier=verifier(url)
            )

    extended = asyncio.run(run())
    assert extended.version == "extended"
    assert {interface.url for interface in extended.supported_interfaces} == {url}


def test_without_a_signer_there_is_nothing_to_verify() -> None:
    with served(lambda url: create_app(FakeService(), agent_card(), public_url=url)) as url:
        parsed = parse_agent_card(fetched(url))
    with pytest.raises(NoSignatureError):
        verifier(url)(parsed)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_the_sdk_knows_that_there_is_no_extended_card(binding: str) -> None:
    card = agent_card(capabilities=AgentCapabilities(extended_agent_card=True))

    async def run(url: str) -> None:
        async with httpx.AsyncClient(headers={"Authorization": CREDENTIAL}) as http:
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
            client = await ClientFactory(config).create_from_url(url)
            with pytest.raises(ExtendedAgentCardNotConfiguredError):
                await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())

    with served(lambda url: create_app(FakeService(), card, run=run_in_threadpool)) as url:
        asyncio.run(run(url))


def test_the_demos_cards_are_the_protocols_type() -> None:
    public = card_of(agent, oidc_issuer=Settings(oidc_issuer="https://id.example").oidc_issuer)
    for each in (public, extended_card(agent, public)):
        ParseDict(each.served_at("https://a.example", v0_3=True).wire(), pb.AgentCard())
