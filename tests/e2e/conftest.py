"""The two places where everything has to work: on a laptop, and deployed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.backend import Backend, running_backend
from tests.support.emulator import Emulator
from tests.support.stored import PEERS, Stored
from tests.support.story import (
    BINDINGS,
    IDENTITIES,
    ROOT,
    Place,
    create_identity,
    eventually,
    port_is_closed,
    running_laptop,
)
from tools.deploy.local import Stack, deployed


@pytest.fixture(scope="session")
def laptop(no_aws: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_laptop(tmp_path_factory.mktemp("laptop")) as place:
        yield place


@pytest.fixture(scope="session")
def deployment(no_aws: None) -> Iterator[Stack]:
    """With an agent of its own, as users deploy theirs; the demo agents are part of it."""
    secrets = {"PeersSecretArn": PEERS}
    with deployed(ROOT / "tests/support/council", secrets=secrets, AgentModule="council:agent") as stack:
        yield stack
    eventually(lambda: port_is_closed(stack.url) and port_is_closed(stack.endpoint))


@pytest.fixture(scope="session")
def stored(deployment: Stack) -> Stored:
    return Stored.of(deployment)


@pytest.fixture(scope="session")
def stack(deployment: Stack, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("stack")

    def create(label: str) -> str:
        return create_identity(deployment, folder, label, *IDENTITIES[label])

    with ThreadPoolExecutor(2) as pool:
        tokens = dict(zip(IDENTITIES, pool.map(create, IDENTITIES), strict=True))
    return Place(deployment.url, tokens, folder, deployment.environment)


@pytest.fixture(scope="session", params=["laptop", "stack"])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def backend(emulator: Emulator, tmp_path: Path) -> Iterator[Backend]:
    with running_backend(emulator, tmp_path) as found:
        yield found
