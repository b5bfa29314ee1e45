import json
from collections.abc import Callable

import pytest
from tests.support.a2a_wire import (
    DEFAULT_HEADERS,
    OPTIONAL_EXTENSION,
    OTHER_EXTENSION,
    Answer,
    Door,
    Headers,
    agent_card,
    ask,
    message,
    reason,
    with_headers,
)

from interlock.a2a.card import AgentCapabilities, AgentExtension

REQUIRED = "https://example.com/required/v1"

Send = Callable[..., Answer]


@pytest.fixture(params=["rpc", "rest"])
def send(request: pytest.FixtureRequest) -> Send:
    """A SendMessage by one of the bindings."""
    door = Door()
    if request.param == "rpc":
        return lambda **other: door.rpc("SendMessage", message(), **other)
    return lambda **other: door.rest("POST", "/message:send", message(), **other)


def succeeded(answer: Answer) -> bool:
    return answer.status == 200 and "error" not in answer.json()


@pytest.mark.parametrize(
    ("header", "query", "served"),
    [
        ("1.0", "", True),
        (" 1.0 ", "", True),
        (None, "A2A-Version=1.0", True),
        ("", "A2A-Version=1.0", True),
        ("1.0", "A2A-Version=0.3", True),
        (None, "", False),
        ("", "", False),
        ("0.3", "A2A-Version=1.0", False),
        (None, "A2A-Version=0.3", False),
        (None, "A2A-Version=", False),
        ("1", "", False),
        ("1.0.0", "", False),
        ("1.0.1", "", False),
        ("1.1", "", False),
        ("1.7", "", False),
        ("01.0", "", False),
        ("2.0", "", False),
        ("v1.0", "", False),
        ("1.0, 1.0", "", False),
    ],
)
def test_only_version_1_0_is_served(send: Send, header: str | None, query: str, served: bool) -> None:
    answer = send(headers=with_headers(a2a_version=header), query=query)
    if served:
        assert succeeded(answer)
        return
    error = answer.json()["error"]
    assert error["code"] in (-32009, 400)
    assert reason(error) == "VERSION_NOT_SUPPORTED"


def test_a_version_error_carries_the_id_and_goes_before_an_unknown_method() -> None:
    answer = Door().rpc("message/send", message(), headers=with_headers(a2a_version=None))
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (7, -32009)


@pytest.mark.parametrize(
    ("headers", "echoed"),
    [
        ([], None),
        ([("a2a-extensions", "")], None),
        ([("a2a-extensions", "https://example.com/unknown")], None),
        ([("a2a-extensions", OPTIONAL_EXTENSION)], OPTIONAL_EXTENSION),
        ([("x-a2a-extensions", OPTIONAL_EXTENSION)], OPTIONAL_EXTENSION),
        ([("a2a-extensions", OPTIONAL_EXTENSION.upper())], OPTIONAL_EXTENSION),
        ([("a2a-extensions", OPTIONAL_EXTENSION + "/")], None),
        ([("a2a-extensions", OPTIONAL_EXTENSION.replace("v1", "v2"))], None),
        (
            [("a2a-extensions", f" ,urn:x,\t{OTHER_EXTENSION} ,{OPTIONAL_EXTENSION},{OTHER_EXTENSION}")],
            f"{OPTIONAL_EXTENSION}, {OTHER_EXTENSION}",
        ),
        (
            [("a2a-extensions", OTHER_EXTENSION), ("a2a-extensions", OPTIONAL_EXTENSION)],
            f"{OPTIONAL_EXTENSION}, {OTHER_EXTENSION}",
        ),
        (
            [("x-a2a-extensions", OTHER_EXTENSION), ("a2a-extensions", OPTIONAL_EXTENSION)],
            f"{OPTIONAL_EXTENSION}, {OTHER_EXTENSION}",
        ),
        ([("a2a-extensions", "urn:x," * 63 + OTHER_EXTENSION)], OTHER_EXTENSION),
        ([("a2a-extensions", "urn:x," * 64 + OTHER_EXTENSION)], None),
        ([("a2a-extensions", "urn:\xff\x01," + OTHER_EXTENSION)], OTHER_EXTENSION),
    ],
)
def test_the_activated_extensions_are_echoed(
    send: Send, headers: list[tuple[str, str]], echoed: str | None
) -> None:
    answer = send(headers=[*DEFAULT_HEADERS.items(), *headers])
    assert succeeded(answer)
    assert answer.headers.get("a2a-extensions") == echoed
    assert "x-a2a-extensions" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "body", "changes"),
    [
        ("POST", "/", b"{", {}),
        ("POST", "/", b"{}", {"content-type": "text/plain"}),
        ("POST", "/", b"{}", {}),
        ("POST", "/message:send", b"{", {}),
        ("POST", "/message:send", b"{}", {"content-type": "text/plain"}),
        ("POST", "/message:send", b"{}", {"a2a-version": "0.3"}),
        ("POST", "/message:send", b"{}", {"authorization": "Bearer bad"}),
        ("GET", "/tasks/none", b"", {}),
        ("POST", "/message:stream", b"{}", {}),
    ],
)
def test_errors_echo_the_activated_extensions_too(
    method: str, path: str, body: bytes, changes: dict[str, str]
) -> None:
    headers: Headers = {**DEFAULT_HEADERS, "a2a-extensions": OTHER_EXTENSION, **changes}
    answer = ask(Door().app, method, path, body=body, headers=headers)
    assert "error" in answer.json()
    assert answer.headers["a2a-extensions"] == OTHER_EXTENSION


def test_a_required_extension_must_be_activated() -> None:
    capabilities = AgentCapabilities(extensions=[AgentExtension(uri=REQUIRED, required=True)])
    door = Door(card=agent_card(capabilities=capabilities))
    for headers in (with_headers(), with_headers(a2a_extensions=OPTIONAL_EXTENSION)):
        rpc = door.rpc("SendMessage", message(), headers=headers).json()["error"]
        rest = door.rest("GET", "/tasks", headers=headers).json()["error"]
        assert (rpc["code"], rest["code"], rest["status"]) == (-32008, 400, "FAILED_PRECONDITION")
        assert reason(rpc) == reason(rest) == "EXTENSION_SUPPORT_REQUIRED"
        assert rest["details"][0]["metadata"] == {"extensions": REQUIRED}
    activated = with_headers(a2a_extensions=REQUIRED.upper())
    assert succeeded(door.rest("GET", "/tasks", headers=activated))
    assert succeeded(door.rpc("SendMessage", message(), headers=activated))


def test_the_card_needs_neither_version_nor_extension() -> None:
    capabilities = AgentCapabilities(extensions=[AgentExtension(uri=REQUIRED, required=True)])
    door = Door(card=agent_card(capabilities=capabilities))
    answer = ask(door.app, "GET", "/.well-known/agent-card.json", headers={"host": "a.example"})
    assert answer.status == 200
    assert json.loads(answer.body)["capabilities"] == {"extensions": [{"uri": REQUIRED, "required": True}]}
