"""The cold start of each function, in fresh interpreters: from nothing to the first answer."""

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

from tests.performance.probe import FUNCTIONS, REFERENCE, ROOT

ROUNDS = 5
BARE = "bare python"


@dataclass(frozen=True, slots=True)
class ColdStart:
    """CPU in milliseconds, peak memory in MiB, modules; `times` as much CPU as bare python. Medians."""

    what: str
    cpu: float
    memory: float
    modules: int
    times: float


def measure() -> list[ColdStart]:
    """All in turn, round by round."""
    names = [BARE, REFERENCE, *FUNCTIONS]
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name in names:
            taken[name].append(start(name))
    bare = statistics.median(cpu for cpu, _, _ in taken[BARE])
    found = []
    for name, rounds in taken.items():
        cpu = statistics.median(cpu for cpu, _, _ in rounds)
        memory = statistics.median(memory for _, memory, _ in rounds)
        found.append(ColdStart(name, cpu, memory, rounds[0][2], cpu / bare))
    return found


def start(name: str) -> tuple[float, float, int]:
    probe = ["-m", "tests.performance.probe", name]
    nothing = ["-c", 'print(\'{"answered": [], "peak": 0}\')']
    command = [sys.executable, *(nothing if name == BARE else probe)]
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        assert child.stderr is not None
        raise RuntimeError(f"{name}: {child.stderr.read().decode()[-500:]}")
    cpu = (usage.ru_utime + usage.ru_stime) * 1000
    # What a function logs is on its standard output too.
    said = json.loads(output.splitlines()[-1])
    return cpu, said["peak"], len(said["answered"])


def modules(name: str) -> set[str]:
    """What a function has imported when it has answered for the first time."""
    command = [sys.executable, "-m", "tests.performance.probe", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1])["answered"])
