"""The application as a whole: help for everything, and a process with an exit code."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.unit.cli.conftest import Invoke

from interlock.cli.app import app

Command = typer.core.TyperGroup | typer.core.TyperCommand


def commands(command: object, *path: str) -> dict[tuple[str, ...], Command]:
    assert isinstance(command, Command)
    found = {path: command}
    if isinstance(command, typer.core.TyperGroup):
        for name, below in command.commands.items():
            found |= commands(below, *path, name)
    return found


COMMANDS = commands(typer.main.get_command(app))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help(interlock: Invoke, path: tuple[str, ...]) -> None:
    result = interlock(*path, "--help", COLUMNS="200")
    assert result.exit_code == 0
    assert "Exit codes" in result.output


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_and_argument_has_help(path: tuple[str, ...]) -> None:
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        assert getattr(parameter, "help", None), parameter.name


def test_the_process_ends_with_the_code(tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("interlock")
    arguments = [str(script), "inbox", "--token", "x", "--as", "bob"]
    ended = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert "exclude each other" in ended.stderr


def test_without_its_requirements_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from interlock.cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "interlock[cli]" in ended.stderr
    assert "Traceback" not in ended.stderr
