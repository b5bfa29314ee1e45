"""Out of office: people say who stands in for them, and who may decide in whose place.

A substitution is looked for only once a caller would be refused otherwise, and what it says is a condition of
the write that rests on it: one that was taken back meanwhile counts for nothing.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.engine.authenticate import is_subject
from interlock.engine.context import Engine, attempts
from interlock.engine.facts import AWAY, Fact
from interlock.engine.ports import Check, ConditionFailed, Delete, Equals, Missing, OutcomeUnknown, Put, Write
from interlock.engine.records import Away, away_pk, instant, parse_instant
from interlock.engine.seal import registration
from interlock.oversight.away import MAX_AHEAD, MAX_CHAIN, Absence, free_place, stands_in
from interlock.oversight.principals import Kind, Principal, Role

MAX_IDENTITY = 272
"""Characters: of a scheme and a subject."""
KEYS_AT_ONCE = 100

_SCHEME = re.compile(r"[a-z]{1,16}")


@dataclass(frozen=True, slots=True)
class Place:
    """Whose place somebody may decide in, and what of it must still be so when they do."""

    of: str
    checks: tuple[Check, ...]


def places_of(
    engine: Engine, caller: Principal, named: Collection[str], excluded: Collection[str]
) -> list[Place]:
    """Whose of `named` the caller may decide in now. Only people stand in, and none of those `excluded`.

    As many round trips as the longest chain has substitutes, at most; as a rule two.
    """
    if caller.kind is not Kind.PERSON:
        return []
    found: dict[str, Away] = {}
    looked: set[str] = set()
    wanted = sorted({who for who in named if is_identity(who)})
    for _ in range(MAX_CHAIN):
        for at in range(0, len(wanted), KEYS_AT_ONCE):
            keys = [Away.key_of(caller.tenant, who) for who in wanted[at : at + KEYS_AT_ONCE]]
            items = engine.table.get_many(keys)
            found |= {away.who: away for away in (Away.read(item) for item in items if item is not None)}
        looked.update(wanted)
        wanted = sorted({found[who].substitute for who in wanted if who in found} - looked)
        if not wanted:
            break
    absences = {who: absence_of(away) for who, away in found.items()}
    standing = stands_in(absences, caller.id, named, engine.clock.now(), excluded)
    return [Place(of, tuple(_still(found[step.who]) for step in steps)) for of, steps in standing.items()]


def free(places: Sequence[Place], votes: Mapping[str, str | None], caller: Principal) -> Place | None:
    """The first that nobody else has decided in. `votes` maps whoever has voted to in whose place."""
    of = free_place(votes, caller.id, [place.of for place in places])
    return next((place for place in places if place.of == of), None)


def _still(away: Away) -> Check:
    """By all that it says: one that was said anew, and says something else, has the same number."""
    says = ("substitute", "since", "until", "said_by")
    return Check(away.key, tuple(Equals(name, getattr(away, name)) for name in says))


def absence_of(away: Away) -> Absence:
    since, until = parse_instant(away.since), parse_instant(away.until)
    return Absence(away.who, away.substitute, since, until, away.said_by)


def set_away(
    engine: Engine,
    caller: Principal,
    substitute: str,
    until: datetime,
    *,
    since: datetime | None = None,
    who: str | None = None,
) -> Away:
    """`who`, without it the caller, is away from `since`, or from now on. It replaces what was said before.

    Whether there is a person of the name `substitute` shows once they decide: callers learn no names here.
    Raises `PermissionDenied`, `InvalidParams`.
    """
    who = _of(caller, who)
    if substitute == caller.id != who:
        raise PermissionDenied("Nobody names themselves as a substitute")
    now = engine.clock.now()
    begins = max(since or now, now)
    _check(who, substitute, begins, until, now)
    wanted = Away(caller.tenant, who, substitute, instant(begins), instant(until), caller.id, instant(now))
    for _ in attempts(engine.clock):
        there = _get(engine, caller.tenant, who)
        if there is not None and _same(there, wanted, from_now=begins == now):
            return there
        rev = there.rev + 1 if there is not None else 1
        changed = replace(wanted, rev=rev)
        before = Equals("rev", there.rev) if there is not None else Missing("v")
        try:
            engine.table.write(
                Put(changed.key, changed.item(), (before,)), *_told(changed, caller, "set", now)
            )
        except (ConditionFailed, OutcomeUnknown):
            continue
        return changed
    raise AssertionError("attempts end by raising")


def clear_away(engine: Engine, caller: Principal, who: str | None = None) -> bool:
    """Back again. False where nothing was said. Raises `PermissionDenied`, `InvalidParams`."""
    who = _of(caller, who)
    cleared = False
    for _ in attempts(engine.clock):
        there = _get(engine, caller.tenant, who)
        if there is None:
            return cleared
        told = _told(there, caller, "clear", engine.clock.now())
        try:
            engine.table.write(Delete(there.key, (Equals("rev", there.rev),)), *told)
        except ConditionFailed:
            continue
        except OutcomeUnknown:
            cleared = True  # if it is gone at the next look
            continue
        return True
    raise AssertionError("attempts end by raising")


def list_away(engine: Engine, caller: Principal) -> list[Away]:
    """Absences that are not over. Approvers and operators see all of the tenant, others those that concern
    them. Raises `PermissionDenied`.
    """
    _check_person(caller)
    everything, now = caller.has(Role.APPROVER, Role.OPERATOR), instant(engine.clock.now())
    found: list[Away] = []
    cursor: str | None = None
    while True:
        page = engine.table.query(away_pk(caller.tenant), cursor=cursor)
        found += [Away.read(item) for _, item in page.rows]
        cursor = page.cursor
        if cursor is None:
            break
    return [
        away
        for away in found
        if now < away.until and (everything or caller.id in (away.who, away.substitute))
    ]


def _get(engine: Engine, tenant: str, who: str) -> Away | None:
    item = engine.table.get(Away.key_of(tenant, who))
    return Away.read(item) if item is not None else None


def _same(there: Away, wanted: Away, *, from_now: bool) -> bool:
    """Whether that was said already. What has begun meanwhile was said from now on, too."""
    begun = from_now and there.since <= wanted.since
    return (
        replace(
            wanted,
            since=there.since if begun else wanted.since,
            said_at=there.said_at,
            rev=there.rev,
        )
        == there
    )


def _of(caller: Principal, who: str | None) -> str:
    _check_person(caller)
    if who is None or who == caller.id:
        return caller.id
    if not caller.has(Role.OPERATOR):
        raise PermissionDenied("Only an operator may say so for somebody else")
    if not is_identity(who):
        raise InvalidParams("who must be an identity, as `bearer:alice`")
    return who


def _check_person(caller: Principal) -> None:
    if caller.kind is not Kind.PERSON:
        raise PermissionDenied("Only people stand in for people")


def _check(who: str, substitute: str, since: datetime, until: datetime, now: datetime) -> None:
    if not is_identity(substitute):
        raise InvalidParams("substitute must be an identity, as `bearer:alice`")
    if substitute == who:
        raise InvalidParams("substitute must be somebody else")
    if until <= since:
        raise InvalidParams("until must be in the future, and after since")
    if until - now > MAX_AHEAD:
        raise InvalidParams(f"until must be within {MAX_AHEAD // timedelta(days=1)} days")


def is_identity(text: str) -> bool:
    scheme, _, subject = text.partition(":")
    return _SCHEME.fullmatch(scheme) is not None and is_subject(subject)


def _told(away: Away, caller: Principal, action: str, now: datetime) -> list[Write]:
    detail = {
        "action": action,
        "who": away.who,
        "substitute": away.substitute,
        "since": away.since,
        "until": away.until,
    }
    return [Fact(AWAY, caller.id, detail=detail).put(away.tenant, now), registration(away.tenant)]
