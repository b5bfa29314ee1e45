"""The guard for untrusted schemas: the static gate here, everything else in one worker process.

jsonschema-rs holds the interpreter's lock while it works, so neither a signal handler nor a thread could stop
it: only another process can be stopped at a deadline. The process is a fresh interpreter, not a fork, which
would carry over locks, sockets and secrets and is not safe once there are threads. It gets a minimal
environment and no file descriptor but its socket. It is started ahead of its first use and lies idle between
calls; a Lambda sandbox freezes and thaws it together with us.
"""

import importlib.util
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from interlock.oversight.schema_gate import (
    MAX_REGEX_SIZE,
    PayloadUndecided,
    SchemaRefused,
    Violation,
    bound,
    gate,
)

logger = logging.getLogger(__name__)

_ENGINE = "interlock.adapters.schema_engine"
_START_SECONDS = 10.0
_QUEUE_SECONDS = 2.0
"""How long a caller waits for its turn. Waiting is not validating, so it has a bound of its own."""
_RESERVE_SECONDS = 0.02
"""Of the deadline, to stop a worker and to start the next."""
_MAX_REPLY_BYTES = 1 << 20


class SchemaWorker:
    """Implements `interlock.engine.ports.SchemaGuard`. Safe for threads; calls take turns.

    `deadline` is in seconds, for one validation with everything that it takes in this process. A worker that
    is late, dies or talks nonsense is killed, and the next one is started. `ahead`: the first is started now.
    """

    def __init__(self, deadline: float = 0.25, *, ahead: bool = True) -> None:
        self._deadline = deadline
        self._turn = threading.Lock()
        self._process: _Process | None = None
        _guards.add(self)
        if ahead:
            self.start()

    def start(self) -> None:
        """Starts the worker, if there is none, so that it comes up before the first call."""
        with self._turn:
            self._running()

    @property
    def pid(self) -> int | None:
        """Of the worker that waits for the next call."""
        return self._process.pid if self._process is not None else None

    def check(self, schema: Any) -> None:
        """Raises `SchemaRefused` unless the schema passes the gate and compiles."""
        started = time.monotonic()
        gate(schema)
        answer = self._ask({"schema": schema, "regex_size": MAX_REGEX_SIZE}, started)
        if answer is None:
            raise SchemaRefused("the schema could not be compiled within the limits of time and memory")
        if "refused" in answer:
            raise SchemaRefused(answer["refused"])

    def validate(self, schema: Mapping[str, JsonValue], payload: JsonValue) -> list[Violation]:
        """Up to 100 violations; empty when valid. Raises `PayloadUndecided`.

        All of them are listed where that is possible within the deadline, else the first, else that there
        are some.
        """
        started = time.monotonic()
        try:
            cost = gate(schema)
        except SchemaRefused as refused:
            raise PayloadUndecided(f"the response schema is refused: {refused}") from None
        regex_size = bound(cost, payload)
        answer = self._ask({"schema": schema, "regex_size": regex_size, "payload": payload}, started)
        if answer is None:
            raise PayloadUndecided("the payload could not be judged within the limits of time and memory")
        if "refused" in answer:
            raise PayloadUndecided(
                "the payload has too much text to be matched with this schema's patterns"
                if regex_size < MAX_REGEX_SIZE
                else f"the response schema is refused: {answer['refused']}"
            )
        return [Violation(*row) for row in answer["violations"]]

    def close(self) -> None:
        """Ends the worker. A later call starts another."""
        with self._turn:
            if self._process is not None:
                self._process.end()
                self._process = None

    def _ask(self, request: dict[str, Any], started: float) -> dict[str, Any] | None:
        """The best answer within what is left of the deadline, or None."""
        line = json.dumps(request, ensure_ascii=False).encode() + b"\n"
        seconds = self._deadline - _RESERVE_SECONDS - (time.monotonic() - started)
        if seconds <= 0 or not self._turn.acquire(timeout=_QUEUE_SECONDS):
            return None
        try:
            answer = self._running().ask(line, seconds)
            # Where that process was lost, the next one starts now.
            self._running()
        except OSError:
            # No process, memory or file descriptor to be had: not decided, as if it had been too slow.
            return None
        finally:
            self._turn.release()
        return answer

    def _running(self) -> "_Process":
        if self._process is not None and not self._process.usable:
            self._process.abandon()
            self._process = None
        if self._process is None:
            self._process = _Process()
        return self._process

    def _after_fork_in_child(self) -> None:
        # The worker is the parent's, and so may be the thread that held the lock.
        self._turn = threading.Lock()
        if self._process is not None:
            self._process.disown()
            self._process = None


class _Process:
    """One worker process and our end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                popen = subprocess.Popen(  # noqa: S603 (our own interpreter and module)
                    [sys.executable, "-S", "-P", "-B", "-m", _ENGINE],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env=_environment(),
                    cwd="/",
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        self.pid: int = popen.pid
        self._popen = popen
        self._socket = ours
        self._received = b""
        self._started = False
        self._broken = False
        self.end = weakref.finalize(self, _end, popen, ours)
        """Kills and reaps; also called when nobody refers to the process, and when the interpreter exits."""

    @property
    def usable(self) -> bool:
        return not self._broken and self._popen.poll() is None

    def ask(self, line: bytes, seconds: float) -> dict[str, Any] | None:
        """The final answer, or the last one before the time was up or the process was lost."""
        best = None
        try:
            if not self._started:
                # Paid by the first call only, and only where it comes before the process is up.
                self._receive(time.monotonic() + _START_SECONDS)
                self._started = True
            until = time.monotonic() + seconds
            self._socket.settimeout(seconds)
            self._socket.sendall(line)
            while best is None or not best["final"]:
                best = self._receive(until)
        except (OSError, ValueError):
            self._broken = True
        return best

    def abandon(self) -> None:
        """Kills without waiting: a large process takes its time to die, and its caller has none left."""
        logger.warning("The schema worker was lost (exit status %s, None: too slow)", self._popen.poll())
        self.end.detach()
        self._socket.close()
        self._popen.kill()
        threading.Thread(target=self._popen.wait, daemon=True).start()

    def disown(self) -> None:
        """In a forked copy of its parent: lets go of the process without touching it."""
        # As if it had ended: it is not ours to kill or to wait for.
        self._popen.returncode = 0
        self.end()

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\n" not in self._received:
            remaining = until - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining)
            chunk = self._socket.recv(65536)
            if not chunk or len(self._received) > _MAX_REPLY_BYTES:
                raise ConnectionError
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _end(popen: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    popen.kill()
    popen.wait()


def _environment() -> dict[str, str]:
    """Where the worker's two packages are, and what the interpreter itself needs: no secrets."""
    engine = importlib.util.find_spec("jsonschema_rs")
    if engine is None or engine.origin is None:
        raise ModuleNotFoundError("jsonschema_rs is not installed")
    roots = (Path(__file__).resolve().parents[2], Path(engine.origin).parents[1])
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, roots))}


_guards: "weakref.WeakSet[SchemaWorker]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for guard in _guards:
        guard._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
