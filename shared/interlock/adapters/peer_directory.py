"""The peers that a deployment has configured: their names, addresses and credentials."""

import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Any
from urllib.parse import unquote

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from interlock.a2a import strict_json
from interlock.a2a.errors import A2AError
from interlock.a2a.models import MAX_ID_LENGTH
from interlock.adapters.aws import create_client
from interlock.adapters.outbound import Origin, Outbound, origin
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable

FRESH_SECONDS = 60.0
"""A credential that is rotated is used after this at the latest."""
MAX_NAME_LENGTH = 64
MAX_URL_LENGTH = 2048
MAX_PEERS = 256
MAX_FAULTS = 5
"""Of a document that are logged."""

_CAN_NOT_BE_READ = "the peers can not be read"

_log = logging.getLogger(__name__)

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=MAX_NAME_LENGTH)]


class Peer(BaseModel):
    """One entry of the document. `authorization` is what the header of that name is sent with.

    `for_tenants`: whose operators may register agents that are called with it; without it all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, Field(max_length=MAX_URL_LENGTH)]
    tenant: Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH)] | None = None
    authorization: Annotated[str, Field(pattern=r"^[!-~]+( [!-~]+)*$", max_length=8192)] | None = Field(
        default=None, repr=False
    )
    for_tenants: tuple[str, ...] | None = None

    def serves(self, tenant: str | None) -> bool:
        return tenant is None or self.for_tenants is None or tenant in self.for_tenants


Document = dict[str, Peer]
Read = Callable[[], bytes]
"""The document as JSON. Raises `PeerUnreachable`, or `OSError` or `ValueError` for one that is broken."""


def nothing() -> bytes:
    """Where no peers are configured."""
    return b"{}"


def in_file(path: Path) -> Read:
    return path.read_bytes


def in_secret(new_client: Callable[[], Any], secret_id: str) -> Read:
    """A secret of AWS Secrets Manager, by its id or ARN. The client is made when it is first used."""
    client = cache(new_client)

    def read() -> bytes:
        try:
            secret = client().get_secret_value(SecretId=secret_id)
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            _log.exception("Secrets Manager did not give the peers")
            raise PeerUnreachable(_CAN_NOT_BE_READ) from error
        text = secret.get("SecretString")
        if not isinstance(text, str):
            raise ValueError("the secret is not text")  # noqa: TRY004 (one error for every broken document)
        return text.encode()

    return read


def secrets_client(endpoint_url: str | None = None) -> Any:
    """A client of AWS Secrets Manager that gives up early."""
    config = Config(connect_timeout=1, read_timeout=2, retries={"total_max_attempts": 2, "mode": "standard"})
    return create_client("secretsmanager", endpoint_url, config)


class Directory:
    """Names and URLs to addresses, as the document says that `read` gives."""

    def __init__(self, read: Read, outbound: Outbound, *, now: Callable[[], float] = monotonic) -> None:
        self._read = read
        self._outbound = outbound
        self._now = now
        self._known: tuple[float, Document] | None = None
        self._reading = Lock()

    def resolve(self, name_or_url: str, tenant: str | None = None) -> PeerAddress:
        """`tenant`: as if there were no peers but those that serve it."""
        if "://" in name_or_url:
            place = self._place(name_or_url)
            return PeerAddress(name_or_url, authorization=self._credential(place, tenant))
        peer = self._document().get(name_or_url)
        if peer is None or not peer.serves(tenant):
            raise PeerRefused("no peer of this name is configured")
        self._place(peer.url)
        return PeerAddress(peer.url, peer.tenant, peer.authorization)

    def _place(self, url: str) -> tuple[Origin, str]:
        """Origin and path of a URL that keeps the rules. Raises `PeerRefused`."""
        if len(url) > MAX_URL_LENGTH:
            raise PeerRefused("the URL of the peer is too long")
        try:
            parts = self._outbound.check(url)
        except ValueError as error:
            raise PeerRefused(f"the URL of the peer {error}") from error
        if "?" in url:
            raise PeerRefused("the URL of the peer must not have a query")
        # Where such a path leads is for the server to say, and so not to be compared.
        if "\\" in url or not {".", ".."}.isdisjoint(unquote(parts.path).split("/")):
            raise PeerRefused("the URL of the peer must not have dot segments")
        return origin(parts), parts.path.rstrip("/") + "/"

    def _credential(self, place: tuple[Origin, str], tenant: str | None) -> str | None:
        """Of the peer at the longest beginning of this URL, on the same origin and by whole segments."""
        at, path = place
        found: dict[str, set[str | None]] = {}
        for peer in self._document().values():
            if not peer.serves(tenant):
                continue
            try:
                configured_at, prefix = self._place(peer.url)
            except PeerRefused:
                continue
            if configured_at == at and path.startswith(prefix):
                found.setdefault(prefix, set()).add(peer.authorization)
        if not found:
            return None
        credentials = found[max(found, key=len)]
        if len(credentials) > 1:
            raise PeerRefused("several peers are configured at this URL: use a name")
        return credentials.pop()

    def _document(self) -> Document:
        with self._reading:
            if self._known is None or self._now() - self._known[0] >= FRESH_SECONDS:
                self._known = self._now(), self._parsed()
            return self._known[1]

    def _parsed(self) -> Document:
        try:
            return _documents().validate_python(strict_json.loads(self._read()))
        except ValidationError as error:
            # Where it is broken, never what stands there.
            faults = [(fault["loc"], fault["type"]) for fault in error.errors()[:MAX_FAULTS]]
            _log.error("The peers can not be read: %s", faults)
        except (A2AError, OSError, ValueError) as error:
            _log.error("The peers can not be read: %s", error)
        raise PeerRefused(_CAN_NOT_BE_READ)


def _documents() -> TypeAdapter[Document]:
    return TypeAdapter(Annotated[dict[Name, Peer], Field(max_length=MAX_PEERS)])
