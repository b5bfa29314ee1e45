"""The emulator is on loopback only, and nothing of it outlives whoever started it."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.request
from pathlib import Path

import pytest
from tools.emulator.process import HERE, running_emulator

ROOT = Path(__file__).parents[2]
LAUNCHER = [str(HERE / ".venv/bin/python"), str(HERE / "emulator.py")]


def gone(pid: int, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_is_healthy_once_it_has_printed_its_url() -> None:
    with (
        running_emulator() as (url,),
        urllib.request.urlopen(f"{url}/_ministack/health", timeout=30) as answer,
    ):
        assert answer.status == 200


def test_listens_on_loopback_alone() -> None:
    with running_emulator() as (url,):
        port = int(url.rsplit(":", 1)[1])
        assert url.startswith("http://127.0.0.1:")
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), timeout=10):
            pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_at_a_signal(number: signal.Signals) -> None:
    with subprocess.Popen(LAUNCHER, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(number)
        assert child.wait(timeout=10) == 0


def test_ends_when_its_parent_is_killed() -> None:
    parent = textwrap.dedent("""
        import subprocess, sys
        child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        print(child.pid, flush=True)
        child.wait()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", parent, *LAUNCHER], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        emulator = int(killed.stdout.readline())
        killed.kill()
    assert gone(emulator)


def test_says_that_it_did_not_start_when_its_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(RuntimeError), running_emulator("--port", port):
            pass
