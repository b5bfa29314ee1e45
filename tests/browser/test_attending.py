"""What people do beside deciding: they say that they look, want more time, pass it on, are away."""

from playwright.sync_api import expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker


def test_a_claim_is_seen_by_others_and_let_go_of(visit: Visit, asker: Asker) -> None:
    asker.send("refund 7901 12.50")
    alice, bob = visit("alice"), visit("bob")
    card = alice.open("Refund 12.50 to order 7901")
    theirs = bob.open("Refund 12.50 to order 7901")
    alice.does("I\u2019m on it")
    expect(card).to_contain_text("You are looking at it until")
    expect(theirs).to_contain_text("bearer:alice is looking at it until")
    alice.does("Let go of it")
    expect(theirs).not_to_contain_text("bearer:alice is looking at it until")


def test_more_time_moves_the_deadline_for_everybody(visit: Visit, asker: Asker) -> None:
    asker.ask("Is there more time?", seconds=50)
    alice, bob = visit("alice"), visit("bob")
    card = alice.open("Is there more time?")
    theirs = bob.open("Is there more time?")
    expect(theirs.locator("time.countdown")).to_contain_text("sec")
    alice.does("More time…")
    dialog = alice.page.get_by_role("dialog", name="More time")
    chosen = dialog.get_by_label("Until").input_value()
    dialog.get_by_label("Until").fill("2026-01-01T00:00")
    dialog.get_by_role("button", name="Move the deadline").click()
    expect(dialog.get_by_role("alert")).to_contain_text("later than the deadline")
    dialog.get_by_label("Until").fill(chosen)
    dialog.get_by_role("button", name="Move the deadline").click()
    expect(dialog).to_have_count(0)
    for seen in (card, theirs):
        expect(seen).to_contain_text("The time was extended by bearer:alice.")
        expect(seen.locator("time.countdown")).to_contain_text("min")


def test_it_is_passed_on_to_somebody_and_taken_back(visit: Visit, asker: Asker) -> None:
    asker.send("refund 7902 12.50")
    alice, bob = visit("alice"), visit("bob")
    card = alice.open("Refund 12.50 to order 7902")
    theirs = bob.open("Refund 12.50 to order 7902")
    alice.does("Pass on…")
    dialog = alice.page.get_by_role("dialog", name="Pass it on")
    alice.expected |= {400}
    dialog.get_by_label("Who").fill("bob")
    dialog.get_by_role("button", name="Pass on").click()
    expect(dialog.get_by_role("alert")).to_contain_text("must be an identity")
    dialog.get_by_label("Who").fill("bearer:bob")
    dialog.get_by_label("Note").fill("You know <b>this</b> order")
    dialog.get_by_role("button", name="Pass on").click()
    expect(dialog).to_have_count(0)
    expect(card).to_contain_text("bearer:bob is looking at it until")
    expect(theirs).to_contain_text("You are looking at it until")
    expect(theirs).to_contain_text("You know <b>this</b> order")


def test_somebody_says_who_decides_while_they_are_away(visit: Visit) -> None:
    carol = visit("carol")
    carol.page.get_by_role("button", name="bearer:carol").click()
    carol.does("Out of office…")
    dialog = carol.page.get_by_role("dialog", name="Out of office")
    dialog.get_by_label("Who decides for you").fill("bearer:bob")
    dialog.get_by_role("button", name="Set").click()
    expect(dialog).to_contain_text("bearer:bob decides for you until")
    dialog.get_by_role("button", name="I am back").click()
    expect(dialog.get_by_role("button", name="Set")).to_be_visible()


def test_what_a_halt_found_running_is_counted_while_it_stops(visit: Visit, asker: Asker) -> None:
    running = asker.send("work 30", immediately=True)
    oncall = visit("oncall", "halts")
    oncall.does("Halt…")
    dialog = oncall.page.get_by_role("dialog")
    dialog.get_by_label("What to halt").select_option("An agent")
    dialog.get_by_label("Agent", exact=True).fill("worker")
    dialog.get_by_label("Reason").fill("a drill")
    dialog.get_by_label("to confirm").fill("agent:worker")
    dialog.get_by_role("button", name="Halt now").click()
    expect(dialog).to_have_count(0)
    counted = oncall.page.get_by_role("listitem").filter(has_text="stopped").first
    expect(counted).to_contain_text("1")
    asker.ended(running, "CANCELED")
    oncall.does("Resume…")
    oncall.page.get_by_role("dialog").get_by_role("button", name="Yes, lift halt").click()
    expect(oncall.page.locator(".banners")).not_to_contain_text("a drill")
