"""What axe finds on each view, light and dark: nothing serious, and nothing critical."""

from typing import Any, Literal

import pytest
from playwright.sync_api import expect
from tests.browser.conftest import Visit
from tests.support.browsing import PHONE, Asker, Seat
from tests.support.story import ROOT

AXE = (ROOT / "page/node_modules/axe-core/axe.min.js").read_text()
GRAVE = {"serious", "critical"}
VIEWS = ("waiting", "history", "fleet", "halts", "insights", "audit")

Scheme = Literal["dark", "light"]


def grave(seat: Seat) -> list[Any]:
    """Run by the debugger, as no script of the page could be."""
    seat.page.evaluate(AXE)
    found = seat.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        (violation["id"], violation["help"], [node["html"] for node in violation["nodes"]])
        for violation in found["violations"]
        if violation["impact"] in GRAVE
    ]


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> Scheme:
    found: Scheme = request.param
    return found


def test_before_somebody_is_there(visit: Visit, scheme: Scheme) -> None:
    seat = visit(None, color_scheme=scheme)
    expect(seat.page.get_by_label("Token")).to_be_visible()
    assert grave(seat) == []


def test_every_view(visit: Visit, asker: Asker, scheme: Scheme) -> None:
    task = asker.send("refund 7601 12.50")
    seat = visit("oncall", color_scheme=scheme)
    found = {}
    for view in VIEWS:
        seat.go(view)
        expect(seat.page.get_by_role("navigation").locator("[aria-current]")).to_have_count(1)
        found[view] = grave(seat)
    assert found == {view: [] for view in VIEWS}
    asker.cancel(task)


def test_a_card_and_what_is_done_with_it(visit: Visit, asker: Asker, scheme: Scheme) -> None:
    task = asker.send("refund 7602 12.50")
    seat = visit("alice", color_scheme=scheme)
    card = seat.open("Refund 12.50 to order 7602")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_be_enabled()
    found = {"as it is": grave(seat)}
    seat.page.keyboard.press("?")
    expect(seat.page.get_by_role("dialog")).to_be_visible()
    found["keys"] = grave(seat)
    seat.page.keyboard.press("Escape")
    seat.does("Reject…")
    found["a reason"] = grave(seat)
    seat.does("Cancel")
    seat.does("Request changes…")
    seat.does("Edit the action")
    found["changes"] = grave(seat)
    seat.does("Cancel")
    seat.does("Approve")
    seat.told("Approved by you")
    found["decided"] = grave(seat)
    assert found == {step: [] for step in found}
    asker.ended(task)


def test_a_form_and_a_phone(visit: Visit, asker: Asker, scheme: Scheme) -> None:
    properties = {
        "flag": {"type": "boolean"},
        "few": {"enum": ["one", "two"]},
        "many": {"enum": [str(number) for number in range(20)]},
        "text": {"type": "string", "description": "In your own words"},
        "amount": {"type": "number"},
        "list": {"type": "array", "items": {"type": "string"}},
    }
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    task = asker.ask("What is it like?", schema, seconds=45)
    seat = visit("alice", color_scheme=scheme, viewport=PHONE)
    card = seat.open("What is it like?")
    seat.does("Send the answer")
    expect(card.get_by_role("alert").filter(has_text="not right yet")).to_be_visible()
    assert grave(seat) == []
    asker.cancel(task)
