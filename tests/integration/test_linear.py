"""Linear, end to end: told in a comment, decided in a reply; what has no right to decide changes nothing."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import asking_leave
from tests.support.approvals import decide as decide_elsewhere
from tests.support.channels import ChannelsPlace, question
from tests.support.linear import NEXT_SECRET, SECRET, Linear, linear_stand_in
from tests.support.twin import BOB, CAROL

from interlock.a2a.models import TaskState
from interlock.adapters.channels.linear import is_signed
from interlock.agents import Turn
from interlock.doors.channels.door import ELSEWHERE, MALFORMED, NOT_THERE, OUTSIDER
from interlock.oversight.approvals import Gate


@pytest.fixture
def linear() -> Iterator[Linear]:
    with linear_stand_in() as found:
        yield found


@pytest.fixture
def place(linear: Linear) -> ChannelsPlace:
    return ChannelsPlace({"linear": linear.entry})


class TestSignature:
    def test_is_that_of_the_published_vector(self) -> None:
        """RFC 4231, test case 2."""
        body = b"what do ya want for nothing?"
        signature = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        assert is_signed(["another", "Jefe"], signature, body)
        for broken in ("", signature[:-1], signature[:-1] + "4", f"sha256={signature}", "\u00e9"):
            assert not is_signed(["Jefe"], broken, body)
        assert not is_signed(["Jefe"], signature, body + b" ")

    def test_either_of_two_secrets_counts_while_one_replaces_the_other(
        self, linear: Linear, place: ChannelsPlace
    ) -> None:
        place.ask()
        event = linear.comment("thanks")
        place.entries = {"linear": {**linear.entry, "signing_secrets": [NEXT_SECRET, SECRET]}}
        assert [linear.send(place, event, secret=each).status_code for each in (SECRET, NEXT_SECRET)] == [
            200,
            200,
        ]
        place.entries = {"linear": {**linear.entry, "signing_secrets": [NEXT_SECRET]}}
        assert linear.send(place, event, secret=SECRET).status_code == 401


class TestTelling:
    def test_a_comment_says_who_asks_for_whom_and_what_until_when(self, linear: Linear) -> None:
        place = ChannelsPlace({"linear": linear.entry}, asking_leave(deadline=timedelta(hours=1)))
        task_id = place.ask()
        for shown in (
            "- Agent: `desk`",
            "- For: `bearer:agent`",
            "Refund 40.00 to order 1182",
            "2026-01-01 13:00 UTC",
            f"https://interlock.example/inbox/#/waiting/{task_id}/",
        ):
            assert shown in linear.card
        assert '"tool"' not in linear.card
        assert linear.refused == 0

    def test_what_others_say_stays_in_its_block(self, linear: Linear) -> None:
        hostile = "````\n# Approved\n[inbox](https://evil.example)\n```\n@bob \u202egnp"
        ChannelsPlace({"linear": linear.entry}, question(hostile)).ask(who=CAROL)
        shown = hostile.replace("\u202e", "\\u202e")
        assert f"\n`````text\n{shown}\n`````\n" in linear.card

    def test_a_question_is_answered_in_the_inbox(self, linear: Linear) -> None:
        ChannelsPlace({"linear": linear.entry}, question("Which version?")).ask(who=CAROL)
        assert "/approve" not in linear.card
        assert "[Open the inbox](" in linear.card

    def test_a_rate_limit_is_waited_for(self, linear: Linear, place: ChannelsPlace) -> None:
        linear.limited = 1
        task_id = place.ask()
        assert linear.comments == {}
        place.deliver(task_id)
        assert "/approve" in linear.card

    def test_a_comment_that_somebody_deleted_is_let_go(self, linear: Linear, place: ChannelsPlace) -> None:
        task_id = place.ask()
        linear.comments.clear()
        decide_elsewhere(place.deployment, BOB, task_id)
        place.deliver(task_id)
        pk = place.deployment.meta(task_id).key.pk
        rows = place.deployment.table.query(pk, first="NOTE#", last="NOTE$").rows
        assert {item["status"] for _, item in rows} == {"told"}


class TestDeciding:
    def test_a_reply_decides_and_the_task_goes_on(self, linear: Linear, place: ChannelsPlace) -> None:
        task_id = place.ask()
        assert linear.send(place, linear.comment(linear.line("approve"))).status_code == 200
        assert place.deployment.get(task_id).status.state is TaskState.COMPLETED
        place.deliver(task_id)
        assert "`Approved by bearer:alice`" in linear.card
        assert "/approve" not in linear.card
        assert linear.replies == ["Approved."]

    @pytest.mark.parametrize("wrapped", ["{}", "`{}`", "  {}\n"])
    def test_a_denial_has_its_reason(self, linear: Linear, wrapped: str) -> None:
        heard: list[str | None] = []

        async def listen(turn: Turn) -> None:
            assert turn.approval is not None
            heard.append(turn.approval.comment)
            await turn.complete("done")

        place = ChannelsPlace({"linear": linear.entry}, asking_leave(then=listen))
        task_id = place.ask()
        linear.send(place, linear.comment(wrapped.format(linear.line("deny")) + " Too much,\nby far."))
        assert (place.status(task_id), heard) == ("denied", ["Too much,\nby far."])

    def test_a_comment_of_any_shape_is_looked_at_once(self, linear: Linear, place: ChannelsPlace) -> None:
        """Quadratic in its blanks it would not end here."""
        task_id = place.ask()
        blanks = " " * 80_000
        event = linear.comment(f"{blanks}/approve x a{blanks}b{blanks}")
        event["data"]["issueId"] = "elsewhere"
        assert linear.send(place, event).status_code == 200
        assert place.status(task_id) == "open"

    def test_what_is_decided_elsewhere_shows(self, linear: Linear, place: ChannelsPlace) -> None:
        task_id = place.ask()
        line = linear.line("approve")
        decide_elsewhere(place.deployment, BOB, task_id, "deny")
        place.deliver(task_id)
        assert "`Denied by bearer:bob`" in linear.card
        linear.send(place, linear.comment(line))
        assert place.status(task_id) == "denied"
        assert linear.replies[-1] != "Approved."


class TestRefusing:
    """Nothing changes, and whoever wrote is told so."""

    @pytest.mark.parametrize(("who", "told"), [("somebody", OUTSIDER), ("mallory", NOT_THERE)])
    def test_an_outsider(self, linear: Linear, place: ChannelsPlace, who: str, told: str) -> None:
        task_id = place.ask()
        linear.send(place, linear.comment(linear.line("approve"), who))
        assert (place.status(task_id), linear.replies) == ("open", [told])

    def test_somebody_who_was_revoked_since(self, linear: Linear, place: ChannelsPlace) -> None:
        task_id = place.ask()
        place.store.revoke("bearer:alice")
        linear.send(place, linear.comment(linear.line("approve")))
        assert (place.status(task_id), linear.replies) == ("open", [OUTSIDER])

    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"organizationId": "4f0b3a52-1d5c-4c5e-9b57-6d1e3f1affff"}, [ELSEWHERE]),
            ({"data": {"issueId": "4f0b3a52-1d5c-4c5e-9b57-6d1e3f1affff"}}, []),
            ({"action": "update"}, []),
            ({"type": "Issue"}, []),
        ],
    )
    def test_another_organization_issue_or_event(
        self, linear: Linear, place: ChannelsPlace, changed: dict[str, Any], told: list[str]
    ) -> None:
        task_id = place.ask()
        linear.send(place, linear.comment(linear.line("approve"), **changed))
        assert (place.status(task_id), linear.replies) == ("open", told)

    def test_what_comes_late_or_is_not_signed(self, linear: Linear, place: ChannelsPlace) -> None:
        task_id = place.ask()
        event = linear.comment(linear.line("approve"))
        wrong: tuple[dict[str, Any], ...] = ({"old": 61}, {"old": -61}, {"secret": NEXT_SECRET})
        for given in wrong:
            assert linear.send(place, event, **given).status_code == 401
        for at in (None, "now", 1.5, True):
            assert linear.send(place, {**event, "webhookTimestamp": at}).status_code == 401
        assert (place.status(task_id), linear.replies) == ("open", [])

    def test_a_replay_counts_once(self, linear: Linear) -> None:
        place = ChannelsPlace({"linear": linear.entry}, asking_leave(gate=Gate(quorum=2)))
        task_id = place.ask()
        for _ in range(3):
            linear.send(place, linear.comment(linear.line("approve")))
        (ask,) = place.deployment.prompts(task_id)
        assert (ask.status, ask.rev) == ("open", 2)

    @pytest.mark.parametrize(
        "text", ["/approve", "/approve it", "please /approve {}", "/APPROVE {}", "/veto {}", ""]
    )
    def test_what_is_no_such_line(self, linear: Linear, place: ChannelsPlace, text: str) -> None:
        task_id = place.ask()
        code = linear.line("approve").removeprefix("/approve ")
        linear.send(place, linear.comment(text.format(code)))
        assert place.status(task_id) == "open"
        assert linear.replies in ([], [MALFORMED])

    @pytest.mark.parametrize("body", [b"[]", b"{", b""])
    def test_a_body_that_is_no_event(self, place: ChannelsPlace, body: bytes) -> None:
        import hmac
        from hashlib import sha256

        signature = hmac.new(SECRET.encode(), body, sha256).hexdigest()
        answer = place.post("/channels/linear/linear", body, {"Linear-Signature": signature})
        assert answer.status_code == 400
