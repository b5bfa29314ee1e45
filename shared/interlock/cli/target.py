"""Where a command calls, and as whom. Each of the two is taken from the first of these that says it:

1. the options: `--url` and `--token`, or `--profile`, or `--as` for the deployment on this machine;
2. the environment: `INTERLOCK_URL` and `INTERLOCK_TOKEN`, then `INTERLOCK_PROFILE`;
3. the current profile of the config file (`interlock profiles use`);
4. `.interlock/dev.json`, which `make run` writes.

A token that a file holds is only ever sent to the URL that the same file has beside it.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from interlock.cli import config
from interlock.cli.output import Exit, Failure

DEV_FILE = Path(".interlock/dev.json")
"""`{"url": ..., "tokens": {"alice": ..., ...}}`, of the deployment on this machine."""
INSTALLED_IN = Path(sys.prefix).parent
"""Where the file is looked for next: set-up leaves the command line in `.venv` beside it."""
DEV_IDENTITY = "alice"
DEV_OPERATOR = "oncall"

_ELSE = "Else INTERLOCK_{}, the profile's, or that of {}."
Url = Annotated[
    str | None,
    typer.Option("--url", help=f"The deployment. {_ELSE.format('URL', DEV_FILE)}"),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        help=f"The bearer token; others on this machine may see it. {_ELSE.format('TOKEN', DEV_FILE)}",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        "-p",
        metavar="NAME",
        help="A deployment of `interlock profiles`. Else INTERLOCK_PROFILE, or the current one.",
        autocompletion=config.complete,
    ),
]
Identity = Annotated[
    str | None,
    typer.Option("--as", metavar="LABEL", help=f"Whose token of {DEV_FILE} to use. Default: {DEV_IDENTITY}."),
]
OperatorIdentity = Annotated[
    str | None,
    typer.Option("--as", metavar="LABEL", help=f"Whose token of {DEV_FILE} to use. Default: {DEV_OPERATOR}."),
]


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    token: str


def target(
    url: str | None,
    token: str | None,
    identity: str | None,
    profile: str | None,
    default: str = DEV_IDENTITY,
    *,
    quietly: bool = False,
) -> Target:
    """Raises `Failure`. `quietly`: nobody is asked for a token, and no command runs for one."""
    if profile is not None and (url is not None or identity is not None):
        raise Failure("--profile excludes --url and --as.", Exit.USAGE)
    if profile is None:
        url = url or os.environ.get("INTERLOCK_URL") or None
        token = token or os.environ.get("INTERLOCK_TOKEN") or None
    if token is not None and identity is not None:
        raise Failure("--as and a token (--token or INTERLOCK_TOKEN) exclude each other.", Exit.USAGE)
    if url is not None and token is not None:
        return Target(url.rstrip("/"), token)
    if url is None and identity is None and (name := profile or chosen()) is not None:
        found = config.load().named(name)
        return Target(found.url, token or config.token_of(name, found, quietly=quietly))
    return _of_this_machine(url, token, identity or default, quietly=quietly)


def chosen() -> str | None:
    """The profile that holds where no option says another."""
    return os.environ.get("INTERLOCK_PROFILE") or config.load().current


def stack_of(profile: str | None) -> str | None:
    """The stack of the profile that holds, for what is done with AWS credentials."""
    name = profile or chosen()
    return None if name is None else config.load().named(name).stack


def dev_token(url: str, identity: str) -> str | None:
    """The token of the file, where the URL is that of the file."""
    try:
        dev_url, tokens = _dev_file()
    except Failure:
        return None
    return tokens.get(identity) if url.rstrip("/") == dev_url else None


def _of_this_machine(url: str | None, token: str | None, name: str, *, quietly: bool) -> Target:
    wanted = None if url is None else url.rstrip("/")
    try:
        dev_url, tokens = _dev_file()
    except Failure:
        if wanted is None:
            raise
        dev_url, tokens = "", {}
    if wanted is not None and wanted != dev_url:
        unless = f"{url} needs a token: INTERLOCK_TOKEN, or a profile."
        return Target(wanted, config.asked_for(f"Token for {url}", unless, quietly=quietly))
    if token is not None:
        return Target(dev_url, token)
    if name not in tokens:
        raise Failure(f"{DEV_FILE} has tokens of {', '.join(tokens)}, not of {name}.", Exit.USAGE)
    return Target(dev_url, tokens[name])


def _dev_file() -> tuple[str, dict[str, str]]:
    found = next((path for path in (DEV_FILE, INSTALLED_IN / DEV_FILE) if path.is_file()), None)
    if found is None:
        raise Failure(
            "No deployment is named (--profile, or --url and a token, or INTERLOCK_URL and INTERLOCK_TOKEN),"
            f" and there is no {DEV_FILE}, which `make run` writes.",
            Exit.USAGE,
        )
    try:
        document: Any = json.loads(found.read_text())
        tokens = {str(name): str(value) for name, value in document["tokens"].items()}
        return str(document["url"]).rstrip("/"), tokens
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Failure(f"{found} can not be read.", Exit.USAGE) from None
