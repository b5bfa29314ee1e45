"""Whole deployments, on a laptop and deployed, and who calls them: agents by the official SDK, people by the
command line."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from tools.deploy.local import STACK, Stack

from interlock.oversight.hitl_prompt import RESPONSE_KEY, URI

ROOT = Path(__file__).parents[2]
BINDINGS = ("JSONRPC", "HTTP+JSON")
PATIENCE_SECONDS = 60.0
"""For what takes a second, on a machine that does much else."""
POLL_SECONDS = 0.02

T = TypeVar("T")


def eventually(look: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """What `look` gives once it is true. Fails with the last it gave."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s; last seen: {seen!r}")
        time.sleep(POLL_SECONDS)
    return seen


def port_is_closed(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((str(parts.hostname), parts.port or 80)) != 0


# Places


@dataclass(frozen=True)
class Place:
    """A deployment of the demo agents, and the tokens of its identities by label.

    `environment` is for a process that works on it as its deployer; empty on a laptop.
    """

    url: str
    tokens: Mapping[str, str]
    folder: Path
    environment: Mapping[str, str]

    def caller(self, label: str, binding: str, *, extensions: tuple[str, ...] = (URI,)) -> "Caller":
        return Caller(self.url, self.tokens[label], binding, extensions)

    def cli(
        self, *arguments: str, label: str | None = None, check: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """`interlock`, as `label` where it calls this deployment."""
        called = {"INTERLOCK_URL": self.url, "INTERLOCK_TOKEN": self.tokens[label]} if label else {}
        return run_cli(
            *arguments, environment={**self.environment, **called}, folder=self.folder, check=check
        )


def run_cli(
    *arguments: str, environment: Mapping[str, str], folder: Path, check: bool = True
) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("interlock")), *arguments]
    done = subprocess.run(
        command, env={**os.environ, **environment}, cwd=folder, capture_output=True, text=True, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@contextmanager
def running_laptop(folder: Path, **settings: str) -> Iterator[Place]:
    """`make run`, in a folder of its own; ended by Ctrl-C, after which nothing of it is left.

    `settings` are further variables of its environment.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "tools.laptop.run", "--port", "0"],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT)} | settings,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("Interlock is at "), "it did not start"
            dev = json.loads((folder / ".interlock/dev.json").read_text())
            assert dev["url"] == first.split()[-1]
            yield Place(dev["url"], dev["tokens"], folder, {})
            started = descendants(process.pid)
            assert started
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE_SECONDS) == 0
            eventually(lambda: not any(map(is_running, started)))
            assert port_is_closed(dev["url"])
        finally:
            process.kill()


def descendants(pid: int) -> list[int]:
    """The processes that `pid` started, and those that these started."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [(int(child), int(parent)) for child, parent in map(str.split, listed.stdout.splitlines())]
    found = [pid]
    for parent in found:
        found += [child for child, its_parent in pairs if its_parent == parent]
    return found[1:]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


IDENTITIES: Mapping[str, tuple[str, ...]] = {
    "agent": ("demo", "service", "caller"),
    "peer": ("demo", "service", "caller"),
    "alice": ("demo", "person", "approver"),
    "bob": ("demo", "person", "approver"),
    "carol": ("demo", "person", "approver"),
    "oncall": ("demo", "person", "operator", "platform-operator"),
    "spy": ("other", "person", "caller", "approver", "operator", "platform-operator"),
}
"""Tenant, kind and roles of those that a deployment gets. The spy is of another tenant, with every role."""


def create_identity(stack: Stack, folder: Path, label: str, tenant: str, kind: str, *roles: str) -> str:
    """By the command line with the deployer's credentials. Returns the token."""
    options = [option for role in roles for option in ("--role", role)]
    done = run_cli(
        *(
            "tokens",
            "create",
            label,
            "--tenant",
            tenant,
            "--kind",
            kind,
            *options,
            "--stack",
            STACK,
            "--json",
        ),
        environment=stack.environment,
        folder=folder,
    )
    token: str = json.loads(done.stdout)["token"]
    return token


# Callers


@cache
def trusted() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


@dataclass(frozen=True)
class Caller:
    """Somebody with the official SDK's client. Each call is a client of its own, which knows nothing yet."""

    url: str
    token: str
    binding: str
    extensions: tuple[str, ...] = (URI,)

    def without_extensions(self) -> "Caller":
        return replace(self, extensions=())

    def card(self) -> pb.AgentCard:
        async def fetch() -> pb.AgentCard:
            async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=trusted()) as http:
                return await A2ACardResolver(http, self.url).get_agent_card()

        return asyncio.run(fetch())

    def send(
        self,
        text: str,
        *,
        task_id: str = "",
        metadata: Mapping[str, Any] | None = None,
        message_id: str = "",
        immediately: bool = False,
        notify: pb.TaskPushNotificationConfig | None = None,
    ) -> pb.Task:
        message = pb.Message(
            message_id=message_id or str(uuid4()),
            role=pb.ROLE_USER,
            parts=[pb.Part(text=text)],
            task_id=task_id,
        )
        if metadata is not None:
            ParseDict(dict(metadata), message.metadata)
        request = pb.SendMessageRequest(message=message)
        request.configuration.return_immediately = immediately
        if notify is not None:
            request.configuration.task_push_notification_config.CopyFrom(notify)

        async def send(client: Client, context: ClientCallContext) -> pb.Task:
            (response,) = [response async for response in client.send_message(request, context=context)]
            return response.task

        return self.call(send)

    def answer(self, task: pb.Task, payload: Mapping[str, Any], *, immediately: bool = False) -> pb.Task:
        """Answers the prompt that `task` waits for."""
        response = {"prompt_id": envelope(task)["prompt_id"], "payload": dict(payload)}
        return self.send(
            "answer", task_id=task.id, metadata={RESPONSE_KEY: response}, immediately=immediately
        )

    def get(self, task_id: str) -> pb.Task:
        request = pb.GetTaskRequest(id=task_id)
        return self.call(lambda client, context: client.get_task(request, context=context))

    def list(self, **filters: Any) -> pb.ListTasksResponse:
        request = pb.ListTasksRequest(**filters)
        return self.call(lambda client, context: client.list_tasks(request, context=context))

    def cancel(self, task_id: str) -> pb.Task:
        request = pb.CancelTaskRequest(id=task_id)
        return self.call(lambda client, context: client.cancel_task(request, context=context))

    def settled(self, task_id: str) -> pb.Task:
        """The task once its turn is over."""

        def at_rest() -> pb.Task | None:
            task = self.get(task_id)
            busy = task.status.state in (pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING)
            return None if busy else task

        found = eventually(at_rest)
        assert found is not None
        return found

    def call(
        self, call: Callable[[Client, ClientCallContext], Awaitable[T]], *, streaming: bool = False
    ) -> T:
        """`streaming`: whether the client streams where the card says that it may."""

        async def run() -> T:
            headers = {"Authorization": f"Bearer {self.token}"}
            async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS, verify=trusted()) as http:
                card = await A2ACardResolver(http, self.url).get_agent_card()
                config = ClientConfig(
                    streaming=streaming, httpx_client=http, supported_protocol_bindings=[self.binding]
                )
                parameters = ServiceParametersFactory.create([with_a2a_extensions(list(self.extensions))])
                context = ClientCallContext(service_parameters=parameters)
                return await call(ClientFactory(config).create(card), context)

        return asyncio.run(run())


def jsonrpc(method: str, params: Mapping[str, Any], request_id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params)}


def envelope(task: pb.Task) -> dict[str, Any]:
    """The prompt that the task's status message carries, empty if it carries none."""
    metadata: dict[str, Any] = MessageToDict(task.status.message.metadata)
    found: dict[str, Any] = metadata.get(URI, {})
    return found


def said(task: pb.Task) -> str:
    """The text of the status message."""
    return "".join(part.text for part in task.status.message.parts)


def artifact_texts(task: pb.Task) -> list[str]:
    return [part.text for artifact in task.artifacts for part in artifact.parts]
