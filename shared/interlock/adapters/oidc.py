"""JWTs of one OIDC issuer (RFC 7519, RFC 8725; keys as RFC 7517 from the issuer's JWKS URL)."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from interlock.engine.authenticate import MAX_AUTHORIZATION, TokenRefused, VerifierUnavailable, is_subject

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS = frozenset({"RS256", "PS256", "ES256", "ES384", "EdDSA"})
"""Asymmetric only: with a shared secret whoever verifies could also sign."""
LEEWAY_SECONDS = 30
FRESH_SECONDS = 300
"""How long keys are used without asking again, so how long a withdrawn key lives on."""
STALE_SECONDS = 3600
"""How long keys are used while the issuer does not answer: its short outages are not ours, its long ones are,
for an issuer that can not be reached can not withdraw a key either."""
ROTATION_SECONDS = 30
"""Between two fetches while there are keys to go on with: made-up key ids do not hammer the issuer."""
RETRY_SECONDS = 5
"""Between two fetches while there are none."""
TIMEOUT_SECONDS = 3.0
MAX_JWKS_BYTES = 256 * 1024


class OidcVerifier:
    """Implements `TokenVerifier`. May be used by several threads.

    `issuer` and `audience` must be in the token's `iss` and `aud`, exactly. `jwks_url` is HTTPS, or HTTP on
    loopback; anything else is a `ValueError`. Nothing is fetched before the first token. `monotonic` tells
    the age of keys, in seconds.
    """

    def __init__(
        self, issuer: str, audience: str, jwks_url: str, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if not issuer or not audience:
            raise ValueError("issuer and audience are required")
        self._issuer = issuer
        self._audience = audience
        self._keys = _KeySet(jwks_url, monotonic)

    def subject(self, token: str) -> str:
        if len(token) > MAX_AUTHORIZATION:
            raise TokenRefused("longer than the limit")
        import jwt

        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise TokenRefused(str(error)) from error
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise TokenRefused("its algorithm is not accepted")
        if not isinstance(kid, str):
            raise TokenRefused("it names no key")
        key = self._keys.key(kid)
        try:
            # The key says which algorithm it is for (RFC 8725, section 3.1), not the token.
            claims = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_SECONDS,
                options={
                    "require": ["iss", "aud", "exp", "iat", "sub"],
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.PyJWTError as error:
            raise TokenRefused(str(error)) from error
        subject = claims["sub"]
        if not isinstance(subject, str) or not is_subject(subject):
            raise TokenRefused("its subject is not acceptable")
        return subject


class _KeySet:
    """The issuer's keys by id. One thread fetches while the others wait for what it gets."""

    def __init__(self, url: str, monotonic: Callable[[], float]) -> None:
        self._url = _checked(url)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._keys: Mapping[str, PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._failed: _FetchFailed | None = None

    def key(self, kid: str) -> "PyJWK":
        with self._lock:
            now = self._monotonic()
            if self._due(kid, now):
                self._refresh(now)
            if not self._usable(now):
                raise VerifierUnavailable("no keys of the issuer") from self._failed
            if kid in self._keys:
                return self._keys[kid]
            if self._failed is not None:
                raise VerifierUnavailable("the issuer can not be asked for a new key") from self._failed
            raise TokenRefused("the issuer has no such key")

    def _due(self, kid: str, now: float) -> bool:
        if self._tried_at is None:
            return True
        since = now - self._tried_at
        if not self._usable(now):
            return since >= RETRY_SECONDS
        return since >= ROTATION_SECONDS and (kid not in self._keys or not self._usable(now, FRESH_SECONDS))

    def _usable(self, now: float, longest: float = STALE_SECONDS) -> bool:
        return self._fetched_at is not None and now - self._fetched_at < longest

    def _refresh(self, now: float) -> None:
        self._tried_at = now
        try:
            self._keys = _usable_keys(_fetch(self._url))
        except _FetchFailed as failed:
            self._failed = failed
        else:
            self._failed = None
            self._fetched_at = now


class _FetchFailed(Exception):
    pass


def _checked(url: str) -> SplitResult:
    parts = urlsplit(url)
    host = parts.hostname or ""
    secure = parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    if not host or not secure or parts.port == 0:
        raise ValueError("a JWKS URL is https, or http on loopback")
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _fetch(url: SplitResult) -> Any:
    """The JSON document at `url`; redirects are not followed. Raises `_FetchFailed`."""
    connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
    connection = connect(url.hostname or "", url.port, timeout=TIMEOUT_SECONDS)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        with connection.getresponse() as response:
            if response.status != 200:
                raise _FetchFailed(f"status {response.status}")
            return json.loads(_bounded(response))
    except (OSError, HTTPException, ValueError, RecursionError) as error:
        raise _FetchFailed(type(error).__name__) from error
    finally:
        connection.close()


def _bounded(response: HTTPResponse) -> bytes:
    # The time-out is one of each read, so an answer that drips has to be stopped by the clock.
    deadline = time.monotonic() + TIMEOUT_SECONDS
    body = b""
    while chunk := response.read1(MAX_JWKS_BYTES):
        body += chunk
        if len(body) > MAX_JWKS_BYTES:
            raise _FetchFailed("longer than the limit")
        if time.monotonic() > deadline:
            raise _FetchFailed("slower than the limit")
    return body


def _usable_keys(document: Any) -> dict[str, "PyJWK"]:
    """Keys that can be named and are for signatures of an accepted algorithm; others are passed over."""
    import jwt

    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise _FetchFailed("not a JWK Set")
    keys: dict[str, PyJWK] = {}
    for jwk in listed:
        if not isinstance(jwk, dict) or not isinstance(jwk.get("kid"), str) or jwk.get("use", "sig") != "sig":
            continue
        try:
            key = jwt.PyJWK(jwk)
        except (jwt.PyJWTError, TypeError, ValueError):
            continue
        if key.algorithm_name in ALGORITHMS:
            keys.setdefault(jwk["kid"], key)
    return keys
