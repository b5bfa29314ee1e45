"""From an accepted answer to the resumed agent, on a whole laptop deployment: emulator, queue, workers."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]
TRIALS = 30
DONE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds over `trials`: from sending the answer to its acceptance, and to the completed task."""

    trials: int
    accepted_p50: float
    accepted_p95: float
    completed_p50: float
    completed_p95: float


def measure() -> Latency:
    with laptop() as (url, tokens), httpx.Client(timeout=30) as client:
        accepted, completed = [], []
        for number in range(TRIALS):
            one, other = _trial(client, url, tokens, number)
            accepted.append(one * 1000)
            completed.append(other * 1000)
    return Latency(TRIALS, *_percentiles(accepted), *_percentiles(completed))


def _percentiles(taken: list[float]) -> tuple[float, float]:
    ordered = sorted(taken)
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


def _trial(client: httpx.Client, url: str, tokens: dict[str, str], number: int) -> tuple[float, float]:
    agent = {"authorization": f"Bearer {tokens['agent']}", "a2a-version": "1.0"}
    alice = {"authorization": f"Bearer {tokens['alice']}"}
    sent = {
        "message": {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": f"release {number}"}]}
    }
    task = client.post(f"{url}/message:send", headers=agent, json=sent).raise_for_status().json()["task"]
    open_ones = client.get(f"{url}/people/checkpoints", headers=alice).raise_for_status().json()
    (asked,) = (one for one in open_ones["checkpoints"] if one["taskId"] == task["id"])
    address = f"{url}/people/tasks/{task['id']}/checkpoints/{asked['checkpointId']}/answer"
    began = time.perf_counter()
    client.post(address, headers=alice, json={"payload": {"approved": True}}).raise_for_status()
    accepted = time.perf_counter() - began
    while True:
        state = (
            client.get(f"{url}/tasks/{task['id']}", headers=agent)
            .raise_for_status()
            .json()["status"]["state"]
        )
        if state == "TASK_STATE_COMPLETED":
            return accepted, time.perf_counter() - began
        if time.perf_counter() - began > DONE_SECONDS:
            raise TimeoutError(state)
        time.sleep(0.002)


@contextmanager
def laptop() -> Iterator[tuple[str, dict[str, str]]]:
    """What `make run` starts, in a folder of its own."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tools.laptop.run", "--port", "0"]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if re.match(r"Interlock is at ", line):
                    break
            dev: dict[str, Any] = json.loads((Path(folder) / ".interlock" / "dev.json").read_text())
            yield dev["url"], dev["tokens"]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
