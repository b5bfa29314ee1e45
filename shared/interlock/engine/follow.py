"""Following a task: its events from the log, in their order, for as many readers as there are.

SendStreamingMessage and SubscribeToTask (specification 3.1.2, 3.1.6).
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from interlock.a2a.errors import Unavailable, UnsupportedOperation
from interlock.a2a.models import (
    Message,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)
from interlock.engine.context import Directory, Engine, attempts, new_id
from interlock.engine.ports import (
    ConditionFailed,
    Delete,
    Equals,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    StoreError,
    Update,
)
from interlock.engine.push import Push
from interlock.engine.records import (
    Event,
    StreamSlot,
    TaskMeta,
    event_key,
    instant,
    read_event,
    streams_pk,
    task_pk,
)
from interlock.engine.send import admit
from interlock.engine.view import present, quorum_progress, stream_response
from interlock.engine.visibility import check_tenant, visible_task
from interlock.oversight.principals import Principal

SLOT_LEASE_SECONDS = 60.0
"""A slot of a process that died is free again after this."""
LAST_EVENT = "EVT#~"
"""Sorts behind every event."""


class Slot:
    """One of the streams that a tenant may have open, held by a lease."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        """Raises `Unavailable`, with a time to try again, when all are taken."""
        self._engine = engine
        self._holder = new_id()
        self._key = self._take(tenant)

    def _take(self, tenant: str) -> Key:
        engine, pk = self._engine, streams_pk(tenant)
        for _ in attempts(engine.clock):
            now = instant(engine.clock.now())
            slots = {key: StreamSlot.read(item) for key, item in engine.table.query(pk).rows}
            mine = [key for key, slot in slots.items() if slot.holder == self._holder]
            if mine:
                # An earlier try, whose reply was lost.
                return mine[0]
            numbered = (Key(pk, f"{number:04d}") for number in range(engine.limits.streams))
            free = [key for key in numbered if key not in slots or slots[key].until <= now]
            if not free:
                raise Unavailable("Too many streams are open", retry_after=5)
            # Any of them, so that those who come at once do not all want the same.
            key = random.choice(free)  # noqa: S311
            held = slots.get(key)
            still = (Equals("holder", held.holder), Equals("until", held.until)) if held else (Missing("v"),)
            slot = StreamSlot(self._holder, self._lease_end())
            try:
                engine.table.write(Put(key, slot.item(), still))
            except (ConditionFailed, OutcomeUnknown):
                continue
            return key
        raise AssertionError("attempts end by raising")

    def _lease_end(self) -> str:
        return instant(self._engine.clock.now() + timedelta(seconds=SLOT_LEASE_SECONDS))

    def renew(self) -> None:
        """Raises `Unavailable` when the slot was lost to another stream."""
        mine = (Equals("holder", self._holder),)
        try:
            self._engine.table.write(Update(self._key, {"until": self._lease_end()}, conditions=mine))
        except OutcomeUnknown:
            return
        except ConditionFailed as failed:
            raise Unavailable("The stream was silent for too long", retry_after=1) from failed

    def release(self) -> None:
        try:
            self._engine.table.write(Delete(self._key, (Equals("holder", self._holder),)))
        except StoreError:
            return  # its lease ends


class TaskStream:
    """Implements the wire's `EventStream` for one task.

    `ends_when_asked`: a stream of a send ends at INPUT_REQUIRED too, a subscription only at a terminal state.
    """

    def __init__(
        self,
        engine: Engine,
        meta: TaskMeta,
        events: Sequence[Event],
        extensions: frozenset[str],
        slot: Slot,
        *,
        ends_when_asked: bool,
    ) -> None:
        self._engine = engine
        self._slot = slot
        self._meta = meta
        self._extensions = extensions
        self._ends_when_asked = ends_when_asked
        self._first: StreamResponse | None = StreamResponse.model_construct(
            task=present(meta, events, extensions, progress=quorum_progress(engine.table, meta))
        )
        self._seq = meta.seq
        self._state = meta.task_state

    @property
    def ended(self) -> bool:
        asked = self._ends_when_asked and self._state is TaskState.INPUT_REQUIRED
        return self._first is None and (self._state.terminal or asked)

    def read(self) -> list[StreamResponse]:
        """One query. Stops before a number that is not there yet, and takes it up the next time."""
        if self._first is not None:
            first, self._first = self._first, None
            return [first]
        meta = self._meta
        after = event_key(meta.tenant, meta.task_id, self._seq + 1)
        pk = task_pk(meta.tenant, meta.task_id)
        try:
            page = self._engine.table.query(pk, first=after.sk, last=LAST_EVENT)
        except OutcomeUnknown:
            return []  # the next read sees it
        news: list[StreamResponse] = []
        for key, item in page.rows:
            if self.ended or int(key.sk[4:]) != self._seq + 1:
                break
            event = read_event(item)
            self._seq += 1
            if event.status is not None:
                self._state = event.status.state
            news.append(self._response(event))
        return news

    def _response(self, event: Event) -> StreamResponse:
        return stream_response(self._meta, event, self._extensions)

    def keep_open(self) -> None:
        self._slot.renew()

    def close(self) -> None:
        self._slot.release()


class DirectReply:
    """Implements `EventStream`: exactly one message."""

    def __init__(self, message: Message) -> None:
        self._message: Message | None = message

    @property
    def ended(self) -> bool:
        return self._message is None

    def read(self) -> list[StreamResponse]:
        message, self._message = self._message, None
        return [StreamResponse.model_construct(message=message)]

    def keep_open(self) -> None:
        pass

    def close(self) -> None:
        pass


def send_streaming_message(
    engine: Engine,
    directory: Directory,
    caller: Principal,
    request: SendMessageRequest,
    *,
    extensions: frozenset[str],
    idempotency_key: str | None = None,
    push: Push | None = None,
) -> TaskStream | DirectReply:
    """As SendMessage, answered by a stream. Raises `A2AError` before it begins."""
    # The slot comes first: a message that was admitted must not be answered with "try again".
    with _slot(engine, caller) as slot:
        admitted = admit(
            engine,
            directory,
            caller,
            request,
            extensions=extensions,
            idempotency_key=idempotency_key,
            push=push,
        )
        if isinstance(admitted, Message):
            slot.release()
            return DirectReply(admitted)
        return TaskStream(engine, *admitted, extensions, slot, ends_when_asked=True)


def subscribe_to_task(
    engine: Engine, caller: Principal, request: SubscribeToTaskRequest, *, extensions: frozenset[str]
) -> TaskStream:
    """Raises `TaskNotFound`, `UnsupportedOperation` for a task that has ended, `Unavailable` at the cap."""
    check_tenant(caller, request.tenant)
    view = visible_task(engine, caller, request.id)
    if view.meta.task_state.terminal:
        raise UnsupportedOperation("The task has ended; there is nothing to subscribe to")
    with _slot(engine, caller) as slot:
        return TaskStream(engine, *view, extensions, slot, ends_when_asked=False)


@contextmanager
def _slot(engine: Engine, caller: Principal) -> Iterator[Slot]:
    """A slot for a stream, which closes it; released here if there is none in the end."""
    slot = Slot(engine, caller.tenant)
    try:
        yield slot
    except BaseException:
        slot.release()
        raise
