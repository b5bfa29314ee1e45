"""What people see of halts: each turn that was found running is in one state, and nobody sees others'."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.halting import ACME, ALL, DESK, WORK, halt, resume, run_of, started, walk_all
from tests.support.twin import (
    AGENT,
    ANN,
    BOT,
    NOBODY,
    OPS,
    PLATFORM,
    Deployment,
    nothing,
    running,
)

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.engine import halt_report
from interlock.engine.context import new_id
from interlock.engine.halt_report import UNHEARD_AFTER, Became, HaltNotFound, HaltReport, listed, report
from interlock.engine.ports import Put
from interlock.engine.records import Stopped
from interlock.engine.run_turn import claim
from interlock.engine.stop import finish_stop
from interlock.oversight.halts import Scope
from interlock.oversight.principals import Kind, Principal, Role

OTHER = Scope("other")
STRANGER = Principal("bearer:stranger", "other", Kind.SERVICE, frozenset({Role.CALLER}))
THEIR_OPS = Principal("bearer:ops", "other", Kind.PERSON, frozenset({Role.OPERATOR}))


@pytest.fixture
def place() -> Deployment:
    return Deployment(running(nothing), at_once=False)


def counts(found: HaltReport) -> dict[str, int]:
    assert found.counts is not None
    return {kind.value: number for kind, number in found.counts.items() if number}


def became(found: HaltReport) -> dict[str, Became]:
    return {one.row.task_id: one.became for one in found.found}


def test_what_was_found_running_is_counted_by_what_became_of_it(place: Deployment) -> None:
    withdrawn, asked, confirmed, abandoned = (
        place.send().id,
        *(started(place) for _ in range(3)),
    )
    halt(place)
    walk_all(place)
    finish_stop(place.engine, run_of(place, confirmed), heard=True)
    finish_stop(place.engine, run_of(place, abandoned), heard=False)
    found = report(place.engine, OPS, ACME)
    assert counts(found) == {"withdrawn": 1, "asked": 1, "confirmed": 1, "abandoned": 1}
    assert became(found) == {
        withdrawn: Became.WITHDRAWN,
        asked: Became.ASKED,
        confirmed: Became.CONFIRMED,
        abandoned: Became.ABANDONED,
    }
    assert found.cursor is None
    assert found.halt.walked_at is not None


def test_of_a_turn_whose_task_was_canceled_meanwhile_only_its_run_says_that_it_has_ended(
    place: Deployment,
) -> None:
    task_id = place.send().id
    run = claim(place.engine, "acme", task_id, 1)
    assert run is not None
    halt(place)
    walk_all(place)
    place.cancel(task_id)
    assert became(report(place.engine, OPS, ACME)) == {task_id: Became.ASKED}
    place.clock.advance(UNHEARD_AFTER.total_seconds())
    assert became(report(place.engine, OPS, ACME)) == {task_id: Became.ABANDONED}
    run.end_stopped(heard=True)
    assert became(report(place.engine, OPS, ACME)) == {task_id: Became.CONFIRMED}


def test_what_an_earlier_halt_has_told_to_stop_is_found_by_a_later_one_too(place: Deployment) -> None:
    task_id = place.send().id
    run = claim(place.engine, "acme", task_id, 1)
    assert run is not None
    halt(place, ALL)
    walk_all(place, ALL)
    for generation in (1, 2):
        halt(place)
        walk_all(place, generation=generation)
        assert became(report(place.engine, OPS, ACME)) == {task_id: Became.ASKED}
    run.end_stopped(heard=True)
    for scope in (ALL, ACME):
        assert became(report(place.engine, PLATFORM, scope)) == {task_id: Became.CONFIRMED}


@pytest.mark.parametrize(("heard", "expected"), [(True, Became.CONFIRMED), (False, Became.ABANDONED)])
def test_a_turn_that_ends_while_the_report_is_read_is_told_as_it_ended(
    place: Deployment, heard: bool, expected: Became
) -> None:
    task_id = started(place)
    halt(place)
    walk_all(place)

    def ends(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "query" and arguments[0].startswith("RUN#") and place.run_rows():
            finish_stop(place.engine, run_of(place, task_id), heard=heard)

    place.hook(before=ends)
    assert became(report(place.engine, OPS, ACME)) == {task_id: expected}


@pytest.mark.parametrize("scope", [ALL, ACME, DESK, WORK], ids=str)
def test_each_scope_finds_what_still_runs(place: Deployment, scope: Scope) -> None:
    task_id = started(place)
    halt(place, scope)
    walk_all(place, scope)
    assert became(report(place.engine, OPS, scope)) == {task_id: Became.ASKED}


def test_pages_have_every_row_once_and_the_first_has_the_counts(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halt_report, "PAGE_SIZE", 3)
    stopped = [place.send().id for _ in range(13)] + [started(place) for _ in range(4)]
    halt(place)
    walk_all(place)
    found = report(place.engine, OPS, ACME)
    assert counts(found) == {"withdrawn": 13, "asked": 4}
    seen, cursor = became(found), found.cursor
    pages = 1
    while cursor is not None:
        page = report(place.engine, OPS, ACME, cursor=cursor)
        assert page.counts is None
        assert len(page.found) <= 3
        assert not seen.keys() & became(page).keys()
        seen |= became(page)
        cursor, pages = page.cursor, pages + 1
    assert sorted(seen) == sorted(stopped)
    assert pages == 6


@pytest.mark.parametrize("cursor", ["", "x", "08.a", "-1.a", "00", "00.", "²0.a", "00.é", "00." + "a" * 513])
def test_a_cursor_that_is_none_is_refused(place: Deployment, cursor: str) -> None:
    halt(place)
    with pytest.raises(InvalidParams):
        report(place.engine, OPS, ACME, cursor=cursor)


def test_a_halt_of_everything_is_told_to_each_tenant_of_its_own_tasks(place: Deployment) -> None:
    own = started(place)
    theirs = place.send(who=STRANGER).id
    halt(place, ALL)
    walk_all(place, ALL)
    everything = report(place.engine, PLATFORM, ALL)
    assert became(everything) == {own: Became.ASKED, theirs: Became.WITHDRAWN}
    for who, seen in ((OPS, {own: Became.ASKED}), (ANN, {own: Became.ASKED})):
        told = report(place.engine, who, ALL)
        assert became(told) == seen
        assert counts(told) == {"asked": 1}
        for number in range(8):
            page = report(place.engine, who, ALL, cursor=f"{number:02d}.other#")
            assert set(became(page)) <= {own}
            page = report(place.engine, who, ALL, cursor=f"{number:02d}.zzz")
            assert set(became(page)) <= {own}
            page = report(place.engine, THEIR_OPS, ALL, cursor=f"{number:02d}.acme#")
            assert set(became(page)) <= {theirs}


def test_another_tenants_halt_is_as_one_that_never_was(place: Deployment) -> None:
    halt(place, OTHER)
    halt(place, Scope("other", agent="desk"))
    for scope in (OTHER, Scope("other", agent="desk"), Scope("none"), ACME):
        with pytest.raises(HaltNotFound) as refused:
            report(place.engine, OPS, scope)
        assert refused.value.message == "There is no such halt"
    assert listed(place.engine, OPS) == []
    assert len(listed(place.engine, PLATFORM)) == 2


@pytest.mark.parametrize("who", [AGENT, BOT, NOBODY], ids=lambda who: who.id)
@pytest.mark.parametrize(
    "ask",
    [lambda engine, who: listed(engine, who), lambda engine, who: report(engine, who, ACME)],
    ids=["list", "report"],
)
def test_services_and_callers_see_nothing_of_halts(
    place: Deployment, who: Principal, ask: Callable[..., Any]
) -> None:
    halt(place)
    with pytest.raises(PermissionDenied):
        ask(place.engine, who)


def test_a_report_is_of_the_halt_that_was_named(place: Deployment) -> None:
    first = halt(place)
    assert report(place.engine, OPS, ACME, first.generation).halt == first
    second = halt(place, reason="again")
    assert report(place.engine, OPS, ACME).halt == second
    with pytest.raises(HaltNotFound):
        report(place.engine, OPS, ACME, first.generation)


def test_the_list_has_what_stands_and_then_what_was_lifted_lately(place: Deployment) -> None:
    halt(place, DESK)
    place.clock.advance(1)
    halt(place, ALL)
    place.clock.advance(1)
    halt(place, WORK)
    resume(place, WORK)
    halt(place, OTHER)
    assert [one.scope for one in listed(place.engine, OPS)] == ["all", "agent:acme/desk", "skill:acme/work"]
    assert listed(place.engine, PLATFORM)[0].scope == "tenant:other"
    place.clock.advance(halt_report.LIFTED_FOR.total_seconds() + 1)
    assert [one.scope for one in listed(place.engine, ANN)] == ["all", "agent:acme/desk"]


def test_a_tenant_whose_name_begins_like_another_is_another(place: Deployment) -> None:
    halt(place, Scope("acme-2"))
    halt(place, Scope("acme-2", agent="desk"))
    assert listed(place.engine, OPS) == []


def test_the_list_is_bounded(place: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halt_report, "MAX_LISTED", 2)
    for name in ("a", "b", "c"):
        halt(place, Scope("acme", skill=name))
        place.clock.advance(1)
    assert [one.scope for one in listed(place.engine, OPS)] == ["skill:acme/c", "skill:acme/b"]


def test_however_many_end_while_the_report_is_read_each_is_told_as_it_ended(
    place: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halt_report, "READ_AT_ONCE", 2)
    standing = halt(place)
    at = standing.halted_at
    for _ in range(40):
        row = Stopped("acme", new_id(), 1, True, at)
        place.table.write(Put(Stopped.key_of(standing.name, row.tenant, row.task_id, row.turn), row.item()))

    def give_up(operation: str, arguments: tuple[Any, ...]) -> None:
        if operation == "query" and arguments[0].startswith("RUN#"):
            for key, item in place.rows().items():
                if key.pk.startswith("STOPPED#"):
                    place.table.write(Put(key, {**item, "abandoned_at": at}))

    place.hook(before=give_up)
    assert counts(report(place.engine, OPS, ACME)) == {"abandoned": 40}
