"""The items of the core table: their keys, and what each holds.

A task is a small META item and immutable events; work that was accepted and is not finished has a RUN row;
what some time must look at has a DUE row. Every record carries the schema version `v`.
"""

import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import ClassVar, Self, cast

from interlock.a2a.card import PROTOCOL_VERSION
from interlock.a2a.models import Artifact, JsonObject, Message, TaskState, TaskStatus, Wire
from interlock.engine.ports import Item, Key

SCHEMA_VERSION = 1
SHARDS = 8
"""Partitions that RUN and DUE rows spread over; raising it needs a sweep of the old ones too."""

COMPRESS_ABOVE = 1024
MAX_EVENT_BYTES = 256 * 1024
"""Of one event on the wire: compressed, it could grow without bound when it is read."""
MAX_TASK_BYTES = 7 * 512 * 1024
"""Of all events of a task: what reads it whole, and Lambda's 6 MB of an answer, have room for it."""
MAX_EVENTS = 2000
"""Of one task."""


def shard(task_id: str) -> int:
    return blake2b(task_id.encode(), digest_size=2).digest()[0] % SHARDS


def instant(at: datetime) -> str:
    """Sorts as text in the order of time: UTC with microseconds."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def parse_instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


class Record:
    """Maps a dataclass with slots to an item and back; a field that is None is an absent attribute."""

    __slots__: tuple[str, ...] = ()

    def item(self) -> Item:
        item: Item = {"v": SCHEMA_VERSION}
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None:
                item[name] = value
        return item

    @classmethod
    def read(cls, item: Item) -> Self:
        return cls(**{name: item[name] for name in cls.__slots__ if name in item})


def task_pk(tenant: str, task_id: str) -> str:
    return f"T#{tenant}#{task_id}"


def task_of(pk: str) -> tuple[str, str]:
    """Tenant and task of a partition of `task_pk`; the ids of tasks are ours and hold no `#`."""
    tenant, _, task_id = pk.removeprefix("T#").rpartition("#")
    return tenant, task_id


@dataclass(frozen=True, slots=True)
class TaskMeta(Record):
    """The state of a task. `rev` rises with every change, `seq` with every event.

    `turn` is the number of the last turn that was queued, `claimed` of the last that a worker claimed;
    `fence` rises whenever whoever may write for the task changes. `ask` is the open checkpoint.
    `inputs` counts what its turns were queued for, messages and resumptions; it stays the same when a turn is
    run again.
    """

    tenant: str
    task_id: str
    context_id: str
    owner: str
    agent: str
    skill: str
    state: str
    created_at: str
    status_at: str
    view: str
    view_at: str
    rev: int = 1
    seq: int = 1
    turn: int = 1
    claimed: int = 0
    fence: int = 0
    inputs: int = 1
    claim: str | None = None
    claimed_at: str | None = None
    ask: str | None = None
    said: int | None = None
    """Sequence number of the event that carries the current status message."""
    rerun: bool = False
    """Whether its skill says that a lost turn may be run again."""
    isolated: bool = False
    """Whether only its owner sees it."""
    approval: bool = False
    """Whether the open prompt is an approval request."""
    required: int = 1
    """How many approvals that takes."""
    asked: int = 0
    """How many checkpoints it has had."""
    mode: str = "autonomous"
    """How much human is in the loop (hitl-mode-v1), as it was when the task was made."""
    radius: str | None = None
    """What its skill can touch (blast-v1), where the agent's card says so."""
    to_people: bool = False
    """Whether what it asks goes straight to people (`reviewer: operator`)."""
    by_person: bool = False
    """Whether its owner is a person."""
    dispatchers: str = ""
    """The agents that have delegated it, nearest first, beyond its owner; as they were recorded here."""
    told: bool = False
    """Whether people are told of it: then also how what it asked has ended."""
    source: str | None = None
    """Where the work came from, as its caller says: where to tell of it, never who may decide. JSON text."""
    last_author: str | None = None
    """The author of the last message that was not itself a decision."""
    editors: str = ""
    """Who asked for changes of an action, separated by spaces: none of them may approve the outcome."""
    inherited: str = ""
    """Who may not approve because they may not for the task that this one was delegated by."""
    depth: int = 0
    """Of delegation: 0 for a task that nobody delegated."""
    lease_until: str | None = None
    deadline: str | None = None
    """Delegated work ends at the earlier of the two; the lease can be renewed."""
    delegates: int = 0
    """How often it has handed work to other agents."""
    size: int = 0
    """Bytes of its events on the wire."""
    push: bool = False
    """Whether it has, or had, push notification configurations."""
    trace: str | None = None
    """`<trace id>-<span id>` of the call that made it."""
    send_key: str | None = None
    """The idempotency key of the send that made it, which is free again if a halt takes that back. One of
    delegated work never is: whoever sent it cancels it by its key, and must not get another task for it."""
    halted: bool = False
    """Whether a halt ended it,"""
    withdrawn: bool = False
    """before its first turn had started: then it was not accepted, and its idempotency key is free again."""

    @staticmethod
    def key_of(tenant: str, task_id: str) -> Key:
        return Key(task_pk(tenant, task_id), "META")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id)

    @property
    def task_state(self) -> TaskState:
        return TaskState(self.state)

    @property
    def held(self) -> bool:
        """Whether it still waits to start at all."""
        return not self.turn

    @property
    def lapses_at(self) -> str | None:
        return min(filter(None, (self.lease_until, self.deadline)), default=None)

    @property
    def run_key(self) -> Key:
        return Run.key_of(self.tenant, self.agent, self.skill, self.task_id)


def owner_view(tenant: str, owner: str) -> str:
    return f"OWN#{tenant}#{owner}"


class Event(Wire):
    """One change of a task, never changed again: a message that was admitted, a status, an artifact.

    `by` is who was authenticated for it; `answers` is the prompt that `message` was admitted for; `resumed`
    marks a turn that was queued without a message; `approval` is how an approval request ended, as
    `{requestId, decision, digest, action, approvers, decidedBy, insteadOf?, comment?, edited?}`, where
    `insteadOf` maps who stood in to whose place that was. `dispatch`: what `message` decides is whether the
    task may start, which the agent's code is not told as a message.
    """

    message: Message | None = None
    status: TaskStatus | None = None
    artifact: Artifact | None = None
    append: bool | None = None
    last_chunk: bool | None = None
    by: str | None = None
    answers: str | None = None
    resumed: bool | None = None
    dispatch: bool | None = None
    approval: JsonObject | None = None


class EventTooLarge(Exception):
    """The text names the limit, and is fit to be shown."""


def event_key(tenant: str, task_id: str, seq: int) -> Key:
    return Key(task_pk(tenant, task_id), f"EVT#{seq:010d}")


def event_item(event: Event, op: str, *, push: bool = False) -> Item:
    """`op` is the id of the attempt: who lost the reply to its write finds its own event by it.

    `push` marks an event that is to be delivered, for whoever reads the table's stream.
    """
    body = event.wire_json().encode()
    if len(body) > MAX_EVENT_BYTES:
        raise EventTooLarge(f"larger than {MAX_EVENT_BYTES} bytes")
    item: Item = {"v": SCHEMA_VERSION, "op": op, "size": len(body), **({"push": True} if push else {})}
    if len(body) <= COMPRESS_ABOVE:
        item["body"] = body.decode()
    else:
        item["packed"] = zlib.compress(body, 1)
    return item


def read_event(item: Item) -> Event:
    if "body" in item:
        return Event.model_validate_json(cast(str, item["body"]))
    return Event.model_validate_json(zlib.decompress(cast(bytes, item["packed"])))


@dataclass(frozen=True, slots=True)
class Run(Record):
    """Accepted and not finished work: the running index and the outbox of turns in one."""

    tenant: str
    task_id: str
    agent: str
    skill: str
    turn: int
    phase: str
    queued_at: str
    fence: int = 0
    attempt: int = 1
    lease_until: str | None = None
    stopped_by: str | None = None
    """Of a turn that was told to stop: which halts have told it, by their names, separated by spaces."""
    reason: str | None = None
    grace_until: str | None = None

    NEW: ClassVar[str] = "new"
    CLAIMED: ClassVar[str] = "claimed"
    STOPPING: ClassVar[str] = "stopping"
    """Its code was told to end; it records nothing more."""

    @staticmethod
    def key_of(tenant: str, agent: str, skill: str, task_id: str) -> Key:
        return Key(run_pk(shard(task_id)), f"{tenant}#{agent}#{skill}#{task_id}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.agent, self.skill, self.task_id)


def run_pk(number: int) -> str:
    return f"RUN#{number:02d}"


@dataclass(frozen=True, slots=True)
class Checkpoint(Record):
    """A prompt that waits for an answer, and after that how it ended.

    `envelope` is the hitl-prompt/v1 envelope, `votes` maps a person to `[digest of the payload, message id]`,
    `winner` is `[identity, message id, digest of the payload]`: all JSON text. `requested_by` is the owner
    of the task. While it is open it is in the tenant's inbox, and in its history after that.

    Of an approval request (`kind`), `approval` is what it asks and of whom, as JSON text, and `votes` maps a
    person to `[decision, digest of the action]`, and the digest of an edited one if that was wanted.

    A vote in the place of somebody who is away has who that is as its last: the fourth of an approval's, the
    third of a prompt's.
    """

    tenant: str
    task_id: str
    ask_id: str
    agent: str
    skill: str
    requested_by: str
    envelope: str
    asked_at: str
    number: int = 1
    """Of its task, counted from 1."""
    kind: str = "prompt"
    mode: str | None = None
    """Of its task; None where that is autonomous."""
    radius: str | None = None
    """Of its task."""
    dispatch: bool = False
    """Whether it asks if the task may start at all."""
    window_ms: int | None = None
    """How long a window of veto is."""
    hops: str = '[["people"], ["operators"]]'
    """Whom it is put to, one after the other, and how each has passed it on: JSON text."""
    hop_until: str | None = None
    """How long whoever is asked now has, where people can be told after that."""
    passed_op: str | None = None
    """The attempt that changed it last while it stayed open."""
    approval: str | None = None
    status: str = "open"
    rev: int = 1
    votes: str = "{}"
    deadline: str | None = None
    winner: str | None = None
    closed_at: str | None = None
    closed_by: str | None = None
    """Whose decision or cancel closed it; None where a time passed."""
    comment: str | None = None
    """Of the decision that closed it."""
    turn: int | None = None
    """The turn that was queued with what was decided, if one was."""
    extended_by: str | None = None
    claim_by: str | None = None
    """Who says that they look at it,"""
    claim_until: str | None = None
    """until when, which keeps nobody from deciding it,"""
    claim_note: str | None = None
    """what whoever passed it on to them said,"""
    claim_from: str | None = None
    """and who that was."""
    viewed: str | None = None
    """For how many milliseconds whoever has decided had it before them, as they say: JSON text."""
    view: str | None = None
    view_at: str | None = None

    PROMPT: ClassVar[str] = "prompt"
    APPROVAL: ClassVar[str] = "approval"
    WINDOW: ClassVar[str] = "window"
    """Of veto: nothing is asked, and the task starts at its `deadline` unless it is canceled."""

    OPEN: ClassVar[str] = "open"
    ANSWERED: ClassVar[str] = "answered"
    APPROVED: ClassVar[str] = "approved"
    DENIED: ClassVar[str] = "denied"
    CHANGES_REQUESTED: ClassVar[str] = "changes-requested"
    EXPIRED: ClassVar[str] = "expired"
    CANCELED: ClassVar[str] = "canceled"
    SUPERSEDED: ClassVar[str] = "superseded"
    PASSED: ClassVar[str] = "passed"
    VETOED: ClassVar[str] = "vetoed"

    @staticmethod
    def key_of(tenant: str, task_id: str, ask_id: str) -> Key:
        return Key(task_pk(tenant, task_id), f"ASK#{ask_id}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id, self.ask_id)

    @property
    def due_key(self) -> Key | None:
        if self.deadline is None:
            return None
        return Due.key_of(self.deadline, "deadline", self.tenant, self.task_id, self.ask_id)

    def claimed(self, by: str, until: str, giver: str | None = None, note: str | None = None) -> Self:
        return replace(self, claim_by=by, claim_until=until, claim_from=giver, claim_note=note)

    def unclaimed(self) -> Self:
        return replace(self, claim_by=None, claim_until=None, claim_from=None, claim_note=None)


def inbox_view(tenant: str) -> str:
    return f"INBOX#{tenant}"


def history_view(tenant: str) -> str:
    return f"DONE#{tenant}"


@dataclass(frozen=True, slots=True)
class PushConfig(Record):
    """A push notification configuration, and how far its delivery has come.

    `sealed` is the configuration as the wire has it, encrypted: it holds credentials. `delivered` is the
    number of the last event that was acknowledged. A worker that delivers is its `holder`, by a lease.
    `version` is that of the protocol it was set in, and is served in.
    """

    tenant: str
    task_id: str
    config_id: str
    by: str
    sealed: bytes
    delivered: int
    extensions: str
    version: str = PROTOCOL_VERSION
    status: str = "active"
    tries: int = 0
    retry_at: str | None = None
    holder: str | None = None
    held_until: str | None = None

    ACTIVE: ClassVar[str] = "active"
    PARKED: ClassVar[str] = "parked"

    @staticmethod
    def key_of(tenant: str, task_id: str, config_id: str) -> Key:
        return Key(task_pk(tenant, task_id), f"PUSH#{config_id}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id, self.config_id)


@dataclass(frozen=True, slots=True)
class Delegation(Record):
    """Work that a run has handed to another agent: written before it is sent, so it is never forgotten.

    `id` is also the idempotency key of the send, and its context. `turn` and `fence` are those of the run,
    `to` is the agent as the run named it. After `send_until` nobody sends it any more. `child` is its task
    there, once that is known; `ours`: its server knows a send by its key. `outcome` is how it ended, or what
    became of its cancel, which was tried `looked` times, and is not tried again before `retry_at`.
    """

    tenant: str
    task_id: str
    id: str
    to: str
    turn: int
    fence: int
    made_at: str
    send_until: str
    rev: int = 1
    status: str = "open"
    child: str | None = None
    outcome: str | None = None
    ours: bool = False
    settled_at: str | None = None
    looked: int = 0
    retry_at: str | None = None
    bound: bool = False
    """To its task, not to one run: every turn of it goes on with the same child, until the task has ended."""
    forwarded: int = 0
    """How many of the task's inputs the child was sent."""
    context: str | None = None
    """Of the child, as its server has it."""
    asks: str | None = None
    """What the child waited for when its question was passed on last."""
    heard_at: str | None = None
    """When its server was heard of last, where that was before the turn that follows it."""

    OPEN: ClassVar[str] = "open"
    WAITING: ClassVar[str] = "waiting"
    """Handed back, for the child waits for somebody: canceled only if this task is canceled meanwhile."""
    CANCELING: ClassVar[str] = "canceling"
    SETTLED: ClassVar[str] = "settled"
    DETACHED: ClassVar[str] = "detached"
    PARKED: ClassVar[str] = "parked"
    """Its cancel was given up: a dead letter, and an alarm."""

    @staticmethod
    def key_of(tenant: str, task_id: str, delegation_id: str) -> Key:
        return Key(task_pk(tenant, task_id), f"{DELEGATIONS}{delegation_id}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id, self.id)

    @property
    def over(self) -> bool:
        return self.status in (self.SETTLED, self.DETACHED, self.PARKED)


DELEGATIONS = "DEL#"


@dataclass(frozen=True, slots=True)
class Notice(Record):
    """Something that people are to be told of, and which renderers have told it (`told`, by their names)."""

    tenant: str
    task_id: str
    id: str
    tells: str
    at: str
    ask_id: str | None = None
    status: str = "open"
    tries: int = 0
    told: str = ""

    OPEN: ClassVar[str] = "open"
    TOLD: ClassVar[str] = "told"
    UNRENDERED: ClassVar[str] = "unrendered"
    """There was nobody to give it to."""
    PARKED: ClassVar[str] = "parked"

    @staticmethod
    def key_of(tenant: str, task_id: str, notice_id: str) -> Key:
        return Key(task_pk(tenant, task_id), f"{NOTICES}{notice_id}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id, self.id)


NOTICES = "NOTE#"


@dataclass(frozen=True, slots=True)
class Registered(Record):
    """An agent elsewhere that a tenant has put under oversight. What its skills declare is in its card.

    `peer` names the credential that it is called with. `card` is its card as it was fetched last, compressed
    JSON. `problem` says why the last fetch failed, whose card is then an older one. `overrides` maps skills
    to modes that people have raised them to, as JSON text.
    """

    tenant: str
    name: str
    url: str
    added_by: str
    added_at: str
    refresh_at: str
    peer: str | None = None
    rev: int = 1
    card: bytes | None = None
    fetched_at: str | None = None
    tried_at: str | None = None
    problem: str | None = None
    overrides: str = "{}"

    @staticmethod
    def key_of(tenant: str, name: str) -> Key:
        return Key(registered_pk(tenant), name)

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.name)

    @property
    def to(self) -> str:
        """What a peer is resolved by."""
        return self.peer or self.url


AGENTS = "AGENT#"


def registered_pk(tenant: str) -> str:
    return f"{AGENTS}{tenant}"


@dataclass(frozen=True, slots=True)
class Away(Record):
    """A person is away from `since` until `until`, as `said_by` said; `substitute` stands in for them."""

    tenant: str
    who: str
    substitute: str
    since: str
    until: str
    said_by: str
    said_at: str
    rev: int = 1

    @staticmethod
    def key_of(tenant: str, who: str) -> Key:
        return Key(away_pk(tenant), who)

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.who)


def away_pk(tenant: str) -> str:
    return f"AWAY#{tenant}"


@dataclass(frozen=True, slots=True)
class Due(Record):
    """Something that is to be looked at once `at` has passed; deleted only when it was handled."""

    kind: str
    tenant: str
    task_id: str
    id: str
    at: str

    @property
    def key(self) -> Key:
        return self.key_of(self.at, self.kind, self.tenant, self.task_id, self.id)

    @staticmethod
    def key_of(at: str, kind: str, tenant: str, task_id: str, id: str) -> Key:  # noqa: A002
        return Key(due_pk(shard(task_id)), f"{at}#{kind}#{tenant}#{task_id}#{id}")


def due_pk(number: int) -> str:
    return f"DUE#{number:02d}"


COPIES = SHARDS
"""Of each halt, so that what reads them spreads: a task reads the copy of its shard."""


@dataclass(frozen=True, slots=True)
class Halt(Record):
    """A halt of one scope, and after it was lifted that there was one. All copies are written as one.

    `generation` counts the halts of the scope; `on` is there while it holds. `walked_at`: everything that it
    found running was stopped, or told to stop. `op` and `lift_op` are the attempts that declared
    and lifted it.
    """

    scope: str
    generation: int
    reason: str
    by: str
    halted_at: str
    op: str
    rev: int = 1
    on: bool | None = None
    walked_at: str | None = None
    stopped: int = 0
    resumed_at: str | None = None
    resumed_by: str | None = None
    lift_op: str | None = None

    @staticmethod
    def key_of(copy: int, scope: str) -> Key:
        return Key(halts_pk(copy), scope)

    @property
    def name(self) -> str:
        return f"{self.scope}#{self.generation}"

    def copies(self) -> list[Key]:
        return [self.key_of(copy, self.scope) for copy in range(COPIES)]


def halts_pk(copy: int) -> str:
    return f"HALT#{copy:02d}"


@dataclass(frozen=True, slots=True)
class Stopped(Record):
    """What a halt found running, a turn each. `ended_at` is there once its code is known to run no more, or
    never ran (`started`); `abandoned_at` if that was never heard, and the grace was over."""

    tenant: str
    task_id: str
    turn: int
    started: bool
    stopped_at: str
    ended_at: str | None = None
    abandoned_at: str | None = None

    @staticmethod
    def key_of(halt: str, tenant: str, task_id: str, turn: int) -> Key:
        return Key(stopped_pk(halt, shard(task_id)), f"{tenant}#{task_id}#{turn:06d}")


def stopped_pk(halt: str, number: int) -> str:
    """`halt` is its `name`."""
    return f"STOPPED#{halt}#{number:02d}"


def walk_key(halt: str, number: int) -> Key:
    """Is there once the shard was walked for the halt."""
    return Key(f"WALK#{halt}", f"{number:02d}")


@dataclass(frozen=True, slots=True)
class StreamSlot(Record):
    """One of the streams that a tenant may have open at once; free again after `until`."""

    holder: str
    until: str


def streams_pk(tenant: str) -> str:
    return f"STREAMS#{tenant}"


@dataclass(frozen=True, slots=True)
class SendKey(Record):
    """The idempotency key of a send: which task it made, and for which message.

    Without a task it was canceled before it arrived, and makes none.
    """

    task_id: str
    digest: str

    @property
    def canceled(self) -> bool:
        return not self.task_id

    @staticmethod
    def key_of(tenant: str, caller: str, key: str) -> Key:
        return Key(f"IDEM#{tenant}#{caller}", key)
