"""Several at once: only what was shown, each by its own digest, and each with an outcome of its own."""

import json

from playwright.sync_api import Locator, expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker, Seat


def box(seat: Seat, title: str) -> Locator:
    return seat.page.get_by_role("checkbox", name=f"Select {title}")


def test_several_are_decided_that_were_each_shown(visit: Visit, asker: Asker) -> None:
    orders = (7501, 7502, 7503)
    tasks = [asker.send(f"refund {order} 12.50") for order in orders]
    titles = [f"Refund 12.50 to order {order}" for order in orders]
    alice, bob = visit("alice"), visit("bob")
    for title in titles:
        expect(box(alice, title)).to_be_disabled()
    for title in titles:
        alice.open(title)
        expect(box(alice, title)).to_be_enabled()
        box(alice, title).check()
    # Somebody else is quicker with one of them.
    held = alice.page.context
    held.route("**/people/changes*", lambda route: None)
    bob.open(titles[1])
    bob.does("Approve")
    bob.told("Approved by you")
    alice.does("Approve 3…")
    dialog = alice.page.get_by_role("dialog", name="Approve 3 requests?")
    expect(dialog).to_contain_text("each is decided by itself, by the digest that was shown")
    with alice.page.expect_request("**/people/decisions") as sent:
        dialog.get_by_role("button", name="Decide all").click()
    items = json.loads(sent.value.post_data or "")["items"]
    assert len({item["digest"] for item in items}) == 3
    expect(dialog.get_by_role("listitem").filter(has_text="recorded")).to_have_count(2)
    alice.picture("batch")
    held.unroute_all(behavior="ignoreErrors")
    for task in tasks:
        asker.ended(task)
