"""Slack, end to end: told there, decided there, and what has no right to decide changes nothing."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.support.approvals import ACTION, SUMMARY, asking_leave
from tests.support.approvals import decide as decide_elsewhere
from tests.support.channels import ChannelsPlace, one_of, question, yes_or_no
from tests.support.slack import (
    CHANNEL,
    NEXT_SECRET,
    SECRET,
    Slack,
    labels,
    signed,
    slack_stand_in,
    texts,
)
from tests.support.twin import BOB, CAROL, HookedTable, message, no_answer, once

from interlock.a2a.models import TaskState
from interlock.adapters.channels.slack import is_signed
from interlock.agents import Agent, Mode, Turn
from interlock.doors.channels.door import AGAIN, CLOSED, ELSEWHERE, NOT_THERE, OUTSIDER
from interlock.engine.channels import CLAIM, Said
from interlock.engine.due import handle_due
from interlock.engine.facts import fact_pk
from interlock.engine.ports import Put
from interlock.engine.records import instant
from interlock.oversight.approvals import Gate

EXAMPLE = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554"
    b"%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
"""Of Slack's documentation, "Verifying requests from Slack", with its secret, time and signature."""
EXAMPLE_AT = 1531420618
EXAMPLE_SIGNATURE = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_stand_in() as found:
        yield found


@pytest.fixture
def place(slack: Slack) -> ChannelsPlace:
    return ChannelsPlace({"slack": slack.entry})


class TestSignature:
    def test_is_that_of_the_published_example(self) -> None:
        assert is_signed([SECRET], str(EXAMPLE_AT), EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT + 299)

    @pytest.mark.parametrize(
        ("at", "signature", "body", "now"),
        [
            (str(EXAMPLE_AT), EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT + 301),
            (str(EXAMPLE_AT), EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT - 301),
            (str(EXAMPLE_AT + 1), EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT),
            (str(EXAMPLE_AT), EXAMPLE_SIGNATURE, EXAMPLE + b"&", EXAMPLE_AT),
            (str(EXAMPLE_AT), EXAMPLE_SIGNATURE[:-1] + "4", EXAMPLE, EXAMPLE_AT),
            (str(EXAMPLE_AT), EXAMPLE_SIGNATURE.removeprefix("v0="), EXAMPLE, EXAMPLE_AT),
            (str(EXAMPLE_AT), "", EXAMPLE, EXAMPLE_AT),
            (str(EXAMPLE_AT), "v0=\u00e9", EXAMPLE, EXAMPLE_AT),
            ("", EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT),
            ("\u0661", EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT),
            ("9" * 400, EXAMPLE_SIGNATURE, EXAMPLE, EXAMPLE_AT),
        ],
    )
    def test_of_anything_else_is_not(self, at: str, signature: str, body: bytes, now: int) -> None:
        assert not is_signed([SECRET, NEXT_SECRET], at, signature, body, now)

    def test_either_of_two_secrets_counts_while_one_replaces_the_other(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        assert slack.press(place, "Approve", secret=NEXT_SECRET).status_code == 401
        place.entries = {"slack": {**slack.entry, "signing_secrets": [NEXT_SECRET, SECRET]}}
        assert slack.press(place, "Approve", secret=NEXT_SECRET).status_code == 200
        place.entries = {"slack": {**slack.entry, "signing_secrets": [NEXT_SECRET]}}
        assert slack.press(place, "Approve", secret=SECRET).status_code == 401
        assert place.status(task_id) == "approved"


class TestTelling:
    def test_a_card_says_who_asks_for_whom_and_what_until_when(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, asking_leave(deadline=timedelta(hours=1)))
        task_id = place.ask()
        shown = texts(slack.card)
        for said in ("desk", "work", "bearer:agent", SUMMARY, "2026-01-01 13:00 UTC"):
            assert said in shown
        (link,) = _runs(slack.card, "link")
        ask_id = place.deployment.open_prompt(task_id)
        assert link["url"] == f"https://interlock.example/inbox/#/waiting/{task_id}/{ask_id}"
        assert labels(slack.card) == ["Approve", "Deny"]
        assert (slack.card["unfurl_links"], slack.card["unfurl_media"]) == (False, False)
        assert slack.refused == []

    def test_the_action_is_shown_only_where_the_channel_says_so(self, slack: Slack) -> None:
        ChannelsPlace({"slack": slack.entry}).ask()
        assert "tool" not in json.dumps(slack.card)
        slack.messages.clear()
        ChannelsPlace({"slack": {**slack.entry, "show": "action"}}).ask()
        assert json.dumps(ACTION, indent=2) in texts(slack.card)

    def test_of_a_tenant_it_is_not_for_nothing_is_shown(self, slack: Slack) -> None:
        mine, others = ({**slack.entry, "for_tenants": [tenant]} for tenant in ("acme", "other"))
        ChannelsPlace({"slack": others}).ask()
        assert slack.messages == {}
        ChannelsPlace({"slack": others, "mine": mine}).ask()
        assert labels(slack.card) == ["Approve", "Deny"]

    def test_a_start_that_people_are_told_of_has_nothing_to_press(self, slack: Slack) -> None:
        agent = Agent("desk", "Runs, and people are told")

        @agent.skill("work", "Works", mode=Mode.NOTIFICATION)
        async def work(turn: Turn) -> None:
            await turn.complete("done")

        place = ChannelsPlace({"slack": slack.entry}, agent)
        place.deliver(place.ask())
        assert "It has started" in texts(slack.card)
        assert labels(slack.card) == []

    def test_a_window_of_veto_is_shown_and_vetoed_in_the_inbox(self, slack: Slack) -> None:
        agent = Agent("desk", "Starts unless somebody is against it")

        @agent.skill("work", "Works", mode=Mode.VETO)
        async def work(turn: Turn) -> None:
            await turn.complete("done")

        place = ChannelsPlace({"slack": slack.entry}, agent)
        task_id = place.ask()
        assert labels(slack.card) == []
        assert "starts unless" in texts(slack.card)
        place.deployment.cancel(task_id)
        place.deliver(task_id)
        assert "Vetoed by bearer:agent" in texts(slack.card)

    def test_what_others_say_is_neither_a_mention_nor_a_link_nor_hidden(self, slack: Slack) -> None:
        hostile = "<!channel> <@U0BOB> *Approved by bob* <https://evil.example|inbox> \u202egnp.exe &lt;"
        place = ChannelsPlace({"slack": slack.entry}, question(hostile))
        place.ask(who=CAROL)
        shown = _runs(slack.card, "text")
        assert {"type": "text", "text": hostile.replace("\u202e", "\\u202e")} in shown
        assert not [run for run in shown if run["text"].startswith("<") and "style" in run]
        assert slack.refused == []

    def test_what_is_too_long_is_not_cut_and_not_decided_there(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, question("x" * 3000 + " delete everything"))
        place.ask(who=CAROL)
        assert "xxx" not in texts(slack.card)
        assert "too long" in texts(slack.card)
        assert labels(slack.card) == []

    def test_where_it_came_from_is_told_if_that_is_one_of_the_channels(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        for came, told in (("C0OTHER", "C0OTHER"), ("C0BOARD", CHANNEL)):
            slack.messages.clear()
            place.ask(what=message("go", metadata={"source": {"interface": "slack", "channelId": came}}))
            assert slack.card["channel"] == told

    def test_a_rate_limit_is_waited_for(self, slack: Slack, place: ChannelsPlace) -> None:
        slack.limited = 1
        task_id = place.ask()
        assert slack.messages == {}
        place.deliver(task_id)
        assert labels(slack.card) == ["Approve", "Deny"]

    def test_what_is_delivered_again_is_not_posted_again(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.deployment.send().id
        lost = [True]

        def lose(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write" and any(getattr(w, "set", {}).get("told") for w in arguments) and lost:
                lost.clear()
                no_answer()

        place.deployment.hook(before=lose)
        place.deliver(task_id)
        place.deliver(task_id)
        assert not lost
        assert len(slack.messages) == 1


class TestDeciding:
    def test_what_is_pressed_decides_and_the_task_goes_on(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.ask()
        assert slack.press(place, "Approve").status_code == 200
        assert place.deployment.get(task_id).status.state is TaskState.COMPLETED
        assert slack.whispers == [("U0ALICE", "Approved.")]
        place.deliver(task_id)
        assert labels(slack.card) == []
        assert "Approved by bearer:alice" in texts(slack.card)

    def test_the_trail_says_through_which_channel(self, slack: Slack, place: ChannelsPlace) -> None:
        place.ask()
        slack.press(place, "Approve")
        facts = [json.loads(str(i["body"])) for _, i in place.deployment.table.query(fact_pk("acme")).rows]
        (approval,) = [fact for fact in facts if fact["kind"] == "approval"]
        assert (approval["detail"]["via"], approval["actor"]["subject"]) == ("slack:slack", "alice")
        (noted,) = [fact for fact in facts if fact["kind"] == "call"]
        assert noted["method"] == "channels.slack"

    def test_a_denial_asks_for_a_reason_which_the_agent_is_told(self, slack: Slack) -> None:
        heard: list[str | None] = []

        async def listen(turn: Turn) -> None:
            assert turn.approval is not None
            heard.append(turn.approval.comment)
            await turn.complete("done")

        place = ChannelsPlace({"slack": slack.entry}, asking_leave(then=listen))
        task_id = place.ask()
        slack.press(place, "Deny")
        assert place.status(task_id) == "open"
        assert slack.submit(place, "Too much.").content == b""
        assert place.status(task_id) == "denied"
        assert heard == ["Too much."]

    def test_a_yes_or_no_is_two_buttons(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, yes_or_no())
        task_id = place.ask(who=CAROL)
        assert labels(slack.card) == ["publish: yes", "publish: no"]
        slack.press(place, "publish: no", who="bob")
        assert place.deployment.get(task_id, CAROL).status.state is TaskState.COMPLETED
        assert slack.whispers[-1] == ("U0BOB", "Answered.")
        slack.press(place, "publish: no", who="bob")
        assert slack.whispers[-1] == ("U0BOB", "Answered.")
        slack.press(place, "publish: yes", who="bob")
        assert slack.whispers[-1] == ("U0BOB", CLOSED)

    def test_many_values_are_a_menu(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, one_of(*"abcdefgh"))
        task_id = place.ask(who=CAROL)
        slack.press(place, "g")
        assert place.status(task_id) == "answered"

    def test_a_quorum_is_counted(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, asking_leave(gate=Gate(quorum=2)))
        task_id = place.ask()
        for _ in range(2):
            slack.press(place, "Approve", "alice")
            assert place.status(task_id) == "open"
        slack.press(place, "Approve", "bob")
        assert place.status(task_id) == "approved"
        assert [text for _, text in slack.whispers] == [slack.whispers[0][1]] * 2 + ["Approved."]

    def test_what_is_decided_elsewhere_shows_and_its_buttons_are_gone(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        card = slack.card
        decide_elsewhere(place.deployment, BOB, task_id, "deny")
        slack.press(place, "Approve", message=card)
        assert slack.whispers[-1][1] != "Approved."
        place.deliver(task_id)
        assert "Denied by bearer:bob" in texts(slack.card)
        assert labels(slack.card) == []

    def test_two_channels_at_once_have_one_winner_and_both_say_so(self, slack: Slack) -> None:
        with slack_stand_in() as other:
            place = ChannelsPlace({"slack": slack.entry, "other": other.entry})
            task_id = place.ask()
            slack.press(place, "Deny", "alice")
            slack.press(place, "Approve", "bob", message=other.card)
            assert b"errors" in slack.submit(place, None, "alice").content
            assert place.status(task_id) == "approved"
            place.deliver(task_id)
            for each in (slack, other):
                assert "Approved by bearer:bob" in texts(each.card)
                assert labels(each.card) == []


class TestRefusing:
    """Nothing changes, and whoever pressed is told so."""

    @pytest.mark.parametrize("who", ["U0STRANGER", "mallory", "robot"])
    def test_an_outsider(self, slack: Slack, place: ChannelsPlace, who: str) -> None:
        task_id = place.ask()
        for label in ("Approve", "Deny"):
            slack.press(place, label, who)
        assert place.status(task_id) == "open"
        assert len(slack.whispers) + len(slack.views) == 2
        assert {text for _, text in slack.whispers} <= {OUTSIDER, NOT_THERE}

    def test_somebody_of_a_tenant_that_it_is_not_for_any_more(self, slack: Slack) -> None:
        entries = {"slack": slack.entry}
        place = ChannelsPlace(entries)
        task_id = place.ask()
        entries["slack"] = {**slack.entry, "for_tenants": ["other"]}
        slack.press(place, "Approve", "alice")
        assert place.status(task_id) == "open"
        assert slack.whispers == [("U0ALICE", OUTSIDER)]

    def test_somebody_who_was_revoked_since(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.ask()
        slack.press(place, "Deny", "alice")
        place.store.revoke("bearer:alice")
        slack.press(place, "Approve", "alice")
        assert OUTSIDER in slack.submit(place, "no").json()["errors"]["reason"]
        assert place.status(task_id) == "open"
        assert slack.whispers == [("U0ALICE", OUTSIDER)]

    @pytest.mark.parametrize(
        "changed",
        [
            {"api_app_id": "A0OTHER"},
            {"team": {"id": "T0OTHER"}},
            {"user": {"id": "U0ALICE", "team_id": "T0OTHER"}},
            {"channel": {"id": "C0PRIVATE"}},
            {"team": None},
        ],
    )
    def test_another_app_workspace_or_channel(
        self, slack: Slack, place: ChannelsPlace, changed: dict[str, Any]
    ) -> None:
        task_id = place.ask()
        payload = slack.pressed("Approve", "alice", slack.card)
        assert slack.send(place, {**payload, **changed}).status_code == 200
        assert place.status(task_id) == "open"
        assert {text for _, text in slack.whispers} <= {ELSEWHERE}

    def test_who_asked_for_it(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry})
        task_id = place.ask(who=CAROL)
        slack.press(place, "Approve", "carol")
        assert place.status(task_id) == "open"
        assert slack.whispers == [("U0CAROL", "You may not decide this request")]

    def test_anybody_while_it_is_not_known_who_that_is(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.ask()
        place.known = HookedTable(place.identities, before=once("get", no_answer))
        assert slack.press(place, "Approve").status_code == 503
        assert (place.status(task_id), slack.whispers) == ("open", [])

    def test_what_comes_late_or_is_not_signed(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.ask()
        assert slack.press(place, "Approve", old=301).status_code == 401
        assert slack.press(place, "Approve", secret="x" * 32).status_code == 401
        assert slack.press(place, "Approve", old=-301).status_code == 401
        assert (place.status(task_id), slack.whispers) == ("open", [])

    def test_a_replay_changes_nothing(self, slack: Slack, place: ChannelsPlace) -> None:
        place = ChannelsPlace({"slack": slack.entry}, asking_leave(gate=Gate(quorum=2)))
        task_id = place.ask()
        for _ in range(3):
            slack.press(place, "Approve", "alice")
        (ask,) = place.deployment.prompts(task_id)
        assert (ask.status, ask.rev) == ("open", 2)

    def test_the_digest_of_something_else(self, slack: Slack, place: ChannelsPlace) -> None:
        first, second = place.ask(), place.ask()
        cards = list(slack.messages.values())
        value = cards[0]["blocks"][-1]["elements"][0]["value"]
        cards[0]["blocks"][-1]["elements"][0]["value"] = value[:-4] + "AAAA"
        slack.press(place, "Approve", message=cards[0])
        assert (place.status(first), place.status(second)) == ("open", "open")

    @pytest.mark.parametrize(
        "value", ["", "a", "a.", "a.%%%", "z." + "A" * 86, "99." + "A" * 86, "a." + "A" * 2000]
    )
    def test_a_value_that_was_never_shown(self, slack: Slack, place: ChannelsPlace, value: str) -> None:
        task_id = place.ask()
        payload = slack.pressed("Approve", "alice", slack.card)
        payload["actions"][0]["value"] = value
        assert slack.send(place, payload).status_code == 200
        assert place.status(task_id) == "open"

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"payload=",
            b"payload=[]",
            b"payload=%7B",
            b"payload=%00",
            b"\xff",
            urlencode({"p": "{}"}).encode(),
        ],
    )
    def test_a_body_that_is_no_interaction(self, place: ChannelsPlace, body: bytes) -> None:
        assert place.post("/channels/slack/slack", body, signed(place, body)).status_code == 400

    def test_a_body_without_end(self, place: ChannelsPlace) -> None:
        body = b"payload=" + b"x" * 300_000
        assert place.post("/channels/slack/slack", body, signed(place, body)).status_code == 413

    def test_a_channel_that_is_not_there_is_not_told_from_one_that_is(self, place: ChannelsPlace) -> None:
        body = b"payload=%7B%7D"
        answers = [place.post(f"/channels/slack/{name}", body, {}) for name in ("slack", "none")]
        assert {(answer.status_code, answer.content) for answer in answers} == {
            (401, b"Authentication required")
        }


class TestSlowStore:
    """Slack waits for three seconds."""

    def test_a_decision_that_can_not_be_recorded_says_so_in_time(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        clock, began = place.deployment.clock, place.deployment.clock.now()

        def slow(operation: str, arguments: tuple[Any, ...]) -> None:
            clock.advance(0.4)
            if operation == "write":
                no_answer()

        place.deployment.hook(before=slow)
        slack.press(place, "Approve")
        place.deployment.hook()
        assert (clock.now() - began).total_seconds() < 3
        assert slack.whispers == [("U0ALICE", AGAIN)]
        assert place.status(task_id) == "open"
        slack.press(place, "Approve")
        assert place.status(task_id) == "approved"

    def test_a_reply_that_was_lost_is_found_when_it_is_pressed_again(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        card = slack.card

        def lost(operation: str, arguments: tuple[Any, ...]) -> None:
            if operation == "write":
                place.deployment.clock.advance(2)
                no_answer()

        place.deployment.hook(after=lost)
        slack.press(place, "Approve")
        place.deployment.hook()
        slack.press(place, "Approve", message=card)
        assert [text for _, text in slack.whispers][-1] == "Approved."
        assert place.status(task_id) == "approved"


class TestRaces:
    def test_what_is_decided_before_it_was_posted_is_not_posted(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.deployment.send().id
        decide_elsewhere(place.deployment, BOB, task_id)
        place.deliver(task_id)
        place.deliver(task_id)
        assert slack.messages == {}

    def test_what_is_decided_just_before_it_is_posted_is_not_posted(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        """After it was read that the question is open."""
        task_id = place.deployment.send().id
        decided: list[str] = []

        def meanwhile(operation: str, arguments: tuple[Any, ...]) -> None:
            claims = operation == "write" and any("SAID#" in write.key.sk for write in arguments)
            if claims and not decided:
                decided.append(task_id)
                decide_elsewhere(place.deployment, BOB, task_id)

        place.deployment.hook(before=meanwhile)
        for _ in range(3):
            place.deliver(task_id)
        assert decided == [task_id]
        assert slack.messages == {}
        assert set(_notices(place, task_id)) == {"told"}

    def test_what_is_decided_while_it_is_posted_ends_without_buttons(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.deployment.send().id
        assert slack.server is not None
        answer = slack.server.answer

        def decided_meanwhile(handler: Any) -> None:
            assert slack.server is not None
            slack.server.answer = answer
            decide_elsewhere(place.deployment, BOB, task_id)
            place.deliver(task_id)
            slack.answer(handler)

        slack.server.answer = decided_meanwhile
        place.deliver(task_id)
        place.deliver(task_id)
        place.deliver(task_id)
        assert labels(slack.card) == []
        assert "Approved by bearer:bob" in texts(slack.card)

    def test_what_a_lost_worker_was_posting_is_posted_by_another(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.deployment.send().id
        ask_id = place.deployment.open_prompt(task_id)
        lost = Said("acme", task_id, ask_id, "slack", "an-op", instant(place.now() + CLAIM))
        place.deployment.table.write(Put(lost.key, lost.item()))
        place.deliver(task_id)
        assert slack.messages == {}
        place.deployment.clock.advance(CLAIM.total_seconds())
        place.deliver(task_id)
        assert labels(slack.card) == ["Approve", "Deny"]

    def test_an_end_does_not_wait_for_ever_for_a_lost_worker(
        self, slack: Slack, place: ChannelsPlace
    ) -> None:
        task_id = place.deployment.send().id
        ask_id = place.deployment.open_prompt(task_id)
        lost = Said("acme", task_id, ask_id, "slack", "an-op", instant(place.now() + CLAIM))
        place.deployment.table.write(Put(lost.key, lost.item()))
        decide_elsewhere(place.deployment, BOB, task_id)
        place.deliver(task_id)
        assert "open" in _notices(place, task_id)
        place.deployment.clock.advance(CLAIM.total_seconds())
        place.deliver(task_id)
        assert (slack.messages, set(_notices(place, task_id))) == ({}, {"told"})

    def test_of_many_who_press_at_once_one_decides(self, slack: Slack) -> None:
        with slack_stand_in() as other:
            place = ChannelsPlace({"slack": slack.entry, "other": other.entry})
            task_id = place.ask()
            cards = [(slack, slack.card), (other, other.card)]
            gate = Barrier(8)

            def press(number: int) -> None:
                channel, card = cards[number % 2]
                gate.wait()
                channel.press(place, "Approve", ("alice", "bob", "carol")[number % 3], message=card)

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(press, range(8)))
            # Who pressed is told where the entry of the path is, which is the first.
            assert len(slack.whispers) == 8
            (ask,) = place.deployment.prompts(task_id)
            assert (ask.status, len(json.loads(ask.votes))) == ("approved", 1)
            assert place.deployment.get(task_id).status.state is TaskState.COMPLETED
            place.deliver(task_id)
            assert [labels(channel.card) for channel, _ in cards] == [[], []]

    def test_a_message_that_somebody_deleted_is_let_go(self, slack: Slack, place: ChannelsPlace) -> None:
        task_id = place.ask()
        slack.press(place, "Approve")
        slack.messages.clear()
        place.deliver(task_id)
        assert set(_notices(place, task_id)) == {"told"}

    def test_a_reminder_is_a_message_of_its_own_in_the_thread(self, slack: Slack) -> None:
        place = ChannelsPlace({"slack": slack.entry}, asking_leave(deadline=timedelta(minutes=10)))
        task_id = place.ask()
        place.deployment.clock.advance(301)
        for key, item in place.deployment.due_rows().items():
            if item["kind"] == "remind":
                handle_due(place.deployment.engine, key)
        place.deliver(task_id)
        place.deliver(task_id)
        card, reminder = slack.messages.values()
        assert reminder["thread_ts"] == card["ts"]
        assert "Still waiting" in texts(reminder)


def _notices(place: ChannelsPlace, task_id: str) -> list[str]:
    pk = place.deployment.meta(task_id).key.pk
    return [
        str(item["status"]) for _, item in place.deployment.table.query(pk, first="NOTE#", last="NOTE$").rows
    ]


def _runs(card: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [
        run
        for block in card["blocks"]
        if block["type"] == "rich_text"
        for element in block["elements"]
        for run in element["elements"]
        if run["type"] == kind
    ]
