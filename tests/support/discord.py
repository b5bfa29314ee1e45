"""A stand-in for Discord: refuses what its documentation says is refused; it signs with a key of RFC 8032."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.support.channels import Reached
from tests.support.receivers import Receiver, receiving, reply

PRIVATE = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
NEXT_PRIVATE = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
NEXT_PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
"""RFC 8032, section 7.1, tests 1 and 2."""
TOKEN = "a-bot-token-of-a-stand-in"
APPLICATION, GUILD, CHANNEL = "1100000000000000001", "1100000000000000002", "1100000000000000003"
ACCOUNTS = {
    "alice": "1200000000000000001",
    "bob": "1200000000000000002",
    "carol": "1200000000000000003",
    "mallory": "1200000000000000004",
}
_AGENT = re.compile(r"DiscordBot \(\S+, \S+\)")


class Refused(Exception):
    pass


@dataclass
class Discord:
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is there now, by id."""
    refused: list[str] = field(default_factory=list)
    limited: int = 0
    lose: int = 0
    """So many of the next answers are lost, after what they answer was done."""
    server: Receiver | None = None

    @property
    def entry(self) -> dict[str, Any]:
        assert self.server is not None
        return {
            "kind": "discord",
            "application": APPLICATION,
            "guild": GUILD,
            "channels": [CHANNEL],
            "token": TOKEN,
            "public_keys": [PUBLIC],
            "people": {account: f"bearer:{label}" for label, account in ACCOUNTS.items()},
            "api": self.server.url,
        }

    @property
    def card(self) -> dict[str, Any]:
        (found,) = self.messages.values()
        return found

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        assert self.server is not None
        method, path, headers, body = self.server.requests[-1]
        if self.limited:
            self.limited -= 1
            reply(b'{"message": "You are being rate limited.", "retry_after": 3, "global": false}', 429)(
                handler
            )
            return
        try:
            _wanted(headers.get("Authorization") == f"Bot {TOKEN}", "401")
            _wanted(bool(_AGENT.fullmatch(headers.get("User-Agent", ""))), "user agent")
            found = self._call(method, path, json.loads(body))
        except KeyError:
            reply(b'{"code": 10008, "message": "Unknown Message"}', 404)(handler)
        except Refused as error:
            self.refused.append(str(error))
            reply(json.dumps({"code": 50035, "message": str(error)}).encode(), 400)(handler)
        else:
            if self.lose:
                self.lose -= 1
                handler.close_connection = True
                return
            reply(json.dumps(found).encode())(handler)

    def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        _check(body)
        match method, path.split("/")[1:]:
            case "POST", ["channels", channel, "messages"]:
                _wanted(channel == CHANNEL, "Unknown Channel")
                nonce = body.get("nonce")
                _wanted(nonce is None or len(nonce) <= 25, "nonce")
                for number, there in self.messages.items():
                    if nonce is not None and body.get("enforce_nonce") and there.get("nonce") == nonce:
                        return {**there, "id": number}
                number = f"13{len(self.messages):017d}"
                self.messages[number] = {**body, "id": number, "channel_id": channel}
                return self.messages[number]
            case "PATCH", ["channels", channel, "messages", number]:
                self.messages[number] = {**self.messages[number], **body}
                return self.messages[number]
        raise Refused("no such route")

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
        return self.send(place, self.pressed(label, who, message or self.card), **more)

    def pressed(self, label: str, who: str, message: dict[str, Any]) -> dict[str, Any]:
        (control,) = [found for found in controls(message) if found["label"] == label]
        data: dict[str, Any] = {"component_type": 2, "custom_id": control.get("custom_id", "choose")}
        if "value" in control:
            data |= {"component_type": 3, "values": [control["value"]]}
        return self._interaction(3, data, who)

    def submit(
        self, place: Reached, modal: dict[str, Any], reason: str, who: str = "alice", **more: Any
    ) -> httpx.Response:
        """A modal that an interaction was answered with."""
        field = {"type": 4, "custom_id": "reason", "value": reason}
        rows = [{"type": 1, "components": [field]}]
        return self.send(
            place, self._interaction(5, {"custom_id": modal["custom_id"], "components": rows}, who), **more
        )

    @staticmethod
    def _interaction(kind: int, data: dict[str, Any], who: str) -> dict[str, Any]:
        return {
            "id": "1400000000000000001",
            "application_id": APPLICATION,
            "type": kind,
            "token": "a-token-of-the-interaction",
            "version": 1,
            "guild_id": GUILD,
            "channel_id": CHANNEL,
            "member": {"user": {"id": ACCOUNTS.get(who, who), "username": who}},
            "data": data,
        }

    def send(
        self, place: Reached, interaction: dict[str, Any], *, private: str = PRIVATE, old: float = 0.0
    ) -> httpx.Response:
        body = json.dumps(interaction).encode()
        at = str(int(place.now().timestamp() - old))
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
        headers = {
            "X-Signature-Timestamp": at,
            "X-Signature-Ed25519": key.sign(at.encode() + body).hex(),
        }
        answer = place.post("/channels/discord/discord", body, headers)
        if answer.status_code == 200:
            _check_answer(answer.json())
        return answer


def _check(message: dict[str, Any]) -> None:
    _wanted(0 < len(message["content"]) <= 2000, "content")
    _wanted(message.get("allowed_mentions", {}).get("parse") == [], "mentions")
    rows = message["components"]
    _wanted(len(rows) <= 5, "rows")
    names: list[str] = []
    for row in rows:
        _wanted(row["type"] == 1 and 0 < len(row["components"]) <= 5, "row")
        for component in row["components"]:
            names.append(component["custom_id"])
            if component["type"] == 2:
                _wanted(component["style"] in {1, 2, 3, 4} and 0 < len(component["label"]) <= 80, "button")
            else:
                _wanted(component["type"] == 3 and len(row["components"]) == 1, "component")
                _wanted(0 < len(component["options"]) <= 25, "options")
                for option in component["options"]:
                    _wanted(0 < len(option["label"]) <= 100 and 0 < len(option["value"]) <= 100, "option")
    _wanted(len(set(names)) == len(names) and all(0 < len(name) <= 100 for name in names), "custom_id")


def _check_answer(answer: dict[str, Any]) -> None:
    """As Discord would: what it can not show, it shows as an interaction that failed."""
    match answer["type"]:
        case 1:
            return
        case 4:
            assert 0 < len(answer["data"]["content"]) <= 2000
        case 9:
            data = answer["data"]
            assert len(data["custom_id"]) <= 100
            assert len(data["title"]) <= 45
            ((field,),) = [row["components"] for row in data["components"]]
            assert len(field["label"]) <= 45
            assert field["max_length"] <= 4000
        case other:
            raise AssertionError(other)


def _wanted(holds: bool, what: str) -> None:
    if not holds:
        raise Refused(what)


def controls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Buttons, and the options of a menu."""
    found = [component for row in message["components"] for component in row["components"]]
    return [each for component in found for each in component.get("options", [component])]


def labels(message: dict[str, Any]) -> list[str]:
    return [control["label"] for control in controls(message)]


@contextmanager
def discord_stand_in() -> Iterator[Discord]:
    discord = Discord()
    with receiving(discord.answer) as discord.server:
        yield discord
