"""The page for people, as its files. They hold nothing of anybody: what it shows it asks of their door.

All are read once, so that a request can name nothing else. All are text: for binary bodies API Gateway would
have to be told how each body of the whole API is handed on.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/inbox"
ENTRY = "index.html"
CONFIG = "config.json"
HASHED = "assets/"
"""Files below it have a hash of their content in their names."""
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


@dataclass(frozen=True, slots=True)
class SignIn:
    """At an OIDC issuer, by the code flow with PKCE, as a client without a secret.

    `origins` are what that calls beside the issuer's own.
    """

    issuer: str
    client_id: str
    scope: str
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    body: bytes
    headers: Mapping[str, str]


def create_app(folder: Path, sign_in: SignIn | None = None) -> Starlette:
    """Serves the built page in `folder`. Without `sign_in` people sign in with a token of this deployment.

    Raises `FileNotFoundError` where the page is not built, and `KeyError` for a type that is not served.
    """
    files = {CONFIG: _file(CONFIG, json.dumps(_config(sign_in)).encode())}
    for path in (folder / ENTRY, *filter(Path.is_file, folder.rglob("*"))):
        name = path.relative_to(folder).as_posix()
        files[name] = _file(name, path.read_bytes())

    async def redirect(_request: Request) -> Response:
        # Relative: it keeps the stage, whatever stands before it.
        return RedirectResponse(f"{PATH[1:]}/")

    async def serve(request: Request) -> Response:
        file = files.get(request.path_params["name"] or ENTRY)
        if file is None:
            raise HTTPException(404)
        if file.headers["etag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=file.headers)
        return Response(file.body, headers=file.headers)

    app = Starlette(
        routes=[Route(PATH, redirect), Route(f"{PATH}/{{name:path}}", serve)],
        middleware=[Middleware(_Secured, headers=security_headers(sign_in))],
    )
    app.router.redirect_slashes = False
    return app


def security_headers(sign_in: SignIn | None) -> dict[str, str]:
    """The page runs its own files and nothing else, is shown in no other page, and calls nobody but this
    deployment and the issuer."""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": " ".join(("'self'", *_origins(sign_in))),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        # What Svelte makes elements of its own templates with.
        "trusted-types": "svelte-trusted-html",
    }
    return {
        "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "referrer-policy": "no-referrer",
        "strict-transport-security": "max-age=31536000",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
    }


def _config(sign_in: SignIn | None) -> dict[str, str]:
    if sign_in is None:
        return {"signIn": "token"}
    return {
        "signIn": "oidc",
        "issuer": sign_in.issuer,
        "clientId": sign_in.client_id,
        "scope": sign_in.scope,
    }


def _origins(sign_in: SignIn | None) -> tuple[str, ...]:
    if sign_in is None:
        return ()
    issuer = urlsplit(sign_in.issuer)
    return f"{issuer.scheme}://{issuer.netloc}", *sign_in.origins


def _file(name: str, body: bytes) -> File:
    headers = {
        "content-type": TYPES[Path(name).suffix],
        "cache-control": FOR_EVER if name.startswith(HASHED) else ASK_AGAIN,
        "etag": f'"{sha256(body).hexdigest()[:32]}"',
    }
    return File(body, headers)


class _Secured:
    """Puts the headers on whatever is answered."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str]) -> None:
        self.app = app
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self.headers)
            await send(message)

        await self.app(scope, receive, secured)
