"""The file with the deployments that somebody works with: `~/.config/interlock/config.toml`.

    current = "prod"

    [profiles.prod]
    url = "https://abc.execute-api.eu-central-1.amazonaws.com/prod"
    token_command = "pass show interlock/prod"    # or token, or token_file, or else it is asked for
    stack = "interlock-prod"                      # for --break-glass

A file that holds tokens, or commands that are run, is refused where others could read or change it.
"""

import os
import shlex
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from interlock.cli.output import Exit, Failure

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
COMMAND_SECONDS = 60
"""How long a password manager may take: it may ask its user first."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Profile(BaseModel):
    """One deployment, and where the token for it comes from: at most one of three, else it is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    token: Annotated[str, Field(min_length=1)] | None = None
    token_file: str | None = None
    """Relative to the folder of the file that names it."""
    token_command: str | None = None
    """Its first line is the token. No shell runs it."""
    stack: str | None = None
    """The CloudFormation stack, for what is done with AWS credentials."""

    @field_validator("url")
    @classmethod
    def _whole(cls, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("not an http or https URL")
        if parts.username is not None:
            raise ValueError("a credential does not belong into a URL")
        if parts.scheme == "http" and not _is_here(parts.hostname):
            raise ValueError("a token is not sent over plain HTTP, but to this machine")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(found is not None for found in (self.token, self.token_file, self.token_command)) > 1:
            raise ValueError("only one of token, token_file and token_command")
        return self


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    current: str | None = None
    profiles: dict[Name, Profile] = {}

    def named(self, name: str) -> Profile:
        if name not in self.profiles:
            known = f"there are {', '.join(self.profiles)}" if self.profiles else "there are none"
            raise Failure(f"There is no profile {name} ({known}).", Exit.USAGE)
        return self.profiles[name]


def config_file() -> Path:
    """`INTERLOCK_CONFIG`, or below `XDG_CONFIG_HOME`."""
    if named := os.environ.get("INTERLOCK_CONFIG"):
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "interlock" / "config.toml"


def load() -> Config:
    """Empty where there is no file. Raises `Failure` for one that can not be trusted or understood."""
    path = config_file()
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"{path} can not be read: {error}.", Exit.USAGE) from None
    try:
        found = Config.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise Failure(f"{path} is not TOML: {error}.", Exit.USAGE) from None
    except ValidationError as error:
        raise Failure(f"{path} is not valid.", Exit.USAGE, details=problems(error)) from None
    secret = any(profile.token is not None for profile in found.profiles.values())
    if mode & (OTHERS if secret else OTHERS_WRITE):
        what = "read" if secret else "change"
        raise Failure(f"Others can {what} {path}: chmod 600 {shlex.quote(str(path))}", Exit.USAGE)
    return found


def complete(incomplete: str) -> list[str]:
    """The profiles whose names begin so, for the shell: none where the file is not to be used."""
    try:
        return [name for name in load().profiles if name.startswith(incomplete)]
    except Failure:
        return []


def problems(error: ValidationError) -> list[str]:
    """A line for each, without the values: they may be tokens."""
    return [f"  {'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors()]


def token_of(name: str, profile: Profile, *, quietly: bool = False) -> str:
    """From wherever the profile says. Raises `Failure`."""
    if profile.token is not None:
        return profile.token
    if profile.token_file is not None:
        return _first_line(profile.token_file, lambda: _read(profile.token_file or ""))
    if profile.token_command is not None and not quietly:
        return _first_line(profile.token_command, lambda: _run(profile.token_command or ""))
    unless = f"The profile {name} keeps no token, and nobody can be asked."
    return asked_for(f"Token for {name}", unless, quietly=quietly)


def asked_for(prompt: str, unless: str, *, quietly: bool = False) -> str:
    """Asked for on the terminal without echo. Raises `Failure` with `unless` where there is none."""
    if quietly or not sys.stdin.isatty():
        raise Failure(unless, Exit.USAGE)
    token: str = typer.prompt(prompt, hide_input=True, err=True)
    return token.strip()


def _read(named: str) -> str:
    path = config_file().parent / Path(named).expanduser()
    if path.stat().st_mode & OTHERS:
        raise Failure(f"Others can read {path}: chmod 600 {shlex.quote(str(path))}", Exit.USAGE)
    return path.read_text()


def _run(command: str) -> str:
    """The user's own file names it, and nobody else can change that."""
    words = shlex.split(command)
    return subprocess.run(  # noqa: S603
        words, stdout=subprocess.PIPE, text=True, timeout=COMMAND_SECONDS, check=True
    ).stdout


def _first_line(source: str, read: Callable[[], str]) -> str:
    try:
        lines = read().splitlines()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise Failure(f"No token from {source}: {why}.", Exit.USAGE) from None
    if not lines or not lines[0].strip():
        raise Failure(f"No token from {source}: it is empty.", Exit.USAGE)
    return lines[0].strip()


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
