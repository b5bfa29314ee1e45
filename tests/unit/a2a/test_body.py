"""How a body comes in, and where the service is called."""

import json
import threading
from typing import Any

import pytest
from starlette.concurrency import run_in_threadpool
from tests.support.a2a_wire import Answer, Door, FakeService, agent_card, ask, message, reason, with_headers

from interlock.a2a import strict_json
from interlock.a2a.app import create_app
from interlock.a2a.models import ListTasksRequest, ListTasksResponse
from interlock.a2a.service import CallContext

RPC = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message()}
REQUESTS = {"/": json.dumps(RPC).encode(), "/message:send": json.dumps(message()).encode()}
LIMIT = 1000


def post(path: str, body: Any, **other: Any) -> Answer:
    return ask(create_app(FakeService(), agent_card(), max_body=LIMIT), "POST", path, body=body, **other)


def too_large(answer: Answer) -> bool:
    error = answer.json()["error"]
    assert reason(error) == "REQUEST_TOO_LARGE"
    assert error["code"] in (413, -32600)
    return answer.status == 413


@pytest.mark.parametrize("path", REQUESTS)
def test_a_body_up_to_the_limit_is_served_and_above_it_is_413(path: str) -> None:
    body = REQUESTS[path]
    assert "error" not in post(path, body.ljust(LIMIT)).json()
    assert too_large(post(path, body.ljust(LIMIT + 1)))


@pytest.mark.parametrize("path", REQUESTS)
def test_the_limit_is_one_mebibyte_unless_set(path: str) -> None:
    app = Door().app
    assert strict_json.MAX_BYTES == 2**20
    assert ask(app, "POST", path, body=REQUESTS[path].ljust(2**20)).status == 200
    assert too_large(ask(app, "POST", path, body=REQUESTS[path].ljust(2**20 + 1)))


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("length", ["1001", "9" * 5000])
def test_an_announced_length_over_the_limit_is_refused_unread(path: str, length: str) -> None:
    assert too_large(post(path, [], headers=with_headers(content_length=length)))


@pytest.mark.parametrize("path", REQUESTS)
def test_an_unannounced_body_is_refused_at_the_limit_and_not_read_on(path: str) -> None:
    assert too_large(post(path, [b" " * 600] * 2, ends=False))


@pytest.mark.parametrize("path", REQUESTS)
@pytest.mark.parametrize("length", ["abc", "\xb2", "-1", "", "1"])
def test_a_false_announcement_does_not_matter(path: str, length: str) -> None:
    assert "error" not in post(path, REQUESTS[path], headers=with_headers(content_length=length)).json()


@pytest.mark.parametrize("path", REQUESTS)
def test_a_body_in_pieces_is_put_together(path: str) -> None:
    body = REQUESTS[path]
    assert "error" not in post(path, [body[:7], b"", body[7:50], body[50:]]).json()


@pytest.mark.parametrize("path", REQUESTS)
def test_a_client_that_leaves_in_the_middle_is_no_failure_of_the_server(path: str) -> None:
    error = post(path, [REQUESTS[path][:10]], ends=False).json()["error"]
    assert reason(error) == "INVALID_REQUEST"


class Where(FakeService):
    thread: int | None = None

    def list_tasks(self, context: CallContext, request: ListTasksRequest) -> ListTasksResponse:
        self.thread = threading.get_ident()
        return super().list_tasks(context, request)


def test_the_service_runs_in_line_or_where_it_is_told_to() -> None:
    here, elsewhere = Where(), Where()
    assert ask(create_app(here, agent_card()), "GET", "/tasks").status == 200
    assert ask(create_app(elsewhere, agent_card(), run=run_in_threadpool), "GET", "/tasks").status == 200
    assert here.thread == threading.get_ident()
    assert elsewhere.thread not in (None, threading.get_ident())


def test_errors_of_the_service_come_through_a_pool() -> None:
    app = create_app(FakeService(), agent_card(), run=run_in_threadpool)
    assert ask(app, "GET", "/tasks/none").status == 404
