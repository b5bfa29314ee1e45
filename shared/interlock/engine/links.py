"""Links of mails: each is one person's, for one checkpoint as it was shown, and counts once.

Looking at what a link leads to changes nothing. It is used up in the transaction of the vote that it casts.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from interlock.engine.ports import Key, Missing, Put, Table, Update
from interlock.engine.press import Shown
from interlock.engine.records import Record, instant

LONGEST = timedelta(days=7)
"""For which a link holds, where what it asks has no deadline."""


@dataclass(frozen=True, slots=True)
class Link(Record):
    """`hash` is of the token, which is kept nowhere; `spent` is the choice that it was used for."""

    hash: str
    tenant: str
    task_id: str
    ask_id: str
    digest: str
    who: str
    renderer: str
    until: str
    spent: str | None = None

    @staticmethod
    def key_of(hash_hex: str) -> Key:
        return Key(f"LINK#{hash_hex}", "LINK")

    @property
    def shown(self) -> Shown:
        return Shown(self.task_id, self.ask_id, self.digest)

    def spend(self, choice: str) -> Update:
        return Update(self.key_of(self.hash), {"spent": choice}, conditions=(Missing("spent"),))


def new_link(
    table: Table, tenant: str, shown: Shown, who: str, renderer: str, now: datetime, deadline: datetime | None
) -> str:
    """Its token, of 256 random bits, which can not be had again."""
    token = secrets.token_urlsafe(32)
    until = min(filter(None, (deadline, now + LONGEST)))
    link = Link(
        hash=_hash(token),
        tenant=tenant,
        task_id=shown.task_id,
        ask_id=shown.ask_id,
        digest=shown.digest,
        who=who,
        renderer=renderer,
        until=instant(until),
    )
    table.write(Put(Link.key_of(link.hash), link.item(), (Missing("v"),)))
    return token


def find_link(table: Table, token: str, renderer: str, now: datetime) -> Link | None:
    """The link of a token that holds: of this renderer, and in time. Used up it is still found."""
    item = table.get(Link.key_of(_hash(token)))
    link = Link.read(item) if item is not None else None
    if link is None or link.renderer != renderer or link.until <= instant(now):
        return None
    return link


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()
