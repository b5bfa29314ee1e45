"""The emulator as a child of whoever needs it: a laptop, a test, a local deployment."""

import itertools
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
REGION = "us-east-1"


@contextmanager
def running_emulator(*arguments: str, lines: int = 1) -> Iterator[list[str]]:
    """Starts it on a free port; gives the URLs that it prints, ends it afterwards.

    Raises `RuntimeError` when it does not start.
    """
    command = [str(HERE / ".venv/bin/python"), str(HERE / "emulator.py"), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            urls = [line.strip() for line in itertools.islice(child.stdout or (), lines)]
            if len(urls) < lines:
                raise RuntimeError("the emulator did not start")
            yield urls
        finally:
            child.terminate()


def aws_environment(endpoint: str) -> dict[str, str]:
    """What makes every AWS client of a process talk to the emulator, and none to an account."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
