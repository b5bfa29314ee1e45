"""The audit chain: its records, and that whatever is done to an export is found."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.oversight.audit import (
    ANCHOR,
    Checkpoint,
    as_line,
    record_hash,
    sealed,
    verify,
)
from interlock.oversight.canonical_json import canonical

TIME = "2026-10-08T12:00:00.000Z"
Lines = list[str]


def sign(key: str, protected: str, body: bytes) -> str:
    """Stands in for a private key: who does not know `key` can not make one."""
    return hashlib.sha256(f"{key} {protected}".encode() + body).hexdigest()


def signed_by(key: str) -> Callable[[str, bytes, str], bool]:
    return lambda protected, body, signature: signature == sign(key, protected, body)


def checkpoint(records: list[dict[str, Any]], seq: int, *, key: str = "ours", **more: Any) -> str:
    record = next(record for record in records if record["seq"] == seq)
    made = Checkpoint(record["chain"], seq, record["hash"], TIME, **more)
    return as_line(made.signed("header", sign(key, "header", canonical(made.body()))))


def chain(length: int, name: str = "acme", subject: str = "alice") -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for seq in range(1, length + 1):
        fact = {"time": TIME, "kind": "call", "actor": {"subject": subject}, "taskId": f"t-{seq}"}
        prev = records[-1]["hash"] if records else None
        records.append(sealed(fact, chain=name, seq=seq, prev=prev))
    return records


def export(records: list[dict[str, Any]], *checkpoints: str) -> Lines:
    return [*map(as_line, records), *checkpoints]


def problems(lines: Lines, key: str = "ours") -> list[tuple[int, str]]:
    return [(found.line, found.problem) for found in verify(lines, signed_by(key)).findings]


def test_the_hash_of_the_known_record() -> None:
    fact = {
        "time": TIME,
        "kind": "call",
        "actor": {"subject": "alice", "scheme": "jwt"},
        "method": "SendMessage",
        "outcome": {"status": "ok"},
        "taskId": "t-1",
        "digests": {"message": "sha256:" + hashlib.sha256(b"x").hexdigest()},
    }
    record = sealed(fact, chain="acme", seq=1, prev=None)
    assert record["hash"] == "sha256:ee0380f398876301cf4dfb6d01ea80064f57017db708b4fd7eacb2d71c946860"
    assert "prev" not in record


def test_empty_members_are_absent_and_the_chain_of_nobody_is_empty() -> None:
    fact: dict[str, Any] = {
        "time": TIME,
        "kind": "call",
        "taskId": None,
        "detail": {},
        "state": "",
        "unheard-of": 1,
    }
    record = sealed(fact, chain="", seq=1, prev=None)
    assert set(record) == {"schema", "chain", "seq", "time", "kind", "hash"}
    assert record["chain"] == ""


def test_false_and_zero_are_not_empty() -> None:
    record = sealed(
        {"time": TIME, "kind": "x", "eventSeq": 0, "detail": {"a": False}}, chain="", seq=1, prev=None
    )
    assert record["eventSeq"] == 0
    assert record["detail"] == {"a": False}


def test_an_untouched_export_is_whole_and_says_what_is_signed() -> None:
    records = chain(5)
    report = verify(export(records, checkpoint(records, 4)), signed_by("ours"))
    assert (report.chain, report.records, report.last, report.signed) == ("acme", 5, 5, 4)
    assert report.findings == ()


def test_a_record_survives_being_stored_as_text() -> None:
    (record,) = chain(1)
    assert json.loads(as_line(record)) == record
    assert record_hash(json.loads(as_line(record))) == record["hash"]


class TestTampering:
    records = chain(6)
    kept = checkpoint(records, 6)

    def lines(self) -> Lines:
        return export(self.records, self.kept)

    def test_an_edited_record(self) -> None:
        lines = self.lines()
        lines[2] = lines[2].replace("alice", "mallory")
        assert problems(lines) == [(3, "the record was edited: its hash is another")]

    def test_an_edited_record_with_a_new_hash(self) -> None:
        edited = {**self.records[2], "actor": {"subject": "mallory"}}
        edited["hash"] = record_hash(edited)
        lines = self.lines()
        lines[2] = as_line(edited)
        assert problems(lines) == [(4, "it does not follow the record before it")]

    def test_an_edited_last_record_with_a_new_hash(self) -> None:
        edited = {**self.records[5], "actor": {"subject": "mallory"}}
        edited["hash"] = record_hash(edited)
        lines = self.lines()
        lines[5] = as_line(edited)
        assert problems(lines) == [(7, "the chain was sealed anew since this checkpoint")]

    @pytest.mark.parametrize("gone", range(5))
    def test_a_deleted_record(self, gone: int) -> None:
        lines = self.lines()
        del lines[gone]
        assert any(line == gone + 1 and "missing" in problem for line, problem in problems(lines))

    @pytest.mark.parametrize("first", range(5))
    def test_reordered_records(self, first: int) -> None:
        lines = self.lines()
        lines[first], lines[first + 1] = lines[first + 1], lines[first]
        assert any(line == first + 1 and "moved" in problem for line, problem in problems(lines))

    def test_a_doubled_record(self) -> None:
        lines = self.lines()
        lines.insert(3, lines[2])
        assert any(line == 4 and "slipped in" in problem for line, problem in problems(lines))

    def test_a_chain_that_was_sealed_anew(self) -> None:
        forged = chain(6, subject="mallory")
        assert problems(export(forged, self.kept)) == [(7, "the chain was sealed anew since this checkpoint")]

    @pytest.mark.parametrize("left", range(6))
    def test_a_tail_that_was_cut_off(self, left: int) -> None:
        lines = export(self.records[:left], self.kept)
        assert problems(lines) == [(left + 1, "the chain is cut short: it had come to 6")]

    def test_a_record_of_another_chain(self) -> None:
        foreign = sealed({"time": TIME, "kind": "call"}, chain="other", seq=7, prev=self.records[5]["hash"])
        lines = [*export(self.records), as_line(foreign), self.kept]
        assert problems(lines) == [(7, "it belongs to another chain")]

    def test_a_checkpoint_of_another_chain_vouches_for_nothing(self) -> None:
        others = chain(6, "other")
        found = problems(export(self.records, checkpoint(others, 6)))
        assert [line for line, _ in found] == [7, 0]

    def test_another_key(self) -> None:
        found = problems(export(self.records, checkpoint(self.records, 6, key="theirs")))
        assert [problem for line, problem in found if line == 7] == [
            "the checkpoint is not signed by the trusted key"
        ]

    def test_an_edited_checkpoint(self) -> None:
        edited = {**json.loads(self.kept), "seq": 5, "hash": self.records[4]["hash"]}
        assert any(
            "not signed" in problem for _, problem in problems(export(self.records[:5], as_line(edited)))
        )

    def test_no_checkpoint_at_all(self) -> None:
        assert [line for line, _ in problems(export(self.records))] == [0]
        assert [line for line, _ in problems([])] == [0]

    @pytest.mark.parametrize(
        "line",
        [
            "",
            "no json",
            "[]",
            "{}",
            '{"schema":"a2a-audit/2"}',
            '{"schema":"a2a-audit-checkpoint/1"}',
            '{"schema":"a2a-audit/1"}',
            "[" * 100_000,
        ],
    )
    def test_what_is_no_record(self, line: str) -> None:
        assert any(number == 1 for number, _ in problems([line, *self.lines()]))

    def test_a_member_that_is_there_twice(self) -> None:
        lines = self.lines()
        lines[0] = lines[0].replace('"kind":"call"', '"kind":"halt","kind":"call"')
        assert (1, "neither a record nor a checkpoint") in problems(lines)

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 6), st.integers(0, 10_000), st.characters(codec="utf-8"))
    def test_any_other_character_anywhere(self, line: int, at: int, other: str) -> None:
        lines = self.lines()
        text = lines[line]
        changed = text[: at % len(text)] + other + text[at % len(text) + 1 :]
        lines[line] = changed
        try:
            same = json.loads(changed) == json.loads(text)
        except ValueError:
            same = False
        assert same or problems(lines)


class TestPurged:
    records = chain(6)

    def purged(self, anchor: str) -> Lines:
        return [anchor, *export(self.records[3:], checkpoint(self.records, 6))]

    def test_a_chain_goes_on_from_its_anchor(self) -> None:
        report = verify(self.purged(checkpoint(self.records, 3, kind=ANCHOR)), signed_by("ours"))
        assert (report.records, report.last, report.signed) == (3, 6, 6)
        assert report.findings == ()

    def test_a_forged_anchor(self) -> None:
        lines = self.purged(checkpoint(self.records, 3, kind=ANCHOR, key="theirs"))
        found = problems(lines)
        assert (1, "the anchor is not signed by the trusted key") in found
        assert any(line == 2 and "missing" in problem for line, problem in found)

    def test_a_checkpoint_is_no_anchor(self) -> None:
        found = problems(self.purged(checkpoint(self.records, 3)))
        assert any(line == 2 and "missing" in problem for line, problem in found)

    def test_more_was_deleted_than_the_anchor_says(self) -> None:
        lines = self.purged(checkpoint(self.records, 3, kind=ANCHOR))
        del lines[1]
        assert any(line == 2 and "missing" in problem for line, problem in problems(lines))

    def test_an_anchor_of_another_history(self) -> None:
        others = chain(6, subject="mallory")
        found = problems(self.purged(checkpoint(others, 3, kind=ANCHOR)))
        assert (2, "it does not follow the record before it") in found
