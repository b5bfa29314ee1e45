"""Runs Python functions as AWS does: under the real runtime client, in an interpreter of their runtime.

The emulator would run them in its own interpreter. It does speak the Lambda Runtime API, to custom
runtimes, so a function becomes one here: a `bootstrap` that starts `awslambdaric`.
"""

import io
import shlex
import tempfile
import threading
import zipfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from ministack.core import lambda_runtime
from ministack.services import lambda_svc

Invoke = Callable[[dict[str, Any], Any, str], dict[str, Any]]

ENVIRONMENTS_PER_FUNCTION = 8
"""Fifty callers at once shall not start fifty interpreters: the others wait their turn."""
INIT_SECONDS = 60.0
"""AWS gives an environment ten, and processors of its own; here all of them share a few."""


def install(python: Path, client: Path, layers: Path) -> None:
    """`client` is the folder that holds `awslambdaric` for `python`; layers are unpacked below `layers`."""

    class PythonEnvironment(lambda_runtime.ProvidedWorker):
        def __init__(self, name: str, config: dict[str, Any], code: bytes) -> None:
            super().__init__(name, config, _with_bootstrap(code, _bootstrap(python, client, layers, config)))

        def _build_handler_class(self, *args: Any) -> Any:
            handler = super()._build_handler_class(*args)
            # It writes headers and body apart, which Nagle's algorithm and delayed ACKs make 40 ms of.
            handler.disable_nagle_algorithm = True
            return handler

        def _drain_stderr_bounded(self, first_line_wait: float = 0.003, **_: float) -> str:
            return str(super()._drain_stderr_bounded(first_line_wait, idle_confirm=0.002, hard_cap=0.1))

    choose = lambda_runtime._worker_class_for

    def environment_for(config: dict[str, Any]) -> Any:
        return PythonEnvironment if _is_python(config) else choose(config)

    lambda_runtime._worker_class_for = environment_for
    lambda_runtime._PROVIDED_INIT_TIMEOUT = INIT_SECONDS
    lambda_svc._execute_function_warm = _bounded(lambda_svc._execute_function_provided_warm)


def _is_python(config: dict[str, Any]) -> bool:
    return str(config.get("Runtime", "")).startswith("python")


def _bounded(invoke: Invoke) -> Invoke:
    environments: dict[str, threading.Semaphore] = defaultdict(
        lambda: threading.Semaphore(ENVIRONMENTS_PER_FUNCTION)
    )
    lock = threading.Lock()

    def invoke_in_turn(function: dict[str, Any], event: Any, request_id: str) -> dict[str, Any]:
        config = function.get("config") or function
        with lock:
            free = environments[config["FunctionName"]]
        with free:
            return invoke(function, event, request_id)

    return invoke_in_turn


def _bootstrap(python: Path, client: Path, layers: Path, config: dict[str, Any]) -> str:
    runtime = config["Runtime"]
    # On AWS a later layer overwrites an earlier one.
    unpacked = [_unpacked(layer, layers) / "python" for layer in reversed(config.get("Layers", []))]
    found = ":".join(map(str, [*unpacked, client]))
    return f"""#!/bin/sh
unset VIRTUAL_ENV PYTHONHOME
export PYTHONPATH={shlex.quote(found)} TZ=:UTC AWS_EXECUTION_ENV=AWS_Lambda_{runtime}
export AWS_LAMBDA_INITIALIZATION_TYPE=on-demand LAMBDA_RUNTIME_DIR={shlex.quote(str(client))}
exec {shlex.quote(str(python))} -m awslambdaric "$_HANDLER"
"""


def _unpacked(layer: Any, layers: Path) -> Path:
    """The folder of the layer's content, which is kept with its bytecode for the next deployment of it."""
    content = lambda_svc._resolve_layer_zip(layer)
    if content is None:
        raise RuntimeError(f"layer {layer} has no content")
    folder = layers / sha256(content).hexdigest()
    if not folder.exists():
        layers.mkdir(parents=True, exist_ok=True)
        staging = tempfile.mkdtemp(dir=layers)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            archive.extractall(staging)
        # Whoever comes second finds it there.
        with suppress(OSError):
            Path(staging).rename(folder)
    return folder


def _with_bootstrap(code: bytes, bootstrap: str) -> bytes:
    package = io.BytesIO(code)
    with zipfile.ZipFile(package, "a") as archive:
        entry = zipfile.ZipInfo("bootstrap")
        entry.external_attr = 0o755 << 16
        archive.writestr(entry, bootstrap)
    return package.getvalue()
