from datetime import UTC, datetime

import pytest
from pydantic import JsonValue, ValidationError

from interlock.a2a.models import ListTasksRequest, Message, Part, Role, SendMessageRequest, Task, TaskState

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}


@pytest.mark.parametrize(
    "given",
    [
        {**MESSAGE, "contextId": "c", "taskId": "t"},
        {"message_id": "m", "role": 1, "parts": [{"text": "hi"}], "context_id": "c", "task_id": "t"},
        {**MESSAGE, "contextId": "c", "task_id": "t", "metadata": None, "unknown": {"kind": 1}},
    ],
)
def test_both_spellings_numbers_nulls_and_unknown_members_are_read(given: dict[str, object]) -> None:
    assert Message.model_validate(given).wire() == {**MESSAGE, "contextId": "c", "taskId": "t"}


def test_an_empty_string_means_unset_where_the_field_has_no_presence() -> None:
    message = Message.model_validate(
        {**MESSAGE, "contextId": "", "taskId": "", "parts": [{"text": "", "filename": "", "mediaType": ""}]}
    )
    assert message.wire() == {**MESSAGE, "parts": [{"text": ""}]}
    request = ListTasksRequest.model_validate({"contextId": "", "pageToken": "", "status": 0, "tenant": ""})
    assert request.wire() == {}


@pytest.mark.parametrize("role", [0, "ROLE_UNSPECIFIED", False, True, "user", 3, -1, 1.5, [], None])
def test_a_message_needs_a_role(role: object) -> None:
    with pytest.raises(ValidationError):
        Message.model_validate({**MESSAGE, "role": role})


@pytest.mark.parametrize(
    "part", [{}, {"text": "a", "url": "b"}, {"data": None}, {"raw": "not base64!"}, {"text": 5}, "text", None]
)
def test_a_part_has_exactly_one_content(part: object) -> None:
    with pytest.raises(ValidationError):
        Part.model_validate(part)


def test_structure_is_kept_as_it_came() -> None:
    data: dict[str, JsonValue] = {"n": 9007199254740993, "f": 1.0, "null": None, "list": [None, {}]}
    request = SendMessageRequest.model_validate(
        {"message": {**MESSAGE, "parts": [{"data": data}], "metadata": data}}
    )
    wire = request.wire()
    assert wire["message"] == {**MESSAGE, "parts": [{"data": data}], "metadata": data}


def test_states_are_read_by_name_and_number() -> None:
    for given in ("TASK_STATE_CANCELED", 5, "5"):
        assert ListTasksRequest.model_validate({"status": given}).status is TaskState.CANCELED
    assert Task.model_validate({"id": "t", "status": {"state": 6}}).status.state is TaskState.INPUT_REQUIRED


@pytest.mark.parametrize(
    ("given", "at"),
    [
        ("2026-11-30T10:00:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30t12:00:00.5+02:00", datetime(2026, 11, 30, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-11-30T10:00:00.123456789Z", datetime(2026, 11, 30, 10, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_timestamps_are_rfc_3339_and_read_as_utc(given: str, at: datetime) -> None:
    read = ListTasksRequest.model_validate({"statusTimestampAfter": given}).status_timestamp_after
    assert read is not None
    assert (read, read.utcoffset()) == (at, at.utcoffset())


@pytest.mark.parametrize(
    "given",
    ["2026-11-30T10:00:00", "2026-11-30", "1764500000", 1764500000, "0001-01-01T00:00:00+23:59", "x", True],
)
def test_other_timestamps_are_refused(given: object) -> None:
    with pytest.raises(ValidationError):
        ListTasksRequest.model_validate({"statusTimestampAfter": given})


def test_lists_of_a_request_are_bounded() -> None:
    for name, entries in (("parts", [{"text": "a"}] * 257), ("extensions", ["a"] * 65)):
        with pytest.raises(ValidationError):
            Message.model_validate({**MESSAGE, name: entries})
    with pytest.raises(ValidationError):
        SendMessageRequest.model_validate(
            {"message": MESSAGE, "configuration": {"acceptedOutputModes": ["a"] * 65}}
        )


def test_the_text_of_a_message_is_its_text_parts() -> None:
    parts = [Part(text="a"), Part(data=1), Part(text="b")]
    assert Message(message_id="m", role=Role.USER, parts=parts).text == "a\nb"
