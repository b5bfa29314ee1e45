"""Where a caller finds this server: the URL of the interfaces in a card."""

from dataclasses import dataclass
from typing import Any

from starlette.datastructures import URL
from starlette.requests import Request


@dataclass(frozen=True, slots=True)
class Address:
    """`url` has no trailing slash. `ours`: it was set, or named by the gateway, and not only by the caller.

    Whoever calls chooses the `Host` header, so an address that is nothing but called says nothing of us.
    """

    url: str
    ours: bool


def address(request: Request, public_url: str | None) -> Address:
    """`public_url` goes before the address that was called."""
    if public_url:
        return Address(public_url.rstrip("/"), ours=True)
    url = _base_url(request)
    domain: str | None = _gateway_context(request).get("domainName")
    return Address(str(url), ours=domain is not None and url.netloc.lower() == domain.lower())


def _base_url(request: Request) -> URL:
    """Behind API Gateway the stage is part of the caller's path only, which is in the adapter's event."""
    root: str = request.scope.get("root_path", "")
    path: str = request.scope["path"].removeprefix(root)
    caller_path = _gateway_context(request).get("path", "")
    if caller_path.endswith(path):
        root = caller_path.removesuffix(path)
    url = request.base_url.replace(path=root.rstrip("/"), query="")
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return url.replace(scheme=forwarded) if forwarded in ("http", "https") else url


def _gateway_context(request: Request) -> dict[str, Any]:
    context: dict[str, Any] = request.scope.get("aws.event", {}).get("requestContext", {})
    return context
