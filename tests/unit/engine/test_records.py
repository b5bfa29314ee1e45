"""The items of the core table: what is written is read back, and what sorts as text sorts as it should."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from interlock.a2a.models import Artifact, Part
from interlock.engine.ports import Item
from interlock.engine.records import (
    MAX_EVENT_BYTES,
    SCHEMA_VERSION,
    SHARDS,
    Checkpoint,
    Due,
    Event,
    EventTooLarge,
    Run,
    SendKey,
    TaskMeta,
    event_item,
    event_key,
    instant,
    parse_instant,
    read_event,
    shard,
)

META = TaskMeta(
    tenant="acme",
    task_id="t-1",
    context_id="c-1",
    owner="bearer:agent",
    agent="desk",
    skill="work",
    state="TASK_STATE_SUBMITTED",
    created_at="2026-01-01T12:00:00.000000Z",
    status_at="2026-01-01T12:00:00.000000Z",
    view="OWN#acme#bearer:agent",
    view_at="2026-01-01T12:00:00.000000Z#t-1",
    claim="claim",
    said=3,
    rerun=True,
)
RECORDS = (
    META,
    Run("acme", "t-1", "desk", "work", 1, Run.NEW, "2026-01-01T12:00:00.000000Z"),
    Checkpoint("acme", "t-1", "p-1", "desk", "work", "bearer:agent", "{}", "2026-01-01T12:00:00.000000Z"),
    Due("deadline", "acme", "t-1", "p-1", "2026-01-01T12:00:00.000000Z"),
    SendKey("t-1", "sha256:0"),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_record_is_read_back_as_it_was_written(record: TaskMeta) -> None:
    item = record.item()
    assert item["v"] == SCHEMA_VERSION
    assert None not in item.values()
    assert type(record).read(item) == record


def test_what_a_later_version_may_add_is_ignored() -> None:
    item: Item = {**META.item(), "added": "later"}
    assert TaskMeta.read(item) == META


def test_keys_hold_the_tenant_and_the_task() -> None:
    assert (META.key.pk, META.key.sk) == ("T#acme#t-1", "META")
    assert event_key("acme", "t-1", 12).sk == "EVT#0000000012"
    assert META.run_key.sk == "acme#desk#work#t-1"


def test_instants_sort_as_text_in_the_order_of_time() -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=10**n) for n in range(13)]
    texts = [instant(moment) for moment in moments]
    assert sorted(texts) == texts
    assert [parse_instant(text) for text in texts] == moments
    assert {len(text) for text in texts} == {27}


def test_an_instant_is_in_utc() -> None:
    east = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert instant(east) == "2025-12-31T23:00:00.000000Z"


def test_tasks_spread_over_all_shards_and_stay_in_theirs() -> None:
    shards = [shard(f"task-{number}") for number in range(400)]
    assert set(shards) == set(range(SHARDS))
    assert shards == [shard(f"task-{number}") for number in range(400)]


def event(text: str) -> Event:
    return Event(
        artifact=Artifact(artifact_id="a", parts=[Part(text=text), Part(data={"n": 1, "none": None})])
    )


@pytest.mark.parametrize("text", ["short", "grüße\u2028" * 10_000], ids=["as it is", "compressed"])
def test_an_event_is_read_back_as_it_was_written(text: str) -> None:
    item = event_item(event(text), "op-1")
    assert (item["v"], item["op"]) == (SCHEMA_VERSION, "op-1")
    assert ("packed" in item) == (len(text) > 100)
    assert read_event(item) == event(text)


@pytest.mark.parametrize("letter", ["x", "é"], ids=["that compresses well", "of more bytes than letters"])
def test_an_event_that_is_too_large_is_refused_however_small_it_is_stored(letter: str) -> None:
    frame = len(event("").wire_json())
    most = (MAX_EVENT_BYTES - frame) // len(letter.encode())
    assert event_item(event(letter * most), "op-1")["size"] <= MAX_EVENT_BYTES  # type: ignore[operator]
    with pytest.raises(EventTooLarge, match=str(MAX_EVENT_BYTES)):
        event_item(event(letter * (most + 1)), "op-1")
