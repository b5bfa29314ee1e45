"""The control map: `python -m tools.controls` writes docs/controls.md from docs/controls.yaml."""

import ast
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "controls.yaml"
PAGE = ROOT / "docs" / "controls.md"

HEAD = """\
# Control map

Which provision is met by what, with the tests that show it. Written by `python -m tools.controls` from
`controls.yaml`; `make test` checks that it is up to date and that every test that is named exists. It is no
legal advice: whether a provision applies, and all that is in the last column, is the deployer's to decide.
"""


def frameworks() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load(DATA.read_text())
    return loaded


def page() -> str:
    parts = [HEAD]
    for framework in frameworks():
        parts.append(f"\n## {framework['framework']}\n")
        parts.append("\n| | asks that | met | how | shown by | the deployer's |\n|---|---|---|---|---|---|\n")
        parts += [_row(provision) for provision in framework["provisions"]]
    return "".join(parts)


def _row(provision: dict[str, Any]) -> str:
    tests = "<br>".join(_link(test) for test in provision["tests"]) or "-"
    cells = (provision["id"], provision["asks"], f"**{provision['met']}**", provision["how"], tests)
    return f"| {' | '.join(cells)} | {provision['deployer'] or '-'} |\n"


def _link(test: str) -> str:
    path, _, name = test.partition("::")
    return f"[{name.removeprefix('test_').replace('_', ' ')}](../{path})"


def missing() -> list[str]:
    """Tests that are named and are not there."""
    named = [test for framework in frameworks() for p in framework["provisions"] for test in p["tests"]]
    return [test for test in named if not _exists(*test.split("::"))]


def _exists(path: str, name: str) -> bool:
    file = ROOT / path
    if not file.is_file():
        return False
    functions = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef))
    return any(function.name == name for function in functions)


if __name__ == "__main__":
    PAGE.write_text(page())
