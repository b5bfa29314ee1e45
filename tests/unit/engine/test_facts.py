"""Facts of the audit trail: what each decision leaves, in the same write, and what none of them holds."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.support.twin import AGENT, ANN, BEN, Deployment, asking, message, nothing, once, running

from interlock.agents import Turn
from interlock.engine.due import handle_due
from interlock.engine.facts import WithoutFacts, chain_of, fact_pk, traced
from interlock.engine.ports import OutcomeUnknown
from interlock.oversight.canonical_json import digest

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
SECRET = "the secret of the message"


def facts(deployment: Deployment, tenant: str = "acme") -> list[dict[str, Any]]:
    return [json.loads(str(item["body"])) for _, item in deployment.table.query(fact_pk(tenant)).rows]


def kinds(deployment: Deployment) -> list[str]:
    deployed = [(fact["time"], fact["kind"]) for fact in facts(deployment)]
    return sorted(kind for _, kind in deployed)


def one(deployment: Deployment, kind: str) -> dict[str, Any]:
    (found,) = [fact for fact in facts(deployment) if fact["kind"] == kind]
    return found


def test_a_task_leaves_a_fact_for_each_event_and_each_run() -> None:
    deployment = Deployment(running(nothing))
    task = deployment.send()
    assert kinds(deployment) == ["run.started", "task.event", "task.event"]
    created, *_ = [fact for fact in facts(deployment) if fact.get("eventSeq") == 1]
    assert created["actor"] == {"subject": "agent", "scheme": "bearer"}
    assert (created["taskId"], created["contextId"]) == (task.id, task.context_id)
    assert created["state"] == "TASK_STATE_SUBMITTED"
    assert created["time"].endswith("Z")
    assert one(deployment, "run.started")["runSeq"] == 1


def test_every_event_of_the_log_has_its_fact() -> None:
    deployment = Deployment(asking())
    task = deployment.send()
    deployment.answer(ANN, task.id, {"approved": True})
    numbers = sorted(fact["eventSeq"] for fact in facts(deployment) if fact.get("eventSeq"))
    assert numbers == list(range(1, deployment.meta(task.id).seq + 1))


def test_a_prompt_and_its_answer() -> None:
    deployment = Deployment(asking())
    task = deployment.send()
    prompt = deployment.open_prompt(task.id)
    deployment.answer(ANN, task.id, {"approved": True, "comment": SECRET}, message_id="m-answer")
    opened, answered = one(deployment, "prompt.opened"), one(deployment, "prompt.answered")
    assert opened["detail"] == {"prompt": prompt, "requestedBy": AGENT.id}
    assert set(opened["digests"]) == {"prompt", "schema", "event"}
    assert answered["actor"] == {"subject": "ann", "scheme": "bearer"}
    assert answered["detail"] == {"prompt": prompt, "requestedBy": AGENT.id, "closes": True}
    assert answered["digests"]["payload"] == digest({"approved": True, "comment": SECRET})
    assert answered["messageId"] == "m-answer"


def test_a_vote_that_does_not_decide_has_its_fact_too() -> None:
    deployment = Deployment(asking(allowed_responders=["consensus:2"]))
    task = deployment.send()
    for who in (ANN, BEN):
        deployment.answer(who, task.id, {"approved": True})
    answers = [fact for fact in facts(deployment) if fact["kind"] == "prompt.answered"]
    assert {fact["actor"]["subject"]: fact["detail"]["closes"] for fact in answers} == {
        "ann": False,
        "ben": True,
    }


def test_a_cancel_names_who_asked_for_it_and_what_was_open() -> None:
    deployment = Deployment(asking())
    task = deployment.send()
    prompt = deployment.open_prompt(task.id)
    deployment.cancel(task.id)
    cancelled = one(deployment, "task.cancel_requested")
    assert cancelled["actor"]["subject"] == "agent"
    assert cancelled["detail"] == {"prompt": prompt}
    assert cancelled["state"] == "TASK_STATE_CANCELED"


def test_a_time_that_passed_is_nobodys_act() -> None:
    deployment = Deployment(asking(deadline=timedelta(minutes=1)))
    deployment.send()
    ((key, _),) = deployment.waker.timers
    deployment.clock.advance(61)
    handle_due(deployment.engine, key)
    expired = one(deployment, "prompt.expired")
    assert expired["actor"] == {}
    assert expired["state"] == "TASK_STATE_FAILED"


def test_what_was_written_twice_has_one_fact() -> None:
    """The reply to the first try is lost, and the second finds that it had been carried out."""

    def lost() -> None:
        raise OutcomeUnknown

    deployment = Deployment(running(nothing), at_once=False)
    deployment.hook(after=once("write", lost))
    deployment.send()
    assert kinds(deployment) == ["task.event"]


def test_no_content_is_in_a_fact() -> None:
    async def work(turn: Turn) -> None:
        await turn.say(SECRET)
        await turn.artifact({"is": SECRET}, name=SECRET)
        await turn.ask(SECRET, {"type": "object", "title": SECRET})

    deployment = Deployment(running(work))
    task = deployment.send(message(SECRET, metadata={"a": SECRET}))
    deployment.answer(ANN, task.id, {"is": SECRET})
    assert len(facts(deployment)) >= 6
    assert SECRET not in json.dumps(facts(deployment))


class TestTrace:
    def test_reaches_from_the_first_message_to_the_last_effect(self) -> None:
        deployment = Deployment(asking(), at_once=False)
        with traced(TRACEPARENT):
            task = deployment.send()
        deployment.work()
        deployment.answer(ANN, task.id, {"approved": True})
        deployment.work()
        assert {fact["trace"]["traceId"] for fact in facts(deployment)} == {TRACE}
        assert len(facts(deployment)) == 6

    def test_a_later_call_has_its_own(self) -> None:
        deployment = Deployment(asking())
        with traced(TRACEPARENT):
            task = deployment.send()
        other = "1" * 32
        with traced(f"00-{other}-b7ad6b7169203331-00"):
            deployment.cancel(task.id)
        assert one(deployment, "task.cancel_requested")["trace"]["traceId"] == other

    @pytest.mark.parametrize(
        "header",
        [
            None,
            "",
            "nonsense",
            f"00-{'0' * 32}-b7ad6b7169203331-01",
            f"00-{TRACE}-{'0' * 16}-01",
            f"ff-{TRACE}-b7ad6b7169203331-01",
            f"00-{TRACE.upper()}-b7ad6b7169203331-01",
            f"00-{TRACE}-b7ad6b7169203331-01\n",
        ],
    )
    def test_of_a_header_that_is_not_valid_is_left_out(self, header: str | None) -> None:
        deployment = Deployment(running(nothing), at_once=False)
        with traced(header):
            deployment.send()
        assert [fact["trace"] for fact in facts(deployment)] == [{}]


@pytest.mark.parametrize("chain", ["", "acme", "a#b"])
def test_a_partition_of_facts_names_its_chain(chain: str) -> None:
    assert chain_of(fact_pk(chain)) == chain


def test_where_there_is_no_trail_nothing_is_written_for_it() -> None:
    deployment = Deployment(running(nothing))
    deployment.engine = replace(deployment.engine, table=WithoutFacts(deployment.hooks))
    task = deployment.send()
    assert deployment.meta(task.id).state == "TASK_STATE_COMPLETED"
    assert facts(deployment) == []
