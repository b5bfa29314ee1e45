"""Discord, end to end: told there, decided there, and what has no right to decide changes nothing."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.support.approvals import asking_leave
from tests.support.approvals import decide as decide_elsewhere
from tests.support.channels import ChannelsPlace, one_of, question, yes_or_no
from tests.support.discord import (
    NEXT_PRIVATE,
    NEXT_PUBLIC,
    PRIVATE,
    PUBLIC,
    Discord,
    discord_stand_in,
    labels,
)
from tests.support.slack import labels as slack_labels
from tests.support.slack import slack_stand_in
from tests.support.twin import BOB, CAROL, no_answer

from interlock.a2a.models import TaskState
from interlock.adapters.channels.discord import verifies
from interlock.agents import Turn
from interlock.doors.channels.door import AGAIN, ELSEWHERE, NOT_THERE, OUTSIDER
from interlock.oversight.approvals import Gate


@pytest.fixture
def discord() -> Iterator[Discord]:
    with discord_stand_in() as found:
        yield found


@pytest.fixture
def place(discord: Discord) -> ChannelsPlace:
    return ChannelsPlace({"discord": discord.entry})


def said(answer: Any) -> str:
    """To whoever pressed, and to nobody else."""
    data = answer.json()["data"]
    assert data["flags"] & 64
    assert data["allowed_mentions"] == {"parse": []}
    text: str = data["content"]
    return text


class TestSignature:
    @pytest.mark.parametrize(
        ("public", "message", "signature"),
        [
            (
                PUBLIC,
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
                "d25bf5f0595bbe24655141438e7a100b",
            ),
            (
                NEXT_PUBLIC,
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
                "387b2eaeb4302aeeb00d291612bb0c00",
            ),
        ],
    )
    def test_is_that_of_the_published_vectors(self, public: str, message: str, signature: str) -> None:
        """RFC 8032, section 7.1."""
        assert verifies(public, signature, bytes.fromhex(message))
        assert not verifies(public, signature, bytes.fromhex(message) + b"x")
        assert not verifies(
            PUBLIC if public == NEXT_PUBLIC else NEXT_PUBLIC, signature, bytes.fromhex(message)
        )
        for broken in ("", "zz", signature[:-2], signature[:-1] + "f", signature.replace("0", "\u0660", 1)):
            assert not verifies(public, broken, bytes.fromhex(message))

    def test_a_ping_is_answered_if_it_is_signed(self, discord: Discord, place: ChannelsPlace) -> None:
        ping = {"type": 1, "application_id": "any", "id": "1"}
        assert discord.send(place, ping).json() == {"type": 1}
        assert discord.send(place, ping, private=NEXT_PRIVATE).status_code == 401
        assert discord.send(place, ping, old=301).status_code == 401

    def test_either_of_two_keys_counts_while_one_replaces_the_other(
        self, discord: Discord, place: ChannelsPlace
    ) -> None:
        ping = {"type": 1, "application_id": "any", "id": "1"}
        for keys, valid in (
            ([PUBLIC, NEXT_PUBLIC], {PRIVATE, NEXT_PRIVATE}),
            ([NEXT_PUBLIC], {NEXT_PRIVATE}),
        ):
            place.entries = {"discord": {**discord.entry, "public_keys": keys}}
            for private in (PRIVATE, NEXT_PRIVATE):
                expected = 200 if private in valid else 401
                assert discord.send(place, ping, private=private).status_code == expected


class TestTelling:
    def test_a_card_says_who_asks_for_whom_and_what_until_when(self, discord: Discord) -> None:
        place = ChannelsPlace({"discord": discord.entry}, asking_leave(deadline=timedelta(hours=1)))
        task_id = place.ask()
        content = discord.card["content"]
        ask_id = place.deployment.open_prompt(task_id)
        for shown in (
            "`desk`",
            "`work`",
            "`bearer:agent`",
            "```\nRefund 40.00 to order 1182\n```",
            "<t:1767272400:R>",
            f"<https://interlock.example/inbox/#/waiting/{task_id}/{ask_id}>",
        ):
            assert shown in content
        assert labels(discord.card) == ["Approve", "Deny"]
        assert discord.card["flags"] == 4
        assert discord.refused == []

    def test_the_action_is_shown_only_where_the_channel_says_so(self, discord: Discord) -> None:
        ChannelsPlace({"discord": discord.entry}).ask()
        assert '"tool"' not in discord.card["content"]
        discord.messages.clear()
        ChannelsPlace({"discord": {**discord.entry, "show": "action"}}).ask()
        assert '"tool": "refund"' in discord.card["content"]

    def test_what_others_say_stays_in_its_block(self, discord: Discord) -> None:
        hostile = "@everyone ```\n**Approved** <@1> [inbox](https://evil.example) `x` \u202egnp"
        ChannelsPlace({"discord": discord.entry}, question(hostile)).ask(who=CAROL)
        content = discord.card["content"]
        (block,) = content.split("```")[1::2]
        assert "@everyone" in block
        assert "https://evil.example" in block
        assert "\\u202e" in block
        assert content.count("```") == 2
        assert discord.card["allowed_mentions"] == {"parse": []}

    @pytest.mark.parametrize("text", ["x" * 1300, "```" * 300])
    def test_what_is_too_long_is_not_cut_and_not_decided_there(self, discord: Discord, text: str) -> None:
        place = ChannelsPlace({"discord": discord.entry}, question(text))
        place.ask(who=CAROL)
        assert "too long" in discord.card["content"]
        assert text[:10] not in discord.card["content"]
        assert labels(discord.card) == []
        assert discord.refused == []

    def test_the_longest_that_is_shown_is_taken(self, discord: Discord) -> None:
        ChannelsPlace({"discord": discord.entry}, question("x" * 1190)).ask(who=CAROL)
        assert "x" * 1190 in discord.card["content"]
        assert discord.refused == []

    def test_a_rate_limit_is_waited_for(self, discord: Discord, place: ChannelsPlace) -> None:
        discord.limited = 1
        task_id = place.ask()
        assert discord.messages == {}
        place.deliver(task_id)
        assert labels(discord.card) == ["Approve", "Deny"]

    def test_an_answer_that_is_lost_leaves_one_message(self, discord: Discord, place: ChannelsPlace) -> None:
        discord.lose = 1
        task_id = place.ask()
        place.deliver(task_id)
        assert len(discord.messages) == 1
        discord.press(place, "Approve")
        place.deliver(task_id)
        assert labels(discord.card) == []


class TestDeciding:
    def test_what_is_pressed_decides_and_the_task_goes_on(
        self, discord: Discord, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        assert said(discord.press(place, "Approve")) == "Approved."
        assert place.deployment.get(task_id).status.state is TaskState.COMPLETED
        place.deliver(task_id)
        assert labels(discord.card) == []
        assert "`Approved by bearer:alice`" in discord.card["content"]

    def test_a_denial_asks_for_a_reason_which_the_agent_is_told(self, discord: Discord) -> None:
        heard: list[str | None] = []

        async def listen(turn: Turn) -> None:
            assert turn.approval is not None
            heard.append(turn.approval.comment)
            await turn.complete("done")

        place = ChannelsPlace({"discord": discord.entry}, asking_leave(then=listen))
        task_id = place.ask()
        modal = discord.press(place, "Deny").json()["data"]
        assert place.status(task_id) == "open"
        assert said(discord.submit(place, modal, "Too much.")) == "Denied."
        assert (place.status(task_id), heard) == ("denied", ["Too much."])

    def test_a_reason_in_a_label_is_read_too(self, discord: Discord, place: ChannelsPlace) -> None:
        task_id = place.ask()
        modal = discord.press(place, "Deny").json()["data"]
        field = {"type": 4, "custom_id": "reason", "value": "No."}
        data = {"custom_id": modal["custom_id"], "components": [{"type": 18, "component": field}]}
        assert said(discord.send(place, discord._interaction(5, data, "alice"))) == "Denied."
        assert place.status(task_id) == "denied"

    def test_a_yes_or_no_is_two_buttons(self, discord: Discord) -> None:
        place = ChannelsPlace({"discord": discord.entry}, yes_or_no())
        task_id = place.ask(who=CAROL)
        assert labels(discord.card) == ["publish: yes", "publish: no"]
        assert said(discord.press(place, "publish: yes")) == "Answered."
        assert place.status(task_id) == "answered"

    def test_many_values_are_a_menu(self, discord: Discord) -> None:
        place = ChannelsPlace({"discord": discord.entry}, one_of(*"abcdefgh"))
        task_id = place.ask(who=CAROL)
        assert said(discord.press(place, "g")) == "Answered."
        assert place.status(task_id) == "answered"

    def test_what_is_decided_elsewhere_shows_and_its_buttons_are_gone(
        self, discord: Discord, place: ChannelsPlace
    ) -> None:
        task_id = place.ask()
        decide_elsewhere(place.deployment, BOB, task_id, "deny")
        place.deliver(task_id)
        assert "`Denied by bearer:bob`" in discord.card["content"]
        assert labels(discord.card) == []

    def test_of_discord_and_slack_one_wins_and_both_say_so(self, discord: Discord) -> None:
        with slack_stand_in() as slack:
            place = ChannelsPlace({"discord": discord.entry, "slack": slack.entry})
            task_id = place.ask()
            assert said(discord.press(place, "Approve", "bob")) == "Approved."
            slack.press(place, "Approve", "alice")
            place.deliver(task_id)
            assert slack.whispers[-1][1] != "Approved."
            assert "Approved by bearer:bob" in str(slack.card)
            assert (labels(discord.card), slack_labels(slack.card)) == ([], [])


class TestRefusing:
    """Nothing changes, and whoever pressed is told so."""

    @pytest.mark.parametrize(
        ("who", "told"), [("1299999999999999999", OUTSIDER), ("mallory", NOT_THERE), ("", OUTSIDER)]
    )
    def test_an_outsider(self, discord: Discord, place: ChannelsPlace, who: str, told: str) -> None:
        task_id = place.ask()
        assert said(discord.press(place, "Approve", who)) == told
        assert place.status(task_id) == "open"

    def test_somebody_who_was_revoked_since(self, discord: Discord, place: ChannelsPlace) -> None:
        task_id = place.ask()
        modal = discord.press(place, "Deny").json()["data"]
        place.store.revoke("bearer:alice")
        assert said(discord.press(place, "Approve")) == OUTSIDER
        assert said(discord.submit(place, modal, "no")) == OUTSIDER
        assert place.status(task_id) == "open"

    @pytest.mark.parametrize("name", ["application_id", "guild_id", "channel_id"])
    @pytest.mark.parametrize("value", ["1100000000000000009", None])
    def test_another_application_guild_or_channel(
        self, discord: Discord, place: ChannelsPlace, name: str, value: str | None
    ) -> None:
        task_id = place.ask()
        payload = discord.pressed("Approve", "alice", discord.card)
        assert said(discord.send(place, {**payload, name: value})) == ELSEWHERE
        assert place.status(task_id) == "open"

    def test_what_comes_late_or_is_not_signed(self, discord: Discord, place: ChannelsPlace) -> None:
        task_id = place.ask()
        for wrong in ({"old": 301}, {"old": -301}, {"private": NEXT_PRIVATE}):
            assert discord.press(place, "Approve", **wrong).status_code == 401
        assert place.status(task_id) == "open"

    def test_a_replay_changes_nothing(self, discord: Discord) -> None:
        place = ChannelsPlace({"discord": discord.entry}, asking_leave(gate=Gate(quorum=2)))
        task_id = place.ask()
        for _ in range(3):
            assert said(discord.press(place, "Approve")).startswith("Counted")
        (ask,) = place.deployment.prompts(task_id)
        assert (ask.status, ask.rev) == ("open", 2)

    def test_what_is_over(self, discord: Discord) -> None:
        place = ChannelsPlace({"discord": discord.entry}, asking_leave(deadline=timedelta(minutes=1)))
        task_id = place.ask()
        place.deployment.clock.advance(61)
        assert said(discord.press(place, "Approve")) == "The time for this decision is over"
        assert place.status(task_id) == "open"

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"type": 1, "type": 3}', b"\xff"])
    def test_a_body_that_is_no_interaction(self, place: ChannelsPlace, body: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        at = str(int(place.deployment.clock.now().timestamp()))
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(PRIVATE))
        headers = {"X-Signature-Timestamp": at, "X-Signature-Ed25519": key.sign(at.encode() + body).hex()}
        assert place.post("/channels/discord/discord", body, headers).status_code == 400

    def test_a_slow_store_is_told_of_in_time(self, discord: Discord, place: ChannelsPlace) -> None:
        task_id = place.ask()
        clock, began = place.deployment.clock, place.deployment.clock.now()

        def slow(operation: str, arguments: tuple[Any, ...]) -> None:
            clock.advance(0.4)
            if operation == "write":
                no_answer()

        place.deployment.hook(before=slow)
        assert said(discord.press(place, "Approve")) == AGAIN
        assert (clock.now() - began).total_seconds() < 3
        place.deployment.hook()
        assert said(discord.press(place, "Approve")) == "Approved."
        assert place.status(task_id) == "approved"
