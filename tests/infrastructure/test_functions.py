"""Each handler against an event of its trigger: parse, call, map."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock, call

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tools.laptop.workers import Context

from interlock.a2a.errors import Unauthenticated, Unavailable
from interlock.doors.inbox import create_app as create_inbox
from interlock.oversight.principals import Kind, Principal, Role

ROOT = Path(__file__).parents[2]
Event = Callable[[str], dict[str, Any]]
Load = Callable[[str], ModuleType]

TASK_A = "0190a7c2-0000-7000-8000-00000000000a"
TASK_B = "0190a7c2-0000-7000-8000-00000000000b"
TASK_C = "0190a7c2-0000-7000-8000-00000000000c"


def failed(answer: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def emitted_metrics(printed: str) -> list[str]:
    blobs = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return [
        metric["Name"]
        for blob in blobs
        if "_aws" in blob
        for directive in blob["_aws"]["CloudWatchMetrics"]
        for metric in directive["Metrics"]
    ]


class TestTurns:
    def test_runs_the_turn_of_each_message_within_the_time_that_is_left(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        answer = load_function("turns").handler(event("turns"), context)
        assert failed(answer) == []
        (first, second) = bootstrap.run_turn.call_args_list
        assert first.args[:3] == ("demo", TASK_A, 1)
        assert second.args[:3] == ("demo", TASK_B, 2)
        assert 0 < second.args[3] <= first.args[3] <= 60

    def test_reports_only_the_message_whose_turn_failed(
        self,
        bootstrap: Mock,
        load_function: Load,
        event: Event,
        context: Context,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        bootstrap.run_turn.side_effect = [None, RuntimeError("lost")]
        answer = load_function("turns").handler(event("turns"), context)
        assert failed(answer) == [event("turns")["Records"][1]["messageId"]]
        assert emitted_metrics(capsys.readouterr().out) == ["FailedRecords"]

    def test_reports_all_messages_when_every_turn_failed(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.run_turn.side_effect = RuntimeError("lost")
        answer = load_function("turns").handler(event("turns"), context)
        assert failed(answer) == [record["messageId"] for record in event("turns")["Records"]]

    @pytest.mark.parametrize("body", ["", "no json", "[]", '{"tenant":"demo"}'])
    def test_reports_a_message_that_it_does_not_understand(
        self, body: str, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("turns"))
        changed["Records"][0]["body"] = body
        answer = load_function("turns").handler(changed, context)
        assert failed(answer) == [changed["Records"][0]["messageId"]]
        assert bootstrap.run_turn.call_count == 1


class TestFanout:
    def test_wakes_what_waits(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        assert failed(load_function("fanout").handler(event("fanout"), context)) == []
        assert bootstrap.wake_waiting.call_args_list == [call("demo", TASK_A, 1), call("demo", TASK_B, 2)]
        assert all(type(called.args[2]) is int for called in bootstrap.wake_waiting.call_args_list)
        bootstrap.wake_delivery.assert_called_once_with(f"T#demo#{TASK_C}")

    def test_wakes_for_a_chain_once_however_many_facts_it_has(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        load_function("fanout").handler(event("fanout"), context)
        bootstrap.wake_sealer.assert_called_once_with("FACT#demo")

    def test_wakes_for_a_chain_again_when_that_failed(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.wake_sealer.side_effect = [RuntimeError("throttled"), None]
        answer = load_function("fanout").handler(event("fanout"), context)
        assert failed(answer) == [event("fanout")["Records"][3]["dynamodb"]["SequenceNumber"]]
        assert bootstrap.wake_sealer.call_count == 2

    def test_reports_the_record_from_which_the_stream_is_read_again(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.wake_waiting.side_effect = [None, RuntimeError("throttled")]
        answer = load_function("fanout").handler(event("fanout"), context)
        assert failed(answer) == [event("fanout")["Records"][1]["dynamodb"]["SequenceNumber"]]

    def test_wakes_the_walks_of_a_halt_until_these_are_done(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        load_function("fanout").handler(event("fanout"), context)
        bootstrap.wake_walk.assert_called_once_with("tenant:demo", 3)
        assert type(bootstrap.wake_walk.call_args.args[1]) is int

    def test_tells_people_of_every_halt_checkpoint_and_agent_and_of_nothing_else(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        load_function("fanout").handler(event("fanout"), context)
        told = [(pk, sk) for pk, sk, _ in (called.args for called in bootstrap.beat.call_args_list)]
        keys = [record["dynamodb"]["Keys"] for record in event("fanout")["Records"]]
        wanted = [(key["pk"]["S"], key["sk"]["S"]) for key in keys]
        assert told == [
            (pk, sk) for pk, sk in wanted if pk.startswith(("HALT#", "AGENT#")) or sk.startswith("ASK#")
        ]
        assert {pk.partition("#")[0] for pk, _ in told} == {"HALT", "AGENT", "T"}
        assert len({id(called.args[2]) for called in bootstrap.beat.call_args_list}) == 1


class TestStops:
    def test_walks_the_shard_of_each_message(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        assert failed(load_function("stops").handler(event("stops"), context)) == []
        assert bootstrap.walk.call_args_list == [call("tenant:demo", 3, 0), call("tenant:demo", 3, 5)]

    def test_reports_only_the_message_whose_walk_failed(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.walk.side_effect = [RuntimeError("throttled"), None]
        answer = load_function("stops").handler(event("stops"), context)
        assert failed(answer) == [event("stops")["Records"][0]["messageId"]]

    @pytest.mark.parametrize("body", ["", "[]", '{"scope":"all"}'])
    def test_reports_a_message_that_it_does_not_understand(
        self, body: str, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("stops"))
        changed["Records"][0]["body"] = body
        answer = load_function("stops").handler(changed, context)
        assert failed(answer) == [changed["Records"][0]["messageId"]]
        assert bootstrap.walk.call_count == 1


class TestOutbox:
    def test_delivers_for_the_task_of_each_message_within_the_time_that_is_left(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        assert failed(load_function("outbox").handler(event("outbox"), context)) == []
        (first, second) = bootstrap.deliver.call_args_list
        assert first.args[:2] == ("demo", TASK_A)
        assert second.args[:2] == ("demo", TASK_B)
        assert 0 < second.args[2] <= first.args[2] <= 60

    def test_reports_only_the_message_whose_delivery_failed(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.deliver.side_effect = [None, RuntimeError("not parked")]
        answer = load_function("outbox").handler(event("outbox"), context)
        assert failed(answer) == [event("outbox")["Records"][1]["messageId"]]

    def test_refreshes_the_card_of_an_agent(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        asked = event("outbox")
        asked["Records"] = asked["Records"][:1]
        asked["Records"][0]["body"] = json.dumps({"tenant": "demo", "refresh": "desk"})
        assert failed(load_function("outbox").handler(asked, context)) == []
        bootstrap.refresh_agent.assert_called_once_with("demo", "desk")
        bootstrap.deliver.assert_not_called()


class TestAudit:
    def test_seals_each_chain_once(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        assert failed(load_function("audit").handler(event("audit"), context)) == []
        assert bootstrap.seal.call_args_list == [call("demo"), call("other")]

    def test_reports_only_the_messages_whose_chain_could_not_be_sealed(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.seal.side_effect = [RuntimeError("no answer"), RuntimeError("no answer"), None]
        answer = load_function("audit").handler(event("audit"), context)
        assert failed(answer) == [record["messageId"] for record in event("audit")["Records"][:2]]


class TestTimers:
    def test_handles_what_is_due(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        assert failed(load_function("timers").handler(event("timers"), context)) == []
        bodies = [json.loads(record["body"]) for record in event("timers")["Records"]]
        assert bootstrap.handle_due.call_args_list == [call(body["pk"], body["sk"]) for body in bodies]
        bootstrap.sweep.assert_not_called()

    def test_sweeps_each_minute_and_says_how_long_the_oldest_fact_waits(
        self,
        bootstrap: Mock,
        load_function: Load,
        event: Event,
        context: Context,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        bootstrap.wake_sealers.return_value = 12.5
        load_function("timers").handler(event("minute"), context)
        bootstrap.sweep.assert_called_once_with()
        bootstrap.handle_due.assert_not_called()
        assert emitted_metrics(capsys.readouterr().out) == ["UnsealedFactSeconds"]

    def test_sweeps_for_hours_where_metrics_are_off(
        self,
        bootstrap: Mock,
        load_function: Load,
        event: Event,
        context: Context,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
        bootstrap.wake_sealers.return_value = 0.0
        timers = load_function("timers")
        for _ in range(150):
            timers.handler(event("minute"), context)
        assert capsys.readouterr().out == ""

    def test_lets_a_sweep_that_failed_be_seen(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.wake_sealers.return_value = 0.0
        bootstrap.sweep.side_effect = RuntimeError("incomplete")
        with pytest.raises(RuntimeError, match="incomplete"):
            load_function("timers").handler(event("minute"), context)


class TestInbox:
    @pytest.fixture
    def page(self, bootstrap: Mock, load_function: Load, tmp_path: Path) -> ModuleType:
        (tmp_path / "index.html").write_text("<title>é</title>")
        (tmp_path / "icon.svg").write_text("<svg/>")
        (tmp_path / "assets").mkdir()
        (tmp_path / "assets/index.js").write_text("'é'")
        bootstrap.inbox_door.return_value = create_inbox(tmp_path)
        return load_function("inbox")

    def test_serves_what_is_built_beside_it(self, page: ModuleType, bootstrap: Mock) -> None:
        bootstrap.inbox_door.assert_called_once_with(ROOT / "functions/inbox/static")

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/inbox/", "<title>é</title>"),
            ("/inbox/icon.svg", "<svg/>"),
            ("/inbox/assets/index.js", "'é'"),
            ("/inbox/config.json", '{"signIn": "token"}'),
        ],
    )
    def test_what_it_answers_is_text(
        self, path: str, body: str, page: ModuleType, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("inbox"))
        changed["path"], changed["requestContext"]["path"] = path, f"/prod{path}"
        answer = page.handler(changed, context)
        assert (answer["statusCode"], answer["isBase64Encoded"], answer["body"]) == (200, False, body)
        assert "content-security-policy" in answer["headers"]

    def test_leads_to_the_page_below_the_stage(
        self, page: ModuleType, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("inbox"))
        changed["path"], changed["requestContext"]["path"] = "/inbox", "/prod/inbox"
        answer = page.handler(changed, context)
        assert (answer["statusCode"], answer["headers"]["location"]) == (307, "inbox/")


class TestAuthorizer:
    def test_allows_the_whole_stage_since_the_answer_is_kept_for_every_method(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.authenticate.return_value = Principal(
            "bearer:alice", "demo", Kind.PERSON, frozenset({Role.APPROVER})
        )
        answer = load_function("authorizer").handler(event("authorizer"), context)
        bootstrap.authenticate.assert_called_once_with("Bearer example")
        assert answer["principalId"] == "bearer:alice"
        assert answer["context"] == {"tenant": "demo"}
        (statement,) = answer["policyDocument"]["Statement"]
        assert statement["Effect"] == "Allow"
        assert statement["Resource"] == ["arn:aws:execute-api:eu-central-1:123456789012:abcde12345/prod/*/*"]

    def test_answers_the_one_text_that_the_gateway_turns_into_a_401(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.authenticate.side_effect = Unauthenticated
        with pytest.raises(Exception, match=r"^Unauthorized$"):
            load_function("authorizer").handler(event("authorizer"), context)

    def test_allows_nothing_when_it_can_not_tell(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.authenticate.side_effect = Unavailable
        with pytest.raises(Unavailable):
            load_function("authorizer").handler(event("authorizer"), context)

    def test_asks_without_a_credential_when_there_is_none(
        self, bootstrap: Mock, load_function: Load, event: Event, context: Context
    ) -> None:
        bootstrap.authenticate.side_effect = Unauthenticated
        changed = deepcopy(event("authorizer"))
        changed["headers"].pop("Authorization")
        with pytest.raises(Exception, match=r"^Unauthorized$"):
            load_function("authorizer").handler(changed, context)
        bootstrap.authenticate.assert_called_once_with(None)


async def _echo(request: Request) -> JSONResponse:
    seen = {
        "url": str(request.url),
        "base": str(request.base_url),
        "body": (await request.body()).decode(),
        "authorization": request.headers.get("authorization"),
    }
    return JSONResponse(seen, media_type=request.query_params.get("type", "application/json"))


async def _fail(request: Request) -> Response:
    raise RuntimeError("internal detail")


DOORS = [
    ("a2a", "agents_door"),
    ("operator", "people_door"),
    ("inbox", "inbox_door"),
    ("channels", "channels_door"),
    ("feed", "feed_door"),
]


@pytest.fixture(params=DOORS, ids=[name for name, _ in DOORS])
def door(request: pytest.FixtureRequest, bootstrap: Mock, load_function: Load) -> ModuleType:
    name, factory = request.param
    routes = [Route("/broken", _fail), Route("/{path:path}", _echo, methods=["GET", "POST"])]
    getattr(bootstrap, factory).return_value = Starlette(routes=routes)
    return load_function(name)


class TestDoors:
    def test_the_stage_is_the_root_of_every_url(
        self, door: ModuleType, event: Event, context: Context
    ) -> None:
        answer = door.handler(event("a2a-send"), context)
        seen = json.loads(answer["body"])
        assert answer["statusCode"] == 200
        assert seen["base"] == "https://abcde12345.execute-api.eu-central-1.amazonaws.com/prod/"
        assert seen["url"].endswith("/prod/message:send")
        assert seen["body"] == event("a2a-send")["body"]
        assert seen["authorization"] == "Bearer example"

    @pytest.mark.parametrize(
        "name",
        [
            "a2a-jsonrpc",
            "a2a-card",
            "operator-checkpoints",
            "feed-changes",
            "inbox",
            "channels-slack",
            "channels-mail",
        ],
    )
    def test_serves_every_resource_of_the_api(
        self, name: str, door: ModuleType, event: Event, context: Context
    ) -> None:
        answer = door.handler(event(name), context)
        assert answer["statusCode"] == 200
        url = json.loads(answer["body"])["url"].partition("?")[0]
        assert url.endswith(f"/prod{event(name)['path']}")

    def test_a_domain_of_ones_own_has_no_stage(
        self, door: ModuleType, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("a2a-send"))
        changed["requestContext"]["path"] = changed["path"]
        seen = json.loads(door.handler(changed, context)["body"])
        assert seen["base"] == "https://abcde12345.execute-api.eu-central-1.amazonaws.com/"

    @pytest.mark.parametrize(
        "media_type", ["application/json", "application/a2a+json", "application/problem+json", "text/html"]
    )
    def test_text_is_not_answered_in_base64(
        self, media_type: str, door: ModuleType, event: Event, context: Context
    ) -> None:
        changed = deepcopy(event("a2a-send"))
        changed["queryStringParameters"] = {"type": media_type}
        changed["multiValueQueryStringParameters"] = {"type": [media_type]}
        answer = door.handler(changed, context)
        assert answer["headers"]["content-type"].startswith(media_type)
        assert answer["isBase64Encoded"] is False
        assert json.loads(answer["body"])["body"] == event("a2a-send")["body"]

    def test_an_exception_is_logged_and_counted_and_not_shown(
        self,
        door: ModuleType,
        event: Event,
        context: Context,
        capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        changed = deepcopy(event("a2a-card"))
        changed["path"], changed["requestContext"]["path"] = "/broken", "/prod/broken"
        answer = door.handler(changed, context)
        assert answer["statusCode"] == 500
        assert "internal detail" not in json.dumps(answer)
        assert emitted_metrics(capsys.readouterr().out) == ["UnhandledErrors"]
        assert "RuntimeError: internal detail" in caplog.text

    def test_neither_bodies_nor_credentials_are_logged(
        self,
        door: ModuleType,
        event: Event,
        context: Context,
        capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        changed = deepcopy(event("a2a-send"))
        changed["path"], changed["requestContext"]["path"] = "/broken", "/prod/broken"
        changed["httpMethod"] = "GET"
        door.handler(changed, context)
        printed = "".join([*capsys.readouterr(), caplog.text])
        assert "RuntimeError" in printed
        for secret in ("release 1.2.0", "Bearer example"):
            assert secret not in printed
