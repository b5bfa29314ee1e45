"""The people's door: what waits, one checkpoint, the answer, and refusals in one form."""

import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.support.a2a_wire import ask
from tests.support.approvals import ACTION, DIGEST, SUMMARY, asking_leave
from tests.support.calls import call
from tests.support.twin import (
    AGENT,
    ANN,
    APPROVAL,
    NOBODY,
    Deployment,
    asking,
    no_answer,
)
from tools import openapi

from interlock.a2a.models import TaskState
from interlock.doors.people.door import RefusalBody
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import KEY as KEY_OF_APPROVALS
from interlock.oversight.approvals import Gate
from interlock.oversight.canonical_json import digest

YES = {"payload": {"approved": True}}
KEY = {"Idempotency-Key": "0123456789abcdef"}


class Door:
    """The people's door of a deployment with one task that waits."""

    def __init__(self, **options: Any) -> None:
        self.deployment = Deployment(asking(**options))
        self.app = self.deployment.people_door()
        self.task_id = self.deployment.send().id
        self.prompt_id = self.deployment.open_prompt(self.task_id)
        self.path = f"/people/tasks/{self.task_id}/checkpoints/{self.prompt_id}"

    def get(self, path: str | None = None, who: str | None = "ann", **more: Any) -> httpx.Response:
        return call(self.app, "GET", path or self.path, who=who, **more)

    def answer(self, body: Any = YES, who: str | None = "ann", path: str = "", **more: Any) -> httpx.Response:
        return call(self.app, "POST", path or f"{self.path}/answer", who=who, body=body, **more)

    @property
    def state(self) -> TaskState:
        return self.deployment.meta(self.task_id).task_state


def refusal(response: httpx.Response, status: int, reason: str) -> Any:
    """The error of a response, which has the form that the description gives it."""
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    body = response.json()
    assert RefusalBody.model_validate(body, extra="forbid")
    error = body["error"]
    assert error["code"] == status
    assert error["details"][0]["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"
    assert error["details"][0]["reason"] == reason
    return error


# What waits.


def test_the_inbox_shows_what_waits_and_the_servers_time() -> None:
    door = Door(deadline=timedelta(minutes=5), allowed_responders=["consensus:2"])
    door.deployment.clock.advance(1.5)
    response = door.get("/people/checkpoints")
    assert response.status_code == 200
    assert response.json() == {
        "checkpoints": [
            {
                "taskId": door.task_id,
                "checkpointId": door.prompt_id,
                "kind": "prompt",
                "number": 1,
                "dispatch": False,
                "chain": [{"who": AGENT.id}, {"who": "people"}, {"who": "operators"}],
                "agent": "desk",
                "skill": "work",
                "requestedBy": AGENT.id,
                "prompt": "Go on?",
                "responseSchema": APPROVAL,
                "allowedResponders": ["consensus:2"],
                "needed": 2,
                "votes": 0,
                "askedAt": "2026-01-01T12:00:00.000Z",
                "deadline": "2026-01-01T12:05:00.000Z",
                "status": "open",
                "digest": digest({"prompt": "Go on?", "responseSchema": APPROVAL}),
                "mode": "autonomous",
                "mayDecide": True,
                "ifUnanswered": {"what": "ended", "at": "2026-01-01T12:05:00.000Z"},
            }
        ],
        "now": "2026-01-01T12:00:01.500Z",
    }


def test_the_inbox_goes_on_where_its_cursor_says() -> None:
    door = Door()
    for _ in range(2):
        door.deployment.send()
    first = door.get("/people/checkpoints?limit=2").json()
    assert len(first["checkpoints"]) == 2
    second = door.get(f"/people/checkpoints?limit=2&cursor={first['cursor']}").json()
    assert len(second["checkpoints"]) == 1
    assert "cursor" not in second


def test_others_than_approvers_and_operators_have_no_inbox() -> None:
    door = Door()
    for who in ("agent", "nobody", "platform"):
        refusal(door.get("/people/checkpoints", who), 403, "PERMISSION_DENIED")
    assert len(door.get("/people/checkpoints", "ops").json()["checkpoints"]) == 1
    assert door.get("/people/checkpoints", "spy").json()["checkpoints"] == []


@pytest.mark.parametrize("cursor", ["x", "é", "a" * 2049, ""])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    refusal(Door().get(f"/people/checkpoints?cursor={cursor}"), 400, "INVALID_PARAMS")


@pytest.mark.parametrize("limit", ["0", "101", "-1", "x", "1.5", ""])
def test_a_page_has_from_1_to_100(limit: str) -> None:
    refusal(Door().get(f"/people/checkpoints?limit={limit}"), 400, "INVALID_PARAMS")


def test_who_calls_is_told_who_they_are_here() -> None:
    door = Door()
    assert door.get("/people/me").json() == {
        "id": ANN.id,
        "tenant": "acme",
        "kind": "person",
        "roles": ["approver"],
        "now": "2026-01-01T12:00:00.000Z",
    }
    assert door.get("/people/me", "nobody").json()["roles"] == []
    refusal(door.get("/people/me", None), 401, "UNAUTHENTICATED")


def test_the_history_goes_on_where_its_cursor_says() -> None:
    door = Door()
    door.answer()
    for _ in range(2):
        door.deployment.clock.advance(1)
        door.deployment.cancel(door.deployment.send().id)
    first = door.get("/people/history?limit=2").json()
    assert [one["outcome"] for one in first["checkpoints"]] == ["canceled", "canceled"]
    second = door.get(f"/people/history?limit=2&cursor={first['cursor']}").json()
    assert [one["outcome"] for one in second["checkpoints"]] == ["answered"]
    assert "cursor" not in second
    refusal(door.get("/people/history", "nobody"), 403, "PERMISSION_DENIED")
    refusal(door.get("/people/history?cursor=x"), 400, "INVALID_PARAMS")


# One checkpoint.


def test_one_checkpoint_is_shown_as_in_the_inbox_also_when_it_is_closed() -> None:
    door = Door()
    (listed,) = door.get("/people/checkpoints").json()["checkpoints"]
    assert door.get().json() == listed
    door.answer()
    assert listed.pop("ifUnanswered") == {"what": "waits"}
    closed = {"closedAt": "2026-01-01T12:00:00.000Z", "decidedBy": ANN.id, "outcome": "answered"}
    assert door.get().json() == {
        **listed,
        "status": "answered",
        "votes": 1,
        "votesBy": [{"who": ANN.id}],
        "mayDecide": False,
        "whyNot": "closed",
        **closed,
        "delivery": {"status": "delivered", "at": "2026-01-01T12:00:00.000Z"},
    }
    (old,) = door.get("/people/history").json()["checkpoints"]
    shown = door.get().json()
    del shown["delivery"]
    assert old == shown


def test_a_checkpoint_is_found_by_its_id_in_capitals() -> None:
    door = Door()
    path = f"/people/tasks/{door.task_id}/checkpoints/{door.prompt_id.upper()}"
    assert door.get(path).json()["checkpointId"] == door.prompt_id
    assert door.answer(path=f"{path}/answer").status_code == 200


def test_what_the_caller_does_not_see_is_not_there() -> None:
    door = Door()
    unknown = f"/people/tasks/{door.task_id}/checkpoints/{uuid4()}"
    nowhere = f"/people/tasks/none/checkpoints/{door.prompt_id}"
    for who, path in (("peer", door.path), ("spy", door.path), ("ann", unknown), ("ann", nowhere)):
        error = refusal(door.get(path, who), 404, "TASK_NOT_FOUND")
        assert error["details"][0]["metadata"] == {"taskId": path.split("/")[3]}


@pytest.mark.parametrize("checkpoint", ["1", "x" * 300, "é" * 256, "ASK%23", "%00"])
def test_an_id_that_can_be_no_checkpoints_is_refused(checkpoint: str) -> None:
    door = Door()
    path = f"/people/tasks/{door.task_id}/checkpoints/{checkpoint}"
    refusal(door.get(path), 400, "INVALID_PARAMS")
    with door.deployment.unchanged():
        refusal(door.answer(path=f"{path}/answer"), 400, "INVALID_PARAMS")


def test_a_task_id_beyond_the_limit_is_refused_and_an_odd_one_not_found() -> None:
    door = Door()
    refusal(door.get(f"/people/tasks/{'x' * 257}/checkpoints/{uuid4()}"), 400, "INVALID_PARAMS")
    for odd in ("é" * 256, "T%23other%23x", "%00"):
        refusal(door.get(f"/people/tasks/{odd}/checkpoints/{uuid4()}"), 404, "TASK_NOT_FOUND")


# The answer.


def test_an_answer_is_accepted_and_the_task_goes_on() -> None:
    door = Door()
    response = door.answer()
    assert (response.status_code, response.json()) == (200, {"status": "accepted"})
    assert door.state is TaskState.COMPLETED


def test_an_answer_stands_in_the_history_as_data() -> None:
    door = Door()
    door.answer(headers=KEY)
    *_, said = door.deployment.get(door.task_id).history or []
    assert [part.data for part in said.parts] == [YES["payload"]]
    assert said.message_id == KEY["Idempotency-Key"]


def test_an_answer_that_is_one_of_several_is_counted() -> None:
    door = Door(allowed_responders=["consensus:2"])
    assert door.answer(who="ann").json() == {"status": "counted"}
    assert door.get().json()["votes"] == 1
    assert door.answer(who="ben").json() == {"status": "accepted"}


def test_a_repeat_under_its_key_is_told_the_same() -> None:
    door = Door()
    assert door.answer(headers=KEY).json() == {"status": "accepted"}
    with door.deployment.unchanged():
        assert door.answer(headers=KEY).json() == {"status": "accepted"}
        refusal(door.answer(), 409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN")


@pytest.mark.parametrize("key", ["short", "k" * 256, "k" * 15 + "#", "k" * 15 + " k"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    door = Door()
    with door.deployment.unchanged():
        refusal(door.answer(headers={"Idempotency-Key": key}), 400, "INVALID_PARAMS")


def test_who_comes_second_is_told_who_won() -> None:
    door = Door()
    door.answer(who="ann")
    error = refusal(door.answer(who="ben"), 409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN")
    assert error["status"] == "ABORTED"
    assert (error["extension"], error["prompt_id"]) == (hitl_prompt.URI, door.prompt_id)
    assert error["details"][0]["metadata"] == {"winner": ANN.id}


def test_an_unknown_checkpoint_of_a_task_is_a_conflict() -> None:
    door = Door()
    path = f"/people/tasks/{door.task_id}/checkpoints/{uuid4()}/answer"
    refusal(door.answer(path=path), 409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN")


def test_a_payload_that_breaks_the_schema_is_told_all_violations() -> None:
    door = Door()
    error = refusal(door.answer({"payload": {"approved": 1, "more": 2}}), 422, "HITL_RESPONSE_INVALID")
    assert [(found["path"], found["keyword"]) for found in error["validation_errors"]] == [
        ("/approved", "type"),
        ("/more", "additionalProperties"),
    ]
    assert door.state is TaskState.INPUT_REQUIRED


def test_after_the_deadline_an_answer_has_expired() -> None:
    door = Door(deadline=timedelta(minutes=1))
    door.deployment.clock.advance(60)
    assert refusal(door.answer(), 409, "HITL_ALREADY_ANSWERED_OR_UNKNOWN")["reason"] == "expired"


def test_who_may_not_answer_is_denied_and_who_does_not_see_it_finds_nothing() -> None:
    door = Door(allowed_responders=[f"specific:{NOBODY.id}"])
    with door.deployment.unchanged():
        refusal(door.answer(who="ann"), 403, "PERMISSION_DENIED")
        refusal(door.answer(who="peer"), 404, "TASK_NOT_FOUND")
        refusal(door.answer(who="spy"), 404, "TASK_NOT_FOUND")
    assert door.answer(who="nobody").json() == {"status": "accepted"}


# Bad bodies.

VALID = json.dumps(YES).encode()


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "PARSE_ERROR"),
        (b"{", 400, "PARSE_ERROR"),
        (b"\xff", 400, "PARSE_ERROR"),
        (b"\xef\xbb\xbf" + VALID, 400, "PARSE_ERROR"),
        (b'{"payload": {"approved": true, "approved": false}}', 400, "PARSE_ERROR"),
        (b'{"payload": {"approved": true}, "payload": {"approved": false}}', 400, "PARSE_ERROR"),
        (b'{"payload": {"approved": NaN}}', 400, "PARSE_ERROR"),
        (b'{"payload": {"approved": Infinity}}', 400, "PARSE_ERROR"),
        (b'{"payload": {"approved": 1e999}}', 400, "PARSE_ERROR"),
        (b'{"payload": {"comment": "\\ud800"}}', 400, "PARSE_ERROR"),
        (b'{"payload": ' + b"[" * 100 + b"]" * 100 + b"}", 400, "PARSE_ERROR"),
        (b'{"payload": ' + b"[" * 100_000, 400, "PARSE_ERROR"),
        (b"[]", 400, "INVALID_REQUEST"),
        (b"null", 400, "INVALID_REQUEST"),
        (b'"payload"', 400, "INVALID_REQUEST"),
        (b"{}", 400, "INVALID_PARAMS"),
        (b'{"payload": null}', 400, "INVALID_PARAMS"),
        (b'{"payload": [true]}', 400, "INVALID_PARAMS"),
        (b'{"payload": {"approved": true}, "more": 1}', 400, "INVALID_PARAMS"),
        (VALID.ljust(2**20 + 1), 413, "REQUEST_TOO_LARGE"),
    ],
)
def test_a_bad_body_is_refused_and_stores_nothing(body: bytes, status: int, reason: str) -> None:
    door = Door()
    with door.deployment.unchanged():
        error = refusal(door.answer(body), status, reason)
    assert len(json.dumps(error)) < 2000


def test_a_body_up_to_the_limit_is_read() -> None:
    assert Door().answer(VALID.ljust(2**20)).status_code == 200


def test_a_body_is_read_no_further_than_the_limit() -> None:
    door = Door()
    headers = {"authorization": "Bearer ann", "content-type": "application/json"}
    endless = [VALID.ljust(2**20), b" "]
    answer = ask(door.app, "POST", f"{door.path}/answer", body=endless, headers=headers, ends=False)
    assert answer.status == 413


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded", "json"])
def test_a_body_of_another_type_is_refused(content_type: str) -> None:
    door = Door()
    with door.deployment.unchanged():
        response = door.answer(headers={"Content-Type": content_type})
    refusal(response, 415, "CONTENT_TYPE_NOT_SUPPORTED")


# Who calls.


@pytest.mark.parametrize("who", [None, "mallory"])
@pytest.mark.parametrize("body", [VALID, b"{", VALID.ljust(2**20 + 1)], ids=["valid", "malformed", "large"])
def test_who_is_not_known_is_challenged_before_anything_else(who: str | None, body: bytes) -> None:
    door = Door()
    with door.deployment.unchanged():
        responses = [
            door.answer(body, who),
            door.answer(body, who, headers={"Content-Type": "text/plain", "Idempotency-Key": "short"}),
            door.answer(body, who, path="/people/tasks/none/checkpoints/1/answer"),
            door.get(who=who),
            door.get("/people/checkpoints?cursor=x", who),
        ]
    for response in responses:
        refusal(response, 401, "UNAUTHENTICATED")
        assert response.headers["www-authenticate"] == "Bearer"


# What nobody asked for.


@pytest.mark.parametrize(
    "path", ["/people", "/people/", "/people/checkpoints/", "/people/tasks/a", "/", "/docs", "/openapi.json"]
)
def test_there_is_nothing_else(path: str) -> None:
    refusal(Door().get(path), 404, "METHOD_NOT_FOUND")


def test_another_method_is_not_allowed_and_says_which_is() -> None:
    door = Door()
    response = call(door.app, "DELETE", door.path, who="ann")
    refusal(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == "GET"


def test_a_store_that_does_not_answer_is_unavailable_for_now() -> None:
    door = Door()
    door.deployment.hook(before=lambda operation, arguments: no_answer())
    for response in (door.get(), door.answer()):
        refusal(response, 503, "UNAVAILABLE")
        assert response.headers["retry-after"] == "1"


def test_a_mistake_of_ours_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    door = Door()

    def broken(operation: str, arguments: tuple[Any, ...]) -> None:
        raise RuntimeError("password=hunter2")

    door.deployment.hook(before=broken)
    for response in (door.get(), door.answer()):
        assert refusal(response, 500, "INTERNAL_ERROR")["message"] == "Internal error"
        assert "hunter2" not in response.text


# The description.


def test_the_description_is_the_committed_one() -> None:
    """If this fails, run `python -m tools.openapi`."""
    assert openapi.PEOPLE.read_text() == openapi.people()


def test_the_door_serves_its_description() -> None:
    served = Door().get("/people/openapi.json", None)
    assert served.json() == json.loads(openapi.PEOPLE.read_text())


def test_the_description_refers_to_nothing_that_is_not_in_it() -> None:
    text = openapi.PEOPLE.read_text()
    schemas = json.loads(text)["components"]["schemas"]
    references = {piece.split('"')[0] for piece in text.split('"$ref": "')[1:]}
    assert references <= {f"#/components/schemas/{name}" for name in schemas}


def test_the_description_says_what_a_body_and_a_refusal_look_like() -> None:
    described = json.loads(openapi.PEOPLE.read_text())
    for methods in described["paths"].values():
        for operation in methods.values():
            assert operation["security"] == [{"HTTPBearer": []}]
            assert set(operation["responses"]) == {"200", "default"}
    (answer,) = [
        operation
        for methods in described["paths"].values()
        for operation in methods.values()
        if operation["operationId"] == "answer"
    ]
    body = answer["requestBody"]
    assert body["required"] is True
    assert body["content"]["application/json"]["schema"]["required"] == ["payload"]


# The decision.


class ApprovalDoor(Door):
    """The people's door of a deployment with one task that waits for an approval."""

    def __init__(self, **options: Any) -> None:
        self.deployment = Deployment(asking_leave(**options))
        self.app = self.deployment.people_door()
        self.task_id = self.deployment.send().id
        self.prompt_id = self.deployment.open_prompt(self.task_id)
        self.path = f"/people/tasks/{self.task_id}/checkpoints/{self.prompt_id}"

    def decide(
        self, decision: str = "approve", who: str | None = "ann", path: str = "", **members: Any
    ) -> httpx.Response:
        body = {"decision": decision, "digest": DIGEST, **members}
        return self.answer({name: value for name, value in body.items() if value is not None}, who, path)

    def answer(self, body: Any = YES, who: str | None = "ann", path: str = "", **more: Any) -> httpx.Response:
        return super().answer(body, who, path or f"{self.path}/decide", **more)


def test_what_is_to_be_approved_is_shown_whole() -> None:
    door = ApprovalDoor(quorum=2)
    door.decide(who="ben")
    shown = door.get().json()
    assert shown["approval"] == {
        "action": ACTION,
        "summary": SUMMARY,
        "digest": DIGEST,
        "requesters": [AGENT.id],
        "approvedBy": ["bearer:ben"],
        "required": 2,
    }
    assert shown["digest"] == DIGEST
    assert shown["votesBy"] == [{"who": "bearer:ben", "decision": "approve"}]
    assert door.get("/people/checkpoints").json()["checkpoints"] == [shown]
    assert "approval" not in Door().get().json()


def test_named_approvers_are_shown_and_see_what_they_are_named_for() -> None:
    door = ApprovalDoor(gate=Gate(frozenset({NOBODY.id, ANN.id})))
    assert door.get(who="nobody").json()["approval"]["approvers"] == [ANN.id, NOBODY.id]
    refusal(door.get(who="peer"), 404, "TASK_NOT_FOUND")


@pytest.mark.parametrize(("decision", "status"), [("approve", "approved"), ("deny", "denied")])
def test_a_decision_is_accepted_and_the_task_goes_on(decision: str, status: str) -> None:
    door = ApprovalDoor()
    response = door.decide(decision, comment="so be it")
    assert (response.status_code, response.json()) == (200, {"status": "accepted"})
    assert door.state is TaskState.COMPLETED
    assert door.get().json()["status"] == status
    *_, said = door.deployment.get(door.task_id).history or []
    assert [part.text for part in said.parts] == ["so be it"]
    assert said.metadata == {
        KEY_OF_APPROVALS: {
            "requestId": door.prompt_id,
            "decision": decision,
            "digest": DIGEST,
            "comment": "so be it",
        }
    }


def test_a_decision_that_is_one_of_several_is_counted_and_a_repeat_told_the_same() -> None:
    door = ApprovalDoor(quorum=2)
    assert door.decide(who="ann").json() == {"status": "counted"}
    with door.deployment.unchanged():
        assert door.decide(who="ann").json() == {"status": "counted"}
    assert door.decide(who="ben").json() == {"status": "accepted"}
    with door.deployment.unchanged():
        assert door.decide(who="ann").json() == {"status": "accepted"}
        refusal(door.decide("deny", who="ann"), 400, "INVALID_PARAMS")


@pytest.mark.parametrize(
    "members",
    [
        {"digest": None},
        {"digest": 7},
        {"digest": ""},
        {"digest": "sha256:" + "0" * 64},
        {"digest": DIGEST.upper()},
        {"digest": "s" * 257},
        {"decision": None},
        {"decision": "reject"},
        {"edited": {"amount": "1.00"}},
        {"decision": "deny", "edited": {"amount": "1.00"}},
        {"decision": "changes", "edited": ACTION},
        {"decision": "changes", "edited": [1]},
        {"comment": "c" * 4097},
        {"by": "bearer:ben"},
    ],
    ids=repr,
)
def test_a_decision_on_anything_but_what_was_shown_is_refused(members: dict[str, Any]) -> None:
    door = ApprovalDoor()
    with door.deployment.unchanged():
        response = door.decide(**members)
        refusal(response, 400, "INVALID_PARAMS")
        assert door.prompt_id not in response.text


def test_who_may_not_decide_is_denied_and_who_does_not_see_it_finds_no_task() -> None:
    door = ApprovalDoor()
    with door.deployment.unchanged():
        for who in ("agent", "ops", "bot"):
            refusal(door.decide(who=who), 403, "PERMISSION_DENIED")
            refusal(door.decide("changes", who=who, edited={"amount": "1.00"}), 403, "PERMISSION_DENIED")
        for who in ("spy", "peer", "nobody"):
            refusal(door.decide(who=who), 404, "TASK_NOT_FOUND")
        refusal(door.decide(who=None), 401, "UNAUTHENTICATED")


def test_an_approval_is_not_given_as_an_answer_nor_an_answer_as_a_decision() -> None:
    door, asked = ApprovalDoor(), Door()
    with door.deployment.unchanged():
        error = refusal(
            door.answer({"payload": {"decision": "approve"}}, path=f"{door.path}/answer"),
            400,
            "INVALID_PARAMS",
        )
        assert KEY_OF_APPROVALS in error["message"]
    with asked.deployment.unchanged():
        body = {"decision": "approve", "digest": DIGEST}
        refusal(asked.answer(body, path=f"{asked.path}/decide"), 400, "INVALID_PARAMS")


def test_after_its_time_a_request_takes_no_decision() -> None:
    door = ApprovalDoor(deadline=timedelta(minutes=1))
    door.deployment.clock.advance(60)
    refusal(door.decide(), 400, "INVALID_PARAMS")
