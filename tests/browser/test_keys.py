"""With a keyboard alone, on a phone, and read aloud."""

from playwright.sync_api import Locator, expect
from tests.browser.conftest import Visit
from tests.support.browsing import PHONE, Asker, Seat
from tests.support.story import eventually


def focused(seat: Seat) -> str:
    text: str = seat.page.evaluate(
        "document.activeElement.innerText || document.activeElement.ariaLabel || ''"
    )
    return text


def chosen(seat: Seat, title: str) -> Locator:
    """The card, reached by J and Enter."""
    expect(seat.listed.filter(has_text=title)).to_be_visible()
    for _ in range(seat.listed.count()):
        seat.page.keyboard.press("j")
        if title in focused(seat):
            break
    assert title in focused(seat)
    seat.page.keyboard.press("Enter")
    card = seat.card(title)
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_attribute("aria-disabled", "false")
    return card


def test_two_presses_approve_and_one_does_not(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7201 12.50")
    seat = visit("alice")
    card = chosen(seat, "Refund 12.50 to order 7201")
    armed = card.get_by_role("button", name="Press A again to approve")
    seat.page.keyboard.press("a")
    expect(armed).to_be_visible()
    seat.page.keyboard.press("Escape")
    expect(armed).to_have_count(0)
    assert asker.task(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    seat.page.keyboard.press("a")
    expect(armed).to_be_visible()
    approved = card.get_by_role("alert").filter(has_text="Approved by you")

    def pressed() -> bool:
        # One that comes too soon is the first one, bounced.
        seat.page.keyboard.press("a")
        return approved.is_visible()

    eventually(pressed)
    asker.ended(task)


def test_r_rejects_with_a_reason_in_which_keys_are_letters(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7202 12.50")
    seat = visit("alice")
    chosen(seat, "Refund 12.50 to order 7202")
    seat.page.keyboard.press("r")
    reason = seat.page.get_by_label("Reason", exact=True)
    expect(reason).to_be_focused()
    seat.page.keyboard.type("a jar, ? x")
    expect(reason).to_have_value("a jar, ? x")
    reject = seat.page.get_by_role("button", name="Reject", exact=True)
    expect(reject).to_have_attribute("aria-disabled", "false")
    seat.page.keyboard.press("Tab")
    expect(reject).to_be_focused()
    seat.page.keyboard.press("Enter")
    seat.told("Rejected by you")
    asker.ended(task, "REJECTED")


def test_the_keys_are_listed(visit: Visit) -> None:
    seat = visit("alice")
    seat.page.keyboard.press("?")
    dialog = seat.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    seat.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_phone_is_wide_enough(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7203 12.50")
    seat = visit("alice", viewport=PHONE, has_touch=True, is_mobile=True)
    views = seat.page.get_by_role("navigation", name="Inbox").get_by_role("link").all()
    for view in (*views, views[0]):
        view.tap()
        expect(view).to_have_attribute("aria-current", "page")
        assert seat.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    seat.listed.get_by_role("link", name="order 7203").tap()
    card = seat.card("Refund 12.50 to order 7203")
    assert seat.page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    seat.picture("phone")
    card.get_by_role("button", name="Approve", exact=True).tap()
    seat.told("Approved by you")
    asker.ended(task)


def test_another_language_is_a_choice_and_that_of_the_browser(visit: Visit) -> None:
    seat = visit(None, locale="de-DE")
    expect(seat.page.get_by_role("heading", name="Anmelden")).to_be_visible()
    expect(seat.page.locator("html")).to_have_attribute("lang", "de")
