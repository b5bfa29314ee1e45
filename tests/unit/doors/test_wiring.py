"""What the settings make of the agents' door."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.support.a2a_wire import ask

from interlock import bootstrap
from interlock.adapters.signing import FileSigner, KmsSigner, create_signing_key
from interlock.agents.demo import agent as demo
from interlock.doors.agents import agent_card
from interlock.engine.canary import CANARY
from interlock.settings import Settings

CARD = "/.well-known/agent-card.json"


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    def choose(**variables: str) -> None:
        chosen = Settings.load({f"INTERLOCK_{name}": value for name, value in variables.items()})
        monkeypatch.setattr(bootstrap, "settings", lambda: chosen)
        monkeypatch.setattr(bootstrap, "engine", Mock)
        monkeypatch.setattr(bootstrap, "push", lambda: None)
        bootstrap.signer.cache_clear()

    yield choose
    bootstrap.signer.cache_clear()


def card(**headers: str) -> Any:
    return ask(bootstrap.agents_door(), "GET", CARD, headers={"host": "a.example", **headers}).json()


def test_by_default_the_card_is_one_of_1_0_and_not_signed(configure: Callable[..., None]) -> None:
    configure()
    shown = card()
    assert bootstrap.signer() is None
    assert {"url", "signatures"}.isdisjoint(shown)
    assert list(shown["securitySchemes"]) == ["bearer"]
    assert "securityRequirements" in shown


def test_0_3_is_served_where_it_is_set(configure: Callable[..., None]) -> None:
    configure(A2A_0_3="true", OIDC_ISSUER="https://id.example")
    shown = card()
    assert (shown["url"], shown["protocolVersion"]) == ("http://a.example", "0.3.0")
    assert list(shown["securitySchemes"]) == ["bearer", "oidc"]
    assert [interface["protocolVersion"] for interface in shown["supportedInterfaces"]] == [
        "1.0",
        "1.0",
        "0.3",
    ]


def test_a_key_file_signs_the_card_of_a_known_address(configure: Callable[..., None], tmp_path: Path) -> None:
    create_signing_key(tmp_path / "key.pem")
    configure(SIGNING_KEY=f"file:{tmp_path / 'key.pem'}", PUBLIC_URL="https://public.example")
    assert isinstance(bootstrap.signer(), FileSigner)
    assert len(card()["signatures"]) == 2


@pytest.mark.parametrize("key", ["alias/card", "arn:aws:kms:eu-central-1:123456789012:key/1"])
def test_any_other_key_is_one_of_kms(configure: Callable[..., None], key: str) -> None:
    configure(SIGNING_KEY=key)
    assert isinstance(bootstrap.signer(), KmsSigner)


def test_where_anonymous_callers_are_served_the_card_asks_for_no_credential(
    configure: Callable[..., None],
) -> None:
    configure(ANONYMOUS_TENANT="demo")
    assert "securityRequirements" not in card()


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("nowhere_to_be_found:agent", "there is no module nowhere_to_be_found"),
        ("interlock.agents.nowhere:agent", "there is no module interlock.agents.nowhere"),
        ("interlock.agents.demo:nope", "nope of interlock.agents.demo is not an interlock.Agent"),
        ("interlock.agents.demo:help_", "help_ of interlock.agents.demo is not an interlock.Agent"),
    ],
)
def test_an_agent_that_is_not_there_is_named(configure: Callable[..., None], named: str, why: str) -> None:
    configure(AGENT=named)
    with pytest.raises(bootstrap.NoAgent, match=f"^INTERLOCK_AGENT={named}: {why}$"):
        bootstrap.agent.__wrapped__()


def test_the_canary_of_drills_is_beside_the_agent_and_on_no_public_card(
    configure: Callable[..., None],
) -> None:
    configure(AGENT="interlock.agents.demo:agent")
    served = bootstrap.agent.__wrapped__()
    assert served.declared(CANARY.agent, CANARY.id) is not None
    assert (served.name, served.skills[:-1]) == (demo.name, demo.skills)
    assert demo.declared(CANARY.agent, CANARY.id) is None
    listed = {skill.id for skill in agent_card(served).skills}
    assert "release" in listed
    assert CANARY.id not in listed
