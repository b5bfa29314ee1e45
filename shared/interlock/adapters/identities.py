"""The identities of a deployment, in a table of their own that no function may write.

| item | pk | sk |
|---|---|---|
| identity: tenant, kind, roles, the hash of its token | `IDENTITY#<id>` | `IDENTITY` |
| token: the same, found by the hash | `TOKEN#<SHA-256 in hex>` | `TOKEN` |

An identity with a token is both items, written and deleted together. The subject of a JWT is the first alone.
"""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from interlock.engine.authenticate import OPAQUE_PREFIX, Credential, is_subject, token_hash
from interlock.engine.ports import (
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Key,
    Missing,
    OutcomeUnknown,
    Put,
    StoreError,
    Table,
    Views,
)
from interlock.oversight.principals import Kind, Principal, Role, is_label, is_tenant

SCHEMA_VERSION = 1
ALL_IDENTITIES = "IDENTITIES"
PAGE_SIZE = 100
TRIES = 3
"""Of a write whose outcome is not known. It recognises its own item, so trying again is safe."""
_LARGEST = "\U0010ffff"


class IdentityExists(Exception):
    """A label or a subject names one identity of the deployment, whatever its tenant."""


class IdentityUnknown(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Identity:
    principal: Principal
    created_at: datetime
    expires_at: datetime | None = None


def _now() -> datetime:
    return datetime.now(UTC)


class TokenCredentials:
    """Implements `CredentialStore`: one strongly consistent read for each call."""

    def __init__(self, table: Table, *, now: Callable[[], datetime] = _now) -> None:
        self._table = table
        self._now = now

    def by_token_hash(self, hash_hex: str) -> Credential | None:
        return self._valid(_token_key(hash_hex), "hash")

    def by_subject(self, subject: str) -> Credential | None:
        return self._valid(_identity_key(f"jwt:{subject}"), "subject")

    def by_id(self, identity_id: str) -> Principal | None:
        """Of an identity that is valid now, for whom somebody else has vouched."""
        item = self._current(_identity_key(identity_id))
        return _identity(item).principal if item is not None else None

    def _valid(self, key: Key, known_by: str) -> Credential | None:
        item = self._current(key)
        return Credential(_identity(item).principal, _text(item, known_by)) if item is not None else None

    def _current(self, key: Key) -> Item | None:
        item = self._table.get(key)
        if item is None:
            return None
        expires_at = _identity(item).expires_at
        return None if expires_at is not None and expires_at <= self._now() else item


@dataclass(frozen=True, slots=True)
class IdentityPage:
    identities: tuple[Identity, ...]
    cursor: str | None


class IdentityStore:
    """What the deployer does. All methods raise `StoreError` where the store does not answer."""

    def __init__(self, table: Table, views: Views, *, now: Callable[[], datetime] = _now) -> None:
        self._table = table
        self._views = views
        self._now = now

    def create(
        self,
        label: str,
        tenant: str,
        kind: Kind,
        roles: Collection[Role],
        *,
        expires_at: datetime | None = None,
    ) -> tuple[Identity, str]:
        """A new identity `bearer:<label>` and its token, which can not be had a second time.

        Raises `ValueError` or `IdentityExists`. After a `StoreError` the identity may be there, with a token
        that nobody knows: revoke it and begin again.
        """
        if not is_label(label):
            raise ValueError(
                "a label is 1 to 128 of A-Z a-z 0-9 . _ @ -, with a letter or digit at both ends"
            )
        identity = self._new(f"bearer:{label}", tenant, kind, roles, expires_at)
        token = OPAQUE_PREFIX + secrets.token_urlsafe(32)
        item = _item(identity) | {"hash": token_hash(token)}
        named = Put(_identity_key(identity.principal.id), item | _listed(identity), (Missing("v"),))
        # The hash of 256 random bits is nobody else's, so only the name needs a condition.
        self._add(named, Put(_token_key(token_hash(token)), item))
        return identity, token

    def allow(
        self,
        subject: str,
        tenant: str,
        kind: Kind,
        roles: Collection[Role],
        *,
        expires_at: datetime | None = None,
    ) -> Identity:
        """A new identity `jwt:<subject>`: the issuer's tokens for it are accepted from now on.

        Raises `ValueError` or `IdentityExists`.
        """
        if not is_subject(subject):
            raise ValueError("a subject is 1 to 255 printable ASCII characters, without blanks and #")
        identity = self._new(f"jwt:{subject}", tenant, kind, roles, expires_at)
        item = _item(identity) | {"subject": subject} | _listed(identity)
        self._add(Put(_identity_key(identity.principal.id), item, (Missing("v"),)))
        return identity

    def list(
        self, tenant: str | None = None, *, limit: int = PAGE_SIZE, cursor: str | None = None
    ) -> IdentityPage:
        """A tenant's identities, or all, by tenant and id. Read from an index that may lag by a moment.

        Raises `ValueError` for a cursor that is not one of this listing.
        """
        first = "" if tenant is None else f"{tenant}#"
        page = self._views.query_view(
            ALL_IDENTITIES, first=first, last=first + _LARGEST, limit=limit, cursor=cursor
        )
        return IdentityPage(tuple(_identity(item) for _, item in page.rows), page.cursor)

    def revoke(self, identity_id: str) -> Identity:
        """Deletes identity and token: from when this returns, the credential is refused.

        Returns what it was. Raises `IdentityUnknown`.
        """
        key = _identity_key(identity_id)
        item = self._table.get(key)
        if item is None:
            raise IdentityUnknown
        # Only what was read: by the time this is written the label may name a newer identity.
        writes = [Delete(key, (Equals("created_at", _text(item, "created_at")),))]
        if "hash" in item:
            writes.append(Delete(_token_key(_text(item, "hash"))))
        for _ in range(TRIES):
            try:
                self._table.write(*writes)
            except OutcomeUnknown as unknown:
                cause = unknown
                continue
            except ConditionFailed:
                # Gone already: somebody else revoked it, or a try of this whose reply was lost.
                pass
            return _identity(item)
        raise OutcomeUnknown("the identity may still be there") from cause

    def _new(
        self, identity_id: str, tenant: str, kind: Kind, roles: Collection[Role], expires_at: datetime | None
    ) -> Identity:
        if not is_tenant(tenant):
            raise ValueError("a tenant is a DNS label: 1 to 63 of a-z 0-9 -, with no hyphen at either end")
        if not roles:
            raise ValueError("an identity has at least one role")
        created_at = self._now()
        if expires_at is not None and expires_at <= created_at:
            raise ValueError("the time of expiry has passed")
        return Identity(Principal(identity_id, tenant, kind, frozenset(roles)), created_at, expires_at)

    def _add(self, named: Put, *others: Put) -> None:
        for _ in range(TRIES):
            try:
                self._table.write(named, *others)
            except ConditionFailed as failed:
                # A try whose reply was lost meets itself here.
                if failed.old.get(0) == named.item:
                    return
                raise IdentityExists from failed
            except OutcomeUnknown as unknown:
                cause = unknown
            else:
                return
        raise OutcomeUnknown("the identity may be there or not") from cause


def _identity_key(identity_id: str) -> Key:
    return Key(f"IDENTITY#{identity_id}", "IDENTITY")


def _token_key(hash_hex: str) -> Key:
    return Key(f"TOKEN#{hash_hex}", "TOKEN")


def _item(identity: Identity) -> Item:
    principal = identity.principal
    item: Item = {
        "v": SCHEMA_VERSION,
        "id": principal.id,
        "tenant": principal.tenant,
        "kind": principal.kind.value,
        "roles": " ".join(sorted(role.value for role in principal.roles)),
        "created_at": identity.created_at.isoformat(),
    }
    if identity.expires_at is not None:
        item["expires_at"] = identity.expires_at.isoformat()
    return item


def _listed(identity: Identity) -> Item:
    return {"view": ALL_IDENTITIES, "view_at": f"{identity.principal.tenant}#{identity.principal.id}"}


def _identity(item: Item) -> Identity:
    """Raises `StoreError` for an item that can not be understood: whoever it was meant for is refused."""
    try:
        principal = Principal(
            _text(item, "id"),
            _text(item, "tenant"),
            Kind(_text(item, "kind")),
            frozenset(map(Role, _text(item, "roles").split())),
        )
        expires_at = datetime.fromisoformat(_text(item, "expires_at")) if "expires_at" in item else None
        return Identity(principal, datetime.fromisoformat(_text(item, "created_at")), expires_at)
    except ValueError as error:
        raise StoreError("an identity can not be read") from error


def _text(item: Item, name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise StoreError("an identity can not be read")
    return value
