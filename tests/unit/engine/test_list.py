"""ListTasks: the caller's own tasks, latest status first, filtered and in pages."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.twin import (
    AGENT,
    ANN,
    OPS,
    PEER,
    SPY,
    START,
    Deployment,
    asking,
    message,
    running,
)

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import TaskState, timestamp
from interlock.agents import Turn


async def works(turn: Turn) -> None:
    await turn.artifact("out")
    await turn.complete("done")


def several(count: int = 5) -> tuple[Deployment, list[str]]:
    """Tasks a second apart, oldest first."""
    deployment = Deployment(running(works))
    ids = []
    for number in range(count):
        ids.append(deployment.send(f"task {number}").id)
        deployment.clock.advance(1)
    return deployment, ids


def ids(response: Any) -> list[str]:
    return [task.id for task in response.tasks]


def test_tasks_come_latest_status_first() -> None:
    deployment, sent = several()
    assert ids(deployment.listed()) == sent[::-1]


def test_a_task_moves_to_the_top_when_its_status_changes() -> None:
    deployment = Deployment(asking())
    first = deployment.send().id
    deployment.clock.advance(1)
    second = deployment.send().id
    deployment.clock.advance(1)
    deployment.send(message(task_id=first))
    assert ids(deployment.listed()) == [first, second]


def test_tasks_of_the_same_moment_have_an_order_that_pages_keep() -> None:
    deployment = Deployment(running(works))
    sent = {deployment.send().id for _ in range(7)}
    assert walk(deployment, 2) == ids(deployment.listed())
    assert set(ids(deployment.listed())) == sent


def walk(deployment: Deployment, size: int, **filters: Any) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        page = deployment.listed(page_size=size, page_token=token, **filters)
        assert len(page.tasks) <= size
        assert page.page_size == size
        found += ids(page)
        token = page.next_page_token
        if not token:
            return found


@pytest.mark.parametrize("size", [1, 2, 4, 5, 6, 100])
def test_pages_hold_every_task_once(size: int) -> None:
    deployment, sent = several()
    assert walk(deployment, size) == sent[::-1]


def test_the_last_page_has_an_empty_token_and_the_total_is_of_all_pages() -> None:
    deployment, _ = several()
    first = deployment.listed(page_size=3)
    assert first.next_page_token
    assert first.total_size == 5
    last = deployment.listed(page_size=3, page_token=first.next_page_token)
    assert (last.next_page_token, last.total_size, len(last.tasks)) == ("", 5, 2)


def test_without_a_size_a_page_has_fifty() -> None:
    deployment, _ = several(51)
    page = deployment.listed()
    assert (page.page_size, len(page.tasks), page.total_size) == (50, 50, 51)


def test_nobodys_list_is_empty_and_has_all_its_members() -> None:
    deployment = Deployment(running(works))
    assert deployment.listed().wire() == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


@pytest.mark.parametrize("token", ["x", "AAAA", "é", "eyJhIjoxfQ"])
def test_a_token_that_is_none_is_refused(token: str) -> None:
    deployment, _ = several(1)
    with pytest.raises(InvalidParams):
        deployment.listed(page_token=token)


def test_a_token_of_another_caller_is_refused() -> None:
    deployment, _ = several(3)
    deployment.send("go", PEER)
    token = deployment.listed(page_size=1).next_page_token
    for who in (PEER, SPY):
        with pytest.raises(InvalidParams):
            deployment.listed(who, page_token=token)


def test_a_list_is_filtered_by_state() -> None:
    deployment = Deployment(asking())
    waiting, canceled = deployment.send().id, deployment.send().id
    deployment.cancel(canceled)
    page = deployment.listed(status=TaskState.INPUT_REQUIRED)
    assert (ids(page), page.total_size) == ([waiting], 1)
    assert ids(deployment.listed(status=TaskState.COMPLETED)) == []
    assert deployment.listed(status=TaskState.UNSPECIFIED).total_size == 2


def test_a_list_is_filtered_by_context_also_over_pages() -> None:
    deployment = Deployment(running(works))
    in_context = []
    for number in range(9):
        task = deployment.send(message(context_id=f"c-{number % 3}"))
        deployment.clock.advance(1)
        if number % 3 == 1:
            in_context.append(task.id)
    assert walk(deployment, 2, context_id="c-1") == in_context[::-1]
    assert deployment.listed(page_size=1, context_id="c-1").total_size == 3
    assert ids(deployment.listed(context_id="c-9")) == []


def test_a_list_since_a_time_includes_that_time() -> None:
    deployment, sent = several()
    since = START + timedelta(seconds=2)
    page = deployment.listed(status_timestamp_after=since)
    assert (ids(page), page.total_size) == (sent[:1:-1], 3)
    later = deployment.listed(status_timestamp_after=since + timedelta(milliseconds=1))
    assert ids(later) == sent[:2:-1]


def test_the_time_that_a_task_shows_includes_it() -> None:
    deployment = Deployment(running(works))
    deployment.clock.advance(0.123456)
    task = deployment.send()
    shown = datetime.fromisoformat(str(task.status.timestamp))
    assert timestamp(shown) == "2026-01-01T12:00:00.123Z"
    assert ids(deployment.listed(status_timestamp_after=shown)) == [task.id]


def test_filters_are_all_applied() -> None:
    deployment = Deployment(asking())
    for number in range(4):
        task = deployment.send(message(context_id="c"))
        deployment.clock.advance(1)
        if number % 2:
            deployment.cancel(task.id)
    page = deployment.listed(
        context_id="c", status=TaskState.CANCELED, status_timestamp_after=START + timedelta(seconds=3)
    )
    assert page.total_size == len(page.tasks) == 1


def test_artifacts_are_there_only_where_asked_for() -> None:
    deployment, _ = several(1)
    for without in ({}, {"include_artifacts": False}, {"history_length": 3}):
        (task,) = deployment.listed(**without).tasks
        assert task.artifacts is None
        assert "artifacts" not in task.wire()
    (task,) = deployment.listed(include_artifacts=True).tasks
    assert task.artifacts is not None


@pytest.mark.parametrize(("length", "shown"), [(None, None), (0, None), (1, 1), (5, 1)])
def test_history_is_there_only_where_asked_for(length: int | None, shown: int | None) -> None:
    deployment, _ = several(1)
    (task,) = deployment.listed(history_length=length).tasks
    assert (len(task.history) if task.history else None) == shown


def test_a_listed_task_says_what_the_task_itself_says() -> None:
    deployment = Deployment(asking())
    waiting = deployment.send()
    deployment.clock.advance(1)
    deployment.cancel(deployment.send().id)
    for task in deployment.listed().tasks:
        whole = deployment.get(task.id, history_length=0)
        assert task == whole.model_copy(update={"artifacts": None})
    (with_all,) = deployment.listed(
        status=TaskState.INPUT_REQUIRED, history_length=50, include_artifacts=True
    ).tasks
    assert with_all == deployment.get(waiting.id)


def test_only_the_callers_own_tasks_are_listed() -> None:
    deployment = Deployment(running(works))
    mine = deployment.send("go", AGENT).id
    deployment.send("go", PEER)
    deployment.send("go", SPY)
    assert ids(deployment.listed(AGENT)) == [mine]
    assert deployment.listed(AGENT).total_size == 1
    assert ids(deployment.listed(ANN)) == ids(deployment.listed(OPS)) == []


def test_the_tenant_of_a_request_is_the_callers_own() -> None:
    deployment, sent = several(1)
    assert ids(deployment.listed(tenant="acme")) == sent
    with pytest.raises(InvalidParams):
        deployment.listed(tenant="other")


def test_a_short_list_needs_one_read_for_all_status_messages() -> None:
    deployment, _ = several(5)
    calls: list[str] = []
    deployment.hook(before=lambda operation, arguments: calls.append(operation))
    deployment.listed()
    assert set(calls) == {"get_many"}
    assert len(calls) == 5
