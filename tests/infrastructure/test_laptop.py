"""`make run`: one command, a whole deployment, and nothing left of it afterwards."""

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier

from interlock.adapters.signing import FileSigner

ROOT = Path(__file__).parents[2]
IDENTITIES = ["agent", "alice", "bob", "carol", "oncall"]
SECONDS = 30


@dataclass
class Laptop:
    process: "subprocess.Popen[str]"
    url: str
    commands: list[str]
    folder: Path

    @property
    def dev_json(self) -> Path:
        return self.folder / ".interlock" / "dev.json"


@contextmanager
def running_laptop(folder: Path) -> Iterator[Laptop]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "tools.laptop.run", "--port", "0"],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            printed: list[str] = []
            while sum(line.startswith("curl") for line in printed) < 3:
                line = process.stdout.readline()
                assert line, "ended before it was ready"
                printed.append(line.strip())
            url = printed[0].rsplit(" ", 1)[1]
            yield Laptop(process, url, [line for line in printed if line.startswith("curl")], folder)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with running_laptop(tmp_path_factory.mktemp("laptop")) as laptop:
        yield laptop


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Laptop]:
    with running_laptop(tmp_path) as laptop:
        yield laptop


def children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(child) for child in found.stdout.split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_ended(pids: list[int]) -> None:
    deadline = time.monotonic() + SECONDS
    while any(running(pid) for pid in pids):
        assert time.monotonic() < deadline, "something is left"
        time.sleep(0.05)


def test_the_three_commands_tell_the_whole_story(laptop: Laptop) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl here")
    send, answer, get = laptop.commands
    asked = subprocess.run(send, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert json.loads(asked.stdout)["task"]["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    accepted = subprocess.run(answer, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
    assert json.loads(accepted.stdout) == {"status": "accepted"}
    deadline = time.monotonic() + SECONDS
    while True:
        seen = subprocess.run(get, shell=True, capture_output=True, text=True, check=True)  # noqa: S602
        (task,) = json.loads(seen.stdout)["tasks"]
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            break
        assert time.monotonic() < deadline, task
        time.sleep(0.05)
    assert task["artifacts"][0]["parts"][0]["text"] == "1.2.0 released, approved by bearer:alice"


def test_only_its_owner_can_read_the_tokens(laptop: Laptop) -> None:
    assert stat.S_IMODE(laptop.dev_json.stat().st_mode) == 0o600
    dev = json.loads(laptop.dev_json.read_text())
    assert dev["url"] == laptop.url
    assert sorted(dev["tokens"]) == IDENTITIES
    assert len(set(dev["tokens"].values())) == len(IDENTITIES)


def test_the_inbox_is_where_it_says(laptop: Laptop) -> None:
    inbox = json.loads(laptop.dev_json.read_text())["inbox"]
    assert inbox == f"{laptop.url}/inbox/"
    for address in (inbox, inbox.rstrip("/")):
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            assert answer.url == inbox
            assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert b"<title>Interlock" in answer.read()


def test_only_its_owner_can_read_the_key_of_what_web_hooks_hold(laptop: Laptop) -> None:
    key = laptop.dev_json.with_name("seal.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_the_card_says_that_it_streams_and_delivers(laptop: Laptop) -> None:
    with urllib.request.urlopen(f"{laptop.url}/.well-known/agent-card.json", timeout=SECONDS) as answer:
        capabilities = json.load(answer)["capabilities"]
    assert (capabilities["streaming"], capabilities["pushNotifications"]) == (True, True)


def test_nobody_gets_in_without_a_token(laptop: Laptop) -> None:
    request = urllib.request.Request(f"{laptop.url}/tasks", headers={"A2A-Version": "1.0"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=SECONDS)
    with refused.value as answer:
        assert answer.code == 401


def test_a_halt_is_walked(laptop: Laptop) -> None:
    token = json.loads(laptop.dev_json.read_text())["tokens"]["oncall"]
    scope, headers = "skill:demo/help", {"Authorization": f"Bearer {token}"}

    def call(path: str, body: dict[str, str] | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        json_headers = headers | {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{laptop.url}/people/halts{path}", data, json_headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            answered: dict[str, Any] = json.load(answer)
            return answered

    call("", {"scope": scope, "reason": "A drill"})
    deadline = time.monotonic() + SECONDS
    while "walkedAt" not in (report := call(f"/report?scope={scope}")):
        assert time.monotonic() < deadline, report
        time.sleep(0.05)
    assert report["on"] is True
    assert call("/resume", {"scope": scope}) == {"status": "lifted"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(doomed: Laptop, number: signal.Signals) -> None:
    started = children(doomed.process.pid)
    assert started
    doomed.process.send_signal(number)
    doomed.process.wait(timeout=SECONDS)
    wait_until_ended(started)
    assert not doomed.dev_json.exists()


def test_nothing_is_left_after_it_was_killed(doomed: Laptop) -> None:
    started = children(doomed.process.pid)
    assert started
    doomed.process.kill()
    doomed.process.wait(timeout=SECONDS)
    wait_until_ended(started)


def test_the_card_is_signed_with_a_key_of_this_folder(laptop: Laptop) -> None:
    key_file = laptop.folder / ".interlock" / "signing-key.pem"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    card = parse_agent_card(json.load(urllib.request.urlopen(f"{laptop.url}/.well-known/agent-card.json")))
    (jwk,) = json.load(urllib.request.urlopen(f"{laptop.url}/.well-known/jwks.json"))["keys"]
    create_signature_verifier(lambda _kid, _jku: jwt.PyJWK(jwk), ["ES256"])(card)
    assert jwk == FileSigner(key_file).public_jwk
    assert {interface.url for interface in card.supported_interfaces} == {laptop.url}


def test_its_audit_trail_is_exported_and_verified_as_a_deployments(laptop: Laptop) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{laptop.url}/people/checkpoints")
    interlock = shlex.quote(str(Path(sys.executable).with_name("interlock")))
    script = f"""
    set -e
    . .interlock/deployer.sh
    {interlock} audit key > audit-jwks.json
    {interlock} audit export --tenant '' --sign --out nobody.jsonl
    {interlock} audit verify nobody.jsonl --key audit-jwks.json
    """

    deadline = time.monotonic() + SECONDS
    while True:
        done = subprocess.run(
            ["bash", "-c", script], cwd=laptop.folder, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            break
        assert time.monotonic() < deadline, done.stdout + done.stderr
    assert "nothing was changed" in done.stdout


def test_the_glass_is_broken_as_in_a_deployment(laptop: Laptop) -> None:
    interlock = shlex.quote(str(Path(sys.executable).with_name("interlock")))
    script = f"""
    set -e
    . .interlock/deployer.sh
    {interlock} halt --all --reason 'the doors are down' --break-glass
    {interlock} status
    {interlock} status --break-glass
    {interlock} resume --all --break-glass
    """
    done = subprocess.run(
        ["bash", "-c", script], cwd=laptop.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Halted all: the doors are down\n")
    assert "aws:arn:" in done.stdout
    assert done.stdout.endswith("Lifted the halt of all.\n")
