"""The reference pages say what is there."""

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tools import reference
from tools.laptop.template import template

from interlock import Agent, Turn, engine
from interlock.engine.calls import Call
from interlock.engine.facts import Fact
from interlock.settings import Settings

DOCS = reference.DOCS
ENGINE = Path(next(iter(engine.__path__)))


@pytest.mark.parametrize("path", reference.PAGES, ids=lambda path: path.name)
def test_the_page_is_the_committed_one(path: Path) -> None:
    """If this fails, run `python -m tools.reference`."""
    assert path.read_text() == reference.PAGES[path]()


def test_every_setting_and_parameter_is_told_of() -> None:
    said = reference.documented()
    assert set(said) == set(Settings.model_fields)
    assert [name for name, text in said.items() if not text] == []
    page = reference.settings_page()
    assert [name for name in template()["Parameters"] if f"| `{name}` |" not in page] == []


def test_which_parameter_sets_a_variable_is_found_through_conditions() -> None:
    assert reference.set_by("INTERLOCK_AGENT") == "`AgentModule`"
    assert reference.set_by("INTERLOCK_STREAMING") == "`WebAdapterLayerArn`"
    assert reference.set_by("INTERLOCK_TABLE") == "the template"
    assert reference.set_by("INTERLOCK_LOCAL_WEBHOOKS") == "-"


def test_every_kind_of_record_is_told_of_and_no_other() -> None:
    told = re.findall(r"^\| `([a-z_.]+)` \|", (DOCS / "audit.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(kinds())


def kinds() -> set[str]:
    """The kinds of all the facts that the engine makes."""
    found = set()
    for path in ENGINE.glob("*.py"):
        module = import_module(f"{engine.__name__}.{path.stem}")
        found |= {str(getattr(module, name)) for name in _made(ast.parse(path.read_text()))}
    return found


def _made(tree: ast.AST) -> Iterator[str]:
    """The constants that `Fact`, or the `fact` of a call, is given first."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {Fact.__name__, Call.fact.__name__}:
            names = (name.id for name in ast.walk(node.args[0]) if isinstance(name, ast.Name))
            yield from (name for name in names if name.isupper())


def test_the_runbook_says_what_to_do_about_every_alarm_and_no_other() -> None:
    alarms = of_type("AWS::CloudWatch::Alarm")
    assert sorted(rows("What an alarm means")) == sorted(name.removesuffix("Alarm") for name in alarms)
    assert all(name.endswith("Alarm") for name in alarms)


def test_the_runbook_says_how_every_queue_of_dead_letters_is_redriven() -> None:
    feeding = {
        queue["Properties"]["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        for queue in of_type("AWS::SQS::Queue").values()
        if "RedrivePolicy" in queue["Properties"]
    }
    assert set(rows("Dead letters")) == {*feeding, "FanoutFailures"}


def test_the_runbook_says_how_every_key_is_rotated() -> None:
    told = {row.split()[0] for row in rows("New keys and secrets")}
    assert set(of_type("AWS::KMS::Key")) <= told


def test_the_author_s_guide_tells_of_all_that_a_turn_and_a_declaration_offer() -> None:
    said = (DOCS / "agents.md").read_text()
    offered = [name for name in vars(Turn) if not name.startswith("_")]
    declared = list(inspect.signature(Agent.skill).parameters)[3:]
    assert [name for name in offered + declared if not re.search(rf"`(turn\.)?{name}\b", said)] == []


def of_type(kind: str) -> dict[str, Any]:
    return {name: found for name, found in template()["Resources"].items() if found["Type"] == kind}


def rows(title: str) -> list[str]:
    """What the rows of the first table of a part of the runbook begin with."""
    part = (DOCS / "runbook.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    found = [line.split("|")[1].strip() for line in part.splitlines() if line.startswith("| ")]
    return list(dict.fromkeys(filter(None, found[1:])))
