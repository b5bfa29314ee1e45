"""Clients of AWS services. They share one session: it holds the service models, most of what a client costs.

The session is botocore's own: boto3 adds nothing to clients, and imports what S3 transfers need.
"""

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from botocore.session import Session

if TYPE_CHECKING:
    from botocore.config import Config

_creating = Lock()
"""Clients may be shared by threads, a session may not."""


@cache
def session() -> Session:
    return Session()


def create_client(service: str, endpoint_url: str | None = None, config: "Config | None" = None) -> Any:
    """Region, credentials and, unless given, the endpoint are the SDK's own settings (`AWS_ENDPOINT_URL`)."""
    with _creating:
        return session().create_client(service, endpoint_url=endpoint_url, config=config)
