"""Fixtures for adapters that make connections."""

import socket

import pytest
from tests.support.receivers import LOOPBACK, PUBLIC_ADDRESS, PUBLIC_NAME, Authority, new_authority

from interlock.adapters.outbound import Outbound


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def internet(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Outbound:
    """Under the rules of a deployment. `PUBLIC_NAME` is public, and its ports are those of loopback."""
    connect = socket.create_connection

    def to_loopback(address: tuple[str, int], timeout: float) -> socket.socket:
        assert address[0] == PUBLIC_ADDRESS
        return connect((LOOPBACK, address[1]), timeout)

    def resolve(host: str, port: int) -> list[str]:
        return [PUBLIC_ADDRESS if host == PUBLIC_NAME else "10.0.0.1"]

    monkeypatch.setattr("interlock.adapters.outbound.create_connection", to_loopback)
    return Outbound(resolve=resolve, tls=authority.client)
