"""Push notifications (specification 4.3): configurations of a task, and the delivery of its events to them.

An event of a task that has configurations goes with a DUE row in its transaction, so it is delivered or
somebody looks at it again. Each configuration keeps the number of the last event that was delivered, and is
served by one worker at a time: at least once, in order per task.
"""

import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.a2a.models import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from interlock.engine.context import Engine, attempts, new_id, push_guard
from interlock.engine.ports import (
    Check,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)
from interlock.engine.records import (
    Due,
    PushConfig,
    TaskMeta,
    event_key,
    instant,
    read_event,
    task_pk,
)
from interlock.engine.view import stream_response
from interlock.engine.visibility import check_tenant, not_found, visible_meta
from interlock.oversight.principals import Principal

logger = logging.getLogger(__name__)

MAX_CONFIGS = 10
"""Of one task."""
MAX_URL = 2048
MAX_SECRET = 2048
"""Characters of a token, a scheme or credentials."""
DEFAULT_PAGE_SIZE = 50

MAX_TRIES = 10
FIRST_RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 600.0
LEASE_SECONDS = 60.0


class Sealer(Protocol):
    """Encrypts what must not be readable at rest. `context` says what it belongs to, and is authenticated."""

    def seal(self, secret: bytes, context: str) -> bytes: ...

    def unseal(self, sealed: bytes, context: str) -> bytes: ...


class DeliveryFailed(Exception):
    """The receiver did not acknowledge. The text is for the log, and holds nothing of its answer."""


class Receiver(Protocol):
    """HTTP out to addresses that callers chose."""

    def check(self, url: str) -> None:
        """Raises `ValueError`, fit to be shown, for a URL that will never be called."""

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        """One try. Raises `DeliveryFailed` unless it was acknowledged with a 2xx."""


@dataclass(frozen=True, slots=True)
class Push:
    """What the operations on configurations and the delivery need beside the engine."""

    engine: Engine
    sealer: Sealer
    receiver: Receiver
    park: Callable[[PushConfig], None]
    """Puts a configuration that is given up where an alarm sees it. May be called twice for one."""


def new_config(
    push: Push,
    caller: Principal,
    meta: TaskMeta,
    asked: TaskPushNotificationConfig,
    extensions: frozenset[str],
) -> PushConfig:
    """Delivery begins with the event after the one that `meta` is at. Raises `InvalidParams`."""
    secrets = asked.authentication or AuthenticationInfo.model_construct(scheme="", credentials=None)
    for text in (asked.token, secrets.scheme, secrets.credentials):
        if text is not None and (len(text) > MAX_SECRET or not text.isprintable()):
            raise InvalidParams(f"token and authentication hold at most {MAX_SECRET} printable characters")
    if len(asked.url) > MAX_URL:
        raise InvalidParams(f"url has at most {MAX_URL} characters")
    try:
        push.receiver.check(asked.url)
    except ValueError as error:
        raise InvalidParams(f"url {error}") from error
    config_id = asked.id or new_id()
    kept = asked.model_copy(update={"id": config_id, "task_id": meta.task_id, "tenant": None})
    return PushConfig(
        tenant=meta.tenant,
        task_id=meta.task_id,
        config_id=config_id,
        by=caller.id,
        sealed=push.sealer.seal(kept.wire_json().encode(), _context(meta.tenant, meta.task_id, config_id)),
        delivered=meta.seq,
        extensions=json.dumps(sorted(extensions)),
    )


def _context(tenant: str, task_id: str, config_id: str) -> str:
    return f"{tenant}/{task_id}/{config_id}"


def create(
    push: Push,
    caller: Principal,
    request: TaskPushNotificationConfig,
    *,
    extensions: frozenset[str],
    since: int | None = None,
) -> TaskPushNotificationConfig:
    """Adds a configuration, or replaces the one of the same id. Raises `TaskNotFound`, `InvalidParams`.

    `since`: the number of the last event that it is not to be sent; unset means all there are.
    """
    check_tenant(caller, request.tenant)
    engine = push.engine
    for _ in attempts(engine.clock):
        meta = owned(engine, caller, request.task_id)
        config = new_config(push, caller, meta, request, extensions)
        if since is not None:
            config = replace(config, delivered=since)
        kept = _configs(engine, meta)
        if len([other for other in kept if other.config_id != config.config_id]) >= MAX_CONFIGS:
            raise InvalidParams(f"A task has at most {MAX_CONFIGS} push notification configurations")
        seen = Equals("rev", meta.rev)
        # The mark makes every later event go with a DUE row. A task that has ended has no later event.
        mark: Write = Check(meta.key, (seen,))
        if not meta.task_state.terminal:
            mark = Update(meta.key, {"rev": meta.rev + 1, "push": True}, conditions=(seen,))
        writes = [mark, Put(config.key, config.item())]
        behind = _outstanding(config, meta)
        if behind:
            writes.append(push_guard(meta, meta.seq, engine.clock.now()))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        if behind:
            engine.waker.wake_push(meta.tenant, meta.task_id)
        return _unsealed(push, config)
    raise AssertionError("attempts end by raising")


def get(
    push: Push, caller: Principal, request: GetTaskPushNotificationConfigRequest
) -> TaskPushNotificationConfig:
    """Raises `TaskNotFound` for a task or a configuration that is not there."""
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    item = push.engine.table.get(PushConfig.key_of(meta.tenant, meta.task_id, request.id))
    if item is None:
        raise not_found(meta.task_id)
    return _unsealed(push, PushConfig.read(item))


def list_configs(
    push: Push, caller: Principal, request: ListTaskPushNotificationConfigsRequest
) -> ListTaskPushNotificationConfigsResponse:
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    found = _configs(push.engine, meta)
    after = request.page_token or ""
    size = request.page_size or DEFAULT_PAGE_SIZE
    rest = [config for config in found if config.config_id > after]
    page = rest[:size]
    return ListTaskPushNotificationConfigsResponse(
        configs=[_unsealed(push, config) for config in page],
        next_page_token=page[-1].config_id if len(rest) > size else "",
    )


def delete(push: Push, caller: Principal, request: DeleteTaskPushNotificationConfigRequest) -> Empty:
    """Idempotent. Raises `TaskNotFound` for a task that is not there."""
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    key = PushConfig.key_of(meta.tenant, meta.task_id, request.id)
    for _ in attempts(push.engine.clock):
        try:
            push.engine.table.write(Delete(key))
        except OutcomeUnknown:
            continue
        break
    return Empty()


def owned(engine: Engine, caller: Principal, task_id: str | None) -> TaskMeta:
    """Configurations hold credentials: they are the owner's alone."""
    if not task_id:
        raise InvalidParams("taskId is required")
    meta = visible_meta(engine, caller, task_id)
    if meta.owner != caller.id:
        raise PermissionDenied("Only the caller that owns the task may manage its push notifications")
    return meta


def _configs(engine: Engine, meta: TaskMeta) -> list[PushConfig]:
    page = engine.table.query(task_pk(meta.tenant, meta.task_id), first="PUSH#", last="PUSH#\U0010ffff")
    return [PushConfig.read(item) for _, item in page.rows]


def _unsealed(push: Push, config: PushConfig) -> TaskPushNotificationConfig:
    context = _context(config.tenant, config.task_id, config.config_id)
    return TaskPushNotificationConfig.model_validate_json(push.sealer.unseal(config.sealed, context))


# Delivery.


def deliver(push: Push, tenant: str, task_id: str) -> None:
    """Delivers what each configuration of the task has not been sent yet, unless another worker does."""
    item = push.engine.table.get(TaskMeta.key_of(tenant, task_id))
    if item is None:
        return
    meta = TaskMeta.read(item)
    for config in _configs(push.engine, meta):
        if _outstanding(config, meta) and (config.retry_at or "") <= instant(push.engine.clock.now()):
            held = _hold(push.engine, config)
            if held is not None:
                _deliver_to(push, meta, held)


def _outstanding(config: PushConfig, meta: TaskMeta) -> bool:
    return config.status == PushConfig.ACTIVE and config.delivered < meta.seq


def _hold(engine: Engine, config: PushConfig) -> PushConfig | None:
    """Takes the configuration for this worker, or gives None: someone else has it, or has moved it on."""
    now = engine.clock.now()
    if config.held_until is not None and config.held_until > instant(now):
        return None
    held = replace(config, holder=new_id(), held_until=instant(now + timedelta(seconds=LEASE_SECONDS)))
    free = Missing("holder") if config.holder is None else Equals("holder", config.holder)
    same = (free, Equals("delivered", config.delivered))
    taken: Item = {"holder": held.holder or "", "held_until": held.held_until or ""}
    try:
        engine.table.write(Update(config.key, taken, conditions=same))
    except (ConditionFailed, OutcomeUnknown):
        return None
    return held


def _deliver_to(push: Push, meta: TaskMeta, config: PushConfig) -> None:
    """Sends one event after the other; each acknowledgement is kept before the next is sent."""
    engine, mine = push.engine, (Equals("holder", config.holder or ""),)
    asked = _unsealed(push, config)
    extensions = frozenset(json.loads(config.extensions))
    page = engine.table.query(
        task_pk(meta.tenant, meta.task_id),
        first=event_key(meta.tenant, meta.task_id, config.delivered + 1).sk,
        last=event_key(meta.tenant, meta.task_id, meta.seq).sk,
    )
    try:
        for key, item in page.rows:
            body = stream_response(meta, read_event(item), extensions).wire_json().encode()
            try:
                push.receiver.post(asked.url, _headers(asked), body)
            except DeliveryFailed as failed:
                _put_off(push, config, str(failed))
                return
            until = instant(engine.clock.now() + timedelta(seconds=LEASE_SECONDS))
            done: Item = {"delivered": int(key.sk[4:]), "held_until": until, "tries": 0}
            engine.table.write(Update(config.key, done, ("retry_at",), mine))
            config = replace(config, delivered=int(key.sk[4:]), tries=0)
        engine.table.write(Update(config.key, {}, ("holder", "held_until"), mine))
    except (ConditionFailed, OutcomeUnknown):
        # Another worker took over, or the write is not known: some event may be sent twice.
        logger.info("a delivery was taken over", extra={"task_id": meta.task_id})


def _headers(asked: TaskPushNotificationConfig) -> dict[str, str]:
    headers = {"Content-Type": "application/a2a+json"}
    if asked.authentication is not None:
        scheme, credentials = asked.authentication.scheme, asked.authentication.credentials
        headers["Authorization"] = f"{scheme} {credentials}" if credentials else scheme
    if asked.token:
        headers["X-A2A-Notification-Token"] = asked.token
    return headers


def _put_off(push: Push, config: PushConfig, why: str) -> None:
    """Tries again later, further and further apart with jitter, and in the end gives up where it is seen."""
    engine, tries = push.engine, config.tries + 1
    logger.warning(
        "a push notification was not acknowledged",
        extra={"task_id": config.task_id, "tries": tries, "why": why},
    )
    mine = (Equals("holder", config.holder or ""),)
    if tries >= MAX_TRIES:
        push.park(config)
        engine.table.write(
            Update(config.key, {"status": PushConfig.PARKED, "tries": tries}, ("holder", "held_until"), mine)
        )
        return
    longest = min(FIRST_RETRY_SECONDS * 2**tries, LONGEST_RETRY_SECONDS)
    wait = random.uniform(longest / 2, longest)  # noqa: S311
    at = engine.clock.now() + timedelta(seconds=wait)
    later = Due("push", config.tenant, config.task_id, config.config_id, instant(at))
    engine.table.write(
        Update(config.key, {"tries": tries, "retry_at": later.at}, ("holder", "held_until"), mine),
        Put(later.key, later.item()),
    )
    engine.waker.wake_timer(later.key, at)


def push_due(engine: Engine, key: Key, due: Due) -> None:
    """A guard or a retry has come due: wakes the delivery if something is to be delivered now.

    Then the row is moved to a later time, and is a guard again. What waits for a later retry has a row of its
    own, so this one goes.
    """
    for _ in attempts(engine.clock):
        item = engine.table.get(TaskMeta.key_of(due.tenant, due.task_id))
        if item is None:
            raise AssertionError("a due row of a task that is not there")
        meta, now = TaskMeta.read(item), engine.clock.now()
        wanted = any(
            _outstanding(config, meta) and (config.retry_at or "") <= instant(now)
            for config in _configs(engine, meta)
        )
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        if wanted:
            writes.append(push_guard(meta, meta.seq, now))
        try:
            engine.table.write(*writes)
        except OutcomeUnknown:
            continue
        except ConditionFailed:
            return  # somebody else had the same row
        if wanted:
            engine.waker.wake_push(due.tenant, due.task_id)
        return
