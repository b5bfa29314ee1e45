"""HTTP out to URLs that callers chose, which must not become a way into the network that this runs in.

A name is resolved once, every address of it is judged, and the connection is made to an address that was
judged: what the name resolves to a moment later does not matter. Redirects are answers like any other, and
proxies of the environment are not asked.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from re import compile as pattern
from socket import AF_UNSPEC, SHUT_RDWR, SOCK_STREAM, create_connection, getaddrinfo, socket
from threading import Timer
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from interlock.engine.push import DeliveryFailed

CONNECT_SECONDS = 5.0
"""For one address, of which so many are tried:"""
MAX_ADDRESSES = 2
TOTAL_SECONDS = 15.0
"""From there to the head of the answer, however slowly it drips in."""

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All that is assigned of IPv6 (IANA, "Internet Protocol Version 6 Address Space")."""
SIX_TO_FOUR = IPv6Network("2002::/16")
"""Carries an IPv4 address inside (RFC 3056)."""

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


class WebHooks:
    """Implements `Receiver`. `local` is for a laptop: addresses of any kind, and plain HTTP."""

    def __init__(
        self,
        *,
        local: bool = False,
        resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._local = local
        self._resolve = resolve
        self._given_tls = tls
        self._connect_seconds = connect_seconds
        self._total_seconds = total_seconds

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._given_tls or ssl.create_default_context()

    def check(self, url: str) -> None:
        self._parts(url)

    def _parts(self, url: str) -> SplitResult:
        """Raises `ValueError` that says what is wrong with the URL."""
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

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        try:
            parts = self._parts(url)
        except ValueError as error:
            raise DeliveryFailed(f"the URL {error}") from error
        secure = parts.scheme == "https"
        host, port = parts.hostname or "", parts.port or (443 if secure else 80)
        connection = HTTPConnection(host, port)
        named = f"[{host}]" if ":" in host else host
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        try:
            with self._connected(host, port, secure=secure) as connection.sock:
                connection.putrequest("POST", target, skip_host=True, skip_accept_encoding=True)
                for name, value in {
                    "Host": named if parts.port is None else f"{named}:{port}",
                    "User-Agent": "interlock",
                    "Content-Length": str(len(body)),
                    "Connection": "close",
                    **headers,
                }.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                # The head says it all: what a receiver answers is not read.
                response = connection.getresponse()
                response.close()
        except (OSError, HTTPException, ValueError) as error:
            # Its text may be of the receiver's making.
            raise DeliveryFailed(f"no answer: {type(error).__name__}") from error
        if not 200 <= response.status < 300:
            raise DeliveryFailed(f"the answer was {response.status}")

    @contextmanager
    def _connected(self, host: str, port: int, *, secure: bool) -> Iterator[socket]:
        """A connection to an address that was judged, which ends when the time is over."""
        addresses, until = self._judged(host, port), monotonic() + self._total_seconds
        connection = self._connect(addresses, port)
        if secure:
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
            # What was read of the head ended there, as if it had been all.
            raise TimeoutError

    def _judged(self, host: str, port: int) -> list[str]:
        addresses = self._resolve(host, port)
        if not self._local and not all(map(is_public, addresses)):
            raise DeliveryFailed("the name resolves to an address of a private network")
        return addresses[:MAX_ADDRESSES]

    def _connect(self, addresses: list[str], port: int) -> socket:
        refused = OSError("no address")
        for address in addresses:
            try:
                connection = create_connection((address, port), self._connect_seconds)
            except OSError as error:
                refused = error
                continue
            connection.settimeout(self._total_seconds)
            return connection
        raise refused


def _shut(connection: socket) -> None:
    try:
        # Not the method of an SSL socket, which also drops the layer that another thread is reading through.
        socket.shutdown(connection, SHUT_RDWR)
    except OSError:
        return  # it has ended already
