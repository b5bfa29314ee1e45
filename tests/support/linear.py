"""A stand-in for Linear: a part of its GraphQL API, and web hooks that are signed as its are."""

import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

import httpx
from tests.support.channels import Reached
from tests.support.receivers import Receiver, receiving, reply

SECRET, NEXT_SECRET = "lin_wh_of_a_stand_in_0001", "lin_wh_of_a_stand_in_0002"
TOKEN = "lin_api_of_a_stand_in"
ORGANIZATION, ISSUE = "4f0b3a52-1d5c-4c5e-9b57-6d1e3f1a0001", "4f0b3a52-1d5c-4c5e-9b57-6d1e3f1a0002"
ACCOUNTS = {
    label: f"4f0b3a52-1d5c-4c5e-9b57-6d1e3f1a10{number:02d}"
    for number, label in enumerate(("alice", "bob", "carol", "mallory"))
}


@dataclass
class Linear:
    comments: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is there now, by id."""
    refused: int = 0
    limited: int = 0
    server: Receiver | None = None

    @property
    def entry(self) -> dict[str, Any]:
        assert self.server is not None
        return {
            "kind": "linear",
            "organization": ORGANIZATION,
            "issues": [ISSUE],
            "token": TOKEN,
            "signing_secrets": [SECRET],
            "people": {account: f"bearer:{label}" for label, account in ACCOUNTS.items()},
            "api": f"{self.server.url}/graphql",
        }

    @property
    def card(self) -> str:
        (found,) = [one["body"] for one in self.comments.values() if "parentId" not in one]
        return str(found)

    @property
    def replies(self) -> list[str]:
        return [one["body"] for one in self.comments.values() if "parentId" in one]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        assert self.server is not None
        _, _, headers, body = self.server.requests[-1]
        found, status = self._call(headers, json.loads(body)), 200
        if "errors" in found:
            self.refused += 1
            status = 400
        reply(json.dumps(found).encode(), status)(handler)

    def _call(self, headers: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        variables, query = body["variables"], body["query"]
        given = variables["input"]
        if self.limited:
            self.limited -= 1
            return {"errors": [{"message": "Rate limit exceeded", "extensions": {"code": "RATELIMITED"}}]}
        if headers.get("Authorization") != TOKEN or not given["body"].strip():
            return {"errors": [{"message": "Authentication required"}]}
        if "commentUpdate(id: $id, input: $input)" in query and "$input: CommentUpdateInput!" in query:
            if variables["id"] not in self.comments:
                return {"errors": [{"message": "Entity not found: Comment"}]}
            self.comments[variables["id"]]["body"] = given["body"]
            return {"data": {"commentUpdate": {"success": True}}}
        if "commentCreate(input: $input)" not in query or "$input: CommentCreateInput!" not in query:
            return {"errors": [{"message": "Cannot query field"}]}
        parent = self.comments.get(given["parentId"]) if "parentId" in given else None
        if given["issueId"] != ISSUE or (parent is not None and "parentId" in parent):
            return {"errors": [{"message": "Argument Validation Error"}]}
        comment = str(uuid4())
        self.comments[comment] = dict(given)
        return {"data": {"commentCreate": {"success": True, "comment": {"id": comment}}}}

    def comment(self, text: str, who: str = "alice", **changed: Any) -> dict[str, Any]:
        """The event of a comment that somebody writes below ours."""
        (parent,) = [name for name, one in self.comments.items() if "parentId" not in one]
        data = {
            "id": str(uuid4()),
            "body": text,
            "issueId": ISSUE,
            "parentId": parent,
            "userId": ACCOUNTS.get(who, who),
        }
        event = {
            "action": "create",
            "type": "Comment",
            "organizationId": ORGANIZATION,
            "webhookId": "4f0b3a52-1d5c-4c5e-9b57-6d1e3f1a0009",
            "data": {**data, **changed.pop("data", {})},
        }
        return {**event, **changed}

    def send(
        self, place: Reached, event: dict[str, Any], *, secret: str = SECRET, old: float = 0.0
    ) -> httpx.Response:
        at = int((place.now().timestamp() - old) * 1000)
        body = json.dumps({"webhookTimestamp": at, **event}).encode()
        signature = hmac.new(secret.encode(), body, sha256).hexdigest()
        return place.post("/channels/linear/linear", body, {"Linear-Signature": signature})

    def line(self, word: str) -> str:
        """That the comment has ready."""
        (found,) = [line for line in self.card.splitlines() if line.startswith(f"/{word} ")]
        return found


@contextmanager
def linear_stand_in() -> Iterator[Linear]:
    linear = Linear()
    with receiving(linear.answer) as linear.server:
        yield linear
