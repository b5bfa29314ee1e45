"""People at the inbox, each in a browser of their own, and agents that ask them something.

Playwright keeps a loop running in the thread that it works in, so no test that uses it runs another.
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, ViewportSize, expect
from tests.support.asking import ASK
from tests.support.story import PATIENCE_SECONDS, ROOT, Place, eventually

from interlock.oversight.hitl_prompt import URI

PICTURES = ROOT / "build/screenshots"
DESK: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}
NAMES = ("chromium", "chromium-browser", "google-chrome")
SHOWN = "addEventListener('securitypolicyviolation', (e) => console.error('refused:', e.violatedDirective))"

MILLISECONDS = 20_000
"""For what takes a fraction of a second, on a machine that does much else."""

expect.set_options(timeout=MILLISECONDS)


def chromium() -> str:
    """Where it is: as the environment says, or on the path. Raises `AssertionError` where it is not."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "There is no Chromium here. Install it, or say where it is: CHROMIUM=/path/to/it"
    return found


@dataclass
class Seat:
    """A person who looks at the page.

    `faults` are what a browser complains of: errors on the console, what the security policy refuses,
    exceptions, and calls of anybody but this deployment and those in `allowed`. An answer of a status in
    `expected` is none.
    """

    page: Page
    home: str
    allowed: tuple[str, ...] = ()
    expected: set[int] = field(default_factory=set)
    offline: bool = False
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.add_init_script(SHOWN)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        self.page.on("request", self._called)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        status = re.search(r"responded with a status of (\d+)", message.text)
        if status and int(status[1]) in self.expected:
            return
        if self.offline and "net::ERR_INTERNET_DISCONNECTED" in message.text:
            return
        self.faults.append(f"{message.type}: {message.text} {message.location}")

    def _called(self, request: Request) -> None:
        parts = urlsplit(request.url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if not self.home.startswith(f"{origin}/") and origin not in self.allowed:
            self.faults.append(f"calls {request.url}")

    def go(self, route: str = "") -> None:
        """To a view, by its route: `waiting`, `history`."""
        self.page.goto(f"{self.home}#/{route}" if route else self.home)

    def sign_in(self, token: str) -> None:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("navigation").first).to_be_visible()

    @property
    def listed(self) -> Locator:
        """What waits, in the order of the list."""
        return self.page.get_by_role("region", name="Waiting for a person").get_by_role("listitem")

    def open(self, title: str) -> Locator:
        """Chooses it from the list. Returns its card."""
        self.listed.get_by_role("link", name=title).click()
        return self.card(title)

    def card(self, title: str) -> Locator:
        card = self.page.get_by_role("article", name=title)
        expect(card).to_be_visible()
        return card

    def does(self, name: str) -> None:
        """Presses a button, once it is not dead any more."""
        self.page.get_by_role("button", name=name, exact=True).click()

    def told(self, text: str | re.Pattern[str]) -> None:
        """Waits until the page says so, at once and aloud."""
        expect(self.page.get_by_role("alert").filter(has_text=text)).to_be_visible()

    def picture(self, name: str) -> Path:
        path = PICTURES / f"{name}.png"
        self.page.screenshot(path=path)
        return path

    def set_offline(self, offline: bool) -> None:
        self.offline = self.offline or offline
        self.page.context.set_offline(offline)


def seated(browser: Browser, place: Place, *, allowed: tuple[str, ...] = (), **options: Any) -> Seat:
    """In a context of its own; `options` are the context's."""
    context = browser.new_context(
        **{"viewport": DESK, "locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce", **options}
    )
    context.set_default_timeout(MILLISECONDS)
    return Seat(context.new_page(), f"{place.url}/inbox/", allowed)


def deployer(place: Place) -> dict[str, str]:
    """The environment of who works on a laptop's deployment as its deployer."""
    lines = (place.folder / ".interlock/deployer.sh").read_text().splitlines()
    exported = [shlex.split(line)[1].split("=", 1) for line in lines if line.startswith("export ")]
    return dict(exported)


@dataclass(frozen=True)
class Asker:
    """An agent's client that sends work, over HTTP+JSON."""

    http: httpx.Client

    @classmethod
    def at(cls, place: Place, label: str = "agent") -> "Asker":
        headers = {
            "Authorization": f"Bearer {place.tokens[label]}",
            "A2A-Version": "1.0",
            "A2A-Extensions": URI,
        }
        return cls(httpx.Client(base_url=place.url, headers=headers, timeout=PATIENCE_SECONDS))

    def send(self, text: str, *, immediately: bool = False) -> str:
        """Returns the id of the task: at once, or when it waits for a person or is over."""
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
        body = {"message": message, "configuration": {"returnImmediately": immediately}}
        answer = self.http.post("/message:send", json=body)
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["task"]["id"]
        return found

    def ask(self, prompt: str, schema: Mapping[str, Any] | None = None, seconds: float | None = None) -> str:
        said = {"prompt": prompt, "schema": schema, "seconds": seconds}
        return self.send(ASK + json.dumps({name: value for name, value in said.items() if value is not None}))

    def cancel(self, task_id: str) -> None:
        assert self.http.post(f"/tasks/{task_id}:cancel").status_code == 200

    def task(self, task_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def ended(self, task_id: str, state: str = "COMPLETED") -> dict[str, Any]:
        """The task, once it has come to that."""

        def there() -> dict[str, Any] | None:
            task = self.task(task_id)
            return task if task["status"]["state"] == f"TASK_STATE_{state}" else None

        found = eventually(there)
        assert found is not None
        return found
