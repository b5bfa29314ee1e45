"""The page of a mail's link. To look at it changes nothing, whoever does; to send its form decides, once."""

import base64
from functools import partial
from hashlib import sha256
from html import escape
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from interlock.a2a.body import read_body
from interlock.a2a.errors import A2AError, InvalidRequest
from interlock.adapters.channels.entries import MailEntry
from interlock.doors.channels.door import AGAIN, Door
from interlock.engine.channels import Button, Card, checkpoint_card
from interlock.engine.errors import store_errors
from interlock.engine.links import Link, find_link
from interlock.engine.press import DENY, MAX_COMMENT
from interlock.oversight.principals import Principal

MAX_BYTES = 16 * 1024
MAX_TOKEN = 128
NO_LINK = "This link does not hold (any more). Open the inbox to see what waits for you."
USED = "This link was used already."

_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border-left:4px solid #888;padding-left:1rem}"
    "textarea{width:100%}button{font:inherit;padding:.5rem 1.5rem;margin:1rem 1rem 0 0}"
)
_STYLE_HASH = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}


def routes(door: Door) -> list[Route]:
    return [
        Route("/channels/mail/{name}", partial(_shown, door), methods=["GET"]),
        Route("/channels/mail/{name}", partial(_sent, door), methods=["POST"]),
    ]


async def _shown(door: Door, request: Request) -> Response:
    try:
        return await run_in_threadpool(_page, door, request, request.query_params.get("t", ""))
    except A2AError as error:
        return _said(error.message, error.http_status)


async def _sent(door: Door, request: Request) -> Response:
    try:
        form = _form(await read_body(request, MAX_BYTES))
        return await run_in_threadpool(_decided, door, request, form)
    except A2AError as error:
        return _said(error.message, error.http_status)


def _page(door: Door, request: Request, token: str) -> Response:
    with store_errors():
        link, who, entry = _found(door, request, token)
        if link is None or who is None or entry is None:
            return _said(NO_LINK, 404)
        card = checkpoint_card(door.engine.table, link.tenant, link.shown, whole=entry.show == "action")
    if card is None:
        return _said(NO_LINK, 404)
    if link.spent is not None and card.outcome is None:
        return _said(USED, 410)
    return _html(card.title, _body(card, request.path_params["name"], token))


def _decided(door: Door, request: Request, form: dict[str, str]) -> Response:
    with store_errors():
        link, who, _ = _found(door, request, form.get("t", ""))
    if link is None or who is None:
        return _said(NO_LINK, 404)
    choice, comment = form.get("choice", ""), form.get("comment", "").strip()[:MAX_COMMENT]
    if link.spent is not None and link.spent != choice:
        return _said(USED, 410)
    value = f"{choice}.{link.shown.encoded()}"
    via = f"mail:{request.path_params['name']}"
    told = door.settle(via, who, value, comment or None, (link.spend(choice),))
    return _said(told.text, 200 if told.done else 503 if told.text == AGAIN else 409)


def _found(
    door: Door, request: Request, token: str
) -> tuple[Link | None, Principal | None, MailEntry | None]:
    """A link is its person's as long as the document has them, and their identity holds, in its tenant."""
    entry, name = door.channel(request, MailEntry), request.path_params["name"]
    if entry is None or not 0 < len(token) <= MAX_TOKEN:
        return None, None, None
    link = find_link(door.engine.table, token, name, door.engine.clock.now())
    if link is None:
        return None, None, None
    mailbox = next((box for box, whose in entry.people.items() if whose == link.who), "")
    who = door.person(entry, mailbox)
    return link, who if who is not None and who.tenant == link.tenant else None, entry


def _form(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=5, errors="strict")
    except ValueError as error:
        raise InvalidRequest("The body is no form") from error
    if any(len(values) > 1 for values in fields.values()):
        raise InvalidRequest("The body is no form")
    return {name: values[0] for name, values in fields.items()}


def _body(card: Card, name: str, token: str) -> str:
    facts = [("Agent", card.agent), ("Skill", card.skill), ("For", card.requested_by)]
    if card.required > 1:
        facts.append(("Approvals needed", str(card.required)))
    if card.deadline is not None:
        facts.append(("Until", f"{card.deadline:%Y-%m-%d %H:%M} UTC"))
    lines = [f"<p>{escape(label)}: <strong>{escape(value)}</strong></p>" for label, value in facts]
    lines += [f"<pre>{escape(text)}</pre>" for text in card.texts]
    if card.withheld is not None:
        lines.append(f"<p>{escape(card.withheld)}</p>")
    if card.outcome is not None:
        return "".join([*lines, f"<p><strong>{escape(card.outcome)}</strong></p>"])
    if not card.buttons:
        return "".join(lines)
    buttons = "".join(
        f'<button name="choice" value="{escape(_choice(button))}">{escape(button.label)}</button>'
        for button in card.buttons
    )
    denies = any(_choice(button) == DENY for button in card.buttons)
    reason = (
        f'<p><label>Why? The agent is told.<br><textarea name="comment" rows="3" maxlength="{MAX_COMMENT}">'
        "</textarea></label></p>"
        if denies
        else ""
    )
    hidden = f'<input type="hidden" name="t" value="{escape(token)}">'
    form = f'<form method="post" action="{escape(name)}">{hidden}{reason}{buttons}</form>'
    return "".join([*lines, form])


def _choice(button: Button) -> str:
    return button.value.partition(".")[0]


def _said(text: str, status: int) -> Response:
    return _html("Interlock", f"<p>{escape(text)}</p>", status)


def _html(title: str, body: str, status: int = 200) -> Response:
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
    return HTMLResponse(page, status, HEADERS)
