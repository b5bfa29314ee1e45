"""The agents' door in a process of its own, started as its function is under the Lambda Web Adapter."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60.0
HANDLER = ROOT / "functions/a2a/run.sh"


@dataclass(frozen=True)
class DoorProcess:
    url: str
    process: "subprocess.Popen[bytes]"

    def kill(self) -> None:
        """As a machine does that is lost."""
        self.process.kill()
        self.process.wait()


@contextmanager
def door_process(settings: Mapping[str, str]) -> Iterator[DoorProcess]:
    """`settings` are environment variables, beside those that the template sets for the streaming profile."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **os.environ,
        # As on Lambda, the interpreter is found on the path.
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AWS_LWA_PORT": str(port),
        "AWS_LWA_INVOKE_MODE": "response_stream",
        "INTERLOCK_STREAMING": "true",
        **settings,
    }
    process = subprocess.Popen([HANDLER], env=environment, cwd=HANDLER.parent)
    try:
        _wait_until_ready(process, port)
        yield DoorProcess(f"http://127.0.0.1:{port}", process)
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    """The adapter, too, waits until somebody accepts connections."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "it ended before it was ready"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError("it did not become ready")
