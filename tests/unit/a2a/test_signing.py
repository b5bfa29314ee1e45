"""The signature of a card, and who gets one."""

import json
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import JsonValue
from starlette.concurrency import run_in_threadpool
from tests.support.a2a_wire import (
    CREDENTIAL,
    Answer,
    Door,
    FakeService,
    agent_card,
    ask,
    reason,
    with_headers,
)

from interlock.a2a.address import Address
from interlock.a2a.card import AgentCapabilities, AgentCard, AgentExtension
from interlock.a2a.errors import Unavailable
from interlock.a2a.published import ADDRESSES, PublishedCard
from interlock.a2a.signing import signatures

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
PUBLIC_URL = "https://public.example/a2a"
GATEWAY = {"requestContext": {"path": "/prod" + CARD, "domainName": "agents.example"}}


@dataclass
class FakeSigner:
    """Implements `Signer`: what it signs is what it returns."""

    signed: list[bytes] = field(default_factory=list)
    error: Exception | None = None
    alg = "ES256"
    kid = "key-1"

    @property
    def public_jwk(self) -> dict[str, JsonValue]:
        if self.error is not None:
            raise self.error
        return {"kty": "EC", "kid": self.kid}

    def sign(self, data: bytes) -> bytes:
        if self.error is not None:
            raise self.error
        self.signed.append(data)
        return data


def decoded(text: str) -> bytes:
    assert "=" not in text
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def contents(signed: list[bytes]) -> list[str]:
    """The canonical forms in what was signed."""
    return [decoded(data.decode().split(".")[1]).decode() for data in signed]


# What is signed


def test_a_signature_is_a_detached_jws_over_the_canonical_card() -> None:
    signer = FakeSigner()
    card = agent_card(
        name="Grüße \u20ac",
        capabilities=AgentCapabilities(streaming=False),
        security_requirements=None,
        provider=None,
        security_schemes=None,
    ).served_at("https://a.example")
    (signature,) = signatures(card, signer, "https://a.example")
    assert json.loads(decoded(signature.protected)) == {
        "alg": "ES256",
        "kid": "key-1",
        "typ": "JOSE",
        "jku": "https://a.example/.well-known/jwks.json",
    }
    (data,) = signer.signed
    assert decoded(signature.signature) == data
    assert data.decode().split(".")[0] == signature.protected
    assert contents([data]) == [
        '{"capabilities":{"streaming":false},"defaultInputModes":["text/plain"],'
        '"defaultOutputModes":["text/plain"],"description":"Asks before it releases","name":"Grüße €",'
        '"skills":[{"description":"Releases","id":"release","inputModes":["application/json"],'
        '"name":"Release","tags":["release"]}],"supportedInterfaces":['
        '{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":"https://a.example"},'
        '{"protocolBinding":"HTTP+JSON","protocolVersion":"1.0","url":"https://a.example"}],'
        '"version":"1.2.3"}'
    ]


def test_earlier_signatures_are_not_signed() -> None:
    signer = FakeSigner()
    card = agent_card()
    signed = card.model_copy(update={"signatures": signatures(card, signer, "https://a.example")})
    signatures(signed, signer, "https://a.example")
    half = len(signer.signed) // 2
    assert signer.signed[:half] == signer.signed[half:]


PARAMS: dict[str, JsonValue] = {"kept": 0, "required": False, "gone": [{}, ""]}


def test_what_is_there_and_empty_is_signed_both_ways() -> None:
    extension = AgentExtension(uri="urn:a", required=False, params=PARAMS)
    capabilities = AgentCapabilities(streaming=False, extensions=[extension])
    signer = FakeSigner()
    card = agent_card(capabilities=capabilities)
    first, second = signatures(card, signer, "https://a.example")
    assert first.protected == second.protected
    stated, pruned = (json.loads(content) for content in contents(signer.signed))
    unpruned: dict[str, Any] = card.wire()
    del unpruned["capabilities"]["extensions"][0]["required"]  # false, which protobuf can not tell from unset
    assert stated == unpruned
    del stated["securityRequirements"]  # a bearer without scopes is empty all the way up
    del stated["capabilities"]["extensions"][0]["params"]["gone"]
    assert pruned == stated


# Who gets a signature


def get(
    path: str = CARD, *, signer: FakeSigner | None, public_url: str | None = PUBLIC_URL, **other: Any
) -> Answer:
    other.setdefault("headers", {"host": "agents.example"})
    door = Door(options={"signer": signer, "public_url": public_url})
    return ask(door.app, "GET", path, **other)


def test_a_card_at_the_public_url_is_signed() -> None:
    signer = FakeSigner()
    answer = get(signer=signer)
    card = answer.json()
    assert answer.status == 200
    assert [decoded(signature["signature"]) for signature in card.pop("signatures")] == signer.signed
    assert json.loads(contents(signer.signed)[0])["supportedInterfaces"] == card["supportedInterfaces"]
    assert card["supportedInterfaces"][0]["url"] == PUBLIC_URL


@pytest.mark.parametrize(
    ("scope", "headers", "url"),
    [
        ({"aws.event": GATEWAY}, {"x-forwarded-proto": "https"}, "https://agents.example/prod"),
        (
            {
                "aws.event": {
                    "requestContext": {**GATEWAY["requestContext"], "domainName": "Agents.Example"}
                },
                "root_path": "/prod",
                "path": "/prod" + CARD,
            },
            {"x-forwarded-proto": "https"},
            "https://agents.example/prod",
        ),
        ({"aws.event": GATEWAY}, {"host": "evil.example"}, None),
        ({"aws.event": GATEWAY}, {"host": "agents.example:8443"}, None),
        ({"aws.event": {"requestContext": {"path": CARD}}}, {}, None),
        ({"aws.event": {}}, {"host": "none"}, None),
        ({}, {}, None),
        ({}, {"host": "none"}, None),
        ({}, {"host": ""}, None),
    ],
)
def test_without_one_only_the_gateways_own_name_is_signed_for(
    scope: dict[str, Any], headers: dict[str, str], url: str | None
) -> None:
    signer = FakeSigner()
    answer = get(
        signer=signer, public_url=None, scope=scope, headers={"host": "agents.example", **headers}
    ).json()
    assert ("signatures" in answer, bool(signer.signed)) == (url is not None, url is not None)
    if url is not None:
        assert {interface["url"] for interface in answer["supportedInterfaces"]} == {url}


def test_without_a_signer_nothing_is_signed_and_there_is_no_key() -> None:
    assert "signatures" not in get(signer=None).json()
    assert get(JWKS, signer=None).status == 404


def test_a_card_is_signed_once_for_an_address() -> None:
    signer = FakeSigner()
    door = Door(options={"signer": signer, "public_url": PUBLIC_URL})
    answers = {ask(door.app, "GET", CARD, headers={"host": f"h{n}.example"}).body for n in range(3)}
    assert (len(answers), len(signer.signed)) == (1, 2)


def test_made_up_addresses_do_not_drive_out_what_is_signed() -> None:
    signer = FakeSigner()
    card = PublishedCard(agent_card(), signer=signer)
    ours = Address("https://a.example", ours=True)
    signed = card.at(ours)
    for number in range(2 * ADDRESSES):
        assert card.at(Address(f"https://{number}.example", ours=False)).signatures is None
    assert card.at(ours) is signed
    assert card.at(Address("https://a.example", ours=False)).signatures is None


def test_etag_and_head_are_those_of_the_signed_card() -> None:
    door = Door(options={"signer": FakeSigner(), "public_url": PUBLIC_URL})
    seen = ask(door.app, "GET", CARD, headers={"host": "a.example"})
    head = ask(door.app, "HEAD", CARD, headers={"host": "a.example"})
    assert (head.headers, head.body) == (seen.headers, b"")
    known = {"host": "a.example", "if-none-match": seen.headers["etag"]}
    assert ask(door.app, "GET", CARD, headers=known).status == 304


def test_the_signer_is_called_where_the_service_is() -> None:
    signer = FakeSigner()
    door = Door(options={"signer": signer, "public_url": PUBLIC_URL, "run": run_in_threadpool})
    assert "signatures" in ask(door.app, "GET", CARD, headers={"host": "a.example"}).json()


@pytest.mark.parametrize("path", [CARD, JWKS])
def test_a_signer_that_does_not_answer_is_a_503_and_asked_again(path: str) -> None:
    signer = FakeSigner(error=Unavailable(retry_after=1))
    door = Door(options={"signer": signer, "public_url": PUBLIC_URL})
    answer = ask(door.app, "GET", path, headers={"host": "a.example"})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert reason(answer.json()["error"]) == "UNAVAILABLE"
    assert "cache-control" not in answer.headers
    signer.error = None
    assert ask(door.app, "GET", path, headers={"host": "a.example"}).status == 200


@pytest.mark.parametrize("path", [CARD, JWKS])
def test_a_signer_that_is_broken_says_nothing_of_how(path: str) -> None:
    answer = get(path, signer=FakeSigner(error=ValueError("secret")))
    assert (answer.status, reason(answer.json()["error"])) == (500, "INTERNAL_ERROR")
    assert b"secret" not in answer.body


# The key


def test_the_key_is_public_and_cacheable() -> None:
    answer = get(JWKS, signer=FakeSigner())
    assert answer.json() == {"keys": [{"kty": "EC", "kid": "key-1"}]}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    known = {"host": "a.example", "if-none-match": answer.headers["etag"]}
    assert get(JWKS, signer=FakeSigner(), headers=known).status == 304


# The card for 0.3, and the extended card


def test_a_card_that_0_3_can_read_has_the_signature_of_the_card_of_1_0() -> None:
    door = Door(options={"signer": FakeSigner(), "public_url": PUBLIC_URL, "v0_3": True})
    merged = ask(door.app, "GET", CARD, headers={"host": "a.example"}).json()
    current = ask(door.app, "GET", CARD, headers={"host": "a.example", "a2a-version": "1.0"}).json()
    assert merged["signatures"] == current["signatures"]
    assert "url" in merged
    assert "url" not in current


def extended_door() -> Door:
    signer = FakeSigner()
    extended = PublishedCard(agent_card(description="For you"), signer=signer)
    card: AgentCard = agent_card(capabilities=AgentCapabilities(extended_agent_card=True))
    return Door(FakeService(extended=extended), card, {"signer": signer, "public_url": PUBLIC_URL})


def test_the_extended_card_is_signed_and_private() -> None:
    door = extended_door()
    for path in ("/extendedAgentCard", "/acme/extendedAgentCard"):
        answer = door.rest("GET", path)
        assert answer.headers["cache-control"] == "private, max-age=300"
        assert answer.json() == door.rpc("GetExtendedAgentCard").json()["result"]
        card = AgentCard.model_validate(answer.json())
        assert (card.description, len(card.signatures or [])) == ("For you", 2)
        assert card.supported_interfaces is not None
        assert card.supported_interfaces[0].url == PUBLIC_URL
    public = ask(door.app, "GET", CARD, headers={"host": "a.example"}).json()
    assert public["description"] != "For you"


def test_the_extended_card_is_for_authenticated_callers() -> None:
    door = extended_door()
    headers = with_headers(authorization=None)
    for answer in (
        door.rest("GET", "/extendedAgentCard", headers=headers),
        door.rpc("GetExtendedAgentCard", headers=headers),
    ):
        assert answer.status == 401
        assert b"For you" not in answer.body
        assert "cache-control" not in answer.headers
    assert (
        door.rest("GET", "/extendedAgentCard", headers=with_headers(authorization=CREDENTIAL)).status == 200
    )


def test_one_that_is_declared_but_not_there_is_32007() -> None:
    card = agent_card(capabilities=AgentCapabilities(extended_agent_card=True))
    door = Door(card=card)
    rest, rpc = door.rest("GET", "/extendedAgentCard"), door.rpc("GetExtendedAgentCard", {})
    assert (rest.status, rpc.status) == (400, 200)
    assert rpc.json()["error"]["code"] == -32007
    assert reason(rest.json()["error"]) == "EXTENDED_AGENT_CARD_NOT_CONFIGURED"


def test_other_answers_say_nothing_of_caches() -> None:
    assert "cache-control" not in Door().rest("GET", "/tasks").headers
