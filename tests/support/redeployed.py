"""Functions of a deployment with other variables, for a while: a version of their own behind their alias."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tools.deploy.local import Stack

ALIAS = "live"
DOORS = ("A2aFunction", "OperatorFunction")


def function_name(stack: Stack, logical: str) -> str:
    """By its name in the template."""
    names = [found["FunctionName"] for found in stack.client("lambda").list_functions()["Functions"]]
    (name,) = [name for name in names if f"-{logical}-" in name]
    return str(name)


@contextmanager
def redeployed(stack: Stack, *functions: str, **variables: str) -> Iterator[None]:
    """`functions` by their names in the template. Afterwards they are as they were."""
    client = stack.client("lambda")
    with ExitStack() as undone:
        for logical in functions:
            undone.enter_context(_redeployed(client, function_name(stack, logical), variables))
        yield


@contextmanager
def _redeployed(client: Any, name: str, variables: dict[str, str]) -> Iterator[None]:
    before = client.get_alias(FunctionName=name, Name=ALIAS)["FunctionVersion"]
    environment = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    client.update_function_configuration(
        FunctionName=name, Environment={"Variables": {**environment, **variables}}
    )
    version = client.publish_version(FunctionName=name)["Version"]
    client.update_alias(FunctionName=name, Name=ALIAS, FunctionVersion=version)
    try:
        yield
    finally:
        client.update_alias(FunctionName=name, Name=ALIAS, FunctionVersion=before)
        client.update_function_configuration(FunctionName=name, Environment={"Variables": environment})
