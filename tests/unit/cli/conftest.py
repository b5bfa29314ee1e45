"""The command line as a user starts it, away from any deployment of this machine."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from interlock.cli import target
from interlock.cli.app import app

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(target, "INSTALLED_IN", tmp_path / "installed")
    monkeypatch.setenv("INTERLOCK_CONFIG", str(tmp_path / "config.toml"))
    variables = ("URL", "TOKEN", "PROFILE", "TABLE", "IDENTITIES_TABLE", "AUDIT_TABLE", "AUDIT_KEY")
    for name in (f"INTERLOCK_{variable}" for variable in variables):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def interlock() -> Invoke:
    def invoke(*arguments: str, **environment: str) -> Result:
        return CliRunner().invoke(app, list(arguments), env=environment)

    return invoke
