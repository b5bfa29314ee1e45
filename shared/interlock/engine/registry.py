"""The agents elsewhere that a tenant has put under oversight: registered by people, kept up to date."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied
from interlock.engine.context import Engine, Skill, attempts
from interlock.engine.facts import AGENT, Fact, text_digest
from interlock.engine.peers import PeerAddress, PeerCards, PeerRefused, PeerUnreachable
from interlock.engine.ports import (
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    Update,
    Write,
)
from interlock.engine.records import Due, Registered, instant, parse_instant, registered_pk
from interlock.engine.registered import EVERY_SKILL, MAX_SKILL_ID, REFRESH_EVERY, RegisteredAgent, packed
from interlock.engine.seal import registration
from interlock.oversight.modes import Mode, Policy
from interlock.oversight.principals import Kind, Principal, Role

REFRESH = "refresh"
MAX_AGENTS = 200
"""Of one tenant."""
MAX_URL = 2048
MAX_PEER = 64
MAX_OVERRIDES = 200
MAX_PROBLEM = 300
CARD_SUFFIX = "/.well-known/agent-card.json"

RESERVED = frozenset({"tasks"})
"""`/agents/tasks` are the tasks of a tenant of the name `agents`."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


class AgentNotFound(A2AError):
    """The same for a name that nobody has registered and for one of another tenant."""

    code = -32601
    http_status = 404
    status = "NOT_FOUND"
    reason = "AGENT_NOT_FOUND"
    text = "There is no such agent"
    jsonrpc_http_status = 404


def _none() -> Sequence[Skill]:
    return ()


@dataclass(frozen=True, slots=True)
class Registry:
    """`here` gives the skills of the agents that run here, whose names no other can have."""

    engine: Engine
    policy: Policy
    here: Callable[[], Sequence[Skill]] = _none

    def get(self, tenant: str, name: str) -> RegisteredAgent:
        """Raises `AgentNotFound`."""
        agent = self.registered(tenant, name)
        if self.runs_here(name):
            raise AgentNotFound
        return agent

    def registered(self, tenant: str, name: str) -> RegisteredAgent:
        """Also one that is not served, for one of its name runs here. Raises `AgentNotFound`."""
        record = self._record(tenant, name) if _NAME.fullmatch(name) else None
        if record is None:
            raise AgentNotFound
        return RegisteredAgent(record, self.policy)

    def runs_here(self, name: str) -> bool:
        return any(skill.agent == name for skill in self.here())

    def all(self, tenant: str) -> Iterator[RegisteredAgent]:
        """In the order of their names."""
        cursor: str | None = None
        while True:
            page = self.engine.table.query(registered_pk(tenant), cursor=cursor)
            for _, item in page.rows:
                yield RegisteredAgent(Registered.read(item), self.policy)
            cursor = page.cursor
            if cursor is None:
                return

    def resolve_mode(self, tenant: str, name: str, skill: str) -> Mode:
        """Of an agent or a skill that is not known, what holds for an undeclared one."""
        try:
            return self.get(tenant, name).resolve_mode(skill).mode
        except AgentNotFound:
            return self.policy.resolve(None).mode

    def add(self, who: Principal, name: str, url: str, peer: str | None = None) -> RegisteredAgent:
        """Its card is fetched after that. Raises `PermissionDenied`, `InvalidParams`."""
        check_operator(who)
        url = _checked(name, url, peer)
        if self.runs_here(name):
            raise InvalidParams("An agent of this name runs here")
        for _ in attempts(self.engine.clock):
            there = self._record(who.tenant, name)
            if there is not None and (there.url, there.peer, there.added_by) == (url, peer, who.id):
                break
            if there is not None:
                raise InvalidParams("An agent of this name is registered")
            if sum(1 for _ in self.all(who.tenant)) >= MAX_AGENTS:
                raise InvalidParams(f"A tenant has at most {MAX_AGENTS} agents")
            now = self.engine.clock.now()
            at = instant(now + REFRESH_EVERY)
            there = Registered(who.tenant, name, url, who.id, instant(now), at, peer)
            writes: list[Write] = [Put(there.key, there.item(), (Missing("v"),)), _row(there)]
            writes += _told(there, who, "register", now, url=url)
            try:
                self.engine.table.write(*writes)
            except (ConditionFailed, OutcomeUnknown):
                continue
            break
        if there is None:
            raise AssertionError("attempts end by raising")
        self.engine.waker.wake_refresh(who.tenant, name)
        return RegisteredAgent(there, self.policy)

    def remove(self, who: Principal, name: str) -> None:
        """What runs there already is followed to its end. Raises `PermissionDenied`, `AgentNotFound`."""
        check_operator(who)
        for attempt in attempts(self.engine.clock):
            record = self._record(who.tenant, name)
            if record is None:
                if attempt:
                    return  # by an earlier try, or by somebody else meanwhile
                raise AgentNotFound
            writes: list[Write] = [Delete(record.key, (Equals("rev", record.rev),)), Delete(_row(record).key)]
            try:
                self.engine.table.write(*writes, *_told(record, who, "remove", self.engine.clock.now()))
            except (ConditionFailed, OutcomeUnknown):
                continue
            return

    def override(self, who: Principal, name: str, skill: str, mode: Mode | None) -> RegisteredAgent:
        """Raises a skill's mode, or that of all (`*`); None takes it back. It never lowers what is declared.

        Raises `PermissionDenied`, `AgentNotFound`, `InvalidParams`.
        """
        check_operator(who)
        if not 0 < len(skill) <= MAX_SKILL_ID:
            raise InvalidParams(f"skill must have 1 to {MAX_SKILL_ID} characters")
        for _ in attempts(self.engine.clock):
            record = self._record(who.tenant, name)
            if record is None:
                raise AgentNotFound
            agent = RegisteredAgent(record, self.policy)
            known = agent.named(skill)
            key = known.id if known is not None else skill
            wanted = {each: chosen.value for each, chosen in agent.overrides.items() if each != key}
            if mode is not None:
                if known is None and key != EVERY_SKILL:
                    raise InvalidParams("skill names no skill of this agent")
                wanted[key] = mode.value
            if len(wanted) > MAX_OVERRIDES:
                raise InvalidParams(f"An agent has at most {MAX_OVERRIDES} overrides")
            changed = replace(record, rev=record.rev + 1, overrides=json.dumps(wanted))
            if changed.overrides == record.overrides:
                return agent
            given = mode.value if mode is not None else None
            told = _told(changed, who, "override", self.engine.clock.now(), skill=key, mode=given)
            try:
                self.engine.table.write(_put(changed), *told)
            except (ConditionFailed, OutcomeUnknown):
                continue
            return RegisteredAgent(changed, self.policy)
        raise AssertionError("attempts end by raising")

    def ask_refresh(self, who: Principal, name: str) -> RegisteredAgent:
        """On demand: others fetch the card. Raises `PermissionDenied`, `AgentNotFound`."""
        check_operator(who)
        record = self._record(who.tenant, name)
        if record is None:
            raise AgentNotFound
        self.engine.waker.wake_refresh(who.tenant, name)
        return RegisteredAgent(record, self.policy)

    def refresh(self, cards: PeerCards, tenant: str, name: str) -> None:
        """Fetches the card, whose entries replace all that were known. A failure keeps them, and shows."""
        asked = self._record(tenant, name)
        if asked is None:
            return
        started, card, problem = instant(self.engine.clock.now()), None, None
        try:
            card = packed(cards.card(address_of(cards, asked)))
        except (PeerRefused, PeerUnreachable) as error:
            problem = str(error)[:MAX_PROBLEM]
        for _ in attempts(self.engine.clock):
            record = self._record(tenant, name)
            if record is None or record.added_at != asked.added_at:
                return
            if record.tried_at is not None and record.tried_at > started:
                return  # somebody else has fetched it since
            changed = replace(record, rev=record.rev + 1, tried_at=started, problem=problem)
            writes: list[Write] = []
            if card is not None:
                changed = replace(changed, card=card, fetched_at=started)
                if card != record.card:
                    # What its skills declare may be something else now.
                    digest = {"card": text_digest(card.hex())}
                    writes += _told(changed, None, "card", self.engine.clock.now(), digests=digest)
            try:
                self.engine.table.write(_put(changed), *writes)
            except (ConditionFailed, OutcomeUnknown):
                continue
            return

    def _record(self, tenant: str, name: str) -> Registered | None:
        item = self.engine.table.get(Registered.key_of(tenant, name))
        return Registered.read(item) if item is not None else None


def refresh_due(engine: Engine, key: Key, due: Due) -> None:
    """Wakes for whoever may call out, and comes back after a while, whatever becomes of that."""
    for _ in attempts(engine.clock):
        item = engine.table.get(Registered.key_of(due.tenant, due.task_id))
        record = Registered.read(item) if item is not None else None
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        again = None
        if record is not None and record.refresh_at == due.at:
            again = replace(record, refresh_at=instant(engine.clock.now() + REFRESH_EVERY))
            changed: Item = {"refresh_at": again.refresh_at, "rev": record.rev + 1}
            writes += [Update(record.key, changed, conditions=(Equals("rev", record.rev),)), _row(again)]
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            if engine.table.get(key) is None:
                return  # somebody else has handled it
            continue
        if again is not None:
            engine.waker.wake_refresh(due.tenant, due.task_id)
            engine.waker.wake_timer(_row(again).key, parse_instant(again.refresh_at))
        return


def check_operator(who: Principal) -> None:
    """Raises `PermissionDenied`. People only: no agent decides under which oversight agents are."""
    if who.kind is not Kind.PERSON or not who.has(Role.OPERATOR, Role.PLATFORM_OPERATOR):
        raise PermissionDenied("Only an operator may do this")


def _checked(name: str, url: str, peer: str | None) -> str:
    """The URL below which the card is. Raises `InvalidParams`."""
    if not _NAME.fullmatch(name) or name in RESERVED:
        raise InvalidParams(
            "name must be 1 to 64 of a-z 0-9 - _, beginning and ending with a letter or digit"
        )
    if peer is not None and not 0 < len(peer) <= MAX_PEER:
        raise InvalidParams(f"peer must have 1 to {MAX_PEER} characters")
    url = url.removesuffix(CARD_SUFFIX).rstrip("/")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        valid = False
    if not valid or len(url) > MAX_URL or not url.isprintable() or "?" in url or "#" in url or " " in url:
        raise InvalidParams("url must be that of an agent, or of its card, without a query or a user")
    return url


def address_of(cards: PeerCards, record: Registered) -> PeerAddress:
    """Raises `PeerRefused` where the peer that it names is not the agent, or `PeerUnreachable`."""
    address = cards.resolve_for(record.tenant, record.to)
    if address.url.rstrip("/") != record.url:
        raise PeerRefused("the URL is not the one of this peer")
    return address


def _row(record: Registered) -> Put:
    due = Due(REFRESH, record.tenant, record.name, "", record.refresh_at)
    return Put(due.key, due.item())


def _put(changed: Registered) -> Put:
    return Put(changed.key, changed.item(), (Equals("rev", changed.rev - 1),))


def _told(
    record: Registered,
    who: Principal | None,
    action: str,
    now: datetime,
    digests: dict[str, str] | None = None,
    **detail: Any,
) -> list[Write]:
    named = {"action": action, "agent": record.name, **detail}
    fact = Fact(AGENT, who.id if who is not None else None, digests=digests or {}, detail=named)
    return [fact.put(record.tenant, now), registration(record.tenant)]
