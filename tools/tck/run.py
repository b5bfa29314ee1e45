"""The official A2A test kit against this server, as a deployment that it starts; says how it went.

    python -m tools.tck.run --tck CHECKOUT [--profile streaming] [--python PYTHON] [-- PYTEST ARGUMENTS]

CHECKOUT is one of a2aproject/a2a-tck, branch 1.0-dev, installed as its README says (`uv venv`, then
`uv pip install -e .`). Its own reports are in CHECKOUT/reports. The profiles:

    streaming           the laptop deployment
    buffered            the same with INTERLOCK_STREAMING=false
    deployed            template.yaml, deployed by SAM onto the emulator
    required-extension  a door that requires an extension, so that it refuses what all other tests send
    bare                a door that declares no capability, so that it refuses what needs one
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from xml.etree import ElementTree

import tools.tck.a2a_tck_auth as plugin

if TYPE_CHECKING:
    from interlock.a2a.service import A2AService, CallContext

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
TESTS, REQUIREMENTS = Path("reports/junitreport.xml"), Path("reports/compatibility.json")
"""What the kit writes, below its checkout."""
REQUIRED = "urn:a2a:tck:required-extension"
CRASH = (
    "tests/compatibility/core_operations/test_transport_behavior.py"
    "::TestRestStreaming::test_streaming_content_type"
)
"""Reads a refusal that the kit's client has closed unread, which raises `httpx.ResponseNotRead`."""


@dataclass(frozen=True)
class Server:
    url: str
    token: str


@contextmanager
def laptop(*, streaming: bool) -> Iterator[Server]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= {"INTERLOCK_STREAMING": json.dumps(streaming), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tools.laptop.run", "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError("the laptop deployment did not start")
            dev = json.loads((Path(folder) / ".interlock/dev.json").read_text())
            yield Server(dev["url"], dev["tokens"]["agent"])
        finally:
            process.terminate()


@contextmanager
def deployed() -> Iterator[Server]:
    from tools.deploy import local

    create = ("tokens", "create", "kit", "--tenant", "demo", "--kind", "service", "--role", "caller")
    with local.deployed() as stack:
        created = subprocess.run(
            [Path(sys.executable).with_name("interlock"), *create, "--stack", local.STACK, "--json"],
            env={**os.environ, **stack.environment},
            stdout=subprocess.PIPE,
            check=True,
        )
        yield Server(stack.url, json.loads(created.stdout)["token"])


class NoService:
    """Accepts every caller. For what is refused before anything else is asked of a service."""

    def authenticate(self, context: "CallContext") -> None:
        pass


@contextmanager
def door(**capabilities: Any) -> Iterator[Server]:
    """The wire alone, with these in its card."""
    import uvicorn

    from interlock.a2a.app import create_app
    from interlock.a2a.card import AgentCapabilities
    from interlock.agents.demo import agent
    from interlock.doors.agents import agent_card

    declared = AgentCapabilities.model_validate(capabilities)
    card = agent_card(agent).model_copy(update={"capabilities": declared})
    app = create_app(cast("A2AService", NoService()), card)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server((LOOPBACK, 0)) as listener:
        serving = threading.Thread(target=server.run, args=([listener],))
        serving.start()
        try:
            yield Server(f"http://{LOOPBACK}:{listener.getsockname()[1]}", "any")
        finally:
            server.should_exit = True
            serving.join()


@dataclass(frozen=True)
class Profile:
    server: Callable[[], AbstractContextManager[Server]]
    options: tuple[str, ...] = ()
    """Of pytest."""


PROFILES = {
    "streaming": Profile(partial(laptop, streaming=True)),
    "buffered": Profile(partial(laptop, streaming=False), ("--deselect", CRASH)),
    "deployed": Profile(deployed, ("--deselect", CRASH)),
    "required-extension": Profile(
        partial(door, extensions=[{"uri": REQUIRED, "required": True}]), ("-k", "required_extension")
    ),
    "bare": Profile(door, ("-k", "not_supported or unsupported_operation")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="The official A2A test kit against this server")
    parser.add_argument("--tck", type=Path, required=True, help="a checkout of a2aproject/a2a-tck")
    parser.add_argument("--profile", choices=PROFILES, default="streaming")
    parser.add_argument("--python", help="one with the kit installed; else that of its .venv")
    parser.add_argument("options", nargs="*", metavar="PYTEST ARGUMENTS")
    given = parser.parse_args()
    checkout, profile = given.tck.resolve(), PROFILES[given.profile]
    python = given.python or checkout / ".venv/bin/python"
    with profile.server() as server:
        done = run_kit(checkout, python, server, (*profile.options, *given.options))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, stdout=subprocess.PIPE, check=True)
    print(f"\nkit {commit.stdout.decode().strip()}, profile {given.profile}\n{summary(checkout)}")
    sys.exit(done)


def run_kit(checkout: Path, python: str | Path, server: Server, options: tuple[str, ...]) -> int:
    """Returns its exit code."""
    kit = (python, "run_tck.py", "--sut-host", server.url, "--transport", "jsonrpc,http_json")
    environment = {
        **os.environ,
        plugin.TOKEN: server.token,
        "PYTHONPATH": str(Path(plugin.__file__).parent),
    }
    # Those of an earlier run must not stand for this one.
    for report in (TESTS, REQUIREMENTS):
        (checkout / report).unlink(missing_ok=True)
    command = [*map(str, kit), "--", "-p", plugin.__name__.rpartition(".")[2], *options]
    return subprocess.run(command, cwd=checkout, env=environment, check=False).returncode


def summary(checkout: Path) -> str:
    """Tests, and why some were skipped; what the kit records for each binding, and of its MUSTs."""
    suite = ElementTree.parse(checkout / TESTS).getroot()  # noqa: S314 (the kit's own)
    cases = list(suite.iter("testcase"))
    skipped = Counter(reason.get("message", "") for reason in suite.iter("skipped"))
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    passed = len(cases) - len(failed) - skipped.total()
    recorded = json.loads((checkout / REQUIREMENTS).read_text())
    lines = [f"tests: {passed} passed, {len(failed)} failed, {skipped.total()} skipped"]
    lines += [f"  failed: {case.get('classname')}::{case.get('name')}" for case in failed]
    lines += [f"  skipped: {count:3} {reason}" for reason, count in skipped.most_common()]
    lines += [
        f"{name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
        for name, counts in recorded["per_transport"].items()
    ]
    musts: dict[str, list[str]] = {}
    for name, requirement in recorded["per_requirement"].items():
        if requirement["level"] == "MUST":
            musts.setdefault(requirement["status"], []).append(name)
    lines += [f"MUST, {status}: {len(names)}" for status, names in musts.items()]
    lines += [f"  {status}: {', '.join(musts[status])}" for status in ("FAIL", "SKIPPED") if status in musts]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
