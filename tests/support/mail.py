"""Mail as it was sent, and the links in it."""

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from botocore.exceptions import ClientError
from tests.support.calls import call
from tests.support.channels import BASE, ChannelsPlace

ADDRESSES = {f"{label}@example.org": f"bearer:{label}" for label in ("alice", "bob", "carol")}
ENTRY: dict[str, Any] = {"kind": "mail", "sender": "interlock@example.org", "people": ADDRESSES}
_LINK = re.compile(re.escape(BASE) + r"(/channels/mail/\S+)")


@dataclass
class Outbox:
    """Stands in for the client of Amazon SES: keeps what was sent, by whom it is for."""

    sent: list[tuple[str, str, str]] = field(default_factory=list)
    """Address, subject and text."""
    down_for: set[str] = field(default_factory=set)

    def send_email(self, **given: Any) -> dict[str, str]:
        """Names are those of the API."""
        assert given["FromEmailAddress"] == ENTRY["sender"]
        (address,) = given["Destination"]["ToAddresses"]
        if address in self.down_for:
            raise ClientError({"Error": {"Code": "TooManyRequestsException"}}, "SendEmail")
        simple = given["Content"]["Simple"]
        subject = simple["Subject"]["Data"]
        if "\n" in subject or "\r" in subject:
            raise ClientError({"Error": {"Code": "BadRequestException"}}, "SendEmail")
        self.sent.append((address, subject, simple["Body"]["Text"]["Data"]))
        return {"MessageId": f"m-{len(self.sent)}"}

    def to(self, label: str) -> list[str]:
        """The texts."""
        return [text for address, _, text in self.sent if address == f"{label}@example.org"]

    def link(self, label: str, number: int = -1) -> str:
        """The path of the link in a mail."""
        (found,) = _LINK.findall(self.to(label)[number])
        return str(found)


def get(place: ChannelsPlace, link: str, method: str = "GET") -> httpx.Response:
    return call(place.app, method, link)


def send(place: ChannelsPlace, link: str, choice: str, comment: str = "") -> httpx.Response:
    """The form of the page, with the button pressed."""
    path, _, query = link.partition("?t=")
    body = urlencode({"t": query, "choice": choice, "comment": comment}).encode()
    return place.post(path, body, {"Content-Type": "application/x-www-form-urlencoded"})
