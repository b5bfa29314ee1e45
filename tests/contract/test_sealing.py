"""What is sealed opens again where it belongs, nowhere else, and only with its key."""

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from tests.support.emulator import Emulator

from interlock.adapters.sealing import FileSealer, KmsSealer, create_seal_key
from interlock.adapters.signing import kms_client
from interlock.engine.push import MAX_CONFIG_BYTES, Sealer, SealFailed

SECRET = b'{"credentials":"s3cret"}'
NewSealer = Callable[[], Sealer]


@pytest.fixture(params=["file", "moto"])
def new_sealer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewSealer]:
    """Makes sealers, each with a key of its own."""
    if request.param == "file":
        paths = (tmp_path / f"{number}.key" for number in range(9))

        def with_file() -> Sealer:
            path = next(paths)
            create_seal_key(path)
            return FileSealer(path)

        yield with_file
    else:
        request.getfixturevalue("no_aws")
        with mock_aws():
            yield lambda: with_key(kms_client())


def with_key(client: Any) -> Sealer:
    return KmsSealer(lambda: client, client.create_key()["KeyMetadata"]["Arn"])


def test_what_is_sealed_opens_again(new_sealer: NewSealer) -> None:
    sealer = new_sealer()
    for secret in (SECRET, b"\0", bytes(range(256)) * (MAX_CONFIG_BYTES // 256)):
        assert sealer.unseal(sealer.seal(secret, "here"), "here") == secret


def test_it_can_not_be_read_and_is_never_the_same_twice(new_sealer: NewSealer) -> None:
    sealer = new_sealer()
    sealed = [sealer.seal(SECRET, "here") for _ in range(3)]
    assert len(set(sealed)) == 3
    assert not any(b"s3cret" in one for one in sealed)


def test_it_does_not_open_elsewhere(new_sealer: NewSealer) -> None:
    sealer = new_sealer()
    with pytest.raises(SealFailed):
        sealer.unseal(sealer.seal(SECRET, "here"), "there")


def test_it_does_not_open_with_another_key(new_sealer: NewSealer) -> None:
    with pytest.raises(SealFailed):
        new_sealer().unseal(new_sealer().seal(SECRET, "here"), "here")


@pytest.mark.parametrize("place", [0, 1, -1])
def test_it_does_not_open_once_it_was_changed(new_sealer: NewSealer, place: int) -> None:
    sealer = new_sealer()
    changed = bytearray(sealer.seal(SECRET, "here"))
    changed[place] ^= 1
    with pytest.raises(SealFailed):
        sealer.unseal(bytes(changed), "here")


@pytest.mark.parametrize("length", [0, 1, 5, 13])
def test_what_was_cut_off_does_not_open(new_sealer: NewSealer, length: int) -> None:
    sealer = new_sealer()
    with pytest.raises(SealFailed):
        sealer.unseal(sealer.seal(SECRET, "here")[:length], "here")


def test_the_emulator_which_does_not_look_for_changes_opens_what_it_sealed(emulator: Emulator) -> None:
    sealer = with_key(kms_client(emulator.url))
    assert sealer.unseal(sealer.seal(SECRET, "here"), "here") == SECRET
    with pytest.raises(SealFailed):
        sealer.unseal(sealer.seal(SECRET, "here"), "there")


def test_a_key_that_does_not_answer_is_a_failure() -> None:
    sealer = KmsSealer(lambda: kms_client("http://127.0.0.1:1"), "key")
    with pytest.raises(SealFailed):
        sealer.seal(SECRET, "here")
    with pytest.raises(SealFailed):
        sealer.unseal(b"\x02sealed", "here")


def test_a_key_file_is_its_owners_alone_and_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    create_seal_key(path)
    key = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(key) == 32
    create_seal_key(path)
    assert path.read_bytes() == key


def test_a_key_of_another_size_is_none(tmp_path: Path) -> None:
    path = tmp_path / "seal.key"
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="32 bytes"):
        FileSealer(path).seal(SECRET, "here")


def test_what_a_kms_key_has_sealed_no_file_opens(tmp_path: Path) -> None:
    create_seal_key(tmp_path / "seal.key")
    with pytest.raises(SealFailed):
        FileSealer(tmp_path / "seal.key").unseal(b"\x02sealed", "here")
