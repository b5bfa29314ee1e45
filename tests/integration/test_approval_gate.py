"""The gate's table over both bindings: every refusal in its wire form, and what is admitted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.support.approvals import DIGEST, SUMMARY, asking_leave
from tests.support.bindings import BINDINGS, Binding, Client, Outcome
from tests.support.twin import AGENT, ANN, APPROVAL, BEN, BOT, CAROL, Deployment, asking, running

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied, TaskNotFound, Unauthenticated
from interlock.agents import Agent, Turn
from interlock.engine.errors import AnswerInvalid
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import KEY, MAX_COMMENT, QUORUM_KEY, URI, Gate

HOUR = timedelta(hours=1)
both = pytest.mark.parametrize("binding", BINDINGS, ids=lambda binding: binding.name)


def sent(text: str = "go", **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}}


@dataclass
class Stage:
    """An agents' door, and one task that waits for an approval."""

    binding: Binding
    agent: Agent = field(default_factory=asking_leave)
    owner: str = "agent"

    def __post_init__(self) -> None:
        self.deployment = Deployment(self.agent)
        self.client = Client(self.deployment.agents_door(), self.binding)
        self.task_id: str = self.call(sent(), self.owner).task["id"]

    def call(self, params: Mapping[str, Any], who: str | None, **headers: str) -> Outcome:
        return self.client.call("SendMessage", params, who, headers)

    @property
    def request_id(self) -> str:
        return self.deployment.open_prompt(self.task_id)

    def decision(self, **members: Any) -> dict[str, Any]:
        """Members that are None are left out."""
        wire = {"requestId": self.request_id, "decision": "approve", "digest": DIGEST, **members}
        return {name: value for name, value in wire.items() if value is not None}

    def decide(self, who: str | None, wire: Any = None, *, task_id: str = "", **metadata: Any) -> Outcome:
        said = self.decision() if wire is None else wire
        message = sent("decided", taskId=task_id or self.task_id, metadata={KEY: said, **metadata})
        return self.call(message, who)

    @property
    def metadata(self) -> Any:
        task = self.client.call("GetTask", {"id": self.task_id}, "ann").task
        return task["status"]["message"]["metadata"]


@dataclass(frozen=True)
class Row:
    """One refusal: on which stage, by whom, and what for."""

    name: str
    error: type[A2AError]
    decide: Callable[[Stage], Outcome]
    agent: Callable[[], Agent] = asking_leave
    owner: str = "agent"


async def needs_a_credential(turn: Turn) -> None:
    await turn.require_auth("a credential")


def lines(**members: Any) -> Callable[[Stage], Outcome]:
    return lambda stage: stage.decide("ann", stage.decision(**members))


def any_id(stage: Stage, who: str = "ann", **more: Any) -> Outcome:
    wire = {"requestId": str(uuid4()), "decision": "approve", "digest": DIGEST}
    return stage.decide(who, wire, **more)


ROWS = (
    Row("a: no credential", Unauthenticated, lambda stage: stage.decide(None)),
    Row("a: a credential that is none", Unauthenticated, lambda stage: stage.decide("mallory")),
    Row("b: another tenant", TaskNotFound, lambda stage: stage.decide("spy")),
    Row("b: another caller", TaskNotFound, lambda stage: stage.decide("peer")),
    Row("b: no such task", TaskNotFound, lambda stage: stage.decide("ann", task_id=str(uuid4()))),
    Row("b: malformed, of a task not seen", TaskNotFound, lambda stage: stage.decide("spy", {"x": 1})),
    Row("1: null", InvalidParams, lambda stage: stage.call(malformed(stage, None), "ann")),
    Row("1: text", InvalidParams, lambda stage: stage.decide("ann", "approve")),
    Row("1: no requestId", InvalidParams, lines(requestId=None)),
    Row("1: no decision", InvalidParams, lines(decision=None)),
    Row("1: no digest", InvalidParams, lines(digest=None)),
    Row("1: neither approve nor deny", InvalidParams, lines(decision="reject")),
    Row("1: changes are not for the wire", InvalidParams, lines(decision="changes")),
    Row("1: another case", InvalidParams, lines(decision="Approve")),
    Row("1: a comment beyond the limit", InvalidParams, lines(comment="c" * (MAX_COMMENT + 1))),
    Row("1: malformed, by no approver", InvalidParams, lambda stage: stage.decide("agent", {"x": 1})),
    Row("2: no task named", InvalidParams, lambda stage: stage.call(taskless(stage), "ann")),
    Row("2: a prompt, not a request", InvalidParams, any_id, lambda: asking(APPROVAL)),
    Row("2: waits for a credential", InvalidParams, any_id, lambda: running(needs_a_credential)),
    Row("2: decided", InvalidParams, lambda stage: twice(stage)),
    Row("3: another request", InvalidParams, any_id),
    Row("3: by no approver", InvalidParams, lambda stage: any_id(stage, "agent")),
    Row("4: another action", InvalidParams, lines(digest="sha256:" + "0" * 64)),
    Row("4: the digest in capitals", InvalidParams, lines(digest=DIGEST.upper())),
    Row("4: by no approver", InvalidParams, lambda stage: stage.decide("ops", stage.decision(digest="x"))),
    Row("5: an operator", PermissionDenied, lambda stage: stage.decide("ops")),
    Row("5: a service", PermissionDenied, lambda stage: stage.decide("bot")),
    Row(
        "5: not among the named",
        PermissionDenied,
        lambda stage: stage.decide("ann"),
        lambda: asking_leave(gate=Gate(frozenset({BEN.id, BOT.id}))),
    ),
    Row("6: asked for it", PermissionDenied, lambda stage: stage.decide("agent")),
    Row("6: asked for it, a person", PermissionDenied, lambda stage: stage.decide("carol"), owner="carol"),
    Row(
        "6: named, and asked for it",
        PermissionDenied,
        lambda stage: stage.decide("carol"),
        lambda: asking_leave(gate=Gate(frozenset({CAROL.id, ANN.id}))),
        owner="carol",
    ),
    Row("too late", InvalidParams, lambda stage: late(stage), lambda: asking_leave(deadline=HOUR)),
    Row("the other dialect alone", InvalidParams, lambda stage: answered(stage, "approve")),
    Row("the dialects contradict", AnswerInvalid, lambda stage: contradicting(stage)),
)


WIRE: Mapping[type[A2AError], Mapping[str, tuple[int, int]]] = {
    Unauthenticated: {"JSON-RPC": (401, -32600), "HTTP+JSON": (401, 401)},
    PermissionDenied: {"JSON-RPC": (403, -32600), "HTTP+JSON": (403, 403)},
    TaskNotFound: {"JSON-RPC": (200, -32001), "HTTP+JSON": (404, 404)},
    InvalidParams: {"JSON-RPC": (200, -32602), "HTTP+JSON": (400, 400)},
    AnswerInvalid: {"JSON-RPC": (200, -32011), "HTTP+JSON": (422, 422)},
}
"""Status of HTTP, and the code in the body."""


def malformed(stage: Stage, wire: Any) -> dict[str, Any]:
    return sent("decided", taskId=stage.task_id, metadata={KEY: wire})


def taskless(stage: Stage) -> dict[str, Any]:
    return sent("decided", metadata={KEY: stage.decision()})


def twice(stage: Stage) -> Outcome:
    wire = stage.decision()
    assert stage.decide("ben", wire).error is None
    return stage.decide("ann", wire)


def late(stage: Stage) -> Outcome:
    stage.deployment.clock.advance(HOUR.total_seconds())
    return stage.decide("ann")


def answer_in_the_other_dialect(stage: Stage, said: str) -> dict[str, Any]:
    return {hitl_prompt.RESPONSE_KEY: {"prompt_id": stage.request_id, "payload": {"decision": said}}}


def answered(stage: Stage, said: str) -> Outcome:
    metadata = answer_in_the_other_dialect(stage, said)
    outcome = stage.call(sent("decided", taskId=stage.task_id, metadata=metadata), "ann")
    assert KEY in str(outcome.error), "it says what is missing"
    return outcome


def contradicting(stage: Stage) -> Outcome:
    metadata = answer_in_the_other_dialect(stage, "deny")
    return stage.decide("ann", stage.decision(), **metadata)


@both
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_gate_refuses(binding: Binding, row: Row) -> None:
    stage = Stage(binding, row.agent(), row.owner)
    waits = [prompt.ask_id for prompt in stage.deployment.prompts(stage.task_id)]
    before = stage.deployment.rows()
    outcome = row.decide(stage)
    error = outcome.refused(row.error)
    assert (outcome.http.status_code, outcome.code) == WIRE[row.error][binding.name]
    if row.error is Unauthenticated:
        assert outcome.http.headers["www-authenticate"].startswith("Bearer")
    if row.name.startswith("2: decided"):
        assert [prompt.status for prompt in stage.deployment.prompts(stage.task_id)] == ["approved"]
    else:
        assert stage.deployment.rows() == before, "nothing runs, and nothing is consumed"
    if row.error is not AnswerInvalid:
        assert not [request_id for request_id in waits if request_id in outcome.http.text]
    assert len(outcome.http.content) < 1024
    assert DIGEST not in str(error)


@both
def test_a_request_on_the_wire_is_exactly_this(binding: Binding) -> None:
    stage = Stage(binding)
    request = {
        "requestId": stage.request_id,
        "summary": SUMMARY,
        "digest": DIGEST,
        "requestedBy": AGENT.id,
    }
    assert stage.metadata == {KEY: request}
    shown = stage.client.call("GetTask", {"id": stage.task_id}).task["status"]["message"]
    assert shown["extensions"] == [URI]
    activated = {"A2A-Extensions": f"{URI},{hitl_prompt.URI}"}
    outcome = stage.client.call("GetTask", {"id": stage.task_id}, headers=activated)
    assert set(outcome.http.headers["a2a-extensions"].split(", ")) == {URI, hitl_prompt.URI}
    shown = outcome.task["status"]["message"]
    assert sorted(shown["extensions"]) == sorted([URI, hitl_prompt.URI])
    assert shown["metadata"].keys() == {KEY, hitl_prompt.URI}
    assert shown["metadata"][hitl_prompt.URI]["prompt_id"] == stage.request_id


@both
@pytest.mark.parametrize("said", ["approve", "deny"])
def test_a_decision_is_admitted_and_stands_in_the_history_as_it_was_sent(binding: Binding, said: str) -> None:
    stage = Stage(binding)
    wire = stage.decision(decision=said, comment="so be it", future={"member": [1]})
    task = stage.decide("ann", wire, other="kept").task
    assert task["history"][-1]["metadata"] == {KEY: wire, "other": "kept"}
    seen = stage.client.call("GetTask", {"id": stage.task_id}).task
    assert seen["status"]["state"] == "TASK_STATE_COMPLETED"


@both
def test_a_quorum_is_counted_and_its_progress_shown(binding: Binding) -> None:
    stage = Stage(binding, asking_leave(quorum=2))
    assert stage.metadata[QUORUM_KEY] == {"approvedBy": [], "required": 2}
    wire = stage.decision()
    for _ in range(2):
        task = stage.decide("ann", wire).task
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert task["status"]["message"]["metadata"][QUORUM_KEY] == {"approvedBy": [ANN.id], "required": 2}
    stage.decide("ben", wire)
    assert stage.deployment.meta(stage.task_id).state == "TASK_STATE_COMPLETED"
    for who in ("ann", "ben"):
        with stage.deployment.unchanged():
            assert stage.decide(who, wire).task["status"]["state"] == "TASK_STATE_COMPLETED"


@both
def test_whatever_a_client_says_of_who_asked_the_server_says_it(binding: Binding) -> None:
    stage = Stage(binding, asking_leave(quorum=2), owner="carol")
    claimed = stage.decision(requestedBy="bearer:ben", approvedBy=["bearer:ben"])
    stage.decide("ann", claimed)
    assert stage.metadata[KEY]["requestedBy"] == CAROL.id
    assert stage.metadata[QUORUM_KEY]["approvedBy"] == [ANN.id]
