"""`make screenshots`: the pictures of the page in docs/images, taken anew of a laptop deployment."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Browser, ViewportSize, expect, sync_playwright
from tests.support.browsing import PHONE, Asker, Seat, chromium, seated
from tests.support.story import ROOT, Place, running_laptop

IMAGES = ROOT / "docs/images"
DESK: ViewportSize = {"width": 1200, "height": 860}
SENT = ("release 1.2.0", "deploy 2.4.0", "publish why we halt", "refund 1183 18.00", "refund 1182 250.00")
OPENED = "Refund 250.00 to order 1182"


@contextmanager
def looking(browser: Browser, place: Place, label: str, route: str = "", **options: Any) -> Iterator[Seat]:
    seat = seated(browser, place, **{"viewport": DESK, **options})
    seat.go(route)
    seat.sign_in(place.tokens[label])
    yield seat
    seat.page.context.close()


def take(seat: Seat, name: str) -> None:
    seat.page.mouse.move(0, 0)
    seat.page.screenshot(path=IMAGES / f"{name}.png")


def rested(seat: Seat) -> None:
    """Opens it, and waits until its buttons can be pressed."""
    card = seat.open(OPENED)
    expect(card.get_by_role("button", name="Approve", exact=True)).to_be_enabled()


def take_all(browser: Browser, place: Place) -> None:
    asker = Asker.at(place)
    with asker.http:
        for text in SENT:
            asker.send(text)
    with looking(browser, place, "bob") as seat:
        rested(seat)
        seat.does("Approve")
        seat.told("Counted: 1 of 2.")
    with looking(browser, place, "alice") as seat:
        rested(seat)
        take(seat, "inbox")
    with looking(browser, place, "alice", color_scheme="dark") as seat:
        rested(seat)
        seat.does("Request changes…")
        seat.does("Edit the action")
        edited = seat.page.get_by_label("The action as it should be, as JSON")
        edited.fill(edited.input_value().replace("250.00", "25.00"))
        send = seat.page.get_by_role("button", name="Send back")
        expect(send).to_be_enabled()
        send.scroll_into_view_if_needed()
        take(seat, "inbox-dark")
    with looking(browser, place, "alice", viewport=PHONE, device_scale_factor=2) as seat:
        rested(seat)
        take(seat, "inbox-phone")
    with looking(browser, place, "oncall", "halts") as seat:
        seat.does("Halt…")
        dialog = seat.page.get_by_role("dialog")
        dialog.get_by_label("What to halt").select_option("An agent")
        dialog.get_by_label("Agent", exact=True).fill("billing")
        dialog.get_by_label("Reason").fill("Refunds go to the wrong orders")
        dialog.get_by_label("to confirm").fill("agent:billing")
        dialog.get_by_role("button", name="Halt now").click()
        expect(seat.page.get_by_text("All that was running has been told to stop")).to_be_visible()
        seat.go("fleet")
        expect(seat.page.get_by_role("heading", name="billing")).to_be_visible()
        take(seat, "inbox-halted")


def main() -> None:
    with (
        TemporaryDirectory() as folder,
        running_laptop(Path(folder)) as place,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium())
        take_all(browser, place)
        browser.close()


if __name__ == "__main__":
    main()
