"""Out of reach, and back: nothing is decided twice, and nothing is forgotten."""

from playwright.sync_api import Route, expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker


def test_what_was_missed_is_there_once_it_is_back(visit: Visit, asker: Asker) -> None:
    seat = visit("alice")
    lost = seat.page.get_by_text("Out of reach since")
    seat.set_offline(True)
    expect(lost).to_be_visible()
    task = asker.send("refund 7301 12.50")
    seat.set_offline(False)
    expect(lost).to_have_count(0)
    expect(seat.listed.filter(has_text="Refund 12.50 to order 7301")).to_be_visible()
    asker.cancel(task)


def test_a_decision_whose_reply_was_lost_is_looked_for_and_made_once(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7302 12.50")
    seat = visit("alice")
    seat.open("Refund 12.50 to order 7302")
    sent: list[int] = []

    def lose(route: Route) -> None:
        sent.append(route.fetch().status)
        route.abort("internetdisconnected")

    seat.offline = True
    seat.page.route("**/decide", lose)
    seat.does("Approve")
    seat.told("Approved by you")
    assert sent == [200]
    asker.ended(task)


def test_a_decision_that_never_left_is_sent_once_there_is_a_way(visit: Visit, asker: Asker) -> None:
    task = asker.send("refund 7303 12.50")
    seat = visit("alice")
    seat.open("Refund 12.50 to order 7303")
    expect(seat.page.get_by_role("button", name="Approve", exact=True)).to_have_attribute(
        "aria-disabled", "false"
    )
    seat.set_offline(True)
    seat.does("Approve")
    seat.told("It may or may not be recorded; checking…")
    assert asker.task(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    seat.set_offline(False)
    seat.told("Approved by you")
    asker.ended(task)
