"""Fixtures for adapters that make connections."""

import pytest
from tests.support.receivers import Authority, new_authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))
