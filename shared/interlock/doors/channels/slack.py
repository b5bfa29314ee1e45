"""What Slack sends when somebody presses a button or submits a modal ("Handling user interaction")."""

from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from interlock.a2a import strict_json
from interlock.a2a.errors import A2AError, InvalidRequest, Unauthenticated
from interlock.adapters.channels.entries import SlackEntry
from interlock.adapters.channels.slack import ASK_REASON, REASON, SlackApi, is_signed
from interlock.doors.channels.door import AGAIN, ELSEWHERE, Door, Told, members, route, text_of
from interlock.engine.notices import RenderFailed
from interlock.engine.press import DENY, MAX_COMMENT


def routes(door: Door) -> list[Route]:
    return [route("/channels/slack/{name}", partial(_handle, door))]


def _handle(door: Door, request: Request, body: bytes) -> Response:
    entry, headers = door.channel(request, SlackEntry), request.headers
    signature, timestamp = headers.get("x-slack-signature", ""), headers.get("x-slack-request-timestamp", "")
    now = door.engine.clock.now().timestamp()
    if entry is None or not is_signed(entry.signing_secrets, timestamp, signature, body, now):
        raise Unauthenticated
    payload = _payload(body)
    via = f"slack:{request.path_params['name']}"
    if payload.get("type") == "block_actions":
        return _pressed(door, entry, via, payload)
    if payload.get("type") == "view_submission":
        return _submitted(door, entry, via, payload)
    return Response()


def _payload(body: bytes) -> dict[str, Any]:
    try:
        (text,) = parse_qs(body.decode(), strict_parsing=True, max_num_fields=10)["payload"]
        value = strict_json.loads(text.encode())
    except (ValueError, KeyError, A2AError) as error:
        raise InvalidRequest("The body is no interaction") from error
    if not isinstance(value, dict):
        raise InvalidRequest("The body is no interaction")
    return value


def _account(entry: SlackEntry, payload: dict[str, Any]) -> str | None:
    """Who pressed, if they did in this app and this workspace, as one of its own people."""
    user, team = members(payload.get("user")), members(payload.get("team"))
    ours = payload.get("api_app_id") == entry.app and team.get("id") == entry.team
    return text_of(user.get("id")) if ours and user.get("team_id", entry.team) == entry.team else None


def _pressed(door: Door, entry: SlackEntry, via: str, payload: dict[str, Any]) -> Response:
    account = _account(entry, payload)
    channel = text_of(members(payload.get("channel")).get("id"))
    actions = payload.get("actions")
    action = members(actions[0] if isinstance(actions, list) and actions else None)
    value = text_of(action.get("value") or members(action.get("selected_option")).get("value"))
    api = SlackApi(door.outbound, entry)
    if not value:
        return Response()  # a button that only leads somewhere
    if account is None or channel not in entry.channels:
        return _told(api, channel, text_of(members(payload.get("user")).get("id")), Told(ELSEWHERE))
    who = door.person(entry, account)
    if who is not None and value.partition(".")[0] == DENY:
        try:
            api.ask_reason(text_of(payload.get("trigger_id")), value)
        except RenderFailed:
            return _told(api, channel, account, Told(AGAIN))
        return Response()
    return _told(api, channel, account, door.settle(via, who, value))


def _submitted(door: Door, entry: SlackEntry, via: str, payload: dict[str, Any]) -> Response:
    view, account = members(payload.get("view")), _account(entry, payload)
    if view.get("callback_id") != ASK_REASON:
        return Response()
    if account is None:
        return _kept_open(ELSEWHERE)
    values = members(members(view.get("state")).get("values"))
    reason = text_of(members(members(values.get(REASON)).get(REASON)).get("value"))[:MAX_COMMENT]
    who = door.person(entry, account)
    told = door.settle(via, who, text_of(view.get("private_metadata")), reason or None)
    return Response() if told.done else _kept_open(told.text)


def _told(api: SlackApi, channel: str, account: str, told: Told) -> Response:
    """What is decided shows on the message itself; this is for whoever pressed."""
    try:
        api.whisper(channel, account, told.text)
    except RenderFailed:
        return Response()  # what it says of the decision is in the message and in the inbox
    return Response()


def _kept_open(text: str) -> Response:
    return JSONResponse({"response_action": "errors", "errors": {REASON: text}})
