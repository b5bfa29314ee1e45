"""The page is at its address in both places, with all that it names; below a stage as without one."""

import re

import httpx
from tests.support.story import PATIENCE_SECONDS, Place, trusted

TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def test_the_page_and_what_it_names_are_there(place: Place) -> None:
    with httpx.Client(timeout=PATIENCE_SECONDS, verify=trusted(), follow_redirects=True) as client:
        entry = client.get(f"{place.url}/inbox")
        assert str(entry.url) == f"{place.url}/inbox/"
        assert entry.headers["content-type"] == "text/html; charset=utf-8"
        assert entry.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        named = re.findall(r'(?:src|href)="(\./[^"]+)"', entry.text)
        assert {name.rpartition(".")[2] for name in named} == set(TYPES)
        for name in named:
            file = client.get(entry.url.join(name))
            assert file.status_code == 200
            assert file.headers["content-type"].startswith(TYPES[name.rpartition(".")[2]])
            assert "immutable" in file.headers["cache-control"]
        assert client.get(entry.url.join("config.json")).json() == {"signIn": "token"}
        unchanged = client.get(entry.url, headers={"If-None-Match": entry.headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        absent = client.get(entry.url.join("absent.js"))
        assert (absent.status_code, absent.text) == (404, "Not Found")
