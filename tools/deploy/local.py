"""The real template, built and deployed by SAM onto the emulator, and called through its API.

    python -m tools.deploy.local

stays in the foreground until Ctrl-C. Nothing survives it but what `sam build` keeps to be faster next time.
"""

import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import boto3
from tools.deploy.digest import ROOT, code_digest
from tools.deploy.interpreters import Interpreter, find_interpreter
from tools.deploy.page import build_page
from tools.emulator.process import REGION, aws_environment, running_emulator
from tools.emulator.streams import stream_mappings

STACK = "interlock-local"
STAGE = "local"
WORK = ROOT / ".aws-sam"
SAM = ROOT / "tools/sam/.venv/bin/sam"
RUNTIME_CLIENT_REQUIREMENTS = ROOT / "tools/deploy/awslambdaric.txt"
ARCHITECTURES = {"aarch64": "arm64", "amd64": "x86_64", "arm64": "arm64", "x86_64": "x86_64"}


@dataclass(frozen=True)
class Stack:
    """What is deployed: `url` is the API's with its stage, `endpoint` the emulator's, for AWS clients."""

    url: str
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """For a process, or a boto3 client, that works on the stack as its deployer."""
        return aws_environment(self.endpoint)

    @cached_property
    def outputs(self) -> dict[str, str]:
        (stack,) = self.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def client(self, service: str) -> Any:
        """A boto3 client of the deployer, whatever the environment of this process says."""
        credentials = boto3.session.Session("test", "test", region_name=REGION)
        return credentials.client(service, endpoint_url=self.endpoint)  # type: ignore[call-overload]


@contextmanager
def deployed(
    agent: Path | None = None, *, secrets: Mapping[str, str] = MappingProxyType({}), **parameters: str
) -> Iterator[Stack]:
    """Builds and deploys the template for this machine, with `parameters` over the defaults.

    `agent` is a folder whose content is deployed as if it were in layers/agent. `secrets` are made first:
    parameters that take the ARN of a secret, and the names of these, with an empty JSON object in each.
    """
    build_page()
    interpreter = find_interpreter()
    client = _runtime_client(interpreter)
    functions = ("--python", interpreter.path, "--runtime-client", client, "--layers", WORK / "local-layers")
    with running_emulator("--iam", *map(str, functions), lines=2) as (endpoint, front):
        url = f"{front}/{STAGE}"
        stack = Stack(url, endpoint)
        manager = stack.client("secretsmanager")
        made = {
            parameter: manager.create_secret(Name=name, SecretString="{}")["ARN"]
            for parameter, name in secrets.items()
        }
        values = {
            "Architecture": ARCHITECTURES[platform.machine().lower()],
            "CodeDigest": code_digest(),
            "DeletionProtection": "false",
            "PublicUrl": url,
            "Runtime": interpreter.runtime,
            "Stage": STAGE,
            "StopsReservedConcurrency": "2",
            **made,
            **parameters,
        }
        build_and_deploy(endpoint, interpreter, values, agent)
        with stream_mappings(stack.client):
            yield stack


def build_and_deploy(
    endpoint: str, interpreter: Interpreter, parameters: Mapping[str, str], agent: Path | None = None
) -> None:
    """`sam build` and `sam deploy`, as a user runs them. Shows what SAM says when it fails, and raises."""
    built = WORK / "local"
    environment = {
        **os.environ,
        **aws_environment(endpoint),
        # SAM looks for the runtime's Python on PATH, and needs the pip in it.
        "PATH": f"{interpreter.path.parent}{os.pathsep}{os.environ['PATH']}",
        "SAM_CLI_POLL_DELAY": "0.2",
        "SAM_CLI_TELEMETRY": "0",
    }
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        environment.pop(name, None)
    overrides = ["--parameter-overrides", *(f"{name}={value}" for name, value in parameters.items())]
    WORK.mkdir(exist_ok=True)
    with (WORK / "local.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _sam(
            environment, "build", "--cached", "--parallel", *overrides,
            "--build-dir", built, "--cache-dir", WORK / "local-cache",
        )  # fmt: skip
        if agent is not None:
            shutil.copytree(agent, built / "AgentLayer/python", dirs_exist_ok=True)
        _sam(
            environment, "deploy", "--template-file", built / "template.yaml", *overrides,
            "--stack-name", STACK, "--region", REGION, "--capabilities", "CAPABILITY_IAM",
            "--resolve-s3", "--no-confirm-changeset", "--no-fail-on-empty-changeset", "--no-progressbar",
        )  # fmt: skip


def _sam(environment: Mapping[str, str], *arguments: str | Path) -> None:
    command = [str(SAM), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise subprocess.CalledProcessError(done.returncode, command)


def _runtime_client(interpreter: Interpreter) -> Path:
    """The folder of awslambdaric for the interpreter, installed when it is asked for the first time."""
    folder = ROOT / ".tools/lambda-runtimes" / interpreter.runtime
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
            pip = [str(interpreter.path), "-m", "pip", "install", "--quiet", "--root-user-action", "ignore"]
            what = ["--target", staging, "--requirement", str(RUNTIME_CLIENT_REQUIREMENTS)]
            subprocess.run([*pip, *what], check=True)
            shutil.copytree(staging, folder)
    return folder


def main() -> None:
    # Set before the emulator starts, so that whatever ends this ends that too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with deployed() as stack:
            print(f"Interlock is deployed at {stack.url}\n")
            for name, value in (*stack.environment.items(), *sorted(stack.outputs.items())):
                print(f"  {name}={value}")
            print("\nCtrl-C ends it.", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
