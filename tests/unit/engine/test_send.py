"""SendMessage: new tasks, messages to waiting ones, idempotency, and how long a call blocks."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import (
    A2AError,
    InvalidParams,
    PermissionDenied,
    PushNotificationNotSupported,
    TaskNotFound,
    Unavailable,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from interlock.agents import Agent, Turn
from interlock.engine.records import MAX_EVENT_BYTES, MAX_TASK_BYTES, Checkpoint
from interlock.engine.send import send_message
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.oversight.principals import Principal

KEY = "an-idempotency-key"


def refused(deployment: Deployment, call: Callable[[], Any]) -> A2AError:
    """The error of a call that stores nothing and wakes nobody."""
    woken = list(deployment.waker.turns)
    with deployment.unchanged(), pytest.raises(A2AError) as caught:
        call()
    assert deployment.waker.turns == woken
    return caught.value


def task_ids(deployment: Deployment) -> set[str]:
    return {key.pk for key in deployment.rows() if key.sk == "META"}


# A new task.


def test_a_message_makes_a_task_with_ids_of_the_servers_own() -> None:
    deployment = Deployment(running(nothing), at_once=False)
    task = deployment.send(message("go", message_id="m-1"))
    assert task.status.state is TaskState.SUBMITTED
    assert task.status.timestamp == "2026-01-01T12:00:00.000Z"
    (said,) = task.history or []
    assert (said.message_id, said.task_id, said.context_id) == ("m-1", task.id, task.context_id)


def test_a_context_of_the_clients_own_is_kept() -> None:
    deployment = Deployment(running(nothing))
    assert deployment.send(message(context_id="my context")).context_id == "my context"


def test_a_new_task_is_stored_with_its_turn_to_run_in_one_write() -> None:
    deployment = Deployment(running(nothing), at_once=False)
    written: list[int] = []
    deployment.hook(
        after=lambda operation, writes: written.append(len(writes)) if operation == "write" else None
    )
    task = deployment.send()
    assert written == [4]
    (run,) = deployment.run_rows().values()
    assert (run["task_id"], run["turn"], run["phase"]) == (task.id, 1, "new")
    assert deployment.waker.turns == [("acme", task.id, 1)]


def test_a_send_is_one_write_and_one_read_of_the_halts_after_it() -> None:
    deployment = Deployment(running(nothing), at_once=False)
    calls: list[str] = []
    deployment.hook(before=lambda operation, arguments: calls.append(operation))
    deployment.send()
    assert calls == ["write", "snapshot"]


@pytest.mark.parametrize("who", [ANN, OPS, PLATFORM, NOBODY], ids=lambda who: who.id)
def test_only_a_caller_may_start_a_task(who: Principal) -> None:
    deployment = Deployment(running(nothing))
    assert isinstance(refused(deployment, lambda: deployment.send("go", who)), PermissionDenied)


def test_a_message_to_a_task_that_is_not_there_is_refused() -> None:
    deployment = Deployment(running(nothing))
    error = refused(deployment, lambda: deployment.send(message(task_id="none")))
    assert isinstance(error, TaskNotFound)
    assert error.metadata == {"taskId": "none"}


def test_a_message_of_an_agent_is_refused() -> None:
    deployment = Deployment(running(nothing))
    said = message(role=Role.AGENT)
    assert isinstance(refused(deployment, lambda: deployment.send(said)), InvalidParams)


def test_a_push_configuration_is_refused() -> None:
    deployment = Deployment(running(nothing))
    configuration = SendMessageConfiguration(
        task_push_notification_config=TaskPushNotificationConfig(url="https://example.com")
    )
    request = SendMessageRequest(message=message(), configuration=configuration)
    error = refused(
        deployment,
        lambda: send_message(deployment.engine, deployment.agent, AGENT, request, extensions=frozenset()),
    )
    assert isinstance(error, PushNotificationNotSupported)


def test_the_tenant_of_a_request_is_the_callers_own_or_none() -> None:
    deployment = Deployment(running(nothing))
    deployment.send(tenant="acme")
    deployment.send(tenant="")
    assert isinstance(refused(deployment, lambda: deployment.send(tenant="other")), InvalidParams)


def test_a_skill_is_named_by_the_message_or_by_the_request() -> None:
    deployment = Deployment(two_skills())
    assert said(deployment.send(message("b"))) == "a"
    assert said(deployment.send(message("a", metadata={"skillHint": "b"}))) == "b"
    assert said(deployment.send("a", metadata={"skillHint": "b"})) == "b"
    assert (
        said(deployment.send(message("a", metadata={"skillHint": "a"}), metadata={"skillHint": "b"})) == "a"
    )


@pytest.mark.parametrize("hint", ["c", "", 1, ["a"], {}])
def test_a_hint_that_names_no_skill_is_refused(hint: Any) -> None:
    deployment = Deployment(two_skills())
    error = refused(deployment, lambda: deployment.send(message("a", metadata={"skillHint": hint})))
    assert isinstance(error, InvalidParams)


def two_skills() -> Agent:
    agent = Agent("desk", "Two skills")

    @agent.skill("a", "Says a")
    async def a(turn: Turn) -> None:
        await turn.complete("a")

    @agent.skill("b", "Says b")
    async def b(turn: Turn) -> None:
        await turn.complete("b")

    return agent


def said(task: Any) -> str:
    text: str = task.status.message.text
    return text


def test_a_direct_reply_needs_no_task() -> None:
    agent = running(nothing)
    agent.reply_with(lambda message: "hi" if message.text == "hello" else None)
    deployment = Deployment(agent)
    with deployment.unchanged():
        reply = deployment.sent(message("hello", context_id="c-1"))
    assert reply.task is None
    assert reply.message is not None
    assert (reply.message.text, reply.message.role, reply.message.context_id) == ("hi", Role.AGENT, "c-1")
    assert deployment.send("go").status.state is TaskState.COMPLETED


def test_a_message_that_is_too_large_to_be_stored_is_refused_with_the_limit_named() -> None:
    deployment = Deployment(asking())
    noise = random.Random(0).randbytes(MAX_EVENT_BYTES).hex()
    waiting = deployment.send().id
    for more in ({}, {"task_id": waiting}):
        large = message(parts=[Part(text=noise), Part(text=noise)], **more)
        error = refused(deployment, lambda large=large: deployment.send(large))  # type: ignore[misc]
        assert isinstance(error, InvalidParams)
        assert str(MAX_EVENT_BYTES) in error.message


def test_an_answer_that_is_too_large_to_be_stored_is_refused_and_not_consumed() -> None:
    deployment = Deployment(asking(schema={"type": "object"}))
    task_id = deployment.send().id
    noise = random.Random(0).randbytes(MAX_EVENT_BYTES + 4096).hex()
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, {"noise": noise}))
    assert isinstance(error, InvalidParams)
    assert str(MAX_EVENT_BYTES) in error.message


def test_a_large_message_is_kept_compressed_and_read_back_whole() -> None:
    deployment = Deployment(running(nothing))
    text = "interlock " * 20_000
    task = deployment.send(text)
    (said,) = deployment.get(task.id).history or []
    assert said.text == text
    packed = [item["packed"] for item in deployment.rows().values() if "packed" in item]
    assert packed
    assert all(isinstance(body, bytes) and len(body) < 10_000 for body in packed)


def test_a_task_has_room_for_so_much_and_then_still_for_its_end() -> None:
    """However well its messages compress: whoever reads the task reads them whole."""

    async def asks_again(turn: Turn) -> None:
        await turn.ask("Again?")

    deployment = Deployment(running(asks_again))
    task = deployment.send()

    def fill() -> None:
        for _ in range(20):
            deployment.send(message("y" * 250_000, task_id=task.id))

    with pytest.raises(InvalidParams, match=str(MAX_TASK_BYTES)):
        fill()
    whole = deployment.get(task.id)
    assert MAX_TASK_BYTES - 300_000 < len(whole.wire_json()) < MAX_TASK_BYTES + 100_000
    assert deployment.cancel(task.id).status.state is TaskState.CANCELED


# A message to a waiting task.


def test_a_plain_message_of_the_owner_goes_on_without_an_answer_and_supersedes_the_prompt() -> None:
    seen: list[Any] = []

    async def then(turn: Turn) -> None:
        seen.append((turn.answer, turn.message.text))
        await turn.complete()

    deployment = Deployment(asking(then=then))
    task_id = deployment.send().id
    prompt_id = deployment.open_prompt(task_id)
    task = deployment.send(message("never mind", task_id=task_id))
    assert task.status.state is TaskState.COMPLETED
    assert seen == [(None, "never mind")]
    (prompt,) = deployment.prompts(task_id)
    assert (prompt.status, prompt.view) == (Checkpoint.SUPERSEDED, "DONE#acme")
    error = refused(
        deployment, lambda: deployment.answer(ANN, task_id, {"approved": True}, prompt_id=prompt_id)
    )
    assert error.http_status == 409


def test_a_task_alone_says_which_context_a_message_belongs_to() -> None:
    deployment = Deployment(asking())
    task = deployment.send(message(context_id="c-1"))
    went_on = deployment.send(message("on", task_id=task.id))
    assert went_on.context_id == "c-1"
    assert {said.context_id for said in went_on.history or []} == {"c-1"}


def test_another_context_than_the_tasks_is_refused() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    stray = message("on", task_id=task_id, context_id="another")
    assert isinstance(refused(deployment, lambda: deployment.send(stray)), InvalidParams)


@pytest.mark.parametrize("who", [ANN, OPS], ids=["an approver", "an operator"])
def test_who_sees_a_task_without_owning_it_may_not_go_on_with_it(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    error = refused(deployment, lambda: deployment.send(message(task_id=task_id), who))
    assert isinstance(error, PermissionDenied)


@pytest.mark.parametrize("who", [PEER, PLATFORM, NOBODY, SPY], ids=lambda who: f"{who.tenant} {who.id}")
def test_who_does_not_see_a_task_is_told_that_it_is_not_there(who: Principal) -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    error = refused(deployment, lambda: deployment.send(message(task_id=task_id), who))
    assert isinstance(error, TaskNotFound)


def test_a_working_task_takes_no_message() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    error = refused(deployment, lambda: deployment.send(message(task_id=task_id)))
    assert isinstance(error, UnsupportedOperation)
    assert error.code == -32004


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_a_task_that_is_over_takes_no_message(end: str) -> None:
    deployment = Deployment(asking() if end == "cancel" else running(nothing))
    task_id = deployment.send().id
    if end == "cancel":
        deployment.cancel(task_id)
    error = refused(deployment, lambda: deployment.send(message(task_id=task_id)))
    assert isinstance(error, UnsupportedOperation)


def test_a_continuation_whose_reply_was_lost_is_stored_once_and_woken_for() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    deployment.hook(after=once("write", no_answer))
    task = deployment.send(message("on", task_id=task_id))
    assert [said.text for said in task.history or []].count("on") == 1
    assert deployment.waker.turns == [("acme", task_id, 2)]


def test_of_a_continuation_and_an_answer_at_once_one_is_refused() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()

    def answered() -> None:
        deployment.answer(ANN, task_id, {"approved": True})

    deployment.hook(before=once("write", answered))
    with pytest.raises(UnsupportedOperation):
        deployment.send(message("on", task_id=task_id))
    assert [prompt.status for prompt in deployment.prompts(task_id)] == [Checkpoint.ANSWERED]


# Idempotency.


def test_without_a_key_the_same_message_makes_two_tasks() -> None:
    deployment = Deployment(running(nothing))
    deployment.send(message(message_id="m-1"))
    deployment.send(message(message_id="m-1"))
    assert len(task_ids(deployment)) == 2


def in_metadata(message: Message) -> Message:
    return message.model_copy(update={"metadata": {IDEMPOTENCY_METADATA: KEY}})


WAYS: dict[str, Callable[[Deployment, Message], Any]] = {
    "header": lambda deployment, message: deployment.send(message, key=KEY),
    "message": lambda deployment, message: deployment.send(in_metadata(message)),
    "request": lambda deployment, message: deployment.send(message, metadata={IDEMPOTENCY_METADATA: KEY}),
}


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS.keys())
def test_a_send_that_is_repeated_under_its_key_makes_one_task(
    send: Callable[[Deployment, Message], Any],
) -> None:
    deployment = Deployment(asking())
    once_only = message(message_id="m-1")
    task = send(deployment, once_only)
    with deployment.unchanged():
        again = send(deployment, once_only)
    assert again == task


@pytest.mark.parametrize("send", WAYS.values(), ids=WAYS.keys())
def test_a_key_of_another_message_is_refused(send: Callable[[Deployment, Message], Any]) -> None:
    deployment = Deployment(asking())
    send(deployment, message("go", message_id="m-1"))
    error = refused(deployment, lambda: send(deployment, message("stop", message_id="m-1")))
    assert isinstance(error, InvalidParams)


@pytest.mark.parametrize("key", ["", "short", "k" * 256, "k" * 15 + "#", "k" * 15 + "é", "k" * 16 + "\n"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    deployment = Deployment(asking())
    assert isinstance(refused(deployment, lambda: deployment.send(key=key)), InvalidParams)


@pytest.mark.parametrize("key", [1, True, ["k" * 16], {}])
def test_a_key_in_the_metadata_that_is_no_text_is_refused(key: Any) -> None:
    deployment = Deployment(asking())
    sent = message(metadata={IDEMPOTENCY_METADATA: key})
    assert isinstance(refused(deployment, lambda: deployment.send(sent)), InvalidParams)


def test_a_key_is_the_callers_own() -> None:
    deployment = Deployment(asking())
    sent = message(message_id="m-1")
    ids = {deployment.send(sent, who, key=KEY).id for who in (AGENT, PEER, SPY)}
    assert len(ids) == 3


def test_a_continuation_that_is_repeated_under_its_key_goes_on_once() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    on = message("on", task_id=task_id)
    task = deployment.send(on, key=KEY)
    with deployment.unchanged():
        again = deployment.send(on, key=KEY)
    assert again == task


def test_a_key_of_a_new_task_is_not_one_of_a_continuation() -> None:
    deployment = Deployment(asking())
    sent = message(message_id="m-1")
    task_id = deployment.send(sent, key=KEY).id
    on = sent.model_copy(update={"task_id": task_id})
    assert isinstance(refused(deployment, lambda: deployment.send(on, key=KEY)), InvalidParams)


@pytest.mark.parametrize("key", [KEY, None], ids=["with a key", "without"])
def test_a_send_whose_reply_was_lost_is_stored_once(key: str | None) -> None:
    deployment = Deployment(asking())
    deployment.hook(after=once("write", no_answer))
    task = deployment.send(key=key)
    assert len(task_ids(deployment)) == 1
    assert deployment.meta(task.id).task_state is TaskState.INPUT_REQUIRED


def test_a_retry_while_the_first_send_is_on_its_way_gets_the_same_task() -> None:
    deployment = Deployment(asking())
    sent, earlier = message(), []

    def faster() -> None:
        earlier.append(deployment.send(sent, key=KEY).id)

    deployment.hook(before=once("write", faster))
    assert [deployment.send(sent, key=KEY).id] == earlier
    assert len(task_ids(deployment)) == 1


def test_a_retry_of_a_continuation_while_the_first_is_on_its_way_is_told_the_same() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    on = message("on", task_id=task_id)

    def faster() -> None:
        deployment.send(on, key=KEY)

    deployment.hook(before=once("write", faster))
    task = deployment.send(on, key=KEY)
    assert [said.text for said in task.history or []].count("on") == 1


def test_a_store_that_does_not_answer_is_unavailable_and_nothing_is_told_of_it() -> None:
    deployment = Deployment(asking())
    deployment.hook(before=lambda operation, arguments: no_answer() if operation == "write" else None)
    error = refused(deployment, deployment.send)
    assert isinstance(error, Unavailable)
    assert error.message == "Temporarily unavailable, try again"


# How long a call blocks.


def test_a_blocking_send_waits_until_the_task_has_settled() -> None:
    deployment = Deployment(asking(), at_once=False)
    looked = 0

    def worker(operation: str, arguments: tuple[Any, ...]) -> None:
        nonlocal looked
        if operation == "query":
            looked += 1
            if looked == 3:
                deployment.work()

    deployment.hook(before=worker)
    began = deployment.clock.now()
    task = deployment.send(return_immediately=False)
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert looked >= 3
    assert (deployment.clock.now() - began).total_seconds() < 1


def test_a_blocking_send_that_takes_too_long_answers_with_the_task_as_it_is() -> None:
    deployment = Deployment(asking(), at_once=False)
    began = deployment.clock.now()
    task = deployment.send(return_immediately=False)
    assert task.status.state is TaskState.SUBMITTED
    waited = (deployment.clock.now() - began).total_seconds()
    assert deployment.limits.blocking - 1 < waited <= deployment.limits.blocking


def test_a_send_that_returns_immediately_does_not_wait() -> None:
    deployment = Deployment(asking(), at_once=False)
    began = deployment.clock.now()
    deployment.send(return_immediately=True)
    assert deployment.clock.now() == began


def test_a_blocking_answer_waits_for_what_comes_of_it() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    task = deployment.answer(ANN, task_id, {"approved": True}, return_immediately=False)
    assert task.status.state is TaskState.COMPLETED


def test_a_send_shows_as_much_history_as_was_asked_for() -> None:
    deployment = Deployment(asking())
    task_id = deployment.send().id
    on = message("on", task_id=task_id)
    task = deployment.send(on, history_length=1)
    assert [said.text for said in task.history or []] == ["on"]
    assert deployment.send(history_length=0).history is None


def test_whatever_a_clients_ids_hold_they_stay_within_its_tenant() -> None:
    deployment = Deployment(asking())
    for odd in ("T#other#x", "#", "META", "\x00", "é" * 256):
        error = refused(deployment, lambda odd=odd: deployment.send(message(task_id=odd)))  # type: ignore[misc]
        assert isinstance(error, TaskNotFound)
    deployment.send(message(context_id="T#other#META", message_id="#"), key="T:other:META.key")
    partitions = {key.pk for key in deployment.rows()}
    assert {pk.split("#")[1] for pk in partitions if pk.startswith(("T#", "IDEM#"))} == {"acme"}
