"""One session for all AWS clients of a process: it holds the service models, most of what a client costs."""

from functools import cache
from threading import Lock

from boto3.session import Session

creating_clients = Lock()
"""Held while a client is created: clients may be shared by threads, a session may not."""


@cache
def session() -> Session:
    """Region, credentials and endpoint are the SDK's own settings."""
    return Session()
