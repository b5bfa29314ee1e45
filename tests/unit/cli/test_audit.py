"""`interlock audit` on moto: an export, and what `verify` says of it with nothing but the public key."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from tests.support.emulator import create_table
from tests.support.signers import new_signer
from tests.unit.cli.conftest import Invoke

from interlock.adapters.aws import session
from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.signing import FileSigner
from interlock.cli import audit
from interlock.engine.facts import Fact
from interlock.engine.seal import Sealer, seal

OLD = datetime.now(UTC) - timedelta(days=400)


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    session.cache_clear()
    yield
    session.cache_clear()


@pytest.fixture
def signer(tmp_path: Path) -> FileSigner:
    return new_signer(tmp_path, "audit-key.pem")


@pytest.fixture
def trail(signer: FileSigner) -> Iterator[str]:
    """The audit table of a deployment: the chain of `acme` has six old records and two new ones."""
    with mock_aws():
        client = dynamodb_client()
        core, audit = create_table(client), create_table(client)
        table = DynamoTable(client, core, audit)
        for number in range(8):
            at = OLD + timedelta(seconds=number) if number < 6 else datetime.now(UTC)
            table.write(Fact("call", "bearer:alice", detail={"number": number}).put("acme", at))
        seal(Sealer(table, SystemClock(), signer, every=8), "acme")
        yield audit


@pytest.fixture
def key(interlock: Invoke, signer: FileSigner, tmp_path: Path) -> str:
    shown = interlock("audit", "key", "--signing-key", "file:audit-key.pem")
    assert shown.exit_code == 0, shown.output
    (tmp_path / "jwks.json").write_text(shown.stdout)
    return "jwks.json"


def exported(interlock: Invoke, trail: str, *options: str) -> list[str]:
    result = interlock("audit", "export", "--tenant", "acme", "--table", trail, *options)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_an_export_verifies_offline_with_nothing_but_the_public_key(
    trail: str, interlock: Invoke, key: str, tmp_path: Path
) -> None:
    result = interlock("audit", "export", "--tenant", "acme", "--out", "acme.jsonl", "--table", trail)
    assert (result.exit_code, result.output) == (0, "")
    (tmp_path / "audit-key.pem").unlink()
    checked = interlock("audit", "verify", "acme.jsonl", "--key", key, AWS_ENDPOINT_URL="http://127.0.0.1:1")
    assert checked.exit_code == 0, checked.output
    assert checked.stdout == "8 records, the last is 8, signed up to 8: nothing was changed.\n"


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda lines: [line.replace("alice", "mallory") for line in lines], "edited"),
        (lambda lines: lines[:3] + lines[4:], "missing"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "moved"),
        (lambda lines: lines[:5] + lines[8:], "cut short"),
        (lambda lines: lines[:8], "no checkpoint"),
    ],
    ids=["edited", "deleted", "reordered", "truncated", "without its checkpoint"],
)
def test_a_changed_export_fails(
    trail: str, interlock: Invoke, key: str, tmp_path: Path, tamper: Any, said: str
) -> None:
    lines = exported(interlock, trail)
    (tmp_path / "acme.jsonl").write_text("\n".join(tamper(lines)) + "\n")
    checked = interlock("audit", "verify", "acme.jsonl", "--key", key)
    assert checked.exit_code == 1
    assert said in checked.stderr
    document = json.loads(interlock("audit", "verify", "acme.jsonl", "--key", key, "--json").stdout)
    assert any(said in finding["problem"] for finding in document["findings"])


def test_another_key_fails(trail: str, interlock: Invoke, key: str, tmp_path: Path) -> None:
    (tmp_path / "acme.jsonl").write_text("\n".join(exported(interlock, trail)))
    new_signer(tmp_path, "theirs.pem")
    theirs = interlock("audit", "key", "--signing-key", "file:theirs.pem").stdout
    (tmp_path / "theirs.json").write_text(theirs)
    checked = interlock("audit", "verify", "acme.jsonl", "--key", "theirs.json")
    assert checked.exit_code == 1
    assert "not signed by the trusted key" in checked.stderr


def test_a_checkpoint_that_was_kept_elsewhere_finds_a_tail_that_went_with_its_own(
    trail: str, interlock: Invoke, key: str, tmp_path: Path
) -> None:
    lines = exported(interlock, trail, "--sign", "--signing-key", "file:audit-key.pem")
    (tmp_path / "kept.jsonl").write_text(lines[-1])
    (tmp_path / "acme.jsonl").write_text("\n".join(lines[:4]))
    checked = interlock("audit", "verify", "acme.jsonl", "--key", key, "--checkpoints", "kept.jsonl")
    assert checked.exit_code == 1
    assert "cut short: it had come to 8" in checked.stderr


def test_a_purge_leaves_what_verifies_unless_the_chain_is_held(
    trail: str, interlock: Invoke, key: str, tmp_path: Path
) -> None:
    purge = ("audit", "purge", "--tenant", "acme", "--older-than", "200", "--table", trail)
    signing = ("--signing-key", "file:audit-key.pem")
    of_acme = ("--tenant", "acme", "--table", trail)
    assert interlock("audit", "hold", *of_acme, "--reason", "case 7").exit_code == 0
    held = interlock(*purge, *signing)
    assert (held.exit_code, "legal hold" in held.stderr) == (1, True)
    assert interlock("audit", "release", *of_acme).exit_code == 0
    purged = interlock(*purge, *signing)
    assert (purged.exit_code, purged.stdout) == (0, "6 records deleted.\n")
    (tmp_path / "acme.jsonl").write_text("\n".join(exported(interlock, trail)))
    checked = interlock("audit", "verify", "acme.jsonl", "--key", key)
    assert checked.stdout == "2 records, the last is 8, signed up to 8: nothing was changed.\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("purge", "--tenant", "acme", "--older-than", "183", "--table", "t", "--signing-key", "file:k"), 2),
        (("purge", "--tenant", "acme", "--older-than", "184", "--table", "t"), 2),
        (("export", "--tenant", "acme"), 2),
        (("key",), 2),
        (("key", "--signing-key", "file:no-such-file"), 2),
        (("verify", "no-such-file", "--key", "no-such-key"), 2),
        (("export", "--tenant", "acme", "--table", "no-such-table"), 1),
    ],
)
def test_wrong_usage_and_refusals_have_their_exit_codes(
    trail: str, interlock: Invoke, arguments: tuple[str, ...], code: int
) -> None:
    result = interlock("audit", *arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output


def test_the_table_and_the_key_are_found_by_the_stack(
    trail: str, interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = {("here", "AuditTable"): trail, ("here", "AuditKey"): "file:audit-key.pem"}
    monkeypatch.setattr(audit, "output_of", lambda *named: outputs[named])
    assert interlock("audit", "key", "--stack", "here").exit_code == 0
    signed = interlock("audit", "export", "--tenant", "acme", "--sign", "--stack", "here")
    assert len(signed.stdout.splitlines()) == 10, signed.output
