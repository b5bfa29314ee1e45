"""What strangers write stays text, shows what it hides, and breaks nothing."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser.conftest import Visit
from tests.support.asking import ASK
from tests.support.browsing import Asker

SCHEMAS = Path(__file__).parents[1] / "unit/data/schema_attacks.jsonl"
ATTACKS = [json.loads(line) for line in SCHEMAS.read_text().splitlines()]

MARKUP = (
    "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
    "<a href='javascript:alert(1)'>Approve</a>{@html 1}${1}{{1}}"
)
TEXTS = {
    "markup": (MARKUP, MARKUP),
    "bidi": ("Pay \u202e001\u202c euros", "Pay U+202E001U+202C euros"),
    "zero width": ("Pay 1\u200b0\u200d0\ufeff0", "Pay 1U+200B0U+200D0U+FEFF0"),
    "control": ("Pay 10\u0007\u001b[2K\u0085", "Pay 10U+0007U+001B[2KU+0085"),
    "tags": ("Pay \U000e0041\U000e0042 10", "Pay U+E0041U+E0042 10"),
}
LONG = "word " * 400 + "x" * 2000 + " the end"


def quiet(page: Page) -> None:
    """Nothing of it ran, and nothing is wider than the window."""
    assert "pwned" not in page.title()
    assert page.locator("main img, main script, main a[href^=javascript], main iframe").count() == 0
    wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window


def address(asker: Asker, task: str) -> str:
    prompt = asker.task(task)["status"]["message"]["metadata"]
    (envelope,) = (value for value in prompt.values() if "prompt_id" in value)
    return f"waiting/{task}/{envelope['prompt_id']}"


@pytest.mark.parametrize(("said", "shown"), TEXTS.values(), ids=TEXTS)
def test_a_hostile_prompt_is_text_that_hides_nothing(
    visit: Visit, asker: Asker, said: str, shown: str
) -> None:
    task = asker.ask(said)
    seat = visit("alice", address(asker, task))
    heading = seat.page.get_by_role("article").get_by_role("heading", level=2)
    expect(heading).to_have_text(shown)
    quiet(seat.page)
    asker.cancel(task)


def test_a_very_long_prompt_is_there_to_its_end(visit: Visit, asker: Asker) -> None:
    task = asker.ask(LONG)
    seat = visit("alice", address(asker, task))
    heading = seat.page.get_by_role("article").get_by_role("heading", level=2)
    expect(heading).to_have_text(LONG)
    quiet(seat.page)
    # The answer can still be reached, and the list is not pushed away by it.
    expect(seat.page.get_by_role("button", name="Send the answer")).to_be_visible()
    asker.cancel(task)


def test_a_hostile_schema_is_a_form_or_json_and_never_hangs_the_page(visit: Visit, asker: Asker) -> None:
    seat = visit("alice")
    admitted = 0
    for number, attack in enumerate(ATTACKS):
        # As it is written: some can not even be read.
        task = asker.send(f'{ASK}{{"prompt": "Attack {number}?", "schema": {attack["schema_json"]}}}')
        if asker.task(task)["status"]["state"] != "TASK_STATE_INPUT_REQUIRED":
            continue
        admitted += 1
        seat.go(address(asker, task))
        card = seat.card(f"Attack {number}?")
        expect(card.get_by_role("button", name="Send the answer")).to_be_visible()
        quiet(seat.page)
        asker.cancel(task)
    assert admitted > len(ATTACKS) / 3


def test_names_and_titles_of_a_schema_are_text(visit: Visit, asker: Asker) -> None:
    names = ["__proto__", "constructor", "toString", "<b>bold</b>", "a.b[0]", "", "\u202eevil"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "boolean", "title": MARKUP, "description": MARKUP} for name in names},
    }
    task = asker.ask("Whose names are these?", json.loads(json.dumps(schema)))
    seat = visit("alice", address(asker, task))
    expect(seat.page.get_by_role("button", name="Send the answer")).to_be_visible()
    quiet(seat.page)
    assert seat.page.evaluate("({}).polluted === undefined && typeof ({}).toString === 'function'")
    asker.cancel(task)
