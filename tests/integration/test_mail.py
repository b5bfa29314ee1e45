"""Mail: to look at a link decides nothing, to send its page's form decides once."""

import re
from datetime import timedelta
from typing import Any

import pytest
from moto import mock_aws
from tests.support.approvals import asking_leave
from tests.support.approvals import decide as decide_elsewhere
from tests.support.calls import call
from tests.support.channels import ChannelsPlace, question, yes_or_no
from tests.support.mail import ADDRESSES, ENTRY, Outbox, get, send
from tests.support.twin import BOB, CAROL, no_answer

from interlock.a2a.models import TaskState
from interlock.adapters.channels.mail import ses_client
from interlock.agents import Turn
from interlock.doors.channels.mail import NO_LINK, USED
from interlock.engine.links import LONGEST
from interlock.oversight.approvals import Gate


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def place(outbox: Outbox) -> ChannelsPlace:
    return ChannelsPlace({"mail": ENTRY}, ses=outbox)


class TestSending:
    def test_each_person_gets_a_mail_with_a_link_of_their_own(
        self, place: ChannelsPlace, outbox: Outbox
    ) -> None:
        place.ask()
        assert sorted(address for address, _, _ in outbox.sent) == sorted(ADDRESSES)
        assert len({outbox.link(label) for label in ("alice", "bob", "carol")}) == 3
        (text,) = outbox.to("alice")
        for shown in ("Agent: desk", "Skill: work", "For:   bearer:agent", "| Refund 40.00 to order 1182"):
            assert shown in text
        assert {subject for _, subject, _ in outbox.sent} == {"Interlock: Leave is asked for (desk, work)"}

    def test_a_token_is_long_and_not_kept(self, place: ChannelsPlace, outbox: Outbox) -> None:
        place.ask()
        token = outbox.link("alice").partition("?t=")[2]
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", token)
        assert token not in str(place.deployment.rows())

    def test_who_could_not_be_reached_is_told_later_and_nobody_twice(
        self, place: ChannelsPlace, outbox: Outbox
    ) -> None:
        outbox.down_for = {"bob@example.org"}
        task_id = place.ask()
        assert outbox.to("bob") == []
        outbox.down_for = set()
        place.deliver(task_id)
        assert [len(outbox.to(label)) for label in ("alice", "bob", "carol")] == [1, 1, 1]

    def test_what_others_say_is_no_header_and_no_link(self, outbox: Outbox) -> None:
        hostile = "Go to https://evil.example or www.evil.example\nBcc: all@example.org\n\u202egnp"
        place = ChannelsPlace({"mail": ENTRY}, question(hostile), ses=outbox)
        place.ask(who=CAROL)
        (text,) = outbox.to("alice")
        assert "https\\u003a//evil.example or www\\u002eevil.example" in text
        assert "\n| Bcc: all@example.org" in text
        assert "\\u202e" in text

    def test_a_question_that_takes_a_form_has_the_inbox_alone(self, outbox: Outbox) -> None:
        place = ChannelsPlace({"mail": ENTRY}, question("Which version?"), ses=outbox)
        place.ask(who=CAROL)
        (text,) = outbox.to("alice")
        assert "/channels/mail/" not in text
        assert "/inbox/#/waiting/" in text

    @mock_aws
    def test_the_client_takes_what_it_is_given(self, no_aws: None) -> None:
        ses = ses_client()
        ses.create_email_identity(EmailIdentity="interlock@example.org")
        place = ChannelsPlace({"mail": ENTRY}, ses=ses)
        task_id = place.ask()
        sent = [row for key, row in place.deployment.rows().items() if key.sk.startswith("SAID#")]
        assert len(sent) == 3
        assert all(row["message"] for row in sent)
        assert place.status(task_id) == "open"


class TestLooking:
    """As a scanner of links does, before any person."""

    @pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
    def test_it_decides_nothing(self, place: ChannelsPlace, outbox: Outbox, method: str) -> None:
        task_id = place.ask()
        before = place.deployment.rows()
        for _ in range(3):
            get(place, outbox.link("alice"), method)
            get(place, outbox.link("alice") + "&choice=a", method)
        assert place.deployment.rows() == before
        assert place.status(task_id) == "open"
        assert send(place, outbox.link("alice"), "a").status_code == 200
        assert place.status(task_id) == "approved"

    def test_the_page_shows_what_is_asked_and_nothing_of_it_runs(self, outbox: Outbox) -> None:
        hostile = '<script>alert(1)</script>"><img src=x onerror=alert(1)> \u202egnp'
        place = ChannelsPlace({"mail": ENTRY}, question(hostile, YES_OR_NO), ses=outbox)
        place.ask(who=CAROL)
        answer = get(place, outbox.link("alice"))
        assert "<script" not in answer.text
        assert "<img" not in answer.text
        assert "&lt;script&gt;" in answer.text
        assert "\\u202e" in answer.text
        policy = answer.headers["content-security-policy"]
        for rule in ("default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
            assert rule in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"

    def test_the_style_is_the_one_that_is_allowed(self, place: ChannelsPlace, outbox: Outbox) -> None:
        import base64
        from hashlib import sha256

        place.ask()
        answer = get(place, outbox.link("alice"))
        (style,) = re.findall("<style>(.*?)</style>", answer.text)
        hashed = base64.b64encode(sha256(style.encode()).digest()).decode()
        assert f"'sha256-{hashed}'" in answer.headers["content-security-policy"]

    def test_the_action_is_shown_only_where_the_entry_says_so(self, outbox: Outbox) -> None:
        for entry, shown in ((ENTRY, False), ({**ENTRY, "show": "action"}, True)):
            place = ChannelsPlace({"mail": entry}, ses=outbox)
            place.ask()
            assert ("&quot;tool&quot;" in get(place, outbox.link("alice")).text) is shown
            assert ('"tool"' in outbox.to("alice")[-1]) is shown

    def test_once_it_has_ended_the_page_says_how(self, place: ChannelsPlace, outbox: Outbox) -> None:
        task_id = place.ask()
        decide_elsewhere(place.deployment, BOB, task_id, "deny")
        page = get(place, outbox.link("alice")).text
        assert "Denied by bearer:bob" in page
        assert "<form" not in page

    def test_no_choice_is_made_for_the_reader(self, place: ChannelsPlace, outbox: Outbox) -> None:
        place.ask()
        page = get(place, outbox.link("alice")).text
        assert "checked" not in page
        assert "autofocus" not in page


class TestDeciding:
    def test_the_form_decides_and_the_task_goes_on(self, outbox: Outbox) -> None:
        heard: list[str | None] = []

        async def listen(turn: Turn) -> None:
            assert turn.approval is not None
            heard.append(turn.approval.comment)
            await turn.complete("done")

        place = ChannelsPlace({"mail": ENTRY}, asking_leave(then=listen), ses=outbox)
        task_id = place.ask()
        assert "Denied." in send(place, outbox.link("alice"), "d", "Too much: \u20ac40").text
        assert place.status(task_id) == "denied"
        assert place.deployment.get(task_id).status.state is TaskState.COMPLETED
        assert heard == ["Too much: \u20ac40"]

    def test_a_yes_or_no_is_answered(self, outbox: Outbox) -> None:
        place = ChannelsPlace({"mail": ENTRY}, yes_or_no(), ses=outbox)
        task_id = place.ask(who=CAROL)
        page = get(place, outbox.link("bob")).text
        assert "<textarea" not in page
        assert re.findall(r'value="(\d)">([^<]*)<', page) == [("0", "publish: yes"), ("1", "publish: no")]
        assert send(place, outbox.link("bob"), "1").status_code == 200
        assert place.status(task_id) == "answered"

    def test_sent_again_it_is_told_the_same_and_counts_once(self, outbox: Outbox) -> None:
        place = ChannelsPlace({"mail": ENTRY}, asking_leave(gate=Gate(quorum=2)), ses=outbox)
        task_id = place.ask()
        for _ in range(3):
            assert "Counted" in send(place, outbox.link("alice"), "a").text
        answer = send(place, outbox.link("alice"), "d")
        assert (answer.status_code, USED in answer.text) == (410, True)
        assert place.status(task_id) == "open"
        send(place, outbox.link("bob"), "a")
        assert place.status(task_id) == "approved"

    def test_a_lost_reply_is_found_again(self, place: ChannelsPlace, outbox: Outbox) -> None:
        task_id = place.ask()

        def lost(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write":
                place.deployment.clock.advance(2)
                no_answer()

        place.deployment.hook(after=lost)
        assert send(place, outbox.link("alice"), "a").status_code == 503
        place.deployment.hook()
        assert "Approved." in send(place, outbox.link("alice"), "a").text
        assert place.status(task_id) == "approved"

    def test_of_two_choices_at_once_one_counts(self, outbox: Outbox) -> None:
        place = ChannelsPlace({"mail": ENTRY}, asking_leave(gate=Gate(quorum=2)), ses=outbox)
        task_id = place.ask()
        link, first = outbox.link("alice"), [True]

        def meanwhile(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write" and first and any("LINK#" in str(write) for write in arguments):
                first.clear()
                assert "Counted" in send(place, link, "a").text

        place.deployment.hook(before=meanwhile)
        answer = send(place, link, "d")
        assert (answer.status_code, "used already" in answer.text) == (409, True)
        (ask,) = place.deployment.prompts(task_id)
        assert (ask.status, ask.rev) == ("open", 2)


class TestRefusing:
    """Nothing changes."""

    def refused(self, place: ChannelsPlace, link: str) -> None:
        before = place.deployment.prompts(next(iter(place.deployment.listed().tasks)).id)
        for answer in (get(place, link), send(place, link, "a")):
            assert answer.status_code == 404
            assert NO_LINK in answer.text
        assert place.deployment.prompts(next(iter(place.deployment.listed().tasks)).id) == before

    @pytest.mark.parametrize("token", ["", "x", "A" * 43, "A" * 5000, "%00", "\u00e9"])
    def test_a_token_that_was_never_sent(self, place: ChannelsPlace, token: str) -> None:
        place.ask()
        self.refused(place, f"/channels/mail/mail?t={token}")

    def test_a_link_of_another_entry(self, outbox: Outbox) -> None:
        place = ChannelsPlace({"mail": ENTRY, "other": ENTRY}, more={"default": ["mail"]}, ses=outbox)
        place.ask()
        self.refused(place, outbox.link("alice").replace("/mail/mail", "/mail/other"))
        self.refused(place, outbox.link("alice").replace("/mail/mail", "/mail/none"))

    def test_a_person_who_was_revoked(self, place: ChannelsPlace, outbox: Outbox) -> None:
        place.ask()
        place.store.revoke("bearer:alice")
        self.refused(place, outbox.link("alice"))

    def test_a_person_who_was_taken_out_of_the_document(self, place: ChannelsPlace, outbox: Outbox) -> None:
        place.ask()
        place.entries = {"mail": {**ENTRY, "people": {"bob@example.org": "bearer:bob"}}}
        self.refused(place, outbox.link("alice"))

    def test_a_person_of_another_tenant(self, outbox: Outbox) -> None:
        entry = {**ENTRY, "people": {"m@example.org": "bearer:mallory", **ADDRESSES}}
        place = ChannelsPlace({"mail": entry}, ses=outbox)
        place.ask()
        (text,) = [text for address, _, text in outbox.sent if address == "m@example.org"]
        self.refused(place, "/channels/mail/" + text.partition("/channels/mail/")[2].split()[0])

    @pytest.mark.parametrize("deadline", [timedelta(minutes=10), None])
    def test_a_link_whose_time_is_over(self, outbox: Outbox, deadline: timedelta | None) -> None:
        place = ChannelsPlace({"mail": ENTRY}, asking_leave(deadline=deadline), ses=outbox)
        place.ask()
        place.deployment.clock.advance((deadline or LONGEST).total_seconds())
        self.refused(place, outbox.link("alice"))

    def test_who_asked_for_it(self, place: ChannelsPlace, outbox: Outbox) -> None:
        task_id = place.ask(who=CAROL)
        answer = send(place, outbox.link("carol"), "a")
        assert (answer.status_code, "You may not decide this" in answer.text) == (409, True)
        assert place.status(task_id) == "open"

    @pytest.mark.parametrize("choice", ["", "x", "7", "aa", "a.", "<b>"])
    def test_a_choice_that_was_not_there(self, place: ChannelsPlace, outbox: Outbox, choice: str) -> None:
        task_id = place.ask()
        answer = send(place, outbox.link("alice"), choice)
        assert answer.status_code == 409
        assert "<b>" not in answer.text
        assert place.status(task_id) == "open"
        assert send(place, outbox.link("alice"), "a").status_code == 200

    @pytest.mark.parametrize("choice", ["2", "-1", "01", "\u0661", "9" * 5000])
    def test_a_number_that_no_choice_has(self, outbox: Outbox, choice: str) -> None:
        place = ChannelsPlace({"mail": ENTRY}, yes_or_no(), ses=outbox)
        task_id = place.ask(who=CAROL)
        assert send(place, outbox.link("alice"), choice).status_code == 409
        assert place.status(task_id) == "open"

    @pytest.mark.parametrize(
        "body", [b"\xff", b"t=a&t=b", b"&".join(b"f%d=1" % n for n in range(9)), b"t=%FF"]
    )
    def test_a_body_that_is_no_form(self, place: ChannelsPlace, body: bytes) -> None:
        assert place.post("/channels/mail/mail", body, {}).status_code == 400

    def test_a_body_without_end(self, place: ChannelsPlace) -> None:
        assert place.post("/channels/mail/mail", b"t=" + b"x" * 20_000, {}).status_code == 413

    def test_a_token_in_the_address_of_a_post_does_not_count(
        self, place: ChannelsPlace, outbox: Outbox
    ) -> None:
        task_id = place.ask()
        assert (
            call(place.app, "POST", outbox.link("alice") + "&choice=a", body=b"choice=a").status_code == 404
        )
        assert place.status(task_id) == "open"


YES_OR_NO = {
    "type": "object",
    "properties": {"publish": {"type": "boolean"}},
    "required": ["publish"],
    "additionalProperties": False,
}
