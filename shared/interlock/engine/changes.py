"""What has changed for the people of a tenant since they looked.

It only wakes whoever waits, to read again what they look at. The values are read without a promise of how new
they are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from interlock.a2a.errors import InvalidParams
from interlock.engine.context import Engine
from interlock.engine.fleet import check_reader
from interlock.engine.ports import Item
from interlock.engine.pulse import ANYWHERE, EVERYBODY, Topic, pulse_key
from interlock.oversight.principals import Kind, Principal, Role

_VALUE = r"[0-9a-f-]{0,128}"
_TOKEN = re.compile(rf"{_VALUE}\.{_VALUE}\.{_VALUE}")


@dataclass(frozen=True, slots=True)
class Seen:
    """The values of the topics, as one reader may know them."""

    values: Mapping[Topic, str]

    @property
    def token(self) -> str:
        return ".".join(self.values[topic] for topic in Topic)

    @classmethod
    def parse(cls, token: str) -> "Seen":
        """Raises `InvalidParams`."""
        if not _TOKEN.fullmatch(token):
            raise InvalidParams("since must be what an earlier call was answered with")
        return cls(dict(zip(Topic, token.split("."), strict=True)))

    def changed_since(self, before: "Seen") -> list[Topic]:
        return [topic for topic in Topic if self.values[topic] != before.values[topic]]


def look(engine: Engine, caller: Principal) -> Seen:
    """Raises `PermissionDenied` for who is neither approver nor operator."""
    check_reader(caller)
    own, everybody = (
        item or {} for item in engine.views.peek([pulse_key(caller.tenant), pulse_key(EVERYBODY)])
    )
    inbox = caller.has(Role.APPROVER, Role.OPERATOR)
    return Seen(
        {
            Topic.CHECKPOINTS: _value(own, Topic.CHECKPOINTS) if inbox else "",
            Topic.HALTS: _halts(caller, own, everybody),
            Topic.FLEET: _value(own, Topic.FLEET),
        }
    )


def _halts(caller: Principal, own: Item, everybody: Item) -> str:
    if caller.kind is not Kind.PERSON:
        return ""
    if caller.has(Role.PLATFORM_OPERATOR):
        return _value(everybody, ANYWHERE)
    return f"{_value(own, Topic.HALTS)}-{_value(everybody, Topic.HALTS)}"


def _value(row: Item, name: str) -> str:
    return str(row.get(name, ""))
