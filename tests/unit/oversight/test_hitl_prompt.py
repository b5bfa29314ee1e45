import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, UUID, uuid1, uuid3, uuid4, uuid5

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.oversight.hitl_prompt import (
    MAX_QUORUM,
    MAX_RESPONDER_LENGTH,
    MAX_RESPONDERS,
    RESPONSE_KEY,
    URI,
    Envelope,
    MalformedResponse,
    PromptRefused,
    Responders,
    Response,
    is_prompt_id,
    may_respond,
    parse_response,
    parse_timestamp,
    validate_emission,
    visible,
)

NOW = datetime(2026, 12, 1, 10, 0, tzinfo=UTC)
SCHEMA = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string", "maxLength": 1024}},
    "required": ["approved"],
    "additionalProperties": False,
}
ID = "8d4f1a52-3c7e-4b9a-9f10-2a6d5e7c8b90"

DATA = Path(__file__).parents[1] / "data"


def published(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def emit(**changes: Any) -> Envelope:
    arguments: dict[str, Any] = {
        "prompt": "Release 1.2?",
        "response_schema": SCHEMA,
        "deadline": None,
        "allowed_responders": None,
        "now": NOW,
    }
    return validate_emission(**{**arguments, **changes})


def wire(**changes: Any) -> dict[str, Any]:
    return {"prompt_id": ID, "prompt": "Release 1.2?", "response_schema": SCHEMA, **changes}


def test_the_keys_are_the_specification_s() -> None:
    assert URI == "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"
    assert RESPONSE_KEY == "hitl_response_for"


def test_an_emitted_prompt_has_a_new_version_4_id_each_time() -> None:
    ids = {emit().prompt_id for _ in range(100)}
    assert len(ids) == 100
    assert all(UUID(prompt_id).version == 4 for prompt_id in ids)


def test_an_emitted_prompt_is_published_whole_and_read_back_the_same() -> None:
    envelope = emit(
        deadline=datetime(2026, 12, 1, 12, 30, 0, 250_000, tzinfo=timezone(timedelta(hours=1))),
        allowed_responders=["specific:bearer:alice", "consensus:2"],
    )
    sent = envelope.to_wire()
    assert sent == {
        "prompt_id": envelope.prompt_id,
        "prompt": "Release 1.2?",
        "response_schema": SCHEMA,
        "deadline": "2026-12-01T11:30:00.250000Z",
        "allowed_responders": ["specific:bearer:alice", "consensus:2"],
    }
    jsonschema.validate(sent, published("envelope.schema.json"))
    assert Envelope.from_wire(json.loads(json.dumps(sent))) == envelope


def test_without_responders_any_may_respond() -> None:
    assert emit().to_wire()["allowed_responders"] == ["any"]
    assert Envelope.from_wire(wire()).allowed_responders == ("any",)


def refused(**changes: Any) -> str:
    with pytest.raises(PromptRefused) as refusal:
        emit(**changes)
    assert isinstance(refusal.value, ValueError)
    text = str(refusal.value)
    assert 0 < len(text) < 250
    return text


@pytest.mark.parametrize("prompt", ["x", "x" * 4096, "\U0001f600" * 4096, "é\n\t", "hidden \u202e text"])
def test_prompts_are_1_to_4096_characters(prompt: str) -> None:
    assert emit(prompt=prompt).prompt == prompt


@pytest.mark.parametrize(
    "prompt",
    ["", "x" * 4097, " ", "\n\t\u3000", "\u200b\u2060", "\u202e", "lone \ud800", None, 7, b"x", ["x"]],
)
def test_other_prompts_are_refused(prompt: Any) -> None:
    assert "prompt" in refused(prompt=prompt)


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        {},
        {"type": "string"},
        {"type": "object", "title": "x" * 65_536},
        {"type": "object", "properties": {"v": {"$ref": "#"}}},
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": "object", "enum": [float("nan")]},
    ],
)
def test_response_schemas_must_pass_the_gate(schema: Any) -> None:
    assert refused(response_schema=schema).startswith("response_schema: ")


def test_deadlines_lie_ahead() -> None:
    assert emit(deadline=NOW + timedelta(microseconds=1)).deadline == NOW + timedelta(microseconds=1)
    assert "future" in refused(deadline=NOW)
    assert "future" in refused(deadline=NOW - timedelta(seconds=1))
    assert "future" in refused(deadline=NOW.astimezone(timezone(timedelta(hours=14))) - timedelta(seconds=1))


@pytest.mark.parametrize(
    "deadline",
    [
        NOW.replace(tzinfo=None),
        "2027-01-01T00:00:00Z",
        1.8e9,
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
    ],
)
def test_deadlines_are_times_that_can_be_written_down(deadline: Any) -> None:
    assert "deadline" in refused(deadline=deadline)


@pytest.mark.parametrize(
    "responders",
    [
        ["any"],
        ("specific:jwt:auth0|x",),
        ["consensus:1"],
        ["consensus:10", "any", "specific:a"],
        ["specific:" + "x" * (MAX_RESPONDER_LENGTH - 9)],
        ["any"] * MAX_RESPONDERS,
    ],
)
def test_responders_that_follow_the_patterns_are_emitted(responders: Any) -> None:
    assert emit(allowed_responders=responders).allowed_responders == tuple(responders)


@pytest.mark.parametrize(
    "responders",
    [
        [],
        (),
        "any",
        {"any"},
        [None],
        ["Any"],
        ["any\n"],
        [" any"],
        ["specific:"],
        ["specific:a b"],
        ["specific:a\u00a0b"],
        ["specific:a\ufeff"],
        ["specific:\ud800"],
        ["consensus:0"],
        ["consensus:01"],
        ["consensus:-1"],
        ["consensus:\u0663"],
        ["consensus:"],
        ["anybody"],
        ["any", "role:admin"],
        ["specific:" + "x" * MAX_RESPONDER_LENGTH],
        ["any"] * (MAX_RESPONDERS + 1),
    ],
)
def test_other_responders_are_refused(responders: Any) -> None:
    assert "allowed_responders" in refused(allowed_responders=responders)


@pytest.mark.parametrize(
    "value",
    [
        ID,
        ID.upper(),
        str(uuid1()),
        str(uuid4()),
        str(uuid3(NAMESPACE_DNS, "a")),
        str(uuid5(NAMESPACE_DNS, "a")),
    ],
)
def test_prompt_ids_are_uuids_of_versions_1_to_5(value: str) -> None:
    assert is_prompt_id(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "prompt-1",
        ID + "\n",
        ID.replace("-", ""),
        "{" + ID + "}",
        "urn:uuid:" + ID,
        "00000000-0000-0000-0000-000000000000",
        "018f2c3e-7b1a-7c3d-8e4f-5a6b7c8d9e0f",
        ID.replace("-9f10-", "-cf10-"),
        ID.replace("8", "\uff18"),
        None,
        7,
    ],
)
def test_nothing_else_is_a_prompt_id(value: Any) -> None:
    assert not is_prompt_id(value)
    with pytest.raises(PromptRefused, match="prompt_id"):
        Envelope.from_wire(wire(prompt_id=value))
    with pytest.raises(MalformedResponse, match="prompt_id"):
        parse_response({RESPONSE_KEY: {"prompt_id": value, "payload": {}}})


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-12-01T10:00:00Z", NOW),
        ("2026-12-01t10:00:00z", NOW),
        ("2026-12-01T10:00:00-00:00", NOW),
        ("2026-12-01T15:30:00+05:30", NOW),
        ("2026-12-01T10:00:00.5Z", NOW + timedelta(seconds=0.5)),
        ("2026-12-01T10:00:00.1234567899Z", NOW + timedelta(microseconds=123456)),
        ("2026-12-01T09:59:60Z", NOW),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_deadlines_are_read_as_rfc_3339(text: str, at: datetime) -> None:
    assert parse_timestamp(text) == at
    assert Envelope.from_wire(wire(deadline=text)).deadline == at


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01",
        "2026-12-01T10:00:00",
        "2026-12-01 10:00:00Z",
        "2026-12-01T10:00Z",
        "2026-12-01T10:00:00.Z",
        "2026-12-01T10:00:00,5Z",
        "2026-12-01T10:00:00+0100",
        "2026-12-01T10:00:00+24:00",
        "2026-12-01T24:00:00Z",
        "2026-12-01T10:60:00Z",
        "2026-12-01T10:00:61Z",
        "2026-02-29T10:00:00Z",
        "2026-W49-2T10:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:60Z",
        "2026-12-01T10:00:00Z\n",
        "\u0662026-12-01T10:00:00Z",
        "2026-12-01T10:00:00.123456\u0667Z",
        "",
        None,
        1796119200,
    ],
)
def test_other_deadlines_are_refused(text: Any) -> None:
    with pytest.raises(PromptRefused, match="deadline"):
        Envelope.from_wire(wire(deadline=text))


@pytest.mark.parametrize(
    "envelope",
    [
        None,
        [],
        "x",
        {},
        wire(extra=1),
        wire(allowed_responders=None),
        {name: value for name, value in wire().items() if name != "prompt"},
        {name: value for name, value in wire().items() if name != "response_schema"},
    ],
)
def test_envelopes_are_closed_objects(envelope: Any) -> None:
    with pytest.raises(PromptRefused):
        Envelope.from_wire(envelope)


def test_patterns_of_later_minor_versions_are_read_and_ignored() -> None:
    envelope = Envelope.from_wire(wire(allowed_responders=["role:admin", "specific:alice"]))
    assert envelope.responders == Responders(
        1, open_to_any=False, named=frozenset(["alice"]), recognised=True
    )


def test_a_message_without_the_key_is_no_response() -> None:
    for metadata in (None, {}, {URI: {"prompt_id": ID, "payload": {}}}, {"other": 1}):
        assert parse_response(metadata) is None


def test_a_response_is_read_with_its_id_in_lower_case() -> None:
    payload = {"approved": True}
    metadata = {RESPONSE_KEY: {"prompt_id": ID.upper(), "payload": payload}, "other": 1}
    assert parse_response(metadata) == Response(ID, payload)


@pytest.mark.parametrize(
    "response",
    [
        None,
        [],
        "x",
        True,
        {},
        {"prompt_id": ID},
        {"payload": {}},
        {"prompt_id": ID, "payload": {}, "extra": 1},
        {"prompt_id": ID, "payload": None},
        {"prompt_id": ID, "payload": []},
        {"prompt_id": ID, "payload": "{}"},
        {"promptId": ID, "payload": {}},
    ],
)
def test_a_malformed_response_is_an_error_never_an_absence(response: Any) -> None:
    with pytest.raises(MalformedResponse) as refusal:
        parse_response({RESPONSE_KEY: response})
    assert len(str(refusal.value)) < 200


def responders(*entries: str) -> Responders:
    return Responders.parse(entries)


@pytest.mark.parametrize(
    ("entries", "needed", "open_to_any", "named"),
    [
        (["any"], 1, True, []),
        (["specific:alice"], 1, False, ["alice"]),
        (["specific:bearer:alice", "specific:bob"], 1, False, ["bearer:alice", "bob"]),
        (["any", "specific:alice"], 1, True, ["alice"]),
        (["consensus:1"], 1, True, []),
        (["consensus:3"], 3, True, []),
        (["consensus:2", "consensus:4", "consensus:3"], 4, True, []),
        (["consensus:2", "specific:alice", "specific:bob"], 2, False, ["alice", "bob"]),
        (["consensus:2", "specific:alice", "any"], 2, True, ["alice"]),
        (["role:admin", "any"], 1, True, []),
        (["specific:any"], 1, False, ["any"]),
        (["consensus:" + "9" * 250], MAX_QUORUM, True, []),
        (["consensus:" + "9" * 5000], MAX_QUORUM, True, []),
        (["consensus:1000000"], MAX_QUORUM, True, []),
    ],
)
def test_what_responders_ask_for(
    entries: list[str], needed: int, open_to_any: bool, named: list[str]
) -> None:
    people_only = any(entry.startswith("consensus:") for entry in entries)
    assert responders(*entries) == Responders(
        needed, open_to_any, frozenset(named), recognised=True, people_only=people_only
    )


@pytest.mark.parametrize(
    ("entries", "principal", "authorised", "allowed"),
    [
        (["any"], "alice", True, True),
        (["any"], "alice", False, False),
        (["specific:alice"], "alice", True, True),
        (["specific:alice"], "alice", False, True),
        (["specific:alice"], "bob", True, False),
        (["specific:alice"], "Alice", True, False),
        (["specific:alice"], "alice2", True, False),
        (["specific:alice", "specific:bob"], "bob", False, True),
        (["any", "specific:alice"], "bob", True, True),
        (["any", "specific:alice"], "bob", False, False),
        (["any", "specific:alice"], "alice", False, True),
        (["consensus:2"], "bob", True, True),
        (["consensus:2"], "bob", False, False),
        (["consensus:2", "specific:alice"], "bob", True, False),
        (["consensus:2", "specific:alice"], "alice", False, True),
        (["role:admin"], "alice", True, False),
        (["consensus:0"], "alice", True, False),
        (["ANY"], "alice", True, False),
        ([], "alice", True, False),
        (["role:admin", "specific:alice"], "alice", False, True),
    ],
)
def test_who_may_respond(entries: list[str], principal: str, authorised: bool, allowed: bool) -> None:
    assert may_respond(responders(*entries), principal, authorised) is allowed


def test_nothing_recognised_is_said_and_lets_nobody_respond() -> None:
    unknown = responders("role:admin", "consensus:0", "")
    assert unknown == Responders(1, open_to_any=False, named=frozenset(), recognised=False)
    assert not may_respond(unknown, "", authorised=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, with\ttabs\nand lines", "plain, with\ttabs\nand lines"),
        ("né 日本 שלום عربي \u0301", "né 日本 שלום عربي \u0301"),
        ("pay \u202e001$\u202c", "pay \\u202e001$\\u202c"),
        ("\u2066a\u2069\u061c\u200e\u200f", "\\u2066a\\u2069\\u061c\\u200e\\u200f"),
        ("a\u200bb\u200dc\u2060d\ufeffe\u00adf", "a\\u200bb\\u200dc\\u2060d\\ufeffe\\u00adf"),
        ("\x1b[2J\r\x00\x7f\x85", "\\u001b[2J\\u000d\\u0000\\u007f\\u0085"),
        ("a\u2028b\u2029c", "a\\u2028b\\u2029c"),
        ("\U000e0041\U000e0100", "\\U000e0041\\U000e0100"),
        ("\u3164\u115f\u034f\ufe0f", "\\u3164\\u115f\\u034f\\ufe0f"),
        ("\ud800", "\\ud800"),
        ("<b>&amp;</b>", "<b>&amp;</b>"),
        ("", ""),
    ],
)
def test_what_can_not_be_seen_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_control_and_format_character_is_spelled_out() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\n\t":
            assert visible(character).isascii(), hex(code)
            assert int(visible(character)[2:], 16) == code


@settings(deadline=None)
@given(st.text())
def test_showing_is_done_once(text: str) -> None:
    assert visible(visible(text)) == visible(text)


# Our parsers and the published rules, as JSON Schemas that another library reads, must agree.

_text = st.sampled_from(["", "x", "x" * 4096, "x" * 4097, "Release?", "é"]) | st.text(max_size=5)
_ids = st.one_of(
    st.uuids().map(str),
    st.uuids(version=4).map(str),
    st.uuids(version=1).map(lambda value: str(value).upper()),
    st.text(max_size=40),
)
_entries = st.one_of(
    st.sampled_from(["any", "specific:", "consensus:0", "consensus:12", "Any", "role:x", "specific:a b", ""]),
    st.text(max_size=5).map("specific:{}".format),
    st.integers(-5, 200).map("consensus:{}".format),
)
_anything = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.none(), max_size=2)
_deadlines = st.sampled_from(["2026-12-01T10:00:00Z", "2026-12-01T11:00:00+02:00", "2026-12-01T10:00:01.5Z"])
_wires = st.fixed_dictionaries(
    {},
    optional={
        "prompt_id": _ids | _anything,
        "prompt": _text | _anything,
        "response_schema": st.sampled_from([SCHEMA, {}, {"type": "array"}, {"type": "object"}]) | _anything,
        "deadline": _deadlines | st.integers(),
        "allowed_responders": st.lists(_entries | st.integers(), max_size=3) | _anything,
        "extra": st.none(),
    },
)
_likely = st.fixed_dictionaries(
    {"prompt_id": st.uuids(version=4).map(str), "prompt": _text, "response_schema": st.just(SCHEMA)},
    optional={"deadline": _deadlines, "allowed_responders": st.lists(_entries, max_size=3)},
)


def follows(schema: Any, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def no_trailing_line_feed(texts: Any) -> bool:
    """The oracle's regular expressions let `$` match before one, ECMAScript's do not."""
    return not any(isinstance(text, str) and text.endswith("\n") for text in texts)


@settings(deadline=None)
@given(_wires | _likely)
def test_envelopes_are_read_as_published_except_for_unknown_responders(envelope: dict[str, Any]) -> None:
    schema = published("envelope.schema.json")
    del schema["properties"]["allowed_responders"]["items"]["pattern"]
    expected = follows(schema, envelope) and no_trailing_line_feed([envelope.get("prompt_id")])
    try:
        read = Envelope.from_wire(envelope)
    except PromptRefused:
        assert not expected
    else:
        assert expected
        assert Envelope.from_wire(read.to_wire()) == read


@settings(deadline=None)
@given(_wires | _likely)
def test_only_what_is_published_is_emitted(envelope: dict[str, Any]) -> None:
    deadline = envelope.get("deadline")
    at = parse_timestamp(deadline) if isinstance(deadline, str) else deadline
    prompt, entries = envelope.get("prompt"), envelope.get("allowed_responders")
    candidate = {
        "prompt_id": ID,
        "prompt": prompt,
        "response_schema": envelope.get("response_schema"),
        **({} if deadline is None else {"deadline": deadline}),
        **({} if entries is None else {"allowed_responders": entries}),
    }
    expected = (
        follows(published("envelope.schema.json"), candidate)
        and (at is None or at > NOW)
        and no_trailing_line_feed(entries or [])
        # Ours: not blank, and no byte order mark in a name.
        and visible(str(prompt)).strip() != ""
        and not all(visible(character) != character or character.isspace() for character in str(prompt))
        and not any(0xD800 <= ord(character) < 0xE000 for character in str(prompt))
        and not any("\ufeff" in entry for entry in entries or [])
    )
    try:
        emitted = emit(
            prompt=prompt,
            response_schema=envelope.get("response_schema"),
            deadline=at,
            allowed_responders=entries,
        )
    except PromptRefused:
        assert not expected
    else:
        assert expected
        jsonschema.validate(emitted.to_wire(), published("envelope.schema.json"))


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_id": _ids | _anything,
            "payload": st.dictionaries(st.text(max_size=3), _anything, max_size=2) | _anything,
            "extra": st.none(),
        },
    )
    | _anything
)
def test_responses_are_read_as_published(response: Any) -> None:
    expected = follows(published("response.schema.json"), response)
    if isinstance(response, dict):
        expected = expected and no_trailing_line_feed([response.get("prompt_id")])
    try:
        read = parse_response({RESPONSE_KEY: response})
    except MalformedResponse:
        assert not expected
    else:
        assert expected
        assert read is not None
        assert read.payload == response["payload"]
