"""A new task: written with what starts it, and accepted only where no halt is found after that (I4)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from interlock.a2a.errors import (
    InvalidParams,
    PermissionDenied,
)
from interlock.a2a.models import (
    Message,
    SendMessageRequest,
    TaskState,
)
from interlock.engine.context import (
    Directory,
    Engine,
    Skill,
    attempts,
    new_id,
    new_run,
    status,
)
from interlock.engine.dispatch import start
from interlock.engine.facts import TASK_EVENT, Fact, current_trace
from interlock.engine.halts import Halted, halted_in, look, unless_halted
from interlock.engine.inline_push import InlinePush
from interlock.engine.lease import lapse_row, leased, renew, wake_lapse
from interlock.engine.ports import ConditionFailed, Missing, OutcomeUnknown, Put, Write
from interlock.engine.records import (
    Event,
    Halt,
    Run,
    SendKey,
    TaskMeta,
    event_item,
    event_key,
    instant,
    owner_view,
)
from interlock.engine.request_metadata import skill_hint, source_of, unstamped
from interlock.engine.reviewers import dispatchers_of
from interlock.engine.send_key import note_key, same_send
from interlock.engine.stop import read_run, stop_turn, withdrawal
from interlock.engine.view import TaskView, load
from interlock.engine.visibility import visible_task
from interlock.oversight.delegation import MalformedTerms, Terms, parse_terms
from interlock.oversight.modes import Mode
from interlock.oversight.principals import Kind, Principal, Role

LIFTED = "it was halted, and is not any more: send it again"


def create_task(
    engine: Engine,
    directory: Directory,
    caller: Principal,
    request: SendMessageRequest,
    key: str | None,
    notify: InlinePush | None = None,
) -> TaskView:
    """META, its events, what starts it and the idempotency key are one transaction: all or nothing.

    A task that starts at once is written, and the halts are read after it: whoever finds one takes back what
    was written, so a send and a halt that race never miss each other. Raises `Halted`.
    """
    if not caller.has(Role.CALLER):
        raise PermissionDenied("Only a caller may start a task")
    skill = directory.route(request.message, skill_hint(request))
    try:
        terms = parse_terms(request.metadata)
    except MalformedTerms as error:
        raise InvalidParams(str(error)) from error
    message = unstamped(request.message)
    above = dispatchers_of(engine, caller, message, terms)
    new = New(caller, message, skill, key, notify, terms, source_of(request), above)
    while True:
        sent = _write_task(engine, new)
        view = _accepted(engine, sent) if isinstance(sent, TaskView) else _accepted_before(engine, new, sent)
        if view is not None:
            if isinstance(sent, TaskView):
                wake_lapse(engine, view.meta)
            if not view.meta.held:
                engine.waker.wake_turn(caller.tenant, view.meta.task_id, 1)
            return view


@dataclass(frozen=True, slots=True)
class New:
    """A send that is to make a task. `terms`: it was delegated by another. `source` is JSON text."""

    caller: Principal
    message: Message
    skill: Skill
    key: str | None
    notify: InlinePush | None
    terms: Terms | None
    source: str | None
    dispatchers: str = ""


def _write_task(engine: Engine, new: New) -> TaskView | SendKey:
    """The new task, or the note of an earlier send under the same key. Raises `Halted` for one that waits."""
    task_id, context_id, op = new_id(), new.message.context_id or new_id(), new_id()
    stored = new.message.model_copy(update={"task_id": task_id, "context_id": context_id})
    for _ in attempts(engine.clock):
        now = engine.clock.now()
        sent = Event(message=stored, status=status(TaskState.SUBMITTED, now), by=new.caller.id)
        begun = start(engine, _new_meta(new, task_id, context_id, now), new.skill, sent, now)
        items = [event_item(event, op) for event in begun.events]
        meta = replace(begun.meta, size=sum(cast(int, item["size"]) for item in items))
        writes: list[Write] = [Put(meta.key, meta.item(), (Missing("v"),))]
        for number, item in enumerate(items, 1):
            writes.append(Put(event_key(meta.tenant, task_id, number), item, (Missing("v"),)))
        writes.extend(begun.writes)
        noted = len(writes)
        if new.key is not None:
            writes.append(note_key(new.caller, new.key, task_id, new.message))
        if new.notify is not None:
            config = new.notify.config(new.caller, meta)
            writes.append(Put(config.key, config.item()))
        if meta.lapses_at is not None:
            writes.append(lapse_row(meta, meta.lapses_at))
        facts = [Fact(TASK_EVENT, new.caller.id).about(meta, sent), *(f.about(meta) for f in begun.facts)]
        writes.extend(fact.put(meta.tenant, now) for fact in facts)
        if meta.held:
            writes.extend(unless_halted(meta))
        try:
            engine.table.write(*writes)
        except OutcomeUnknown:
            continue
        except ConditionFailed as failed:
            # The task id is fresh, so a META that is there is our own earlier try, whose reply was lost.
            if not failed.old.get(0):
                if failed.old.get(noted) and new.key is not None:
                    return SendKey.read(failed.old[noted])
                raise halted_in(failed, writes) or AssertionError("a new task that is there") from failed
        if begun.due is not None:
            engine.waker.wake_timer(*begun.due)
        if engine.notices and meta.mode != Mode.AUTONOMOUS:
            engine.waker.wake_notices(meta.tenant, meta.task_id)
        return TaskView(meta, list(begun.events))
    raise AssertionError("attempts end by raising")


def _new_meta(new: New, task_id: str, context_id: str, now: datetime) -> TaskMeta:
    """Of a task that starts at once."""
    at, caller, skill = instant(now), new.caller, new.skill
    return TaskMeta(
        tenant=caller.tenant,
        task_id=task_id,
        context_id=context_id,
        owner=caller.id,
        agent=skill.agent,
        skill=skill.id,
        rerun=skill.rerun,
        isolated=skill.isolated,
        radius=skill.radius,
        last_author=caller.id,
        state=TaskState.SUBMITTED.value,
        created_at=at,
        status_at=at,
        view=owner_view(caller.tenant, caller.id),
        view_at=f"{at}#{task_id}",
        push=new.notify is not None,
        trace=current_trace(),
        send_key=new.key if new.terms is None else None,
        source=new.source,
        to_people=skill.declared.reviewer is not None,
        by_person=caller.kind is Kind.PERSON,
        dispatchers=new.dispatchers,
        **(leased(new.terms, now) if new.terms is not None else {}),
    )


def _accepted(engine: Engine, sent: TaskView) -> TaskView:
    """Raises `Halted`; then the task was taken back, or had been by somebody else."""
    if sent.meta.held:
        # It carried the halts as a condition.
        return sent
    moment = look(engine, sent.meta)
    if moment.why is not None:
        return _take_back(engine, sent.meta, moment.why, moment.halt)
    if moment.meta is not None and moment.meta.withdrawn:
        raise Halted(LIFTED)
    return sent


def _take_back(engine: Engine, sent: TaskMeta, why: str, halt: Halt | None) -> TaskView:
    """Of a send that found a halt: the task ends, and if a worker has claimed its turn, that is stopped.

    A first turn that has run and ended needed a claim that found no halt, after the send was written: so the
    send had begun before the halt, and is accepted.
    """
    first, op = new_run(sent, engine.clock.now()), new_id()
    for _ in attempts(engine.clock):
        meta, run = read_run(engine, first)
        if meta is None:
            raise AssertionError("a task that was written is not there")
        if run is None or run.turn != 1 or meta.task_state.terminal:
            # The two were not read at one moment: how it went on is known only after its row is gone.
            moved_on = load(engine.table, sent.tenant, sent.task_id)
            if moved_on is None:
                raise AssertionError("a task that was there is not there")
            if moved_on.meta.task_state is TaskState.CANCELED:
                raise Halted(why)
            return moved_on
        if run.phase == Run.STOPPING:
            raise Halted(why)
        if run.phase == Run.CLAIMED:
            # And looked at again: it may have come to its own end before the stop.
            stop_turn(engine, run, why, halt)
            continue
        try:
            engine.table.write(*withdrawal(meta, run, why, engine.clock.now(), op))
        except (ConditionFailed, OutcomeUnknown):
            continue
        raise Halted(why)
    raise AssertionError("attempts end by raising")


def _accepted_before(engine: Engine, new: New, noted: SendKey) -> TaskView | None:
    """The task of an earlier send under the same key. None: a halt took it back, so it is to be sent again.

    While halted it is not told, and nothing is taken back: the first send was accepted. A parent that sends
    its work again renews its lease; what a halt took back of it stays canceled.
    """
    earlier = same_send(noted, new.message)
    view = visible_task(engine, new.caller, earlier)
    moment = look(engine, view.meta)
    moment.refuse()
    if moment.meta is not None and moment.meta.withdrawn and moment.meta.send_key is not None:
        return None
    if new.terms is not None:
        renew(engine, view.meta, new.terms)
    return view
