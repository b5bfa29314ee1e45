"""The tutorial's commands, run from the page itself, in its order, in one shell on a laptop."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest
from tests.support.story import ROOT, Place, running_laptop

PAGE = ROOT / "docs" / "tutorial.md"
EXPECTED = "#> "
MARK = "--- block"


@pytest.fixture(scope="module")
def folder(no_aws: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where `make run` was called: a laptop of its own, whose inbox nobody else fills."""
    clone = tmp_path_factory.mktemp("clone")
    (clone / ".venv").symlink_to(Path(sys.prefix))
    with running_laptop(clone) as place:
        assert isinstance(place, Place)
        yield clone


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_its_commands_print_what_it_says(folder: Path) -> None:
    told = blocks("sh")
    script = "set -eu -o pipefail\n" + "".join(f"{block}echo '{MARK}'\n" for block in told)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = done.stdout.split(f"{MARK}\n")
    for block, output in zip_longest(told, printed[: len(told)], fillvalue=""):
        assert unseen(block, output) is None, f"{block}\nprinted\n{output}"
    assert done.returncode == 0, done.stdout


def unseen(block: str, output: str) -> str | None:
    """The first line that the page says to look for and that does not come behind those before it."""
    at = 0
    for line in block.splitlines():
        if line.startswith(EXPECTED):
            expected = line.removeprefix(EXPECTED)
            found = output.find(expected, at)
            if found < 0:
                return expected
            at = found + len(expected)
    return None


def test_every_block_but_the_start_is_run_and_says_what_to_look_for() -> None:
    (start,) = blocks("console")
    assert "make run" in start
    assert len(blocks(r"\w*")) == len(blocks("sh")) + 1
    assert all(EXPECTED in block or "asked=" in block for block in blocks("sh"))


def test_what_is_not_printed_is_noticed() -> None:
    assert unseen("run\n#> one\n#> two\n", "one, then two") is None
    assert unseen("run\n#> one\n#> two\n", "two, then one") == "two"
