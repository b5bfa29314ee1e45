"""That the bed notices: what no test passes with is made to happen."""

from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Error
from tests.support.browsing import seated
from tests.support.story import Place, eventually

SCRIPTS = {
    "a script in the page": "add('script', {src: 'data:,0'})",
    "a style in the page": "add('style', {innerText: 'p {}'})",
    "a frame": "add('iframe', {src: '/inbox/'})",
    "a picture of somebody else": "add('img', {src: 'http://127.0.0.1:9/'})",
    "markup of a string": "document.body.innerHTML = '<p>'",
    "code of a string": "setTimeout('0')",
    "a call of somebody else": "void fetch('http://127.0.0.1:9/').catch(() => 0)",
    "an error": "console.error('said')",
    "an exception": "queueMicrotask(() => { throw new Error('thrown') })",
}
ADD = "const add = (name, has) => document.body.append(Object.assign(document.createElement(name), has));"


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_a_browser_complains_of_is_a_fault(browser: Browser, place: Place, script: str) -> None:
    seat = seated(browser, place)
    seat.go()
    assert seat.page.title().endswith("Interlock")
    assert not seat.faults
    with suppress(Error):
        seat.page.evaluate(f"() => {{ {ADD} {script} }}")
    # A look at the page takes in what it has said meanwhile.
    eventually(lambda: seat.page.title() and seat.faults)
    seat.page.context.close()
