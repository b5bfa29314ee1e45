"""Profiles of several deployments, and which of all that is said decides where a command calls."""

import json
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.serving import Request, Response, serving
from typer.testing import CliRunner

from interlock.cli import config
from interlock.cli.app import app

AT = "2026-11-30T12:00:00.000Z"


class Inbox:
    """An empty one, which keeps the tokens that it was called with."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def __call__(self, request: Request) -> Response:
        self.tokens.append(request.headers["authorization"].removeprefix("Bearer "))
        return Response({"checkpoints": [], "now": AT})


@pytest.fixture
def prod() -> Inbox:
    return Inbox()


@pytest.fixture
def url(prod: Inbox) -> Iterator[str]:
    with serving(prod) as url:
        yield url


@pytest.fixture
def file(elsewhere: Path) -> Path:
    return elsewhere / "config.toml"


def written(file: Path, text: str, mode: int = 0o600) -> None:
    file.write_text(text)
    file.chmod(mode)


@contextmanager
def laptop(folder: Path) -> Iterator[Inbox]:
    here = Inbox()
    with serving(here) as url:
        (folder / ".interlock").mkdir()
        dev = {"url": url, "tokens": {"alice": "il_alice", "bob": "il_bob"}}
        (folder / ".interlock" / "dev.json").write_text(json.dumps(dev))
        yield here


class Terminal(CliRunner):
    """Whose standard input is one."""

    def isolation(self, *arguments: Any, **options: Any) -> Any:
        context = super().isolation(*arguments, **options)

        @contextmanager
        def isolated() -> Iterator[Any]:
            with context as streams, pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
                yield streams

        return isolated()


# The commands


def test_a_deployment_is_named_used_and_forgotten(
    url: str, prod: Inbox, file: Path, interlock: Invoke
) -> None:
    added = CliRunner().invoke(app, ["profiles", "add", "prod", f"{url}/"], input="il_prod\n")
    assert (added.exit_code, added.output) == (0, f"prod is {url}, its token: kept.\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert interlock("inbox").exit_code == 0
    assert prod.tokens == ["il_prod"]
    listed = interlock("profiles", "list")
    assert "il_prod" not in listed.output + interlock("profiles", "list", "--json").output
    assert json.loads(interlock("profiles", "list", "--json").output) == {
        "current": "prod",
        "profiles": [{"name": "prod", "url": url, "token": "kept", "stack": None}],
    }
    assert interlock("profiles", "add", "dev", url, "--ask").exit_code == 0
    assert tomllib.loads(file.read_text())["current"] == "prod"
    assert interlock("profiles", "use", "dev").output == f"From now on dev: {url}\n"
    assert interlock("profiles", "remove", "dev").output == "Removed dev.\n"
    assert tomllib.loads(file.read_text()) == {"profiles": {"prod": {"url": url, "token": "il_prod"}}}
    assert interlock("inbox").exit_code == 2, "no profile is the current one"
    assert list(file.parent.iterdir()) == [file]


def test_what_somebody_wrote_into_the_file_stays(url: str, file: Path, interlock: Invoke) -> None:
    written(file, f'# mine\ncurrent = "a"\n\n[profiles.a]\nurl = "{url}"  # the first\n')
    assert interlock("profiles", "add", "b", url, "--token-command", "echo t", "--json").exit_code == 0
    assert "# mine" in file.read_text()
    assert "# the first" in file.read_text()
    assert list(tomllib.loads(file.read_text())["profiles"]) == ["a", "b"]


def test_a_token_is_asked_for_without_echo(url: str, prod: Inbox, interlock: Invoke) -> None:
    added = Terminal().invoke(app, ["profiles", "add", "prod", url], input="il_typed\n")
    assert added.exit_code == 0, added.output
    assert "il_typed" not in added.output
    assert interlock("inbox").exit_code == 0
    assert prod.tokens == ["il_typed"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("bad name", "https://x"),
        ("", "https://x"),
        ("prod", "ftp://x"),
        ("prod", "http://agents.example"),
        ("prod", "https://user:secret@x"),
        ("prod", "https://x/?a=b"),
        ("prod", "https://x", "--ask", "--token-command", "echo"),
        ("prod", "https://x"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_a_profile_is_refused_and_changes_nothing(
    file: Path, interlock: Invoke, arguments: tuple[str, ...]
) -> None:
    result = interlock("profiles", "add", *arguments)
    assert result.exit_code == 2, result.output
    assert "secret" not in result.output.replace(arguments[0], "")
    assert not file.exists()


@pytest.mark.parametrize("arguments", [("use", "gone"), ("remove", "gone")])
def test_a_profile_that_is_not_there(interlock: Invoke, arguments: tuple[str, ...]) -> None:
    result = interlock("profiles", *arguments)
    assert (result.exit_code, "There is no profile gone" in result.stderr) == (2, True)
    assert interlock("profiles", "list").output == "There are no profiles.\n"


# Where the token comes from


def test_a_file_has_the_token_and_only_its_owner_can_read_it(
    url: str, prod: Inbox, elsewhere: Path, interlock: Invoke
) -> None:
    secret = elsewhere / "token"
    written(secret, "il_file\nand more\n")
    assert interlock("profiles", "add", "prod", url, "--token-file", "token").exit_code == 0
    assert interlock("inbox").exit_code == 0
    secret.chmod(0o640)
    refused = interlock("inbox")
    assert (refused.exit_code, "chmod 600" in refused.stderr) == (2, True)
    secret.unlink()
    assert interlock("inbox").exit_code == 2
    assert prod.tokens == ["il_file"]


def test_a_command_says_the_token_and_no_shell_runs_it(
    url: str, prod: Inbox, elsewhere: Path, interlock: Invoke
) -> None:
    script = f"{sys.executable} -c 'print(\"il_command\")' ; touch {elsewhere}/ran"
    assert interlock("profiles", "add", "prod", url, "--token-command", script).exit_code == 0
    assert interlock("inbox").exit_code == 0
    assert prod.tokens == ["il_command"]
    assert not (elsewhere / "ran").exists()


@pytest.mark.parametrize("command", ["false", "true", "/no/such/command", "'"])
def test_a_command_that_says_none(url: str, prod: Inbox, interlock: Invoke, command: str) -> None:
    assert interlock("profiles", "add", "prod", url, "--token-command", command).exit_code == 0
    result = interlock("inbox", "--json")
    assert result.exit_code == 2
    assert json.loads(result.output)["error"]["message"].startswith(f"No token from {command}")
    assert prod.tokens == []


def test_a_token_that_is_not_kept_is_asked_for_each_time(url: str, prod: Inbox, interlock: Invoke) -> None:
    assert interlock("profiles", "add", "prod", url, "--ask").exit_code == 0
    assert interlock("inbox").exit_code == 2, "nobody can be asked"
    asked = Terminal().invoke(app, ["inbox"], input="il_asked\n")
    assert (asked.exit_code, "il_asked" in asked.output) == (0, False)
    also = Terminal().invoke(app, ["inbox", "--url", url], input="il_again\n")
    assert also.exit_code == 0, also.output
    assert prod.tokens == ["il_asked", "il_again"]


# The file


@pytest.mark.parametrize(
    ("text", "mode", "code"),
    [
        ('[profiles.a]\nurl = "{url}"\ntoken = "t"\n', 0o640, 2),
        ('[profiles.a]\nurl = "{url}"\ntoken = "t"\n', 0o604, 2),
        ('[profiles.a]\nurl = "{url}"\ntoken_command = "echo t"\n', 0o622, 2),
        ('[profiles.a]\nurl = "{url}"\ntoken_command = "echo t"\n', 0o644, 0),
        ('[profiles.a]\nurl = "{url}"\ntoken = "t"\ntoken_file = "f"\n', 0o600, 2),
        ('[profiles.a]\nurl = "{url}"\npassword = "il_secret"\n', 0o600, 2),
        ("[profiles.a]\ntoken = 'il_secret'\n", 0o600, 2),
        ("profiles = 'il_secret", 0o600, 2),
        ("profiles = [7]", 0o600, 2),
    ],
)
def test_a_file_that_can_not_be_trusted_or_understood_is_refused(
    url: str, prod: Inbox, file: Path, interlock: Invoke, text: str, mode: int, code: int
) -> None:
    written(file, text.replace("{url}", url), mode)
    result = interlock("inbox", "--profile", "a")
    assert result.exit_code == code, result.output
    assert "il_secret" not in result.output
    assert len(prod.tokens) == (1 if code == 0 else 0)


def test_it_is_found_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert config.config_file() == tmp_path / "config.toml"
    monkeypatch.delenv("INTERLOCK_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/xdg")
    assert config.config_file() == Path("/xdg/interlock/config.toml")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert config.config_file() == Path("/home/somebody/.config/interlock/config.toml")


# What decides


def test_an_option_outranks_the_environment_that_a_profile_and_that_the_laptop(
    url: str, prod: Inbox, file: Path, elsewhere: Path, interlock: Invoke
) -> None:
    other, third = Inbox(), Inbox()
    with laptop(elsewhere) as here, serving(other) as other_url, serving(third) as third_url:
        written(
            file,
            f'current = "prod"\n[profiles.prod]\nurl = "{url}"\ntoken = "il_prod"\n'
            f'[profiles.other]\nurl = "{other_url}"\ntoken = "il_other"\n',
        )
        environment = {"INTERLOCK_URL": third_url, "INTERLOCK_TOKEN": "il_env"}
        for arguments, given in (
            ((), {}),
            (("--profile", "other"), environment),
            (("-p", "other", "--token", "il_option"), {}),
            ((), environment),
            ((), {"INTERLOCK_PROFILE": "other"}),
            ((), {"INTERLOCK_PROFILE": "other", **environment}),
            (("--as", "bob"), {"INTERLOCK_PROFILE": "other"}),
            (("--token", "il_mine"), {}),
        ):
            result = interlock("inbox", *arguments, **given)
            assert result.exit_code == 0, (arguments, given, result.output)
        written(file, "")
        assert interlock("inbox").exit_code == 0
    assert prod.tokens == ["il_prod", "il_mine"]
    assert other.tokens == ["il_other", "il_option", "il_other"]
    assert third.tokens == ["il_env", "il_env"]
    assert here.tokens == ["il_bob", "il_alice"]


@pytest.mark.parametrize("option", [("--url", "https://x"), ("--as", "bob")])
def test_two_that_contradict_each_other(url: str, interlock: Invoke, option: tuple[str, str]) -> None:
    assert interlock("profiles", "add", "prod", url, "--ask").exit_code == 0
    assert interlock("inbox", "--profile", "prod", *option).exit_code == 2


def test_a_token_of_a_profile_goes_to_its_url_only(
    url: str, prod: Inbox, file: Path, interlock: Invoke
) -> None:
    written(file, f'current = "prod"\n[profiles.prod]\nurl = "{url}"\ntoken = "il_prod"\n')
    other = Inbox()
    with serving(other) as other_url:
        assert interlock("inbox", "--url", other_url).exit_code == 2
    assert other.tokens == []


def test_a_stage_is_part_of_the_address(prod: Inbox, url: str, file: Path, interlock: Invoke) -> None:
    paths: list[str] = []

    def answer(request: Request) -> Response:
        paths.append(request.path)
        return Response({"checkpoints": [], "now": AT})

    with serving(answer) as staged:
        written(file, f'[profiles.aws]\nurl = "{staged}/dev/"\ntoken = "t"\n')
        assert interlock("inbox", "-p", "aws").exit_code == 0
    assert paths == ["/dev/people/checkpoints"]


def test_the_process_refuses_a_file_that_others_can_read(file: Path) -> None:
    written(file, '[profiles.a]\nurl = "https://x"\ntoken = "il_secret"\n', 0o644)
    script = Path(sys.executable).with_name("interlock")
    ended = subprocess.run([str(script), "inbox", "-p", "a"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "chmod 600" in ended.stderr
    assert "il_secret" not in ended.stderr
