"""The operator's switch at the page: halted, seen everywhere, and lifted by another act."""

from playwright.sync_api import expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker


def test_a_halt_is_typed_seen_by_all_and_lifted_apart(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7401 12.50")
    alice, oncall = visit("alice"), visit("oncall", "halts")
    expect(visit("alice", "halts").page.get_by_role("button", name="Halt…")).to_have_count(0)
    oncall.does("Halt…")
    dialog = oncall.page.get_by_role("dialog")
    dialog.get_by_label("What to halt").select_option("Everything")
    dialog.get_by_label("Reason").fill("<b>Something</b> is wrong")
    send = dialog.get_by_role("button", name="Halt now")
    expect(send).to_have_attribute("aria-disabled", "true")
    dialog.get_by_label("Type all to confirm").fill("all")
    send.click()
    expect(dialog).to_have_count(0)
    for seat in (alice, oncall):
        banner = seat.page.get_by_text("<b>Something</b> is wrong").first
        expect(banner).to_be_visible()
        expect(seat.page.locator(".banners")).to_contain_text("bearer:oncall")
    expect(oncall.page.get_by_text("All that was running has been told to stop")).to_be_visible()
    alice.expected |= {503}
    alice.open("Refund 12.50 to order 7401")
    alice.does("Approve")
    alice.told("Not recorded: work is halted.")
    alice.picture("halted")
    oncall.does("Resume…")
    resume = oncall.page.get_by_role("dialog", name="Resume all, halt")
    resume.get_by_role("button", name="Yes, lift halt").click()
    for seat in (alice, oncall):
        expect(seat.page.locator(".banners")).not_to_contain_text("bearer:oncall")
    alice.does("Approve")
    alice.told("Approved by you")
    asker.ended(task)


def test_the_trail_says_what_became_of_each_decision(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7402 12.50")
    alice = visit("alice")
    alice.open("Refund 12.50 to order 7402")
    alice.does("Approve")
    alice.told("Approved by you")
    oncall = visit("oncall", "audit")
    oncall.page.get_by_label("Task").fill(task)
    decided = oncall.page.get_by_role("listitem").filter(has_text="bearer:alice").filter(has_text=task)
    button = oncall.page.get_by_role("button", name="Search", exact=True)
    button.click()
    expect(decided.filter(has_text="people.decide").first).to_contain_text("ok")
    expect(decided.filter(has_text="approval").first).to_contain_text("approve bearer:alice")
