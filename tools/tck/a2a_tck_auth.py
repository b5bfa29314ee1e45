"""Lets the official A2A test kit call a server that authenticates its callers: a plugin for its pytest.

The kit (a2aproject/a2a-tck, branch 1.0-dev) sends no credential. With this plugin every request of its to the
server under test carries `Authorization: Bearer $A2A_TCK_TOKEN`, and nothing else about the kit is changed.
In a checkout of the kit, installed there as its README says:

    export A2A_TCK_TOKEN=... PYTHONPATH=<this folder>
    .venv/bin/python run_tck.py --sut-host http://127.0.0.1:8000 \\
        --transport jsonrpc,http_json -- -p a2a_tck_auth

`python -m tools.tck.run --tck CHECKOUT` does this, and starts the server too.
"""

import os
from typing import Any

import httpx
import pytest

TOKEN = "A2A_TCK_TOKEN"  # noqa: S105 (the name of the variable)


def pytest_configure(config: pytest.Config) -> None:
    """Raises `pytest.UsageError` without a token."""
    token = os.environ.get(TOKEN)
    if not token:
        raise pytest.UsageError(f"{TOKEN} is not set")
    server = httpx.URL(config.getoption("--sut-host"))
    original = httpx.Client.send

    def send(client: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
        if (request.url.host, request.url.port) == (server.host, server.port):
            request.headers["Authorization"] = f"Bearer {token}"
        return original(client, request, **options)

    patch = pytest.MonkeyPatch()
    patch.setattr(httpx.Client, "send", send)
    config.add_cleanup(patch.undo)
