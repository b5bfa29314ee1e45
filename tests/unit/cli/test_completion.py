"""What shells complete: asked of the process itself, as their scripts do."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.operators import AT, OperatorsDoor, refused
from tests.unit.cli.serving import serving
from tests.unit.cli.test_people import checkpoint

SCRIPT = Path(sys.executable).with_name("interlock")

Complete = Callable[..., list[str]]


@pytest.fixture
def door() -> OperatorsDoor:
    door = OperatorsDoor()
    waiting = [
        checkpoint("aaaa1111-x", prompt="Release 1.0.0?"),
        checkpoint("aaab2222-x", prompt="\x1b[2JNo"),
    ]
    door.answers("GET", "checkpoints", {"checkpoints": waiting, "now": AT})
    desk = {"agent": "desk", "skills": [{"skill": "release"}, {"skill": "refund"}]}
    remote = {"agent": "remote", "skills": [{"skill": "draft"}]}
    door.answers("GET", "fleet", {"agents": [desk, remote], "now": AT})
    door.answers("GET", "agents", {"agents": [remote], "now": AT})
    return door


@pytest.fixture
def url(door: OperatorsDoor, elsewhere: Path) -> Iterator[str]:
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        tokens = {"alice": "il_alice", "oncall": "il_oncall"}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps({"url": url, "tokens": tokens}))
        yield url


@pytest.fixture
def complete(elsewhere: Path) -> Complete:
    """What bash is offered behind these words, of which the last is not complete."""

    def asked(*words: str, **environment: str) -> list[str]:
        line = ["interlock", *words]
        found = run(
            _INTERLOCK_COMPLETE="complete_bash",
            COMP_WORDS="\n".join(line),
            COMP_CWORD=str(len(line) - 1),
            **environment,
        )
        return found.stdout.split()

    return asked


def run(**environment: str) -> "subprocess.CompletedProcess[str]":
    ended = subprocess.run(
        [str(SCRIPT)], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    return ended


def test_commands_and_options(complete: Complete) -> None:
    assert {"halt", "history"} <= set(complete("h"))
    assert complete("approve", "--prof") == ["--profile"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("approve", "aaa"), ["aaaa", "aaab"]),
        (("answer", "aaab"), ["aaab"]),
        (("approve", "aaaa", "aaa"), ["aaab"]),
        (("deny", "zzz"), []),
        (("halt", "--agent", ""), ["desk", "remote"]),
        (("resume", "--skill", "re"), ["refund", "release"]),
        (("agents", "refresh", ""), ["remote"]),
    ],
)
def test_what_the_deployment_knows(url: str, complete: Complete, words: Any, offered: list[str]) -> None:
    assert complete(*words) == offered


def test_it_asks_where_and_as_whom_the_options_say(url: str, door: OperatorsDoor, complete: Complete) -> None:
    assert complete("approve", "--url", url, "--token", "il_typed", "aaab") == ["aaab"]
    assert complete("halt", "--skill", "dra") == ["draft"]
    assert [request.headers["authorization"] for request in door.requests] == [
        "Bearer il_typed",
        "Bearer il_oncall",
    ]


def test_profiles(complete: Complete, elsewhere: Path) -> None:
    (elsewhere / "config.toml").write_text(
        '[profiles.prod]\nurl = "https://x"\n[profiles.preview]\nurl = "https://y"\n'
    )
    assert complete("inbox", "--profile", "pr") == ["prod", "preview"]
    assert complete("profiles", "use", "pro") == ["prod"]
    (elsewhere / "config.toml").write_text("not TOML")
    assert complete("inbox", "-p", "") == []


def test_where_nothing_is_to_be_had_it_is_quietly_empty(
    url: str, door: OperatorsDoor, complete: Complete, elsewhere: Path
) -> None:
    door.answers("GET", "checkpoints", refused(403))
    assert complete("approve", "a") == []
    with serving(door) as gone:
        pass
    assert complete("approve", "--url", gone, "--token", "t", "a") == []
    (elsewhere / ".interlock" / "dev.json").unlink()
    assert complete("approve", "a") == []


def test_nobody_is_asked_for_a_token_and_no_command_is_run(
    url: str, door: OperatorsDoor, complete: Complete, elsewhere: Path
) -> None:
    config = elsewhere / "config.toml"
    for source in (f'token_command = "touch {elsewhere}/ran"\n', ""):
        config.write_text(f'[profiles.prod]\nurl = "{url}"\n{source}')
        config.chmod(0o600)
        assert complete("approve", "-p", "prod", "a") == []
    assert not (elsewhere / "ran").exists()
    assert door.requests == []


@pytest.mark.parametrize(
    ("shell", "action"),
    [("complete_zsh", {}), ("complete_fish", {"_TYPER_COMPLETE_FISH_ACTION": "get-args"})],
)
def test_the_other_shells_show_what_is_asked_and_obey_none_of_it(
    url: str, shell: str, action: dict[str, str]
) -> None:
    line = {"_INTERLOCK_COMPLETE": shell, "_TYPER_COMPLETE_ARGS": "interlock approve aaa"}
    offered = run(**line, **action).stdout
    assert "aaaa" in offered
    assert "Release 1.0.0?" in offered
    assert "\x1b" not in offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed(shell: str) -> None:
    assert "_INTERLOCK_COMPLETE" in run(_INTERLOCK_COMPLETE=f"source_{shell}").stdout
