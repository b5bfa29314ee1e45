"""What all channels share: who presses, the decision, what is noted of it, and what the person is told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from interlock.a2a.body import read_body
from interlock.a2a.errors import A2AError, InternalError, PermissionDenied, TaskNotFound, Unavailable
from interlock.adapters.channels.entries import ChannelEntry
from interlock.adapters.outbound import Outbound
from interlock.engine.answer import Admitted
from interlock.engine.calls import Call, Calls
from interlock.engine.context import Engine
from interlock.engine.errors import AnswerInvalid, AnswerRefused, store_errors
from interlock.engine.ports import Write
from interlock.engine.press import APPROVE, DENY, Pressed, Shown, press
from interlock.oversight.principals import Kind, Principal

MAX_BYTES = 256 * 1024
"""Of a request: what a platform sends of a message that was pressed has the message in it."""

OUTSIDER = "You are not known here as somebody who may decide. Nothing has changed."
ELSEWHERE = "This did not come from where it was asked. Nothing has changed."
NOT_THERE = "This is not yours to decide. Nothing has changed."
CLOSED = "This was decided already, or is closed. Nothing has changed."
TOO_LATE = "The time for this is over. Nothing has changed."
UNFIT = "This is not an answer that is taken here. Nothing has changed."
AGAIN = "It could not be recorded in time, or that is not known. Press again: it counts once."
MALFORMED = "This is nothing that was shown here. Nothing has changed."

Entry = TypeVar("Entry", bound=ChannelEntry)


@dataclass(frozen=True, slots=True)
class Told:
    """What the person is told of what they pressed."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Door:
    """`entry`: a channel of the deployment's document. `identity`: who an identity is, as long as it holds.
    Both raise `StoreError` or `Unavailable`. `calls` is None where there is no audit trail."""

    engine: Engine
    calls: Calls | None
    entry: Callable[[str], object]
    identity: Callable[[str], Principal | None]
    outbound: Outbound

    def channel(self, request: Request, kind: type[Entry]) -> Entry | None:
        """The entry that the path names, if it is one of the kind."""
        found = self.entry(request.path_params["name"])
        return found if isinstance(found, kind) else None

    def person(self, entry: ChannelEntry, account: str) -> Principal | None:
        """Who an account of the platform is here, looked up now: who was revoked is nobody, nor is who
        belongs to a tenant that the channel is not for (any more)."""
        identity = entry.people.get(account)
        with store_errors():
            found = self.identity(identity) if identity is not None else None
        if found is None or found.kind is not Kind.PERSON or not entry.serves(found.tenant):
            return None
        return found

    def settle(
        self,
        via: str,
        who: Principal | None,
        value: str,
        comment: str | None = None,
        also: tuple[Write, ...] = (),
    ) -> Told:
        """Decides what a button's value says, as `who`, or says why not. `via` is `<kind>:<name>`."""
        choice, _, what = value.partition(".")
        try:
            shown = Shown.decoded(what)
        except ValueError:
            return Told(MALFORMED)
        said = {APPROVE: "approve", DENY: "deny"}.get(choice, "answer")
        call = Call(f"channels.{via.partition(':')[0]}", who, shown.task_id)
        call.decision = {"prompt": shown.ask_id, "decision": said}
        try:
            if self.calls is not None:
                self.calls.admit(call)
            admitted = self._press(who, shown, choice, via, comment, also)
        except A2AError as error:
            self._note(call, error)
            return Told(_why(error))
        except Exception:
            self._note(call, InternalError())
            raise
        self._note(call)
        return Told(_done(admitted, said), done=True)

    def _press(
        self,
        who: Principal | None,
        shown: Shown,
        choice: str,
        via: str,
        comment: str | None,
        also: tuple[Write, ...],
    ) -> Admitted:
        if who is None:
            raise PermissionDenied(OUTSIDER)
        with store_errors():
            return press(self.engine, Pressed(who, shown, choice, via, comment, also))

    def _note(self, call: Call, error: A2AError | None = None) -> None:
        if self.calls is None:
            return
        try:
            self.calls.note(call, error)
        except Unavailable:
            # The decision stands, and its own fact is sealed later; what the person is told is of that.
            return


async def body_of(request: Request) -> bytes:
    return await read_body(request, MAX_BYTES)


def _done(admitted: Admitted, said: str) -> str:
    if admitted is Admitted.COUNTED:
        return "Counted. It takes more before it goes on."
    return {"approve": "Approved.", "deny": "Denied."}.get(said, "Answered.")


def _why(error: A2AError) -> str:
    match error:
        case TaskNotFound():
            return NOT_THERE
        case AnswerRefused():
            return TOO_LATE if (error.extension_data or {}).get("reason") == "expired" else CLOSED
        case AnswerInvalid():
            return UNFIT
        case Unavailable():
            return AGAIN
        case _:
            return f"{error.message}"


def refused(error: A2AError) -> Response:
    """For the platform, which shows it to nobody."""
    return PlainTextResponse(error.message, error.http_status)


async def failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Whoever serves the app gets the exception itself, and logs it."""
    return PlainTextResponse("Internal error", 500)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def route(path: str, handle: Callable[[Request, bytes], Response]) -> Route:
    """One that takes what a platform sends: `handle` checks who signed it before it looks at it."""

    async def received(request: Request) -> Response:
        try:
            return await run_in_threadpool(handle, request, await body_of(request))
        except A2AError as error:
            return refused(error)

    return Route(path, received, methods=["POST"])
