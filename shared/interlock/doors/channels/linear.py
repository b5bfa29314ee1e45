"""What Linear sends when somebody comments: a line that decides, or anything else, which is let be."""

import re
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.a2a import strict_json
from interlock.a2a.errors import InvalidRequest, Unauthenticated
from interlock.adapters.channels.entries import LinearEntry
from interlock.adapters.channels.linear import FRESH_SECONDS, LinearApi, is_signed
from interlock.doors.channels.door import ELSEWHERE, Door, Told, members, route, text_of
from interlock.engine.notices import RenderFailed
from interlock.engine.press import APPROVE, DENY, MAX_COMMENT

_LINE = re.compile(r"\s*`*/(approve|deny) ([A-Za-z0-9_-]{1,128})`*(?:\s+(.*))?", re.DOTALL)


def routes(door: Door) -> list[Route]:
    return [route("/channels/linear/{name}", partial(_handle, door))]


def _handle(door: Door, request: Request, body: bytes) -> Response:
    entry = door.channel(request, LinearEntry)
    signature = request.headers.get("linear-signature", "")
    if entry is None or not is_signed(entry.signing_secrets, signature, body):
        raise Unauthenticated
    event = strict_json.loads(body)
    if not isinstance(event, dict):
        raise InvalidRequest("The body is no event")
    at = event.get("webhookTimestamp")
    now = door.engine.clock.now().timestamp()
    if type(at) is not int or abs(now - at / 1000) > FRESH_SECONDS:
        raise Unauthenticated
    comment = members(event.get("data"))
    line = _LINE.fullmatch(text_of(comment.get("body")))
    if event.get("type") != "Comment" or event.get("action") != "create" or line is None:
        return Response()
    _decided(door, entry, f"linear:{request.path_params['name']}", event, line)
    return Response()


def _decided(door: Door, entry: LinearEntry, via: str, event: dict[str, Any], line: re.Match[str]) -> None:
    comment = members(event.get("data"))
    issue = text_of(comment.get("issueId") or members(comment.get("issue")).get("id"))
    account = text_of(comment.get("userId") or members(comment.get("user")).get("id"))
    if event.get("organizationId") != entry.organization or issue not in entry.issues:
        told = Told(ELSEWHERE)
    else:
        word, code, reason = line.groups()
        choice = APPROVE if word == "approve" else DENY
        who = door.person(entry, account)
        told = door.settle(via, who, f"{choice}.{code}", (reason or "").strip()[:MAX_COMMENT] or None)
    if issue not in entry.issues:
        return  # nothing is written where nothing was asked
    try:
        thread = text_of(comment.get("parentId") or comment.get("id"))
        LinearApi(door.outbound, entry).reply(issue, thread, told.text)
    except RenderFailed:
        return  # what was decided shows on the comment that asked
