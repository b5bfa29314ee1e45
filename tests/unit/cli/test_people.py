"""`interlock inbox`, `answer`, `approve` and `deny` against a people's door on loopback."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from rich.console import Console
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.serving import LoseReply, Request, Response, serving
from typer.testing import CliRunner

from interlock.cli import people
from interlock.cli.app import app
from interlock.cli.checkpoints import references
from interlock.cli.door import TRIES
from interlock.oversight.canonical_json import digest

SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
    "required": ["approved"],
    "additionalProperties": False,
}
FIRST, SECOND, THIRD = "aaaa1111-x", "aaaa2222-x", "bbbb1111-x"


def checkpoint(checkpoint_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "taskId": f"task-{checkpoint_id}",
        "checkpointId": checkpoint_id,
        "agent": "release-desk",
        "skill": "release",
        "requestedBy": "bearer:agent",
        "prompt": "Release 1.0.0?",
        "responseSchema": SCHEMA,
        "allowedResponders": ["any"],
        "needed": 1,
        "votes": 0,
        "askedAt": "2026-11-30T12:00:00.000Z",
        **changes,
    }


class Door:
    """What a deployment answers; `replies` are used up first, and LoseReply stands for a lost one."""

    def __init__(self) -> None:
        self.pages: list[list[dict[str, Any]]] = [
            [checkpoint(FIRST), checkpoint(SECOND)],
            [checkpoint(THIRD)],
        ]
        self.replies: list[Response | type[LoseReply]] = []
        self.requests: list[Request] = []
        self.recorded: dict[str, Any] = {}

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        if request.method == "GET" and "/tasks/" not in request.path:
            number = int(request.path.partition("?cursor=")[2] or 0)
            page: dict[str, Any] = {"checkpoints": self.pages[number], "now": "2026-11-30T12:00:00.000Z"}
            if number + 1 < len(self.pages):
                page["cursor"] = str(number + 1)
            return Response(page)
        if request.method == "GET":
            _, _, _, task_id, _, checkpoint_id = map(unquote, request.path.split("/"))
            return Response(checkpoint(checkpoint_id, taskId=task_id, status="answered"))
        if "idempotency-key" in request.headers:
            self.recorded[request.headers["idempotency-key"]] = request.document
        reply = self.replies.pop(0) if self.replies else Response({"status": "accepted"})
        if not isinstance(reply, Response):
            raise reply
        return reply

    @property
    def answers(self) -> list[Request]:
        return [request for request in self.requests if request.method == "POST"]


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def url(door: Door, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("interlock.cli.door.BACK_OFF_SECONDS", 0.0)
    with serving(door) as url:
        (elsewhere / ".interlock").mkdir()
        dev = {"url": url, "tokens": {"agent": "il_agent", "alice": "il_alice", "bob": "il_bob"}}
        (elsewhere / ".interlock" / "dev.json").write_text(json.dumps(dev))
        yield url


def refusal(status: int, **members: Any) -> Response:
    return Response(
        {"error": {"code": status, "status": "X", "message": "no", "details": [], **members}}, status
    )


# Inbox


def test_the_inbox_shows_every_open_checkpoint_of_all_pages(url: str, interlock: Invoke) -> None:
    result = interlock("inbox")
    assert result.exit_code == 0, result.output
    for reference in ("aaaa1", "aaaa2", "bbbb"):
        assert f"\n{reference} " in result.output
    assert "approved*: boolean, comment: string" in result.output
    assert "bearer:agent" in result.output
    assert "release-desk/release" in result.output


def test_the_inbox_as_json(url: str, interlock: Invoke) -> None:
    listed = json.loads(interlock("inbox", "--json").output)["checkpoints"]
    assert [entry["reference"] for entry in listed] == ["aaaa1", "aaaa2", "bbbb"]
    assert listed[0]["responseSchema"] == SCHEMA
    assert listed[0]["taskId"] == f"task-{FIRST}"


def test_an_empty_inbox_says_so(url: str, door: Door, interlock: Invoke) -> None:
    door.pages = [[]]
    assert interlock("inbox").output == "Nothing waits for an answer.\n"
    assert json.loads(interlock("inbox", "--json").output) == {"checkpoints": []}


def test_a_window_of_veto_says_how_to_be_against_it(url: str, door: Door, interlock: Invoke) -> None:
    door.pages = [[checkpoint(FIRST, kind="window", deadline="2026-12-01T00:00:00.000Z")]]
    result = interlock("inbox", "--url", url, "--token", "secret")
    assert f"interlock cancel task-{FIRST}" in result.stdout
    result = interlock("answer", FIRST, "--set", "a=1", "--url", url, "--token", "secret")
    assert (result.exit_code, len(door.recorded)) == (2, 0)
    assert f"interlock cancel task-{FIRST}" in result.stderr


def test_votes_are_shown_where_several_are_needed(url: str, door: Door, interlock: Invoke) -> None:
    door.pages = [[checkpoint(FIRST, needed=3, votes=2, deadline="2026-12-01T00:00:00.000Z")]]
    output = interlock("inbox").output
    assert "(2 of 3)" in output
    assert "2026-12-01T00:00:00.000Z" in output


def test_a_reference_is_never_cut(url: str, door: Door, interlock: Invoke) -> None:
    first, second = ("a" * 60 + "b", "a" * 60 + "c")
    door.pages = [[checkpoint(first, prompt="why " * 1000, skill="s" * 90), checkpoint(second)]]
    assert {first, second} <= set(interlock("inbox").output.split())


def test_text_of_others_is_shown_and_not_obeyed(url: str, door: Door, interlock: Invoke) -> None:
    evil = "\x1b[2J[red]\u202eevil\u200b"
    schema = {"type": "object", "properties": {evil: {"type": "string"}}}
    door.pages = [[checkpoint(FIRST, prompt=evil, requestedBy=evil, agent=evil, responseSchema=schema)]]
    for output in (interlock("inbox").output, interlock("inbox", "--json").output):
        assert "[red]" in output
        assert not {"\x1b", "\u202e", "\u200b"} & set(output)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([], {}),
        (["abcdef"], {"abcdef": "abcd"}),
        (["abcdef", "abcdex"], {"abcdef": "abcdef", "abcdex": "abcdex"}),
        (["abcd", "abcde"], {"abcd": "abcd", "abcde": "abcde"}),
        (["a1111", "b1111", "a2222"], {"a1111": "a111", "b1111": "b111", "a2222": "a222"}),
        (["same", "same"], {"same": "same"}),
    ],
)
def test_references_are_short_and_unique(ids: list[str], expected: dict[str, str]) -> None:
    assert references(ids) == expected


# Answer


def test_an_answer_by_reference(url: str, door: Door, interlock: Invoke) -> None:
    result = interlock("answer", "aaaa2", "--set", "approved=true", "--set", "comment=ship it")
    assert result.exit_code == 0, result.output
    assert result.output == "Accepted.\n"
    (sent,) = door.answers
    assert sent.path == f"/people/tasks/task-{SECOND}/checkpoints/{SECOND}/answer"
    assert sent.document == {"payload": {"approved": True, "comment": "ship it"}}
    assert sent.headers["authorization"] == "Bearer il_alice"
    assert sent.headers["content-type"] == "application/json"
    assert 16 <= len(sent.headers["idempotency-key"]) <= 255


def test_an_answer_as_json(url: str, door: Door, interlock: Invoke) -> None:
    result = interlock("answer", "bbbb", "--payload", '{"approved": false, "x": "\\ud800"}', "--json")
    assert json.loads(result.output) == {
        "taskId": f"task-{THIRD}",
        "checkpointId": THIRD,
        "status": "accepted",
    }
    assert door.answers[0].document == {"payload": {"approved": False, "x": "\ud800"}}


def test_an_answer_by_task_and_checkpoint_needs_no_inbox(url: str, door: Door, interlock: Invoke) -> None:
    assert interlock("answer", "a task?#/b%/..", "--set", "approved=true").exit_code == 0
    address = "/people/tasks/a%20task%3F%23/checkpoints/b%25%2F.."
    assert [request.path for request in door.requests] == [address, f"{address}/answer"]


def test_a_vote_that_does_not_decide(url: str, door: Door, interlock: Invoke) -> None:
    door.pages = [[checkpoint(FIRST, needed=2)]]
    door.replies = [Response({"status": "counted"})]
    assert interlock("answer", "aaaa", "--set", "approved=true").output == (
        "Counted: the prompt needs 2 equal answers.\n"
    )


def test_a_reference_that_fits_nothing(url: str, door: Door, interlock: Invoke) -> None:
    result = interlock("answer", "cccc", "--set", "approved=true")
    assert result.exit_code == 1
    assert "No open checkpoint begins with cccc." in result.output
    assert door.answers == []


def test_a_reference_that_fits_several(url: str, door: Door, interlock: Invoke) -> None:
    result = interlock("answer", "aaaa", "--set", "approved=true")
    assert result.exit_code == 1
    assert FIRST in result.output
    assert SECOND in result.output
    assert THIRD not in result.output
    assert door.answers == []


@pytest.mark.parametrize(
    "faults",
    [
        [LoseReply],
        [LoseReply, LoseReply, LoseReply],
        [refusal(503)],
        [Response(b"", 502), Response(b"", 504)],
    ],
)
def test_a_lost_reply_is_asked_for_again_with_the_same_key(
    url: str, door: Door, interlock: Invoke, faults: list[Response | type[LoseReply]]
) -> None:
    door.replies = list(faults)
    assert interlock("answer", "bbbb", "--set", "approved=true").exit_code == 0
    assert len(door.answers) == len(faults) + 1
    assert list(door.recorded.values()) == [{"payload": {"approved": True}}]


def test_where_every_reply_is_lost_nothing_is_claimed(url: str, door: Door, interlock: Invoke) -> None:
    door.replies = [LoseReply] * TRIES
    result = interlock("answer", "bbbb", "--set", "approved=true")
    assert result.exit_code == 3
    assert "may be recorded or not" in result.output
    assert interlock("answer", "bbbb", "--set", "approved=true").exit_code == 0
    assert len(door.recorded) == 1


def test_a_server_that_stays_unavailable(url: str, door: Door, interlock: Invoke) -> None:
    door.replies = [refusal(503)] * TRIES
    assert interlock("answer", "bbbb", "--set", "approved=true").exit_code == 1
    assert len(door.answers) == TRIES


def test_an_answer_that_is_halted_is_not_tried_again(url: str, door: Door, interlock: Invoke) -> None:
    door.replies = [refusal(503, message="halted: an incident", details=[{"reason": "HALTED"}])]
    result = interlock("answer", "bbbb", "--set", "approved=true")
    assert (result.exit_code, result.output) == (1, "halted: an incident\n")
    assert len(door.answers) == 1


def test_the_same_answer_has_the_same_key_and_another_has_another(
    url: str, door: Door, interlock: Invoke
) -> None:
    interlock("answer", "task/one", "--set", "approved=true", "--set", "comment=ok")
    interlock("answer", "task/one", "--set", "comment=ok", "--set", "approved=true")
    assert len(door.recorded) == 1
    for reference, approved in (("task/one", "true"), ("task/two", "true"), ("other/one", "true")):
        interlock("answer", reference, "--set", f"approved={approved}")
    assert len(door.recorded) == 4


def test_what_is_wrong_with_an_answer_is_listed(url: str, door: Door, interlock: Invoke) -> None:
    violations = [
        {"path": "/approved", "keyword": "type", "message": "is not a boolean\nAccepted."},
        {"path": "", "keyword": "required", "message": "\u202e"},
    ]
    door.replies = [refusal(422, validation_errors=violations)]
    result = interlock("answer", "bbbb", "--set", "approved=true")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "no",
        "/approved  type  is not a boolean\\nAccepted.",
        "/  required  \\u202e",
    ]
    door.replies = [refusal(422, validation_errors=violations)]
    error = json.loads(interlock("answer", "bbbb", "--set", "approved=true", "--json").output)["error"]
    assert error["code"] == 422
    assert error["validation_errors"] == violations


def test_who_was_first_is_said(url: str, door: Door, interlock: Invoke) -> None:
    door.replies = [refusal(409, reason="expired", details=[{"metadata": {"winner": "bearer:bob"}}, 7])]
    result = interlock("answer", "bbbb", "--set", "approved=true")
    assert result.exit_code == 1
    assert result.output.splitlines() == ["no (expired)", "answered by bearer:bob"]
    assert len(door.answers) == 1


@pytest.mark.parametrize(
    "reply",
    [
        Response(b"<html>", 500),
        Response({"error": "no"}, 500),
        Response([], 500),
        Response({}, 200),
        Response(b"", 200),
        refusal(400, validation_errors=7, details=[[]]),
    ],
)
def test_an_answer_of_another_form_is_a_failure(
    url: str, door: Door, interlock: Invoke, reply: Response
) -> None:
    door.replies = [reply]
    result = interlock("answer", "bbbb", "--set", "approved=true", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--set", "approved=true", "--payload", "{}"],
        ["--set", "approved=maybe"],
        ["--payload", "{"],
        ["--payload", "[]"],
        ["--payload", '{"approved": NaN}'],
        ["--payload", "[" * 100_000],
    ],
)
def test_an_answer_that_can_not_be_meant(
    url: str, door: Door, interlock: Invoke, arguments: list[str]
) -> None:
    assert interlock("answer", "bbbb", *arguments).exit_code == 2
    assert door.answers == []


def test_the_expected_fields_are_shown_where_a_value_is_wrong(url: str, interlock: Invoke) -> None:
    output = interlock("answer", "bbbb", "--set", "approved=maybe").output
    assert "approved is true or false" in output
    assert "approved*: boolean" in output


# Where and who


def test_another_identity_of_the_laptop(url: str, door: Door, interlock: Invoke) -> None:
    assert interlock("inbox", "--as", "bob").exit_code == 0
    assert door.requests[0].headers["authorization"] == "Bearer il_bob"
    result = interlock("inbox", "--as", "mallory")
    assert result.exit_code == 2
    assert "agent, alice, bob" in result.output
    assert "il_" not in result.output


def test_url_and_token_of_another_deployment(door: Door, url: str, interlock: Invoke) -> None:
    other = Door()
    with serving(other) as other_url:
        assert interlock("inbox", "--url", f"{other_url}/", "--token", "il_other").exit_code == 0
        environment = {"INTERLOCK_URL": other_url, "INTERLOCK_TOKEN": "il_environment"}
        assert interlock("inbox", **environment).exit_code == 0
        assert interlock("inbox", "--token", "il_option", **environment).exit_code == 0
    sent = [r.headers["authorization"] for r in other.requests if "?" not in r.path]
    assert sent == ["Bearer il_other", "Bearer il_environment", "Bearer il_option"]
    assert door.requests == []


def test_tokens_of_the_laptop_are_not_sent_elsewhere(door: Door, url: str, interlock: Invoke) -> None:
    other = Door()
    with serving(other) as other_url:
        for arguments in (["--url", other_url], ["--url", other_url, "--as", "bob"]):
            result = interlock("inbox", *arguments)
            assert result.exit_code == 2
            assert "needs a token" in result.output
    assert other.requests == []
    assert interlock("inbox", "--url", f"{url}/").exit_code == 0


def test_a_token_alone_is_for_the_laptop(door: Door, url: str, interlock: Invoke) -> None:
    assert interlock("inbox", "--token", "il_mine").exit_code == 0
    assert door.requests[0].headers["authorization"] == "Bearer il_mine"
    assert interlock("inbox", "--token", "il_mine", "--as", "bob").exit_code == 2


def test_the_laptop_is_found_from_any_folder(
    door: Door, url: str, elsewhere: Path, interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "installed").mkdir()
    (elsewhere / ".interlock").rename(elsewhere / "installed" / ".interlock")
    assert interlock("inbox").exit_code == 0
    assert door.requests[0].headers["authorization"] == "Bearer il_alice"


def test_without_a_deployment(interlock: Invoke) -> None:
    result = interlock("inbox")
    assert result.exit_code == 2
    assert "make run" in result.output


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"url": "http://x", "tokens": 7}', b"\xff"])
def test_a_file_that_can_not_be_read(elsewhere: Path, interlock: Invoke, content: bytes) -> None:
    (elsewhere / ".interlock").mkdir()
    (elsewhere / ".interlock" / "dev.json").write_bytes(content)
    assert interlock("inbox").exit_code == 2


def test_a_deployment_that_is_not_there(interlock: Invoke) -> None:
    with serving(lambda _: Response({})) as url:
        pass
    result = interlock("inbox", "--url", url, "--token", "il_x", "--json")
    assert result.exit_code == 3
    assert "can not be reached" in json.loads(result.output)["error"]["message"]


@pytest.mark.parametrize(
    ("url", "token"), [("ftp://x", "t"), ("http://127.0.0.1:port", "t"), ("http://127.0.0.1:1", "t\u00e9")]
)
def test_a_url_or_token_that_is_not_valid(interlock: Invoke, url: str, token: str) -> None:
    assert interlock("inbox", "--url", url, "--token", token).exit_code == 2


def test_a_token_that_is_refused(url: str, door: Door, interlock: Invoke) -> None:
    with serving(lambda _: refusal(401)) as other:
        result = interlock("inbox", "--url", other, "--token", "il_x")
    assert result.exit_code == 1
    assert result.output == "no\n"


# Approve and deny.

ACTION = {"tool": "refund", "order": 1182, "amount": "40.00"}
DIGEST = "sha256:9dfdaf0fdc48912f539a8dcef195052a1959f82f4880c2ec3d0730fa96ad538c"


def asked(**changes: Any) -> dict[str, Any]:
    return {
        "action": ACTION,
        "summary": "Refund 40.00",
        "digest": DIGEST,
        "requesters": ["bearer:agent"],
        "approvedBy": ["bearer:bob"],
        "required": 2,
        **changes,
    }


@pytest.fixture
def approvals(door: Door) -> Door:
    door.pages = [[checkpoint(FIRST, approval=asked()), checkpoint(SECOND)]]
    return door


def test_the_inbox_marks_what_is_to_be_approved_and_how_far_it_is(
    url: str, approvals: Door, interlock: Invoke
) -> None:
    assert "approve or deny (1 of 2)" in interlock("inbox").output
    listed = json.loads(interlock("inbox", "--json").output)["checkpoints"]
    assert listed[0]["approval"] == asked()
    assert "approval" not in listed[1]


@pytest.mark.parametrize(
    ("arguments", "sent", "said"),
    [
        (("approve", "aaaa1"), {"decision": "approve"}, "Approved."),
        (("approve", "aaaa1", "--comment", "go"), {"decision": "approve", "comment": "go"}, "Approved."),
        (("deny", "aaaa1", "--comment", "no"), {"decision": "deny", "comment": "no"}, "Denied."),
    ],
)
def test_a_decision_is_on_the_action_that_is_shown(
    url: str, approvals: Door, interlock: Invoke, arguments: tuple[str, ...], sent: Any, said: str
) -> None:
    result = interlock(*arguments)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "Refund 40.00",
        '  action    {"tool": "refund", "order": 1182, "amount": "40.00"}',
        f"  digest    {DIGEST}",
        "  asked by  bearer:agent",
        "  approved  bearer:bob (1 of 2)",
        said,
    ]
    (request,) = approvals.answers
    assert request.path == f"/people/tasks/task-{FIRST}/checkpoints/{FIRST}/decide"
    assert request.document == {"digest": DIGEST, **sent}


def test_a_decision_that_is_counted_says_how_many_it_takes(
    url: str, approvals: Door, interlock: Invoke
) -> None:
    approvals.replies = [Response({"status": "counted"})]
    assert interlock("approve", "aaaa1").output.endswith("Counted: it takes 2 approvals.\n")


def test_a_decision_as_json_is_one_document(url: str, approvals: Door, interlock: Invoke) -> None:
    assert json.loads(interlock("approve", "aaaa1", "--json").output) == {
        "taskId": f"task-{FIRST}",
        "checkpointId": FIRST,
        "digest": DIGEST,
        "decision": "approve",
        "status": "accepted",
    }


def test_a_denial_says_why(url: str, approvals: Door, interlock: Invoke) -> None:
    assert interlock("deny", "aaaa1").exit_code == 2
    assert approvals.answers == []


@pytest.mark.parametrize(
    "changes",
    [{"action": {**ACTION, "amount": "4000.00"}}, {"digest": "sha256:0"}, {"action": {"n": 2**60 + 1}}],
)
def test_where_the_digest_is_not_that_of_what_is_shown_nothing_is_sent(
    url: str, door: Door, interlock: Invoke, changes: Any
) -> None:
    door.pages = [[checkpoint(FIRST, approval=asked(**changes))]]
    result = interlock("approve", "aaaa")
    assert (result.exit_code, result.output) == (
        1,
        "The digest is not that of the action: nothing was sent.\n",
    )
    assert door.answers == []


def test_text_of_an_action_is_shown_and_not_obeyed(url: str, door: Door, interlock: Invoke) -> None:
    evil = {"to": "\x1b[2J\u202eevil\u200b"}
    approval = asked(action=evil, digest=digest(evil), summary="a\nApproved.", requesters=["\x1b"])
    door.pages = [[checkpoint(FIRST, approval=approval)]]
    result = interlock("approve", "aaaa")
    assert result.exit_code == 0
    assert not {"\x1b", "\u202e", "\u200b"} & set(result.output)
    assert result.output.startswith("a\\nApproved.\n")


def test_a_question_is_answered_and_a_request_is_decided(
    url: str, approvals: Door, interlock: Invoke
) -> None:
    for arguments, hint in (
        (("approve", "aaaa2"), "interlock answer"),
        (("deny", "aaaa2", "--comment", "no"), "interlock answer"),
        (("answer", "aaaa1", "--set", "decision=approve"), "interlock approve"),
    ):
        result = interlock(*arguments)
        assert result.exit_code == 2
        assert hint in result.output
    assert approvals.answers == []


@pytest.mark.parametrize(("said", "sent"), [("y", 1), ("n", 0), ("", 0)])
def test_on_a_terminal_it_asks_once_it_is_shown(
    url: str, approvals: Door, monkeypatch: pytest.MonkeyPatch, said: str, sent: int
) -> None:
    class Terminal(CliRunner):
        def isolation(self, *arguments: Any, **options: Any) -> Any:
            context = super().isolation(*arguments, **options)

            @contextmanager
            def isolated() -> Iterator[Any]:
                with context as streams:
                    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
                    yield streams

            return isolated()

    result = Terminal().invoke(app, ["approve", "aaaa1"], input=f"{said}\n")
    assert "Approve it?" in result.output
    assert [sorted(told.document) for told in approvals.answers] == [
        ["decision", "digest", "viewedMs"]
    ] * sent
    assert Terminal().invoke(app, ["approve", "aaaa1", "--yes"]).exit_code == 0
    assert len(approvals.answers) == sent + 1


def test_a_decision_whose_reply_is_lost_is_sent_again(url: str, approvals: Door, interlock: Invoke) -> None:
    approvals.replies = [LoseReply, refusal(503)]
    assert interlock("approve", "aaaa1").exit_code == 0
    assert [request.document for request in approvals.answers] == [
        {"decision": "approve", "digest": DIGEST}
    ] * 3


def test_who_may_not_decide_is_told_so(url: str, approvals: Door, interlock: Invoke) -> None:
    approvals.replies = [refusal(403, message="You may not decide this request")]
    result = interlock("approve", "aaaa1")
    assert (result.exit_code, result.stderr) == (1, "You may not decide this request\n")


# The history


def test_the_history_says_how_each_ended(url: str, door: Door, interlock: Invoke) -> None:
    over = {"closedAt": "2026-11-30T13:00:00.000Z", "decidedBy": "bearer:bob", "comment": "paid twice"}
    door.pages = [[checkpoint(FIRST, outcome="denied", status="denied", **over)], [checkpoint(SECOND)]]
    shown = interlock("history").output
    assert "2026-11-30T13:00:00.000Z" in shown
    assert "denied" in shown
    assert "bearer:bob" in shown
    assert "paid twice" in shown
    listed = json.loads(interlock("history", "--limit", "1", "--json").output)["checkpoints"]
    assert [(entry["taskId"], entry["outcome"]) for entry in listed] == [(f"task-{FIRST}", "denied")]
    assert [request.path for request in door.requests] == [
        "/people/history",
        "/people/history?cursor=1",
        "/people/history",
    ]
    door.pages = [[]]
    assert interlock("history").output == "Nothing is over yet.\n"


# Whose it is, and what was shown


def test_the_inbox_says_who_looks_at_it_and_what_is_not_yours(
    url: str, door: Door, interlock: Invoke
) -> None:
    claim = {"who": "bearer:bob", "until": "2026-11-30T12:15:00.000Z"}
    door.pages = [[checkpoint(FIRST, claim=claim), checkpoint(SECOND, mayDecide=False, whyNot="requester")]]
    shown = interlock("inbox").output
    assert "bearer:bob looks at it" in shown
    assert "you asked for it" in shown


def test_an_answer_carries_the_digest_of_what_was_shown(url: str, door: Door, interlock: Invoke) -> None:
    shown = digest({"prompt": "Release 1.0.0?", "responseSchema": SCHEMA})
    door.pages = [[checkpoint(FIRST, digest=shown), checkpoint(SECOND, digest="sha256:0")]]
    assert interlock("answer", "aaaa1", "--set", "approved=true").exit_code == 0
    assert door.answers[0].document == {"payload": {"approved": True}, "digest": shown}
    refused = interlock("answer", "aaaa2", "--set", "approved=true")
    assert (refused.exit_code, "nothing was sent" in refused.stderr) == (1, True)
    assert len(door.answers) == 1


# Several at once, and changes


@pytest.fixture
def several(door: Door) -> Door:
    door.pages = [[checkpoint(FIRST, approval=asked()), checkpoint(SECOND, approval=asked(summary="Two"))]]
    return door


def results(*told: Any) -> Response:
    names = [{"taskId": f"task-{one}", "checkpointId": one} for one in (FIRST, SECOND)]
    return Response({"results": [{**name, **one} for name, one in zip(names, told, strict=False)]})


REFUSED = {"error": {"code": 403, "message": "You may not decide this request", "details": []}}
BUSY = {"error": {"code": 503, "message": "There was no time left for this one", "details": []}}
HALTED = {"error": {"code": 503, "message": "halted: x", "details": [{"reason": "HALTED"}]}}


def test_several_are_shown_and_each_is_decided_by_its_digest(
    url: str, several: Door, interlock: Invoke
) -> None:
    several.replies = [results({"status": "accepted"}, {"status": "counted"})]
    result = interlock("approve", "aaaa1", "aaaa2", "aaaa1", "--comment", "go")
    assert result.exit_code == 0, result.output
    assert result.output.count(f"  digest    {DIGEST}") == 2
    assert result.output.splitlines()[-2:] == [
        "Refund 40.00: Approved.",
        "Two: Counted: it takes 2 approvals.",
    ]
    (sent,) = several.answers
    assert sent.path == "/people/decisions"
    said = {"digest": DIGEST, "decision": "approve", "comment": "go"}
    assert sent.document["items"] == [
        {"taskId": f"task-{one}", "checkpointId": one, **said} for one in (FIRST, SECOND)
    ]


def test_one_that_is_refused_is_said_and_the_others_are_decided(
    url: str, several: Door, interlock: Invoke
) -> None:
    several.replies = [results({"status": "accepted"}, REFUSED)] * 2
    result = interlock("deny", "aaaa1", "aaaa2", "--comment", "no")
    assert result.exit_code == 1
    assert result.stdout.endswith("Refund 40.00: Denied.\n")
    assert result.stderr == "Two: You may not decide this request\n"
    document = json.loads(interlock("deny", "aaaa1", "aaaa2", "--comment", "no", "--json").output)
    assert [entry.get("status") for entry in document["results"]] == ["accepted", None]
    assert document["results"][1]["error"] == REFUSED["error"]
    assert document["results"][1]["digest"] == DIGEST


def test_only_what_there_was_no_time_for_is_asked_again(url: str, several: Door, interlock: Invoke) -> None:
    left = Response({"results": [{"taskId": f"task-{SECOND}", "checkpointId": SECOND, "status": "accepted"}]})
    several.replies = [results({"status": "accepted"}, BUSY), left]
    assert interlock("approve", "aaaa1", "aaaa2").exit_code == 0
    asked_again = [[item["checkpointId"] for item in sent.document["items"]] for sent in several.answers]
    assert asked_again == [[FIRST, SECOND], [SECOND]]
    several.requests.clear()
    several.replies = [results(HALTED, HALTED)]
    assert interlock("approve", "aaaa1", "aaaa2").exit_code == 1
    assert len(several.answers) == 1


def test_where_one_of_several_can_not_be_decided_so_nothing_is_sent(
    url: str, door: Door, interlock: Invoke
) -> None:
    for second in (checkpoint(SECOND), checkpoint(SECOND, approval=asked(digest="sha256:0"))):
        door.pages = [[checkpoint(FIRST, approval=asked()), second]]
        assert interlock("approve", "aaaa1", "aaaa2").exit_code in {1, 2}
    assert door.answers == []


def test_what_should_be_changed_is_sent_back(url: str, approvals: Door, interlock: Invoke) -> None:
    edited = {"tool": "refund", "order": 1182, "amount": "20.00"}
    result = interlock("changes", "aaaa1", "--edit", json.dumps(edited), "--comment", "half of it")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-2:] == [f"  instead   {json.dumps(edited)}", "Sent back."]
    interlock("changes", "aaaa1", "--comment", "half of it")
    assert [sent.document for sent in approvals.answers] == [
        {"digest": DIGEST, "decision": "changes", "comment": "half of it", "edited": edited},
        {"digest": DIGEST, "decision": "changes", "comment": "half of it"},
    ]


@pytest.mark.parametrize("arguments", [(), ("--edit", "[]"), ("--edit", "{"), ("--comment", "")])
def test_changes_that_can_not_be_meant(
    url: str, approvals: Door, interlock: Invoke, arguments: tuple[str, ...]
) -> None:
    assert interlock("changes", "aaaa1", *arguments).exit_code == 2
    assert approvals.requests == []


# Watching


def test_the_inbox_is_read_again_when_something_has_changed(
    interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([["checkpoints"], ["fleet"], [], ["halts"]])
    paths: list[str] = []

    def answer(request: Request) -> Response:
        paths.append(request.path.removeprefix("/people/"))
        if not request.path.startswith("/people/changes"):
            page = [checkpoint(FIRST)] if len(paths) < 4 else []
            return Response({"checkpoints": page, "now": "2026-11-30T12:00:00.000Z"})
        changed = next(told) if "since" in request.path else []
        return Response({"since": f"t{len(paths)}", "changed": changed, "now": "2026-11-30T12:00:00.000Z"})

    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setattr(people, "_changes", interrupted(people._changes, 3))
    with serving(answer) as url:
        result = interlock("inbox", "--watch", "--url", url, "--token", "t")
    assert result.exit_code == 0, result.output
    assert "Nothing waits for an answer." in result.output
    assert paths == [
        "changes",
        "checkpoints",
        "changes?since=t1&wait=25",
        "checkpoints",
        "changes?since=t3&wait=25",
        "changes?since=t5&wait=25",
        "changes?since=t6&wait=25",
        "checkpoints",
    ]


def interrupted(changes: Callable[..., Iterator[None]], after: int) -> Callable[..., Iterator[None]]:
    """Somebody presses Ctrl-C once it was shown so many times."""

    def until(door: Any) -> Iterator[None]:
        yield from islice(changes(door), after)
        raise KeyboardInterrupt

    return until


def test_only_a_terminal_is_watched(url: str, interlock: Invoke) -> None:
    assert interlock("inbox", "--watch").exit_code == 2
    assert interlock("inbox", "--watch", "--json").exit_code == 2
