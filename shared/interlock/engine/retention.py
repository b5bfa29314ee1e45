"""Retention of the audit trail: what is old goes behind a signed anchor, and not under a legal hold."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from interlock.a2a.models import timestamp
from interlock.a2a.signing import Signer
from interlock.engine.ports import AUDIT, Delete, Key, Put, Table
from interlock.engine.records import SCHEMA_VERSION
from interlock.engine.seal import (
    anchor,
    checkpoints_pk,
    head,
    keep_signed,
    records_pk,
    rows,
    seq_sk,
)
from interlock.oversight.audit import ANCHOR, Checkpoint

MIN_DAYS = 184
"""Six months at least (Regulation (EU) 2024/1689, Article 26(6))."""
BATCH = 100


class Held(Exception):
    """The chain is under a legal hold: nothing of it may be purged."""


def hold(table: Table, chain: str, reason: str, now: datetime) -> None:
    table.write(Put(_hold_key(chain), {"v": SCHEMA_VERSION, "reason": reason, "at": timestamp(now)}))


def release(table: Table, chain: str) -> None:
    table.write(Delete(_hold_key(chain)))


def _hold_key(chain: str) -> Key:
    return Key(f"{AUDIT}HOLD#{chain}", "HOLD")


def purge(table: Table, signer: Signer, chain: str, *, days: int, now: datetime) -> int:
    """Deletes the records that are older than `days`, but never the newest. Returns how many.

    The anchor is signed and stored first, so that what is left always verifies; a purge that was interrupted
    is finished by the next. Raises `Held`, `ValueError` for fewer than 184 days, and `Unavailable` where the
    key does not answer: then nothing was deleted.
    """
    if days < MIN_DAYS:
        raise ValueError(f"the audit trail is kept for {MIN_DAYS} days at least")
    if table.get(_hold_key(chain)) is not None:
        raise Held
    last = _last_before(table, chain, timestamp(now - timedelta(days=days)))
    if last is not None:
        keep_signed(table, signer, Checkpoint(chain, last["seq"], last["hash"], timestamp(now), ANCHOR))
    start = anchor(table, chain)
    if start is None:
        return 0
    deleted = _delete_until(table, records_pk(chain), start["seq"])
    _delete_until(table, checkpoints_pk(chain), start["seq"])
    return deleted


def _last_before(table: Table, chain: str, time: str) -> dict[str, Any] | None:
    """The last of the records that are all older, unless there is none after it."""
    newest, last = head(table, chain).seq, None
    for _, item in rows(table, records_pk(chain)):
        record = json.loads(str(item["record"]))
        if record["time"] >= time or record["seq"] == newest:
            break
        last = record
    return last


def _delete_until(table: Table, pk: str, seq: int) -> int:
    deleted = 0
    for keys in _batches(table, pk, seq):
        table.write(*map(Delete, keys))
        deleted += len(keys)
    return deleted


def _batches(table: Table, pk: str, seq: int) -> Iterator[list[Key]]:
    while keys := [key for key, _ in table.query(pk, last=seq_sk(seq), limit=BATCH).rows]:
        yield keys
