"""What is shipped: the locked packages of the product, and nothing that only its development needs."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
RUNTIMES = ["3.11", "3.12", "3.13", "3.14"]


@pytest.fixture(scope="module")
def locked() -> dict[str, dict[str, Any]]:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    return {package["name"]: package for package in lock["package"]}


@pytest.fixture(scope="module")
def shipped() -> dict[str, str]:
    """Version by name."""
    lines = (ROOT / "layers/deps/requirements.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {r.name: str(r.specifier).removeprefix("==") for r in requirements}


def on_lambda(marker: str | None) -> bool:
    if marker is None:
        return True
    machines = [
        {"python_version": version, "python_full_version": f"{version}.9", "sys_platform": "linux"}
        for version in RUNTIMES
    ]
    return any(Marker(marker).evaluate(machine | {"extra": ""}) for machine in machines)


def needed(locked: dict[str, dict[str, Any]]) -> set[str]:
    """The packages that `interlock` needs without its extras and groups, and what those need."""
    found: set[str] = set()
    waiting = list(locked["interlock"]["dependencies"])
    while waiting:
        dependency = waiting.pop()
        if not on_lambda(dependency.get("marker")):
            continue
        package = locked[dependency["name"]]
        if dependency["name"] not in found:
            waiting += package.get("dependencies", [])
        found.add(dependency["name"])
        for extra in dependency.get("extra", []):
            waiting += package["optional-dependencies"][extra]
    return found


def test_the_layer_holds_what_the_product_needs_and_no_more(
    locked: dict[str, dict[str, Any]], shipped: dict[str, str]
) -> None:
    assert set(shipped) == needed(locked)


def test_the_layer_holds_the_locked_versions(
    locked: dict[str, dict[str, Any]], shipped: dict[str, str]
) -> None:
    assert shipped == {name: locked[name]["version"] for name in shipped}


def test_nothing_of_the_development_is_shipped(shipped: dict[str, str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    development = [*project["dependency-groups"]["dev"], *project["project"]["optional-dependencies"]["cli"]]
    names = {re.split(r"[\[><=]", requirement)[0] for requirement in development}
    assert names
    assert not names & set(shipped)


def test_the_shared_layer_is_the_package_alone() -> None:
    assert [path.name for path in (ROOT / "shared").iterdir()] == ["interlock"]
    assert not list((ROOT / "shared").rglob("test_*"))


def test_functions_bring_no_packages_of_their_own() -> None:
    beside = {"__pycache__", "run.sh", "static"}
    for folder in (ROOT / "functions").iterdir():
        assert {path.name for path in folder.iterdir()} - beside == {"app.py"}
