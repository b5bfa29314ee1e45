"""Behind the Lambda Web Adapter an app sees of API Gateway what it sees under Mangum."""

import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.support.calls import call

from interlock.doors.web_adapter import REQUEST_CONTEXT, behind_web_adapter

CONTEXT = {"stage": "prod", "path": "/prod/tasks/a", "domainName": "abcde12345.execute-api.example"}


async def seen(request: Request) -> JSONResponse:
    return JSONResponse(
        {
            "url": str(request.url),
            "base": str(request.base_url),
            "context": request.scope.get("aws.event", {}).get("requestContext"),
        }
    )


APP = behind_web_adapter(Starlette(routes=[Route("/{path:path}", seen)]))
CALLED = "http://interlock.test"


def get(path: str, context: dict[str, Any] | None) -> Any:
    headers = {} if context is None else {REQUEST_CONTEXT: json.dumps(context)}
    return call(APP, "GET", path, headers=headers).json()


def test_the_stage_is_the_root_of_every_url() -> None:
    answer = get("/tasks/a", CONTEXT)
    assert answer["url"] == f"{CALLED}/prod/tasks/a"
    assert answer["base"] == f"{CALLED}/prod/"


def test_a_domain_of_ones_own_has_no_stage() -> None:
    answer = get("/tasks/a", {**CONTEXT, "path": "/tasks/a"})
    assert answer["url"] == f"{CALLED}/tasks/a"
    assert answer["base"] == f"{CALLED}/"


def test_what_is_encoded_in_a_path_is_the_same_path() -> None:
    answer = get("/tasks/a%20b", {**CONTEXT, "path": "/prod/tasks/a%20b"})
    assert answer["base"] == f"{CALLED}/prod/"


def test_the_event_is_where_the_card_looks_for_it() -> None:
    assert get("/tasks/a", CONTEXT)["context"] == CONTEXT


def test_without_the_adapter_nothing_is_changed() -> None:
    answer = get("/tasks/a", None)
    assert answer == {"url": f"{CALLED}/tasks/a", "base": f"{CALLED}/", "context": None}
