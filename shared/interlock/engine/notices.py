"""Telling people, where they are, what runs, what is asked and what is about to lapse (hitl-mode-v1).

A notice is written with what it tells of, so it is delivered, or visibly given up; it never decides and never
holds a task up. A renderer is any way to people: a web hook, a topic, a chat.
"""

import json
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

from interlock.a2a.models import timestamp
from interlock.engine.checkpoints import of_due
from interlock.engine.context import Engine, attempts
from interlock.engine.facts import NOTICE, Fact
from interlock.engine.halts import unless_halted
from interlock.engine.ports import (
    LAST,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)
from interlock.engine.records import (
    NOTICES,
    Checkpoint,
    Due,
    Notice,
    TaskMeta,
    instant,
    parse_instant,
    task_pk,
)
from interlock.engine.tells import TELL, Tells, to_tell
from interlock.oversight import approvals

_log = logging.getLogger(__name__)

REMIND = "remind"
REMINDERS = (0.5, 0.8)
"""Of the time that a checkpoint has."""
MAX_TRIES = 12
FIRST_RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(minutes=15)
"""With these a notice is given up after about an hour."""
UNRENDERED = "a notice has no renderer"
"""Logged; an alarm looks for it, and for:"""
GIVEN_UP = "a notice was given up"


class RenderFailed(Exception):
    """The surface did not take it. The text is for the log."""


class Renderer(Protocol):
    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        """The same id is the same notice, also when it comes again. Raises `RenderFailed`."""


class Renderers(Protocol):
    """The ways to people that a deployment has configured."""

    def chosen(self, tells: Tells, interface: str | None, tenant: str) -> Mapping[str, Renderer]:
        """By name, of those for the tenant: those of the surface that the work came from, else the chain that
        is configured. Empty: there is none. Raises `RenderFailed` where the configuration can not be read."""


@dataclass(frozen=True, slots=True)
class Telling:
    """What delivering notices needs beside the engine."""

    engine: Engine
    renderers: Renderers


def to_remind(ask: Checkpoint) -> list[Write]:
    """Reminders of a checkpoint whose time is bounded."""
    if ask.deadline is None:
        return []
    begun, end = parse_instant(ask.asked_at), parse_instant(ask.deadline)
    times = [instant(begun + (end - begun) * share) for share in REMINDERS]
    rows = [Due(REMIND, ask.tenant, ask.task_id, ask.ask_id, at) for at in times]
    return [Put(due.key, due.item()) for due in rows]


def remind(engine: Engine, key: Key, due: Due) -> None:
    """Nothing is sent while halted: the row stays."""
    for _ in attempts(engine.clock):
        found = of_due(engine.table, due)
        if found is None:
            continue
        meta, ask = found
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        if ask.status == Checkpoint.OPEN:
            writes += to_tell(meta, Tells.REMINDER, engine.clock.now(), ask.ask_id)
            writes += unless_halted(meta)
        try:
            engine.table.write(*writes)
        except ConditionFailed:
            return  # halted, or somebody else has handled it
        except OutcomeUnknown:
            continue
        if ask.status == Checkpoint.OPEN:
            engine.waker.wake_notices(due.tenant, due.task_id)
        return


def tell_due(engine: Engine, key: Key, due: Due) -> None:
    """A guard or a retry: wakes the delivery, and comes back until the notice is delivered or given up."""
    for _ in attempts(engine.clock):
        item = engine.table.get(Notice.key_of(due.tenant, due.task_id, due.id))
        notice = Notice.read(item) if item is not None else None
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        again = None
        if notice is not None and notice.status == Notice.OPEN:
            again = replace(due, at=instant(engine.clock.now() + _wait(notice.tries)))
            writes.append(Put(again.key, again.item()))
            engine.waker.wake_notices(due.tenant, due.task_id)
        try:
            engine.table.write(*writes)
        except ConditionFailed:
            return
        except OutcomeUnknown:
            continue
        if again is not None:
            engine.waker.wake_timer(again.key, parse_instant(again.at))
        return


def _wait(tries: int) -> timedelta:
    longest = min(LONGEST_RETRY, FIRST_RETRY * 2 ** min(tries + 1, 20))
    return timedelta(seconds=longest.total_seconds() * random.uniform(0.5, 1.0))  # noqa: S311


def deliver_notices(telling: Telling, tenant: str, task_id: str) -> None:
    """Gives each open notice of the task to its renderers: at least once to each, and to none after that."""
    engine = telling.engine
    item = engine.table.get(TaskMeta.key_of(tenant, task_id))
    if item is None:
        return
    meta = TaskMeta.read(item)
    page = engine.table.query(task_pk(tenant, task_id), first=NOTICES, last=NOTICES + LAST)
    notices = sorted(map(Notice.read, (item for _, item in page.rows)), key=_order)
    for number, notice in enumerate(notices):
        if notice.status == Notice.OPEN:
            before = [one for one in notices[:number] if one.ask_id == notice.ask_id]
            notices[number] = _deliver(telling, meta, notice, before)


def _order(notice: Notice) -> tuple[str, bool]:
    """As they were written; of one moment the end comes last."""
    return notice.at, notice.tells == Tells.SETTLED


def _chosen(
    telling: Telling, meta: TaskMeta, notice: Notice, before: Sequence[Notice]
) -> Mapping[str, Renderer]:
    """How a checkpoint ended is told where it was told of, and nowhere else."""
    choose, interface = telling.renderers.chosen, _interface(meta)
    if notice.tells != Tells.SETTLED:
        return choose(Tells(notice.tells), interface, meta.tenant)
    all_ways = {
        **choose(Tells.ESCALATED, interface, meta.tenant),
        **choose(Tells.ASKED, interface, meta.tenant),
    }
    told = {name for one in before for name in one.told.split()}
    return {name: renderer for name, renderer in all_ways.items() if name in told}


def _deliver(telling: Telling, meta: TaskMeta, notice: Notice, before: Sequence[Notice]) -> Notice:
    """`before`: those of the same checkpoint. The notice as it is then."""
    engine = telling.engine
    done = set(notice.told.split())
    try:
        chosen = _chosen(telling, meta, notice, before)
        document = _document(engine, meta, notice)
        failed = [
            name
            for name, renderer in chosen.items()
            if name not in done and not _rendered(renderer, notice, document, done, name)
        ]
    except RenderFailed as error:
        _log.warning("renderers can not be chosen", extra={"why": str(error)})
        chosen, failed = {}, ["-"]
    settled = notice.tells == Tells.SETTLED
    if settled and any(one.status == Notice.OPEN for one in before):
        # Somebody may be telling of it right now: that ends first.
        failed.append("-")
    changes: Item = {"told": " ".join(sorted(done)), "tries": notice.tries + 1}
    facts: list[Write] = []
    if not failed:
        changes["status"] = Notice.TOLD if chosen or settled else Notice.UNRENDERED
        if changes["status"] == Notice.UNRENDERED:
            _log.error(UNRENDERED, extra={"task_id": meta.task_id})
        detail = {"tells": notice.tells, "prompt": notice.ask_id, "renderers": sorted(done)}
        if done or not settled:
            fact = Fact(NOTICE, detail=detail)
            facts = [fact.about(meta).put(meta.tenant, engine.clock.now())]
    elif notice.tries + 1 >= MAX_TRIES:
        changes["status"] = Notice.PARKED
        _log.error(GIVEN_UP, extra={"task_id": meta.task_id, "renderers": failed})
    try:
        engine.table.write(Update(notice.key, changes, conditions=(Equals("tries", notice.tries),)), *facts)
    except (ConditionFailed, OutcomeUnknown):
        _log.info("a notice was delivered twice, or may be", extra={"task_id": meta.task_id})
        return notice
    if failed and notice.tries == 0:
        guard = Due(TELL, notice.tenant, notice.task_id, notice.id, notice.at)
        engine.waker.wake_timer(guard.key, engine.clock.now() + FIRST_RETRY)
    return Notice.read({**notice.item(), **changes})


def _rendered(
    renderer: Renderer, notice: Notice, document: Mapping[str, Any], done: set[str], name: str
) -> bool:
    try:
        renderer.render(notice.id, document)
    except RenderFailed as error:
        _log.warning("a notice was not taken", extra={"renderer": name, "why": str(error)})
        return False
    done.add(name)
    return True


def _interface(meta: TaskMeta) -> str | None:
    return json.loads(meta.source)["interface"] if meta.source is not None else None


def _document(engine: Engine, meta: TaskMeta, notice: Notice) -> dict[str, Any]:
    """What a renderer is given: never the action itself, nor a payload; `prompt` is untrusted text."""
    document: dict[str, Any] = {
        "id": notice.id,
        "tells": notice.tells,
        "at": timestamp(parse_instant(notice.at)),
        "tenant": meta.tenant,
        "taskId": meta.task_id,
        "contextId": meta.context_id,
        "agent": meta.agent,
        "skill": meta.skill,
        "mode": meta.mode,
        "state": meta.state,
        "requestedBy": meta.owner,
    }
    if meta.source is not None:
        document["source"] = json.loads(meta.source)
    if notice.ask_id is None:
        return document
    item = engine.table.get(Checkpoint.key_of(meta.tenant, meta.task_id, notice.ask_id))
    if item is None:
        raise AssertionError("a notice of a checkpoint that is not there")
    ask = Checkpoint.read(item)
    checkpoint: dict[str, Any] = {
        "id": ask.ask_id,
        "number": ask.number,
        "kind": ask.kind,
        "status": ask.status,
        "prompt": json.loads(ask.envelope)["prompt"],
    }
    if ask.deadline is not None:
        checkpoint["deadline"] = timestamp(parse_instant(ask.deadline))
    if notice.tells == Tells.HANDED and ask.claim_by is not None:
        checkpoint["to"] = ask.claim_by
    if ask.approval is not None:
        asked = approvals.Asked.from_json(ask.approval)
        checkpoint |= {"summary": asked.summary, "digest": asked.digest, "required": asked.gate.quorum}
    return {**document, "checkpoint": checkpoint}
