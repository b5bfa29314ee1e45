"""Streams of the agents' door over HTTP, by every way there is to ask for one."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

PATIENCE_SECONDS = 30.0
REQUEST_ID = 7
HEADERS = {"A2A-Version": "1.0"}

Event = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """`binding`, and for HTTP+JSON the method by which a subscription is asked for."""

    binding: str
    subscribes_by: str = "POST"

    def __str__(self) -> str:
        return f"{self.binding} {self.subscribes_by}"

    def send(self, params: Mapping[str, Any]) -> tuple[str, str, Any]:
        """Method, path and body."""
        if self.binding == "JSONRPC":
            return "POST", "/", _rpc("SendStreamingMessage", params)
        return "POST", "/message:stream", params

    def subscribe(self, task_id: str) -> tuple[str, str, Any]:
        if self.binding == "JSONRPC":
            return "POST", "/", _rpc("SubscribeToTask", {"id": task_id})
        return self.subscribes_by, f"/tasks/{task_id}:subscribe", None

    def opened(self, data: str) -> Event:
        """What an event says, without its envelope."""
        event: Event = json.loads(data)
        if self.binding == "JSONRPC":
            assert (event.pop("jsonrpc"), event.pop("id")) == ("2.0", REQUEST_ID)
            return dict(event["error"] if "error" in event else event["result"])
        return dict(event.get("error", event))


WAYS = (Way("JSONRPC"), Way("HTTP+JSON"), Way("HTTP+JSON", "GET"))


def _rpc(method: str, params: Mapping[str, Any]) -> Any:
    return {"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": params}


@dataclass
class Stream:
    """What came in answer to a request: events one after the other, or a refusal."""

    way: Way
    response: httpx.Response
    comments: int = 0
    failed: bool = False
    _lines: Iterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.response.iter_lines()

    @property
    def is_open(self) -> bool:
        return self.response.headers["content-type"].startswith("text/event-stream")

    def refusal(self) -> Event:
        """The error that came instead of a stream."""
        assert not self.is_open
        self.response.read()
        return self.way.opened(self.response.text)

    def next(self) -> Event | None:
        """The next event, or None at the end."""
        assert self.is_open, self.response.read()
        for line in self._lines:
            if line.startswith(":"):
                self.comments += 1
            elif line == "event: error":
                self.failed = True
            elif line:
                assert line.startswith("data: "), line
                return self.way.opened(line.removeprefix("data: "))
        return None

    def rest(self) -> list[Event]:
        return list(iter(self.next, None))


@dataclass(frozen=True)
class Caller:
    """`who` is the bearer token, which a test's deployment takes for the name."""

    url: str
    way: Way
    who: str | None = "agent"
    headers: Mapping[str, str] = field(default_factory=dict)

    @contextmanager
    def send(self, message: Mapping[str, Any], **more: Any) -> Iterator[Stream]:
        with self._open(*self.way.send({"message": message, **more})) as stream:
            yield stream

    @contextmanager
    def subscribe(self, task_id: str) -> Iterator[Stream]:
        with self._open(*self.way.subscribe(task_id)) as stream:
            yield stream

    @contextmanager
    def _open(self, method: str, path: str, body: Any) -> Iterator[Stream]:
        headers = {**HEADERS, **self.headers}
        if self.who is not None:
            headers["Authorization"] = f"Bearer {self.who}"
        content = {} if body is None else {"json": body}
        with (
            httpx.Client(timeout=PATIENCE_SECONDS, trust_env=False, verify=trusted()) as client,
            client.stream(method, self.url + path, headers=headers, **content) as response,
        ):
            yield Stream(self.way, response)


@cache
def trusted() -> ssl.SSLContext:
    """Made once: reading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


def said(event: Event) -> str:
    """An event in a word: the state, or the text of the artifact or message."""
    if "task" in event:
        return f"task {_state(event['task'])}"
    if "statusUpdate" in event:
        return _state(event["statusUpdate"])
    content = event["artifactUpdate"]["artifact"] if "artifactUpdate" in event else event["message"]
    return str(content["parts"][0]["text"])


def _state(holder: Mapping[str, Any]) -> str:
    return str(holder["status"]["state"]).removeprefix("TASK_STATE_")
