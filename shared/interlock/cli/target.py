"""Where a command calls, and as whom: options, environment, or what `make run` wrote."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli.output import Exit, Failure

DEV_FILE = Path(".interlock/dev.json")
"""`{"url": ..., "tokens": {"alice": ..., ...}}`, of the deployment on this machine."""
INSTALLED_IN = Path(sys.prefix).parent
"""Where the file is looked for next: set-up leaves the command line in `.venv` beside it."""
DEV_IDENTITY = "alice"
DEV_OPERATOR = "oncall"

Url = Annotated[
    str | None,
    typer.Option("--url", envvar="INTERLOCK_URL", help=f"The deployment. Default: the one of {DEV_FILE}."),
]
Token = Annotated[
    str | None,
    typer.Option("--token", envvar="INTERLOCK_TOKEN", help=f"The bearer token. Default: one of {DEV_FILE}."),
]
Identity = Annotated[
    str | None,
    typer.Option("--as", help=f"Whose token of {DEV_FILE} to use. Default: {DEV_IDENTITY}."),
]
OperatorIdentity = Annotated[
    str | None,
    typer.Option("--as", help=f"Whose token of {DEV_FILE} to use. Default: {DEV_OPERATOR}."),
]


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    token: str


def target(url: str | None, token: str | None, identity: str | None, default: str = DEV_IDENTITY) -> Target:
    """Tokens of the file only ever go to the URL of the file. Raises `Failure`."""
    if token is not None and identity is not None:
        raise Failure("--as and a token (--token or INTERLOCK_TOKEN) exclude each other.", Exit.USAGE)
    if url is not None and token is not None:
        return Target(url.rstrip("/"), token)
    dev_url, tokens = _dev_file()
    if token is not None:
        return Target(dev_url, token)
    if url is not None and url.rstrip("/") != dev_url:
        raise Failure(f"{url} needs a token: --token or INTERLOCK_TOKEN.", Exit.USAGE)
    name = identity or default
    if name not in tokens:
        raise Failure(f"{DEV_FILE} has tokens of {', '.join(tokens)}, not of {name}.", Exit.USAGE)
    return Target(dev_url, tokens[name])


def dev_token(url: str, identity: str) -> str | None:
    """The token of the file, where the URL is that of the file."""
    try:
        dev_url, tokens = _dev_file()
    except Failure:
        return None
    return tokens.get(identity) if url.rstrip("/") == dev_url else None


def _dev_file() -> tuple[str, dict[str, str]]:
    found = next((path for path in (DEV_FILE, INSTALLED_IN / DEV_FILE) if path.is_file()), None)
    if found is None:
        raise Failure(
            "No deployment is named (--url and --token, or INTERLOCK_URL and INTERLOCK_TOKEN),"
            f" and there is no {DEV_FILE}, which `make run` writes.",
            Exit.USAGE,
        )
    try:
        document: Any = json.loads(found.read_text())
        tokens = {str(name): str(value) for name, value in document["tokens"].items()}
        return str(document["url"]).rstrip("/"), tokens
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Failure(f"{found} can not be read.", Exit.USAGE) from None
