"""Who calls: from the `Authorization` header to a `Principal`, or a refusal that says nothing.

Two kinds of bearer tokens (RFC 6750): our own opaque ones, of which only the hash is stored, and JWTs of one
OIDC issuer, whose subjects must have been allowed. Where a read fails the answer is no, never "anonymous".
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from interlock.a2a.errors import Unauthenticated, Unavailable
from interlock.engine.ports import StoreError
from interlock.oversight.principals import Principal

OPAQUE_PREFIX = "il_"
MAX_AUTHORIZATION = 8192
"""Characters of the header. API Gateway takes 10,240 bytes for all headers together."""

_BEARER = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)", re.ASCII)
"""RFC 7235, section 2.1 (the scheme's case does not matter) and RFC 6750, section 2.1 (one token)."""
_OPAQUE = re.compile(re.escape(OPAQUE_PREFIX) + r"[A-Za-z0-9_-]{43}", re.ASCII)
_SUBJECT = re.compile(r"[!-~]{1,255}", re.ASCII)


def is_subject(subject: str) -> bool:
    """At most 255 ASCII characters (OpenID Connect Core, section 2), none blank.

    `#` is refused as well: identities become parts of keys, and it separates those.
    """
    return _SUBJECT.fullmatch(subject) is not None and "#" not in subject


def token_hash(token: str) -> str:
    """SHA-256 in hex. 256 random bits need neither salt nor stretching."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Credential:
    """`known_by`: the hash of the token, or the subject of the JWT, that it was stored under."""

    principal: Principal
    known_by: str


class CredentialStore(Protocol):
    """Credentials that are valid now: neither revoked nor expired.

    Reads are strongly consistent. Raises `StoreError` when there is no answer.
    """

    def by_token_hash(self, hash_hex: str) -> Credential | None: ...

    def by_subject(self, subject: str) -> Credential | None: ...


class TokenRefused(Exception):
    """The JWT is not valid. The text is for the log, not for the caller."""


class VerifierUnavailable(Exception):
    """The issuer's keys are not known now, so the JWT can not be judged."""


class TokenVerifier(Protocol):
    def subject(self, token: str) -> str:
        """Who a valid JWT was issued to. Raises `TokenRefused` or `VerifierUnavailable`."""


Authenticate = Callable[[str | None], Principal]
"""The `Authorization` header to who calls. Raises `Unauthenticated` or `Unavailable`."""


def authenticate(
    authorization: str | None,
    *,
    credentials: CredentialStore,
    verifier: TokenVerifier | None,
    anonymous: Principal | None,
) -> Principal:
    """Who calls. `anonymous` stands for a request without the header, and only for that.

    Raises `Unauthenticated`, with the same text whatever the reason, or `Unavailable`.
    """
    if authorization is None and anonymous is not None:
        return anonymous
    if authorization is None or len(authorization) > MAX_AUTHORIZATION:
        raise Unauthenticated
    match = _BEARER.fullmatch(authorization)
    if match is None:
        raise Unauthenticated
    token = match[1]
    try:
        if _OPAQUE.fullmatch(token) is not None:
            known_by = token_hash(token)
            credential = credentials.by_token_hash(known_by)
        elif verifier is not None and token.count(".") == 2:
            known_by = verifier.subject(token)
            credential = credentials.by_subject(known_by)
        else:
            raise Unauthenticated
    except TokenRefused as refused:
        raise Unauthenticated from refused
    except (StoreError, VerifierUnavailable) as failure:
        raise Unavailable from failure
    if credential is None or not hmac.compare_digest(credential.known_by, known_by):
        raise Unauthenticated
    return credential.principal
