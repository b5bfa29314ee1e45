"""SendMessage (specification 3.1.1): a new task, or a message or an answer to one that waits."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import cast

from interlock.a2a.errors import (
    InvalidParams,
    PermissionDenied,
    PushNotificationNotSupported,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    TaskPushNotificationConfig,
    TaskState,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine.answer import Answer, answered_task
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask
from interlock.engine.context import (
    Directory,
    Engine,
    Skill,
    attempts,
    landed,
    move,
    new_id,
    new_run,
    queue_turn,
    status,
)
from interlock.engine.decide import Deciding, decide
from interlock.engine.dispatch import start
from interlock.engine.errors import SendCanceled
from interlock.engine.facts import TASK_EVENT, Fact, current_trace
from interlock.engine.halts import Halted, halted_comes_first, halted_in, look, unless_halted
from interlock.engine.lease import lapse_row, leased, renew, wake_lapse
from interlock.engine.ports import ConditionFailed, Missing, OutcomeUnknown, Put, Write
from interlock.engine.push import Push, keep, new_config, prepare
from interlock.engine.records import (
    Checkpoint,
    Event,
    EventTooLarge,
    Halt,
    PushConfig,
    Run,
    SendKey,
    TaskMeta,
    event_item,
    event_key,
    instant,
    owner_view,
)
from interlock.engine.reviewers import dispatchers_of, pass_on, passes_on
from interlock.engine.send_key import IDEMPOTENCY_METADATA, checked_key
from interlock.engine.stop import read_run, stop_turn, withdrawal
from interlock.engine.view import TaskView, load, present, quorum_progress
from interlock.engine.visibility import check_tenant, visible_task
from interlock.engine.wait import settled
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.delegation import MalformedTerms, Terms, parse_terms
from interlock.oversight.modes import STAMPS, Mode
from interlock.oversight.principals import Kind, Principal, Role

SKILL_HINT = "skillHint"
SOURCE = "source"
SOURCE_MEMBERS = ("interface", "channelId", "userId", "agentId")
MAX_SOURCE = 256
"""Characters of each."""
LIFTED = "it was halted, and is not any more: send it again"


def send_message(
    engine: Engine,
    directory: Directory,
    caller: Principal,
    request: SendMessageRequest,
    *,
    extensions: frozenset[str],
    idempotency_key: str | None = None,
    push: Push | None = None,
) -> SendMessageResponse:
    """Raises `A2AError`; then nothing was stored and no prompt was consumed.

    `push` is None where push notifications are off.
    """
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
        return SendMessageResponse(message=admitted)
    configuration = request.configuration or SendMessageConfiguration()
    view = admitted if configuration.return_immediately else settled(engine, admitted)
    progress = quorum_progress(engine.table, view.meta)
    task = present(*view, extensions, history_length=configuration.history_length, progress=progress)
    return SendMessageResponse.model_construct(task=task, message=None)


def admit(
    engine: Engine,
    directory: Directory,
    caller: Principal,
    request: SendMessageRequest,
    *,
    extensions: frozenset[str],
    idempotency_key: str | None,
    push: Push | None,
) -> Message | TaskView:
    """Admits the message: gives its task as that has left it, which goes on by itself, or a direct reply."""
    check_tenant(caller, request.tenant)
    message = request.message
    if message.role is not MessageRole.USER:
        raise InvalidParams("message.role must be ROLE_USER")
    notify = _inline_push(push, request, extensions)
    try:
        response = hitl_prompt.parse_response(message.metadata)
    except hitl_prompt.MalformedResponse as error:
        raise InvalidParams(str(error)) from error
    try:
        if message.task_id is None:
            if approvals.KEY in (message.metadata or {}):
                raise InvalidParams(f"{approvals.KEY} needs message.taskId")
            if response is not None:
                raise InvalidParams(f"{hitl_prompt.RESPONSE_KEY} needs message.taskId")
            direct = directory.reply(message)
            if direct is not None:
                return direct
            key = _idempotency_key(request, idempotency_key)
            return create_task(engine, directory, caller, request, key, notify)
        task_id = message.task_id
        config = notify.prepare(caller, task_id) if notify is not None else None
        passed = pass_on(engine, caller, task_id, message) if passes_on(message) else None
        if passed is not None:
            view = passed
        elif approvals.KEY in (message.metadata or {}):
            view = decide(engine, Deciding(caller, task_id, message, response))[1]
        elif response is not None:
            answer = Answer(caller, task_id, response.prompt_id, response.payload, message)
            view = answered_task(engine, answer)
        else:
            key = _idempotency_key(request, idempotency_key)
            view = continue_task(engine, caller, task_id, message, key)
    except EventTooLarge as error:
        raise InvalidParams(f"The message is {error}") from error
    if notify is not None and config is not None:
        keep(notify.push, caller, config, since=config.delivered)
    return view


@dataclass(frozen=True, slots=True)
class InlinePush:
    """The push notification configuration that came with a message."""

    push: Push
    asked: TaskPushNotificationConfig
    extensions: frozenset[str]

    def config(self, caller: Principal, meta: TaskMeta) -> PushConfig:
        """Of a new task."""
        return new_config(self.push, caller, meta, self.asked, self.extensions)

    def prepare(self, caller: Principal, task_id: str) -> PushConfig:
        """Of a task that is there, before the message is admitted."""
        return prepare(self.push, caller, task_id, self.asked, self.extensions)


def _inline_push(
    push: Push | None, request: SendMessageRequest, extensions: frozenset[str]
) -> InlinePush | None:
    asked = request.configuration.task_push_notification_config if request.configuration else None
    if asked is None:
        return None
    if push is None:
        raise PushNotificationNotSupported
    if asked.task_id is not None and asked.task_id != request.message.task_id:
        raise InvalidParams("taskPushNotificationConfig.taskId is not the message's")
    return InlinePush(push, asked, extensions)


def _idempotency_key(request: SendMessageRequest, header: str | None) -> str | None:
    metadata = request.metadata or {}
    named = (request.message.metadata or {}).get(IDEMPOTENCY_METADATA, metadata.get(IDEMPOTENCY_METADATA))
    return checked_key(header if header is not None else named)


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
    skill = directory.route(request.message, _skill_hint(request))
    try:
        terms = parse_terms(request.metadata)
    except MalformedTerms as error:
        raise InvalidParams(str(error)) from error
    message = _unstamped(request.message)
    above = dispatchers_of(engine, caller, message, terms)
    new = New(caller, message, skill, key, notify, terms, _source(request), above)
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
            writes.append(_note_key(new.caller, new.key, task_id, new.message))
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


def _unstamped(message: Message) -> Message:
    """Without stamps of a mode, which a caller has no say in."""
    metadata = message.metadata or {}
    if STAMPS.isdisjoint(metadata):
        return message
    kept = {name: value for name, value in metadata.items() if name not in STAMPS}
    return message.model_copy(update={"metadata": kept or None})


def _source(request: SendMessageRequest) -> str | None:
    """`{interface, channelId?, userId?, agentId?}`: where to tell of the work, never who may decide."""
    said = (request.message.metadata or {}).get(SOURCE, (request.metadata or {}).get(SOURCE))
    if not isinstance(said, dict):
        return None
    kept = {name: text for name in SOURCE_MEMBERS if isinstance(text := said.get(name), str)}
    if "interface" not in kept or any(len(value) > MAX_SOURCE for value in kept.values()):
        return None
    return json.dumps(kept)


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
    earlier = _same_send(noted, new.message)
    view = visible_task(engine, new.caller, earlier)
    moment = look(engine, view.meta)
    moment.refuse()
    if moment.meta is not None and moment.meta.withdrawn and moment.meta.send_key is not None:
        return None
    if new.terms is not None:
        renew(engine, view.meta, new.terms)
    return view


def continue_task(
    engine: Engine, caller: Principal, task_id: str, message: Message, key: str | None
) -> TaskView:
    """A message without an answer goes on with a waiting task, and closes the prompt it did not answer."""
    op, tried = new_id(), None
    refused: Halted | None = None
    for _ in attempts(engine.clock):
        view = visible_task(engine, caller, task_id)
        meta = view.meta
        if tried is not None and landed(engine.table, tried, op):
            break
        noted = engine.table.get(SendKey.key_of(caller.tenant, caller.id, key)) if key is not None else None
        if noted is not None:
            # Of the same message, so of the same task, and woken for when it was admitted.
            _same_send(SendKey.read(noted), message)
            look(engine, meta).refuse()
            return view
        if refused is not None:
            raise refused
        with halted_comes_first(engine, meta):
            check_continuation(meta, message)
            if meta.owner != caller.id:
                raise PermissionDenied("Only the caller that owns the task may go on with it")
        now = engine.clock.now()
        stored = message.model_copy(update={"context_id": meta.context_id})
        event = Event(message=stored, status=status(TaskState.WORKING, now), by=caller.id)
        changes = {
            "turn": meta.turn + 1,
            "inputs": meta.inputs + 1,
            "last_author": caller.id,
            **NOTHING_ASKED,
        }
        moved, writes = move(meta, event, now=now, op=op, changes=changes)
        writes.append(queue_turn(moved, now))
        if meta.ask is not None:
            writes.append(close_ask(meta, meta.ask, Checkpoint.SUPERSEDED, now))
        if key is not None:
            writes.append(_note_key(caller, key, task_id, message))
        writes.extend(unless_halted(meta))
        tried = meta
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes)
            continue
        except OutcomeUnknown:
            continue
        view = TaskView(moved, [*view.events, event])
        break
    engine.waker.wake_turn(caller.tenant, task_id, moved.turn)
    return view


def check_continuation(meta: TaskMeta, message: Message) -> None:
    """Raises unless the task waits for a message (specification 3.1.1, 3.4.3)."""
    if message.context_id is not None and message.context_id != meta.context_id:
        raise InvalidParams("message.contextId is not the task's")
    if meta.task_state.terminal:
        raise UnsupportedOperation("The task has ended; send a new message without taskId")
    if not meta.task_state.interrupted:
        raise UnsupportedOperation("The task is working and takes no message now")
    if meta.held:
        raise UnsupportedOperation("The task waits for leave to start, and takes no message before")


def _note_key(caller: Principal, key: str, task_id: str, message: Message) -> Put:
    row = SendKey(task_id=task_id, digest=_digest(message))
    return Put(SendKey.key_of(caller.tenant, caller.id, key), row.item(), (Missing("v"),))


def _same_send(earlier: SendKey, message: Message) -> str:
    """The task of an earlier send under the same key. Raises `InvalidParams` if it was another message."""
    if earlier.canceled:
        raise SendCanceled(metadata={})
    if earlier.digest != _digest(message):
        raise InvalidParams("The idempotency key was used for another message")
    return earlier.task_id


def _digest(message: Message) -> str:
    text = json.dumps(message.wire(), sort_keys=True, separators=(",", ":"))
    return "sha256:" + sha256(text.encode()).hexdigest()


def _skill_hint(request: SendMessageRequest) -> str | None:
    for metadata in (request.message.metadata, request.metadata):
        hint = (metadata or {}).get(SKILL_HINT)
        if hint is not None:
            if not isinstance(hint, str):
                raise InvalidParams(f"metadata.{SKILL_HINT} must be a string")
            return hint
    return None
