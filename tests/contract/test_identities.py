"""Identities of a deployment: what the deployer writes, and what a call is authenticated by."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.support.emulator import Emulator
from tests.support.stores import Store

from interlock.a2a.errors import Unauthenticated, Unavailable
from interlock.adapters.identities import (
    Identity,
    IdentityExists,
    IdentityStore,
    IdentityUnknown,
    TokenCredentials,
)
from interlock.adapters.memory import MemoryTable
from interlock.engine.authenticate import authenticate, token_hash
from interlock.engine.ports import Item, Key, OutcomeUnknown, Page, Put, StoreError, Write
from interlock.oversight.principals import Kind, Principal, Role

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
APPROVER = frozenset({Role.APPROVER})
ALICE = Principal("bearer:alice", "acme", Kind.PERSON, APPROVER)


class Clock:
    def __init__(self) -> None:
        self.at = NOW

    def __call__(self) -> datetime:
        return self.at


class Faulty:
    """A table that fails as told: `before` the write is applied, or `after`, when the reply is lost."""

    def __init__(self, store: Store, *faults: str) -> None:
        self.store = store
        self.faults = list(faults)
        self.reads = 0

    def get(self, key: Key) -> Item | None:
        self.reads += 1
        if self.faults[:1] == ["read"]:
            raise OutcomeUnknown("no answer")
        return self.store.get(key)

    def write(self, *writes: Write) -> None:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "before":
            raise OutcomeUnknown("no answer")
        self.store.write(*writes)
        if fault == "after":
            raise OutcomeUnknown("no answer")

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        return self.store.get_many(keys)

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        return self.store.snapshot(keys)

    def query(self, pk: str, **options: Any) -> Page:
        return self.store.query(pk, **options)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def identities(store: Store, clock: Clock) -> IdentityStore:
    return IdentityStore(store, store, now=clock)


@pytest.fixture
def credentials(store: Store, clock: Clock) -> TokenCredentials:
    return TokenCredentials(store, now=clock)


def who(token: str, credentials: TokenCredentials) -> Principal | None:
    try:
        return authenticate(f"Bearer {token}", credentials=credentials, verifier=None, anonymous=None)
    except Unauthenticated:
        return None


def alice(identities: IdentityStore) -> str:
    return identities.create("alice", "acme", Kind.PERSON, APPROVER)[1]


def everybody(identities: IdentityStore, tenant: str | None = None) -> list[str]:
    return [identity.principal.id for identity in identities.list(tenant).identities]


def test_a_token_stands_for_the_identity_it_was_created_for(
    identities: IdentityStore, credentials: TokenCredentials
) -> None:
    identity, token = identities.create("alice", "acme", Kind.PERSON, {Role.APPROVER, Role.OPERATOR})
    assert identity == Identity(
        Principal("bearer:alice", "acme", Kind.PERSON, frozenset({Role.APPROVER, Role.OPERATOR})), NOW
    )
    assert who(token, credentials) == identity.principal


def test_tokens_are_long_random_and_not_stored(store: Store, identities: IdentityStore) -> None:
    first, second = alice(identities), identities.create("bob", "acme", Kind.PERSON, APPROVER)[1]
    assert first != second
    assert first.startswith("il_")
    assert len(first) == 3 + 43
    for key in (Key("IDENTITY#bearer:alice", "IDENTITY"), Key(f"TOKEN#{token_hash(first)}", "TOKEN")):
        item = store.get(key)
        assert item is not None
        assert first not in str(item)
        assert first[3:] not in str(item)


def test_an_authentication_is_one_read(store: Store, identities: IdentityStore) -> None:
    token = alice(identities)
    identities.allow("alice", "acme", Kind.PERSON, APPROVER)
    table = Faulty(store)
    assert who(token, TokenCredentials(table)) == ALICE
    assert table.reads == 1
    assert TokenCredentials(table).by_subject("alice") is not None
    assert table.reads == 2


def test_an_allowed_subject_is_known_by_it(identities: IdentityStore, credentials: TokenCredentials) -> None:
    identities.allow("auth0|7", "acme", Kind.PERSON, APPROVER)
    found = credentials.by_subject("auth0|7")
    assert found is not None
    assert found.principal == Principal("jwt:auth0|7", "acme", Kind.PERSON, APPROVER)
    assert found.known_by == "auth0|7"


def test_neither_kind_of_identity_stands_for_the_other(
    identities: IdentityStore, credentials: TokenCredentials
) -> None:
    identities.allow("bob", "acme", Kind.PERSON, APPROVER)
    alice(identities)
    assert credentials.by_subject("alice") is None
    assert credentials.by_token_hash("bob") is None


def test_a_label_is_unique_in_the_deployment(
    identities: IdentityStore, credentials: TokenCredentials
) -> None:
    token = alice(identities)
    for tenant in ("acme", "globex"):
        with pytest.raises(IdentityExists):
            identities.create("alice", tenant, Kind.SERVICE, {Role.CALLER})
    assert who(token, credentials) == ALICE


def test_a_subject_is_unique_in_the_deployment(
    identities: IdentityStore, credentials: TokenCredentials
) -> None:
    identities.allow("bob", "acme", Kind.PERSON, APPROVER)
    with pytest.raises(IdentityExists):
        identities.allow("bob", "globex", Kind.PERSON, APPROVER)
    found = credentials.by_subject("bob")
    assert found is not None
    assert found.principal.tenant == "acme"


@pytest.mark.parametrize("label", ["", "a b", "bearer:alice", "x" * 129])
def test_a_label_that_is_not_valid_is_not_stored(identities: IdentityStore, label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        identities.create(label, "acme", Kind.PERSON, APPROVER)
    assert everybody(identities) == []


@pytest.mark.parametrize("subject", ["", "a b", "a#b", "x" * 256])
def test_a_subject_that_is_not_valid_is_not_stored(identities: IdentityStore, subject: str) -> None:
    with pytest.raises(ValueError, match="subject"):
        identities.allow(subject, "acme", Kind.PERSON, APPROVER)
    assert everybody(identities) == []


@pytest.mark.parametrize(
    ("tenant", "roles"), [("", APPROVER), ("Acme", APPROVER), ("a#b", APPROVER), ("acme", frozenset())]
)
def test_tenant_and_roles_that_are_not_valid_are_not_stored(
    identities: IdentityStore, tenant: str, roles: frozenset[Role]
) -> None:
    with pytest.raises(ValueError, match=r"tenant|role"):
        identities.create("alice", tenant, Kind.PERSON, roles)
    with pytest.raises(ValueError, match=r"tenant|role"):
        identities.allow("alice", tenant, Kind.PERSON, roles)
    assert everybody(identities) == []


def test_a_token_expires(identities: IdentityStore, credentials: TokenCredentials, clock: Clock) -> None:
    until = NOW + timedelta(hours=1)
    identity, token = identities.create("ci", "acme", Kind.SERVICE, {Role.CALLER}, expires_at=until)
    identities.allow("ci", "acme", Kind.SERVICE, {Role.CALLER}, expires_at=until)
    assert identity.expires_at == until
    clock.at = until - timedelta(microseconds=1)
    assert who(token, credentials) is not None
    assert credentials.by_subject("ci") is not None
    clock.at = until
    assert who(token, credentials) is None
    assert credentials.by_subject("ci") is None


def test_nothing_is_created_expired(identities: IdentityStore) -> None:
    with pytest.raises(ValueError, match="passed"):
        identities.create("ci", "acme", Kind.SERVICE, {Role.CALLER}, expires_at=NOW)


def test_a_revoked_token_stops_at_once(identities: IdentityStore, credentials: TokenCredentials) -> None:
    token = alice(identities)
    assert identities.revoke("bearer:alice").principal == ALICE
    assert who(token, credentials) is None
    assert everybody(identities) == []


def test_a_revoked_subject_stops_at_once(identities: IdentityStore, credentials: TokenCredentials) -> None:
    identities.allow("bob", "acme", Kind.PERSON, APPROVER)
    identities.revoke("jwt:bob")
    assert credentials.by_subject("bob") is None


def test_only_what_is_there_can_be_revoked(identities: IdentityStore) -> None:
    alice(identities)
    identities.revoke("bearer:alice")
    for unknown in ("bearer:alice", "jwt:alice", "alice", ""):
        with pytest.raises(IdentityUnknown):
            identities.revoke(unknown)


def test_a_label_gets_a_new_token_after_the_old_one_was_revoked(
    identities: IdentityStore, credentials: TokenCredentials, clock: Clock
) -> None:
    old = alice(identities)
    identities.revoke("bearer:alice")
    clock.at += timedelta(seconds=1)
    new = alice(identities)
    assert who(old, credentials) is None
    assert who(new, credentials) == ALICE


def test_identities_are_listed_by_tenant_in_pages(identities: IdentityStore) -> None:
    for label in ("carol", "alice", "bob"):
        identities.create(label, "acme", Kind.PERSON, APPROVER)
    identities.create("dora", "acme-2", Kind.PERSON, APPROVER)
    identities.allow("erin", "acme", Kind.PERSON, APPROVER)
    assert everybody(identities, "acme-2") == ["bearer:dora"]
    assert everybody(identities, "nobody") == []
    seen: list[str] = []
    cursor = None
    while True:
        page = identities.list("acme", limit=2, cursor=cursor)
        assert len(page.identities) <= 2
        seen += [identity.principal.id for identity in page.identities]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ["bearer:alice", "bearer:bob", "bearer:carol", "jwt:erin"]
    assert set(everybody(identities)) == {*seen, "bearer:dora"}


def test_a_cursor_of_another_tenant_is_refused(identities: IdentityStore) -> None:
    for label in ("alice", "bob"):
        identities.create(label, "acme", Kind.PERSON, APPROVER)
    cursor = identities.list("acme", limit=1).cursor
    for tenant, other in (("globex", cursor), ("acme", "made up")):
        with pytest.raises(ValueError, match="cursor"):
            identities.list(tenant, cursor=other)


# Crashes and lost replies


@pytest.mark.parametrize("faults", [["before"], ["after"], ["before", "after"], ["after", "after"]])
def test_a_lost_reply_is_no_loss(store: Store, credentials: TokenCredentials, faults: list[str]) -> None:
    identities = IdentityStore(Faulty(store, *faults), store)
    token = alice(identities)
    assert who(token, credentials) == ALICE
    identities = IdentityStore(Faulty(store, *faults), store)
    identities.allow("bob", "acme", Kind.PERSON, APPROVER)
    identities = IdentityStore(Faulty(store, *faults), store)
    assert identities.revoke("bearer:alice").principal == ALICE
    assert who(token, credentials) is None


def test_a_lost_reply_is_not_taken_for_somebody_elses_success(store: Store) -> None:
    alice(IdentityStore(store, store))
    with pytest.raises(IdentityExists):
        alice(IdentityStore(Faulty(store, "before"), store))


def test_where_nothing_answers_nothing_is_claimed(store: Store) -> None:
    identities = IdentityStore(Faulty(store, *["before"] * 9), store)
    with pytest.raises(StoreError):
        alice(identities)
    alice(IdentityStore(store, store))
    with pytest.raises(StoreError):
        identities.revoke("bearer:alice")
    assert everybody(IdentityStore(store, store)) == ["bearer:alice"]


def test_a_read_that_fails_authenticates_nobody(store: Store, identities: IdentityStore) -> None:
    token = alice(identities)
    with pytest.raises(Unavailable):
        who(token, TokenCredentials(Faulty(store, "read")))


@pytest.mark.parametrize(
    "damage",
    [{"kind": "robot"}, {"roles": "approver admin"}, {"expires_at": "soon"}, {"tenant": 7}, {"hash": True}],
)
def test_an_item_that_can_not_be_understood_authenticates_nobody(
    store: Store, identities: IdentityStore, credentials: TokenCredentials, damage: Item
) -> None:
    token = alice(identities)
    key = Key(f"TOKEN#{token_hash(token)}", "TOKEN")
    item = store.get(key)
    assert item is not None
    store.write(Put(key, {**item, **damage}))
    with pytest.raises(Unavailable):
        who(token, credentials)


@pytest.fixture(params=["twin", "emulator"])
def locked_store(request: pytest.FixtureRequest) -> Store:
    """Not moto, which has no locks."""
    if request.param == "twin":
        return MemoryTable()
    emulator: Emulator = request.getfixturevalue("emulator")
    return emulator.table()


def test_two_at_once_get_one_identity(locked_store: Store) -> None:
    credentials = TokenCredentials(locked_store)

    def create(_: int) -> str | None:
        try:
            return alice(IdentityStore(locked_store, locked_store))
        except IdentityExists:
            return None

    with ThreadPoolExecutor(16) as pool:
        tokens = [token for token in pool.map(create, range(16)) if token is not None]
    assert len(tokens) == 1
    assert who(tokens[0], credentials) == ALICE


def test_two_revoke_at_once(locked_store: Store) -> None:
    identities = IdentityStore(locked_store, locked_store)
    token = alice(identities)

    def revoke(_: int) -> bool:
        try:
            identities.revoke("bearer:alice")
        except IdentityUnknown:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert any(pool.map(revoke, range(8)))
    assert who(token, TokenCredentials(locked_store)) is None
    assert everybody(identities) == []


def test_a_slow_revoke_leaves_the_identity_that_came_after(
    store: Store, identities: IdentityStore, credentials: TokenCredentials, clock: Clock
) -> None:
    alice(identities)
    later: list[str] = []

    class Slow(Faulty):
        def write(self, *writes: Write) -> None:
            identities.revoke("bearer:alice")
            clock.at += timedelta(seconds=1)
            later.append(alice(identities))
            super().write(*writes)

    IdentityStore(Slow(store), store).revoke("bearer:alice")
    assert who(later[0], credentials) == ALICE
    assert everybody(identities) == ["bearer:alice"]
