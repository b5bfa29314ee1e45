"""What the settings make of push notifications."""

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.support.a2a_wire import ask

from interlock import bootstrap
from interlock.adapters.sealing import FileSealer, KmsSealer, create_seal_key
from interlock.engine.push import Push
from interlock.settings import Settings

URL = "http://127.0.0.1:9/hook"


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Push | None]]:
    def choose(**variables: str) -> Push | None:
        chosen = Settings.load({f"INTERLOCK_{name}": value for name, value in variables.items()})
        monkeypatch.setattr(bootstrap, "settings", lambda: chosen)
        monkeypatch.setattr(bootstrap, "engine", Mock)
        bootstrap.push.cache_clear()
        return bootstrap.push()

    yield choose
    bootstrap.push.cache_clear()
    bootstrap.queues.cache_clear()


def test_without_a_key_they_are_off_and_the_card_says_so(configure: Callable[..., Push | None]) -> None:
    assert configure() is None
    card = ask(bootstrap.agents_door(), "GET", "/.well-known/agent-card.json").json()
    assert card["capabilities"].get("pushNotifications", False) is False


def test_a_key_turns_them_on(configure: Callable[..., Push | None], tmp_path: Path) -> None:
    create_seal_key(tmp_path / "seal.key")
    push = configure(SEAL_KEY=f"file:{tmp_path / 'seal.key'}")
    assert push is not None
    assert isinstance(push.sealer, FileSealer)
    assert push.sealer.unseal(push.sealer.seal(b"secret", "here"), "here") == b"secret"
    card = ask(bootstrap.agents_door(), "GET", "/.well-known/agent-card.json").json()
    assert card["capabilities"]["pushNotifications"] is True


def test_a_key_of_kms_is_asked_for_nothing_until_there_is_something_to_seal(
    configure: Callable[..., Push | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock()
    monkeypatch.setattr("interlock.adapters.signing.kms_client", made)
    push = configure(SEAL_KEY="arn:aws:kms:eu-central-1:111122223333:key/one")
    assert push is not None
    assert isinstance(push.sealer, KmsSealer)
    made.assert_not_called()


def test_addresses_of_the_own_network_are_for_a_laptop(configure: Callable[..., Push | None]) -> None:
    deployed = configure(SEAL_KEY="key")
    assert deployed is not None
    with pytest.raises(ValueError, match="https"):
        deployed.receiver.check(URL)
    laptop = configure(SEAL_KEY="key", LOCAL_WEBHOOKS="true")
    assert laptop is not None
    laptop.receiver.check(URL)


def test_what_is_to_be_delivered_rests_while_they_are_off(configure: Callable[..., Push | None]) -> None:
    configure()
    bootstrap.deliver("acme", "task", 60.0)


def test_a_delivery_ends_before_its_function_does(
    configure: Callable[..., Push | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered = Mock()
    monkeypatch.setattr("interlock.engine.push.deliver", delivered)
    push = configure(SEAL_KEY="key")
    bootstrap.deliver("acme", "task", 60.0)
    delivered.assert_called_once_with(push, "acme", "task", 40.0)
    bootstrap.deliver("acme", "task", 5.0)
    assert delivered.call_args.args[3] == 0.0


def test_the_stream_wakes_by_the_partition_of_the_task(
    configure: Callable[..., Push | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure()
    engine = Mock()
    monkeypatch.setattr(bootstrap, "engine", lambda: engine)
    bootstrap.wake_delivery("T#a#b#0190a7c2-0000-7000-8000-00000000000c")
    engine.waker.wake_push.assert_called_once_with("a#b", "0190a7c2-0000-7000-8000-00000000000c")
