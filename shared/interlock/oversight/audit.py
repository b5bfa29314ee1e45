"""Audit records `a2a-audit/1`, their chain, and what verification finds in an export. No I/O.

A record names the record before it by its hash, so nothing in a chain can be changed, removed, moved or
slipped in unseen; a signed checkpoint fixes where a chain had come to, so it can not be rewritten or cut
short as a whole either. Content is never in a record, only digests.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.oversight.canonical_json import NotCanonical, canonical, digest

SCHEMA = "a2a-audit/1"
CHECKPOINT_SCHEMA = "a2a-audit-checkpoint/1"
MAX_SEQ = 2**53 - 1

CHECKPOINT = "checkpoint"
ANCHOR = "anchor"
"""A checkpoint behind which all records were purged: the chain goes on from it."""

_MEMBERS = (
    "schema",
    "chain",
    "seq",
    "time",
    "kind",
    "actor",
    "trace",
    "method",
    "outcome",
    "taskId",
    "contextId",
    "messageId",
    "runSeq",
    "eventSeq",
    "state",
    "digests",
    "detail",
    "prev",
    "hash",
)


def record_hash(record: Mapping[str, Any]) -> str:
    """`sha256:` and the hex of SHA-256 over RFC 8785 of the record without its `hash`."""
    return digest({name: value for name, value in record.items() if name != "hash"})


def sealed(fact: Mapping[str, Any], *, chain: str, seq: int, prev: str | None) -> dict[str, Any]:
    """The record of a fact, as number `seq` of its chain. Members that are empty are left out."""
    given = {**fact, "schema": SCHEMA, "chain": chain, "seq": seq, "prev": prev}
    record = {
        name: given[name] for name in _MEMBERS if name == "chain" or given.get(name) not in (None, "", {}, [])
    }
    return {**record, "hash": record_hash(record)}


def as_line(document: Mapping[str, Any]) -> str:
    """A record or a checkpoint as it is stored and exported: one line of JSON, in its canonical form."""
    return canonical(document).decode()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a chain had come to: record `seq` has this `hash`. `time` is UTC, `kind` may be an anchor."""

    chain: str
    seq: int
    hash: str
    time: str
    kind: str = CHECKPOINT

    def body(self) -> dict[str, Any]:
        """What is signed."""
        return {
            "schema": CHECKPOINT_SCHEMA,
            "kind": self.kind,
            "chain": self.chain,
            "seq": self.seq,
            "hash": self.hash,
            "time": self.time,
        }

    def signed(self, protected: str, signature: str) -> dict[str, Any]:
        """With the header and the signature of a JWS (RFC 7515), both in base64url."""
        return {**self.body(), "protected": protected, "signature": signature}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Checkpoint":
        """Raises `ValueError` for what is no checkpoint of this version."""
        texts = [document.get(name) for name in ("chain", "hash", "time", "kind")]
        seq = document.get("seq")
        if document.get("schema") != CHECKPOINT_SCHEMA or not all(isinstance(text, str) for text in texts):
            raise ValueError("not a checkpoint")
        if type(seq) is not int or not 1 <= seq <= MAX_SEQ or texts[3] not in (CHECKPOINT, ANCHOR):
            raise ValueError("not a checkpoint")
        chain, recorded, time, kind = map(str, texts)
        return cls(chain, seq, recorded, time, kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """`line` counts the lines of the export from 1; 0 is the export as a whole."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class Report:
    """`signed` is the number of the last record that a checkpoint vouches for; the rest is only chained."""

    chain: str
    records: int
    last: int
    signed: int
    findings: tuple[Finding, ...]


VerifySignature = Callable[[str, bytes, str], bool]
"""Protected header, payload, signature: whether it is the trusted key's. Never raises."""


def verify(lines: Iterable[str], verify_signature: VerifySignature) -> Report:
    """All that is wrong with an export of one chain: records in their order, and checkpoints anywhere.

    Found are records that were edited, deleted, reordered, slipped in, or belong to another chain; a chain
    that was sealed anew or cut short behind a checkpoint; and checkpoints and anchors of another key. Without
    a checkpoint nothing says that the chain is the original one: that is a finding too.
    """
    reading = _Reading(verify_signature)
    for number, line in enumerate(lines, 1):
        reading.read(number, line)
    return reading.report()


@dataclass
class _Reading:
    verify_signature: VerifySignature
    chain: str | None = None
    last: tuple[int, str] | None = None
    """Number and hash of the record before."""
    records: int = 0
    hashes: dict[int, str] = field(default_factory=dict)
    checkpoints: list[tuple[int, Checkpoint]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def read(self, number: int, line: str) -> None:
        try:
            document = json.loads(line, object_pairs_hook=_members)
        except (ValueError, RecursionError):
            document = None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema == SCHEMA:
            self._record(number, document)
        elif schema == CHECKPOINT_SCHEMA:
            self._checkpoint(number, document)
        else:
            self._found(number, "neither a record nor a checkpoint")

    def _found(self, number: int, problem: str) -> None:
        self.findings.append(Finding(number, problem))

    def _of_this_chain(self, number: int, chain: object) -> None:
        if self.chain is None:
            self.chain = str(chain)
        if chain != self.chain:
            self._found(number, "it belongs to another chain")

    def _record(self, number: int, record: dict[str, Any]) -> None:
        self.records += 1
        self._of_this_chain(number, record.get("chain"))
        seq, prev, recorded = record.get("seq"), record.get("prev"), record.get("hash")
        try:
            if record_hash(record) != recorded:
                self._found(number, "the record was edited: its hash is another")
        except NotCanonical:
            self._found(number, "the record was edited: it has no canonical form")
        due, before = (1, None) if self.last is None else (self.last[0] + 1, self.last[1])
        if type(seq) is not int or seq != due:
            self._found(number, f"record {due} is due here: records are missing, moved or slipped in")
        if prev != before:
            self._found(number, "it does not follow the record before it")
        if type(seq) is int and isinstance(recorded, str):
            self.last = (seq, recorded)
            self.hashes.setdefault(seq, recorded)

    def _checkpoint(self, number: int, document: dict[str, Any]) -> None:
        try:
            checkpoint = Checkpoint.read(document)
            body = canonical(checkpoint.body())
        except ValueError:
            self._found(number, "not a checkpoint of this version")
            return
        protected, signature = str(document.get("protected", "")), str(document.get("signature", ""))
        if not self.verify_signature(protected, body, signature):
            self._found(number, f"the {checkpoint.kind} is not signed by the trusted key")
            return
        self._of_this_chain(number, checkpoint.chain)
        if checkpoint.kind == ANCHOR and self.last is None:
            self.last = (checkpoint.seq, checkpoint.hash)
            self.hashes[checkpoint.seq] = checkpoint.hash
        if checkpoint.chain == self.chain:
            self.checkpoints.append((number, checkpoint))

    def report(self) -> Report:
        last, signed = max(self.hashes, default=0), 0
        for number, checkpoint in self.checkpoints:
            if checkpoint.seq > last:
                self._found(number, f"the chain is cut short: it had come to {checkpoint.seq}")
            elif self.hashes.get(checkpoint.seq, checkpoint.hash) != checkpoint.hash:
                self._found(number, "the chain was sealed anew since this checkpoint")
            else:
                signed = max(signed, checkpoint.seq)
        if not self.checkpoints:
            self._found(0, "there is no checkpoint: nothing says that this is the original chain")
        return Report(self.chain or "", self.records, last, signed, tuple(self.findings))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Twice the same name would show one reader what another does not see."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members
