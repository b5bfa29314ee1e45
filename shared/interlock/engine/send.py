"""SendMessage (specification 3.1.1): a new task, or a message or an answer to one that waits."""

from interlock.a2a.errors import (
    InvalidParams,
    PermissionDenied,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SendMessageResponse,
    TaskState,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine.answer import Answer, answered_task
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask, wake_told
from interlock.engine.context import (
    Directory,
    Engine,
    Skill,
    attempts,
    landed,
    move,
    new_id,
    queue_turn,
    status,
)
from interlock.engine.create import create_task
from interlock.engine.decide import Deciding, decide
from interlock.engine.halts import (
    Halted,
    halted_comes_first,
    halted_in,
    look,
    refuse_while_halted,
    unless_halted,
)
from interlock.engine.inline_push import inline_push
from interlock.engine.ports import ConditionFailed, OutcomeUnknown
from interlock.engine.push import Push, keep
from interlock.engine.records import (
    Checkpoint,
    Event,
    EventTooLarge,
    SendKey,
    TaskMeta,
)
from interlock.engine.request_metadata import skill_hint
from interlock.engine.reviewers import pass_on, passes_on
from interlock.engine.send_key import key_of_send, note_key, same_send
from interlock.engine.view import TaskView, present, quorum_progress
from interlock.engine.visibility import check_context, check_tenant, visible_meta, visible_task
from interlock.engine.wait import settled
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.principals import Principal


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
    notify = inline_push(push, request, extensions)
    try:
        response = hitl_prompt.parse_response(message.metadata)
    except hitl_prompt.MalformedResponse as error:
        if message.task_id is None:
            raise InvalidParams(str(error)) from error
        with halted_comes_first(engine, visible_meta(engine, caller, message.task_id)):
            raise InvalidParams(str(error)) from error
    try:
        if message.task_id is None:
            if approvals.KEY in (message.metadata or {}):
                raise InvalidParams(f"{approvals.KEY} needs message.taskId")
            if response is not None:
                raise InvalidParams(f"{hitl_prompt.RESPONSE_KEY} needs message.taskId")
            direct = directory.reply(message)
            if direct is not None:
                refuse_while_halted(engine, caller.tenant, _route(directory, request), message.message_id)
                return direct
            key = key_of_send(request, idempotency_key)
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
            key = key_of_send(request, idempotency_key)
            view = continue_task(engine, caller, task_id, message, key)
    except EventTooLarge as error:
        raise InvalidParams(f"The message is {error}") from error
    if notify is not None and config is not None:
        keep(notify.push, caller, config, since=config.delivered)
    return view


def _route(directory: Directory, request: SendMessageRequest) -> Skill | None:
    """None: a message that is answered directly is for no skill in particular."""
    try:
        return directory.route(request.message, skill_hint(request))
    except InvalidParams:
        return None


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
            same_send(SendKey.read(noted), message)
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
            writes += close_ask(meta, meta.ask, Checkpoint.SUPERSEDED, now, by=caller.id)
        if key is not None:
            writes.append(note_key(caller, key, task_id, message))
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
    if meta.ask is not None:
        wake_told(engine.waker, meta)
    return view


def check_continuation(meta: TaskMeta, message: Message) -> None:
    """Raises unless the task waits for a message (specification 3.1.1, 3.4.3)."""
    check_context(message, meta)
    if meta.task_state.terminal:
        raise UnsupportedOperation("The task has ended; send a new message without taskId")
    if not meta.task_state.interrupted:
        raise UnsupportedOperation("The task is working and takes no message now")
    if meta.held:
        raise UnsupportedOperation("The task waits for leave to start, and takes no message before")
