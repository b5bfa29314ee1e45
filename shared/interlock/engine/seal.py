"""Sealing: facts become records of their chain, exactly once, and the chain never forks.

A batch is one transaction: the records are put where nothing is yet, and their facts are deleted, which must
be there. Whoever comes second fails and reads again, so any number of sealers may run at once, die, or not
know whether they were heard.
"""

import json
import logging
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import timestamp
from interlock.a2a.signing import Signer
from interlock.engine.context import Engine, attempts
from interlock.engine.facts import fact_pk
from interlock.engine.ports import (
    AUDIT,
    Clock,
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    Table,
    Write,
)
from interlock.engine.records import SCHEMA_VERSION, parse_instant
from interlock.oversight.audit import CHECKPOINT, Checkpoint, as_line, sealed

_log = logging.getLogger(__name__)

BATCH = 49
"""Facts of one transaction: each takes two of its hundred writes."""
CHECKPOINT_EVERY = 256
"""Records."""
UNSIGNED = "a checkpoint of the audit trail could not be signed"
"""Logged; an alarm looks for it."""
CHAINS_PK = "CHAINS"
"""A row for each chain, written before its first fact: where the sweeper looks."""


def records_pk(chain: str) -> str:
    return f"{AUDIT}RECORD#{chain}"


def checkpoints_pk(chain: str) -> str:
    return f"{AUDIT}CHECKPOINT#{chain}"


def anchors_pk(chain: str) -> str:
    return f"{AUDIT}ANCHOR#{chain}"


def seq_sk(seq: int) -> str:
    return f"{seq:016d}"


@dataclass(frozen=True, slots=True)
class Sealer:
    """`signer` signs a checkpoint each `every` records; without one there are none."""

    table: Table
    clock: Clock
    signer: Signer | None = None
    every: int = CHECKPOINT_EVERY


@dataclass(frozen=True, slots=True)
class Head:
    """The last record of a chain. Number 0 and no hash: there is none."""

    seq: int = 0
    hash: str | None = None


def head(table: Table, chain: str) -> Head:
    page = table.query(records_pk(chain), descending=True, limit=1)
    if not page.rows:
        return Head()
    record = json.loads(str(page.rows[0][1]["record"]))
    return Head(record["seq"], record["hash"])


def seal(sealer: Sealer, chain: str) -> int:
    """Seals all facts of the chain. Returns how many. Raises `Unavailable`, then the rest is still there.

    A key that does not answer holds nothing up: the checkpoint stays due, and that is logged.
    """
    done = 0
    while count := _seal_batch(sealer, chain):
        done += count
    if sealer.signer is not None:
        try:
            sign_if_due(sealer, sealer.signer, chain)
        except Unavailable:
            _log.exception(UNSIGNED)
    return done


def _seal_batch(sealer: Sealer, chain: str) -> int:
    table = sealer.table
    for _ in attempts(sealer.clock):
        facts = table.query(fact_pk(chain), limit=BATCH).rows
        if not facts:
            return 0
        last = head(table, chain)
        seq, prev = last.seq, last.hash
        writes: list[Write] = []
        for key, item in facts:
            seq += 1
            record = sealed(json.loads(str(item["body"])), chain=chain, seq=seq, prev=prev)
            prev = record["hash"]
            row: Item = {"v": SCHEMA_VERSION, "record": as_line(record)}
            writes.append(Put(Key(records_pk(chain), seq_sk(seq)), row, (Missing("v"),)))
            writes.append(Delete(key, (Equals("v", item["v"]),)))
        try:
            table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return len(facts)
    raise AssertionError("attempts end by raising")


def sign_if_due(sealer: Sealer, signer: Signer, chain: str) -> None:
    """Signs where the chain has come to, once it is `every` records behind the last checkpoint."""
    last = head(sealer.table, chain)
    signed = sealer.table.query(checkpoints_pk(chain), descending=True, limit=1).rows
    before = int(signed[0][0].sk) if signed else 0
    if last.hash is None or last.seq - before < sealer.every:
        return
    made = Checkpoint(chain, last.seq, last.hash, timestamp(sealer.clock.now()))
    keep_signed(sealer.table, signer, made)


def keep_signed(table: Table, signer: Signer, checkpoint: Checkpoint) -> None:
    """Signs it and stores it, unless there is one of the same record already."""
    pk = (checkpoints_pk if checkpoint.kind == CHECKPOINT else anchors_pk)(checkpoint.chain)
    row: Item = {"v": SCHEMA_VERSION, "checkpoint": as_line(sign(signer, checkpoint))}
    try:
        table.write(Put(Key(pk, seq_sk(checkpoint.seq)), row, (Missing("v"),)))
    except ConditionFailed:
        return


def sign(signer: Signer, checkpoint: Checkpoint) -> dict[str, Any]:
    header = json.dumps({"alg": signer.alg, "kid": signer.kid}, separators=(",", ":"))
    protected = _base64url(header.encode())
    body = as_line(checkpoint.body()).encode()
    signature = signer.sign(f"{protected}.{_base64url(body)}".encode())
    return checkpoint.signed(protected, _base64url(signature))


def _base64url(data: bytes) -> str:
    """Without padding (RFC 7515, section 2)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def rows(table: Table, pk: str) -> Iterator[tuple[Key, Item]]:
    cursor: str | None = None
    while True:
        page = table.query(pk, cursor=cursor)
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def anchor(table: Table, chain: str) -> dict[str, Any] | None:
    """The signed checkpoint that the chain goes on from, if some of it was purged."""
    page = table.query(anchors_pk(chain), descending=True, limit=1)
    found: dict[str, Any] | None = json.loads(str(page.rows[0][1]["checkpoint"])) if page.rows else None
    return found


def export(table: Table, chain: str) -> Iterator[str]:
    """A chain as JSON lines: its anchor, if some was purged, its records, and its checkpoints."""
    start = anchor(table, chain)
    first = 1
    if start is not None:
        first = start["seq"] + 1
        yield as_line(start)
    for pk, text in ((records_pk(chain), "record"), (checkpoints_pk(chain), "checkpoint")):
        for key, item in rows(table, pk):
            if int(key.sk) >= first:
                yield str(item[text])


def chains(table: Table) -> list[str]:
    return [str(item["chain"]) for _, item in rows(table, CHAINS_PK)]


def register(table: Table, chain: str) -> None:
    """Lets the sweeper know that there is such a chain."""
    table.write(registration(chain))


def registration(chain: str) -> Put:
    return Put(Key(CHAINS_PK, f"#{chain}"), {"v": SCHEMA_VERSION, "chain": chain})


def wake_for_unsealed(engine: Engine) -> float:
    """Wakes for chains whose facts nobody seals. Seconds that the oldest fact of all waits."""
    oldest, now = timedelta(), engine.clock.now()
    for chain in chains(engine.table):
        waits = unsealed(engine.table, chain, now)
        oldest = max(oldest, waits)
        if waits >= timedelta(seconds=engine.limits.wake_again):
            engine.waker.wake_seal(chain)
    return oldest.total_seconds()


def unsealed(table: Table, chain: str, now: datetime) -> timedelta:
    """How long the oldest fact of the chain waits."""
    facts = table.query(fact_pk(chain), limit=1).rows
    return now - parse_instant(facts[0][0].sk.partition("#")[0]) if facts else timedelta()
