"""The trail of calls: each leaves a fact, refused ones too, and none leaves what was said."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.approvals import ACTION, DIGEST, asking_leave
from tests.support.bindings import BINDINGS, Binding, Client
from tests.support.calls import call
from tests.support.twin import START, Deployment, asking, nothing, running

from interlock.adapters.clock import SystemClock
from interlock.engine.calls import LOST_CALL, SEAL_SECONDS, Calls
from interlock.engine.facts import fact_pk
from interlock.engine.ports import OutcomeUnknown
from interlock.engine.seal import Sealer, chains, head, seal
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.approvals import Gate

SECRET = "the secret of the message"
TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


def noted(agent: Any, *, at_once: bool = True, **options: Any) -> Deployment:
    deployment = Deployment(agent, at_once=at_once)
    deployment.calls = Calls(deployment.engine, **options)
    return deployment


def facts(deployment: Deployment, kind: str, tenant: str = "acme") -> list[dict[str, Any]]:
    """In the order of their methods: they are all of one moment."""
    rows = deployment.table.query(fact_pk(tenant)).rows
    found = [json.loads(str(item["body"])) for _, item in rows]
    return sorted((fact for fact in found if fact["kind"] == kind), key=lambda fact: str(fact.get("method")))


def message(text: str = "go", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


@pytest.fixture(params=BINDINGS, ids=lambda binding: binding.name)
def binding(request: pytest.FixtureRequest) -> Binding:
    found: Binding = request.param
    return found


class TestAgentsDoor:
    def test_a_call_says_who_called_what_about_which_task_and_how_it_ended(self, binding: Binding) -> None:
        deployment = noted(running(nothing))
        client = Client(deployment.agents_door(), binding)
        task = client.call("SendMessage", message(SECRET), headers=TRACEPARENT).task
        (sent,) = facts(deployment, "call")
        assert sent["actor"] == {"subject": "agent", "scheme": "bearer"}
        assert (sent["method"], sent["taskId"], sent["messageId"]) == ("SendMessage", task["id"], "m-1")
        assert sent["outcome"] == {"status": "ok"}
        assert sent["trace"] == {"traceId": TRACE, "spanId": "b7ad6b7169203331"}
        assert sent["digests"]["message"].startswith("sha256:")
        assert SECRET not in json.dumps(sent)

    def test_the_trace_of_a_call_is_in_the_facts_of_its_task(self, binding: Binding) -> None:
        deployment = noted(running(nothing), at_once=False)
        Client(deployment.agents_door(), binding).call("SendMessage", message(), headers=TRACEPARENT)
        deployment.work()
        for kind in ("call", "task.event", "run.started"):
            assert {fact["trace"]["traceId"] for fact in facts(deployment, kind)} == {TRACE}

    @pytest.mark.parametrize("method", ["GetTask", "CancelTask"])
    def test_a_read_and_a_refused_call_are_on_it_too(self, binding: Binding, method: str) -> None:
        deployment = noted(running(nothing))
        client = Client(deployment.agents_door(), binding)
        client.call(method, {"id": "no-such-task"})
        client.call("ListTasks", {})
        by_method = {fact["method"]: fact for fact in facts(deployment, "call")}
        refused, listed = by_method[method], by_method["ListTasks"]
        assert refused["outcome"] == {"status": "error", "error": "TASK_NOT_FOUND"}
        assert (refused["method"], refused["taskId"]) == (method, "no-such-task")
        assert (listed["method"], listed["outcome"]) == ("ListTasks", {"status": "ok"})

    def test_a_call_of_nobody_is_on_the_chain_of_nobody(self, binding: Binding) -> None:
        deployment = noted(running(nothing))
        Client(deployment.agents_door(), binding).call("SendMessage", message(), who="stranger")
        (refused,) = facts(deployment, "call", "")
        assert refused["outcome"] == {"status": "error", "error": "UNAUTHENTICATED"}
        assert refused["actor"] == {}
        assert chains(deployment.table) == [""]

    def test_a_name_that_callers_make_up_is_their_content(self, binding: Binding) -> None:
        deployment = noted(running(nothing))
        client = Client(deployment.agents_door(), binding)
        client.call("SendMessage", message(messageId=SECRET, taskId=SECRET))
        (refused,) = facts(deployment, "call")
        assert SECRET not in json.dumps(refused)

    def test_a_refused_decision_names_its_reason_and_not_what_was_said(self, binding: Binding) -> None:
        deployment = noted(asking_leave(gate=Gate(frozenset({"bearer:ann"}))))
        client = Client(deployment.agents_door(), binding)
        task_id = client.call("SendMessage", message()).task["id"]
        request = deployment.open_prompt(task_id)
        said = {"requestId": request, "decision": "approve", "digest": DIGEST, "comment": SECRET}
        more = {"taskId": task_id, "metadata": {approvals.KEY: said}}
        client.call("SendMessage", message(SECRET, **more), who="ben")
        (refused,) = facts(deployment, "prompt.refused")
        assert refused["actor"]["subject"] == "ben"
        assert refused["outcome"] == {"status": "error", "error": "PERMISSION_DENIED"}
        assert refused["detail"] == {
            "prompt": request,
            "decision": "approve",
            "reason": "You may not decide this request",
        }
        assert SECRET not in json.dumps(refused)

    def test_a_refused_answer_is_a_refusal_and_an_admitted_one_is_not(self, binding: Binding) -> None:
        deployment = noted(asking())
        client = Client(deployment.agents_door(), binding)
        task_id = client.call("SendMessage", message()).task["id"]
        for payload in ({"approved": SECRET}, {"approved": True}):
            said = {"prompt_id": deployment.prompts(task_id)[0].ask_id, "payload": payload}
            more = {"taskId": task_id, "metadata": {hitl_prompt.RESPONSE_KEY: said}}
            client.call("SendMessage", message(**more), who="ann")
        (refused,) = facts(deployment, "prompt.refused")
        assert refused["outcome"]["error"] == "HITL_RESPONSE_INVALID"
        assert SECRET not in json.dumps(refused)
        assert len(facts(deployment, "prompt.answered")) == 1

    def test_an_error_of_ours_is_on_it_too(self) -> None:
        deployment = noted(running(nothing))

        def broken(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "query" and str(arguments[0]).startswith("T#"):
                raise RuntimeError(SECRET)

        deployment.hook(before=broken)
        Client(deployment.agents_door(), BINDINGS[0]).call("GetTask", {"id": "t-1"})
        (failed,) = facts(deployment, "call")
        assert failed["outcome"] == {"status": "error", "error": "INTERNAL_ERROR"}


class TestPeoplesDoor:
    def place(self, **options: Any) -> tuple[Deployment, str]:
        deployment = noted(asking_leave(), **options)
        task_id = deployment.send().id
        return deployment, f"/people/tasks/{task_id}/checkpoints/{deployment.open_prompt(task_id)}"

    def test_reads_and_decisions_are_on_it(self) -> None:
        deployment, path = self.place()
        app = deployment.people_door()
        call(app, "GET", path, who="ann", headers=TRACEPARENT)
        body = {"decision": "approve", "digest": DIGEST, "comment": SECRET}
        assert call(app, "POST", f"{path}/decide", who="ann", body=body).status_code == 200
        decided, read = facts(deployment, "call")
        assert (read["method"], decided["method"]) == ("people.get_one", "people.decide_one")
        assert read["trace"]["traceId"] == TRACE
        assert decided["taskId"] == path.split("/")[3]
        (approval,) = facts(deployment, "approval")
        assert approval["detail"]["approvedBy"] == ["bearer:ann"]
        assert SECRET not in json.dumps([decided, approval])

    @pytest.mark.parametrize(
        ("body", "error"),
        [
            ({"decision": "approve", "digest": "sha256:other"}, "INVALID_PARAMS"),
            ({"decision": "approve"}, "INVALID_PARAMS"),
            (b"no json", "PARSE_ERROR"),
        ],
    )
    def test_a_refused_decision_is_a_refusal_wherever_it_was_refused(self, body: Any, error: str) -> None:
        deployment, path = self.place()
        assert call(deployment.people_door(), "POST", f"{path}/decide", who="ann", body=body).is_error
        (refused,) = facts(deployment, "prompt.refused")
        assert refused["outcome"] == {"status": "error", "error": error}
        assert refused["detail"]["prompt"] == path.split("/")[5]
        assert refused["actor"]["subject"] == "ann"

    def test_a_call_of_nobody(self) -> None:
        deployment, path = self.place()
        assert call(deployment.people_door(), "GET", path, who="stranger").status_code == 401
        (refused,) = facts(deployment, "call", "")
        assert refused["outcome"]["error"] == "UNAUTHENTICATED"


def losing(kind: str) -> Callable[[str, tuple[Any, ...]], None]:
    """Facts of this kind are not carried out."""

    def hook(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "write" and any(
            f'"kind":"{kind}"' in str(getattr(write, "item", {}).get("body")) for write in arguments
        ):
            raise OutcomeUnknown

    return hook


def test_by_default_a_call_that_can_not_be_noted_is_served_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = noted(running(nothing))
    deployment.hook(before=losing("call"))
    client = Client(deployment.agents_door(), BINDINGS[0])
    assert client.call("SendMessage", message()).task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [record.message for record in caplog.records] == [LOST_CALL]
    assert facts(deployment, "call") == []


def test_by_default_a_call_costs_one_write_more() -> None:
    deployment = noted(running(nothing), at_once=False)
    client = Client(deployment.agents_door(), BINDINGS[0])
    client.call("ListTasks", {})
    calls: list[str] = []
    deployment.hook(before=lambda operation, arguments: calls.append(operation))
    client.call("SendMessage", {**message(), "configuration": {"returnImmediately": True}})
    assert calls == ["write", "snapshot", "write"]


class TestRequired:
    def place(self) -> tuple[Deployment, Client]:
        deployment = noted(running(nothing), required=True)
        return deployment, Client(deployment.agents_door(), BINDINGS[0])

    def test_a_call_is_answered_once_it_is_sealed(self) -> None:
        deployment, client = self.place()
        clock = deployment.clock
        sleep = clock.sleep

        def seal_meanwhile(seconds: float) -> None:
            sleep(seconds)
            seal(Sealer(deployment.table, SystemClock()), "acme")

        clock.sleep = seal_meanwhile  # type: ignore[method-assign]
        assert client.call("SendMessage", message()).task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert deployment.waker.chains == ["acme", "acme"]
        assert facts(deployment, "call") == []
        assert head(deployment.table, "acme").seq >= 4

    def test_a_call_that_nobody_seals_is_refused_before_it_does_anything(self) -> None:
        deployment, client = self.place()
        outcome = client.call("SendMessage", message())
        assert outcome.error is not None
        assert outcome.error["message"] == "The call could not be sealed into the audit trail"
        assert SEAL_SECONDS <= (deployment.clock.now() - START).total_seconds() < SEAL_SECONDS + 1
        assert not deployment.run_rows()
        assert not [key for key in deployment.rows() if key.pk.startswith("T#")]

    def test_a_store_that_is_slow_makes_it_wait_no_longer(self) -> None:
        deployment, client = self.place()

        def slow(operation: str, arguments: tuple[Any, ...]) -> None:
            deployment.clock.advance(1)

        deployment.hook(before=slow)
        assert client.call("SendMessage", message()).error is not None
        assert (deployment.clock.now() - START).total_seconds() < SEAL_SECONDS + 10

    def test_a_call_that_can_not_be_written_is_refused_before_it_does_anything(self) -> None:
        deployment, client = self.place()
        deployment.hook(before=losing("call.admitted"))
        assert client.call("SendMessage", message()).error is not None
        assert not [key for key in deployment.rows() if key.pk.startswith("T#")]

    def test_the_peoples_door_waits_too(self) -> None:
        deployment = noted(running(nothing), required=True)
        response = call(deployment.people_door(), "GET", "/people/checkpoints", who="ann")
        assert response.status_code == 503


def test_nothing_of_an_action_is_in_any_fact() -> None:
    deployment = noted(asking_leave(ACTION))
    deployment.send()
    rows = [item for key, item in deployment.rows().items() if key.pk.startswith("FACT#")]
    assert rows
    assert str(ACTION["order"]) not in json.dumps([str(item["body"]) for item in rows])
