"""A people's door whose operators halt: what it answers is set, and what it was asked is kept."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.unit.cli.serving import LoseReply, Request, Response

AT = "2026-11-30T12:00:00.000Z"
ENDED = {"asked": 0, "confirmed": 0, "abandoned": 0, "withdrawn": 0}


def halted(scope: str = "tenant:acme", **changes: Any) -> dict[str, Any]:
    return {
        "scope": scope,
        "generation": 1,
        "on": True,
        "reason": "an incident",
        "by": "bearer:oncall",
        "haltedAt": AT,
        **changes,
    }


def reported(scope: str = "tenant:acme", *, stopped: Any = (), **changes: Any) -> dict[str, Any]:
    """Of a halt that found nothing running, unless the counts say otherwise."""
    counts = {**ENDED, **changes.pop("counts", {})}
    listed = [{"tenant": "acme", "taskId": task_id} for task_id in stopped]
    return {**halted(scope, walkedAt=AT), "counts": counts, "stopped": listed, **changes}


def refused(status: int, message: str = "no", reason: str = "X", name: str = "X") -> Response:
    details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "d"}]
    error = {"code": status, "status": name, "message": message, "details": details}
    return Response({"error": error}, status)


def halted_by(reason: str) -> Response:
    return refused(503, f"halted: {reason}", "HALTED", "UNAVAILABLE")


NOT_FOUND = refused(404, "There is no such halt", "HALT_NOT_FOUND", "NOT_FOUND")

Reply = Response | type[LoseReply]


@dataclass
class OperatorsDoor:
    """Each list of replies is used up from the front; its last reply is given again and again."""

    replies: dict[tuple[str, str], list[Reply]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def answers(self, method: str, path: str, *replies: Reply | dict[str, Any]) -> None:
        given = [Response(reply) if isinstance(reply, dict) else reply for reply in replies]
        self.replies[method, f"/people/{path}"] = given

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        replies = self.replies[request.method, urlsplit(request.path).path]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if not isinstance(reply, Response):
            raise reply
        return reply

    def asked(self, method: str, path: str) -> list[dict[str, Any]]:
        """The bodies or queries of the requests, in their order."""
        found = [
            request
            for request in self.requests
            if (request.method, urlsplit(request.path).path) == (method, f"/people/{path}")
        ]
        return [
            dict(parse_qsl(urlsplit(request.path).query)) if method == "GET" else request.document
            for request in found
        ]
