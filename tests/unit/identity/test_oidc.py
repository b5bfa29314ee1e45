"""JWTs against a JWKS server on loopback, with keys made here."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from interlock.adapters import oidc
from interlock.adapters.oidc import OidcVerifier
from interlock.engine.authenticate import TokenRefused, VerifierUnavailable

ISSUER = "https://issuer.example/"
AUDIENCE = "interlock"

RSA = rsa.generate_private_key(65537, 2048)
SHORT_RSA = rsa.generate_private_key(65537, 1024)  # noqa: S505
EC = ec.generate_private_key(ec.SECP256R1())
EC2 = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()


def jwk(kid: str, key: Any, **members: Any) -> dict[str, Any]:
    public = key.public_key()
    if isinstance(key, rsa.RSAPrivateKey):
        document = RSAAlgorithm.to_jwk(public, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        document = ECAlgorithm.to_jwk(public, as_dict=True)
    else:
        document = OKPAlgorithm.to_jwk(public, as_dict=True)
    return {**document, "kid": kid, **members}


class Jwks:
    """A server of one document that counts how often it is asked."""

    def __init__(self) -> None:
        self.body: bytes = b""
        self.status = 200
        self.location: str | None = None
        self.asked = 0
        self.drip: float | None = None
        self.closing = threading.Event()
        jwks = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                jwks.asked += 1
                self.send_response(jwks.status)
                if jwks.location is not None:
                    self.send_header("Location", jwks.location)
                self.send_header("Content-Length", str(len(jwks.body)))
                self.end_headers()
                try:
                    if jwks.drip is None:
                        self.wfile.write(jwks.body)
                        return
                    for byte in jwks.body:
                        jwks.closing.wait(jwks.drip)
                        self.wfile.write(bytes([byte]))
                except OSError:
                    pass

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False  # so that closing waits for the answers under way
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/keys"

    def serve(self, *keys: dict[str, Any]) -> None:
        self.status = 200
        self.body = json.dumps({"keys": keys}).encode()

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class Monotonic:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def jwks() -> Iterator[Jwks]:
    server = Jwks()
    server.serve(jwk("rsa", RSA, alg="RS256"), jwk("ec", EC, use="sig"), jwk("ed", ED))
    yield server
    server.close()


@pytest.fixture
def clock() -> Monotonic:
    return Monotonic()


@pytest.fixture
def verifier(jwks: Jwks, clock: Monotonic) -> OidcVerifier:
    return OidcVerifier(ISSUER, AUDIENCE, jwks.url, monotonic=clock)


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    all_claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 600, **changes}
    return {name: value for name, value in all_claims.items() if value is not None}


def token(
    key: Any = EC,
    algorithm: str = "ES256",
    kid: str | None = "ec",
    headers: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    sent = {**(headers or {}), **({} if kid is None else {"kid": kid})}
    return jwt.encode(claims(**changes), key, algorithm, headers=sent)


def unsigned(header: bytes, signature: bytes = b"") -> str:
    payload = json.dumps(claims()).encode()
    return ".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, payload, signature)
    )


def refused(verifier: OidcVerifier, sent: str) -> None:
    with pytest.raises(TokenRefused):
        verifier.subject(sent)


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA, "RS256", "rsa"), (EC, "ES256", "ec"), (ED, "EdDSA", "ed")]
)
def test_a_valid_token_names_its_subject(verifier: OidcVerifier, key: Any, algorithm: str, kid: str) -> None:
    assert verifier.subject(token(key, algorithm, kid)) == "alice"


def test_one_audience_of_several_is_enough(verifier: OidcVerifier) -> None:
    assert verifier.subject(token(aud=["other", AUDIENCE])) == "alice"


def test_the_leeway_is_thirty_seconds(verifier: OidcVerifier) -> None:
    now = int(time.time())
    assert verifier.subject(token(exp=now - 15, nbf=now + 15, iat=now + 15)) == "alice"


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://issuer.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": [AUDIENCE + "x"]},
        {"aud": []},
        {"aud": None},
        {"exp": 1},
        {"exp": int(time.time()) - 35},
        {"exp": "soon"},
        {"exp": None},
        {"iat": int(time.time()) + 86400},
        {"iat": None},
        {"nbf": int(time.time()) + 86400},
        {"sub": None},
        {"sub": ""},
        {"sub": "a b"},
        {"sub": "a\u202eb"},
        {"sub": "x" * 256},
    ],
)
def test_wrong_claims_are_refused(verifier: OidcVerifier, changes: dict[str, Any]) -> None:
    refused(verifier, token(**changes))


def test_a_subject_that_is_not_text_is_refused(verifier: OidcVerifier) -> None:
    sent = jwt.api_jws.encode(json.dumps(claims(sub=7)).encode(), EC, "ES256", headers={"kid": "ec"})
    refused(verifier, sent)


def test_another_key_under_the_same_id_is_refused(verifier: OidcVerifier) -> None:
    refused(verifier, token(EC2))


def test_the_public_key_as_a_shared_secret_is_refused(verifier: OidcVerifier) -> None:
    for kid, key in (("rsa", RSA), ("ec", EC)):
        secret = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        header = json.dumps({"alg": "HS256", "kid": kid}).encode()
        signing_input = unsigned(header).rsplit(".", 1)[0]
        signature = hmac.digest(secret, signing_input.encode(), hashlib.sha256)
        refused(verifier, unsigned(header, signature))


def test_a_shared_secret_among_the_keys_is_passed_over(jwks: Jwks, verifier: OidcVerifier) -> None:
    secret = b"s" * 32
    encoded = base64.urlsafe_b64encode(secret).rstrip(b"=").decode()
    jwks.serve({"kty": "oct", "kid": "oct", "k": encoded}, jwk("ec", EC))
    refused(verifier, token(secret, "HS256", "oct"))
    assert verifier.subject(token()) == "alice"


@pytest.mark.parametrize("algorithm", ["none", "None", "nOnE", ""])
def test_no_signature_is_refused(verifier: OidcVerifier, algorithm: str) -> None:
    refused(verifier, unsigned(json.dumps({"alg": algorithm, "kid": "ec"}).encode()))


def test_the_key_decides_the_algorithm(verifier: OidcVerifier) -> None:
    # The signature is good, but the key is for RS256.
    refused(verifier, token(RSA, "PS256", "rsa"))


def test_a_short_key_is_refused(jwks: Jwks, verifier: OidcVerifier) -> None:
    jwks.serve(jwk("short", SHORT_RSA))
    with pytest.warns(jwt.warnings.InsecureKeyLengthWarning):
        sent = token(SHORT_RSA, "RS256", "short")
    refused(verifier, sent)


def test_a_key_for_encryption_is_passed_over(jwks: Jwks, verifier: OidcVerifier) -> None:
    jwks.serve(jwk("ec", EC, use="enc"))
    refused(verifier, token())


@pytest.mark.parametrize(
    "sent",
    [
        "",
        "..",
        "a.b.c",
        "\u00e9.b.c",
        unsigned(b"[]"),
        unsigned(b"["),
        unsigned(b"[" * 4000),
        unsigned(b'{"alg":"ES256","kid":' + b'{"a":' * 1000),
        unsigned(b'{"alg":["ES256"],"kid":"ec"}'),
        unsigned(b'{"alg":"ES256","kid":["ec"]}'),
        unsigned(b'{"alg":"ES256","kid":"ec"}'),
        unsigned(b'{"alg":"ES256","kid":"ec"}', b"x" * 64),
        token()[:-4] + "AAAA",
        token() + "." + "x" * 8192,
        token(kid=None),
        token(headers={"crit": ["urn:unheard-of"], "urn:unheard-of": True}),
    ],
)
def test_malformed_tokens_are_refused(verifier: OidcVerifier, sent: str) -> None:
    refused(verifier, sent)


def test_an_oversize_or_misnamed_token_never_reaches_the_issuer(jwks: Jwks, verifier: OidcVerifier) -> None:
    refused(verifier, token(padding="x" * 8192))
    refused(verifier, token(kid=None))
    refused(verifier, unsigned(b'{"alg":"HS256","kid":"ec"}'))
    assert jwks.asked == 0


def test_a_key_named_by_the_token_itself_is_ignored(jwks: Jwks, verifier: OidcVerifier) -> None:
    headers = {"jwk": jwk("ec", EC2), "jku": jwks.url}
    refused(verifier, token(EC2, headers=headers))


def test_keys_are_asked_for_once_in_five_minutes(
    jwks: Jwks, verifier: OidcVerifier, clock: Monotonic
) -> None:
    for _ in range(3):
        verifier.subject(token())
        clock.now += 99
    assert jwks.asked == 1
    clock.now += 3
    verifier.subject(token())
    assert jwks.asked == 2


def test_a_withdrawn_key_stops_within_five_minutes(
    jwks: Jwks, verifier: OidcVerifier, clock: Monotonic
) -> None:
    verifier.subject(token())
    jwks.serve(jwk("new", EC2))
    clock.now += 300
    refused(verifier, token())


def test_a_new_key_is_found_at_once(jwks: Jwks, verifier: OidcVerifier, clock: Monotonic) -> None:
    verifier.subject(token())
    jwks.serve(jwk("ec", EC), jwk("new", EC2))
    clock.now += 30
    assert verifier.subject(token(EC2, kid="new")) == "alice"
    assert jwks.asked == 2


def test_made_up_key_ids_reach_the_issuer_once_in_thirty_seconds(
    jwks: Jwks, verifier: OidcVerifier, clock: Monotonic
) -> None:
    verifier.subject(token())
    for second in range(90):
        clock.now += 1
        refused(verifier, token(kid=f"made-up-{second}"))
        assert verifier.subject(token()) == "alice"
    assert jwks.asked == 1 + 3


def test_keys_outlive_an_outage_for_an_hour(jwks: Jwks, verifier: OidcVerifier, clock: Monotonic) -> None:
    verifier.subject(token())
    jwks.status = 503
    clock.now += 3599
    assert verifier.subject(token()) == "alice"
    clock.now += 1
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token())


def test_an_issuer_that_is_down_is_not_hammered_and_found_again(
    jwks: Jwks, verifier: OidcVerifier, clock: Monotonic
) -> None:
    jwks.status = 500
    for _ in range(5):
        with pytest.raises(VerifierUnavailable):
            verifier.subject(token())
    assert jwks.asked == 1
    jwks.status = 200
    clock.now += 5
    assert verifier.subject(token()) == "alice"


def test_a_key_not_seen_yet_can_not_be_judged_while_the_issuer_is_down(
    jwks: Jwks, verifier: OidcVerifier, clock: Monotonic
) -> None:
    verifier.subject(token())
    jwks.status = 500
    clock.now += 30
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token(EC2, kid="new"))
    assert verifier.subject(token()) == "alice"


def test_nobody_listens(clock: Monotonic) -> None:
    gone = Jwks()
    gone.close()
    with pytest.raises(VerifierUnavailable):
        OidcVerifier(ISSUER, AUDIENCE, gone.url, monotonic=clock).subject(token())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[" * 100_000,
        b"[]",
        b'{"keys": {}}',
        b'{"keys": [], "x": "' + b"x" * oidc.MAX_JWKS_BYTES + b'"}',
    ],
)
def test_what_is_not_a_key_set_is_an_outage(jwks: Jwks, verifier: OidcVerifier, body: bytes) -> None:
    jwks.body = body
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token())


def test_broken_keys_do_not_hide_good_ones(jwks: Jwks, verifier: OidcVerifier) -> None:
    jwks.serve(
        {"kid": "a"},
        {"kid": "b", "kty": "EC", "alg": ["ES256"]},
        {"kid": "c", "kty": "RSA", "n": 5, "e": None},
        {"kid": "d", "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kid": 5, **{k: v for k, v in jwk("", EC2).items() if k != "kid"}},
        jwk("ec", EC),
        jwk("ec", EC2),
    )
    assert verifier.subject(token()) == "alice"


def test_redirects_are_not_followed(jwks: Jwks, verifier: OidcVerifier) -> None:
    jwks.status, jwks.location = 302, "https://elsewhere.example/keys"
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token())


def test_an_issuer_that_drips_is_given_up(
    monkeypatch: pytest.MonkeyPatch, jwks: Jwks, verifier: OidcVerifier
) -> None:
    monkeypatch.setattr(oidc, "TIMEOUT_SECONDS", 0.2)
    jwks.drip = 0.05
    began = time.monotonic()
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token())
    assert time.monotonic() - began < 2


def test_an_issuer_that_is_silent_is_given_up(
    monkeypatch: pytest.MonkeyPatch, jwks: Jwks, verifier: OidcVerifier
) -> None:
    monkeypatch.setattr(oidc, "TIMEOUT_SECONDS", 0.2)
    jwks.drip = 3600
    with pytest.raises(VerifierUnavailable):
        verifier.subject(token())


def test_threads_share_one_fetch(jwks: Jwks, verifier: OidcVerifier) -> None:
    sent = token()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(verifier.subject, [sent] * 32)) == {"alice"}
    assert jwks.asked == 1


@pytest.mark.parametrize(
    "url", ["http://issuer.example/keys", "ftp://127.0.0.1/", "https://", "/keys", "https://x:y/"]
)
def test_keys_come_over_https_or_loopback(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        OidcVerifier(ISSUER, AUDIENCE, url)


@pytest.mark.parametrize("url", ["https://issuer.example/keys", "http://localhost:1/", "http://[::1]:1/"])
def test_acceptable_key_urls(url: str) -> None:
    OidcVerifier(ISSUER, AUDIENCE, url)


@pytest.mark.parametrize(("issuer", "audience"), [("", AUDIENCE), (ISSUER, "")])
def test_issuer_and_audience_are_required(issuer: str, audience: str) -> None:
    with pytest.raises(ValueError, match="required"):
        OidcVerifier(issuer, audience, "https://issuer.example/keys")
