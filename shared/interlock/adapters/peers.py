"""A small client of other agents (A2A 1.0.1): the four operations that delegation needs."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import Field, JsonValue, ValidationError

from interlock.a2a.card import PROTOCOL_VERSION
from interlock.a2a.models import (
    MAX_ID_LENGTH,
    CancelTaskRequest,
    GetTaskRequest,
    JsonObject,
    ListTasksRequest,
    Message,
    PageToken,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    Task,
    Wire,
)
from interlock.adapters import peer_directory
from interlock.adapters.outbound import Outbound
from interlock.adapters.peer_bindings import MAX_ANSWER_BYTES
from interlock.adapters.peer_cards import Cards
from interlock.adapters.peer_directory import Directory
from interlock.adapters.peer_http import EXTENSIONS, VERSION, ask
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable
from interlock.engine.send_key import IDEMPOTENCY_METADATA

CALL_SECONDS = 20.0
"""For one operation, with all its tries and the card."""
TRY_SECONDS = 10.0
"""For one request: whoever hangs is asked again."""
MAX_TRIES = 4
FIRST_PAUSE_SECONDS = 0.25
"""Between tries. It doubles each time, and is up to half shorter, at random."""

PAGE_SIZE = 100
MAX_PAGES = 10

W = TypeVar("W", bound=Wire)
R = TypeVar("R")


def peers_of(
    setting: str | None,
    *,
    local: bool = False,
    extensions: Sequence[str] = (),
    call_seconds: float = CALL_SECONDS,
) -> "HttpPeers":
    """The client of a deployment whose peers are in the document that `setting` names.

    It is the id or ARN of a secret of AWS Secrets Manager, or `file:` and a path. None: there are none.
    `local` is for a laptop: addresses of any kind, and plain HTTP. `call_seconds`: of a call with its tries.
    """
    outbound = Outbound(local=local)
    if setting is None:
        read = peer_directory.nothing
    elif setting.startswith("file:"):
        read = peer_directory.in_file(Path(setting.removeprefix("file:")))
    else:
        read = peer_directory.in_secret(peer_directory.secrets_client, setting)
    directory = Directory(read, outbound)
    return HttpPeers(outbound, directory, extensions=extensions, call_seconds=call_seconds)


class HttpPeers:
    """Implements `Peers`. Neither credentials nor what a peer says get into errors."""

    def __init__(
        self,
        outbound: Outbound,
        directory: Directory,
        *,
        call_seconds: float = CALL_SECONDS,
        try_seconds: float = TRY_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
        extensions: Sequence[str] = (),
    ) -> None:
        """`extensions` are the URIs that every call asks for."""
        self._outbound = outbound
        self._directory = directory
        self._cards = Cards(outbound, now=now)
        self._call_seconds = call_seconds
        self._try_seconds = try_seconds
        self._sleep = sleep
        self._now = now
        self._headers = {VERSION: PROTOCOL_VERSION}
        if extensions:
            self._headers[EXTENSIONS] = ", ".join(extensions)

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        return self._directory.resolve(name_or_url, tenant)

    def card(self, to: PeerAddress) -> JsonObject:
        """Tried twice."""
        try:
            return self._cards.read(to, seconds=self._try_seconds)
        except PeerUnreachable:
            return self._cards.read(to, seconds=self._try_seconds)

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        request = SendMessageRequest(
            message=message,
            configuration=SendMessageConfiguration(return_immediately=True, history_length=0),
            metadata={**metadata, IDEMPOTENCY_METADATA: key},
        )
        return self._call(
            to, "SendMessage", request, _sent, seconds=seconds, headers={"Idempotency-Key": key}
        )

    def get(self, to: PeerAddress, task_id: str) -> Task:
        request = GetTaskRequest(id=task_id, history_length=0)
        return self._call(to, "GetTask", request, _task_of(task_id), seconds=self._call_seconds)

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        """Those of the first `MAX_PAGES` pages: nobody but the peer has reason to make them more."""
        found: list[Task] = []
        until, token = self._now() + self._call_seconds, None
        for _ in range(MAX_PAGES):
            request = ListTasksRequest(
                context_id=context_id, page_size=PAGE_SIZE, page_token=token, history_length=0
            )
            page = self._call(to, "ListTasks", request, _page, seconds=until - self._now())
            # A server that ignores the filter lists tasks that have nothing to do with this.
            found += [task for task in page.tasks if task.context_id == context_id]
            token = page.next_page_token
            if not token:
                break
        return found

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        request = CancelTaskRequest(id=task_id, metadata=metadata)
        # By the key of a send it is canceled whatever its task is called.
        read = _task if IDEMPOTENCY_METADATA in (metadata or {}) else _task_of(task_id)
        return self._call(to, "CancelTask", request, read, seconds=self._call_seconds)

    def _call(
        self,
        to: PeerAddress,
        operation: str,
        request: Wire,
        read: Callable[[JsonValue], R],
        *,
        seconds: float,
        headers: Mapping[str, str] = {},
    ) -> R:
        """What `read` makes of the result. Every operation may be repeated: a send has its key."""
        until, pause, tries = self._now() + seconds, FIRST_PAUSE_SECONDS, 1
        params, sent = request.wire(), {**self._headers, **headers}
        while True:
            try:
                endpoint = self._cards.endpoint(to, seconds=self._left(until))
                asked = endpoint.binding.request(endpoint.url, endpoint.tenant, operation, params)
                answer = ask(
                    self._outbound, to, asked, sent, seconds=self._left(until), max_bytes=MAX_ANSWER_BYTES
                )
                return read(endpoint.binding.result(answer))
            except PeerRefused as refused:
                if refused.reason is None:
                    self._cards.forget(to)
                if tries > 1 and operation == "SendMessage":
                    # Certain of this try only: an earlier one may have arrived.
                    raise PeerUnreachable("refused, after a try without an answer") from refused
                raise
            except PeerUnreachable:
                wait = pause * random.uniform(0.5, 1)  # noqa: S311 (jitter)
                if tries == MAX_TRIES or self._now() + wait >= until:
                    self._cards.forget(to)
                    raise
            self._sleep(wait)
            pause, tries = pause * 2, tries + 1

    def _left(self, until: float) -> float:
        return min(until - self._now(), self._try_seconds)


class Page(Wire):
    """Of `ListTasksResponse` what is needed."""

    tasks: list[Task] = Field(default_factory=list)
    next_page_token: PageToken | None = None


def _model(model: type[W], result: JsonValue) -> W:
    try:
        return model.model_validate(result)
    except ValidationError:
        raise PeerUnreachable(f"the answer is not a valid {model.__name__}") from None


def _usable(task: Task) -> Task:
    """Its id will be kept, and sent again."""
    if not 0 < len(task.id) <= MAX_ID_LENGTH:
        raise PeerUnreachable("the answer is a task without a usable id")
    return task


def _task(result: JsonValue) -> Task:
    return _usable(_model(Task, result))


def _task_of(task_id: str) -> Callable[[JsonValue], Task]:
    def read(result: JsonValue) -> Task:
        task = _model(Task, result)
        if task.id != task_id:
            raise PeerUnreachable("the answer is about another task")
        return task

    return read


def _sent(result: JsonValue) -> Task | Message:
    response = _model(SendMessageResponse, result)
    if response.task is not None and response.message is None:
        return _usable(response.task)
    if response.message is not None and response.task is None:
        return response.message
    raise PeerUnreachable("the answer is neither a task nor a message")


def _page(result: JsonValue) -> Page:
    page = _model(Page, result)
    for task in page.tasks:
        _usable(task)
    return page
