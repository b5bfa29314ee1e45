import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.a2a_wire import Answer, FakeService, agent_card, ask, reason

from interlock.a2a.app import create_app
from interlock.a2a.card import (
    AgentCard,
    AgentExtension,
    AgentSkill,
    OAuthFlows,
    SecurityScheme,
    check_media_types,
)
from interlock.a2a.errors import ContentTypeNotSupported
from interlock.a2a.models import Message, Part, Role

PATH = "/.well-known/agent-card.json"


def get(path: str = PATH, *, method: str = "GET", public_url: str | None = None, **other: Any) -> Answer:
    other.setdefault("headers", {"host": "agents.example"})
    return ask(create_app(FakeService(), agent_card(), public_url=public_url), method, path, **other)


def interfaces(answer: Answer) -> list[tuple[str, str]]:
    shown = answer.json()["supportedInterfaces"]
    assert [interface["protocolVersion"] for interface in shown] == ["1.0", "1.0"]
    return [(interface["protocolBinding"], interface["url"]) for interface in shown]


def test_the_card_is_public_and_cacheable() -> None:
    answer = get()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    card = answer.json()
    del card["supportedInterfaces"]
    assert card == {
        "name": "Release desk",
        "description": "Asks before it releases",
        "version": "1.2.3",
        "capabilities": {
            "streaming": False,
            "pushNotifications": False,
            "extensions": [
                {
                    "uri": "https://example.com/Extensions/one/v1",
                    "description": "One",
                    "required": False,
                    "params": {},
                },
                {"uri": "urn:example:two", "description": "Two", "required": False},
            ],
        },
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [
            {
                "id": "release",
                "name": "Release",
                "description": "Releases",
                "tags": ["release"],
                "inputModes": ["application/json"],
            }
        ],
        "provider": {"url": "https://example.com", "organization": "Example"},
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {}}}],
    }


@pytest.mark.parametrize(
    ("headers", "scope", "url"),
    [
        ({"host": "agents.example"}, {}, "http://agents.example"),
        ({"host": "127.0.0.1:8123"}, {}, "http://127.0.0.1:8123"),
        ({"host": "agents.example"}, {"scheme": "https"}, "https://agents.example"),
        ({"host": "agents.example", "x-forwarded-proto": "https"}, {}, "https://agents.example"),
        ({"host": "agents.example", "x-forwarded-proto": "HTTPS, http"}, {}, "https://agents.example"),
        ({"host": "agents.example", "x-forwarded-proto": "javascript"}, {}, "http://agents.example"),
        (
            {"host": "agents.example"},
            {"root_path": "/prod", "path": "/prod" + PATH},
            "http://agents.example/prod",
        ),
        (
            {"host": "id.execute-api.example", "x-forwarded-proto": "https"},
            {"aws.event": {"requestContext": {"path": "/prod" + PATH}}},
            "https://id.execute-api.example/prod",
        ),
        (
            {"host": "agents.example"},
            {"aws.event": {"requestContext": {"path": PATH}}},
            "http://agents.example",
        ),
        ({"host": "agents.example"}, {"aws.event": {"version": "2.0"}}, "http://agents.example"),
        ({}, {}, "http://127.0.0.1:8000"),
        ({"host": "a/b@c"}, {}, "http://127.0.0.1:8000"),
    ],
)
def test_the_interfaces_are_at_the_address_that_was_asked(
    headers: dict[str, str], scope: dict[str, Any], url: str
) -> None:
    assert interfaces(get(headers=headers, scope=scope)) == [("JSONRPC", url), ("HTTP+JSON", url)]


@pytest.mark.parametrize("public_url", ["https://public.example/a2a", "https://public.example/a2a/"])
def test_a_public_url_goes_before_the_address_that_was_asked(public_url: str) -> None:
    url = "https://public.example/a2a"
    assert interfaces(get(public_url=public_url)) == [("JSONRPC", url), ("HTTP+JSON", url)]


def test_a_known_card_is_not_sent_again() -> None:
    etag = get().headers["etag"]
    assert etag == get().headers["etag"]
    assert etag.startswith('"')
    assert etag.endswith('"')
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = get(headers={"host": "agents.example", "if-none-match": known})
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", etag)
        assert answer.headers["cache-control"] == "public, max-age=300"
    for unknown in ('"other"', "", etag[:-1]):
        assert get(headers={"host": "agents.example", "if-none-match": unknown}).status == 200
    assert get(headers={"host": "other.example", "if-none-match": etag}).status == 200


def test_a_card_of_a_known_date_is_not_sent_again_unless_its_etag_is_another() -> None:
    app = create_app(FakeService(), agent_card())

    def asked(**known: str) -> Answer:
        return ask(app, "GET", PATH, headers={"host": "agents.example", **known})

    date = asked().headers["last-modified"]
    assert parsedate_to_datetime(date) <= datetime.now(UTC)
    known = asked(**{"if-modified-since": date})
    assert (known.status, known.body, known.headers["last-modified"]) == (304, b"", date)
    assert asked(**{"if-modified-since": date, "if-none-match": '"other"'}).status == 200
    later = format_datetime(parsedate_to_datetime(date) + timedelta(hours=1), usegmt=True)
    assert asked(**{"if-modified-since": later}).status == 200


def test_head_has_the_headers_and_no_body() -> None:
    app = create_app(FakeService(), agent_card())
    seen, head = (ask(app, method, PATH, headers={"host": "agents.example"}) for method in ("GET", "HEAD"))
    assert (head.status, head.body) == (200, b"")
    assert head.headers == seen.headers
    assert int(head.headers["content-length"]) == len(seen.body)


def test_another_method_on_the_card_is_405_in_the_error_form() -> None:
    answer = get(method="POST")
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert reason(answer.json()["error"]) == "METHOD_NOT_ALLOWED"


VALID: dict[str, Any] = agent_card().wire()
BEARER = VALID["securitySchemes"]["bearer"]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"description": ""},
        {"version": ""},
        {"capabilities": None},
        {"defaultInputModes": []},
        {"defaultOutputModes": [""]},
        {"skills": []},
        {"skills": [{**VALID["skills"][0], "tags": []}]},
        {"skills": [{**VALID["skills"][0], "examples": []}]},
        {"iconUrl": ""},
        {"supportedInterfaces": []},
        {"signatures": []},
        {"provider": {"url": "", "organization": "a"}},
        {"securityRequirements": []},
        {"securityRequirements": [{"schemes": {}}]},
        {"securityRequirements": [{"schemes": {"bearer": {"list": []}}}]},
        {"securitySchemes": {}},
        {"securitySchemes": {"a": {}}},
        {"securitySchemes": {"a": {**BEARER, "mtlsSecurityScheme": {}}}},
        {"capabilities": {"extensions": []}},
        {"capabilities": {"extensions": [{"uri": "urn:a,b"}]}},
        {"capabilities": {"extensions": [{"uri": "urn:ü"}]}},
    ],
    ids=str,
)
def test_a_card_has_nothing_empty_in_it(changes: dict[str, Any]) -> None:
    AgentCard.model_validate(VALID)
    with pytest.raises(ValidationError):
        AgentCard.model_validate({**VALID, **changes})


def test_every_security_scheme_has_its_form() -> None:
    scopes = {"read": "to read"}
    urls = {"tokenUrl": "https://a.example/t", "refreshUrl": "https://a.example/r", "scopes": scopes}
    schemes = [
        {"apiKeySecurityScheme": {"location": "header", "name": "X-Key", "description": "d"}},
        {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
        {
            "oauth2SecurityScheme": {
                "flows": {"authorizationCode": {"authorizationUrl": "https://a.example/a", **urls}},
                "oauth2MetadataUrl": "https://a.example/m",
            }
        },
        {"oauth2SecurityScheme": {"flows": {"clientCredentials": urls}}},
        {"oauth2SecurityScheme": {"flows": {"deviceCode": {"deviceAuthorizationUrl": "https://a", **urls}}}},
        {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example/o"}},
        {"mtlsSecurityScheme": {}},
    ]
    for scheme in schemes:
        assert SecurityScheme.model_validate(scheme).wire() == scheme
    with pytest.raises(ValidationError):
        OAuthFlows.model_validate(
            {
                "clientCredentials": urls,
                "authorizationCode": {"authorizationUrl": "https://a.example/a", **urls},
            }
        )


def sent(*media_types: str | None) -> Message:
    return Message(
        message_id="m",
        role=Role.USER,
        parts=[Part(text="a", media_type=media_type) for media_type in media_types],
    )


@pytest.mark.parametrize("media_type", ["text/plain", "Text/Plain; charset=utf-8", "application/json", None])
def test_media_types_of_the_card_and_its_skills_are_accepted(media_type: str | None) -> None:
    check_media_types(agent_card(), sent(media_type))


def test_other_media_types_are_refused_by_part_without_repeating_them() -> None:
    with pytest.raises(ContentTypeNotSupported) as refused:
        check_media_types(agent_card(), sent("text/plain", "text/html", None, "image/png"))
    assert [violation.field for violation in refused.value.violations] == [
        "message.parts[1].mediaType",
        "message.parts[3].mediaType",
    ]
    assert "html" not in json.dumps(refused.value.details)


def test_a_card_may_accept_ranges() -> None:
    check_media_types(agent_card(default_input_modes=["*/*"]), sent("image/png", "odd"))
    images = agent_card(default_input_modes=["image/*"])
    check_media_types(images, sent("image/png"))
    with pytest.raises(ContentTypeNotSupported):
        check_media_types(images, sent("audio/mpeg"))


def test_extensions_and_skills_are_written_as_they_are_read() -> None:
    extension = {"uri": "urn:a", "description": "d", "required": True, "params": {"a": [1, None]}}
    assert AgentExtension.model_validate(extension).wire() == extension
    skill = {
        **VALID["skills"][0],
        "examples": ["e"],
        "securityRequirements": [{"schemes": {"b": {"list": ["s"]}}}],
    }
    assert AgentSkill.model_validate(skill).wire() == skill
