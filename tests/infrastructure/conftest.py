"""What tests of the deployed shape share: the events, the functions, and the template."""

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest
from tools.laptop.template import template as read_template
from tools.laptop.workers import Context

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def template() -> dict[str, Any]:
    return read_template()


@pytest.fixture(scope="session")
def event() -> Callable[[str], dict[str, Any]]:
    def read(name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_bytes())
        return loaded

    return read


@pytest.fixture
def context() -> Context:
    return Context("test")


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Stands in for the composition root, with the same functions and signatures."""
    from interlock import bootstrap as real

    stand_in = Mock(spec=real)
    for name in (
        "authenticate",
        "deliver",
        "handle_due",
        "run_turn",
        "sweep",
        "walk",
        "wake_delivery",
        "wake_waiting",
        "wake_walk",
    ):
        function = Mock(spec=getattr(real, name), return_value=None)
        setattr(stand_in, name, function)
    monkeypatch.setattr("interlock.bootstrap", stand_in)
    return stand_in


@pytest.fixture
def load_function(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    # Mangum takes the thread's loop, or makes one that it leaves open.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "test")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Interlock")

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"function_{name}", ROOT / f"functions/{name}/app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        return module

    yield load
    asyncio.set_event_loop(None)
    loop.close()
