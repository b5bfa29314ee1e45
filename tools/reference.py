"""Reference pages: `python -m tools.reference` writes them from what they describe.

docs/settings.md from settings.py and template.yaml, docs/api.md from the door's own description, and
docs/cli-reference.md from the command line.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from tools.laptop.template import template
from tools.openapi import people

from interlock import settings
from interlock.cli.app import app
from interlock.settings import PREFIX, Settings

DOCS = Path(__file__).parents[1] / "docs"
METHODS = ("get", "put", "post", "delete")

Command = typer.core.TyperGroup | typer.core.TyperCommand

SETTINGS = """\
# Settings

Written by `python -m tools.reference` (`make docs`) from `settings.py` and `template.yaml`; a test checks
that it is up to date.

## Of the stack

The parameters of [`template.yaml`](../template.yaml), as `sam deploy --parameter-overrides Name=value` or
`samconfig.toml` sets them.

"""
VARIABLES = """
## Of the functions

Environment variables. The template sets them, as the last column says; on a laptop they are set before
`make run`. Empty is unset, times are seconds, and a value that is not of its form keeps the functions from
starting.

"""
API = """\
# The people's API

Written by `python -m tools.reference` (`make docs`) from [the door's own OpenAPI
description](openapi/people.json), which has all bodies; a test checks that it is up to date.

JSON with `Authorization: Bearer <token>`, below the deployment's address and stage. Times are UTC (RFC
3339), every list carries `now`, the server's clock, and lists of any length go on with `cursor`. A refusal
is `{"error": {"code", "status", "message", "details"}}`, where `details` has an `ErrorInfo` whose `reason`
programs can go by. What agents call is [A2A](a2a.md).
"""
COMMON = ("url", "token", "identity", "profile", "as_json")
"""Options that most commands have, by what they are called in the code."""
COMMANDS = """\
# Commands

Written by `python -m tools.reference` (`make docs`) from the command line itself; a test checks that it is
up to date. What `--url`, `--token`, `--as` and `--profile` say of where a command calls and as whom, what
`--json` prints, and the exit codes: [the command line](cli.md).
"""


def settings_page() -> str:
    parameters = template()["Parameters"]
    groups = template()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    parts = [SETTINGS]
    for group in groups:
        rows = [
            (f"`{name}`", _code(found["Default"]), _allowed(found), found["Description"])
            for name, found in ((name, parameters[name]) for name in group["Parameters"])
        ]
        head = f"### {group['Label']['default']}\n\n"
        parts += [head, *_table(("parameter", "default", "allowed", ""), rows), "\n"]
    rows = [
        (f"`{PREFIX}{name.upper()}`", _default(name), said, set_by(PREFIX + name.upper()))
        for name, said in documented().items()
    ]
    return "".join([*parts[:-1], VARIABLES, *_table(("variable", "default", "", "set by"), rows)])


def documented() -> dict[str, str]:
    """The fields of `Settings` with the text below each in the code, empty where there is none."""
    (model,) = (
        node for node in ast.parse(inspect.getsource(settings)).body if isinstance(node, ast.ClassDef)
    )
    found: dict[str, str] = {}
    for before, node in zip(model.body, model.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            told = node.value if isinstance(node, ast.Expr) else None
            text = str(told.value) if isinstance(told, ast.Constant) else ""
            found[before.target.id] = " ".join(text.split())
    return found


def set_by(variable: str) -> str:
    """Which parameters of the template decide the variable, or what it is there."""
    found: list[Any] = [template()["Globals"]["Function"]["Environment"]["Variables"].get(variable)]
    for resource in template()["Resources"].values():
        environment = resource.get("Properties", {}).get("Environment")
        if isinstance(environment, dict):
            found.append(environment["Variables"].get(variable))
    parameters = dict.fromkeys(name for value in found for name in _parameters(value))
    if parameters:
        return ", ".join(f"`{name}`" for name in parameters)
    return "the template" if any(value is not None for value in found) else "-"


def _parameters(value: Any) -> Iterator[str]:
    """Of an expression, and of the conditions it goes by."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "Ref" and inner in template()["Parameters"]:
                yield inner
            elif name == "Condition":
                yield from _parameters(template()["Conditions"][inner])
            elif name == "Fn::If":
                yield from _parameters(template()["Conditions"][inner[0]])
                yield from _parameters(inner[1:])
            else:
                yield from _parameters(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _parameters(inner)


def _allowed(parameter: dict[str, Any]) -> str:
    if "AllowedValues" in parameter:
        return ", ".join(_code(value) for value in parameter["AllowedValues"])
    if "AllowedPattern" in parameter:
        return _code(parameter["AllowedPattern"])
    if "MaxValue" in parameter:
        return f"{parameter['MinValue']} to {parameter['MaxValue']}"
    return f"from {parameter['MinValue']}" if "MinValue" in parameter else ""


def _default(field: str) -> str:
    value = Settings.model_fields[field].default
    if isinstance(value, bool):
        return _code(str(value).lower())
    return "" if value in (None, "") else _code(value)


def api_page() -> str:
    described = json.loads(people())
    groups: dict[str, list[tuple[str, ...]]] = {}
    for path, operations in described["paths"].items():
        below = path.removeprefix("/people/")
        for method in METHODS:
            if method in operations:
                query = [
                    f"`{given['name']}`"
                    for given in operations[method].get("parameters", [])
                    if given["in"] == "query"
                ]
                said = _sentence(operations[method].get("description", ""))
                row = (f"`{method.upper()} {path}`", said, ", ".join(query))
                groups.setdefault(below.split("/")[0], []).append(row)
    parts = [API]
    for name, rows in groups.items():
        parts += [f"\n## {name}\n\n", *_table(("", "", "query"), rows)]
    return "".join(parts)


def commands_page() -> str:
    return "".join([COMMANDS, *_command(typer.main.get_command(app), "interlock")])


def _command(command: Any, name: str) -> Iterator[str]:
    parameters = [found for found in command.params if found.name not in COMMON]
    arguments = [_metavar(found) for found in parameters if isinstance(found, typer.core.TyperArgument)]
    yield f"\n## {' '.join([name, *arguments])}\n\n{_text(command.help)}\n"
    rows = [
        (_names(found), _text(found.help) + (" **Needed.**" if found.required else ""))
        for found in parameters
    ]
    if rows:
        yield "\n"
        yield from _table(("", ""), rows)
    common = [_names(found) for found in command.params if found.name in COMMON]
    if common:
        yield f"\nAlso: {', '.join(common)}.\n"
    examples = [line for line in (command.epilog or "").split("\n\n") if line.startswith("$ ")]
    if examples:
        yield "\n```\n"
        yield from (f"{line.removeprefix('$ ')}\n" for line in examples)
        yield "```\n"
    if isinstance(command, typer.core.TyperGroup):
        for below, found in command.commands.items():
            yield from _command(found, f"{name} {below}")


def _names(parameter: Any) -> str:
    if isinstance(parameter, typer.core.TyperArgument):
        return f"`{_metavar(parameter)}`"
    value = "" if parameter.is_flag else f" {_metavar(parameter)}"
    return ", ".join(f"`{name}{value}`" for name in parameter.opts)


def _metavar(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    described = parameter.type_descriptor
    if described.is_choice:
        return "|".join(str(getattr(choice, "value", choice)) for choice in described.choices)
    return str(parameter.opts[-1]).lstrip("-").replace("-", "_").upper()


def _text(text: str | None) -> str:
    """Paragraphs, each in one line."""
    found = [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text or "").split("\n\n")]
    return "\n\n".join(found)


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _code(value: object) -> str:
    """`` where it is empty."""
    text = str(value)
    return f"`{text}`" if text else "empty"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n"
    for row in rows:
        cells = (re.sub(r"\s*\n\s*", " ", cell).replace("|", r"\|") for cell in row)
        yield f"| {' | '.join(cells)} |\n"


PAGES = {
    DOCS / "settings.md": settings_page,
    DOCS / "api.md": api_page,
    DOCS / "cli-reference.md": commands_page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page())
