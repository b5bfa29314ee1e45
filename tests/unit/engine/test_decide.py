"""A decision on an approval request: the gate's order, the count, and each way that it ends."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.approvals import (
    ACTION,
    DIGEST,
    SUMMARY,
    asking_leave,
    decide,
    decision,
    open_request,
    status_metadata,
)
from tests.support.twin import (
    AGENT,
    ALICE,
    ANN,
    APPROVAL,
    BEN,
    BOB,
    BOT,
    CAROL,
    CLEO,
    NOBODY,
    OPS,
    PEER,
    SPY,
    Deployment,
    asking,
    message,
    no_answer,
    once,
    running,
)

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound
from interlock.a2a.models import TaskState
from interlock.agents import Agent, Turn
from interlock.agents.approval import ActionChanged, Approval, ApprovalUsed
from interlock.engine import decide as deciding
from interlock.engine.answer import Admitted
from interlock.engine.decide import Deciding
from interlock.engine.due import handle_due
from interlock.engine.errors import AnswerInvalid
from interlock.engine.records import Checkpoint
from interlock.engine.run_turn import Refused
from interlock.engine.sweep import sweep
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import KEY, MAX_ACTION, MAX_COMMENT, QUORUM_KEY, URI, Changes, Gate
from interlock.oversight.canonical_json import digest
from interlock.oversight.principals import Kind, Principal, Role

EDITED = {**ACTION, "amount": "30.00"}


def waiting(**options: Any) -> tuple[Deployment, str]:
    """A deployment with one task that waits for an approval."""
    deployment = Deployment(asking_leave(**options))
    return deployment, deployment.send().id


def recording(seen: list[Approval]) -> Callable[[Turn], Any]:
    async def then(turn: Turn) -> None:
        assert turn.approval is not None
        seen.append(turn.approval)
        await turn.complete("done")

    return then


def changed(
    deployment: Deployment, who: Principal, task_id: str, edited: dict[str, Any] | None, comment: str = "less"
) -> Admitted:
    deployment.clock.advance(1)
    request_id, asked = open_request(deployment, task_id)
    said = decision(task_id, request_id, "deny", digest=asked.digest, comment=comment)
    return deciding.decide(deployment.engine, Deciding(who, task_id, said, changes=Changes(edited)))[0]


def str_of(value: object) -> str:
    return repr(value)[:60]


# Asking.


def test_a_request_names_the_action_and_who_asked_in_both_dialects() -> None:
    deployment = Deployment(asking_leave(deadline=timedelta(hours=1)))
    task = deployment.send()
    request_id, asked = open_request(deployment, task.id)
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert task.status.message is not None
    assert task.status.message.text == SUMMARY
    assert task.status.message.extensions == [hitl_prompt.URI, URI]
    envelope = status_metadata(task)[hitl_prompt.URI]
    assert status_metadata(task)[KEY] == {
        "requestId": request_id,
        "summary": SUMMARY,
        "digest": DIGEST,
        "requestedBy": AGENT.id,
    }
    assert (envelope["prompt_id"], envelope["allowed_responders"]) == (request_id, ["any"])
    assert envelope["response_schema"]["properties"]["decision"] == {"enum": ["approve", "deny"]}
    assert "deadline" in envelope
    assert (asked.action, asked.digest) == (ACTION, DIGEST)
    assert asked.requesters == {AGENT.id}


def test_without_the_extensions_the_request_is_there_and_the_envelope_is_not() -> None:
    deployment = Deployment(asking_leave())
    task = deployment.send(extensions=frozenset())
    assert status_metadata(task).keys() == {KEY}
    assert task.status.message is not None
    assert task.status.message.extensions == [URI]


def test_people_read_the_question_where_there_is_one() -> None:
    deployment, task_id = waiting(question="May I?")
    task = deployment.get(task_id)
    assert task.status.message is not None
    assert task.status.message.text == "May I?"
    assert status_metadata(task)[KEY]["summary"] == SUMMARY


@pytest.mark.parametrize(
    "options",
    [
        {"action": {"amount": float("nan")}},
        {"action": {"amount": "\ud800"}},
        {"action": {"amount": 2**53 + 1}},
        {"action": {"why": "x" * MAX_ACTION}},
        {"quorum": 0},
        {"gate": Gate(frozenset({ANN.id, BEN.id})), "quorum": 3},
        {"gate": Gate(frozenset({ANN.id, BEN.id})), "allowed_responders": ["consensus:3"]},
        {"allowed_responders": [f"specific:{ANN.id}"]},
        {"allowed_responders": ["role:boss"]},
        {"deadline": timedelta(0)},
        {"deadline": timedelta.max},
        {"question": "q" * 4097},
    ],
    ids=str_of,
)
def test_what_breaks_a_rule_is_refused_and_nothing_is_asked(options: dict[str, Any]) -> None:
    refusals: list[Exception] = []
    gate, action = options.pop("gate", None), options.pop("action", ACTION)
    agent = Agent("desk", "Asks for too much")

    @agent.skill("work", "Works", gate=gate)
    async def work(turn: Turn) -> None:
        try:
            await turn.request_approval(action, SUMMARY, **options)
        except Refused as refused:
            refusals.append(refused)

    deployment = Deployment(agent)
    task_id = deployment.send().id
    assert len(refusals) == 1
    assert deployment.prompts(task_id) == []


@pytest.mark.parametrize("summary", ["", " \n", "s" * 4097, "\ud800"])
def test_a_summary_is_text_that_can_be_read(summary: str) -> None:
    async def asks(turn: Turn) -> None:
        with pytest.raises(Refused):
            await turn.request_approval(ACTION, summary, "May I?")

    deployment = Deployment(running(asks))
    assert deployment.send().status.state is TaskState.COMPLETED


def test_gates_that_contradict_their_agent_are_refused_when_they_are_declared() -> None:
    isolated = Agent("desk", "Alone", isolated=True)
    for gate in (Gate(), Gate(quorum=2, self_approval=True)):
        with pytest.raises(ValueError, match="isolated"):
            isolated.skill("work", "Works", gate=gate)
    with pytest.raises(ValueError, match="isolated"):
        Agent("desk", "Alone", isolated=True, gate=Gate()).skill("work", "Works")


def test_an_isolated_agent_without_a_gate_can_not_ask_for_what_nobody_could_give() -> None:
    deployment = Deployment(asking_leave(isolated=True))
    assert deployment.send().status.state is TaskState.FAILED


# The gate, each check before the next.


def every_row(deployment: Deployment, task_id: str) -> list[tuple[str, Principal, dict[str, Any], Any]]:
    """From a decision that breaks every rule, one mended after the other."""
    request_id = deployment.open_prompt(task_id)
    other = "sha256:" + "0" * 64
    wrong = {"requestId": str(uuid4()), "digest": other}
    return [
        ("b: does not see it", SPY, {**wrong, "decision": "maybe"}, TaskNotFound),
        ("1: malformed", AGENT, {**wrong, "decision": "maybe"}, InvalidParams),
        ("3: another request", AGENT, wrong, InvalidParams),
        ("4: another action", AGENT, {**wrong, "requestId": request_id}, InvalidParams),
        ("5: no approver", OPS, {"requestId": request_id}, PermissionDenied),
        ("6: asked for it", AGENT, {"requestId": request_id}, PermissionDenied),
    ]


def test_the_gate_looks_in_its_order_and_a_refusal_changes_nothing() -> None:
    deployment, task_id = waiting()
    told = set()
    for row, who, members, expected in every_row(deployment, task_id):
        with deployment.unchanged(), pytest.raises(expected) as refused:
            decide(deployment, who, task_id, **members)
        assert deployment.open_prompt(task_id) not in repr((refused.value.message, refused.value.metadata)), (
            row
        )
        told.add(refused.value.message)
    assert len(told) == 5, "each check says what is wrong, but for the two that must not be told apart"


@pytest.mark.parametrize("who", [PEER, NOBODY, SPY])
def test_who_does_not_see_the_task_is_told_that_there_is_none(who: Principal) -> None:
    deployment, task_id = waiting()
    request_id = deployment.open_prompt(task_id)
    for members in ({}, {"decision": "maybe"}, {"digest": "sha256:0"}):
        with deployment.unchanged(), pytest.raises(TaskNotFound):
            decide(deployment, who, task_id, **{"requestId": request_id, "digest": DIGEST, **members})


@pytest.mark.parametrize("state", ["prompt", "auth", "closed", "working"])
def test_a_task_that_waits_for_no_approval_takes_no_decision(state: str) -> None:
    async def requires_auth(turn: Turn) -> None:
        await turn.require_auth("a credential")

    if state == "closed":
        deployment, task_id = waiting()
        decide(deployment, ANN, task_id)
        request_id = deployment.prompts(task_id)[0].ask_id
    else:
        agent = running(requires_auth) if state == "auth" else asking(APPROVAL)
        deployment = Deployment(agent, at_once=state != "working")
        task_id = deployment.send().id
        request_id = deployment.open_prompt(task_id) if state == "prompt" else str(uuid4())
    for who in (BEN, AGENT):
        with deployment.unchanged(), pytest.raises(InvalidParams, match="does not wait for an approval"):
            deployment.send(decision(task_id, request_id), who)


def test_a_decision_names_its_task() -> None:
    deployment, _ = waiting()
    with deployment.unchanged(), pytest.raises(InvalidParams, match="taskId"):
        deployment.send(message(metadata={KEY: {}}), ANN)
    with deployment.unchanged(), pytest.raises(TaskNotFound):
        deployment.send(decision(str(uuid4()), str(uuid4())), ANN)


def test_a_context_that_is_another_is_refused() -> None:
    deployment, task_id = waiting()
    said = decision(task_id, deployment.open_prompt(task_id))
    said.context_id = "another"
    with deployment.unchanged(), pytest.raises(InvalidParams, match="contextId"):
        deployment.send(said, ANN)


@pytest.mark.parametrize("who", [BOT, OPS, AGENT])
def test_only_people_who_are_approvers_decide(who: Principal) -> None:
    deployment, task_id = waiting()
    for said in ("approve", "deny"):
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            decide(deployment, who, task_id, said)
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            changed(deployment, who, task_id, EDITED)


def test_named_approvers_are_the_only_ones_and_need_no_role() -> None:
    deployment, task_id = waiting(gate=Gate(frozenset({NOBODY.id, BOT.id})))
    for who in (ANN, BOT):
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            decide(deployment, who, task_id)
    assert decide(deployment, NOBODY, task_id).status.state is TaskState.COMPLETED


def test_a_named_approver_is_told_of_a_task_only_by_the_request_that_names_it() -> None:
    deployment, task_id = waiting(gate=Gate(frozenset({NOBODY.id})))
    with deployment.unchanged(), pytest.raises(TaskNotFound):
        decide(deployment, NOBODY, task_id, requestId=str(uuid4()), digest=DIGEST)
    with deployment.unchanged(), pytest.raises(InvalidParams, match="digest"):
        decide(deployment, NOBODY, task_id, requestId=deployment.open_prompt(task_id), digest="sha256:0")


# Who asked.


def test_a_person_who_asked_may_not_approve_unless_that_is_allowed() -> None:
    deployment = Deployment(asking_leave())
    task_id = deployment.send(who=CAROL).id
    for said in ("approve", "deny"):
        with deployment.unchanged(), pytest.raises(PermissionDenied):
            decide(deployment, CAROL, task_id, said)
    assert decide(deployment, ANN, task_id).status.state is TaskState.COMPLETED

    allowed = Deployment(asking_leave(gate=Gate(self_approval=True)))
    task_id = allowed.send(who=CAROL).id
    assert decide(allowed, CAROL, task_id).status.state is TaskState.COMPLETED


def test_in_an_isolated_task_only_its_owner_is_there_and_decides() -> None:
    deployment = Deployment(asking_leave(isolated=True, gate=Gate(self_approval=True)))
    task_id = deployment.send(who=CAROL).id
    with deployment.unchanged(), pytest.raises(TaskNotFound):
        decide(deployment, ANN, task_id)
    assert decide(deployment, CAROL, task_id).status.state is TaskState.COMPLETED


async def two_steps(turn: Turn) -> None:
    """Asks leave twice, by the number of messages so far."""
    if turn.approval is None or turn.approval.action["step"] == 1:
        step = 1 if turn.approval is None else 2
        await turn.request_approval({"step": step}, f"Step {step}")
    else:
        await turn.complete("done")


def test_an_approval_of_one_step_lets_neither_the_owner_in_nor_keeps_the_approver_out_of_the_next() -> None:
    deployment = Deployment(running(two_steps))
    task_id = deployment.send(who=CAROL).id
    decide(deployment, BOB, task_id)
    _, asked = open_request(deployment, task_id)
    assert asked.requesters == {CAROL.id}
    assert status_metadata(deployment.get(task_id, CAROL))[KEY]["requestedBy"] == CAROL.id
    with deployment.unchanged(), pytest.raises(PermissionDenied):
        decide(deployment, CAROL, task_id)
    assert decide(deployment, BOB, task_id).status.state is TaskState.COMPLETED


def test_whoever_answered_a_question_has_words_in_what_is_done_and_may_not_approve_it() -> None:
    async def asks_both(turn: Turn) -> None:
        if turn.approval is not None:
            await turn.complete("done")
        elif turn.answer is None:
            await turn.ask("How much?")
        else:
            await turn.request_approval(ACTION, SUMMARY)

    deployment = Deployment(running(asks_both))
    task_id = deployment.send().id
    task = deployment.answer(ANN, task_id, {"text": "40.00"})
    assert status_metadata(task)[KEY]["requestedBy"] == ANN.id
    assert open_request(deployment, task_id)[1].requesters == {AGENT.id, ANN.id}
    with deployment.unchanged(), pytest.raises(PermissionDenied):
        decide(deployment, ANN, task_id)
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED


# The executor's side.


def test_the_agent_has_the_decision_and_consumes_it_once_for_exactly_the_action() -> None:
    seen: list[Approval] = []
    deployment, task_id = waiting(then=recording(seen))
    decide(deployment, ANN, task_id, comment="go")
    (approval,) = seen
    assert (approval.approved, approval.changes_requested, approval.comment) == (True, False, "go")
    assert (approval.approvers, approval.decided_by, approval.action) == ((ANN.id,), ANN.id, ACTION)
    for other in ({**ACTION, "amount": "40.01"}, {**ACTION, "more": float("nan")}, {}):
        with pytest.raises(ActionChanged):
            approval.consume(other)
    approval.consume(dict(reversed(ACTION.items())))
    with pytest.raises(ApprovalUsed):
        approval.consume(ACTION)


def test_a_denial_reaches_the_agent_with_its_comment_and_can_not_be_consumed() -> None:
    seen: list[Approval] = []
    deployment, task_id = waiting(then=recording(seen), quorum=2)
    decide(deployment, ANN, task_id)
    decide(deployment, BEN, task_id, "deny", comment="too much")
    (approval,) = seen
    assert (approval.approved, approval.comment, approval.decided_by) == (False, "too much", BEN.id)
    assert approval.approvers == (ANN.id,), "it names who had approved before"
    with pytest.raises(ApprovalUsed):
        approval.consume(ACTION)
    assert deployment.prompts(task_id)[0].status == Checkpoint.DENIED


def test_a_plain_message_brings_no_approval_and_the_agent_asks_again() -> None:
    deployment, task_id = waiting()
    first = deployment.open_prompt(task_id)
    deployment.clock.advance(1)
    task = deployment.send(message("just do it", task_id=task_id))
    assert task.status.state is TaskState.INPUT_REQUIRED
    assert deployment.open_prompt(task_id) != first
    assert [prompt.status for prompt in deployment.prompts(task_id)] == [Checkpoint.SUPERSEDED, "open"]
    with deployment.unchanged(), pytest.raises(InvalidParams):
        decide(deployment, ANN, task_id, requestId=first, digest=DIGEST)


# The count.


def test_the_agent_waits_for_the_quorum_and_everybody_sees_how_far_it_is() -> None:
    seen: list[Approval] = []
    deployment = Deployment(asking_leave(gate=Gate(quorum=2), then=recording(seen), quorum=3), at_once=False)
    task_id = deployment.send().id
    deployment.work()
    envelope = status_metadata(deployment.get(task_id))[hitl_prompt.URI]
    assert envelope["allowed_responders"] == ["consensus:3"]
    for voted, who in (([ANN.id], ANN), ([ANN.id, BEN.id], BEN)):
        task = decide(deployment, who, task_id)
        assert task.status.state is TaskState.INPUT_REQUIRED
        assert status_metadata(task)[QUORUM_KEY] == {"approvedBy": voted, "required": 3}
        assert status_metadata(task)[KEY]["digest"] == DIGEST
        assert deployment.waker.turns == []
    assert status_metadata(deployment.get(task_id))[QUORUM_KEY]["approvedBy"] == [ANN.id, BEN.id]
    (listed,) = deployment.listed().tasks
    assert status_metadata(listed)[QUORUM_KEY]["required"] == 3
    (listed,) = deployment.listed(include_artifacts=True).tasks
    assert status_metadata(listed)[QUORUM_KEY]["required"] == 3
    assert decide(deployment, CLEO, task_id).status.state is TaskState.WORKING
    deployment.work()
    assert [approval.approvers for approval in seen] == [(ANN.id, BEN.id, CLEO.id)]
    assert deployment.meta(task_id).turn == 2


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"allowed_responders": ["consensus:2"]}, 2),
        ({"allowed_responders": ["any", "consensus:2"], "quorum": 3}, 3),
        ({"allowed_responders": ["consensus:3"], "gate": Gate(quorum=2)}, 3),
        ({"gate": Gate(quorum=2)}, 2),
        ({}, 1),
    ],
)
def test_a_consensus_is_counted_on_the_same_tally_and_the_larger_number_counts(
    options: dict[str, Any], needed: int
) -> None:
    deployment, task_id = waiting(**options)
    for who in (ANN, BEN, CLEO)[: needed - 1]:
        task = decide(deployment, who, task_id, response={"decision": "approve"})
        assert status_metadata(task)[QUORUM_KEY]["required"] == needed
    assert decide(deployment, ALICE, task_id).status.state is TaskState.COMPLETED


def test_the_same_person_counts_once() -> None:
    deployment, task_id = waiting(quorum=2)
    decide(deployment, ANN, task_id)
    with deployment.unchanged():
        task = decide(deployment, ANN, task_id, comment="again")
        assert status_metadata(task)[QUORUM_KEY] == {"approvedBy": [ANN.id], "required": 2}


def test_a_repeat_is_told_so_also_after_the_close_and_of_whoever_did_not_decide() -> None:
    deployment, task_id = waiting(quorum=2)
    request_id = deployment.open_prompt(task_id)
    decide(deployment, ANN, task_id)
    decide(deployment, BEN, task_id)
    for who in (ANN, BEN):
        with deployment.unchanged():
            task = decide(deployment, who, task_id, requestId=request_id, digest=DIGEST)
            assert task.status.state is TaskState.COMPLETED
        with deployment.unchanged(), pytest.raises(InvalidParams, match="does not wait"):
            decide(deployment, who, task_id, "deny", requestId=request_id, digest=DIGEST)
    with deployment.unchanged(), pytest.raises(InvalidParams, match="does not wait"):
        decide(deployment, CLEO, task_id, requestId=request_id, digest=DIGEST)


@pytest.mark.parametrize("exit_", ["superseded", "denied"])
def test_a_repeat_is_told_that_it_counted_where_it_decided_nothing(exit_: str) -> None:
    deployment, task_id = waiting(quorum=2)
    said = decision(task_id, deployment.open_prompt(task_id))
    decide(deployment, ANN, task_id)
    if exit_ == "denied":
        decide(deployment, BEN, task_id, "deny")
    else:
        deployment.send(message("no", task_id=task_id))
    with deployment.unchanged():
        assert deciding.decide(deployment.engine, Deciding(ANN, task_id, said))[0] is Admitted.COUNTED


def test_whoever_approved_may_still_deny_and_that_counts() -> None:
    seen: list[Approval] = []
    deployment, task_id = waiting(quorum=2, then=recording(seen))
    decide(deployment, ANN, task_id)
    decide(deployment, ANN, task_id, "deny", comment="on second thoughts")
    assert [(approval.approved, approval.approvers) for approval in seen] == [(False, ())]


@pytest.mark.parametrize("said", ["approve", "deny"])
def test_a_decision_whose_reply_is_lost_is_made_once(said: str) -> None:
    deployment, task_id = waiting()
    deployment.hook(after=once("write", no_answer))
    assert deployment.send(decision(task_id, deployment.open_prompt(task_id), said), ANN)
    assert deployment.meta(task_id).turn == 2
    (request,) = deployment.prompts(task_id)
    assert request.status == (Checkpoint.APPROVED if said == "approve" else Checkpoint.DENIED)


def test_whoever_decides_and_dies_right_after_the_write_is_followed_by_exactly_one_turn() -> None:
    seen: list[Approval] = []
    deployment = Deployment(asking_leave(then=recording(seen)), at_once=False)
    task_id = deployment.send().id
    deployment.work()

    def die() -> None:
        raise KeyboardInterrupt

    deployment.hook(after=once("write", die))
    with pytest.raises(KeyboardInterrupt):
        decide(deployment, ANN, task_id)
    deployment.hook()
    deployment.work()
    assert seen == []
    deployment.clock.advance(60)
    sweep(deployment.engine)
    sweep(deployment.engine)
    deployment.work()
    assert [approval.approvers for approval in seen] == [(ANN.id,)]
    assert deployment.get(task_id).status.state is TaskState.COMPLETED


@pytest.mark.parametrize("exit_", ["cancel", "deny", "go on", "deadline"])
@pytest.mark.parametrize("before", [(), (ANN,)], ids=["counted", "deciding"])
def test_what_comes_between_a_vote_and_its_write_wins_alone(before: Sequence[Principal], exit_: str) -> None:
    deployment, task_id = waiting(quorum=2, deadline=timedelta(minutes=1))
    request_id = deployment.open_prompt(task_id)
    for who in before:
        decide(deployment, who, task_id)

    def deadline() -> None:
        deployment.clock.advance(60)
        for key in deployment.due_rows():
            handle_due(deployment.engine, key)

    exits: dict[str, Callable[[], object]] = {
        "cancel": lambda: deployment.cancel(task_id),
        "deny": lambda: decide(deployment, CLEO, task_id, "deny"),
        "go on": lambda: deployment.send(message("no", task_id=task_id)),
        "deadline": deadline,
    }
    deployment.hook(before=once("write", exits[exit_]))
    with pytest.raises(InvalidParams):
        decide(deployment, BEN, task_id, requestId=request_id, digest=DIGEST)
    (request,) = [one for one in deployment.prompts(task_id) if one.ask_id == request_id]
    statuses = {"cancel": "canceled", "deny": "denied", "go on": "superseded", "deadline": "expired"}
    assert request.status == statuses[exit_]
    assert BEN.id not in request.votes
    still_open = [one for one in deployment.prompts(task_id) if one.status == Checkpoint.OPEN]
    assert len(still_open) == (deployment.meta(task_id).task_state is TaskState.INPUT_REQUIRED)


def test_after_its_time_a_request_takes_no_decision_whether_or_not_it_was_noticed() -> None:
    deployment, task_id = waiting(deadline=timedelta(minutes=1))
    request_id = deployment.open_prompt(task_id)
    deployment.clock.advance(60)
    for who in (ANN, BEN):
        with deployment.unchanged(), pytest.raises(InvalidParams, match="time for this decision is over"):
            decide(deployment, who, task_id)
    for key in deployment.due_rows():
        handle_due(deployment.engine, key)
    with deployment.unchanged(), pytest.raises(InvalidParams):
        decide(deployment, ANN, task_id, requestId=request_id, digest=DIGEST)
    assert deployment.get(task_id).status.state is TaskState.FAILED


# Both dialects.


def test_an_answer_in_the_other_dialect_alone_has_no_digest_and_consumes_nothing() -> None:
    deployment, task_id = waiting()
    for who in (ANN, AGENT):
        with deployment.unchanged(), pytest.raises(InvalidParams, match=KEY):
            deployment.answer(who, task_id, {"decision": "approve"})
    assert decide(deployment, ANN, task_id).status.state is TaskState.COMPLETED


@pytest.mark.parametrize(
    ("said", "payload"),
    [
        ("approve", {"decision": "deny"}),
        ("deny", {"decision": "approve"}),
        ("approve", {}),
        ("approve", {"approved": True}),
        ("approve", {"decision": "approve", "more": 1}),
        ("approve", {"decision": "approve", "comment": "c" * (MAX_COMMENT + 1)}),
    ],
)
def test_a_payload_that_contradicts_the_decision_or_its_schema_is_refused(said: str, payload: Any) -> None:
    deployment, task_id = waiting()
    with deployment.unchanged(), pytest.raises(AnswerInvalid):
        decide(deployment, ANN, task_id, said, response=payload)


def test_a_repeat_that_contradicts_itself_is_refused() -> None:
    deployment, task_id = waiting(quorum=2)
    decide(deployment, ANN, task_id)
    with deployment.unchanged(), pytest.raises(AnswerInvalid):
        decide(deployment, ANN, task_id, response={"decision": "deny"})


def test_two_dialects_that_name_two_requests_are_refused() -> None:
    deployment, task_id = waiting()
    said = decision(task_id, deployment.open_prompt(task_id))
    assert said.metadata is not None
    said.metadata[hitl_prompt.RESPONSE_KEY] = {
        "prompt_id": str(uuid4()),
        "payload": {"decision": "approve"},
    }
    with deployment.unchanged(), pytest.raises(InvalidParams, match="different requests"):
        deployment.send(said, ANN)


def test_the_same_in_both_dialects_is_admitted() -> None:
    deployment, task_id = waiting()
    task = decide(deployment, ANN, task_id, response={"decision": "approve", "comment": "fine"})
    assert task.status.state is TaskState.COMPLETED


# Edits.


async def asks_anew(turn: Turn) -> None:
    assert turn.approval is not None
    if turn.approval.changes_requested:
        await turn.request_approval(turn.approval.edited or ACTION, "Changed")
    else:
        await turn.complete("done")


def test_an_edit_is_another_request_that_its_editor_may_not_approve() -> None:
    seen: list[Approval] = []

    async def then(turn: Turn) -> None:
        assert turn.approval is not None
        seen.append(turn.approval)
        await asks_anew(turn)

    deployment, task_id = waiting(then=then)
    first = deployment.open_prompt(task_id)
    assert changed(deployment, ANN, task_id, EDITED) is Admitted.ACCEPTED
    (sent_back,) = seen
    assert (sent_back.approved, sent_back.changes_requested) == (False, True)
    assert (sent_back.action, sent_back.edited, sent_back.comment) == (ACTION, EDITED, "less")
    with pytest.raises(ApprovalUsed):
        sent_back.consume(EDITED)
    second, asked = open_request(deployment, task_id)
    assert second != first
    assert (asked.action, asked.digest) == (EDITED, digest(EDITED))
    assert asked.requesters == {AGENT.id, ANN.id}
    assert deployment.prompts(task_id)[0].status == Checkpoint.CHANGES_REQUESTED
    with deployment.unchanged(), pytest.raises(PermissionDenied):
        decide(deployment, ANN, task_id)
    with deployment.unchanged(), pytest.raises(InvalidParams, match="digest"):
        decide(deployment, BEN, task_id, requestId=second, digest=DIGEST)
    assert decide(deployment, BEN, task_id).status.state is TaskState.COMPLETED
    assert seen[1].action == EDITED


def test_who_ever_edited_stays_excluded_through_later_edits() -> None:
    deployment, task_id = waiting(then=asks_anew)
    changed(deployment, ANN, task_id, EDITED)
    changed(deployment, BEN, task_id, {**ACTION, "amount": "20.00"})
    assert open_request(deployment, task_id)[1].requesters == {AGENT.id, ANN.id, BEN.id}


def test_what_is_sent_back_without_an_edit_is_the_agents_to_change() -> None:
    seen: list[Approval] = []
    deployment, task_id = waiting(then=recording(seen))
    changed(deployment, ANN, task_id, None, "split it")
    assert [(one.changes_requested, one.edited, one.comment) for one in seen] == [(True, None, "split it")]


@pytest.mark.parametrize(
    "edited", [ACTION, {"amount": float("inf")}, {"amount": "\ud800"}, {"why": "x" * MAX_ACTION}], ids=str_of
)
def test_an_edit_that_changes_nothing_or_has_no_digest_is_refused(edited: dict[str, Any]) -> None:
    deployment, task_id = waiting()
    with deployment.unchanged(), pytest.raises(InvalidParams, match="edited action"):
        changed(deployment, ANN, task_id, edited)


def test_the_same_edit_again_is_a_repeat_and_another_is_refused() -> None:
    deployment, task_id = waiting()
    request_id = deployment.open_prompt(task_id)
    said = decision(task_id, request_id, "deny")

    def send_back(edited: dict[str, Any] | None) -> Admitted:
        changes = Changes(edited)
        return deciding.decide(deployment.engine, Deciding(ANN, task_id, said, changes=changes))[0]

    send_back(EDITED)
    with deployment.unchanged():
        assert send_back(dict(EDITED)) is Admitted.ACCEPTED
    for other in ({**EDITED, "amount": "20.00"}, None, {"amount": float("nan")}):
        with deployment.unchanged(), pytest.raises(InvalidParams):
            send_back(other)


def test_changes_settle_a_quorum_as_a_denial_does() -> None:
    deployment, task_id = waiting(quorum=2, then=asks_anew)
    decide(deployment, ANN, task_id)
    changed(deployment, BEN, task_id, EDITED)
    statuses = [request.status for request in deployment.prompts(task_id)]
    assert statuses == [Checkpoint.CHANGES_REQUESTED, Checkpoint.OPEN]
    assert open_request(deployment, task_id)[1].gate.quorum == 1


# What others got wrong.


def refused(deployment: Deployment, call: Callable[[], object], *errors: type[A2AError]) -> None:
    with deployment.unchanged(), pytest.raises(errors or (InvalidParams,)):
        call()


def test_fault_an_approval_is_accepted_after_its_time_out() -> None:
    deployment, task_id = waiting(deadline=timedelta(seconds=1))
    deployment.clock.advance(1)
    refused(deployment, lambda: decide(deployment, ANN, task_id))


def test_fault_a_second_person_overwrites_a_decision() -> None:
    deployment, task_id = waiting()
    request_id = deployment.open_prompt(task_id)
    decide(deployment, ANN, task_id, "deny")
    refused(deployment, lambda: decide(deployment, BEN, task_id, requestId=request_id, digest=DIGEST))
    assert deployment.prompts(task_id)[0].status == Checkpoint.DENIED


def test_fault_a_decision_is_taken_for_a_request_that_does_not_exist() -> None:
    deployment, task_id = waiting()
    refused(deployment, lambda: decide(deployment, ANN, task_id, requestId=str(uuid4()), digest=DIGEST))


@pytest.mark.parametrize("member", ["by", "approver", "approvedBy", "decidedBy", "requestedBy", "identity"])
def test_fault_a_member_of_the_body_names_another_person(member: str) -> None:
    seen: list[Approval] = []
    deployment, task_id = waiting(quorum=2, then=recording(seen))
    decide(deployment, ANN, task_id, **{member: BEN.id})
    with deployment.unchanged():
        task = decide(deployment, ANN, task_id, **{member: CLEO.id})
    assert status_metadata(task)[QUORUM_KEY]["approvedBy"] == [ANN.id]
    decide(deployment, BEN, task_id, **{member: ANN.id})
    assert seen[0].approvers == (ANN.id, BEN.id)


def test_fault_the_same_message_comes_with_another_decision() -> None:
    """A decision has no key but its person and its request: the second is a decision of its own."""
    deployment, task_id = waiting()
    said = decision(task_id, deployment.open_prompt(task_id))
    deployment.send(said, ANN)
    other = decision(task_id, deployment.prompts(task_id)[0].ask_id, "deny")
    other.message_id = said.message_id
    refused(deployment, lambda: deployment.send(other, ANN))
    assert deployment.prompts(task_id)[0].status == Checkpoint.APPROVED


@pytest.mark.parametrize("word", ["reject", "denied", "no", "false", "Deny", "not approve", ""])
def test_fault_a_reject_reads_as_approve(word: str) -> None:
    deployment, task_id = waiting()
    refused(deployment, lambda: decide(deployment, ANN, task_id, word))
    refused(
        deployment,
        lambda: decide(deployment, ANN, task_id, response={"decision": "deny"}),
        AnswerInvalid,
    )


def test_fault_arguments_are_swapped_between_approval_and_execution() -> None:
    async def swaps(turn: Turn) -> None:
        assert turn.approval is not None
        turn.approval.action["amount"] = "4000.00"
        turn.approval.consume(turn.approval.action)
        await turn.complete("refunded far too much")

    deployment, task_id = waiting(then=swaps)
    assert decide(deployment, ANN, task_id).status.state is TaskState.FAILED


def test_fault_one_token_with_two_roles_is_two_people() -> None:
    deployment, task_id = waiting(quorum=2)
    decide(deployment, ANN, task_id)
    same = Principal(ANN.id, ANN.tenant, Kind.PERSON, frozenset({Role.APPROVER, Role.OPERATOR}))
    with deployment.unchanged():
        assert decide(deployment, same, task_id).status.state is TaskState.INPUT_REQUIRED
