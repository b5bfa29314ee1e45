"""What is printed where: bars on a terminal only, styles where they are wanted; and how Ctrl-C ends it."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.cli.operators import AT
from tests.unit.cli.serving import Request, Response, serving
from tests.unit.cli.test_people import checkpoint

from interlock.cli.progress import EACH, progress

SCRIPT = Path(sys.executable).with_name("interlock")
STYLE = "\x1b["


@pytest.fixture
def url() -> Iterator[str]:
    page = {"checkpoints": [checkpoint("aaaa1111-x")], "now": AT}
    with serving(lambda _: Response(page)) as url:
        yield url


def on_a_terminal(url: str, **environment: str) -> str:
    """What the inbox prints there."""
    master, terminal = pty.openpty()
    variables = {**os.environ, "INTERLOCK_URL": url, "INTERLOCK_TOKEN": "t", "TERM": "xterm-256color"}
    with subprocess.Popen(
        [str(SCRIPT), "inbox"], stdout=terminal, env={**variables, **environment}
    ) as process:
        os.close(terminal)
        printed = b""
        try:
            while chunk := os.read(master, 4096):
                printed += chunk
        except OSError:
            pass  # how Linux says that nobody has the terminal open any more
        finally:
            os.close(master)
        assert process.wait() == 0
    return printed.decode()


def test_style_is_for_a_terminal_that_wants_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert f"{STYLE}1mREF" in on_a_terminal(url)
    assert STYLE not in on_a_terminal(url, TERM="dumb")
    assert f"{STYLE}3" not in on_a_terminal(url, NO_COLOR="1")


def test_elsewhere_the_output_is_the_same_whatever_the_terminal_would_be(url: str) -> None:
    variables = {**os.environ, "INTERLOCK_URL": url, "INTERLOCK_TOKEN": "t"}
    printed = {
        subprocess.run(
            [str(SCRIPT), "inbox"], env={**variables, **more}, capture_output=True, text=True, check=True
        ).stdout
        for more in ({}, {"COLUMNS": "40"}, {"TERM": "xterm-256color"}, {"NO_COLOR": "1"})
    }
    assert len(printed) == 1
    assert STYLE not in printed.pop()


def test_ctrl_c_ends_it_with_130_and_no_traceback() -> None:
    asked, over = threading.Event(), threading.Event()

    def answer(_: Request) -> Response:
        asked.set()
        over.wait(30)
        return Response({})

    with serving(answer) as url:
        variables = {**os.environ, "INTERLOCK_URL": url, "INTERLOCK_TOKEN": "t"}
        with subprocess.Popen(
            [str(SCRIPT), "inbox"], env=variables, stderr=subprocess.PIPE, text=True
        ) as process:
            assert asked.wait(30)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        over.set()
    assert process.returncode == 130
    assert "Traceback" not in said


def test_a_bar_is_for_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> str:
        with progress("counting", 2 * EACH) as bar:
            assert list(bar.counted(range(2 * EACH))) == list(range(2 * EACH))
            bar.step("more", 0)
            bar.say("a line\x1b[2J\nand no more")
        return capsys.readouterr().out

    assert run().startswith("a line\\")
    assert len(run().splitlines()) == 1
    assert STYLE not in run()
    monkeypatch.setattr(Console, "is_terminal", True)
    shown = run()
    assert "counting" in shown or "more" in shown
    assert "a line" in shown
    with progress("nothing", None, shown=False) as bar:
        bar.step("x")
    assert "nothing" not in capsys.readouterr().out


def test_json_is_one_document_where_a_bar_would_be(url: str) -> None:
    variables = {**os.environ, "INTERLOCK_URL": url, "INTERLOCK_TOKEN": "t"}
    done = subprocess.run(
        [str(SCRIPT), "drill", "--json"], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "message" in json.loads(done.stdout)["error"]
