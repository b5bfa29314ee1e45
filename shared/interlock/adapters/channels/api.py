"""Calls of a platform's API: JSON there and back, bounded in time and size."""

import json
from collections.abc import Mapping
from typing import Any

from interlock.adapters.outbound import Forbidden, NoAnswer, Outbound
from interlock.engine.notices import RenderFailed

SECONDS = 10.0
MAX_BYTES = 256 * 1024


class Gone(RenderFailed):
    """The message, or where it was, is not there any more."""


def call(
    outbound: Outbound,
    method: str,
    url: str,
    authorization: str,
    body: Mapping[str, Any],
    *,
    seconds: float = SECONDS,
    agent: str = "interlock",
    says_why: int | None = None,
) -> dict[str, Any]:
    """The answer. Raises `RenderFailed`, whose text is for the log; a platform that says to come again later
    is called again by the notice's own retries. `says_why`: a status whose body is an answer too."""
    headers = {
        "Authorization": authorization,
        "Content-Type": "application/json; charset=utf-8",
        "Accept": "application/json",
        "User-Agent": agent,
    }
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    try:
        answer = outbound.request(method, url, headers, data, seconds=seconds, max_bytes=MAX_BYTES)
    except (Forbidden, NoAnswer, ValueError) as error:
        raise RenderFailed(str(error)) from error
    if answer.status in (404, 410):
        raise Gone(f"the answer was {answer.status}")
    if not 200 <= answer.status < 300 and answer.status != says_why:
        raise RenderFailed(f"the answer was {answer.status}")
    try:
        value = json.loads(answer.body or b"{}")
    except ValueError as error:
        raise RenderFailed("the answer was not JSON") from error
    if not isinstance(value, dict):
        raise RenderFailed("the answer was not an object")
    return value
