"""HTTP out to URLs that others chose, which must not become a way into the network that this runs in.

A name is resolved once, every address of it is judged, and the connection is made to an address that was
judged: what the name resolves to a moment later does not matter. Redirects are answers like any other, and
proxies of the environment are not asked.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from re import compile as pattern
from socket import AF_UNSPEC, SHUT_RDWR, SOCK_STREAM, create_connection, getaddrinfo, socket
from threading import Timer
from time import monotonic
from urllib.parse import SplitResult, urlsplit

CONNECT_SECONDS = 5.0
"""For one address, of which so many are tried:"""
MAX_ADDRESSES = 2

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All that is assigned of IPv6 (IANA, "Internet Protocol Version 6 Address Space")."""
SIX_TO_FOUR = IPv6Network("2002::/16")
"""Carries an IPv4 address inside (RFC 3056)."""

_READ_BYTES = 64 * 1024
_PRINTABLE = pattern(r"[!-~]+")
_NAME = pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")

Resolve = Callable[[str, int], list[str]]
"""Name and port to addresses. Raises `OSError`."""


def resolve(host: str, port: int) -> list[str]:
    found = getaddrinfo(host, port, AF_UNSPEC, SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


def is_public(text: str) -> bool:
    """Whether an address is one of the internet's, and so of nobody's own network."""
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return _is_public_v4(address.ipv4_mapped)
        return address in GLOBAL_UNICAST and address not in SIX_TO_FOUR and address.is_global
    return _is_public_v4(address)


def _is_public_v4(address: IPv4Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved)


Origin = tuple[str, str, int]
"""Scheme, host and port (RFC 6454)."""


def origin(parts: SplitResult) -> Origin:
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


class Forbidden(Exception):
    """The rules say not to call there: nothing was sent. The text is fit to be shown."""


class NoAnswer(Exception):
    """None that is complete and in time. The text is ours, and holds nothing that was sent or received."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is None where it was not asked for."""

    status: int
    content_type: str
    body: bytes | None


class Outbound:
    """Makes requests. `local` is for a laptop: addresses of any kind, and plain HTTP."""

    def __init__(
        self,
        *,
        local: bool = False,
        resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._local = local
        self._resolve = resolve
        self._given_tls = tls
        self._connect_seconds = connect_seconds

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    def check(self, url: str) -> SplitResult:
        """The parts of a URL that may be called. Raises `ValueError` that says what is wrong with it."""
        if not _PRINTABLE.fullmatch(url):
            raise ValueError("must be of printable ASCII characters without spaces")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError("is not a URL") from None
        if port == 0:
            raise ValueError("must not be at port 0")
        if parts.scheme != "https" and not (self._local and parts.scheme == "http"):
            raise ValueError("must be https" if not self._local else "must be http or https")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not hold credentials: those go into authentication")
        if "#" in url:
            raise ValueError("must not have a fragment")
        self._check_host(parts.hostname or "", literal="[" in parts.netloc)
        return parts

    def _check_host(self, host: str, *, literal: bool) -> None:
        try:
            public = is_public(host)
        except ValueError:
            if literal or not _NAME.fullmatch(host):
                raise ValueError("must name a host") from None
            return  # what the name resolves to is judged when it is called
        if not (public or self._local):
            raise ValueError("must not be at an address of a private network")

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        seconds: float,
        max_bytes: int | None = None,
    ) -> Answer:
        """One try, over in `seconds` however slowly the answer drips in. Resolving a name may take longer.

        Without `max_bytes` the head says it all, and no body is read. Raises `Forbidden` or `NoAnswer`.
        """
        try:
            parts = self.check(url)
        except ValueError as error:
            raise Forbidden(f"the URL {error}") from error
        _, host, port = origin(parts)
        connection = HTTPConnection(host, port)
        named = f"[{host}]" if ":" in host else host
        given = {
            "Host": named if parts.port is None else f"{named}:{port}",
            "User-Agent": "interlock",
            **({"Content-Length": str(len(body))} if body is not None else {}),
            "Connection": "close",
            **headers,
        }
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            with self._connected(parts, monotonic() + seconds) as connection.sock:
                connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
                for name, value in given.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                with connection.getresponse() as response:
                    received = _read(response, max_bytes) if max_bytes is not None else None
        except (OSError, HTTPException, ValueError) as error:
            # Its text may be of the receiver's making, or hold a header of ours.
            raise NoAnswer(f"no answer: {type(error).__name__}") from None
        return Answer(response.status, response.headers.get_content_type(), received)

    @contextmanager
    def _connected(self, parts: SplitResult, until: float) -> Iterator[socket]:
        """A connection to an address that was judged, which ends when the time is over."""
        scheme, host, port = origin(parts)
        connection = self._connect(self._judged(host, port), port, until)
        if scheme == "https":
            # Neither certificates nor the extension have the dot of the root at a name's end.
            name = host.removesuffix(".")
            connection = self._tls.wrap_socket(
                connection, server_hostname=name, do_handshake_on_connect=False
            )
        # Timeouts of a socket begin again with every byte; this one does not.
        over = Timer(until - monotonic(), _shut, (connection,))
        over.daemon = True
        with connection:
            over.start()
            try:
                if isinstance(connection, ssl.SSLSocket):
                    connection.do_handshake()
                yield connection
            finally:
                over.cancel()
        if monotonic() >= until:
            # What was read ended there, as if it had been all.
            raise TimeoutError

    def _judged(self, host: str, port: int) -> list[str]:
        addresses = self._resolve(host, port)
        if not self._local and not all(map(is_public, addresses)):
            raise Forbidden("the name resolves to an address of a private network")
        return addresses[:MAX_ADDRESSES]

    def _connect(self, addresses: list[str], port: int, until: float) -> socket:
        refused = OSError("no address")
        for address in addresses:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            try:
                connection = create_connection((address, port), min(self._connect_seconds, left))
            except OSError as error:
                refused = error
                continue
            connection.settimeout(left)
            return connection
        raise refused


def _read(response: HTTPResponse, max_bytes: int) -> bytes:
    # Never `read`: that takes a chunk of -1 bytes for all there is.
    received, buffer = bytearray(), bytearray(_READ_BYTES)
    while count := response.readinto(buffer):
        received += memoryview(buffer)[:count]
        if len(received) > max_bytes:
            raise TooLarge
    if response.length:
        raise IncompleteRead(b"", response.length)
    return bytes(received)


class TooLarge(HTTPException):
    """Named in a `NoAnswer`."""


def _shut(connection: socket) -> None:
    try:
        # Not the method of an SSL socket, which also drops the layer that another thread is reading through.
        socket.shutdown(connection, SHUT_RDWR)
    except OSError:
        return  # it has ended already
