"""Answers by forms of response schemas: nothing is chosen beforehand, and the server has the last word."""

from typing import Any

from playwright.sync_api import Locator, expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker

QUESTION = {
    "type": "object",
    "properties": {
        "release": {"type": "boolean", "title": "Release it?"},
        "where": {"enum": ["staging", "production"], "title": "Where to?", "default": "production"},
        "ticket": {"type": "string", "title": "Ticket", "pattern": "^[A-Z]{2,5}-[0-9]+$"},
    },
    "required": ["release", "where", "ticket"],
    "additionalProperties": False,
}


def answered(asker: Asker, task: str) -> Any:
    return asker.ended(task)["artifacts"][0]["parts"][0]["data"]


def choices(card: Locator, name: str) -> Locator:
    return card.get_by_role("radiogroup", name=name)


def test_nothing_is_chosen_before_somebody_chooses(visit: Visit, asker: Asker) -> None:
    task = asker.ask("Shall it go out?", QUESTION)
    seat = visit("alice")
    card = seat.open("Shall it go out?")
    expect(choices(card, "Release it?").get_by_role("radio")).to_have_count(2)
    expect(choices(card, "Where to?").get_by_role("radio")).to_have_count(2)
    expect(card.get_by_role("radio", checked=True)).to_have_count(0)
    seat.does("Send the answer")
    expect(card.get_by_role("alert").filter(has_text="3 things are not right yet.")).to_be_visible()
    for group in ("Release it?", "Where to?"):
        expect(choices(card, group)).to_have_attribute("aria-invalid", "true")
    asker.cancel(task)


def test_what_the_server_refuses_is_said_beside_the_field(visit: Visit, asker: Asker) -> None:
    task = asker.ask("Which ticket is it?", QUESTION)
    seat = visit("alice")
    seat.expected |= {422}
    card = seat.open("Which ticket is it?")
    choices(card, "Release it?").get_by_text("No", exact=True).click()
    choices(card, "Where to?").get_by_text("staging").click()
    ticket = card.get_by_label("Ticket")
    ticket.fill("seven")
    seat.does("Send the answer")
    expect(ticket).to_have_attribute("aria-invalid", "true")
    expect(ticket).to_be_focused()
    ticket.fill("OPS-7")
    seat.does("Send the answer")
    seat.told("Answered by you")
    assert answered(asker, task) == {"release": False, "where": "staging", "ticket": "OPS-7"}


def test_what_no_form_fits_is_answered_as_json(visit: Visit, asker: Asker) -> None:
    schema = {"type": "object", "properties": {"n": {"not": {"type": "string"}}}, "required": ["n"]}
    task = asker.ask("Anything but words?", schema)
    seat = visit("alice")
    card = seat.open("Anything but words?")
    written = card.get_by_label("The answer as JSON")
    written.fill('{"n": ')
    seat.does("Send the answer")
    expect(written).to_have_attribute("aria-invalid", "true")
    written.fill('{"n": [1, 2]}')
    seat.does("Send the answer")
    seat.told("Answered by you")
    assert answered(asker, task) == {"n": [1, 2]}
