"""One deployment for all, a browser for each module, and a context for whoever looks."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from tests.support.browsing import PICTURES, Asker, Seat, chromium, seated
from tests.support.story import Place, running_laptop

Visit = Callable[..., Seat]
FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def place(no_aws: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("laptop")
    with running_laptop(folder, INTERLOCK_AGENT="tests.support.asking:agent") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ended with the module: other tests run loops of their own in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        yield browser
        browser.close()


@pytest.fixture
def asker(place: Place) -> Iterator[Asker]:
    asker = Asker.at(place)
    with asker.http:
        yield asker


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser, place: Place) -> Iterator[Visit]:
    """Who looks at the page: `visit("alice")`. Nothing that a browser complains of is let pass."""
    seats: list[Seat] = []

    def visit(label: str | None = None, route: str = "", **options: Any) -> Seat:
        seat = seated(browser, place, **options)
        seats.append(seat)
        seat.go(route)
        if label is not None:
            seat.sign_in(place.tokens[label])
        return seat

    yield visit
    for number, seat in enumerate(seats):
        if request.node.stash.get(FAILED, False):
            seat.page.screenshot(path=PICTURES / f"failed-{request.node.name}-{number}.png")
        seat.page.unroute_all(behavior="ignoreErrors")
        seat.page.context.close()
    assert [seat.faults for seat in seats if seat.faults] == []
