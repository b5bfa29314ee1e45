"""Push notifications (specification 4.3): configurations of a task, and the delivery of its events to them.

An event of a task that has configurations goes with a DUE row in its transaction, so it is delivered or
somebody looks at it again. Each configuration keeps the number of the last event that was delivered, and is
served by one worker at a time: at least once, in order per task.
"""

import json
import logging
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from interlock.a2a.card import PROTOCOL_VERSION
from interlock.a2a.errors import InvalidParams, PermissionDenied, Unavailable
from interlock.a2a.models import (
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
)
from interlock.engine.context import Engine, attempts, new_id, push_guard
from interlock.engine.ports import (
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
    Event,
    PushConfig,
    TaskMeta,
    event_key,
    instant,
    read_event,
    task_pk,
)
from interlock.engine.view import load, present, stream_response
from interlock.engine.visibility import check_tenant, not_found, visible_meta
from interlock.oversight.principals import Principal

logger = logging.getLogger(__name__)

MAX_CONFIGS = 10
"""Of one task."""
MAX_CONFIG_BYTES = 4096
"""Of one configuration as JSON: as much as AWS KMS encrypts at once."""
DEFAULT_PAGE_SIZE = 50

MAX_TRIES = 18
"""Of one event: with what lies between them it is given up after about seven hours."""
FIRST_RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 3600.0
LEASE_SECONDS = 60.0
"""Longer than a request may take; begins anew with each event."""

_CONFIG_ID = re.compile(r"[A-Za-z0-9\-_.:~@+=]{1,256}")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~\-]+")
"""A token (RFC 9110, section 5.6.2)."""


class SealFailed(Exception):
    """The key does not answer, or what is sealed was changed. The text is for the log."""


class Sealer(Protocol):
    """Encrypts what must not be readable at rest. `context` says what it belongs to, and is authenticated.

    Raises `SealFailed`.
    """

    def seal(self, secret: bytes, context: str) -> bytes:
        """At most 4,096 bytes; never the same twice."""

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
    version: str = PROTOCOL_VERSION
    """Of the protocol that configurations are asked for in."""


def new_config(
    push: Push,
    caller: Principal,
    meta: TaskMeta,
    asked: TaskPushNotificationConfig,
    extensions: frozenset[str],
) -> PushConfig:
    """Delivery begins with the event after the one that `meta` is at. Raises `InvalidParams`."""
    _check(push, asked)
    # In 0.3 one without an id is the task's: to set it again is to replace it.
    config_id = asked.id or (new_id() if push.version == PROTOCOL_VERSION else meta.task_id)
    kept = asked.model_copy(update={"id": config_id, "task_id": meta.task_id, "tenant": None})
    secret = kept.wire_json().encode()
    if len(secret) > MAX_CONFIG_BYTES:
        raise InvalidParams(f"A push notification configuration has at most {MAX_CONFIG_BYTES} bytes")
    try:
        sealed = push.sealer.seal(secret, _context(meta.tenant, meta.task_id, config_id))
    except SealFailed as error:
        raise _unavailable(error) from error
    return PushConfig(
        tenant=meta.tenant,
        task_id=meta.task_id,
        config_id=config_id,
        by=caller.id,
        sealed=sealed,
        delivered=meta.seq,
        extensions=json.dumps(sorted(extensions)),
        version=push.version,
    )


def _check(push: Push, asked: TaskPushNotificationConfig) -> None:
    """What goes into a header must not be able to end it."""
    if asked.id is not None and not _CONFIG_ID.fullmatch(asked.id):
        raise InvalidParams("id must be 1 to 256 of A-Z a-z 0-9 - _ . : ~ @ + =")
    if asked.token is not None and not _is_header_text(asked.token):
        raise InvalidParams("token must be of printable ASCII characters")
    authentication = asked.authentication
    if authentication is not None:
        if not _SCHEME.fullmatch(authentication.scheme):
            raise InvalidParams("authentication.scheme must be the name of an HTTP authentication scheme")
        if authentication.credentials is not None and not _is_header_text(authentication.credentials):
            raise InvalidParams("authentication.credentials must be of printable ASCII characters")
    try:
        push.receiver.check(asked.url)
    except ValueError as error:
        raise InvalidParams(f"url {error}") from error


def _is_header_text(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _context(tenant: str, task_id: str, config_id: str) -> str:
    return json.dumps([tenant, task_id, config_id])


def _unavailable(error: SealFailed) -> Unavailable:
    logger.error("a push notification configuration could not be sealed or unsealed", exc_info=error)
    return Unavailable(retry_after=1)


def create(
    push: Push, caller: Principal, request: TaskPushNotificationConfig, *, extensions: frozenset[str]
) -> TaskPushNotificationConfig:
    """Adds a configuration, or replaces the one of the same id. Raises `TaskNotFound`, `InvalidParams`.

    It is sent what comes after.
    """
    check_tenant(caller, request.tenant)
    new = prepare(push, caller, request.task_id, request, extensions)
    keep(push, caller, new)
    return request.model_copy(update={"id": new.config_id, "task_id": new.task_id, "tenant": None})


def prepare(
    push: Push,
    caller: Principal,
    task_id: str | None,
    asked: TaskPushNotificationConfig,
    extensions: frozenset[str],
) -> PushConfig:
    """A configuration of a task that is there; raises what `keep` would raise of it now."""
    meta = owned(push.engine, caller, task_id)
    new = new_config(push, caller, meta, asked, extensions)
    _replaced(push.engine, meta, new)
    return new


def keep(push: Push, caller: Principal, new: PushConfig, *, since: int | None = None) -> None:
    """`since`: the number of the last event that it is not to be sent; unset means all there are."""
    engine = push.engine
    for _ in attempts(engine.clock):
        meta = owned(engine, caller, new.task_id)
        before = _replaced(engine, meta, new)
        if before is not None and before.sealed == new.sealed:
            # An earlier try, whose reply was lost.
            behind = _outstanding(before, meta)
            break
        config = replace(new, delivered=meta.seq if since is None else since)
        behind = _outstanding(config, meta)
        writes: list[Write] = [Put(config.key, config.item())]
        if not meta.task_state.terminal:
            # The mark makes every later event go with a DUE row. A task that has ended has no later event.
            mark: Item = {"rev": meta.rev + 1, "push": True}
            writes.append(Update(meta.key, mark, conditions=(Equals("rev", meta.rev),)))
        if behind:
            writes.append(push_guard(meta, meta.seq, engine.clock.now()))
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        break
    if behind:
        engine.waker.wake_push(new.tenant, new.task_id)


def _replaced(engine: Engine, meta: TaskMeta, new: PushConfig) -> PushConfig | None:
    """What `new` takes the place of. Raises `InvalidParams` where there is no place."""
    kept = {config.config_id: config for config in _configs(engine, meta)}
    before = kept.pop(new.config_id, None)
    if len(kept) >= MAX_CONFIGS:
        raise InvalidParams(f"A task has at most {MAX_CONFIGS} push notification configurations")
    return before


def get(
    push: Push, caller: Principal, request: GetTaskPushNotificationConfigRequest
) -> TaskPushNotificationConfig:
    """Raises `TaskNotFound` for a task or a configuration that is not there."""
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    if not _CONFIG_ID.fullmatch(request.id):
        raise not_found(meta.task_id)
    item = push.engine.table.get(PushConfig.key_of(meta.tenant, meta.task_id, request.id))
    if item is None:
        raise not_found(meta.task_id)
    return _shown(push, PushConfig.read(item))


def list_configs(
    push: Push, caller: Principal, request: ListTaskPushNotificationConfigsRequest
) -> ListTaskPushNotificationConfigsResponse:
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    after = request.page_token or ""
    size = request.page_size or DEFAULT_PAGE_SIZE
    rest = [config for config in _configs(push.engine, meta) if config.config_id > after]
    page = rest[:size]
    return ListTaskPushNotificationConfigsResponse(
        configs=[_shown(push, config) for config in page],
        next_page_token=page[-1].config_id if len(rest) > size else "",
    )


def delete(push: Push, caller: Principal, request: DeleteTaskPushNotificationConfigRequest) -> Empty:
    """Idempotent. Raises `TaskNotFound` for a task that is not there."""
    check_tenant(caller, request.tenant)
    meta = owned(push.engine, caller, request.task_id)
    if not _CONFIG_ID.fullmatch(request.id):
        return Empty()
    for _ in attempts(push.engine.clock):
        try:
            push.engine.table.write(Delete(PushConfig.key_of(meta.tenant, meta.task_id, request.id)))
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


def _shown(push: Push, config: PushConfig) -> TaskPushNotificationConfig:
    """Raises `Unavailable`."""
    try:
        return _unsealed(push, config)
    except SealFailed as error:
        raise _unavailable(error) from error


def _unsealed(push: Push, config: PushConfig) -> TaskPushNotificationConfig:
    context = _context(config.tenant, config.task_id, config.config_id)
    return TaskPushNotificationConfig.model_validate_json(push.sealer.unseal(config.sealed, context))


# Delivery.


def deliver(push: Push, tenant: str, task_id: str, seconds: float) -> None:
    """Delivers what each configuration of the task has not been sent yet, unless another worker does.

    Begins no request after `seconds`; for what is left then somebody is woken.
    """
    engine = push.engine
    until = engine.clock.now() + timedelta(seconds=seconds)
    moved = True
    while moved:
        item = engine.table.get(TaskMeta.key_of(tenant, task_id))
        if item is None:
            return
        meta, moved = TaskMeta.read(item), False
        for config in _configs(engine, meta):
            if not _is_due(config, meta, engine.clock.now()):
                continue
            if engine.clock.now() >= until:
                engine.waker.wake_push(tenant, task_id)
                return
            held = _hold(engine, config)
            # Whoever was woken meanwhile found it held and went away, so it is looked at again.
            if held is not None and _deliver_to(push, meta, held, until):
                moved = True


def _outstanding(config: PushConfig, meta: TaskMeta) -> bool:
    return config.status == PushConfig.ACTIVE and config.delivered < meta.seq


def _is_due(config: PushConfig, meta: TaskMeta, now: datetime) -> bool:
    return _outstanding(config, meta) and (config.retry_at or "") <= instant(now)


def _hold(engine: Engine, config: PushConfig) -> PushConfig | None:
    """Takes the configuration for this worker, or gives None: someone else has it, or has moved it on."""
    now = engine.clock.now()
    if config.held_until is not None and config.held_until > instant(now):
        return None
    held = replace(config, holder=new_id(), held_until=_lease_end(now))
    free = Missing("holder") if config.holder is None else Equals("holder", config.holder)
    same = (free, Equals("delivered", config.delivered))
    taken: Item = {"holder": held.holder or "", "held_until": held.held_until or ""}
    try:
        engine.table.write(Update(config.key, taken, conditions=same))
    except (ConditionFailed, OutcomeUnknown):
        return None
    return held


def _lease_end(now: datetime) -> str:
    return instant(now + timedelta(seconds=LEASE_SECONDS))


def _deliver_to(push: Push, meta: TaskMeta, config: PushConfig, until: datetime) -> bool:
    """Sends one event after the other; each acknowledgement is kept before the next is sent.

    Whether it came to the end of what it read, and let go of the configuration.
    """
    engine, mine = push.engine, (Equals("holder", config.holder or ""),)
    extensions = frozenset(json.loads(config.extensions))
    page = engine.table.query(
        task_pk(meta.tenant, meta.task_id),
        first=event_key(meta.tenant, meta.task_id, config.delivered + 1).sk,
        last=event_key(meta.tenant, meta.task_id, meta.seq).sk,
    )
    try:
        try:
            asked = _unsealed(push, config)
            for key, item in page.rows:
                if engine.clock.now() >= until:
                    break
                body = _body(engine, meta, config, int(key.sk[4:]), read_event(item), extensions)
                push.receiver.post(asked.url, _headers(asked, config.version), body)
                done: Item = {
                    "delivered": int(key.sk[4:]),
                    "held_until": _lease_end(engine.clock.now()),
                    "tries": 0,
                }
                engine.table.write(Update(config.key, done, conditions=mine))
                config = replace(config, delivered=int(key.sk[4:]), tries=0)
        except (DeliveryFailed, SealFailed) as failed:
            _put_off(push, config, str(failed))
            return False
        engine.table.write(Update(config.key, {}, ("holder", "held_until"), mine))
    except (ConditionFailed, OutcomeUnknown):
        # Another worker took over, it was deleted, or the write is not known: an event may be sent twice.
        logger.info("a delivery was taken over", extra={"task_id": meta.task_id})
        return False
    return True


def _body(
    engine: Engine, meta: TaskMeta, config: PushConfig, number: int, event: Event, extensions: frozenset[str]
) -> bytes:
    """The event; in 0.3 the task as the event left it, as the official SDK of 0.3 sends it."""
    if config.version == PROTOCOL_VERSION:
        return stream_response(meta, event, extensions).wire_json().encode()
    from interlock.a2a.v0_3 import results

    loaded = load(engine.table, meta.tenant, meta.task_id)
    if loaded is None:
        raise AssertionError("the task of a configuration is gone")
    view = present(loaded.meta, loaded.events[:number], extensions)
    return results.Result(results.task(view)).wire_json().encode()


def _headers(asked: TaskPushNotificationConfig, version: str) -> dict[str, str]:
    media_type = "application/a2a+json" if version == PROTOCOL_VERSION else "application/json"
    headers = {"Content-Type": media_type}
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
        wanted = any(_is_due(config, meta, now) for config in _configs(engine, meta))
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
