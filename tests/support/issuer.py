"""An OIDC issuer as the page meets one: discovery, the code flow with PKCE (RFC 7636), its keys.

It lets `SUBJECT` in without asking, and refuses whatever a real one would.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

SUBJECT = "4f1c-dora"
CLIENT_ID = "interlock-page"
AUDIENCE = "interlock"
SCOPE = "openid inbox"


@dataclass
class Issuer:
    """`returns_to` is the one address that its client may be sent back to; `lifetime` is in seconds."""

    url: str
    returns_to: str = ""
    lifetime: int = 3600
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refreshes: set[str] = field(default_factory=set)
    granted: list[str] = field(default_factory=list)
    """The grant type of each token that was given."""
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.discovery),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/jwks", self.jwks),
            ],
            # Asked for each request: where the page is, is known later.
            middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_headers=["*"])],
        )

    async def discovery(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "grant_types_supported": ["authorization_code", "refresh_token"],
            }
        )

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        wrong = [
            name
            for name, value in {
                "response_type": "code",
                "client_id": CLIENT_ID,
                "redirect_uri": self.returns_to,
                "scope": SCOPE,
                "code_challenge_method": "S256",
            }.items()
            if asked.get(name) != value
        ]
        if wrong or not asked.get("state") or len(asked.get("code_challenge", "")) != 43:
            return JSONResponse({"error": "invalid_request", "wrong": wrong}, 400)
        code = secrets.token_urlsafe()
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{self.returns_to}?{back}", 302)

    async def token(self, request: Request) -> Response:
        sent = dict(parse_qsl((await request.body()).decode()))
        if sent.get("client_id") != CLIENT_ID or "client_secret" in sent:
            return JSONResponse({"error": "invalid_client"}, 401)
        if sent.get("grant_type") == "refresh_token" and sent.get("refresh_token") in self.refreshes:
            self.refreshes.remove(sent["refresh_token"])
            return self._give("refresh_token", None)
        # A code is good for once.
        asked = self.codes.pop(sent.get("code", ""), {})
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        fits = asked.get("code_challenge") == challenge and asked.get("redirect_uri") == sent.get(
            "redirect_uri"
        )
        if sent.get("grant_type") != "authorization_code" or not fits:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return self._give("authorization_code", asked.get("nonce"))

    def _give(self, grant: str, nonce: str | None) -> Response:
        self.granted.append(grant)
        refresh = secrets.token_urlsafe()
        self.refreshes.add(refresh)
        return JSONResponse(
            {
                "access_token": self.signed(AUDIENCE),
                "id_token": self.signed(CLIENT_ID, **({"nonce": nonce} if nonce else {})),
                "refresh_token": refresh,
                "token_type": "Bearer",
                "expires_in": self.lifetime,
                "scope": SCOPE,
            },
            headers={"cache-control": "no-store"},
        )

    def signed(self, audience: str, **claims: str) -> str:
        now = int(time.time())
        times = {"iat": now, "exp": now + self.lifetime}
        whole: dict[str, Any] = {"iss": self.url, "sub": SUBJECT, "aud": audience, **times, **claims}
        return jwt.encode(whole, self.key, "ES256", {"kid": "one"})

    async def jwks(self, _request: Request) -> Response:
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key()))
        return JSONResponse({"keys": [public | {"kid": "one", "use": "sig", "alg": "ES256"}]})
