"""`interlock inbox` and `interlock answer` against a people's door on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.unit.cli.conftest import Invoke
from tests.unit.cli.serving import LoseReply, Request, Response, serving

from interlock.cli import people
from interlock.cli.people import references

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
    monkeypatch.setattr(people, "BACK_OFF_SECONDS", 0.0)
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
    door.replies = [LoseReply] * people.TRIES
    result = interlock("answer", "bbbb", "--set", "approved=true")
    assert result.exit_code == 3
    assert "may be recorded or not" in result.output
    assert interlock("answer", "bbbb", "--set", "approved=true").exit_code == 0
    assert len(door.recorded) == 1


def test_a_server_that_stays_unavailable(url: str, door: Door, interlock: Invoke) -> None:
    door.replies = [refusal(503)] * people.TRIES
    assert interlock("answer", "bbbb", "--set", "approved=true").exit_code == 1
    assert len(door.answers) == people.TRIES


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
