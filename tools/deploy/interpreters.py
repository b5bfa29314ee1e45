"""Finds the interpreters that `sam build` and the functions of a local deployment need.

    python -m tools.deploy.interpreters [python3.13 ...]

prints the folder of the first that is here, to be put first on PATH.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RUNTIMES = ("python3.13", "python3.12", "python3.11", "python3.14")
"""The runtimes the template allows, the default first."""

_PROBE = "import sys, pip; print(f'python{sys.version_info[0]}.{sys.version_info[1]}', sys.executable)"


class NoInterpreter(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that was run and has pip, by the runtime that it stands for."""

    runtime: str
    path: Path


def find_interpreter(runtimes: Sequence[str] = RUNTIMES) -> Interpreter:
    """The first of `runtimes` that is on this machine, on PATH or not. Raises `NoInterpreter`."""
    for runtime in runtimes:
        for candidate in _candidates(runtime):
            if (found := _probe(candidate)) is not None and found.runtime == runtime:
                return found
    raise NoInterpreter(f"none of {', '.join(runtimes)} with pip was found: install one, by pyenv or uv")


def _candidates(runtime: str) -> Iterator[Path]:
    for folder in os.get_exec_path():
        yield Path(folder, runtime)
    version = runtime.removeprefix("python")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/{runtime}"), reverse=True)
    data = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local/share"))
    managed = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", data / "uv/python"))
    yield from sorted(managed.glob(f"cpython-{version}.*/bin/{runtime}"), reverse=True)


def _probe(candidate: Path) -> Interpreter | None:
    """Runs it: pyenv's shims are there for versions that they then refuse to run."""
    if not candidate.exists():
        return None
    answer = subprocess.run(
        [candidate, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False
    )
    if answer.returncode:
        return None
    runtime, path = answer.stdout.split(maxsplit=1)
    return Interpreter(runtime, Path(path.strip()))


if __name__ == "__main__":
    print(find_interpreter(sys.argv[1:] or RUNTIMES).path.parent)
