"""An answer to a prompt: every row of hitl-prompt/v1, "Acceptance and rejection", and their order."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    BEN,
    BOT,
    CLEO,
    NOBODY,
    OPS,
    PEER,
    PLATFORM,
    PROMPTS,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    once,
)

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound, Unavailable
from interlock.a2a.models import TaskState
from interlock.adapters.schema_worker import SchemaWorker
from interlock.agents import Turn
from interlock.engine.answer import Admitted, Answer, admit_answer
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerInvalid, AnswerRefused
from interlock.engine.ports import Key
from interlock.engine.records import Checkpoint, Event, read_event
from interlock.oversight import hitl_prompt
from interlock.oversight.principals import Principal
from interlock.oversight.schema_gate import Violation

YES, NO = {"approved": True}, {"approved": False}
IN_VAIN = {"approved": "yes please"}
MINUTE = timedelta(minutes=1)


def waiting(**options: Any) -> tuple[Deployment, str]:
    """A deployment with one task that waits for an answer."""
    deployment = Deployment(asking(**options))
    return deployment, deployment.send().id


def expire(deployment: Deployment) -> None:
    for key in deployment.due_rows():
        handle_due(deployment.engine, key)


def events(deployment: Deployment, task_id: str) -> list[Event]:
    pk = deployment.meta(task_id).key.pk
    return [
        read_event(item)
        for key, item in sorted(deployment.rows().items(), key=by_sort_key)
        if key.pk == pk and key.sk.startswith("EVT#")
    ]


def by_sort_key(row: tuple[Key, Any]) -> str:
    return row[0].sk


# The rows of the table.


def test_a_valid_answer_is_accepted_and_the_task_goes_on_with_it() -> None:
    seen: list[Any] = []

    async def then(turn: Turn) -> None:
        seen.append(turn.answer)
        await turn.complete("done")

    deployment, task_id = waiting(then=then)
    prompt_id = deployment.open_prompt(task_id)
    task = deployment.answer(ANN, task_id, YES)
    assert task.status.state is TaskState.COMPLETED
    (answer,) = seen
    assert (answer.prompt_id, answer.payload, answer.responder) == (prompt_id, YES, ANN.id)


def test_an_accepted_answer_takes_the_task_out_of_input_required_before_its_caller_is_told() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    task = deployment.answer(ANN, task_id, YES)
    assert task.status.state is TaskState.WORKING
    assert task.status.message is None
    assert len(deployment.waker.turns) == 1


def test_an_accepted_answer_consumes_its_prompt() -> None:
    deployment, task_id = waiting()
    deployment.answer(ANN, task_id, YES, message_id="m-1")
    (prompt,) = deployment.prompts(task_id)
    assert prompt.status == Checkpoint.ANSWERED
    assert (prompt.view, prompt.view_at) == ("DONE#acme", f"{prompt.closed_at}#{prompt.ask_id}")
    assert json.loads(prompt.winner or "")[:2] == [ANN.id, "m-1"]


@pytest.mark.parametrize("who", [ANN, BOT, AGENT], ids=["a person", "a service", "the owner"])
def test_an_approver_and_the_owner_may_answer(who: Principal) -> None:
    deployment, task_id = waiting()
    assert deployment.answer(who, task_id, YES).status.state is TaskState.COMPLETED


def refused(deployment: Deployment, answer: Callable[[], Any]) -> A2AError:
    """The error of an answer that stores nothing."""
    with deployment.unchanged(), pytest.raises(A2AError) as caught:
        answer()
    return caught.value


def test_an_unknown_prompt_is_a_conflict() -> None:
    deployment, task_id = waiting()
    unknown = str(uuid4())
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, YES, prompt_id=unknown))
    assert isinstance(error, AnswerRefused)
    assert (error.http_status, error.code, error.message) == (409, -32010, "hitl_already_answered_or_unknown")
    assert error.extension_data == {"extension": hitl_prompt.URI, "prompt_id": unknown}


def test_a_wrong_prompt_is_a_conflict_even_with_a_payload_that_would_break_the_schema() -> None:
    deployment, task_id = waiting()
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, IN_VAIN, prompt_id=str(uuid4())))
    assert error.http_status == 409


def test_an_answered_prompt_is_a_conflict_that_names_the_winner() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES)
    error = refused(deployment, lambda: deployment.answer(BEN, task_id, NO, prompt_id=prompt_id))
    assert isinstance(error, AnswerRefused)
    assert error.metadata == {"winner": ANN.id}


def test_the_prompt_of_another_task_is_a_conflict() -> None:
    deployment, task_id = waiting()
    other = deployment.open_prompt(deployment.send().id)
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, YES, prompt_id=other))
    assert isinstance(error, AnswerRefused)
    assert error.metadata == {}


def test_the_prompt_of_another_tenants_task_is_as_unknown_as_one_that_never_was() -> None:
    deployment, task_id = waiting()
    spied = deployment.send("go", SPY).id
    told = [
        refused(deployment, lambda prompt=prompt: deployment.answer(SPY, spied, YES, prompt_id=prompt))  # type: ignore[misc]
        for prompt in (deployment.open_prompt(task_id), str(uuid4()))
    ]
    assert [type(error) for error in told] == [AnswerRefused, AnswerRefused]
    assert [error.metadata for error in told] == [{}, {}]


def test_a_task_that_does_not_wait_is_a_conflict() -> None:
    deployment = Deployment(asking(), at_once=False)
    task_id = deployment.send().id
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, YES, prompt_id=str(uuid4())))
    assert isinstance(error, AnswerRefused)


@pytest.mark.parametrize("state", [TaskState.COMPLETED, TaskState.CANCELED])
def test_a_task_that_is_over_is_a_conflict(state: TaskState) -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    if state is TaskState.COMPLETED:
        deployment.answer(ANN, task_id, YES)
    else:
        deployment.cancel(task_id)
    error = refused(deployment, lambda: deployment.answer(BEN, task_id, YES, prompt_id=prompt_id))
    assert isinstance(error, AnswerRefused)
    assert "reason" not in (error.extension_data or {})


def test_a_payload_that_breaks_the_schema_is_told_all_violations_and_the_prompt_stays_answerable() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    wrong = {"approved": "yes please", "extra_unknown_field": 42}
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, wrong))
    assert isinstance(error, AnswerInvalid)
    assert (error.http_status, error.code, error.message) == (422, -32011, "hitl_response_invalid")
    data = error.extension_data or {}
    assert (data["extension"], data["prompt_id"]) == (hitl_prompt.URI, prompt_id)
    violations: Any = data["validation_errors"]
    assert {(found["path"], found["keyword"]) for found in violations} == {
        ("/approved", "type"),
        ("/extra_unknown_field", "additionalProperties"),
    }
    assert all(found["message"] for found in violations)
    assert deployment.get(task_id).status.state is TaskState.INPUT_REQUIRED
    assert deployment.answer(ANN, task_id, YES).status.state is TaskState.COMPLETED


@pytest.mark.parametrize(
    ("schema", "payload", "path", "keyword"),
    [
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"a": "z"}, "/a", "enum"),
        ({"properties": {"a": {"const": 1}}}, {"a": 2}, "/a", "const"),
        ({"properties": {"a": {"maxLength": 1}}}, {"a": "zz"}, "/a", "maxLength"),
        ({"properties": {"a": {"pattern": "^x"}}}, {"a": "z"}, "/a", "pattern"),
        ({"properties": {"a": {"minimum": 3}}}, {"a": 2}, "/a", "minimum"),
        ({"properties": {"a": {"multipleOf": 2}}}, {"a": 3}, "/a", "multipleOf"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 2.5}, "/a", "type"),
        ({"properties": {"a": {"type": "null"}}}, {"a": 1}, "/a", "type"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "/a/1", "type"),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, 1]}, "/a", "uniqueItems"),
        ({"properties": {"a": {"properties": {"b": {"type": "string"}}}}}, {"a": {"b": 1}}, "/a/b", "type"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1, "b": 1}, "", "oneOf"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "", "dependentRequired"),
        ({"minProperties": 1}, {}, "", "minProperties"),
    ],
)
def test_every_keyword_of_a_schema_counts(
    schema: dict[str, Any], payload: dict[str, Any], path: str, keyword: str
) -> None:
    deployment, task_id = waiting(schema={"type": "object", **schema})
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, payload))
    found: Any = (error.extension_data or {})["validation_errors"]
    assert (path, keyword) in {(one["path"], one["keyword"]) for one in found}


def test_a_payload_that_no_digest_can_be_made_of_is_invalid() -> None:
    deployment, task_id = waiting(schema={"type": "object"})
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, {"n": 2**53}))
    assert isinstance(error, AnswerInvalid)


class LenientGuard(SchemaWorker):
    def validate(self, schema: Mapping[str, Any], payload: Any) -> list[Violation]:
        return []


def test_without_a_digest_a_payload_is_invalid_whatever_the_guard_says() -> None:
    deployment = Deployment(asking(), guard=LenientGuard())
    task_id = deployment.send().id
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, {"n": 2**53}))
    assert isinstance(error, AnswerInvalid)


@pytest.mark.parametrize(
    "said",
    [
        None,
        "yes",
        [],
        {},
        {"prompt_id": str(uuid4())},
        {"payload": YES},
        {"prompt_id": str(uuid4()), "payload": YES, "by": "ann"},
        {"prompt_id": str(uuid4()), "payload": [YES]},
        {"prompt_id": str(uuid4()), "payload": None},
        {"prompt_id": "1", "payload": YES},
        {"prompt_id": 1, "payload": YES},
    ],
)
def test_a_malformed_response_is_an_invalid_parameter(said: Any) -> None:
    deployment, task_id = waiting()
    answer = message(task_id=task_id, metadata={"hitl_response_for": said})
    error = refused(deployment, lambda: deployment.send(answer, ANN))
    assert isinstance(error, InvalidParams)
    assert (error.http_status, error.code) == (400, -32602)


def test_an_extra_member_is_refused_even_where_all_else_is_right() -> None:
    deployment, task_id = waiting()
    said = {"prompt_id": deployment.open_prompt(task_id), "payload": YES, "extra": True}
    answer = message(task_id=task_id, metadata={"hitl_response_for": said})
    assert isinstance(refused(deployment, lambda: deployment.send(answer, ANN)), InvalidParams)


def test_a_response_without_a_task_is_an_invalid_parameter() -> None:
    deployment, task_id = waiting()
    said = {"prompt_id": deployment.open_prompt(task_id), "payload": YES}
    answer = message(metadata={"hitl_response_for": said})
    assert isinstance(refused(deployment, lambda: deployment.send(answer)), InvalidParams)


def test_another_context_than_the_tasks_is_an_invalid_parameter() -> None:
    deployment, task_id = waiting()
    said = {"prompt_id": deployment.open_prompt(task_id), "payload": YES}
    answer = message(task_id=task_id, context_id="another", metadata={"hitl_response_for": said})
    assert isinstance(refused(deployment, lambda: deployment.send(answer, ANN)), InvalidParams)


def test_a_prompt_is_found_by_its_id_in_capitals() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id).upper()
    assert deployment.answer(ANN, task_id, YES, prompt_id=prompt_id).status.state is TaskState.COMPLETED


def test_after_the_deadline_an_answer_is_a_conflict_because_it_expired() -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    prompt_id = deployment.open_prompt(task_id)
    deployment.clock.advance(60)
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, YES))
    assert (error.http_status, error.code) == (409, -32010)
    assert error.extension_data == {
        "extension": hitl_prompt.URI,
        "prompt_id": prompt_id,
        "reason": "expired",
    }


def test_before_the_deadline_an_answer_is_in_time() -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    deployment.clock.advance(59.999)
    assert deployment.answer(ANN, task_id, YES).status.state is TaskState.COMPLETED


@pytest.mark.parametrize("who", [OPS, AGENT], ids=["an operator", "the owner"])
def test_who_may_not_respond_is_denied(who: Principal) -> None:
    deployment, task_id = waiting(allowed_responders=[f"specific:{ANN.id}"])
    error = refused(deployment, lambda: deployment.answer(who, task_id, YES))
    assert isinstance(error, PermissionDenied)
    assert (error.http_status, error.code, error.jsonrpc_http_status) == (403, -32600, 403)
    assert deployment.answer(ANN, task_id, YES).status.state is TaskState.COMPLETED


def test_an_operator_may_look_and_not_answer() -> None:
    deployment, task_id = waiting()
    assert deployment.get(task_id, OPS).status.state is TaskState.INPUT_REQUIRED
    assert isinstance(refused(deployment, lambda: deployment.answer(OPS, task_id, YES)), PermissionDenied)


def test_named_responders_are_alternatives_and_need_no_role() -> None:
    deployment, task_id = waiting(allowed_responders=[f"specific:{ANN.id}", f"specific:{NOBODY.id}"])
    assert isinstance(refused(deployment, lambda: deployment.answer(BEN, task_id, YES)), PermissionDenied)
    assert deployment.answer(NOBODY, task_id, YES).status.state is TaskState.COMPLETED


def test_any_lifts_the_restriction_to_names() -> None:
    deployment, task_id = waiting(allowed_responders=["any", f"specific:{NOBODY.id}"])
    assert deployment.answer(BEN, task_id, YES).status.state is TaskState.COMPLETED


@pytest.mark.parametrize("who", [NOBODY, PEER, PLATFORM, SPY], ids=lambda who: f"{who.tenant} {who.id}")
def test_a_task_that_the_caller_does_not_see_is_not_there(who: Principal) -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    told = refused(deployment, lambda: deployment.answer(who, task_id, YES, prompt_id=prompt_id))
    unknown = str(uuid4())
    nothing = refused(deployment, lambda: deployment.answer(who, unknown, YES, prompt_id=prompt_id))
    assert type(told) is type(nothing) is TaskNotFound
    assert told.message == nothing.message
    assert (told.metadata, nothing.metadata) == ({"taskId": task_id}, {"taskId": unknown})


# Replays.


def test_a_retry_of_the_accepted_answer_is_told_that_it_won_and_changes_nothing() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    won = deployment.answer(ANN, task_id, YES, message_id="m-1")
    with deployment.unchanged():
        again = deployment.answer(ANN, task_id, YES, message_id="m-1", prompt_id=prompt_id)
    assert again == won


def test_an_equal_payload_is_equal_whatever_the_order_of_its_members() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, {"approved": True, "comment": "ok"}, message_id="m-1")
    with deployment.unchanged():
        deployment.answer(
            ANN, task_id, {"comment": "ok", "approved": True}, message_id="m-1", prompt_id=prompt_id
        )


@pytest.mark.parametrize(
    ("who", "message_id", "payload"),
    [(ANN, "m-2", YES), (ANN, "m-1", NO), (BEN, "m-1", YES)],
    ids=["another message", "another payload", "another person"],
)
def test_what_is_not_the_same_answer_is_no_replay(
    who: Principal, message_id: str, payload: dict[str, Any]
) -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES, message_id="m-1")
    error = refused(
        deployment,
        lambda: deployment.answer(who, task_id, payload, message_id=message_id, prompt_id=prompt_id),
    )
    assert isinstance(error, AnswerRefused)


def test_a_replay_comes_before_a_later_question_and_before_the_end_of_the_task() -> None:
    async def ask_again(turn: Turn) -> None:
        if len(turn.answers) == 1:
            await turn.ask("And now?", APPROVAL)

    deployment, task_id = waiting(then=ask_again)
    first = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES, message_id="m-1")
    with deployment.unchanged():
        asked = deployment.answer(ANN, task_id, YES, message_id="m-1", prompt_id=first)
    assert asked.status.state is TaskState.INPUT_REQUIRED
    deployment.cancel(task_id)
    with deployment.unchanged():
        over = deployment.answer(ANN, task_id, YES, message_id="m-1", prompt_id=first)
    assert over.status.state is TaskState.CANCELED


def test_a_replay_comes_before_the_deadline() -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES, message_id="m-1")
    deployment.clock.advance(3600)
    with deployment.unchanged():
        deployment.answer(ANN, task_id, YES, message_id="m-1", prompt_id=prompt_id)


# The order in which the rows are looked at.


def test_a_malformed_response_is_told_to_who_sees_the_task() -> None:
    deployment, task_id = waiting()
    answer = message(task_id=task_id, metadata={"hitl_response_for": {}})
    assert isinstance(refused(deployment, lambda: deployment.send(answer, ANN)), InvalidParams)
    assert isinstance(refused(deployment, lambda: deployment.send(answer, SPY)), TaskNotFound)


@pytest.mark.parametrize("payload", [YES, IN_VAIN, {"n": 2**53}], ids=["valid", "invalid", "no digest"])
def test_not_found_comes_before_all_else(payload: dict[str, Any]) -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    prompt_id = deployment.open_prompt(task_id)
    for _ in range(2):
        error = refused(deployment, lambda: deployment.answer(PEER, task_id, payload, prompt_id=prompt_id))
        assert isinstance(error, TaskNotFound)
        deployment.clock.advance(60)


@pytest.mark.parametrize("payload", [YES, IN_VAIN, {"n": 2**53}], ids=["valid", "invalid", "no digest"])
def test_a_closed_prompt_comes_before_the_right_to_answer_it(payload: dict[str, Any]) -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES)
    error = refused(deployment, lambda: deployment.answer(OPS, task_id, payload, prompt_id=prompt_id))
    assert isinstance(error, AnswerRefused)


@pytest.mark.parametrize("payload", [YES, IN_VAIN, {"n": 2**53}], ids=["valid", "invalid", "no digest"])
def test_the_right_to_answer_comes_before_the_deadline_and_the_payload(payload: dict[str, Any]) -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    for _ in range(2):
        error = refused(deployment, lambda: deployment.answer(OPS, task_id, payload))
        assert isinstance(error, PermissionDenied)
        deployment.clock.advance(60)


@pytest.mark.parametrize("payload", [YES, IN_VAIN, {"n": 2**53}], ids=["valid", "invalid", "no digest"])
def test_the_deadline_comes_before_the_payload(payload: dict[str, Any]) -> None:
    deployment, task_id = waiting(deadline=MINUTE)
    deployment.clock.advance(60)
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, payload))
    assert isinstance(error, AnswerRefused)


# Races, and writes whose reply is lost.


def admit(deployment: Deployment, who: Principal, task_id: str, prompt_id: str, payload: Any) -> Admitted:
    said = {"prompt_id": prompt_id, "payload": payload}
    answer = message(message_id=f"m-{who.id}", task_id=task_id, metadata={"hitl_response_for": said})
    return admit_answer(deployment.engine, Answer(who, task_id, prompt_id, payload, answer))


def test_of_two_answers_at_once_one_is_accepted_and_the_other_told_who_won() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)

    def ben_is_faster() -> None:
        assert admit(deployment, BEN, task_id, prompt_id, NO) is Admitted.ACCEPTED

    deployment.hook(before=once("write", ben_is_faster))
    with pytest.raises(AnswerRefused) as caught:
        admit(deployment, ANN, task_id, prompt_id, YES)
    assert caught.value.metadata == {"winner": BEN.id}
    assert [event.answers for event in events(deployment, task_id) if event.answers] == [prompt_id]


def test_an_answer_whose_reply_was_lost_is_recognised_as_accepted_and_kept_once() -> None:
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.hook(after=once("write", no_answer))
    assert admit(deployment, ANN, task_id, prompt_id, YES) is Admitted.ACCEPTED
    assert [event.answers for event in events(deployment, task_id) if event.answers] == [prompt_id]


def test_an_answer_that_was_not_carried_out_is_tried_again() -> None:
    deployment, task_id = waiting()
    deployment.hook(before=once("write", no_answer))
    assert deployment.answer(ANN, task_id, YES).status.state is TaskState.COMPLETED


def test_a_try_after_the_deadline_is_too_late_although_the_first_was_in_time() -> None:
    deployment, task_id = waiting(deadline=MINUTE)

    def late() -> None:
        deployment.clock.advance(60)
        no_answer()

    deployment.hook(before=once("write", late))
    error = refused(deployment, lambda: deployment.answer(ANN, task_id, YES))
    assert (error.extension_data or {}).get("reason") == "expired"


def test_an_expiry_that_comes_between_is_decided_by_the_write() -> None:
    deployment, task_id = waiting(deadline=MINUTE)

    def expires() -> None:
        deployment.clock.advance(60)
        expire(deployment)

    deployment.hook(before=once("write", expires))
    with pytest.raises(AnswerRefused) as caught:
        deployment.answer(ANN, task_id, YES)
    assert (caught.value.extension_data or {}).get("reason") == "expired"
    assert deployment.get(task_id).status.state is TaskState.FAILED


def test_a_cancel_between_the_two_reads_of_a_try_is_a_conflict() -> None:
    """The prompt is read open and the task canceled, for a batch read is no snapshot."""
    deployment, task_id = waiting()
    prompt_id = deployment.open_prompt(task_id)
    deployment.hook(after=once("get_many", lambda: deployment.cancel(task_id)))
    with pytest.raises(AnswerRefused):
        admit(deployment, ANN, task_id, prompt_id, YES)


def test_a_store_that_never_answers_is_unavailable_after_some_tries() -> None:
    deployment, task_id = waiting()

    def down(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write":
            no_answer()

    deployment.hook(before=down)
    assert isinstance(refused(deployment, lambda: deployment.answer(ANN, task_id, YES)), Unavailable)


# Consensus.


def test_a_quorum_is_distinct_people_with_equal_payloads() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    first = deployment.answer(ANN, task_id, {"approved": True, "comment": "ok"})
    assert first.status.state is TaskState.INPUT_REQUIRED
    second = deployment.answer(BEN, task_id, {"comment": "ok", "approved": True})
    assert second.status.state is TaskState.COMPLETED


def test_different_payloads_do_not_add_up() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    deployment.answer(ANN, task_id, YES)
    assert deployment.answer(BEN, task_id, NO).status.state is TaskState.INPUT_REQUIRED
    assert deployment.answer(CLEO, task_id, NO).status.state is TaskState.COMPLETED
    (prompt,) = deployment.prompts(task_id)
    assert json.loads(prompt.winner or "")[0] == CLEO.id


def test_a_person_counts_once_however_often_it_answers() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    for _ in range(3):
        assert deployment.answer(ANN, task_id, YES).status.state is TaskState.INPUT_REQUIRED
    assert list(json.loads(deployment.prompts(task_id)[0].votes)) == [ANN.id]


def test_a_change_of_mind_takes_the_earlier_vote_back() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    deployment.answer(ANN, task_id, YES)
    deployment.answer(ANN, task_id, NO)
    assert deployment.answer(BEN, task_id, YES).status.state is TaskState.INPUT_REQUIRED
    assert deployment.answer(CLEO, task_id, YES).status.state is TaskState.COMPLETED


def test_the_same_vote_again_changes_nothing() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    deployment.answer(ANN, task_id, YES, message_id="m-1")
    with deployment.unchanged():
        again = deployment.answer(ANN, task_id, YES, message_id="m-1")
    assert again.status.state is TaskState.INPUT_REQUIRED


def test_after_the_close_everyone_who_agreed_is_told_so_again_and_nobody_else() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(CLEO, task_id, NO, message_id="cleo")
    deployment.answer(ANN, task_id, YES, message_id="ann")
    deployment.answer(BEN, task_id, YES, message_id="ben")
    with deployment.unchanged():
        for who, name in ((ANN, "ann"), (BEN, "ben")):
            deployment.answer(who, task_id, YES, message_id=name, prompt_id=prompt_id)
    error = refused(
        deployment,
        lambda: deployment.answer(CLEO, task_id, NO, message_id="cleo", prompt_id=prompt_id),
    )
    assert isinstance(error, AnswerRefused)
    assert error.metadata == {"winner": BEN.id}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("who", [BOT, AGENT], ids=["an approving service", "the owner, a service"])
def test_a_service_does_not_count_towards_a_consensus(who: Principal, number: int) -> None:
    deployment, task_id = waiting(allowed_responders=[f"consensus:{number}"])
    assert isinstance(refused(deployment, lambda: deployment.answer(who, task_id, YES)), PermissionDenied)


def test_an_invalid_vote_does_not_count() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    assert isinstance(refused(deployment, lambda: deployment.answer(ANN, task_id, IN_VAIN)), AnswerInvalid)


def test_a_consensus_among_names_is_of_these_only() -> None:
    names = [f"specific:{ANN.id}", f"specific:{BEN.id}", "consensus:2"]
    deployment, task_id = waiting(allowed_responders=names)
    deployment.answer(ANN, task_id, YES)
    assert isinstance(refused(deployment, lambda: deployment.answer(CLEO, task_id, YES)), PermissionDenied)
    assert deployment.answer(BEN, task_id, YES).status.state is TaskState.COMPLETED


def test_any_lifts_the_names_of_a_consensus_and_not_its_number() -> None:
    deployment, task_id = waiting(allowed_responders=["any", f"specific:{ANN.id}", "consensus:2"])
    deployment.answer(BEN, task_id, YES)
    assert deployment.answer(CLEO, task_id, YES).status.state is TaskState.COMPLETED


def test_two_votes_at_once_are_both_counted() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:3"])
    prompt_id = deployment.open_prompt(task_id)

    def ben_too() -> None:
        assert admit(deployment, BEN, task_id, prompt_id, YES) is Admitted.COUNTED

    deployment.hook(before=once("write", ben_too))
    assert admit(deployment, ANN, task_id, prompt_id, YES) is Admitted.COUNTED
    assert set(json.loads(deployment.prompts(task_id)[0].votes)) == {ANN.id, BEN.id}


def test_a_change_of_mind_between_the_read_and_the_write_of_the_deciding_vote_counts() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    prompt_id = deployment.open_prompt(task_id)
    deployment.answer(ANN, task_id, YES)
    deployment.hook(before=once("write", lambda: deployment.answer(ANN, task_id, NO)))
    assert admit(deployment, BEN, task_id, prompt_id, YES) is Admitted.COUNTED
    assert deployment.get(task_id).status.state is TaskState.INPUT_REQUIRED


def test_a_vote_whose_reply_was_lost_is_counted_once() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    prompt_id = deployment.open_prompt(task_id)
    deployment.hook(after=once("write", no_answer))
    assert admit(deployment, ANN, task_id, prompt_id, YES) is Admitted.COUNTED
    (prompt,) = deployment.prompts(task_id)
    assert (prompt.rev, list(json.loads(prompt.votes))) == (2, [ANN.id])


def test_a_vote_after_the_deadline_is_too_late() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"], deadline=MINUTE)
    deployment.answer(ANN, task_id, YES)
    deployment.clock.advance(60)
    error = refused(deployment, lambda: deployment.answer(BEN, task_id, YES))
    assert (error.extension_data or {}).get("reason") == "expired"


def test_only_the_deciding_vote_is_a_message_of_the_task() -> None:
    deployment, task_id = waiting(allowed_responders=["consensus:2"])
    deployment.answer(ANN, task_id, YES, message_id="ann")
    task = deployment.answer(BEN, task_id, YES, message_id="ben")
    assert [said.message_id for said in task.history or [] if said.text == "answer"] == ["ben"]


# What readers see.


def test_the_answer_stands_in_the_history_and_never_in_the_status() -> None:
    async def say_nothing(turn: Turn) -> None:
        pass

    deployment, task_id = waiting(then=say_nothing)
    task = deployment.answer(ANN, task_id, YES, message_id="m-1")
    assert task.status.message is None
    assert [said.message_id for said in task.history or []][-1] == "m-1"


def test_another_process_shows_the_same_prompt() -> None:
    """GetTask from a new engine over the same table (CF-6)."""
    deployment, task_id = waiting()
    shown = deployment.get(task_id).status.message
    other = Deployment(asking())
    other.hooks.table = deployment.table
    again = other.get(task_id, ANN).status.message
    assert shown is not None
    assert again is not None
    assert (again.metadata or {})[hitl_prompt.URI] == (shown.metadata or {})[hitl_prompt.URI]
    assert other.get(task_id, ANN, extensions=PROMPTS) == deployment.get(task_id, ANN)
