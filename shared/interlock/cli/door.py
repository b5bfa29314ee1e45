"""The people's door of a deployment, as the commands call it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError

from interlock.a2a.models import Wire
from interlock.cli.output import Exit, Failure
from interlock.cli.target import Target

TIMEOUT_SECONDS = 30.0
"""API Gateway ends a request after 29."""
TRIES = 4
BACK_OFF_SECONDS = 0.25
RETRIED = frozenset({502, 503, 504})
"""What was asked for may or may not have been done (502, 504), or was not (503)."""
HALTED = "HALTED"
"""Of a 503 that stays until somebody resumes."""
WHOSE = {"winner": "answered by", "who": "it is"}
"""What is said of an identity that an error names in its metadata."""

_Model = TypeVar("_Model", bound=Wire)


@contextmanager
def calling(at: Target, timeout: float = TIMEOUT_SECONDS) -> Iterator["Door"]:
    try:
        with httpx.Client(headers={"Authorization": f"Bearer {at.token}"}, timeout=timeout) as client:
            yield Door(client, at.url)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeEncodeError) as error:
        raise Failure(f"{at.url} or the token is not valid.", Exit.USAGE) from error
    except httpx.TransportError as error:
        raise Failure(f"{at.url} can not be reached: {error}", Exit.UNREACHABLE) from error


class Door:
    """Raises `Failure` for what the door refuses."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client = client
        self._url = f"{url}/people"

    def get(
        self, model: type[_Model], path: str, query: Mapping[str, str | int] = {}, *, tries: int = 1
    ) -> _Model:
        return self._tell(
            model, lambda: self._client.get(f"{self._url}/{path}", params=dict(query)), tries=tries
        )

    def post(
        self,
        model: type[_Model],
        path: str,
        content: str | None = None,
        headers: Mapping[str, str] = {},
        *,
        lost: str,
        tries: int = TRIES,
    ) -> _Model:
        """Only what can be said twice is said so. `lost` is for when no reply comes."""
        headers = {**({} if content is None else {"Content-Type": "application/json"}), **headers}
        return self._tell(
            model,
            lambda: self._client.post(f"{self._url}/{path}", content=content, headers=headers),
            tries=tries,
            lost=lost,
        )

    def put(self, model: type[_Model], path: str, content: str, *, lost: str) -> _Model:
        headers = {"Content-Type": "application/json"}
        url = f"{self._url}/{path}"
        return self._tell(
            model, lambda: self._client.put(url, content=content, headers=headers), tries=TRIES, lost=lost
        )

    def delete(self, model: type[_Model], path: str, query: Mapping[str, str], *, lost: str) -> _Model:
        url = f"{self._url}/{path}"
        return self._tell(model, lambda: self._client.delete(url, params=dict(query)), tries=TRIES, lost=lost)

    def _tell(
        self, model: type[_Model], send: Callable[[], httpx.Response], *, tries: int, lost: str | None = None
    ) -> _Model:
        for attempt in range(1, tries + 1):
            try:
                reply = send()
            except httpx.UnsupportedProtocol:
                raise
            except httpx.TransportError as error:
                if attempt == tries:
                    if lost is None:
                        raise
                    raise Failure(f"No reply: {error}. {lost}", Exit.UNREACHABLE) from error
            else:
                try:
                    return _read(model, reply)
                except Failure as failure:
                    again = reply.status_code in RETRIED and reason_of(failure) != HALTED
                    if attempt == tries or not again:
                        raise
            time.sleep(BACK_OFF_SECONDS * 2 ** (attempt - 1))
        raise AssertionError("there is at least one try")


def reason_of(failure: Failure) -> str | None:
    """The name of what the server refused for."""
    return reason_in(failure.error)


def reason_in(error: Mapping[str, Any]) -> str | None:
    """`ErrorInfo.reason` of an error as the server puts it."""
    details = _objects(error.get("details"))
    return next((str(found["reason"]) for found in details if "reason" in found), None)


def _read(model: type[_Model], reply: httpx.Response) -> _Model:
    if reply.is_success:
        try:
            return model.model_validate_json(reply.content)
        except ValidationError as error:
            raise Failure("The reply is not one of an Interlock deployment.") from error
    try:
        found: Any = reply.json()["error"]
        raise refusal(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Failure(f"The server answered {reply.status_code} {reply.reason_phrase}.") from None


def refusal(found: Any) -> Failure:
    """What an error as the server puts it means. Raises `KeyError` or `TypeError` for another form."""
    message = str(found["message"])
    details = [_violation(violation) for violation in _objects(found.get("validation_errors"))]
    whose = next((w for w in map(_whose, _objects(found.get("details"))) if w is not None), None)
    if whose is not None:
        details.append(whose)
    reason = found.get("reason")
    return Failure(f"{message} ({reason})" if reason else message, details=details, error=found)


def _objects(listed: Any) -> list[dict[str, Any]]:
    return [member for member in listed if isinstance(member, dict)] if isinstance(listed, list) else []


def _violation(violation: Mapping[str, Any]) -> str:
    return f"{violation.get('path') or '/'}  {violation.get('keyword')}  {violation.get('message')}"


def _whose(detail: Mapping[str, Any]) -> str | None:
    """Who answered first, or says that they look at it, where the server says so."""
    metadata = detail.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return next((f"{said} {found[name]}" for name, said in WHOSE.items() if name in found), None)
