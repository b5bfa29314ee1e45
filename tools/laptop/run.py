"""`make run`: a whole deployment in one process, over the emulator, for the time that it runs.

    INTERLOCK_AGENT=module:agent python -m tools.laptop.run [--port 8000]

Tables and queues are those of template.yaml, workers call the handlers of functions/. Answers stream, and web
hooks may be at local addresses. With port 0 the operating system chooses one. The URL and the tokens are also
in .interlock/dev.json while it runs.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tools.emulator.process import aws_environment, running_emulator

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send
    from tools.emulator.streams import Clients
    from uvicorn import Server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "functions/inbox/static"
DEV_JSON = Path(".interlock/dev.json")
"""Below the folder that it is started in, as the command line looks for it."""
SEAL_KEY = DEV_JSON.with_name("seal.key")
SIGNING_KEY = DEV_JSON.with_name("signing-key.pem")
AUDIT_KEY = DEV_JSON.with_name("audit-key.pem")
PEERS = DEV_JSON.with_name("peers.json")
"""Whom agents may hand work to: this deployment itself, as `self`."""
DEPLOYER = DEV_JSON.with_name("deployer.sh")
"""Sets what a command needs that works on this deployment as its deployer."""
LOOPBACK = "127.0.0.1"
STACK = "laptop"
TENANT = "demo"
TURN_WORKERS = (4, 64)
"""At least, and at most: a turn that waits for what it has delegated takes one."""
STOP_WORKERS = 2
OUTBOX_WORKERS = (2, 16)
SHUTDOWN_SECONDS = 1

_CURL = "curl -sw '\\n'"
_AS = "-H 'A2A-Version: 1.0' -H 'Authorization: Bearer"
_JSON = "-H 'Content-Type: application/json' -d"
_OPEN = r"""sed 's/.*"taskId":"\([^"]*\)","checkpointId":"\([^"]*\)".*/\1\/checkpoints\/\2/'"""


def main() -> None:
    # uvicorn restores this and sends the signal again: without it the emulator would be left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    parser = argparse.ArgumentParser(description="A whole deployment on this machine")
    parser.add_argument("--port", type=int, default=8000, help="0: chosen by the operating system")
    port: int = parser.parse_args().port
    try:
        listener = socket.create_server((LOOPBACK, port), backlog=256)
    except OSError as error:
        sys.exit(f"Port {port}: {error.strerror}. Choose another one: make run PORT=8001")
    url = f"http://{LOOPBACK}:{listener.getsockname()[1]}"
    with suppress(KeyboardInterrupt), listener, running_emulator() as (endpoint,):
        serve(listener, url, endpoint)


def serve(listener: socket.socket, url: str, endpoint: str) -> None:
    from pydantic import ValidationError

    from interlock import bootstrap

    os.environ.update(aws_environment(endpoint))
    # Where an agent of one's own is put for a deployment, there it is found here.
    sys.path.insert(0, str(ROOT / "layers" / "agent"))
    with ThreadPoolExecutor(1) as background:
        created = background.submit(create_resources)
        # The slow part of being ready, while the emulator is at work.
        for module in ("interlock.bootstrap", "interlock.a2a.app", "interlock.doors.people", "uvicorn"):
            import_module(module)
        outputs = created.result()
    os.environ.update(
        INTERLOCK_TABLE=outputs["CoreTable"],
        INTERLOCK_IDENTITIES_TABLE=outputs["IdentitiesTable"],
        INTERLOCK_TURNS_QUEUE=outputs["TurnsQueue"],
        INTERLOCK_TIMERS_QUEUE=outputs["TimersQueue"],
        INTERLOCK_STOPS_QUEUE=outputs["StopsQueue"],
        INTERLOCK_OUTBOX_QUEUE=outputs["OutboxQueue"],
        INTERLOCK_OUTBOX_DEAD_LETTERS=outputs["OutboxDeadLetters"],
        INTERLOCK_AUDIT_TABLE=outputs["AuditTable"],
        INTERLOCK_AUDIT_QUEUE=outputs["AuditQueue"],
        **key_files(),
        INTERLOCK_LOCAL_WEBHOOKS="true",
        POWERTOOLS_METRICS_DISABLED="true",
    )
    os.environ.setdefault("INTERLOCK_STREAMING", "true")
    # The card is signed for an address that is known, not for whatever a request calls itself.
    os.environ.setdefault("INTERLOCK_PUBLIC_URL", url)
    os.environ.setdefault("LOG_LEVEL", "WARNING")
    try:
        bootstrap.agent()
    except (bootstrap.NoAgent, ValidationError) as error:
        sys.exit(str(error).partition("For further information")[0].strip())
    tokens = create_identities(outputs["IdentitiesTable"])
    private(PEERS, json.dumps({"self": {"url": url, "authorization": f"Bearer {tokens['agent']}"}}))
    # Before anybody is told that it is ready: a signal that comes within an import can get lost there.
    server = doors()
    with workers(outputs), dev_json(url, tokens), deployer(endpoint):
        print(greeting(url, tokens), flush=True)
        server.run(sockets=[listener])


def key_files() -> dict[str, str]:
    """The settings that name files: keys that only their owner can read, made when they are not there."""
    from interlock.adapters.sealing import create_seal_key
    from interlock.adapters.signing import create_signing_key

    DEV_JSON.parent.mkdir(exist_ok=True)
    create_seal_key(SEAL_KEY)
    create_signing_key(SIGNING_KEY)
    create_signing_key(AUDIT_KEY)
    return {
        "INTERLOCK_SEAL_KEY": f"file:{SEAL_KEY}",
        "INTERLOCK_PEERS": f"file:{PEERS}",
        "INTERLOCK_SIGNING_KEY": f"file:{SIGNING_KEY}",
        "INTERLOCK_AUDIT_KEY": f"file:{AUDIT_KEY}",
    }


def create_resources() -> dict[str, str]:
    """The template's tables and queues, on the emulator. Returns the outputs."""
    import boto3
    from tools.laptop.template import data_template

    client = boto3.client("cloudformation")
    client.create_stack(StackName=STACK, TemplateBody=json.dumps(data_template()))
    while True:
        (stack,) = client.describe_stacks(StackName=STACK)["Stacks"]
        if stack["StackStatus"] == "CREATE_COMPLETE":
            return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        if stack["StackStatus"] != "CREATE_IN_PROGRESS":
            sys.exit(f"the resources could not be created: {stack.get('StackStatusReason')}")
        time.sleep(0.02)


def create_identities(table: str) -> dict[str, str]:
    """The demo tenant's identities. Returns their tokens by label."""
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
    from interlock.adapters.identities import IdentityStore
    from interlock.oversight.principals import Kind, Role

    on_call = (Role.OPERATOR, Role.PLATFORM_OPERATOR)
    store = IdentityStore(*[DynamoTable(dynamodb_client(), table)] * 2)
    return {
        label: store.create(label, TENANT, kind, roles)[1]
        for label, kind, roles in (
            ("agent", Kind.SERVICE, (Role.CALLER,)),
            ("alice", Kind.PERSON, (Role.APPROVER,)),
            ("bob", Kind.PERSON, (Role.APPROVER,)),
            ("carol", Kind.PERSON, (Role.APPROVER,)),
            ("oncall", Kind.PERSON, on_call),
        )
    }


@contextmanager
def workers(outputs: dict[str, str]) -> Iterator[None]:
    import boto3
    from tools.emulator.streams import Mapping, StreamReader
    from tools.laptop.template import event_source
    from tools.laptop.workers import Context, Crew, load_handler, serve_minutes, serve_queue

    turns, fanout, stops, outbox, audit, timers = (
        load_handler(name, ROOT) for name in ("turns", "fanout", "stops", "outbox", "audit", "timers")
    )
    stop = threading.Event()
    sqs = boto3.client("sqs")

    stream = event_source("FanoutFunction", "Stream")
    stream["DestinationConfig"]["OnFailure"]["Destination"] = outputs["FanoutFailuresArn"]
    mapping = Mapping.read("fanout", outputs["CoreTableStreamArn"], stream)
    clients = cast("Clients", boto3.client)
    reader = StreamReader(mapping, lambda event: fanout(event, Context("fanout")), clients, stop)

    def start(work: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()

    Crew(sqs, outputs["TurnsQueue"], "turns", turns, *TURN_WORKERS).serve(stop)
    for _ in range(STOP_WORKERS):
        start(serve_queue, sqs, outputs["StopsQueue"], 1, "stops", stops, stop)
    Crew(sqs, outputs["OutboxQueue"], "outbox", outbox, *OUTBOX_WORKERS).serve(stop)
    start(serve_queue, sqs, outputs["AuditQueue"], 10, "audit", audit, stop)
    start(serve_queue, sqs, outputs["TimersQueue"], 10, "timers", timers, stop)
    start(serve_minutes, "timers", timers, stop)
    start(reader.run)
    try:
        yield
    finally:
        stop.set()


def private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text + "\n")


@contextmanager
def dev_json(url: str, tokens: dict[str, str]) -> Iterator[None]:
    """Where the command line and people find this deployment; only its owner can read it."""
    private(DEV_JSON, json.dumps({"url": url, "inbox": inbox(url), "tokens": tokens}, indent=2))
    try:
        yield
    finally:
        DEV_JSON.unlink(missing_ok=True)


@contextmanager
def deployer(endpoint: str) -> Iterator[None]:
    """For a shell: `. .interlock/deployer.sh`."""
    names = (
        "INTERLOCK_TABLE",
        "INTERLOCK_AUDIT_TABLE",
        "INTERLOCK_AUDIT_KEY",
        "INTERLOCK_IDENTITIES_TABLE",
    )
    variables = aws_environment(endpoint) | {name: os.environ[name] for name in names}
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    private(DEPLOYER, "".join(lines).rstrip())
    try:
        yield
    finally:
        DEPLOYER.unlink(missing_ok=True)


def doors() -> "Server":
    import uvicorn

    from interlock import bootstrap

    try:
        page = bootstrap.inbox_door(PAGE)
    except FileNotFoundError:
        sys.exit("The page is not built. Build it: make page")
    config = uvicorn.Config(
        by_path(
            bootstrap.agents_door(threads=True), bootstrap.people_door(), page, bootstrap.channels_door()
        ),
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return uvicorn.Server(config)


def by_path(agents: "ASGIApp", people: "ASGIApp", page: "ASGIApp", channels: "ASGIApp") -> "ASGIApp":
    """As the API's resources: those of `/people`, of `/channels` and of `/inbox`, and the rest."""

    async def door(scope: "Scope", receive: "Receive", send: "Send") -> None:
        match scope["path"].split("/", 2):
            case ["", "people", _]:
                await people(scope, receive, send)
            case ["", "channels", _]:
                await channels(scope, receive, send)
            case ["", "inbox", *_]:
                await page(scope, receive, send)
            case _:
                await agents(scope, receive, send)

    return door


def inbox(url: str) -> str:
    return f"{url}/inbox/"


def greeting(url: str, tokens: dict[str, str]) -> str:
    listed = "\n".join(f"  {label:7} {token}" for label, token in tokens.items())
    send, answer, get = curls(url, tokens)
    return f"""Interlock is at {url}

{listed}

Ask for something that needs a person, answer as alice, and see what became of it:

{send}

{answer}

{get}

Or answer in the inbox, at {inbox(url)}: alice signs in there with her token.
"""


def curls(url: str, tokens: dict[str, str]) -> tuple[str, str, str]:
    """Three commands: a send, an answer to what it asks, and the task after that."""
    agent, alice = f"{_AS} {tokens['agent']}'", f"{_AS} {tokens['alice']}'"
    message = '{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"release 1.2.0"}]}}'
    payload = '{"payload":{"approved":true}}'
    waiting = f"$(curl -s {url}/people/checkpoints {alice} | {_OPEN})"
    return (
        f"{_CURL} {url}/message:send {agent} {_JSON} '{message}'",
        f"{_CURL} {url}/people/tasks/{waiting}/answer {alice} {_JSON} '{payload}'",
        f"{_CURL} '{url}/tasks?pageSize=1&includeArtifacts=true' {agent}",
    )


if __name__ == "__main__":
    main()
