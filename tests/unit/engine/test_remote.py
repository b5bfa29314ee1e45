"""Turns of registered agents: what is forwarded, what comes back, and that nothing is left running there."""

import json
import random
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import decide
from tests.support.cards import URL
from tests.support.elsewhere import Another, Overseen, Scripted, said
from tests.support.twin import (
    AGENT,
    ANN,
    OPS,
    PROMPTS,
    Deployment,
    asking,
    message,
    running,
)

from interlock.a2a.models import Artifact, Part, TaskState, TaskStatus
from interlock.agents import Turn
from interlock.engine.halt import declare, lift
from interlock.engine.peers import PeerRefused, PeerUnreachable
from interlock.engine.records import Delegation, TaskMeta, parse_instant
from interlock.engine.registered import local_name
from interlock.engine.resume import resume_task
from interlock.engine.sweep import sweep
from interlock.oversight import delegation as terms_of
from interlock.oversight import hitl_prompt
from interlock.oversight.delegation import parse_terms
from interlock.oversight.halts import Scope
from interlock.oversight.hitl_prompt import Envelope
from interlock.oversight.modes import MODE_STAMP, VETO_TTL_STAMP

WORKING = TaskState.WORKING
COMPLETED = TaskState.COMPLETED
HALT = Scope("acme", agent="far")


def waiting(text: str = "Go on?", state: TaskState = TaskState.INPUT_REQUIRED, **more: Any) -> TaskStatus:
    return TaskStatus(state=state, message=said(text, **more))


def prompting(schema: dict[str, Any], **more: Any) -> TaskStatus:
    envelope = Envelope("11111111-1111-4111-8111-111111111111", "Which one?", schema, **more)
    return waiting(metadata={hitl_prompt.URI: envelope.to_wire()})


WORK = {"work": {"mode": "autonomous"}}
"""Of the card of a deployment of the twin."""
CHOICE: dict[str, Any] = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def texts(overseen: Overseen, task_id: str) -> list[str]:
    """What the task has said, oldest first."""
    task = overseen.get(task_id)
    history = [each.text for each in task.history or [] if each.role.value == "ROLE_AGENT"]
    return [*history, *([task.status.message.text] if task.status.message is not None else [])]


# There and back.


def test_a_task_is_forwarded_once_and_ends_as_the_one_there() -> None:
    far = Scripted(steps=[WORKING, WORKING, TaskStatus(state=COMPLETED, message=said("done"))])
    overseen = Overseen(far)
    task = overseen.send()
    assert (task.status.state, texts(overseen, task.id)) == (COMPLETED, ["done"])
    (sent,) = far.sent
    link = overseen.link(task.id)
    assert (link.status, link.outcome, link.child) == (Delegation.SETTLED, "completed", next(iter(far.tasks)))
    assert (sent.key, sent.message.context_id, sent.message.text) == (link.id, link.id, "go")


@pytest.mark.parametrize(
    "state",
    [COMPLETED, TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED],
    ids=lambda each: each.value,
)
def test_every_end_there_is_the_end_here(state: TaskState) -> None:
    overseen = Overseen(Scripted(steps=[TaskStatus(state=state, message=said("so it is"))]))
    task = overseen.send()
    assert (task.status.state, texts(overseen, task.id)) == (state, ["so it is"])
    assert overseen.outbox() == []
    assert overseen.link(task.id).status == Delegation.SETTLED
    assert not overseen.deployment.run_rows()


def test_what_it_says_on_the_way_is_said_here_once() -> None:
    looking = TaskStatus(state=WORKING, message=said("looking"))
    done = TaskStatus(state=COMPLETED, message=said("done"))
    overseen = Overseen(Scripted(steps=[looking, looking, looking, done]))
    assert texts(overseen, overseen.send().id) == ["looking", "done"]


def test_an_artifact_comes_once_and_again_if_it_has_changed() -> None:
    far = Scripted(steps=[WORKING, WORKING, WORKING, WORKING, COMPLETED])
    first, second = (Artifact(artifact_id="a", parts=[Part(text=text)]) for text in ("one", "two"))
    looks = 0

    def grow(operation: str) -> None:
        nonlocal looks
        looks += operation == "get"
        far.artifacts = [first] if looks < 3 else [second]

    far.before = grow
    overseen = Overseen(far)
    task = overseen.send()
    assert task.artifacts == [second]
    view = [event for event in stored(overseen, task.id) if "artifact" in event]
    assert len(view) == 2


def test_where_it_runs_is_not_told() -> None:
    overseen = Overseen(Scripted())
    task = overseen.get(overseen.send().id)
    assert task.metadata is not None
    assert URL not in task.wire_json()
    assert overseen.link(task.id).id in task.wire_json()


def stored(overseen: Overseen, task_id: str) -> list[dict[str, Any]]:
    pk = TaskMeta.key_of("acme", task_id).pk
    rows = overseen.deployment.table.query(pk, first="EVT#", last="EVT$").rows
    return [json.loads(str(item["body"])) for _, item in rows]


def test_a_direct_reply_completes_the_task() -> None:
    reply = said("hello").model_copy(update={"parts": [Part(text="hello"), Part(data={"a": 1})]})
    overseen = Overseen(Scripted(reply=reply))
    task = overseen.send()
    assert (task.status.state, texts(overseen, task.id)) == (COMPLETED, ["hello"])
    assert [part.data for part in (task.artifacts or [])[0].parts] == [None, {"a": 1}]
    assert overseen.link(task.id).outcome == "message"


def test_each_request_is_stamped_and_carries_the_terms_the_skill_and_the_source() -> None:
    far = Scripted()
    overseen = Overseen(far, {"go": {"mode": "notification"}})
    source = {"interface": "chat", "channelId": "c", "other": "x"}
    forged = {MODE_STAMP: "autonomous", "source": source, "mine": 1, terms_of.KEY: {"depth": 0}}
    overseen.send(message("go", metadata=forged), metadata={VETO_TTL_STAMP: 1})
    (sent,) = far.sent
    terms = parse_terms(sent.metadata)
    assert terms is not None
    assert (terms.depth, terms.excluded) == (1, frozenset({AGENT.id}))
    assert {name: value for name, value in sent.metadata.items() if name != terms_of.KEY} == {
        MODE_STAMP: "notification",
        "skillHint": "go",
        "source": {"interface": "chat", "channelId": "c"},
    }
    assert sent.message.metadata == {"mine": 1}


def test_the_hint_is_forwarded_by_its_own_name_and_none_is_made_up() -> None:
    far, odd = Scripted(), "go #1"
    overseen = Overseen(far, {odd: {"mode": "autonomous"}, "other": {"mode": "autonomous"}})
    overseen.send(message("go", metadata={"skillHint": odd}))
    overseen.send()
    overseen.send(message("go", metadata={"skillHint": local_name(odd)}))
    assert [sent.metadata.get("skillHint") for sent in far.sent] == [odd, None, odd]


def test_a_window_of_veto_is_held_before_anything_is_sent() -> None:
    far = Scripted()
    overseen = Overseen(far, {"go": {"mode": "veto", "vetoTtlMs": 60_000}})
    task = overseen.send()
    assert (task.status.state, far.sent) == (TaskState.SUBMITTED, [])
    overseen.deployment.clock.advance(62)
    sweep(overseen.deployment.engine)
    assert overseen.get(task.id).status.state is COMPLETED
    assert far.sent[0].metadata[VETO_TTL_STAMP] == 60_000


def test_a_gated_skill_is_forwarded_only_once_its_start_is_approved() -> None:
    far = Scripted()
    overseen = Overseen(far, {"go": {"mode": "gated"}})
    task = overseen.send()
    assert (task.status.state, far.sent) == (TaskState.INPUT_REQUIRED, [])
    approve(overseen, task.id)
    assert overseen.get(task.id).status.state is COMPLETED
    assert [sent.message.text for sent in far.sent] == ["go"]


def approve(overseen: Overseen, task_id: str) -> None:
    decide(overseen.deployment, ANN, task_id)


# Questions.


def test_a_prompt_there_is_asked_here_and_the_answer_goes_to_that_prompt() -> None:
    far = Scripted(steps=[prompting(CHOICE)])
    overseen = Overseen(far)
    task = overseen.send()
    assert task.status.state is TaskState.INPUT_REQUIRED
    (prompt,) = overseen.deployment.prompts(task.id)
    envelope = json.loads(prompt.envelope)
    assert (envelope["prompt"], envelope["response_schema"]) == ("Which one?", CHOICE)
    far.then = [TaskStatus(state=COMPLETED)]
    overseen.deployment.answer(ANN, task.id, {"n": 3})
    assert overseen.get(task.id).status.state is COMPLETED
    answered = far.sent[1].message
    assert answered.metadata == {
        hitl_prompt.RESPONSE_KEY: {"prompt_id": "11111111-1111-4111-8111-111111111111", "payload": {"n": 3}}
    }
    link = overseen.link(task.id)
    assert (answered.task_id, answered.context_id) == (link.child, link.id)
    assert len(overseen.links(task.id)) == 1


def test_a_question_without_a_schema_is_answered_in_words() -> None:
    far = Scripted(steps=[waiting("Which colour?")])
    overseen = Overseen(far)
    task = overseen.send()
    far.then = [COMPLETED]
    overseen.deployment.answer(ANN, task.id, {"text": "red"})
    assert overseen.get(task.id).status.state is COMPLETED
    assert (far.sent[1].message.text, far.sent[1].message.metadata) == ("red", None)


def test_a_message_without_an_answer_goes_on_as_it_is() -> None:
    far = Scripted(steps=[waiting()])
    overseen = Overseen(far)
    task = overseen.send()
    far.then = [COMPLETED]
    forged = {MODE_STAMP: "autonomous", terms_of.KEY: {"depth": 0}, "mine": 1}
    overseen.deployment.send(message("rather this", task_id=task.id, metadata=forged))
    assert overseen.get(task.id).status.state is COMPLETED
    assert (far.sent[1].message.text, far.sent[1].message.metadata) == ("rather this", {"mine": 1})


def test_a_server_may_show_the_old_question_for_a_while_after_it_was_answered() -> None:
    asked = waiting()
    far = Scripted(steps=[asked])
    overseen = Overseen(far)
    task = overseen.send()
    far.then = [asked, asked, WORKING, COMPLETED]
    overseen.deployment.answer(ANN, task.id, {"text": "yes"})
    assert overseen.get(task.id).status.state is COMPLETED
    assert overseen.deployment.meta(task.id).asked == 1


def test_one_that_goes_on_waiting_is_asked_again() -> None:
    far = Scripted(steps=[waiting()])
    overseen = Overseen(far)
    task = overseen.send()
    overseen.deployment.answer(ANN, task.id, {"text": "yes"})
    assert overseen.get(task.id).status.state is TaskState.INPUT_REQUIRED
    assert overseen.deployment.meta(task.id).asked == 2


def test_the_next_question_is_asked_at_once_and_is_another_checkpoint() -> None:
    far = Scripted(steps=[waiting("One?")])
    overseen = Overseen(far, {"go": {"mode": "compound"}})
    task = overseen.send()
    approve(overseen, task.id)
    far.then = [waiting("Two?")]
    before = overseen.deployment.clock.now()
    overseen.deployment.answer(ANN, task.id, {"text": "1"})
    assert overseen.deployment.clock.now() - before < timedelta(seconds=1)
    far.then = [COMPLETED]
    overseen.deployment.answer(ANN, task.id, {"text": "2"})
    assert overseen.get(task.id).status.state is COMPLETED
    assert sorted(prompt.number for prompt in overseen.deployment.prompts(task.id)) == [1, 2, 3]


def test_an_answer_that_is_refused_there_shows_and_is_asked_for_anew() -> None:
    far = Scripted(steps=[prompting(CHOICE)])
    overseen = Overseen(far)
    task = overseen.send()

    def refuse(operation: str) -> None:
        if operation == "send":
            far.before = lambda _: None
            raise PeerRefused("the peer refused: hitl_already_answered_or_unknown")

    far.before = refuse
    overseen.deployment.answer(ANN, task.id, {"n": 1})
    assert overseen.get(task.id).status.state is TaskState.INPUT_REQUIRED
    assert "The peer refused: hitl_already_answered_or_unknown." in texts(overseen, task.id)


def test_a_quorum_there_is_one_here() -> None:
    overseen = Overseen(Scripted(steps=[prompting(CHOICE, allowed_responders=("consensus:2",))]))
    (prompt,) = overseen.deployment.prompts(overseen.send().id)
    assert json.loads(prompt.envelope)["allowed_responders"] == ["consensus:2"]


def test_a_schema_that_is_refused_here_fails_the_task_visibly_and_ends_the_one_there() -> None:
    far = Scripted(steps=[prompting({"type": "object", "$ref": "https://evil.example/schema"})])
    overseen = Overseen(far)
    task = overseen.send()
    assert task.status.state is TaskState.FAILED
    assert "can not be recorded" in texts(overseen, task.id)[-1]
    overseen.outbox()
    assert far.canceled == list(far.tasks)


def test_a_credential_that_is_missing_there_is_waited_for_here() -> None:
    asked = waiting("Log in at https://x.example", TaskState.AUTH_REQUIRED)
    far = Scripted(steps=[asked])
    overseen = Overseen(far)
    task = overseen.send()
    assert (task.status.state, texts(overseen, task.id)) == (
        TaskState.AUTH_REQUIRED,
        ["Log in at https://x.example"],
    )
    far.steps = [asked, asked, COMPLETED]
    resume_task(overseen.deployment.engine, ANN, task.id)
    assert overseen.get(task.id).status.state is COMPLETED
    assert len(far.sent) == 1


def test_an_approval_there_is_waited_for_and_never_given_from_here() -> None:
    async def asks_leave(turn: Turn) -> None:
        if turn.approval is None:
            await turn.request_approval({"tool": "pay"}, "Pay?")
        else:
            await turn.complete("paid")

    other = Another(deployment=Deployment(running(asks_leave)))
    overseen = Overseen(other, WORK, at_once=False)
    task = overseen.send()
    overseen.deployment.run_turn("acme", task.id, 1)
    assert overseen.get(task.id).status.state is WORKING
    assert texts(overseen, task.id) == ["It waits for an approval where it runs."]
    child = overseen.link(task.id).child
    assert child is not None
    decide(other.deployment, ANN, child)
    overseen.deployment.work()
    assert overseen.get(task.id).status.state is COMPLETED


# A worker's time.


def test_a_task_that_takes_longer_than_a_turn_is_followed_by_the_next() -> None:
    far = Scripted(steps=[WORKING])
    overseen = Overseen(far, at_once=False)
    task = overseen.send()
    for turn in range(1, 6):
        assert overseen.deployment.waker.turns == [("acme", task.id, turn)]
        overseen.deployment.run_turn(*overseen.deployment.waker.turns.pop())
        assert overseen.get(task.id).status.state is WORKING
    far.steps = [COMPLETED]
    overseen.deployment.work()
    assert overseen.get(task.id).status.state is COMPLETED
    assert len(far.sent) == 1
    assert overseen.outbox() == []


def test_a_turn_that_was_handed_on_is_found_by_the_sweeper() -> None:
    overseen = Overseen(Scripted(steps=[WORKING]), at_once=False)
    task = overseen.send()
    overseen.deployment.run_turn("acme", task.id, 1)
    overseen.deployment.waker.turns.clear()
    overseen.deployment.clock.advance(60)
    sweep(overseen.deployment.engine)
    assert overseen.deployment.waker.turns == [("acme", task.id, 2)]


def test_nothing_is_handed_on_while_halted() -> None:
    far = Scripted(steps=[WORKING])
    overseen = Overseen(far, at_once=False)
    task = overseen.send()
    engine = overseen.deployment.engine

    def halts(operation: str) -> None:
        if operation == "get":
            far.before = lambda _: None
            declare(engine, OPS, HALT, "stop")

    far.before = halts
    overseen.deployment.run_turn("acme", task.id, 1)
    assert overseen.get(task.id).status.state is TaskState.CANCELED
    assert not overseen.deployment.run_rows()
    overseen.outbox()
    assert far.canceled == list(far.tasks)


# Cancels and losses.


def test_a_cancel_ends_the_one_there_also_while_it_waits() -> None:
    for steps in ([WORKING], [waiting()]):
        far = Scripted(steps=list(steps))
        overseen = Overseen(far, at_once=False)
        task = overseen.send()
        overseen.deployment.run_turn("acme", task.id, 1)
        assert overseen.outbox() == []
        assert far.canceled == []
        overseen.deployment.cancel(task.id)
        assert overseen.outbox() == []
        assert far.canceled == list(far.tasks)
        assert overseen.link(task.id).outcome == "canceled"


def test_a_task_whose_question_expires_ends_the_one_there() -> None:
    far = Scripted()
    overseen = Overseen(far)
    deadline = overseen.deployment.clock.now() + timedelta(minutes=5)
    far.steps = [prompting(CHOICE, deadline=deadline)]
    task = overseen.send()
    overseen.deployment.waker.children.clear()
    overseen.deployment.clock.advance(301)
    sweep(overseen.deployment.engine)
    assert overseen.get(task.id).status.state is TaskState.FAILED
    overseen.outbox()
    assert far.canceled == list(far.tasks)


def test_a_halt_ends_the_one_there_and_nothing_is_sent_while_it_holds() -> None:
    far = Scripted(steps=[waiting()])
    overseen = Overseen(far, at_once=False)
    task = overseen.send()
    declare(overseen.deployment.engine, OPS, HALT, "stop")
    overseen.deployment.work()
    assert far.sent == []
    assert overseen.get(task.id).status.state is TaskState.CANCELED
    lift(overseen.deployment.engine, OPS, HALT)


def test_a_due_row_looks_after_it_until_it_rests() -> None:
    far = Scripted(steps=[waiting()])
    overseen = Overseen(far)
    task = overseen.send()
    for _ in range(3):
        overseen.deployment.clock.advance(1000)
        sweep(overseen.deployment.engine)
    assert overseen.outbox() == []
    assert far.canceled == []
    # Whoever canceled was lost before it could wake anybody.
    overseen.deployment.cancel(task.id)
    overseen.deployment.waker.children.clear()
    overseen.deployment.clock.advance(1000)
    sweep(overseen.deployment.engine)
    overseen.outbox()
    assert far.canceled == list(far.tasks)


def test_an_agent_that_refuses_the_message_fails_the_task_with_its_reason() -> None:
    far = Scripted()

    def refuse(operation: str) -> None:
        raise PeerRefused("the peer refused: Invalid parameters")

    far.before = refuse
    overseen = Overseen(far)
    task = overseen.send()
    assert (task.status.state, texts(overseen, task.id)) == (
        TaskState.FAILED,
        ["The peer refused: Invalid parameters."],
    )
    assert overseen.link(task.id).outcome == "failed"


def test_silence_shows_and_is_borne_for_a_while_then_the_task_fails() -> None:
    far = Scripted(steps=[WORKING])
    overseen = Overseen(far)
    silent = 0

    def hush(operation: str) -> None:
        nonlocal silent
        if operation == "get":
            silent += 1
            raise PeerUnreachable("no answer")

    far.before = hush
    task = overseen.send()
    assert task.status.state is TaskState.FAILED
    assert texts(overseen, task.id) == [
        "The agent does not answer at the moment.",
        "The agent does not answer any more.",
    ]
    assert silent > 10
    # Over several turns: its time is that of the agent, not of a worker.
    assert overseen.deployment.meta(task.id).turn > 1
    far.before = lambda _: None
    overseen.outbox()
    assert far.canceled == list(far.tasks)


def test_an_agent_that_answers_again_goes_on() -> None:
    far = Scripted(steps=[WORKING, COMPLETED])
    left = 20

    def hush(operation: str) -> None:
        nonlocal left
        if left:
            left -= 1
            raise PeerUnreachable("no answer")

    far.before = hush
    overseen = Overseen(far)
    task = overseen.send()
    assert task.status.state is COMPLETED
    assert texts(overseen, task.id)[0] == "The agent does not answer at the moment."


def test_a_send_that_nobody_answers_is_given_up() -> None:
    far = Scripted()

    def hush(operation: str) -> None:
        raise PeerUnreachable("no answer")

    far.before = hush
    overseen = Overseen(far)
    task = overseen.send()
    assert task.status.state is TaskState.FAILED
    link = overseen.link(task.id)
    assert overseen.deployment.clock.now() < parse_instant(link.send_until)


def test_a_send_whose_answer_is_lost_is_looked_for_before_it_is_sent_again() -> None:
    far = Scripted(knows_keys=False)

    def lose(operation: str) -> None:
        if operation == "send":
            far.after = lambda _: None
            raise PeerUnreachable("no answer")

    far.after = lose
    overseen = Overseen(far)
    assert overseen.send().status.state is COMPLETED
    assert len(far.tasks) == len(far.sent) == 1


def test_where_nothing_can_be_looked_for_nothing_is_sent_twice() -> None:
    far = Scripted(knows_keys=False)

    def lose(operation: str) -> None:
        if operation == "send":
            raise PeerUnreachable("no answer")

    def refuse(operation: str) -> None:
        if operation == "find":
            raise PeerRefused("the peer refused: Method not found")

    far.after, far.before = lose, refuse
    overseen = Overseen(far)
    task = overseen.send()
    assert texts(overseen, task.id)[-1] == "It is not known whether the agent has got the message."
    assert len(far.sent) == 1


def test_an_answer_whose_reply_is_lost_is_not_given_twice() -> None:
    far = Scripted(steps=[waiting()])
    overseen = Overseen(far)
    task = overseen.send()

    def lose(operation: str) -> None:
        if operation == "send":
            far.after = lambda _: None
            raise PeerUnreachable("no answer")

    far.after, far.then = lose, [WORKING, COMPLETED]
    overseen.deployment.answer(ANN, task.id, {"text": "yes"})
    assert overseen.get(task.id).status.state is COMPLETED
    assert len(far.sent) == 2


def test_a_task_that_is_forgotten_there_fails_here() -> None:
    far = Scripted(steps=[WORKING])
    overseen = Overseen(far, at_once=False)
    task = overseen.send()
    overseen.deployment.run_turn("acme", task.id, 1)
    far.tasks.clear()
    overseen.deployment.work()
    assert texts(overseen, task.id)[-1] == "The agent does not know the task any more."
    assert overseen.link(task.id).outcome == "unreachable"


def test_an_agent_that_was_removed_takes_nothing_new_and_what_runs_is_followed() -> None:
    far = Scripted(steps=[WORKING])
    overseen = Overseen(far, at_once=False)
    runs, waits = overseen.send(), overseen.send()
    overseen.deployment.run_turn("acme", runs.id, 1)
    overseen.registry.remove(OPS, "far")
    far.steps = [COMPLETED]
    overseen.deployment.work()
    assert overseen.get(runs.id).status.state is COMPLETED
    assert texts(overseen, waits.id) == ["The agent is not registered any more."]


def test_what_it_hands_on_can_not_go_round_for_ever() -> None:
    far = Scripted()
    overseen = Overseen(far)
    task = overseen.send(metadata={terms_of.KEY: {"depth": terms_of.MAX_DEPTH}})
    assert task.status.state is TaskState.FAILED
    assert far.sent == []


# Lost workers.


class Died(BaseException):
    """The worker's process is gone."""


OPERATIONS = ("send", "get", "write")


@pytest.mark.parametrize("ours", [True, False], ids=["knows keys", "knows none"])
@pytest.mark.parametrize("seed", range(40))
def test_a_worker_may_die_anywhere(seed: int, ours: bool) -> None:
    """The next goes on: the work is done once there, each answer counts once, and nothing is left running."""
    dice = random.Random(seed)
    far = Scripted(steps=[WORKING, WORKING, prompting(CHOICE)], knows_keys=ours)
    far.artifacts = [Artifact(artifact_id="a", parts=[Part(text="one")])]
    overseen = Overseen(far, at_once=False)
    here, deaths = overseen.deployment, 0
    task = overseen.send()

    def die(*_: Any) -> None:
        nonlocal deaths
        if deaths < 3 and dice.random() < 0.15:
            deaths += 1
            raise Died

    def work() -> None:
        """As workers and sweepers do, until nothing is left to do."""
        for _ in range(12):
            far.before = far.after = die
            here.hook(
                before=lambda operation, _: die() if operation == "write" else None,
                after=lambda operation, _: die() if operation == "write" else None,
            )
            try:
                while here.waker.turns:
                    here.run_turn(*here.waker.turns.pop(0))
            except Died:
                pass
            far.before = far.after = lambda _: None
            here.hook()
            here.clock.advance(70)
            sweep(here.engine)
            if not here.run_rows():
                return
        raise AssertionError("it does not come to an end")

    work()
    state = overseen.get(task.id).status.state
    if state is TaskState.INPUT_REQUIRED:
        far.then = [WORKING, COMPLETED]
        here.answer(ANN, task.id, {"n": 1})
        work()
        state = overseen.get(task.id).status.state
    overseen.outbox()
    here.clock.advance(4000)
    sweep(here.engine)
    overseen.outbox()
    assert state in (COMPLETED, TaskState.FAILED)
    assert deaths or state is COMPLETED
    running_there = [each.id for each in far.tasks.values() if not each.status.state.terminal]
    assert running_there == [] if ours else len(running_there) <= 1
    assert len(far.tasks) <= 1
    if state is COMPLETED:
        artifacts = overseen.get(task.id).artifacts or []
        assert [artifact.artifact_id for artifact in artifacts] == ["a"]
        assert len([event for event in stored(overseen, task.id) if "artifact" in event]) == 1
        answers = {sent.key for sent in far.sent if sent.message.task_id is not None}
        assert len(answers) == 1


# Another Interlock.


def test_a_question_of_another_interlock_is_asked_and_answered_through_this_one() -> None:
    other = Another(deployment=Deployment(asking(CHOICE)))
    overseen = Overseen(other, WORK)
    task = overseen.send()
    assert task.status.state is TaskState.INPUT_REQUIRED
    overseen.deployment.answer(ANN, task.id, {"n": 2})
    assert overseen.get(task.id).status.state is COMPLETED
    child = overseen.link(task.id).child
    assert child is not None
    assert other.deployment.get(child, other.who, extensions=PROMPTS).status.state is COMPLETED
    assert overseen.link(task.id).ours
