"""What the page for people weighs as a server sends it, and how soon something of it is seen on a laptop."""

import gzip
import statistics
from dataclasses import dataclass
from functools import partial

from playwright.sync_api import Browser, sync_playwright
from tests.performance.latency import laptop
from tests.support.browsing import DESK, chromium
from tests.support.story import ROOT

PAGE = ROOT / "functions/inbox/static"
ROUNDS = 7
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


@dataclass(frozen=True, slots=True)
class PageCost:
    what: str
    value: float
    unit: str


def sizes() -> dict[str, int]:
    """Bytes of each file, gzipped."""
    files = filter(lambda path: path.is_file(), PAGE.rglob("*"))
    return {
        path.relative_to(PAGE).as_posix(): len(gzip.compress(path.read_bytes(), mtime=0)) for path in files
    }


def first(weights: dict[str, int]) -> int:
    """What is there before the first paint: the entry, and what it names."""
    entry = (PAGE / "index.html").read_text()
    return sum(size for name, size in weights.items() if name == "index.html" or name in entry)


def scripts(weights: dict[str, int]) -> int:
    return sum(size for name, size in weights.items() if name.endswith(".js"))


def measure() -> list[PageCost]:
    """Times are medians."""
    weights = sizes()
    with laptop() as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium())
        painted = [paints(browser, f"{url}/inbox/") for _ in range(ROUNDS)]
        browser.close()
    weighs, takes = partial(PageCost, unit="bytes gzipped"), partial(PageCost, unit="ms")
    return [
        weighs("before the first paint", first(weights)),
        weighs("all JavaScript", scripts(weights)),
        weighs("all files", sum(weights.values())),
        takes("first contentful paint, empty cache", statistics.median(cold for cold, _ in painted)),
        takes("first contentful paint, again", statistics.median(warm for _, warm in painted)),
    ]


def paints(browser: Browser, address: str) -> tuple[float, float]:
    """Milliseconds, with an empty cache and with what that left there."""
    context = browser.new_context(viewport=DESK)
    page = context.new_page()
    found = []
    for _ in range(2):
        page.goto(address)
        found.append(page.wait_for_function(PAINTED).json_value())
    context.close()
    cold, warm = found
    return cold, warm
