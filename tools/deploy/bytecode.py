"""Ships bytecode: a function can not write it where its layers are, and would compile at every cold start."""

import os
import subprocess
from pathlib import Path

from tools.deploy.interpreters import Interpreter


def compile_build(build: Path, interpreter: Interpreter) -> None:
    """Compiles what `sam build` left in `build`, for the runtime that it was built with."""
    for folder in sorted(path for path in build.iterdir() if path.is_dir()):
        on_lambda = "/opt" if folder.name.endswith("Layer") else "/var/task"
        subprocess.run(
            [
                *(str(interpreter.path), "-m", "compileall", "-q", "-j", str(os.cpu_count() or 1)),
                # What is deployed never changes, and its time stamps are not kept.
                *("--invalidation-mode", "unchecked-hash"),
                *("-s", str(folder), "-p", on_lambda, str(folder)),
            ],
            check=True,
        )
