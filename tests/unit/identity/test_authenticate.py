"""From the `Authorization` header to a principal."""

import pytest

from interlock.a2a.errors import Unauthenticated, Unavailable
from interlock.engine.authenticate import (
    MAX_AUTHORIZATION,
    Credential,
    CredentialStore,
    TokenRefused,
    TokenVerifier,
    VerifierUnavailable,
    authenticate,
    is_subject,
    token_hash,
)
from interlock.engine.ports import OutcomeUnknown
from interlock.oversight.principals import Kind, Principal, Role

TOKEN = "il_" + "x" * 43
JWT = "eyJh.eyJz.c2ln"
ALICE = Principal("bearer:alice", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
BOB = Principal("jwt:bob", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
LOCAL = Principal("anonymous", "local", Kind.SERVICE, frozenset({Role.CALLER}))


class Credentials:
    def __init__(self, *credentials: Credential) -> None:
        self.known = {credential.known_by: credential for credential in credentials}
        self.asked: list[str] = []

    def by_token_hash(self, hash_hex: str) -> Credential | None:
        self.asked.append(hash_hex)
        return self.known.get(hash_hex)

    def by_subject(self, subject: str) -> Credential | None:
        self.asked.append(subject)
        return self.known.get(subject)


class Broken(Credentials):
    def by_token_hash(self, hash_hex: str) -> Credential | None:
        raise OutcomeUnknown(f"no answer for {hash_hex}")

    def by_subject(self, subject: str) -> Credential | None:
        raise OutcomeUnknown(f"no answer for {subject}")


class Verifier:
    def __init__(self, outcome: str | Exception) -> None:
        self.outcome = outcome
        self.asked: list[str] = []

    def subject(self, token: str) -> str:
        self.asked.append(token)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@pytest.fixture
def credentials() -> Credentials:
    return Credentials(Credential(ALICE, token_hash(TOKEN)), Credential(BOB, "bob"))


def call(
    authorization: str | None,
    credentials: CredentialStore,
    verifier: TokenVerifier | None = None,
    anonymous: Principal | None = None,
) -> Principal:
    return authenticate(authorization, credentials=credentials, verifier=verifier, anonymous=anonymous)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_an_opaque_token_is_looked_up_by_its_hash(credentials: Credentials, scheme: str) -> None:
    assert call(scheme + TOKEN, credentials) == ALICE
    assert credentials.asked == [token_hash(TOKEN)]


def test_the_hash_is_sha_256_in_hex() -> None:
    # echo -n abc | sha256sum
    assert token_hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_jwt_is_verified_and_its_subject_looked_up(credentials: Credentials) -> None:
    assert call(f"Bearer {JWT}", credentials, Verifier("bob")) == BOB
    assert credentials.asked == ["bob"]


def test_a_subject_that_was_not_allowed_is_refused(credentials: Credentials) -> None:
    with pytest.raises(Unauthenticated):
        call(f"Bearer {JWT}", credentials, Verifier("mallory"))


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer\t{TOKEN}",
        f" Bearer {TOKEN}",
        f"Bearer {TOKEN} ",
        f"Bearer {TOKEN} {TOKEN}",
        f"Bearer {TOKEN},{TOKEN}",
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Bearer {TOKEN}\n",
        f"Bearer {TOKEN}\u00e9",
        f"Bearer {TOKEN}=",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        "Bearer il_",
        "Bearer a.b." + "x" * MAX_AUTHORIZATION,
        "Bearer a.b",
        "Bearer a.b.c.d",
    ],
)
def test_anything_else_is_refused_without_a_lookup(credentials: Credentials, authorization: str) -> None:
    verifier = Verifier("bob")
    with pytest.raises(Unauthenticated):
        call(authorization, credentials, verifier, anonymous=LOCAL)
    assert credentials.asked == []
    assert verifier.asked == []


def test_an_unknown_token_is_refused(credentials: Credentials) -> None:
    with pytest.raises(Unauthenticated):
        call("Bearer il_" + "y" * 43, credentials)


def test_a_jwt_is_refused_where_no_issuer_is_configured(credentials: Credentials) -> None:
    with pytest.raises(Unauthenticated):
        call(f"Bearer {JWT}", credentials)
    assert credentials.asked == []


def test_a_store_that_answers_with_another_credential_authenticates_nobody() -> None:
    store = Credentials()
    store.known[token_hash(TOKEN)] = Credential(ALICE, token_hash("another"))
    store.known["mallory"] = Credential(BOB, "bob")
    for authorization in (f"Bearer {TOKEN}", f"Bearer {JWT}"):
        with pytest.raises(Unauthenticated):
            call(authorization, store, Verifier("mallory"))


def test_no_header_is_anonymous_only_where_a_setting_says_so(credentials: Credentials) -> None:
    assert call(None, credentials, anonymous=LOCAL) == LOCAL
    with pytest.raises(Unauthenticated):
        call(None, credentials)


def test_a_bad_token_is_not_anonymous(credentials: Credentials) -> None:
    with pytest.raises(Unauthenticated):
        call("Bearer il_" + "y" * 43, credentials, anonymous=LOCAL)


@pytest.mark.parametrize("authorization", [f"Bearer {TOKEN}", f"Bearer {JWT}"])
def test_a_failed_read_refuses_and_says_nothing(authorization: str) -> None:
    with pytest.raises(Unavailable) as refused:
        call(authorization, Broken(), Verifier("bob"), anonymous=LOCAL)
    assert refused.value.message == Unavailable.text


def test_keys_that_can_not_be_had_refuse(credentials: Credentials) -> None:
    with pytest.raises(Unavailable):
        call(f"Bearer {JWT}", credentials, Verifier(VerifierUnavailable("down")), anonymous=LOCAL)


def test_every_refusal_reads_the_same(credentials: Credentials) -> None:
    refusals = [
        (None, None),
        ("Basic x", None),
        ("Bearer il_" + "y" * 43, None),
        (f"Bearer {JWT}", Verifier(TokenRefused("expired at 12:00"))),
        (f"Bearer {JWT}", Verifier("mallory")),
    ]
    told = set()
    for authorization, verifier in refusals:
        with pytest.raises(Unauthenticated) as refused:
            call(authorization, credentials, verifier)
        told.add((refused.value.message, str(refused.value), tuple(refused.value.metadata)))
    assert told == {(Unauthenticated.text, Unauthenticated.text, ())}


@pytest.mark.parametrize("subject", ["bob", "auth0|64f0", "-Nx_9", "a@b.example", "x" * 255])
def test_subjects_are_printable_ascii(subject: str) -> None:
    assert is_subject(subject)


@pytest.mark.parametrize("subject", ["", "a b", "a\n", "a\u202eb", "caf\u00e9", "a#b", "x" * 256])
def test_other_subjects_are_not_acceptable(subject: str) -> None:
    assert not is_subject(subject)
