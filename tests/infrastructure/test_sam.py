"""SAM and cfn-lint have nothing to say about the template."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools/sam/.venv/bin"


@pytest.mark.parametrize(
    "command",
    [
        # The linter misses what the transform refuses, and the other way round.
        ["sam", "validate"],
        ["sam", "validate", "--lint"],
        ["cfn-lint", "--non-zero-exit-code", "informational", "template.yaml"],
    ],
    ids=" ".join,
)
def test_the_template_is_valid(command: list[str]) -> None:
    done = subprocess.run(
        [TOOLS / command[0], *command[1:]],
        cwd=ROOT,
        env=os.environ | {"AWS_DEFAULT_REGION": "us-east-1", "SAM_CLI_TELEMETRY": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
