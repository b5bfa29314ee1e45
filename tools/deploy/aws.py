"""`make deploy`: `sam build` and `sam deploy` to the AWS account of the environment's credentials.

    python -m tools.deploy.aws [--config-env dev|prod]

An environment is a section of samconfig.toml. Beside what the two commands do by themselves, this puts the
runtime's Python first on PATH, builds the page, ships bytecode, and hands over the digest of the code.
"""

import argparse
import os
import subprocess
import tomllib

from tools.deploy.bytecode import compile_build
from tools.deploy.digest import ROOT, code_digest
from tools.deploy.interpreters import find_interpreter
from tools.deploy.local import SAM
from tools.deploy.page import build_page

DEFAULT_RUNTIME = "python3.13"


def deploy(environment: str) -> None:
    """Raises `CalledProcessError` when a step fails, and `KeyError` for an environment that is not there."""
    overrides = parameter_overrides(environment)
    build_page()
    interpreter = find_interpreter([overrides.get("Runtime", DEFAULT_RUNTIME)])
    path = f"{interpreter.path.parent}{os.pathsep}{os.environ['PATH']}"
    sam = [str(SAM)]
    settings = ["--config-env", environment]
    parameters = [f"{name}={value}" for name, value in {**overrides, "CodeDigest": code_digest()}.items()]
    subprocess.run([*sam, "build", *settings], cwd=ROOT, env={**os.environ, "PATH": path}, check=True)
    compile_build(ROOT / ".aws-sam" / "build", interpreter)
    subprocess.run([*sam, "deploy", *settings, "--parameter-overrides", *parameters], cwd=ROOT, check=True)


def parameter_overrides(environment: str) -> dict[str, str]:
    """What samconfig.toml says. On SAM's command line overrides replace it, so all of it is handed over."""
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    listed: list[str] = config[environment]["global"]["parameters"]["parameter_overrides"]
    return dict(override.split("=", 1) for override in listed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Deploys the template to AWS")
    parser.add_argument("--config-env", default="dev", help="a section of samconfig.toml")
    deploy(parser.parse_args().config_env)


if __name__ == "__main__":
    main()
