"""One HTTP request to a peer, with its credential where that may go."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from interlock.adapters.outbound import Answer, Forbidden, NoAnswer, Outbound, origin
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable

JSON = "application/json"
VERSION = "A2A-Version"
EXTENSIONS = "A2A-Extensions"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    url: str
    body: bytes | None = None


def ask(
    outbound: Outbound,
    to: PeerAddress,
    request: Request,
    headers: Mapping[str, str],
    *,
    seconds: float,
    max_bytes: int,
) -> Answer:
    """One try. Raises `PeerRefused` where the rules forbid it, or `PeerUnreachable`."""
    sent = {"Accept": JSON, "Accept-Encoding": "identity", **headers}
    if request.body is not None:
        sent["Content-Type"] = JSON
    if to.authorization is not None and at_home(to, request.url):
        sent["Authorization"] = to.authorization
    try:
        return outbound.request(
            request.method, request.url, sent, request.body, seconds=seconds, max_bytes=max_bytes
        )
    except Forbidden as error:
        raise PeerRefused(f"the peer may not be called: {error}") from error
    except NoAnswer as error:
        raise PeerUnreachable(str(error)) from error


def at_home(to: PeerAddress, url: str) -> bool:
    """Whether a URL is on the origin of the address, which alone is told the credential."""
    return origin(urlsplit(url)) == origin(urlsplit(to.url))
