"""The parts of template.yaml that a laptop needs: its tables and queues, and how its stream is read."""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
KEPT_TYPES = {"AWS::DynamoDB::Table", "AWS::SQS::Queue"}


@cache
def template(root: Path = ROOT) -> dict[str, Any]:
    """The template, with intrinsic functions in their long form."""
    loaded: dict[str, Any] = yaml.load((root / "template.yaml").read_bytes(), _Loader)  # noqa: S506
    return loaded


def data_template() -> dict[str, Any]:
    """A CloudFormation template of tables and queues alone; the outputs are their names, URLs and ARNs."""
    whole = template()
    resources = {
        name: {"Type": resource["Type"], "Properties": resource["Properties"]}
        for name, resource in whole["Resources"].items()
        if resource["Type"] in KEPT_TYPES
    }
    arns = {
        f"{name}Arn": {"Fn::GetAtt": [name, "Arn"]}
        for name, resource in resources.items()
        if resource["Type"] == "AWS::SQS::Queue"
    }
    streams = {
        f"{name}StreamArn": {"Fn::GetAtt": [name, "StreamArn"]}
        for name, resource in resources.items()
        if "StreamSpecification" in resource["Properties"]
    }
    outputs = {name: {"Ref": name} for name in resources} | arns | streams
    return {
        "Parameters": whole["Parameters"],
        "Mappings": whole["Mappings"],
        "Resources": resources,
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }


def event_source(function: str, event: str) -> dict[str, Any]:
    """The settings of an event of a function."""
    found = template()["Resources"][function]["Properties"]["Events"][event]["Properties"]
    # A copy: the template is read once, and whoever takes this fills in names of their own.
    properties: dict[str, Any] = deepcopy(found)
    return properties


class _Loader(yaml.CSafeLoader):
    """Reads CloudFormation's short forms: `!Ref X` as `{"Ref": "X"}`, `!Sub X` as `{"Fn::Sub": "X"}`."""


def _intrinsic(loader: yaml.Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    match node:
        case yaml.ScalarNode():
            value = loader.construct_scalar(node)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case _:
            value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _intrinsic)
