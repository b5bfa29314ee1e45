"""The page's files: what is served, how it is kept, and what a browser is told that it may do."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx
import pytest
from tests.support.calls import call

from interlock.doors.inbox import SignIn, create_app
from interlock.doors.web_adapter import REQUEST_CONTEXT, behind_web_adapter

Get = Callable[..., httpx.Response]

ISSUER = SignIn("https://id.example/realm", "interlock-page", "openid", ("https://sign-in.example",))
SECURED = {
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "index.html": "<!doctype html><title>é</title>",
        "icon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "assets/index-1a2b.js": "export {}",
        "assets/index-1a2b.css": "p {}",
    }
    for name, text in files.items():
        path = tmp_path / "static" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "app.py").write_text("not a part of the page")
    return tmp_path / "static"


def getting(folder: Path, sign_in: SignIn | None = None) -> Get:
    app = create_app(folder, sign_in)

    def get(path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> httpx.Response:
        return call(app, method, path, headers=headers)

    return get


@pytest.fixture
def get(folder: Path) -> Get:
    return getting(folder)


def policy(get: Get) -> dict[str, str]:
    told = get("/inbox/").headers["content-security-policy"]
    return dict(directive.split(" ", 1) for directive in told.split("; "))


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/inbox/", "text/html; charset=utf-8"),
        ("/inbox/index.html", "text/html; charset=utf-8"),
        ("/inbox/icon.svg", "image/svg+xml"),
        ("/inbox/assets/index-1a2b.js", "text/javascript; charset=utf-8"),
        ("/inbox/assets/index-1a2b.css", "text/css; charset=utf-8"),
        ("/inbox/config.json", "application/json"),
    ],
)
def test_a_file_has_the_type_that_its_name_says(get: Get, path: str, media_type: str) -> None:
    answer = get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)


def test_the_address_without_a_slash_leads_to_the_one_with_it_whatever_the_stage(folder: Path) -> None:
    app = behind_web_adapter(create_app(folder))
    for before in ("", "/prod"):
        for path, status in (("/inbox", 307), ("/inbox/", 200)):
            context = json.dumps({"stage": "prod", "path": f"{before}{path}"})
            answer = call(app, "GET", path, headers={REQUEST_CONTEXT: context})
            assert (answer.status_code, answer.headers.get("location")) == (
                status,
                "inbox/" if status == 307 else None,
            )


def test_what_has_its_hash_in_its_name_is_kept_for_ever_and_nothing_else_is(get: Get) -> None:
    kept = {
        path: get(f"/inbox/{path}").headers["cache-control"]
        for path in ("", "config.json", "icon.svg", "assets/index-1a2b.js")
    }
    assert kept.pop("assets/index-1a2b.js") == "public, max-age=31536000, immutable"
    assert set(kept.values()) == {"no-cache"}


def test_what_did_not_change_is_not_sent_again(get: Get, folder: Path) -> None:
    first = get("/inbox/")
    known = {"If-None-Match": f'"other", W/{first.headers["etag"]}'}
    again = get("/inbox/", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    (folder / "index.html").write_text("<!doctype html><title>another</title>")
    changed = getting(folder)("/inbox/", headers=known)
    assert (changed.status_code, "another" in changed.text) == (200, True)


@pytest.mark.parametrize(
    "path",
    [
        "/inbox/absent.js",
        "/inbox/assets",
        "/inbox/assets/",
        "/inbox//index.html",
        "/inbox/../app.py",
        "/inbox/%2e%2e/app.py",
        "/inbox/..%2fapp.py",
        "/inbox/%00",
        "/inbox/" + "a" * 5000,
        "/inboxes",
    ],
)
def test_there_is_nothing_but_the_files(get: Get, path: str) -> None:
    answer = get(path)
    assert (answer.status_code, answer.text) == (404, "Not Found")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_file_can_only_be_read(get: Get, method: str) -> None:
    assert get("/inbox/", method).status_code == 405


def test_the_head_of_a_file_is_that_of_the_file(get: Get) -> None:
    assert get("/inbox/", "HEAD").headers == get("/inbox/").headers


@pytest.mark.parametrize("path", ["/inbox", "/inbox/", "/inbox/config.json", "/inbox/absent"])
def test_every_answer_says_what_a_browser_may_not_do(get: Get, path: str) -> None:
    headers = get(path).headers
    assert {name: headers[name] for name in SECURED} == SECURED
    assert "default-src 'none'" in headers["content-security-policy"]


def test_the_page_runs_its_own_files_alone(get: Get) -> None:
    told = policy(get)
    assert "unsafe" not in str(told)
    assert (
        told["default-src"] == told["frame-ancestors"] == told["base-uri"] == told["form-action"] == "'none'"
    )
    assert told["script-src"] == told["style-src"] == told["connect-src"] == "'self'"
    assert told["require-trusted-types-for"] == "'script'"


def test_people_sign_in_with_a_token_where_no_issuer_is_set(get: Get) -> None:
    assert get("/inbox/config.json").json() == {"signIn": "token"}


def test_the_issuer_is_told_to_the_page_and_may_be_called_by_it(folder: Path) -> None:
    get = getting(folder, ISSUER)
    assert get("/inbox/config.json").json() == {
        "signIn": "oidc",
        "issuer": "https://id.example/realm",
        "clientId": "interlock-page",
        "scope": "openid",
    }
    assert policy(get)["connect-src"] == "'self' https://id.example https://sign-in.example"


def test_a_page_that_is_not_built_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_app(tmp_path)


def test_a_file_of_a_type_that_the_gateway_would_break_is_not_built_in(folder: Path) -> None:
    (folder / "logo.png").write_bytes(b"\x89PNG")
    with pytest.raises(KeyError, match="png"):
        create_app(folder)
