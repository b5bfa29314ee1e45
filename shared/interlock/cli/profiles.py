"""`interlock profiles`: the deployments that somebody works with, by name."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from pydantic import TypeAdapter, ValidationError

from interlock.cli import config
from interlock.cli.config import Profile
from interlock.cli.output import (
    AsJson,
    Exit,
    Failure,
    ending,
    failures,
    one_line,
    print_json,
    print_table,
)
from interlock.cli.target import chosen

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Table

app = typer.Typer(
    help="The deployments that you work with, by name.\n\n"
    "Kept in ~/.config/interlock/config.toml (XDG_CONFIG_HOME), or where INTERLOCK_CONFIG says.",
    epilog=ending(
        "interlock profiles add prod https://api.example/prod --token-command 'pass show interlock'",
        "interlock status --profile prod",
    ),
    no_args_is_help=True,
)

KNOWN = typer.Argument(metavar="NAME", help="A profile.", autocompletion=config.complete)


@app.command("list", epilog=ending())
def list_profiles(as_json: AsJson = False) -> None:
    """The profiles, and which one holds where nothing else is said. Shows no token."""
    with failures(as_json):
        found, current = config.load(), chosen()
        if as_json:
            print_json(
                {
                    "current": current,
                    "profiles": [
                        {"name": name, "url": profile.url, "token": _source(profile), "stack": profile.stack}
                        for name, profile in found.profiles.items()
                    ],
                }
            )
        elif not found.profiles:
            typer.echo("There are no profiles.")
        else:
            print_table(
                ("NAME", "", "URL", "TOKEN", "STACK"),
                [
                    (name, "*" if name == current else "", profile.url, _source(profile), profile.stack or "")
                    for name, profile in found.profiles.items()
                ],
            )


@app.command(
    epilog=ending(
        "interlock profiles add prod https://api.example/prod --stack interlock-prod",
        "interlock profiles add prod https://api.example/prod --ask",
    )
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="The deployment, with its stage.")],
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="A file with the token, which only you can read.")
    ] = None,
    token_command: Annotated[
        str | None, typer.Option("--token-command", help="A command whose first line is the token.")
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Keep no token: ask for it with each command.")] = False,
    stack: Annotated[
        str | None, typer.Option("--stack", help="Its CloudFormation stack, for --break-glass.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Name a deployment, or replace what is known under the name. The first one becomes the current one.

    Unless an option says where the token is, it is asked for without echo, or read from standard input,
    and kept in the file, which only you can read.
    """
    with failures(as_json):
        if sum((token_file is not None, token_command is not None, ask)) > 1:
            raise Failure("Only one of --token-file, --token-command and --ask.", Exit.USAGE)
        before = config.load()
        given = {
            "url": url,
            "token_file": None if token_file is None else str(token_file.expanduser().absolute()),
            "token_command": token_command,
            "stack": stack,
        }
        _valid(name, given)
        if not ask and token_file is None and token_command is None:
            given["token"] = _token(name)
        profile = _valid(name, given)
        document = _document()
        table = document.setdefault("profiles", _table())
        table[name] = _filled(profile)
        if before.current is None:
            document["current"] = name
        _write(document)
        if as_json:
            print_json({"name": name, "url": profile.url, "token": _source(profile)})
        else:
            typer.echo(one_line(f"{name} is {profile.url}, its token: {_source(profile)}."))


@app.command(epilog=ending())
def use(name: Annotated[str, KNOWN], as_json: AsJson = False) -> None:
    """Make a profile the one that holds where nothing else is said."""
    with failures(as_json):
        profile = config.load().named(name)
        document = _document()
        document["current"] = name
        _write(document)
        if as_json:
            print_json({"current": name})
        else:
            typer.echo(one_line(f"From now on {name}: {profile.url}"))


@app.command(epilog=ending())
def remove(name: Annotated[str, KNOWN], as_json: AsJson = False) -> None:
    """Forget a profile, and the token that is kept with it."""
    with failures(as_json):
        before = config.load()
        before.named(name)
        document = _document()
        del cast("Table", document["profiles"])[name]
        if before.current == name:
            del document["current"]
        _write(document)
        if as_json:
            print_json({"removed": name})
        else:
            typer.echo(one_line(f"Removed {name}."))


def _valid(name: str, given: dict[str, str | None]) -> Profile:
    try:
        TypeAdapter(config.Name).validate_python(name)
        return Profile.model_validate(given)
    except ValidationError as error:
        raise Failure(f"{name} can not be added.", Exit.USAGE, details=config.problems(error)) from None


def _token(name: str) -> str:
    if sys.stdin.isatty():
        return config.asked_for(f"Token for {name}", "")
    return sys.stdin.readline().strip()


def _source(profile: Profile) -> str:
    if profile.token is not None:
        return "kept"
    if profile.token_file is not None:
        return f"file {profile.token_file}"
    return "asked for" if profile.token_command is None else f"command {profile.token_command}"


def _document() -> "TOMLDocument":
    """The file as it is, with its comments: `load` has found it to be good."""
    import tomlkit  # of no use to the commands that only read

    path = config.config_file()
    return tomlkit.parse(path.read_text()) if path.exists() else tomlkit.document()


def _table() -> "Table":
    import tomlkit

    return tomlkit.table(is_super_table=True)


def _filled(profile: Profile) -> "Table":
    import tomlkit

    table = tomlkit.table()
    table.update(profile.model_dump(exclude_none=True))
    return table


def _write(document: "TOMLDocument") -> None:
    """Whole or not at all, and never readable by others."""
    import tomlkit

    path = config.config_file().resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.touch(mode=0o600, exist_ok=False)
        try:
            new.write_text(tomlkit.dumps(document))
            new.replace(path)
        except BaseException:
            new.unlink()
            raise
    except OSError as error:
        raise Failure(f"{path} can not be written: {error.strerror}.") from error
