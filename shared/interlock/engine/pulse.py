"""Telling people who wait for changes that there was one: topics, whose values no earlier one had.

They are raised from the table's stream, so that no decision waits for it, and they only wake.
"""

from dataclasses import dataclass
from enum import StrEnum

from interlock.engine.context import new_id
from interlock.engine.halts import HALTS
from interlock.engine.ports import Key, Table, Update
from interlock.engine.records import AGENTS, SCHEMA_VERSION, task_of
from interlock.oversight.halts import Scope

EVERYBODY = ""
"""No tenant has this name."""
ANYWHERE = "anywhere"
"""Halts of whatever tenant, for those who see them all."""


class Topic(StrEnum):
    CHECKPOINTS = "checkpoints"
    HALTS = "halts"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class Beat:
    """What is raised: an attribute of the row of a tenant, or of everybody's."""

    tenant: str
    name: str


def pulse_key(tenant: str) -> Key:
    return Key(f"PULSE#{tenant}", "PULSE")


def beats_of(pk: str, sk: str) -> list[Beat]:
    """What the change of a checkpoint, a halt or a registered agent raises, by its key."""
    if pk.startswith(AGENTS):
        return [Beat(pk.removeprefix(AGENTS), Topic.FLEET)]
    if pk.startswith(HALTS):
        tenant = Scope.parse(sk, EVERYBODY).tenant or EVERYBODY
        return [Beat(tenant, Topic.HALTS), Beat(EVERYBODY, ANYWHERE)]
    return [Beat(task_of(pk)[0], Topic.CHECKPOINTS)]


def raise_beat(table: Table, beat: Beat) -> None:
    """Twice does no harm: whoever waits looks once more."""
    value = new_id().replace("-", "")
    table.write(Update(pulse_key(beat.tenant), {"v": SCHEMA_VERSION, beat.name: value}))
