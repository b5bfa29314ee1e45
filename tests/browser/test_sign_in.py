"""Who is at the page: by a token, or by an issuer; and what happens when neither is taken any more."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Route, expect
from tests.browser.conftest import Visit
from tests.support.browsing import Asker, deployer, seated
from tests.support.issuer import AUDIENCE, CLIENT_ID, SCOPE, SUBJECT, Issuer
from tests.support.loopback import served
from tests.support.story import Place, run_cli, running_laptop

REFUSED = {"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "Authentication required"}}


def refused_once(route: Route) -> None:
    route.fulfill(status=401, json=REFUSED)


def test_a_token_that_is_not_known_lets_nobody_in(visit: Visit) -> None:
    seat = visit()
    seat.expected |= {401}
    seat.page.get_by_label("Token").fill("il_" + "A" * 43)
    seat.does("Sign in")
    seat.told("This token was not accepted.")
    expect(seat.page.get_by_role("navigation")).to_have_count(0)


def test_a_token_stays_in_its_tab_and_is_gone_with_signing_out(visit: Visit, place: Place) -> None:
    seat = visit("alice")
    seat.page.reload()
    expect(seat.page.get_by_role("navigation", name="Inbox")).to_be_visible()
    other = seat.page.context.new_page()
    other.goto(seat.home)
    expect(other.get_by_label("Token")).to_be_visible()
    seat.page.get_by_role("button", name="Menu").click()
    seat.page.get_by_role("button", name="Sign out").click()
    expect(seat.page.get_by_label("Token")).to_be_visible()
    kept = seat.page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
    assert place.tokens["alice"] not in kept


def test_what_is_typed_stays_while_somebody_signs_in_again(visit: Visit, asker: Asker, place: Place) -> None:
    task = asker.send("refund 7100 12.50")
    seat = visit("alice")
    seat.expected |= {401}
    seat.open("Refund 12.50 to order 7100")
    seat.does("Reject…")
    seat.page.get_by_label("Reason", exact=True).fill("Not this one")
    seat.page.route("**/decide", refused_once, times=1)
    seat.does("Reject")
    again = seat.page.get_by_role("dialog", name="Sign in")
    expect(again).to_contain_text("What you have typed stays.")
    again.get_by_label("Token").fill(place.tokens["alice"])
    again.get_by_role("button", name="Sign in").click()
    seat.told("Rejected by you")
    said = asker.ended(task, "REJECTED")["status"]["message"]["parts"][0]["text"]
    assert said == "Not refunded: Not this one."


def test_what_was_pressed_is_nobody_elses_who_signs_in_instead(
    visit: Visit, asker: Asker, place: Place
) -> None:
    task = asker.send("refund 7101 12.75")
    seat = visit("alice")
    seat.expected |= {401}
    seat.open("Refund 12.75 to order 7101")
    seat.does("Reject…")
    seat.page.get_by_label("Reason", exact=True).fill("As alice says")
    seat.page.route("**/decide", refused_once, times=1)
    seat.does("Reject")
    again = seat.page.get_by_role("dialog", name="Sign in")
    sent: list[str] = []
    seat.page.on("request", lambda request: sent.append(request.url) if "/decide" in request.url else None)
    again.get_by_label("Token").fill(place.tokens["bob"])
    again.get_by_role("button", name="Sign in").click()
    # The page begins anew, as theirs.
    expect(again).to_have_count(0)
    expect(seat.page.get_by_role("navigation", name="Inbox")).to_be_visible()
    expect(seat.page.get_by_label("Reason", exact=True)).to_have_count(0)
    assert sent == []
    assert asker.task(task)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@pytest.fixture(scope="module")
def issuer(no_aws: None) -> Iterator[Issuer]:
    made: list[Issuer] = []

    def make(url: str) -> object:
        made.append(Issuer(url))
        return made[0].app()

    with served(make):  # type: ignore[arg-type]
        yield made[0]


@pytest.fixture(scope="module")
def federated(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A deployment whose people sign in at the issuer; one of them is let in."""
    settings = {
        "INTERLOCK_OIDC_ISSUER": issuer.url,
        "INTERLOCK_OIDC_AUDIENCE": AUDIENCE,
        "INTERLOCK_OIDC_JWKS_URL": f"{issuer.url}/jwks",
        "INTERLOCK_OIDC_CLIENT_ID": CLIENT_ID,
        "INTERLOCK_OIDC_SCOPE": SCOPE,
    }
    with running_laptop(tmp_path_factory.mktemp("federated"), **settings) as place:
        let_in = ("tokens", "allow", SUBJECT, "--tenant", "demo", "--kind", "person", "--role", "approver")
        run_cli(*let_in, environment=deployer(place), folder=place.folder)
        issuer.returns_to = f"{place.url}/inbox/"
        yield place


def test_people_sign_in_at_the_issuer_and_stay_signed_in(
    browser: Browser, federated: Place, issuer: Issuer
) -> None:
    seat = seated(browser, federated, allowed=(issuer.url,))
    seat.expected |= {401}
    seat.go("waiting")
    seat.does("Sign in with your organisation")
    expect(seat.page.get_by_role("navigation", name="Inbox")).to_be_visible()
    assert "code=" not in seat.page.url
    assert "state=" not in seat.page.url
    asker = Asker.at(federated)
    with asker.http:
        task = asker.send("release 2.0.0")
        card = seat.open("Release 2.0.0?")
        # The token that is refused is renewed, and nobody notices.
        seat.page.route("**/answer", refused_once, times=1)
        card.get_by_text("Yes", exact=True).click()
        seat.does("Send the answer")
        seat.told("Answered by you")
        released = asker.ended(task)["artifacts"][0]["parts"][0]["text"]
    assert released == f"2.0.0 released, approved by jwt:{SUBJECT}"
    assert issuer.granted == ["authorization_code", "refresh_token"]
    assert seat.faults == []
    seat.page.context.close()
