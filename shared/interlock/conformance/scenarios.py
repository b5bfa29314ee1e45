"""CF-1 to CF-7 (hitl-prompt/v1, "Conformance"), each as a function that says its figure or why it failed.

A scenario makes its own tasks and leaves none waiting.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from interlock.a2a.models import JsonObject, TaskState
from interlock.conformance.client import Client, Interface, Reply, extension_of
from interlock.conformance.payloads import NotGenerated, invalid_payloads, valid_payload
from interlock.engine.ports import SchemaGuard
from interlock.oversight.hitl_prompt import (
    RESPONSE_KEY,
    URI,
    Envelope,
    PromptRefused,
    Responders,
    is_prompt_id,
)
from interlock.oversight.schema_gate import PayloadUndecided, SchemaRefused

MIN_TRIALS = 20
RESUME_LIMIT_SECONDS = 1.0
RIVALS = 4
"""Answers sent at once to one prompt."""
MAX_INVALID = 12
"""Payloads that break the schema, tried on one prompt."""
SETTLE_SECONDS = 30.0
"""How long a task may take until it asks, ends, or goes on."""
SHORTEST_PAUSE = 0.005
LONGEST_PAUSE = 0.25


class Failed(Exception):
    """A scenario's requirement is not met. The text may quote the agent: show it as plain text only."""


@dataclass(frozen=True, slots=True)
class Result:
    id: str
    title: str
    passed: bool
    figure: str
    """What was measured, or why it failed."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that waits. `schema` is its response schema."""

    task_id: str
    context_id: str | None
    prompt_id: str
    schema: JsonObject
    envelope: JsonObject


@dataclass
class Run:
    """`payload`, if given, is what a valid answer is; else one is made from the schema."""

    card: Mapping[str, Any]
    interface: Interface
    token: str | None
    prompt_text: str
    guard: SchemaGuard
    payload: JsonObject | None = None
    trials: int = MIN_TRIALS
    seen: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def connect(self) -> Client:
        return Client(self.interface, self.token, URI)

    @contextmanager
    def prompt(self) -> Iterator[Prompt]:
        """A task that waits, over a connection that is closed by then. It is not left waiting."""
        with self.connect() as client:
            prompt = self._read_prompt(self._drive(client))
        try:
            yield prompt
        finally:
            # Tidying up must not hide why a scenario failed.
            with suppress(Failed, httpx.HTTPError), self.connect() as client:
                if _state(_task_of(client.get_task(prompt.task_id))).interrupted:
                    client.cancel(prompt.task_id)

    def valid(self, prompt: Prompt) -> JsonObject:
        if self.payload is not None:
            return self.payload
        try:
            payload = valid_payload(prompt.schema)
            fits = not self.guard.validate(prompt.schema, payload)
        except (NotGenerated, PayloadUndecided) as error:
            raise Failed(
                f"no valid answer can be made from the schema ({error}): give one with --payload"
            ) from error
        if not fits:
            raise Failed("no valid answer can be made from the schema: give one with --payload")
        return payload

    def _drive(self, client: Client) -> JsonObject:
        reply = client.send(user_message(self.prompt_text))
        if not reply.accepted:
            raise Failed(f"the message was refused ({reply})")
        task = settled(client, _task_of(reply))
        if _state(task) != TaskState.INPUT_REQUIRED:
            raise Failed(f"the task is {_state(task)}, not INPUT_REQUIRED: choose another --prompt-text")
        return task

    def _read_prompt(self, task: Mapping[str, Any]) -> Prompt:
        envelope = envelope_of(task)
        if envelope is None:
            raise Failed("INPUT_REQUIRED without the prompt envelope, though the extension was activated")
        prompt_id, schema = envelope.get("prompt_id"), envelope.get("response_schema")
        if not isinstance(prompt_id, str) or not isinstance(schema, dict):
            raise Failed("the envelope has no prompt_id or no response_schema")
        if prompt_id in self.seen:
            raise Failed("a prompt_id was used twice")
        self.seen.add(prompt_id)
        try:
            self.guard.check(schema)
        except SchemaRefused as error:
            raise Failed(f"the response_schema breaks a limit: {error}") from error
        context_id = task.get("contextId")
        return Prompt(
            str(task.get("id")),
            context_id if isinstance(context_id, str) else None,
            prompt_id,
            schema,
            envelope,
        )


def correlation(run: Run) -> str:
    """CF-1: a prompt has an id of its own and is answered once, by that id."""
    entry = extension_of(run.card, URI)
    if entry is None:
        raise Failed("the card does not declare the extension")
    if entry.get("required", False) is not False or entry.get("params", {}) != {}:
        raise Failed("the card declares the extension otherwise than required: false, params: {}")
    with run.connect() as client:
        _no_envelope_unless_activated(run, client)
        with run.prompt() as prompt:
            if not is_prompt_id(prompt.prompt_id):
                raise Failed("prompt_id is not a UUID")
            payload = run.valid(prompt)
            unknown = client.send(answer_message(prompt, payload, prompt_id=str(uuid4())))
            if not unknown.refused_as(409, -32010):
                raise Failed(f"an unknown prompt_id was answered {unknown}, not 409")
            accepted, message = _race(run, prompt, payload)
            if URI.lower() not in accepted.extensions:
                raise Failed("the response does not echo the extension in A2A-Extensions")
            task = settled(client, _task_of(client.get_task(prompt.task_id)), prompt)
            if not left(task, prompt):
                raise Failed("the answer was accepted, but the task does not go on")
            again = client.send(answer_message(prompt, payload))
            if not again.refused_as(409, -32010):
                raise Failed(f"a second answer was answered {again}, not 409")
            repeat = client.send(message)
            run.notes.append(
                "a retry of the accepted message is told that it won"
                if repeat.accepted
                else f"a retry of the accepted message is refused ({repeat})"
            )
    return f"1 of {RIVALS} concurrent answers accepted, {RIVALS + 1} others refused with 409"


def _no_envelope_unless_activated(run: Run, client: Client) -> None:
    reply = client.send(user_message(run.prompt_text), activate=False)
    if not reply.accepted:
        raise Failed(f"without the extension the message was refused ({reply})")
    task = settled(client, _task_of(reply), activate=False)
    if _state(task).interrupted:
        client.cancel(str(task.get("id")))
    if envelope_of(task) is not None:
        raise Failed("the envelope is shown though the extension was not activated")
    if URI.lower() in reply.extensions:
        raise Failed("A2A-Extensions names the extension though it was not activated")


def _race(run: Run, prompt: Prompt, payload: JsonObject) -> tuple[Reply, JsonObject]:
    """The one reply that accepts, and its message."""
    messages = [answer_message(prompt, payload) for _ in range(RIVALS)]

    def send(message: JsonObject) -> Reply:
        with run.connect() as client:
            return client.send(message)

    with ThreadPoolExecutor(RIVALS) as pool:
        replies = list(pool.map(send, messages))
    accepted = [pair for pair in zip(replies, messages, strict=True) if pair[0].accepted]
    if not accepted:
        raise Failed(f"a valid answer was refused ({replies[0]})")
    if len(accepted) > 1:
        raise Failed(f"{len(accepted)} of {RIVALS} concurrent answers were accepted")
    for reply in replies:
        if not reply.accepted and not reply.refused_as(409, -32010):
            raise Failed(f"an answer that lost was answered {reply}, not 409")
    return accepted[0]


def valid_accepted(run: Run) -> str:
    """CF-2: a valid answer is accepted, and the task goes on."""
    with run.prompt() as prompt, run.connect() as client:
        reply = client.send(answer_message(prompt, run.valid(prompt)))
        if not reply.accepted:
            raise Failed(f"a valid answer was refused ({reply})")
        task = settled(client, _task_of(reply), prompt)
        if not left(task, prompt):
            raise Failed("the task does not leave INPUT_REQUIRED")
        if RESPONSE_KEY in _members(task, "status", "message", "metadata"):
            raise Failed("the answer leaks into status.message")
        return f"{reply.status}, then {_state(task)}"


def invalid_refused(run: Run) -> str:
    """CF-3: an answer that breaks the schema is refused with every violation, and the prompt stays open."""
    with run.prompt() as prompt, run.connect() as client:
        valid = run.valid(prompt)
        refused, listed = 0, 0
        for what, payload, expected in _invalid(run, prompt, valid):
            reply = client.send(answer_message(prompt, payload))
            if not reply.refused_as(422, -32011):
                raise Failed(f"{what}: answered {reply}, not 422")
            errors = _validation_errors(reply.document)
            if len(errors) < min(expected, 2):
                raise Failed(f"{what}: {len(errors)} of {expected} violations listed in validation_errors")
            refused, listed = refused + 1, listed + len(errors)
            if not _still_asks(client, prompt):
                raise Failed(f"{what}: the task left INPUT_REQUIRED")
        if not refused:
            raise Failed("no invalid answer can be made: the schema takes everything")
        extra = answer_message(prompt, valid, members={"extra": True})
        if client.send(extra).accepted:
            raise Failed("a hitl_response_for with an extra member was accepted")
        if not _still_asks(client, prompt):
            raise Failed("a malformed hitl_response_for moved the task")
        reply = client.send(answer_message(prompt, valid))
        if not reply.accepted:
            raise Failed(f"after invalid answers the valid one was refused ({reply})")
        return (
            f"{refused} invalid answers refused with 422, {listed} violations listed, then 1 valid accepted"
        )


def _invalid(run: Run, prompt: Prompt, valid: JsonObject) -> Iterator[tuple[str, JsonObject, int]]:
    """Payloads that our own validator refuses too, with the number of places that are wrong."""
    count = 0
    for what, payload in invalid_payloads(prompt.schema, valid):
        try:
            violations = run.guard.validate(prompt.schema, payload)
        except PayloadUndecided:
            continue
        if violations:
            yield what, payload, len({violation.path for violation in violations})
            count += 1
        if count == MAX_INVALID:
            return


def _still_asks(client: Client, prompt: Prompt) -> bool:
    task = _task_of(client.get_task(prompt.task_id))
    return _state(task) == TaskState.INPUT_REQUIRED and not left(task, prompt)


def resume_latency(run: Run) -> str:
    """CF-4: an accepted answer resumes the task within a second."""
    seconds = []
    with run.connect() as client:
        for _ in range(run.trials):
            with run.prompt() as prompt:
                message = answer_message(prompt, run.valid(prompt))
                began = time.monotonic()
                reply = client.send(message, wait=False)
                if not reply.accepted:
                    raise Failed(f"a valid answer was refused ({reply})")
                task, pauses = _task_of(reply), _pauses()
                while not left(task, prompt):
                    if not next(pauses, False):
                        raise Failed("the task does not leave INPUT_REQUIRED")
                    task = _task_of(client.get_task(prompt.task_id))
                seconds.append(time.monotonic() - began)
    worst = p95(seconds)
    figure = f"p95 {worst * 1000:.0f} ms of {len(seconds)} trials"
    if worst > RESUME_LIMIT_SECONDS:
        raise Failed(f"{figure}, more than {RESUME_LIMIT_SECONDS * 1000:.0f} ms")
    return figure


def p95(values: Sequence[float]) -> float:
    """The smallest value that at least 95 of 100 do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def transport_only(run: Run) -> str:
    """CF-5: the envelope holds what is to be asked, and nothing about where or to whom it is shown."""
    with run.prompt() as prompt:
        try:
            envelope = Envelope.from_wire(prompt.envelope)
        except PromptRefused as refused:
            raise Failed(str(refused)) from refused
        if not all(Responders.parse([entry]).recognised for entry in envelope.allowed_responders):
            raise Failed("allowed_responders has an entry other than any, specific:<id>, consensus:<n>")
        if envelope.deadline is not None and envelope.deadline <= datetime.now(UTC):
            raise Failed("the deadline has passed")
        members = sorted(prompt.envelope)
        return f"closed envelope of {len(members)} members: {', '.join(members)}"


def replay(run: Run) -> str:
    """CF-6: the prompt is still there, the same, for a client that comes back."""
    with run.prompt() as prompt, run.connect() as client:
        began = time.monotonic()
        task = _task_of(client.get_task(prompt.task_id))
        took = time.monotonic() - began
        envelope = envelope_of(task) if _state(task) == TaskState.INPUT_REQUIRED else None
        if envelope is None:
            raise Failed("after a reconnect the prompt is not there")
        for member in ("prompt_id", "response_schema"):
            if envelope.get(member) != prompt.envelope[member]:
                raise Failed(f"after a reconnect {member} is another")
        reply = client.send(answer_message(prompt, run.valid(prompt)))
        if not reply.accepted:
            raise Failed(f"after a reconnect the valid answer was refused ({reply})")
        return f"same prompt from a new connection after {took * 1000:.0f} ms, answer accepted"


SCENARIOS: tuple[tuple[str, str, Callable[[Run], str]], ...] = (
    ("CF-1", "prompt_id correlation", correlation),
    ("CF-2", "valid answer accepted", valid_accepted),
    ("CF-3", "invalid answer refused", invalid_refused),
    ("CF-4", "resumes within 1 s", resume_latency),
    ("CF-5", "transport only", transport_only),
    ("CF-6", "replay after disconnect", replay),
)


def scenarios(run: Run) -> Iterator[Result]:
    """Runs one after the other; the last, CF-7, is that all others passed."""
    passed = 0
    for id_, title, scenario in SCENARIOS:
        run.notes.clear()
        try:
            figure = scenario(run)
        except (Failed, NotGenerated) as failed:
            result = Result(id_, title, False, str(failed), tuple(run.notes))
        except httpx.HTTPError as error:
            result = Result(id_, title, False, f"no reply: {type(error).__name__}", tuple(run.notes))
        else:
            passed += 1
            result = Result(id_, title, True, figure, tuple(run.notes))
        yield result
    yield Result("CF-7", "end to end", passed == len(SCENARIOS), f"{passed} of {len(SCENARIOS)} passed")


def user_message(text: str) -> JsonObject:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}


def answer_message(
    prompt: Prompt, payload: JsonObject, *, prompt_id: str | None = None, members: JsonObject | None = None
) -> JsonObject:
    response: JsonObject = {"prompt_id": prompt_id or prompt.prompt_id, "payload": payload, **(members or {})}
    message = user_message("Answer")
    message |= {"taskId": prompt.task_id, "extensions": [URI], "metadata": {RESPONSE_KEY: response}}
    if prompt.context_id is not None:
        message["contextId"] = prompt.context_id
    return message


def settled(
    client: Client, task: JsonObject, prompt: Prompt | None = None, *, activate: bool = True
) -> JsonObject:
    """The task once it rests; with `prompt`, once it does not wait for that one. Or as it is in the end."""
    pauses = _pauses()
    while not _at_rest(_state(task)) or (prompt is not None and not left(task, prompt)):
        if not next(pauses, False):
            break
        task = _task_of(client.get_task(str(task.get("id")), activate=activate))
    return task


def _pauses() -> Iterator[bool]:
    """Waits a little longer each time, until it has been long enough."""
    deadline, pause = time.monotonic() + SETTLE_SECONDS, SHORTEST_PAUSE
    while time.monotonic() < deadline:
        time.sleep(pause)
        yield True
        pause = min(pause * 1.2, LONGEST_PAUSE)


def left(task: Mapping[str, Any], prompt: Prompt) -> bool:
    """The task does not wait for this prompt; it may wait for its next one."""
    envelope = envelope_of(task)
    return _state(task) != TaskState.INPUT_REQUIRED or (
        envelope is not None and envelope.get("prompt_id") != prompt.prompt_id
    )


def envelope_of(task: Mapping[str, Any]) -> JsonObject | None:
    return _members(task, "status", "message", "metadata", URI) or None


def _members(document: Any, *path: str) -> JsonObject:
    """The object at a path, empty where there is none."""
    for step in path:
        document = document.get(step) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _task_of(reply: Reply) -> JsonObject:
    """From the result of SendMessage, which wraps it, or of GetTask, which does not."""
    result = reply.result
    if result is None:
        raise Failed(f"the task can not be read ({reply})")
    task = result.get("task", result)
    if not isinstance(task, dict) or "status" not in task:
        raise Failed("the agent answered with a message, not with a task: choose another --prompt-text")
    return task


def _state(task: Mapping[str, Any]) -> TaskState:
    text = str(_members(task, "status").get("state"))
    try:
        return TaskState(text)
    except ValueError:
        raise Failed(f"the task's state is {text[:60]}, which A2A does not know") from None


def _at_rest(state: TaskState) -> bool:
    return state.terminal or state.interrupted


def _validation_errors(document: Any, depth: int = 0) -> list[JsonObject]:
    """The well-formed entries of `validation_errors`, wherever in the error it stands."""
    if isinstance(document, dict):
        listed = document.get("validation_errors")
        if isinstance(listed, list):
            return [entry for entry in listed if isinstance(entry, dict) and _is_violation(entry)]
        members: list[Any] = list(document.values())
    else:
        members = document if isinstance(document, list) else []
    if depth < 8:
        for member in members:
            found = _validation_errors(member, depth + 1)
            if found:
                return found
    return []


def _is_violation(entry: Mapping[str, Any]) -> bool:
    return all(isinstance(entry.get(member), str) for member in ("path", "keyword", "message"))
