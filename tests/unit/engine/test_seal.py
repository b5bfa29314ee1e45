"""Sealing: every fact is on its chain exactly once, and the chain never forks."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.signers import new_signer
from tests.support.twin import START, Deployment, HookedTable, SettableClock, nothing, once, running

from interlock.a2a.errors import Unavailable
from interlock.adapters.memory import MemoryTable
from interlock.adapters.signing import FileSigner
from interlock.adapters.verifying import signed_by, trusted_keys
from interlock.engine.facts import Fact, fact_pk
from interlock.engine.ports import OutcomeUnknown, Table
from interlock.engine.retention import MIN_DAYS, Held, hold, purge, release
from interlock.engine.seal import (
    BATCH,
    UNSIGNED,
    Sealer,
    chains,
    export,
    head,
    records_pk,
    register,
    rows,
    seal,
    unsealed,
    wake_for_unsealed,
)
from interlock.oversight.audit import Report, as_line, verify

CLOCK = SettableClock()


@pytest.fixture
def table() -> MemoryTable:
    return MemoryTable()


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> FileSigner:
    return new_signer(tmp_path_factory.mktemp("keys"))


def append(table: Table, count: int, chain: str = "acme", *, days: float = 0, first: int = 0) -> None:
    for number in range(first, first + count):
        at = START + timedelta(days=days, seconds=number)
        table.write(Fact("call", "bearer:alice", detail={"number": number}).put(chain, at))


def numbers(table: Table, chain: str = "acme") -> list[int]:
    records = [json.loads(str(item["record"])) for _, item in rows(table, records_pk(chain))]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    return [record["detail"]["number"] for record in records]


def checked(table: Table, signer: FileSigner, tmp_path: Path) -> Report:
    key = tmp_path / "jwks.json"
    key.write_text(json.dumps({"keys": [signer.public_jwk]}))
    return verify(export(table, "acme"), signed_by(trusted_keys(key)))


def waiting(table: Table, chain: str = "acme") -> int:
    return len(table.query(fact_pk(chain)).rows)


@pytest.mark.parametrize("count", [0, 1, BATCH, BATCH + 1, 3 * BATCH + 7])
def test_facts_become_records_in_the_order_of_their_time(table: MemoryTable, count: int) -> None:
    append(table, count)
    assert seal(Sealer(table, CLOCK), "acme") == count
    assert numbers(table) == list(range(count))
    assert waiting(table) == 0
    assert seal(Sealer(table, CLOCK), "acme") == 0


def test_a_chain_goes_on_where_it_was(table: MemoryTable) -> None:
    for first in (0, 3, 6):
        append(table, 3, first=first)
        seal(Sealer(table, CLOCK), "acme")
    assert numbers(table) == list(range(9))


def test_chains_do_not_know_each_other(table: MemoryTable) -> None:
    append(table, 2)
    append(table, 3, "other")
    append(table, 1, "")
    assert [seal(Sealer(table, CLOCK), chain) for chain in ("acme", "other", "")] == [2, 3, 1]
    assert [head(table, chain).seq for chain in ("acme", "other", "")] == [2, 3, 1]


def test_a_lost_reply_neither_loses_nor_doubles(table: MemoryTable) -> None:
    def lost() -> None:
        raise OutcomeUnknown

    append(table, 5)
    assert seal(Sealer(HookedTable(table, after=once("write", lost)), CLOCK), "acme") == 0
    assert numbers(table) == list(range(5))


def test_a_write_that_was_not_carried_out_is_made_again(table: MemoryTable) -> None:
    def lost() -> None:
        raise OutcomeUnknown

    append(table, 5)
    seal(Sealer(HookedTable(table, before=once("write", lost)), CLOCK), "acme")
    assert numbers(table) == list(range(5))


@pytest.mark.parametrize(("when", "operation"), [("after", "query"), ("before", "write")])
def test_a_sealer_that_was_overtaken_reads_again(table: MemoryTable, when: str, operation: str) -> None:
    """Another one seals what the first has read, before that gets to write."""

    def overtake() -> None:
        seal(Sealer(table, CLOCK), "acme")
        append(table, 2, first=5)

    append(table, 5)
    seal(Sealer(HookedTable(table, **{when: once(operation, overtake)}), CLOCK), "acme")
    assert numbers(table) == list(range(7))


def test_a_store_that_does_not_answer_is_said_and_nothing_is_lost(table: MemoryTable) -> None:
    def silent(operation: str, arguments: tuple[object, ...]) -> None:
        if operation == "write":
            raise OutcomeUnknown

    append(table, 5)
    with pytest.raises(Unavailable):
        seal(Sealer(HookedTable(table, before=silent), CLOCK), "acme")
    assert (waiting(table), numbers(table)) == (5, [])


def test_many_appenders_and_sealers_at_once_make_one_chain(table: MemoryTable) -> None:
    def work(worker: int) -> None:
        for number in range(4):
            append(table, 1, first=worker * 4 + number)
            seal(Sealer(table, SettableClock()), "acme")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(64)))
    seal(Sealer(table, CLOCK), "acme")
    assert sorted(numbers(table)) == list(range(256))
    assert not verify(export(table, "acme"), lambda *_: True).findings[1:]


class TestCheckpoints:
    def test_are_signed_every_so_many_records(
        self, table: MemoryTable, signer: FileSigner, tmp_path: Path
    ) -> None:
        sealer = Sealer(table, CLOCK, signer, every=10)
        append(table, 9)
        seal(sealer, "acme")
        assert checked(table, signer, tmp_path).signed == 0
        append(table, 1, first=9)
        seal(sealer, "acme")
        append(table, 4, first=10)
        seal(sealer, "acme")
        report = checked(table, signer, tmp_path)
        assert (report.records, report.signed, report.findings) == (14, 10, ())

    def test_are_another_keys_for_who_has_another(
        self, table: MemoryTable, signer: FileSigner, tmp_path: Path
    ) -> None:
        append(table, 3)
        seal(Sealer(table, CLOCK, signer, every=1), "acme")
        report = checked(table, new_signer(tmp_path, "theirs.pem"), tmp_path)
        assert [finding.line for finding in report.findings] == [4, 0]

    def test_a_key_that_does_not_answer_holds_nothing_up_and_the_checkpoint_stays_due(
        self,
        table: MemoryTable,
        signer: FileSigner,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        class Silent(FileSigner):
            def sign(self, data: bytes) -> bytes:
                raise Unavailable

            kid = "silent"

        append(table, 3)
        assert seal(Sealer(table, CLOCK, Silent(Path()), every=1), "acme") == 3
        assert [record.message for record in caplog.records] == [UNSIGNED]
        assert numbers(table) == [0, 1, 2]
        seal(Sealer(table, CLOCK, signer, every=1), "acme")
        assert checked(table, signer, tmp_path).signed == 3


class TestSweeping:
    def test_chains_are_known_by_their_rows(self, table: MemoryTable) -> None:
        for chain in ("acme", "", "acme"):
            register(table, chain)
        assert chains(table) == ["", "acme"]

    def test_how_long_the_oldest_fact_waits(self, table: MemoryTable) -> None:
        assert unsealed(table, "acme", START) == timedelta()
        append(table, 3)
        assert unsealed(table, "acme", START + timedelta(minutes=2)) == timedelta(minutes=2)


class TestRetention:
    now = START + timedelta(days=400)

    @pytest.fixture(autouse=True)
    def trail(self, table: MemoryTable, signer: FileSigner) -> None:
        sealer = Sealer(table, CLOCK, signer, every=5)
        append(table, 120)
        append(table, 10, first=120, days=300)
        seal(sealer, "acme")

    def test_what_is_old_goes_and_what_is_left_verifies(
        self, table: MemoryTable, signer: FileSigner, tmp_path: Path
    ) -> None:
        assert purge(table, signer, "acme", days=MIN_DAYS, now=self.now) == 120
        report = checked(table, signer, tmp_path)
        assert (report.records, report.last, report.findings) == (10, 130, ())
        append(table, 1, first=130, days=301)
        seal(Sealer(table, CLOCK, signer), "acme")
        assert checked(table, signer, tmp_path).last == 131

    def test_the_newest_record_stays_however_old(
        self, table: MemoryTable, signer: FileSigner, tmp_path: Path
    ) -> None:
        later = START + timedelta(days=4000)
        assert purge(table, signer, "acme", days=MIN_DAYS, now=later) == 129
        assert purge(table, signer, "acme", days=MIN_DAYS, now=later) == 0
        assert head(table, "acme").seq == 130
        assert checked(table, signer, tmp_path).findings == ()

    def test_nothing_young_is_purged(self, table: MemoryTable, signer: FileSigner) -> None:
        assert purge(table, signer, "acme", days=MIN_DAYS, now=START + timedelta(days=100)) == 0
        with pytest.raises(ValueError, match="184"):
            purge(table, signer, "acme", days=MIN_DAYS - 1, now=self.now)

    def test_a_legal_hold_keeps_all_until_it_is_released(
        self, table: MemoryTable, signer: FileSigner
    ) -> None:
        hold(table, "acme", "case 7", self.now)
        with pytest.raises(Held):
            purge(table, signer, "acme", days=MIN_DAYS, now=self.now)
        assert len(numbers(table)) == 130
        release(table, "acme")
        assert purge(table, signer, "acme", days=MIN_DAYS, now=self.now) == 120

    @pytest.mark.parametrize("dies_at", range(1, 4))
    def test_a_purge_that_was_interrupted_verifies_and_is_finished_by_the_next(
        self, table: MemoryTable, signer: FileSigner, tmp_path: Path, dies_at: int
    ) -> None:
        writes = 0

        def die(operation: str, arguments: tuple[object, ...]) -> None:
            nonlocal writes
            writes += operation == "write"
            if operation == "write" and writes == dies_at:
                raise OutcomeUnknown

        with pytest.raises(OutcomeUnknown):
            purge(HookedTable(table, after=die), signer, "acme", days=MIN_DAYS, now=self.now)
        assert checked(table, signer, tmp_path).findings == ()
        purge(table, signer, "acme", days=MIN_DAYS, now=self.now)
        assert len(list(rows(table, records_pk("acme")))) == 10

    def test_without_its_anchor_the_rest_does_not_verify(
        self, table: MemoryTable, signer: FileSigner
    ) -> None:
        purge(table, signer, "acme", days=MIN_DAYS, now=self.now)
        _, *lines = export(table, "acme")
        assert any(finding.line == 1 for finding in verify(lines, lambda *_: True).findings)


@pytest.mark.parametrize("what", ["", "{}", "[]", "no json", '{"keys":[]}', "-----BEGIN PUBLIC KEY-----"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "key").write_text(what)
    with pytest.raises(ValueError, match="no public key"):
        trusted_keys(tmp_path / "key")


def test_a_public_key_in_pem_will_do(signer: FileSigner, table: MemoryTable, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = signer._public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(pem)
    append(table, 3)
    seal(Sealer(table, CLOCK, signer, every=1), "acme")
    report = verify(export(table, "acme"), signed_by(trusted_keys(tmp_path / "key.pem")))
    assert (report.signed, report.findings) == (3, ())


def test_an_exported_line_is_the_record_as_it_was_sealed(table: MemoryTable) -> None:
    append(table, 1)
    seal(Sealer(table, CLOCK), "acme")
    (line,) = export(table, "acme")
    assert as_line(json.loads(line)) == line


def test_the_sweeper_wakes_for_facts_that_nobody_seals_and_says_how_long_they_wait() -> None:
    deployment = Deployment(running(nothing))
    for chain in ("acme", "young", "empty"):
        register(deployment.table, chain)
    append(deployment.table, 1)
    append(deployment.table, 1, "young", first=50)
    deployment.clock.advance(60)
    assert wake_for_unsealed(deployment.engine) == 60
    assert deployment.waker.chains == ["acme"]
