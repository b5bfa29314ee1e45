"""A story in which operators halt and lift, and what must hold of it in every state and at rest.

A ghost is what a check remembers of the past; nothing of the engine reads one. "Halted" means halted without
a break: `spell` tells one such time from the next.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any
from unittest.mock import patch
from uuid import UUID

from greenlet import getcurrent
from tests.property.test_approvals import ACTION, DAN, QUORUM, Ballot, votes_of
from tests.property.test_protocol import AGENT, ANN, BOB
from tests.property.world import Broken, OneSkill, SteppedTable, World

from interlock.a2a.errors import A2AError
from interlock.a2a.models import Message, Part, SendMessageConfiguration, SendMessageRequest, TaskState
from interlock.a2a.models import Role as MessageRole
from interlock.engine import context, halt, halt_report, records, sweep
from interlock.engine.facts import HALT, fact_pk
from interlock.engine.halt import Lifted, current, declare, lift
from interlock.engine.halt_report import Became, report_of
from interlock.engine.halts import HALTS, Halted, standing_halts
from interlock.engine.ports import Item, Key, OutcomeUnknown
from interlock.engine.records import Checkpoint, Halt, Run, TaskMeta, read_event
from interlock.engine.resume import resume_task
from interlock.engine.run_turn import TurnRun, TurnStopped
from interlock.engine.send import send_message
from interlock.oversight.approvals import APPROVE, DENY, Gate, Vote
from interlock.oversight.halts import Scope
from interlock.oversight.modes import Declared, Mode
from interlock.oversight.principals import Kind, Principal, Role

OPERATOR = Principal("bearer:olga", "acme", Kind.PERSON, frozenset({Role.PLATFORM_OPERATOR}))
EVERYTHING, TENANT, OTHERS = Scope(), Scope("acme"), Scope("acme", agent="other")
KEY = "k" * 16

ASKS, NEEDS_TWO, ASKS_LEAVE, NEEDS_CREDENTIAL, WORKS = (
    "asks",
    "needs two",
    "asks leave",
    "credential",
    "works",
)
"""What an agent's first turn does; the turns after it complete."""
APPROVED_FIRST = "approved first"
"""The same as `WORKS`, and the first turn starts once that was approved."""


@contextmanager
def small_world(shards: int) -> Iterator[None]:
    """Few shards, so that a walk is short, and ids that a schedule draws alike each time."""
    numbers = count(1)
    with (
        patch.object(records, "SHARDS", shards),
        patch.object(records, "COPIES", shards),
        patch.object(halt, "SHARDS", shards),
        patch.object(sweep, "SHARDS", shards),
        patch.object(halt_report, "SHARDS", shards),
        patch.object(context, "uuid4", lambda: UUID(int=next(numbers))),
    ):
        yield


@dataclass
class HaltWorld(World):
    """Also watched while somebody acts alone; who can not come to an end there is found."""

    unreadable: dict[str, bool] = field(default_factory=dict)
    """By actor: whether the last look at the halts failed."""
    unread: set[str] = field(default_factory=set)
    """Tasks that somebody could not read the halts of."""
    torn: bool = False
    """Whether others write between the items of a read that is no snapshot."""
    alone: int = 0
    changed: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.engine = replace(self.engine, table=LookingTable(self))

    def step(self, operation: Callable[[], Any], *, writes: bool) -> Any:
        def noted() -> Any:
            self.changed = self.changed or writes
            return operation()

        result = super().step(noted, writes=writes)
        if getcurrent().parent is None:
            self.alone += 1
            if self.alone > 1_500:
                self.broken = self.broken or Broken("I8 somebody alone never comes to an end")
                raise self.broken
            self.watch()
        return result

    def watch(self) -> None:
        """What nobody has written since the last look is as it was."""
        if self.changed:
            self.changed = False
            super().watch()


class LookingTable(SteppedTable):
    """Notes who could not read the halts; nothing else takes a snapshot."""

    def __init__(self, world: HaltWorld) -> None:
        super().__init__(world)
        self._looking = world

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Not as they were at one moment."""
        if not self._looking.torn or len(keys) < 2:
            return super().get_many(keys)
        apart = self._looking.schedule.choose(len(keys))
        rest = [key for at, key in enumerate(keys) if at != apart]
        found = dict(zip(rest, super().get_many(rest), strict=True))
        found[keys[apart]] = self.get(keys[apart])
        return [found[key] for key in keys]

    def snapshot(self, keys: Sequence[Key]) -> list[Item | None]:
        world = self._looking
        try:
            found = super().snapshot(keys)
        except OutcomeUnknown:
            world.unreadable[world.acting] = True
            world.unread.update(records.task_of(key.pk)[1] for key in keys if key.pk.startswith("T#"))
            raise
        world.unreadable[world.acting] = False
        return found


@dataclass(frozen=True)
class Picture:
    """What is in the table, without a step. Halts by scope, all other rows by task; prompts by their id."""

    halts: Mapping[str, Item] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    items: Mapping[str, Item] = field(default_factory=dict)
    """Of `metas`."""
    metas: Mapping[str, TaskMeta] = field(default_factory=dict)
    asks: Mapping[str, Checkpoint] = field(default_factory=dict)

    @property
    def halted(self) -> bool:
        return any("on" in item and covers(scope) for scope, item in self.halts.items())


def covers(scope: str) -> bool:
    return Scope.parse(scope, "").covers("acme", "agent", "skill")


Turn = tuple[str, int]


@dataclass
class Halting(Ballot):
    """`begins` is what the first turn of a task does. `progress`: it thinks aloud before that, and
    looks whether it was stopped. `heeds`: it ends when it is told to. `deadline`: of what it asks."""

    world: HaltWorld

    begins: str = WORKS
    progress: bool = False
    heeds: bool = True
    deadline: timedelta | None = None

    def __post_init__(self) -> None:
        self.picture = Picture()
        self.spell = 0
        """Ghost: how often a time without any halt has begun."""
        self.halted_then: set[Turn] = set()
        """Ghost: turns that existed while halted; no other may be stopped."""
        self.found: set[tuple[str, str, int]] = set()
        """Ghost: by scope, turns that were there when its halt was written; lifting it leaves none."""
        self.doomed: set[Turn] = set()
        """Ghost: turns that nobody had claimed when a halt was written; none of them ever runs."""
        self.claimed: dict[Turn, int] = {}
        self.stopped: set[Turn] = set()
        self.creator: dict[str, str] = {}
        self.began: dict[str, int] = {}
        self.sent: dict[str, str | None] = {}
        """By sender: its key."""
        self.accepted: set[str] = set()
        """Ghost: tasks whose send was told accepted while halted, having begun before."""
        self.ran_under: dict[str, str] = {}
        self.happened: Counter[tuple[str, str, int]] = Counter()
        """Ghost: which halts were declared, walked and lifted."""
        self.asked_for: dict[str, int] = {}
        """By who lifts: the halt that he has seen."""
        self.runs: list[TurnRun] = []
        self.world.script = self.script
        super().__post_init__()

    # The agent.

    def script(self, run: TurnRun) -> None:
        self._starts(run)
        self.runs.append(run)
        for thought in ("thinking", "and thinking", "and knowing") if self.progress else ():
            run.say(thought)
            if not run.is_held() and self.heeds:
                raise TurnStopped
        if run.turn > 1 or self.begins in (WORKS, APPROVED_FIRST):
            run.finish(TaskState.COMPLETED, "done")
        elif self.begins == ASKS_LEAVE:
            run.request_approval(ACTION, "Refund", gate=Gate(quorum=QUORUM), deadline=self.deadline)
        elif self.begins == NEEDS_CREDENTIAL:
            run.require_auth("Sign in")
        else:
            needed = ["consensus:2"] if self.begins == NEEDS_TWO else None
            run.ask("Go on?", {"type": "object"}, deadline=self.deadline, allowed_responders=needed)

    def _starts(self, run: TurnRun) -> None:
        turn = run.meta.task_id, run.turn
        if self.world.unreadable.get(self.world.acting):
            raise self._broken(f"I11 {turn} runs although the halt state could not be read")
        if turn in self.stopped:
            raise self._broken(f"I4 {turn} was stopped before it started; it starts")
        if turn in self.doomed:
            raise self._broken(f"I4 {turn} had not started when the halt was written; it runs")
        if self.claimed.get(turn) and self.claimed[turn] == self.since():
            raise self._broken(f"I4 {turn}, claimed after halt returned, runs while halted")
        sender = self.creator.get(run.meta.task_id, "")
        if run.turn == 1 and isinstance(self.world.told.get(sender), Halted):
            raise self._broken(f"I4 the send of {turn} was refused as halted; it starts")
        if run.meta.send_key is not None:
            other = self.ran_under.setdefault(run.meta.send_key, run.meta.task_id)
            if other != run.meta.task_id:
                raise self._broken("I2 one idempotency key ran as two tasks")

    def _broken(self, text: str) -> Broken:
        """Where the engine would take it for a mistake of the agent."""
        self.world.broken = self.world.broken or Broken(text)
        return self.world.broken

    def since(self) -> int:
        """0 where it is not halted; else which time of being halted it is."""
        return self.spell + 1 if self.picture.halted else 0

    # The actors.

    def sender(self, name: str, key: str | None = None) -> Callable[[], str]:
        def actor() -> str:
            self.sent[name] = key
            self.began[name] = self.since()
            try:
                task_id = self._send(name, key)
            except Halted:
                self._refused(name)
                raise
            began = self.began[name]
            if began and began == self.since():
                raise Broken("I4 a send that began after halt returned is told accepted")
            looked = self.begins != APPROVED_FIRST and not self.world.ran.get((task_id, 1))
            if looked and self.world.unreadable.get(name):
                raise Broken("I11 a send is accepted although the halt state could not be read")
            if self.picture.halted:
                self.accepted.add(task_id)
            return task_id

        return actor

    def _send(self, name: str, key: str | None) -> str:
        message = Message(message_id=key or name, role=MessageRole.USER, parts=[Part(text="go")])
        request = SendMessageRequest(
            message=message, configuration=SendMessageConfiguration(return_immediately=True)
        )
        directory = OneSkill(self.world.rerun)
        if self.begins == APPROVED_FIRST:
            directory = OneSkill(declared=Declared(Mode.GATED), gate=Gate(quorum=QUORUM))
        sent = send_message(
            self.world.engine, directory, AGENT, request, extensions=frozenset(), idempotency_key=key
        )
        assert sent.task is not None
        return sent.task.id

    def _refused(self, name: str) -> None:
        for task_id, by in self.creator.items():
            run, meta = self.picture.runs.get(task_id), self.picture.metas[task_id]
            stopping = run is not None and run.phase == Run.STOPPING
            if by == name and not stopping and meta.task_state is not TaskState.CANCELED:
                raise Broken(f"I4 a send is refused, and what it wrote is {meta.state}")

    def halter(self, scope: Scope) -> Callable[[], Halt]:
        return lambda: declare(self.world.engine, OPERATOR, scope, f"no more of {scope}")

    def resumer(self, scope: Scope, *, named: bool = False) -> Callable[[], Lifted]:
        """`named`: the operator says which halt he has seen."""

        def actor() -> Lifted:
            seen = self.world.wait_for(lambda: (h := current(self.world.table, scope)) and h.on and h)
            self.world.pause()
            if named:
                self.asked_for[self.world.acting] = seen.generation
            return lift(self.world.engine, OPERATOR, scope, seen.generation if named else None)

        return actor

    def walker(self) -> str:
        """Takes any wake there ever was."""
        wakes = self.world.wakes.walks
        self.world.wait_for(lambda: wakes)
        scope, generation = list(wakes)[self.world.schedule.choose(len(wakes))]
        self.world.walk(scope, generation)
        return "walked"

    def late_sweeper(self) -> None:
        """Leases and the time that a stopped run has left are over when it comes."""
        self.world.pause()
        self.world.clock.time += timedelta(minutes=2)
        sweep.sweep(self.world.engine)

    def watch_run(self) -> bool:
        """The thread beside a turn that looks whether it was stopped."""
        run: TurnRun = self.world.wait_for(lambda: self.runs and self.runs[-1])
        self.world.pause()
        return run.is_held()

    def answerer(self, who: Principal) -> Callable[[], Any]:
        return self._decider(who, lambda ask: self._admit(who, ask, f"{who.id}-1", True))

    def voter(self, who: Principal, said: str) -> Callable[[], Any]:
        return self._decider(who, lambda ask: self._decide(who, ask, said))

    def _decider(self, who: Principal, say: Callable[[Checkpoint], Any]) -> Callable[[], Any]:
        def actor() -> Any:
            ask = self.world.wait_for(self.prompts)[0]
            try:
                told = say(ask)
            except A2AError as error:
                # A deadline that has passed is told as of the moment at which the prompt was read.
                truthful = isinstance(error, Halted) or (self.deadline is None and not is_outage(error))
                if truthful and who.id in votes_in(self.picture.asks[ask.ask_id]):
                    raise Broken(f"I1 {who.id} counted, and is told {error}") from error
                raise
            if who.id not in votes_in(self.picture.asks[ask.ask_id]):
                raise Broken(f"I1 {who.id} is told to have counted, and has not")
            return ask.ask_id, told

        return actor

    def message(self) -> str:
        """A plain message to a task that waits."""
        task_id = self._waiting()
        try:
            self._go_on(task_id)
        except Halted as error:
            if self._went_on(task_id):
                raise Broken("I4 a message is refused as halted, and was taken") from error
            raise
        if not self._went_on(task_id):
            raise Broken("I8 a message was told accepted, and is not there")
        return "went on"

    def _go_on(self, task_id: str) -> None:
        said = Message(
            message_id="m-2", role=MessageRole.USER, parts=[Part(text="never mind")], task_id=task_id
        )
        request = SendMessageRequest(
            message=said, configuration=SendMessageConfiguration(return_immediately=True)
        )
        send_message(self.world.engine, OneSkill(), AGENT, request, extensions=frozenset())

    def _went_on(self, task_id: str) -> bool:
        events = [read_event(item) for item in self.log[task_id].values()]
        return any(event.message is not None and event.message.message_id == "m-2" for event in events)

    def credential(self) -> str:
        """Somebody says that the credential has arrived."""
        task_id = self._waiting()
        try:
            resume_task(self.world.engine, AGENT, task_id)
        except Halted as error:
            if any(read_event(item).resumed for item in self.log[task_id].values()):
                raise Broken("I4 a resumption is refused as halted, and was taken") from error
            raise
        return "resumed"

    def _waiting(self) -> str:
        def waiting() -> str | None:
            return next((t for t, meta in self.picture.metas.items() if meta.task_state.interrupted), None)

        found: str = self.world.wait_for(waiting)
        return found

    def all(self) -> dict[str, Callable[[], Any]]:
        votes = self.begins in (ASKS_LEAVE, APPROVED_FIRST)
        ann, bob = (self.voter(who, APPROVE) if votes else self.answerer(who) for who in (ANN, BOB))
        return {
            "send": self.sender("send"),
            "send with key": self.sender("send with key", KEY),
            "send again": self.sender("send again", KEY),
            "halt": self.halter(TENANT),
            "halt anew": self.halter(TENANT),
            "halt all": self.halter(EVERYTHING),
            "halt others": self.halter(OTHERS),
            "lift": self.resumer(TENANT),
            "lift seen": self.resumer(TENANT, named=True),
            "lift all": self.resumer(EVERYTHING),
            "lift others": self.resumer(OTHERS),
            **dict.fromkeys(("walker 1", "walker 2"), self.walker),
            **dict.fromkeys(("worker 1", "worker 2", "worker 3"), self.work),
            **dict.fromkeys(("sweeper 1", "sweeper 2"), self.late_sweeper),
            "watch": self.watch_run,
            "ann": ann,
            "ann again": ann,
            "bob": bob,
            "dan": self.voter(DAN, DENY),
            "message": self.message,
            "credential": self.credential,
            "cancel": self.cancel,
            "deadline passes": self.time_passes(5),
            "timer": self.timer,
        }

    def meta(self) -> TaskMeta | None:
        return next(iter(self.picture.metas.values()), None)

    def _count(self, request: Checkpoint, votes: Mapping[str, Vote]) -> None:
        if request.kind == Checkpoint.APPROVAL:
            super()._count(request, votes)

    # What must hold in every state.

    def watch(self, world: World) -> None:
        before, self.picture = self.picture, self._look()
        now = self.picture
        for scope, item in now.halts.items():
            self._watch_halt(scope, before.halts.get(scope, {}), item, before)
        for task_id, run in now.runs.items():
            self._watch_run(before.runs.get(task_id), run)
        for task_id, meta in now.metas.items():
            if task_id not in before.metas:
                self.creator[task_id] = world.acting
            elif meta != (old := before.metas[task_id]):
                self._watch_change(old, meta, before.runs.get(task_id))
        for ask_id, ask in now.asks.items():
            if ask_id in before.asks and now.halted:
                self._not_consumed(before.asks[ask_id], ask)
        super().watch(world)

    def _look(self) -> Picture:
        copies: list[dict[str, Item]] = []
        runs: list[Run] = []
        metas: dict[str, Item] = {}
        asks: list[Checkpoint] = []
        for pk, rows in self._partitions():
            if pk.startswith(HALTS):
                copies.append(dict(rows))
            elif pk.startswith("RUN#"):
                runs += [Run.read(item) for _, item in rows]
            elif pk.startswith("T#"):
                metas |= {str(item["task_id"]): item for sk, item in rows if sk == "META"}
                asks += [Checkpoint.read(item) for sk, item in rows if sk.startswith("ASK#")]
        if copies and copies != [copies[0]] * records.COPIES:
            raise Broken("I4 the copies of a halt differ")
        return Picture(
            halts=copies[0] if copies else {},
            runs={run.task_id: run for run in runs},
            items=metas,
            metas={task_id: TaskMeta.read(item) for task_id, item in metas.items()},
            asks={ask.ask_id: ask for ask in asks},
        )

    def metas(self) -> list[Item]:
        return list(self.picture.items.values())

    def prompts(self) -> list[Checkpoint]:
        return list(self.picture.asks.values())

    def _rows(self, pk: str) -> list[tuple[str, Item]]:
        return [(key.sk, item) for key, item in self.world.rows(pk)]

    def _watch_halt(self, scope: str, old: Item, item: Item, before: Picture) -> None:
        generation = int(item["generation"])
        if item["op"] != old.get("op"):
            if generation != int(old.get("generation", 0)) + 1:
                raise Broken(f"I4 halt {generation} of {scope} comes after {old.get('generation')!r}")
            self.happened["halt", scope, generation] += 1
            # The stream tells of it as well.
            self.world.wakes.walks[scope, generation] = None
            for run in self.picture.runs.values() if covers(scope) else ():
                turn = run.task_id, run.turn
                self.halted_then.add(turn)
                self.found.add((scope, *turn))
                if run.phase == Run.NEW:
                    self.doomed.add(turn)
        if "walked_at" in item and "walked_at" not in old:
            self.happened["stopped", scope, generation] += 1
        if "on" in old and "on" not in item:
            self.happened["resume", scope, generation] += 1
            self._lifted(scope, generation, before)

    def _lifted(self, scope: str, generation: int, before: Picture) -> None:
        asked = self.asked_for.get(self.world.acting, generation)
        if asked != generation:
            raise Broken(f"I4 a resume that was asked for halt {asked} lifts halt {generation}")
        for task_id, run in self.picture.runs.items():
            alive = run.phase != Run.STOPPING
            if alive and (scope, task_id, run.turn) in self.found:
                raise Broken(f"I4 resume leaves turn {run.turn}, accepted before the halt, alive")
            if alive and run.turn == 1 and task_id in self.accepted:
                raise Broken(
                    "I4 a send that raced the halt was neither refused nor stopped when it is lifted"
                )
        if before.halted and not self.picture.halted:
            self.spell += 1

    def _watch_run(self, old: Run | None, run: Run) -> None:
        turn = run.task_id, run.turn
        if old is None or old.turn != run.turn:
            # The stream tells of it as well.
            self.world.wakes.turns[run.tenant, run.task_id, run.turn] = None
        if self.picture.halted:
            self.halted_then.add(turn)
        if run.phase == Run.CLAIMED and (old is None or old.phase == Run.NEW):
            self.claimed[turn] = self.since()
        if run.phase == Run.STOPPING and (old is None or old.phase != Run.STOPPING):
            self._legitimate(turn)
            self.stopped.add(turn)

    def _legitimate(self, turn: Turn) -> None:
        if turn not in self.halted_then and turn[0] not in self.world.unread:
            raise Broken(f"I4 a stop of {turn}, which never existed while halted")

    def _watch_change(self, old: TaskMeta, meta: TaskMeta, run: Run | None) -> None:
        turn = meta.task_id, old.turn
        if meta.halted and not old.halted:
            if run is None:
                raise Broken(f"I4 a halt ends {meta.task_id}, which was waiting")
            self._legitimate(turn)
        if turn in self.stopped and meta.seq > old.seq and meta.task_state is not TaskState.CANCELED:
            raise Broken(f"I4 {turn} was stopped and records an event")
        if meta.turn != old.turn and self.picture.halted:
            raise Broken(f"I4 turn {meta.turn} is queued while halted")

    def _not_consumed(self, old: Checkpoint, ask: Checkpoint) -> None:
        if ask.votes != old.votes:
            raise Broken("I4 a vote is consumed while halted")
        if ask.status not in (old.status, Checkpoint.CANCELED):
            raise Broken(f"I4 a prompt is {ask.status} while halted")

    # What must hold at rest.

    def at_rest(self) -> None:
        self.world.acting = "rest"
        self._quiet()
        for scope in list(standing_halts(self.world.engine)):
            if lift(self.world.engine, OPERATOR, scope) is not Lifted.LIFTED:
                raise Broken(f"I8 {scope} can not be lifted")
        self.world.settle()
        self._quiet()
        self._retries()
        self._answerable()
        self._on_the_trail()
        self._reported()

    def _quiet(self) -> None:
        picture, world = self.picture, self.world
        if any("on" in item and "walked_at" not in item for item in picture.halts.values()):
            raise Broken("I8 a halt was never walked")
        if picture.runs:
            raise Broken(f"I8 a RUN row is left: {picture.runs}")
        if not picture.halted and world.due_rows():
            raise Broken("I8 a DUE row is left although its time has passed")
        for meta in picture.metas.values():
            self._quiet_task(meta)
        for name, task_id in world.told.items():
            if name in self.sent and isinstance(task_id, str) and task_id not in picture.metas:
                raise Broken("I8 an accepted send is lost")

    def _quiet_task(self, meta: TaskMeta) -> None:
        state = meta.task_state
        if not (state.terminal or state.interrupted):
            raise Broken(f"I8 a task is stuck {meta.state}")
        open_asks = [
            ask
            for ask in self.picture.asks.values()
            if ask.task_id == meta.task_id and ask.status == Checkpoint.OPEN
        ]
        if len(open_asks) != (state is TaskState.INPUT_REQUIRED):
            raise Broken(f"I8 {len(open_asks)} open prompts of a task that is {meta.state}")
        # What is to be approved first has been sent, and may not have been queued yet.
        unapproved = self.begins == APPROVED_FIRST and meta.turn == 0
        if not self.world.rerun and meta.turn + unapproved != meta.inputs:
            raise Broken(f"I2 {meta.turn} turns of {meta.inputs} inputs")
        for turn in range(1, meta.turn + 1):
            last = turn == meta.turn and state in (TaskState.FAILED, TaskState.CANCELED)
            if not (self.world.ran.get((meta.task_id, turn)) or last or self.world.rerun):
                raise Broken(f"I2 turn {turn} never ran, and the task is {meta.state}")

    def _retries(self) -> None:
        """Who was told "halted" sends again under the same key, and gets no ghost."""
        told = [self.world.told.get(name) for name, key in self.sent.items() if key is not None]
        if not any(isinstance(each, Halted) for each in told) or any(isinstance(each, str) for each in told):
            return
        task_id = self.sender("late retry", KEY)()
        self.world.settle()
        meta = self.picture.metas[task_id]
        if meta.halted and (task_id, 1) not in self.claimed:
            raise Broken("I8 the retry after the resume gets a task that a halt had ended")

    def _answerable(self) -> None:
        for meta in list(self.picture.metas.values()):
            if meta.task_state is TaskState.INPUT_REQUIRED:
                ask = self.picture.asks[str(meta.ask)]
                for who in (ANN, BOB):
                    if self.picture.asks[ask.ask_id].status == Checkpoint.OPEN:
                        self._say_yes(who, ask)
            elif meta.task_state is TaskState.AUTH_REQUIRED:
                resume_task(self.world.engine, AGENT, meta.task_id)
            else:
                continue
            self.world.settle()
            if not self.world.ran.get((meta.task_id, meta.turn + 1)):
                raise Broken("I8 what a halt left waiting does not go on")

    def _say_yes(self, who: Principal, ask: Checkpoint) -> None:
        if ask.kind == Checkpoint.APPROVAL:
            self._decide(who, ask, APPROVE)
        else:
            self._admit(who, ask, f"{who.id}-1", True)

    def _on_the_trail(self) -> None:
        """Each halt, its walk and its resume have their fact once, on the chain they belong to."""
        told: Counter[tuple[str, str, int]] = Counter()
        for chain in ("acme", ""):
            for _, item in self._rows(fact_pk(chain)):
                record = json.loads(str(item["body"]))
                if record["kind"] == HALT:
                    detail = record["detail"]
                    if (Scope.parse(detail["scope"], "").tenant or "") != chain:
                        raise Broken(f"I10 a halt of {detail['scope']} is on the chain of {chain!r}")
                    told[detail["action"], detail["scope"], detail["generation"]] += 1
        if told != self.happened:
            raise Broken(f"I10 {dict(self.happened)} happened, and {dict(told)} is told")

    def _reported(self) -> None:
        """Every turn that was told to stop is confirmed to have ended, or given up."""
        for item in self.picture.halts.values():
            for generation in range(1, int(item["generation"]) + 1):
                named = Halt.read({**item, "generation": generation})
                counts = report_of(self.world.table, named, self.world.clock.now()).counts
                if counts is None or counts[Became.ASKED]:
                    raise Broken(f"I8 the report of {named.name} waits for ever: {counts}")


def votes_in(ask: Checkpoint) -> Mapping[str, Any]:
    return votes_of(ask) if ask.kind == Checkpoint.APPROVAL else json.loads(ask.votes)


def is_outage(error: A2AError) -> bool:
    """Who is told this knows that it may have been done."""
    return error.http_status == 503 and not isinstance(error, Halted)
