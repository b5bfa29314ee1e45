"""What people decide at the page, and what becomes of it."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker, Seat

DELIVERED = re.compile(r"Delivered to the agent at")


def refund(asker: Asker, order: int, amount: str = "12.50") -> tuple[str, str]:
    """The task, and the title of what it asks."""
    return asker.send(f"refund {order} {amount}"), f"Refund {amount} to order {order}"


def test_an_approval_is_given_and_reaches_the_agent(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7001)
    seat = visit("alice")
    card = seat.open(title)
    for term, definition in (("tool", "refund"), ("order", "7001"), ("amount", "12.50")):
        row = card.get_by_role("region", name="The exact action").locator("div", has_text=term).last
        expect(row.get_by_role("definition")).to_have_text(definition)
    expect(card).to_contain_text("billing, on behalf of bearer:agent")
    expect(card).to_contain_text("Leave for exactly this action, once.")
    expect(card).to_contain_text("It waits. Nothing runs.")
    seat.does("Approve")
    seat.told(DELIVERED)
    (receipt,) = asker.ended(task)["artifacts"]
    assert receipt["parts"][0]["data"]["approvedBy"] == ["bearer:alice"]


def test_the_decision_carries_the_digest_that_was_shown(visit: Visit, asker: Asker) -> None:
    _, title = refund(asker, 7002)
    seat = visit("alice")
    card = seat.open(title)
    card.get_by_text(re.compile(r"^Digest")).click()
    shown = card.locator("code", has_text=re.compile(r"^sha256:[0-9a-f]{64}$")).inner_text()
    with seat.page.expect_request("**/decide") as sent:
        seat.does("Approve")
    body = json.loads(sent.value.post_data or "")
    assert body["digest"] == shown
    assert 0 < body["viewedMs"] < 60_000
    seat.told(DELIVERED)


def test_what_does_not_have_its_digest_can_not_be_decided(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7003)
    seat = visit("alice")

    def tampered(route: Route) -> None:
        response = route.fetch()
        body: Any = json.loads(response.text().replace('"amount":"12.50"', '"amount":"1250.00"'))
        route.fulfill(response=response, json=body)

    seat.page.route(re.compile(r"/people/checkpoints|/people/tasks/[^/]+/checkpoints/[^/]+$"), tampered)
    seat.page.reload()
    card = seat.open(title)
    expect(card).to_contain_text("1250.00")
    seat.told("does not have the digest that the server names")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    assert asker.task(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


def test_a_rejection_says_why(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7004)
    seat = visit("alice")
    seat.open(title)
    seat.does("Reject…")
    seat.does("Reject")
    expect(seat.page.get_by_text("Say a reason.")).to_be_visible()
    seat.does("Wrong amount or target")
    expect(seat.page.get_by_label("Reason", exact=True)).to_have_value("Wrong amount or target")
    seat.does("Reject")
    seat.told("Rejected by you")
    ended = asker.ended(task, "REJECTED")
    assert ended["status"]["message"]["parts"][0]["text"] == "Not refunded: Wrong amount or target."


def test_an_edit_is_asked_for_anew_and_is_not_approved_by_whoever_edited(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7005)
    alice, bob = visit("alice"), visit("bob")
    card = alice.open(title)
    alice.does("Request changes…")
    alice.page.get_by_label("What to change").fill("Only half of it")
    alice.does("Edit the action")
    edited = alice.page.get_by_label("The action as it should be, as JSON")
    edited.fill(edited.input_value().replace("12.50", "6.25"))
    changes = card.get_by_role("listitem").filter(has_text="amount")
    expect(changes).to_contain_text(re.compile(r"was.*12\.50.*is.*6\.25", re.S))
    alice.does("Send back")
    alice.told("Sent back by you")
    again = "Refund 6.25 to order 7005"
    card = alice.open(again)
    expect(card).to_contain_text("You have asked for this yourself, so somebody else decides.")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    card = bob.open(again)
    expect(card).to_contain_text("Changed since request 1")
    bob.does("Approve")
    bob.told(DELIVERED)
    assert asker.ended(task)["artifacts"][0]["parts"][0]["data"]["amount"] == "6.25"


def test_a_vote_is_counted_and_the_last_one_decides(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7006, "250.00")
    alice, bob = visit("alice"), visit("bob")
    alice.open(title)
    alice.does("Approve")
    alice.told("Counted: 1 of 2. Nothing runs until the others have decided.")
    card = bob.open(title)
    expect(card).to_contain_text("1 of 2")
    expect(card).to_contain_text("Your approval is the last one needed.")
    bob.does("Approve")
    bob.told(DELIVERED)
    approved = asker.ended(task)["artifacts"][0]["parts"][0]["data"]["approvedBy"]
    assert sorted(approved) == ["bearer:alice", "bearer:bob"]


def test_of_two_who_decide_at_once_one_is_told_who_was_first(visit: Visit, asker: Asker) -> None:
    task, title = refund(asker, 7007)
    held: list[tuple[Seat, Route]] = []
    seats = {"alice": visit("alice"), "bob": visit("bob")}
    for seat in seats.values():
        seat.expected |= {400}
        seat.open(title)
        seat.page.route("**/decide", lambda route, seat=seat: held.append((seat, route)))
        seat.does("Approve")
    for seat in seats.values():
        seat.told("Sending…")
    for _, route in held:
        route.continue_()
    assert len(held) == 2
    (winner,) = asker.ended(task)["artifacts"][0]["parts"][0]["data"]["approvedBy"]
    for label, seat in seats.items():
        first = f"bearer:{label}" == winner
        seat.told(DELIVERED if first else f"{winner} was first.")


def test_what_expires_while_it_is_open_says_that_nothing_was_run(visit: Visit, asker: Asker) -> None:
    seat = visit("alice")
    task = asker.ask("Is it still time?", {"type": "object", "properties": {}}, seconds=6)
    card = seat.open("Is it still time?")
    expect(card.locator(".countdown")).to_have_class(re.compile("red"))
    seat.told("The time was over. Nothing was run.")
    expect(card.get_by_role("button", name="Send the answer")).to_have_count(0)
    seat.picture("expired")
    asker.ended(task, "FAILED")


def test_a_window_is_stopped_before_it_starts(visit: Visit, asker: Asker) -> None:
    seat = visit("alice")
    task = asker.send("linger", immediately=True)
    card = seat.open("Starts linger of asking")
    expect(card).to_contain_text("It starts by itself.")
    seat.does("Stop it")
    seat.told("Stopped by you")
    asker.ended(task, "CANCELED")


@pytest.fixture
def arrived(asker: Asker) -> list[str]:
    return [refund(asker, 7010 + number)[1] for number in range(3)]


def test_nothing_moves_under_the_pointer(visit: Visit, asker: Asker, arrived: list[str]) -> None:
    seat = visit("alice")
    expect(seat.listed.filter(has_text=arrived[0])).to_be_visible()
    seat.listed.first.hover()
    before = titles(seat.listed)
    asker.ask("Something more urgent?", seconds=60)
    pill = seat.page.get_by_role("button", name=re.compile(r"^\d+ new$"))
    expect(pill).to_be_visible()
    assert titles(seat.listed) == before
    pill.click()
    expect(seat.listed.filter(has_text="Something more urgent?")).to_be_visible()
    assert titles(seat.listed) != before


def test_another_card_is_not_taken_for_the_same_one_changed(visit: Visit, asker: Asker) -> None:
    (_, first), (_, second) = refund(asker, 7061), refund(asker, 7062)
    seat = visit("alice")
    seat.open(first)
    card = seat.open(second)
    expect(card.get_by_role("heading", level=2)).to_have_text(second)
    expect(card).not_to_contain_text("What is asked has changed")


def titles(listed: Locator) -> list[str]:
    return [text.splitlines()[0] for text in listed.all_inner_texts()]


def test_the_buttons_are_dead_for_a_moment_after_the_card_moved(visit: Visit, asker: Asker) -> None:
    _, title = refund(asker, 7020)
    seat = visit("alice")
    seat.page.clock.install()
    card = seat.open(title)
    approve = card.get_by_role("button", name="Approve", exact=True)
    expect(approve).to_have_attribute("aria-disabled", "true")
    approve.dispatch_event("click")
    seat.page.clock.run_for(1000)
    expect(approve).to_have_attribute("aria-disabled", "false")
    expect(card.get_by_role("alert").filter(has_text="Sending")).to_have_count(0)
