"""The registry of agents elsewhere: what their cards declare, what people raise, and what is kept when."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.support.cards import URL, FakeCards, card
from tests.support.twin import (
    AGENT,
    ANN,
    OPS,
    PLATFORM,
    SPY,
    Deployment,
    message,
    no_answer,
    nothing,
    once,
    running,
)

from interlock.a2a.errors import InvalidParams, PermissionDenied, Unavailable
from interlock.engine.context import Skill
from interlock.engine.due import handle_due
from interlock.engine.facts import fact_pk
from interlock.engine.peers import PeerUnreachable
from interlock.engine.ports import Key, Put
from interlock.engine.records import Due, Registered
from interlock.engine.registered import EVERY_SKILL, REFRESH_EVERY, RegisteredAgent, local_name
from interlock.engine.registry import MAX_AGENTS, MAX_OVERRIDES, REFRESH, AgentNotFound, Registry
from interlock.engine.sweep import sweep
from interlock.oversight.halts import Scope
from interlock.oversight.modes import ALIAS, Mode, Policy, Radius, compare
from interlock.oversight.principals import Kind, Role

MODES = {mode.value: {"mode": mode.value} for mode in Mode}


class House:
    """A deployment with a registry, and the cards that are elsewhere."""

    def __init__(self, policy: Policy = Policy(), **cards: Any) -> None:  # noqa: B008 (frozen)
        self.deployment = Deployment(running(nothing), at_once=False)
        self.registry = Registry(self.deployment.engine, policy, lambda: [Skill("desk", "work")])
        self.cards = FakeCards({URL: cards.get("card", card(MODES))})

    def added(self, name: str = "far") -> RegisteredAgent:
        self.registry.add(OPS, name, URL)
        return self.refreshed(name)

    def refreshed(self, name: str = "far") -> RegisteredAgent:
        self.registry.refresh(self.cards, "acme", name)
        return self.registry.get("acme", name)

    def mode(self, skill: str, name: str = "far") -> Mode:
        return self.registry.resolve_mode("acme", name, skill)

    def facts(self) -> list[dict[str, Any]]:
        rows = self.deployment.table.query(fact_pk("acme")).rows
        facts = [json.loads(str(item["body"])) for _, item in rows]
        return [
            {"by": fact["actor"].get("subject"), **fact["detail"]}
            for fact in facts
            if fact["kind"] == "agent"
        ]

    def due(self) -> Key:
        (key,) = [key for key, item in self.deployment.due_rows().items() if item["kind"] == REFRESH]
        return key


@pytest.fixture
def house() -> House:
    return House()


# What a card declares.


def test_each_skill_has_the_mode_that_the_card_declares(house: House) -> None:
    agent = house.added()
    assert {skill.id: skill.mode.mode.value for skill in agent.skills.values()} == {
        mode: mode for mode in MODES
    }
    assert {skill.source for skill in agent.skills.values()} == {"declared"}
    assert compare(house.mode("veto"), house.mode("gated")) < 0


def test_a_declaration_under_the_older_form_of_the_uri_counts() -> None:
    house = House(card=card({"go": {"mode": "autonomous"}}, uri=ALIAS))
    house.added()
    assert house.mode("go") is Mode.AUTONOMOUS


@pytest.mark.parametrize(
    "entry",
    [
        {"mode": "free"},
        {"mode": "veto", "vetoTtlMs": 0},
        {"mode": "veto", "vetoTtlMs": "60000"},
        {"mode": "autonomous", "reviewer": "me"},
        "autonomous",
    ],
    ids=repr,
)
def test_a_malformed_declaration_is_gated_and_says_so(entry: Any) -> None:
    agent = House(card=card({"go": entry})).added()
    skill = agent.skills["go"]
    assert (skill.mode.mode, skill.source) == (Mode.GATED, "malformed")
    assert skill.mode.problem is not None


def test_what_is_not_declared_or_not_known_has_the_default() -> None:
    house = House(Policy(Mode.VETO), card=card({"go": {"mode": "autonomous"}}, "go", "other"))
    agent = house.added()
    assert (agent.skills["other"].mode.mode, agent.skills["other"].source) == (Mode.VETO, "undeclared")
    assert house.mode("nothing") is house.mode("go", "nobody") is Mode.VETO
    assert House().mode("go") is Mode.GATED


def test_a_wide_radius_raises_a_mode_and_a_narrow_one_lowers_none() -> None:
    radii = {"go": "fleet", "look": "self", "ask": "self"}
    declared = {"go": {"mode": "autonomous"}, "look": {"mode": "autonomous"}, "ask": {"mode": "compound"}}
    house = House(Policy(wide=Radius.REPO, wide_mode=Mode.VETO), card=card(declared, radii=radii))
    agent = house.added()
    assert [(skill.mode.mode.value, skill.source) for skill in agent.skills.values()] == [
        ("veto", "radius"),
        ("autonomous", "declared"),
        ("compound", "declared"),
    ]
    assert agent.route(message(), "go").radius == "fleet"


def test_a_skill_that_the_card_only_declares_is_known_and_not_listed() -> None:
    agent = House(card=card({"hidden": {"mode": "notification"}}, "go")).added()
    assert [(skill.id, skill.listed) for skill in agent.skills.values()] == [("go", True), ("hidden", False)]


@pytest.mark.parametrize(
    "odd", [{}, {"capabilities": 7}, {"skills": 7}, {"capabilities": {"extensions": [7]}}], ids=repr
)
def test_a_card_that_is_odd_breaks_nothing(odd: dict[str, Any]) -> None:
    house = House(card={**card(MODES), **odd} if odd else {})
    house.added()
    assert house.mode("autonomous") in (Mode.GATED, Mode.AUTONOMOUS)


# Which skill a message is for.


def test_a_hint_names_the_skill_and_an_unknown_one_is_refused(house: House) -> None:
    agent = house.added()
    skill = agent.route(message(), "notification")
    assert (skill.agent, skill.id, skill.declared.mode, skill.rerun) == (
        "far",
        "notification",
        Mode.NOTIFICATION,
        True,
    )
    with pytest.raises(InvalidParams):
        agent.route(message(), "nothing")


def test_without_a_hint_the_strictest_mode_holds_for_the_agent_may_choose_any_skill(house: House) -> None:
    assert house.added().route(message(), None).declared.mode is Mode.COMPOUND


def test_an_id_that_can_not_be_part_of_a_key_has_a_name_of_its_own_here() -> None:
    odd = "convert #1/currency"
    agent = House(card=card({odd: {"mode": "veto"}})).added()
    skill = agent.route(message(), odd)
    assert skill.id == local_name(odd) != odd
    assert "#" not in skill.id
    assert str(Scope.parse(f"skill:{skill.id}", "acme")) == f"skill:acme/{skill.id}"
    assert agent.route(message(), skill.id) == skill


def test_an_agent_whose_card_is_not_known_yet_takes_no_message(house: House) -> None:
    with pytest.raises(Unavailable):
        house.registry.add(OPS, "far", URL).route(message(), None)


# Refreshing.


def test_a_refresh_replaces_the_entries_whole(house: House) -> None:
    house.added()
    house.cards.cards[URL] = card({"new": {"mode": "veto"}})
    assert list(house.refreshed().skills) == ["new"]
    assert house.mode("autonomous") is Mode.GATED


def test_a_failed_refresh_keeps_what_was_known_and_shows_it_stale(house: House) -> None:
    now = house.deployment.clock.now
    assert not house.added().stale(now())
    house.cards.cards[URL] = PeerUnreachable("no answer " + "x" * 1000)
    agent = house.refreshed()
    assert agent.stale(now())
    assert agent.record.problem is not None
    assert len(agent.record.problem) <= 300
    assert house.mode("autonomous") is Mode.AUTONOMOUS
    house.cards.cards[URL] = card(MODES)
    assert not house.refreshed().stale(now())


def test_what_nobody_has_refreshed_for_long_is_stale(house: House) -> None:
    agent = house.added()
    house.deployment.clock.advance(3 * REFRESH_EVERY.total_seconds())
    assert agent.stale(house.deployment.clock.now())


def test_a_slow_fetch_does_not_take_back_what_a_later_one_has_found(house: House) -> None:
    house.added()

    def later(to: Any) -> Any:
        house.deployment.clock.advance(1)
        house.cards.cards[URL] = card({"new": {"mode": "veto"}})
        house.refreshed()
        return card({"old": {"mode": "autonomous"}})

    slow = FakeCards()
    slow.card = later  # type: ignore[method-assign]
    house.registry.refresh(slow, "acme", "far")
    assert list(house.registry.get("acme", "far").skills) == ["new"]


def test_an_agent_that_was_removed_while_its_card_was_fetched_stays_away(house: House) -> None:
    house.added()

    def removed(to: Any) -> Any:
        house.registry.remove(OPS, "far")
        return card(MODES)

    house.cards.card = removed  # type: ignore[method-assign]
    house.registry.refresh(house.cards, "acme", "far")
    with pytest.raises(AgentNotFound):
        house.registry.get("acme", "far")


def test_a_card_of_what_had_the_name_before_is_not_taken_for_the_new_ones(house: House) -> None:
    house.added()

    def replaced(to: Any) -> Any:
        house.registry.remove(OPS, "far")
        house.deployment.clock.advance(1)
        house.registry.add(OPS, "far", "https://elsewhere.example")
        return card(MODES)

    house.cards.card = replaced  # type: ignore[method-assign]
    house.registry.refresh(house.cards, "acme", "far")
    assert house.registry.get("acme", "far").record.card is None


def test_the_sweeper_wakes_for_a_refresh_every_ten_minutes(house: House) -> None:
    house.added()
    waker = house.deployment.waker
    waker.refreshes.clear()
    for round_ in range(1, 4):
        house.deployment.clock.advance(REFRESH_EVERY.total_seconds())
        assert sweep(house.deployment.engine) == 0
        assert waker.refreshes == [("acme", "far")] * round_
        house.due()


def test_a_refresh_that_is_woken_for_twice_comes_back_once(house: House) -> None:
    house.added()
    key = house.due()
    house.deployment.clock.advance(REFRESH_EVERY.total_seconds())
    handle_due(house.deployment.engine, key)
    handle_due(house.deployment.engine, key)
    assert house.due() != key


def test_a_lost_reply_of_the_row_is_no_second_one(house: House) -> None:
    house.added()
    house.deployment.clock.advance(REFRESH_EVERY.total_seconds())
    key = house.due()
    house.deployment.hook(after=once("write", no_answer))
    handle_due(house.deployment.engine, key)
    house.due()


def test_a_removed_agent_leaves_no_row(house: House) -> None:
    house.added()
    old = house.due()
    house.registry.remove(OPS, "far")
    assert not house.deployment.due_rows()
    due = Due(REFRESH, "acme", "far", "", old.sk.partition("#")[0])
    house.deployment.table.write(Put(due.key, due.item()))
    house.deployment.clock.advance(REFRESH_EVERY.total_seconds())
    handle_due(house.deployment.engine, due.key)
    assert not house.deployment.due_rows()


# People.


def test_an_operator_adds_an_agent_by_the_url_of_its_card(house: House) -> None:
    record = house.registry.add(OPS, "far", f"{URL}/.well-known/agent-card.json").record
    assert (record.url, record.added_by, record.card) == (URL, OPS.id, None)
    assert house.deployment.waker.refreshes == [("acme", "far")]


def test_a_peer_names_the_credential_and_must_be_at_the_url(house: House) -> None:
    house.cards.peers["p"] = URL + "/"
    house.cards.cards[URL + "/"] = card(MODES)
    house.registry.add(OPS, "far", URL, "p")
    assert house.refreshed().record.problem is None
    assert house.cards.asked == [("acme", "p")]
    house.registry.add(OPS, "further", "https://elsewhere.example", "p")
    assert house.refreshed("further").record.problem == "the URL is not the one of this peer"


def test_adding_again_after_a_lost_reply_is_no_error(house: House) -> None:
    house.deployment.hook(after=once("write", no_answer))
    first = house.registry.add(OPS, "far", URL)
    assert house.registry.add(OPS, "far", URL).record == first.record
    assert len(house.deployment.due_rows()) == 1


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("desk", URL),
        ("Far", URL),
        ("far#1", URL),
        ("", URL),
        ("f" * 65, URL),
        ("far", "ftp://agents.example"),
        ("far", "https://user:secret@agents.example"),
        ("far", "https://agents.example?a=b"),
        ("far", "https://agents.example/#a"),
        ("far", "https://"),
        ("far", "https://[agents"),
        ("far", "https://agents.example/" + "x" * 2048),
    ],
)
def test_names_and_urls_that_can_not_be_are_refused(house: House, name: str, url: str) -> None:
    with house.deployment.unchanged(), pytest.raises(InvalidParams):
        house.registry.add(OPS, name, url)


def test_a_name_that_is_taken_is_refused(house: House) -> None:
    house.added()
    with pytest.raises(InvalidParams):
        house.registry.add(OPS, "far", "https://elsewhere.example")
    with pytest.raises(InvalidParams):
        house.registry.add(PLATFORM, "far", URL)


def test_a_tenant_has_a_limited_number_of_agents(house: House) -> None:
    for number in range(MAX_AGENTS):
        house.registry.add(OPS, f"far-{number}", URL)
    with pytest.raises(InvalidParams):
        house.registry.add(OPS, "one-more", URL)


def test_a_name_that_an_agent_here_has_got_is_not_served_elsewhere(house: House) -> None:
    house.added()
    taken = replace(house.registry, here=lambda: [Skill("far", "work")])
    with pytest.raises(AgentNotFound):
        taken.get("acme", "far")


def test_an_override_raises_and_never_lowers(house: House) -> None:
    house.added()
    house.registry.override(OPS, "far", "autonomous", Mode.VETO)
    agent = house.registry.override(OPS, "far", "compound", Mode.AUTONOMOUS)
    assert (agent.skills["autonomous"].mode.mode, agent.skills["autonomous"].source) == (
        Mode.VETO,
        "override",
    )
    assert (agent.skills["compound"].mode.mode, agent.skills["compound"].source) == (
        Mode.COMPOUND,
        "declared",
    )
    assert house.refreshed().skills["autonomous"].mode.mode is Mode.VETO
    house.registry.override(OPS, "far", "autonomous", None)
    assert house.mode("autonomous") is Mode.AUTONOMOUS


def test_an_override_of_every_skill_holds_for_those_that_come_later(house: House) -> None:
    house.added()
    house.registry.override(OPS, "far", EVERY_SKILL, Mode.GATED)
    assert house.mode("autonomous") is Mode.GATED
    assert house.mode("compound") is Mode.COMPOUND
    house.cards.cards[URL] = card({"new": {"mode": "autonomous"}})
    house.refreshed()
    assert house.mode("new") is Mode.GATED


def test_an_override_of_what_is_not_there_is_refused(house: House) -> None:
    house.added()
    for skill in ("nothing", "", "s" * 257):
        with pytest.raises(InvalidParams):
            house.registry.override(OPS, "far", skill, Mode.GATED)
    with pytest.raises(AgentNotFound):
        house.registry.override(OPS, "nobody", "go", Mode.GATED)


def test_overrides_are_limited_in_number() -> None:
    many = {f"s{number}": {"mode": "autonomous"} for number in range(MAX_OVERRIDES + 1)}
    house = House(card=card(many))
    house.added()
    for skill in list(many)[:MAX_OVERRIDES]:
        house.registry.override(OPS, "far", skill, Mode.GATED)
    with pytest.raises(InvalidParams):
        house.registry.override(OPS, "far", "s200", Mode.GATED)


@pytest.mark.parametrize("who", [AGENT, ANN, replace(OPS, kind=Kind.SERVICE, roles=frozenset(Role))])
def test_only_people_who_operate_change_anything(house: House, who: Any) -> None:
    house.added()
    with house.deployment.unchanged():
        for change in (
            lambda: house.registry.add(who, "near", URL),
            lambda: house.registry.remove(who, "far"),
            lambda: house.registry.override(who, "far", "veto", Mode.GATED),
            lambda: house.registry.ask_refresh(who, "far"),
        ):
            with pytest.raises(PermissionDenied):
                change()


def test_another_tenants_agents_are_not_there(house: House) -> None:
    house.added()
    assert list(house.registry.all("other")) == []
    for change in (
        lambda: house.registry.get("other", "far"),
        lambda: house.registry.remove(SPY, "far"),
        lambda: house.registry.override(SPY, "far", "veto", Mode.GATED),
        lambda: house.registry.ask_refresh(SPY, "far"),
    ):
        with pytest.raises(AgentNotFound):
            change()
    house.registry.add(SPY, "far", URL)
    house.registry.remove(SPY, "far")
    assert [agent.record.name for agent in house.registry.all("acme")] == ["far"]


def test_what_people_do_and_a_card_that_changed_are_on_the_trail(house: House) -> None:
    house.added()
    house.refreshed()
    house.registry.override(OPS, "far", "autonomous", Mode.VETO)
    house.registry.override(OPS, "far", "autonomous", Mode.VETO)
    house.registry.remove(OPS, "far")
    assert sorted(house.facts(), key=lambda fact: str(fact["action"])) == [
        {"by": None, "action": "card", "agent": "far"},
        {"by": "ops", "action": "override", "agent": "far", "skill": "autonomous", "mode": "veto"},
        {"by": "ops", "action": "register", "agent": "far", "url": URL},
        {"by": "ops", "action": "remove", "agent": "far"},
    ]


@pytest.mark.parametrize("act", ["add", "override", "remove", "refresh"])
def test_what_is_done_is_done_once_whether_or_not_the_reply_comes(house: House, act: str) -> None:
    if act != "add":
        house.added()
    house.deployment.hook(after=once("write", no_answer))
    match act:
        case "add":
            house.registry.add(OPS, "far", URL)
        case "override":
            house.registry.override(OPS, "far", "veto", Mode.COMPOUND)
        case "remove":
            house.registry.remove(OPS, "far")
        case "refresh":
            house.cards.cards[URL] = card({"new": {"mode": "veto"}})
            house.refreshed()
    house.deployment.hook()
    expected = {"add": ["register"], "refresh": ["card", "card", "register"]}.get(
        act, ["card", act, "register"]
    )
    assert sorted(fact["action"] for fact in house.facts()) == sorted(expected)


def test_a_record_is_read_as_it_was_written(house: House) -> None:
    record = house.added().record
    assert Registered.read(record.item()) == record
