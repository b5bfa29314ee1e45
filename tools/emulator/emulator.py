"""The AWS emulator as one child process: on loopback only, in memory only, gone with its parent.

    tools/emulator/.venv/bin/python tools/emulator/emulator.py [--port N] [--iam]

Prints its URL once it listens; with `--port 0`, the default, the operating system chooses the port.
`GET /_ministack/health` answers 200 from then on. `--iam` enforces IAM policies.

To be deployed to, it also takes the interpreter that functions run in, the folder of the Lambda runtime
client for it, and one for unpacked layers (`--python`, `--runtime-client`, `--layers`). It then serves the
deployed REST API at a port of its own and prints the URL of that, without a stage, as a second line.
"""

import argparse
import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

LOOPBACK = "127.0.0.1"
QUEUE_POLL_SECONDS = 0.01
PARENT_POLL_SECONDS = 0.2
_BATCH_ACTIONS = frozenset(
    {"sqs:SendMessageBatch", "sqs:DeleteMessageBatch", "sqs:ChangeMessageVisibilityBatch"}
)
_INHERITED = {"HOME", "LANG", "LOG_LEVEL", "PATH", "TMPDIR"}


def main() -> None:
    options = _options()
    parent = os.getppid()
    # A session of its own: Ctrl-C is for the parent to handle, and one signal ends all workers.
    if os.getpgrp() != os.getpid():
        os.setsid()
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    threading.Thread(target=_stop_with_parent, args=(parent,), daemon=True).start()

    listener = socket.create_server((LOOPBACK, options.port), backlog=1024)
    port = listener.getsockname()[1]
    _configure(port, iam=options.iam)
    # Where the emulator unpacks functions: one folder, so that it can be removed as a whole.
    tempfile.tempdir = tempfile.mkdtemp(prefix="interlock-emulator-")
    _patch()
    print(f"http://{LOOPBACK}:{port}", flush=True)
    if options.python is None:
        _close_stdout()
        asyncio.run(_serve(listener))
    else:
        asyncio.run(_serve_deployed(listener, options))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The AWS emulator, on loopback")
    parser.add_argument("--port", type=int, default=0, help="0: chosen by the operating system")
    parser.add_argument("--iam", action="store_true", help="enforce IAM policies")
    parser.add_argument("--python", type=Path, help="the interpreter that functions run in")
    parser.add_argument("--runtime-client", type=Path, help="the folder of awslambdaric for it")
    parser.add_argument("--layers", type=Path, help="the folder for unpacked layers")
    options = parser.parse_args()
    if len({option is None for option in (options.python, options.runtime_client, options.layers)}) > 1:
        parser.error("--python, --runtime-client and --layers go together")
    return options


def _configure(port: int, *, iam: bool) -> None:
    """The emulator reads its settings from the environment when it is imported, and functions inherit it."""
    for name in os.environ.keys() - _INHERITED:
        del os.environ[name]
    os.environ.update(
        AUTH="true" if iam else "false",
        BIND_HOST=LOOPBACK,
        AWS_ENDPOINT_URL=f"http://{LOOPBACK}:{port}",
        GATEWAY_PORT=str(port),
        IOT_MTLS_ENABLED="0",
        MINISTACK_HOST=LOOPBACK,
        # Those that wait for an environment of their function hold a thread.
        MINISTACK_WORKER_THREADS="256",
        PERSIST_STATE="0",
        SFTP_ENABLED="0",
    )
    os.environ.setdefault("LOG_LEVEL", "ERROR")


def _patch() -> None:
    from ministack.core import iam_actions
    from ministack.services import sqs

    # It warns of a package that nothing here needs, before it has read how much it shall say.
    logging.getLogger("kms").setLevel(logging.ERROR)
    # A waiting ReceiveMessage looks again every 100 ms; wake-ups are measured through it.
    sqs.asyncio = types.SimpleNamespace(**{**vars(asyncio), "sleep": _short_sleep})
    # AWS has no batch actions: a batch is allowed by the permission for its single form.
    iam_actions.extract_iam_action = _single_action(iam_actions.extract_iam_action)


async def _short_sleep(seconds: float) -> None:
    await asyncio.sleep(min(seconds, QUEUE_POLL_SECONDS))


def _single_action(extract: Callable[..., str | None]) -> Callable[..., str | None]:
    def single_action(*args: Any, **kwargs: Any) -> str | None:
        action = extract(*args, **kwargs)
        return action.removesuffix("Batch") if action in _BATCH_ACTIONS else action

    return single_action


async def _serve_deployed(listener: socket.socket, options: argparse.Namespace) -> None:
    import api_gateway
    import cloudformation
    import lambda_functions

    lambda_functions.install(options.python, options.runtime_client, options.layers)
    api_gateway.install()
    cloudformation.install()
    with socket.create_server((LOOPBACK, 0), backlog=1024) as api:
        port = api.getsockname()[1]
        print(f"http://{LOOPBACK}:{port}", flush=True)
        _close_stdout()
        await _serve(listener, api, front=lambda app: api_gateway.front(app, port))


async def _serve(*listeners: socket.socket, front: Callable[[Any], Any] = lambda app: app) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{listener.fileno()}" for listener in listeners]
    config.keep_alive_timeout = 75
    config.loglevel = os.environ["LOG_LEVEL"]
    # With a trigger of ours hypercorn leaves the signal handlers alone.
    await serve(front(app), config, shutdown_trigger=asyncio.Event().wait)


def _close_stdout() -> None:
    """Whoever reads the URLs need not read on: what else is printed goes where errors go."""
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _stop_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_SECONDS)
    # Signals are handled by the main thread.
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(*_: object) -> NoReturn:
    """Nothing is worth saving, and a worker may be busy for half a minute: no graceful shutdown."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    if tempfile.tempdir is not None:
        shutil.rmtree(tempfile.tempdir, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
