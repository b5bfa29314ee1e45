"""Fixtures that every kind of test may use. No test reaches AWS: the credentials are made up."""

from collections.abc import Iterator

import pytest
from tests.support.emulator import Emulator, running_emulator

_NO_AWS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_SESSION_TOKEN": "test",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


@pytest.fixture(scope="session", autouse=True)
def no_aws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION"):
            patch.delenv(name, raising=False)
        for name, value in _NO_AWS.items():
            patch.setenv(name, value)
        # Nor a deployment that whoever runs the tests works with.
        patch.setenv("INTERLOCK_CONFIG", "/nonexistent")
        yield


@pytest.fixture(scope="session")
def emulator(no_aws: None) -> Iterator[Emulator]:
    """One emulator for the session: tests create tables and queues of their own on it."""
    with running_emulator() as emulator:
        yield emulator
