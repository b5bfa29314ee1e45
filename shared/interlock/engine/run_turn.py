"""One turn of a task: claimed by one worker, run once, and ended visibly.

Whatever the run records is written on condition that its claim still holds, so a run that was canceled, or
that was given up for lost, records nothing more.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from interlock.a2a.errors import A2AError, Unavailable
from interlock.a2a.models import Artifact, JsonObject, Message, TaskState
from interlock.engine.children import LOOK_EVERY, MAX_DELEGATIONS, due_row, told
from interlock.engine.context import (
    Engine,
    agent_message,
    attempts,
    landed,
    move,
    new_id,
    new_run,
    status,
)
from interlock.engine.facts import RUN_STARTED, RUN_WROTE_LATE, Fact
from interlock.engine.halts import first_on, halt_keys, halted_in, look, unless_halted
from interlock.engine.opening import Opening, asking_approval
from interlock.engine.ports import (
    ConditionFailed,
    Delete,
    Equals,
    Item,
    Missing,
    OutcomeUnknown,
    Put,
    StoreError,
    Update,
)
from interlock.engine.records import (
    MAX_EVENTS,
    Delegation,
    Event,
    EventTooLarge,
    Run,
    TaskMeta,
    instant,
)
from interlock.engine.stop import back_out, finish_stop, stop_turn
from interlock.engine.view import load
from interlock.oversight import hitl_prompt
from interlock.oversight.approvals import Gate
from interlock.oversight.schema_gate import SchemaRefused

logger = logging.getLogger(__name__)


class TurnStopped(Exception):
    """The turn is no longer this run's: the task was canceled, or the run was given up for lost."""


class TurnAbandoned(TurnStopped):
    """And the agent's code did not end when it was told to."""


class TurnEnded(Exception):
    """The agent's own mistake: it recorded something after it had ended its turn."""


class TurnTimedOut(Exception):
    """The agent's code was still running when the worker's time was over."""


class Refused(ValueError):
    """What the agent wanted to record breaks a limit or a rule; nothing was stored. The text says which."""


class Executor(Protocol):
    """Runs the agent's code for one claimed turn, for at most `seconds`, else raises `TurnTimedOut`.

    Whatever it raises ends the task FAILED."""

    def execute(self, run: "TurnRun", seconds: float) -> None: ...


def run_turn(
    engine: Engine, executor: Executor, tenant: str, task_id: str, turn: int, seconds: float
) -> None:
    """Claims the turn and runs it for at most `seconds`. Does nothing if the turn is not to be had.

    A turn that ends without an end of its own is COMPLETED; one that raises is FAILED, without its reasons,
    which are only logged.
    """
    run = start(engine, tenant, task_id, turn)
    if run is None:
        return
    try:
        executor.execute(run, seconds)
        if not run.ended:
            run.finish(TaskState.COMPLETED)
    except TurnStopped as stopped:
        logger.info("turn stopped", extra={"task_id": task_id, "turn": turn})
        run.end_stopped(heard=not isinstance(stopped, TurnAbandoned))
    except TurnTimedOut:
        # Whether its code has ended is not known.
        _fail(run, "The agent did not finish in time.", heard=False)
    except Exception:
        logger.exception("agent failed", extra={"task_id": task_id, "turn": turn})
        _fail(run, "The agent failed.", heard=True)
    finally:
        if run.meta.delegates:
            # What the run has delegated, and neither seen the end of nor let go, ends with it.
            engine.waker.wake_children(tenant, task_id)


def _fail(run: "TurnRun", text: str, *, heard: bool) -> None:
    if run.ended:
        return
    try:
        run.finish(TaskState.FAILED, text)
    except TurnStopped:
        logger.info("turn stopped", extra={"task_id": run.meta.task_id, "turn": run.turn})
        run.end_stopped(heard=heard)


def start(engine: Engine, tenant: str, task_id: str, turn: int) -> "TurnRun | None":
    """Claims the turn, and only then looks for a halt, and whether the claim still holds (I4)."""
    run = claim(engine, tenant, task_id, turn)
    if run is None:
        return None
    moment = look(engine, run.meta)
    held = moment.meta is not None and run.holds(moment.meta)
    if moment.why is None and held:
        return run
    logger.info("turn not started", extra={"task_id": task_id, "turn": turn})
    back_out(engine, run.meta, moment.why or STOPPED, moment.halt)
    return None


def claim(engine: Engine, tenant: str, task_id: str, turn: int) -> "TurnRun | None":
    """At most one claim of a turn succeeds; it raises the fence. A claim knows itself by its id."""
    claim_id, fence = new_id(), -1
    for _ in attempts(engine.clock):
        loaded = load(engine.table, tenant, task_id)
        if loaded is None:
            return None
        meta, events = loaded
        if meta.task_state.terminal or meta.turn != turn:
            return None
        if meta.claim == claim_id and meta.fence == fence:
            return TurnRun(engine, meta, events)
        if meta.claimed >= turn:
            return None
        now = engine.clock.now()
        changes: dict[str, Any] = {
            "fence": meta.fence + 1,
            "claimed": turn,
            "claim": claim_id,
            "claimed_at": instant(now),
        }
        starts = meta.task_state is TaskState.SUBMITTED
        event = Event(status=status(TaskState.WORKING, now)) if starts else None
        fact = Fact(RUN_STARTED, detail={"agent": meta.agent, "skill": meta.skill})
        moved, writes = move(meta, event, now=now, op=claim_id, changes=changes, fact=fact)
        fence = moved.fence
        claimed: Item = {"phase": Run.CLAIMED, "fence": fence, "lease_until": lease_end(engine, now)}
        writes.append(
            Update(meta.run_key, claimed, conditions=(Equals("turn", turn), Equals("phase", Run.NEW)))
        )
        try:
            engine.table.write(*writes)
        except (ConditionFailed, OutcomeUnknown):
            continue
        return TurnRun(engine, moved, [*events, event] if event is not None else events)
    raise AssertionError("attempts end by raising")


def lease_end(engine: Engine, now: datetime) -> str:
    return instant(now + timedelta(seconds=engine.limits.lease))


@dataclass(frozen=True, slots=True)
class AdmittedAnswer:
    """An answer as it was admitted: `responder` is the authenticated identity."""

    prompt_id: str
    payload: JsonObject
    responder: str


@dataclass(frozen=True, slots=True)
class AdmittedApproval:
    """How an approval request ended. `decision` is approve, deny or changes; `edited` is an edit of `action`.

    `approvers` are all whose approval counted, `decided_by` is whose vote settled it: authenticated people.
    `instead_of` says of those of them who stood in for somebody who is away, for whom.
    """

    request_id: str
    decision: str
    digest: str
    decided_by: str
    approvers: tuple[str, ...]
    action: JsonObject
    comment: str | None = None
    edited: JsonObject | None = None
    instead_of: Mapping[str, str] = field(default_factory=dict)


class TurnRun:
    """What a claimed turn may do, each a conditional write. Raises `TurnStopped` once the claim is gone."""

    def __init__(self, engine: Engine, meta: TaskMeta, events: Sequence[Event]) -> None:
        self.meta = meta
        self.turn = meta.turn
        self.events = list(events)
        self.ended = False
        self.stopped = threading.Event()
        self.engine = engine
        self.fence = meta.fence
        self._lock = threading.Lock()
        """An agent may record from several threads; its events are numbered one after the other."""

    @property
    def message(self) -> Message:
        return next(event.message for event in reversed(self._inputs) if event.message is not None)

    @property
    def answers(self) -> list[AdmittedAnswer]:
        """All answers of the task so far, oldest first."""
        return [_admitted(event) for event in self.events if event.answers is not None]

    @property
    def answer(self) -> AdmittedAnswer | None:
        """The answer that started this turn, if it was one."""
        return _admitted(self._cause) if self._cause.answers is not None else None

    @property
    def resumed(self) -> bool:
        """Whether this turn was started without a message."""
        return bool(self._cause.resumed)

    @property
    def _cause(self) -> Event:
        """What this turn was queued for, in the first place if it is run again."""
        return next(event for event in reversed(self._inputs) if event.message is not None or event.resumed)

    @property
    def _inputs(self) -> list[Event]:
        return [event for event in self.events if not event.dispatch]

    @property
    def approval(self) -> AdmittedApproval | None:
        """The decision that started this turn, if it was one."""
        return _decided(self._cause.approval) if self._cause.approval is not None else None

    def say(self, text: str) -> None:
        """A status message; the task goes on WORKING."""
        self._record(self._status(TaskState.WORKING, text))

    def add_artifact(self, artifact: Artifact, *, append: bool = False, last_chunk: bool = True) -> None:
        self._record(lambda _: Event(artifact=artifact, append=append or None, last_chunk=last_chunk or None))

    def finish(self, state: TaskState, text: str | None = None) -> None:
        """Ends the task in a terminal state."""
        self._record(self._status(state, text), ends=True)

    def require_auth(self, text: str) -> None:
        """Ends the turn: the task waits for a credential, which `text` explains (specification 7.6.1)."""
        if not text.strip():
            raise Refused("what is to be authorised has to be said")
        self._record(self._status(TaskState.AUTH_REQUIRED, text), ends=True)

    def ask(
        self,
        prompt: str,
        schema: JsonObject,
        *,
        deadline: datetime | timedelta | None = None,
        allowed_responders: Sequence[str] | None = None,
    ) -> str:
        """Ends the turn: the task waits for an answer. Returns the prompt's id.

        Raises `Refused` for an envelope or a schema that breaks a rule; then nothing is stored.
        """
        now = self.engine.clock.now()
        try:
            envelope = hitl_prompt.validate_emission(
                prompt=prompt,
                response_schema=schema,
                deadline=now + deadline if isinstance(deadline, timedelta) else deadline,
                allowed_responders=allowed_responders,
                now=now,
            )
            self.engine.guard.check(schema)
        except (hitl_prompt.PromptRefused, SchemaRefused) as error:
            raise Refused(str(error)) from error
        except OverflowError as error:
            raise Refused(BEYOND_TIME) from error
        self._open(Opening(envelope))
        return envelope.prompt_id

    def request_approval(
        self,
        action: JsonObject,
        summary: str,
        question: str | None = None,
        *,
        gate: Gate,
        quorum: int = 1,
        deadline: datetime | timedelta | None = None,
        allowed_responders: Sequence[str] | None = None,
    ) -> str:
        """Ends the turn: the task waits until exactly this action is approved or denied. Gives the id.

        `quorum`, and `consensus:<n>` of `allowed_responders`, may raise that of the gate. Whoever's words the
        run acts on is excluded here, by who they were authenticated as. Raises `Refused`; then nothing is
        stored.
        """
        now = self.engine.clock.now()
        try:
            opening = asking_approval(
                self.meta,
                action,
                summary,
                question,
                gate=gate.at_least(quorum),
                now=now,
                deadline=now + deadline if isinstance(deadline, timedelta) else deadline,
                allowed_responders=allowed_responders,
            )
        except ValueError as error:
            raise Refused(str(error)) from error
        except OverflowError as error:
            raise Refused(BEYOND_TIME) from error
        self._open(opening)
        return opening.envelope.prompt_id

    def _open(self, opening: Opening) -> None:
        self._record(lambda now: opening.event(self.meta, now), ends=True, opening=opening)

    def _status(self, state: TaskState, text: str | None) -> "Build":
        def build(now: datetime) -> Event:
            return Event(status=status(state, now, agent_message(self.meta, text) if text else None))

        return build

    def _record(self, build: "Build", *, ends: bool = False, opening: Opening | None = None) -> None:
        op, engine = new_id(), self.engine
        with self._lock:
            if self.ended:
                raise TurnEnded("The turn has ended: nothing more can be recorded")
            if not ends and self.meta.seq >= MAX_EVENTS:
                raise Refused(f"a task has at most {MAX_EVENTS} events")
            for _ in attempts(engine.clock):
                if self.stopped.is_set():
                    raise TurnStopped
                now, meta = engine.clock.now(), self.meta
                try:
                    event = build(now)
                    changes = opening.changes(meta) if opening is not None else None
                    fact = opening.fact(meta) if opening is not None else None
                    moved, writes = move(meta, event, now=now, op=op, changes=changes, fact=fact)
                except EventTooLarge as error:
                    raise Refused(f"what the agent records is {error}") from error
                if ends:
                    writes.append(Delete(meta.run_key))
                if opening is not None:
                    asked, opened = opening.opens(engine, meta, now)
                    writes.extend(opened)
                try:
                    engine.table.write(*writes)
                except (ConditionFailed, OutcomeUnknown):
                    if not landed(engine.table, meta, op):
                        self._reread()
                        continue
                self.meta, self.ended = moved, ends
                self.events.append(event)
                break
        if opening is None:
            return
        if engine.notices:
            engine.waker.wake_notices(self.meta.tenant, self.meta.task_id)
        if asked.due_key is not None and opening.envelope.deadline is not None:
            engine.waker.wake_timer(asked.due_key, opening.envelope.deadline)

    def note_delegation(self, delegation: Delegation) -> None:
        """Before its work is sent, and not while halted: whoever stops this run afterwards finds it."""
        op, engine = new_id(), self.engine
        with self._lock:
            if self.ended:
                raise TurnEnded("The turn has ended: nothing more can be delegated")
            for _ in attempts(engine.clock):
                if self.stopped.is_set():
                    raise TurnStopped
                now, meta = engine.clock.now(), self.meta
                if meta.delegates >= MAX_DELEGATIONS:
                    raise Refused(f"a task hands work down at most {MAX_DELEGATIONS} times")
                fact, count = told(delegation, meta, "made"), {"delegates": meta.delegates + 1}
                moved, writes = move(meta, None, now=now, op=op, changes=count, fact=fact)
                writes.append(Put(delegation.key, delegation.item(), (Missing("v"),)))
                writes.append(due_row(delegation, instant(now + LOOK_EVERY)))
                writes.extend(unless_halted(meta))
                try:
                    engine.table.write(*writes)
                except ConditionFailed as failed:
                    if halted_in(failed, writes) is not None and not self.is_held():
                        raise TurnStopped from failed
                except OutcomeUnknown:
                    pass
                else:
                    self.meta = moved
                    return
                # The id is fresh: what is there is from an earlier try, whose reply was lost.
                noted = engine.table.get(delegation.key) is not None
                self._reread()
                if noted:
                    return

    def hand_on(self) -> None:
        """Ends the turn and queues the next, which goes on with the same input; not while halted."""
        claim_of_next, engine = new_id(), self.engine
        with self._lock:
            for _ in attempts(engine.clock):
                if self.stopped.is_set():
                    raise TurnStopped
                now, meta = engine.clock.now(), self.meta
                moved, writes = move(meta, None, now=now, op=claim_of_next, changes={"turn": meta.turn + 1})
                mine = (Equals("turn", self.turn), Equals("fence", self.fence), Equals("phase", Run.CLAIMED))
                queued = new_run(moved, now)
                writes.append(Put(queued.key, queued.item(), mine))
                # A halt that came meanwhile stops the turn that it saw, and would miss the next.
                writes.extend(unless_halted(meta))
                try:
                    engine.table.write(*writes)
                except (ConditionFailed, OutcomeUnknown):
                    item = engine.table.get(meta.key)
                    if item is None or TaskMeta.read(item) != moved:
                        self._reread()
                        if not self.is_held():
                            raise TurnStopped from None
                        continue
                self.meta, self.ended = moved, True
                break
        engine.waker.wake_turn(self.meta.tenant, self.meta.task_id, self.meta.turn)

    def _reread(self) -> None:
        item = self.engine.table.get(self.meta.key)
        current = TaskMeta.read(item) if item is not None else None
        if current is None or not self.holds(current):
            self.stopped.set()
            self._note_late_write()
            raise TurnStopped
        self.meta = current

    def _note_late_write(self) -> None:
        """Something may have happened outside after the stop."""
        fact, now = Fact(RUN_WROTE_LATE, f"agent:{self.meta.agent}"), self.engine.clock.now()
        try:
            self.engine.table.write(fact.about(self.meta).put(self.meta.tenant, now))
        except StoreError:
            logger.warning("a write after the stop is not on the trail", extra={"task_id": self.meta.task_id})

    def is_held(self) -> bool:
        """Reads whether the turn is still this run's, and sets `stopped` if it is not. No answer means yes:
        every write is checked anyway.

        A halt is seen here too, so that it is heeded whoever else may fail to tell of it.
        """
        if self.ended:
            return True
        try:
            *halts, item = self.engine.table.get_many([*halt_keys(self.meta), self.meta.key])
            halt = first_on(halts)
            if halt is not None:
                stop_turn(self.engine, new_run(self.meta, self.engine.clock.now()), halt.reason, halt)
        except (OutcomeUnknown, Unavailable):
            return True
        held = halt is None and item is not None and self.holds(TaskMeta.read(item))
        if not held and not self.ended:
            self.stopped.set()
        return held

    def holds(self, current: TaskMeta) -> bool:
        return (
            (current.fence, current.turn) == (self.fence, self.turn)
            # A run that asked, but never heard that its question was stored, has ended its turn all the same.
            and current.task_state is TaskState.WORKING
        )

    def end_stopped(self, *, heard: bool) -> None:
        """`heard`: the agent's code has returned. What fails here, the sweeper does later."""
        try:
            finish_stop(self.engine, new_run(self.meta, self.engine.clock.now()), heard=heard)
        except (A2AError, StoreError):
            logger.info("stop not finished", extra={"task_id": self.meta.task_id, "turn": self.turn})

    def renew(self) -> None:
        """Says that the worker is alive: puts off the time at which the turn counts as lost."""
        lease = lease_end(self.engine, self.engine.clock.now())
        held = (Equals("fence", self.fence), Equals("phase", Run.CLAIMED))
        try:
            self.engine.table.write(Update(self.meta.run_key, {"lease_until": lease}, conditions=held))
        except (ConditionFailed, OutcomeUnknown):
            logger.info("lease not renewed", extra={"task_id": self.meta.task_id, "turn": self.turn})


Build = Callable[[datetime], Event]
STOPPED = "the turn was stopped before it started"
BEYOND_TIME = "deadline must be before the year 10000"


def _admitted(event: Event) -> AdmittedAnswer:
    if event.message is None or event.by is None:
        raise AssertionError("an answer without its message")
    response = hitl_prompt.parse_response(event.message.metadata)
    if response is None:
        raise AssertionError("an answer without its payload")
    return AdmittedAnswer(response.prompt_id, response.payload, event.by)


def _decided(outcome: Mapping[str, Any]) -> AdmittedApproval:
    return AdmittedApproval(
        request_id=outcome["requestId"],
        decision=outcome["decision"],
        digest=outcome["digest"],
        decided_by=outcome["decidedBy"],
        approvers=tuple(outcome["approvers"]),
        comment=outcome.get("comment"),
        action=outcome["action"],
        edited=outcome.get("edited"),
        instead_of=outcome.get("insteadOf", {}),
    )
