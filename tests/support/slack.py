"""A stand-in for Slack: refuses what its documentation says is refused, and signs as its own example is."""

import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlencode

import httpx
from tests.support.channels import Reached
from tests.support.receivers import Receiver, receiving, reply

SECRET, NEXT_SECRET = "8f742231b10e8888abcd99yyyzzz85a5", "another-signing-secret-0002"
TOKEN = "xoxb-of-a-stand-in-0001"
APP, TEAM, CHANNEL = "A0INTERLOCK", "T0ACME", "C0APPROVALS"
ACCOUNTS = {
    "alice": "U0ALICE",
    "bob": "U0BOB",
    "carol": "U0CAROL",
    "mallory": "U0MALLORY",
    "robot": "U0ROBOT",
}
ELEMENTS = {"rich_text_section", "rich_text_preformatted", "rich_text_list", "rich_text_quote"}


class Refused(Exception):
    """By the name that Slack gives the error."""


@dataclass
class Slack:
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is there now, by `ts`."""
    whispers: list[tuple[str, str]] = field(default_factory=list)
    views: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    limited: int = 0
    """So many of the next calls are rate limited."""
    server: Receiver | None = None

    @property
    def entry(self) -> dict[str, Any]:
        assert self.server is not None
        return {
            "kind": "slack",
            "app": APP,
            "team": TEAM,
            "channels": [CHANNEL, "C0OTHER"],
            "token": TOKEN,
            "signing_secrets": [SECRET],
            "people": {account: f"bearer:{label}" for label, account in ACCOUNTS.items()},
            "api": f"{self.server.url}/api",
        }

    @property
    def card(self) -> dict[str, Any]:
        """The one message that there is."""
        (found,) = self.messages.values()
        return found

    # What it is called for.

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        assert self.server is not None
        _, path, headers, body = self.server.requests[-1]
        if self.limited:
            self.limited -= 1
            handler.send_response(429)
            handler.send_header("Retry-After", "30")
            handler.end_headers()
            return
        try:
            if headers.get("Authorization") != f"Bearer {TOKEN}":
                path = "invalid_auth"
            found = self._call(path.removeprefix("/api/"), json.loads(body))
        except Refused as error:
            self.refused.append(str(error))
            found = {"ok": False, "error": str(error)}
        reply(json.dumps(found).encode())(handler)

    def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "chat.postMessage":
                ts = f"1767268800.{len(self.messages):06d}"
                self.messages[ts] = {**_message(body), "ts": ts}
                return {"ok": True, "channel": body["channel"], "ts": ts}
            case "chat.update":
                if body["ts"] not in self.messages:
                    raise Refused("message_not_found")
                self.messages[body["ts"]] = {**_message(body), "ts": body["ts"]}
                return {"ok": True, "channel": body["channel"], "ts": body["ts"]}
            case "chat.postEphemeral":
                _channel(body)
                self.whispers.append((body["user"], body["text"]))
                return {"ok": True, "message_ts": "1767268800.000000"}
            case "views.open":
                if body.get("trigger_id") != "a.trigger":
                    raise Refused("invalid_trigger_id")
                self.views.append(_view(body["view"]))
                return {"ok": True}
        raise Refused("unknown_method")

    # What its people do.

    def press(
        self,
        place: Reached,
        label: str,
        who: str = "alice",
        *,
        message: dict[str, Any] | None = None,
        **more: Any,
    ) -> httpx.Response:
        """`label`: of a button, or of an option of a menu, that is there or was in `message`."""
        return self.send(place, self.pressed(label, who, message or self.card), **more)

    def pressed(self, label: str, who: str, message: dict[str, Any]) -> dict[str, Any]:
        (action,) = [found for found in _actions(message) if found["text"]["text"] == label]
        return {
            "type": "block_actions",
            "api_app_id": APP,
            "team": {"id": TEAM, "domain": "acme"},
            "user": {"id": ACCOUNTS.get(who, who), "team_id": TEAM},
            "channel": {"id": message["channel"], "name": "approvals"},
            "container": {"type": "message", "message_ts": message["ts"], "channel_id": message["channel"]},
            "trigger_id": "a.trigger",
            "message": message,
            "actions": [
                {"type": "button", "action_id": action.get("action_id", "choose"), "value": action["value"]}
            ],
        }

    def submit(self, place: Reached, reason: str | None, who: str = "alice", **more: Any) -> httpx.Response:
        """The modal that was opened last."""
        view = self.views[-1]
        payload = {
            "type": "view_submission",
            "api_app_id": APP,
            "team": {"id": TEAM, "domain": "acme"},
            "user": {"id": ACCOUNTS.get(who, who), "team_id": TEAM},
            "view": {**view, "state": {"values": {"reason": {"reason": {"value": reason}}}}},
        }
        return self.send(place, payload, **more)

    def send(
        self, place: Reached, payload: dict[str, Any], *, secret: str = SECRET, old: float = 0.0
    ) -> httpx.Response:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return place.post("/channels/slack/slack", body, signed(place, body, secret, old))


def signed(place: Reached, body: bytes, secret: str = SECRET, old: float = 0.0) -> dict[str, str]:
    at = str(int(place.now().timestamp() - old))
    made = hmac.new(secret.encode(), b"v0:" + at.encode() + b":" + body, sha256).hexdigest()
    return {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={made}",
    }


def _channel(body: dict[str, Any]) -> str:
    if body.get("channel") not in (CHANNEL, "C0OTHER"):
        raise Refused("channel_not_found")
    return str(body["channel"])


def _message(body: dict[str, Any]) -> dict[str, Any]:
    _channel(body)
    if not body.get("text") or len(body["text"]) > 40_000:
        raise Refused("msg_too_long")
    if not 0 < len(body["blocks"]) <= 50:
        raise Refused("invalid_blocks")
    for block in body["blocks"]:
        _block(block)
    return body


def _block(block: dict[str, Any]) -> None:
    match block["type"]:
        case "header":
            _plain(block["text"], 150)
        case "rich_text":
            for element in block["elements"]:
                _wanted(element["type"] in ELEMENTS and bool(element["elements"]))
                for run in element["elements"]:
                    _wanted(run["type"] in {"text", "link", "date"})
                    _wanted(run["type"] != "text" or bool(run["text"]))
        case "section":
            _wanted(0 < len(block["text"]["text"]) <= 3000)
        case "actions":
            _wanted(0 < len(block["elements"]) <= 25)
            names = [element["action_id"] for element in block["elements"]]
            _wanted(len(set(names)) == len(names) and max(map(len, names)) <= 255)
            for element in block["elements"]:
                _control(element)
        case _:
            raise Refused("invalid_blocks")


def _control(element: dict[str, Any]) -> None:
    if element["type"] == "button":
        _plain(element["text"], 75)
        _wanted(0 < len(element["value"]) <= 2000)
        _wanted(element.get("style") in (None, "primary", "danger"))
    else:
        _wanted(element["type"] == "static_select" and 0 < len(element["options"]) <= 100)
        _plain(element["placeholder"], 150)
        for option in element["options"]:
            _plain(option["text"], 75)
            _wanted(0 < len(option["value"]) <= 150)


def _view(view: dict[str, Any]) -> dict[str, Any]:
    _wanted(view["type"] == "modal" and len(view["callback_id"]) <= 255)
    _wanted(len(view["private_metadata"]) <= 3000)
    for name in ("title", "submit", "close"):
        _plain(view[name], 24)
    for block in view["blocks"]:
        _wanted(block["type"] == "input")
        _plain(block["label"], 2000)
        _wanted(0 < block["element"]["max_length"] <= 3000)
    return view


def _plain(text: dict[str, Any], longest: int) -> None:
    _wanted(text["type"] == "plain_text" and 0 < len(text["text"]) <= longest)


def _wanted(holds: bool) -> None:
    if not holds:
        raise Refused("invalid_blocks")


def _actions(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for block in message["blocks"]:
        if block["type"] == "actions":
            for element in block["elements"]:
                yield from element.get("options", [element])


def labels(message: dict[str, Any]) -> list[str]:
    return [action["text"]["text"] for action in _actions(message)]


def texts(message: dict[str, Any]) -> str:
    """All that is shown."""
    runs = [
        run.get("text", run.get("fallback", ""))
        for block in message["blocks"]
        if block["type"] == "rich_text"
        for element in block["elements"]
        for run in element["elements"]
    ]
    titles = [block["text"]["text"] for block in message["blocks"] if block["type"] == "header"]
    return "\n".join([*titles, "".join(runs)])


@contextmanager
def slack_stand_in() -> Iterator[Slack]:
    slack = Slack()
    with receiving(slack.answer) as slack.server:
        yield slack
