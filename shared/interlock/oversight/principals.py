"""Who calls: an authenticated identity, its tenant, its kind and its roles (shared facts, no I/O)."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    PERSON = "person"
    SERVICE = "service"


class Role(StrEnum):
    CALLER = "caller"
    """May send messages: the agents' side."""
    APPROVER = "approver"
    """May read the tenant's tasks and answer what they ask."""
    OPERATOR = "operator"
    """Tenant operator: may read the tenant's tasks, and halt within the tenant."""
    PLATFORM_OPERATOR = "platform-operator"
    """May halt everything; has no right to any tenant's tasks."""


_TENANT = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?")


def is_tenant(name: str) -> bool:
    """Tenant names are part of keys: lower-case DNS labels, so that no separator can be forged."""
    return _TENANT.fullmatch(name) is not None


def is_label(label: str) -> bool:
    return _LABEL.fullmatch(label) is not None


@dataclass(frozen=True, slots=True)
class Principal:
    """`id` is `<scheme>:<label>` (`bearer:alice`, `jwt:<sub>`); a credential is never an identity."""

    id: str
    tenant: str
    kind: Kind = Kind.SERVICE
    roles: frozenset[Role] = frozenset()

    def has(self, *roles: Role) -> bool:
        return not self.roles.isdisjoint(roles)
