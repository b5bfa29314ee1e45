"""Handing work to another agent, from a run: recorded, then sent, followed, and let go or settled."""

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from interlock.a2a.errors import TaskNotFound
from interlock.a2a.models import JsonObject, Message, Task, TaskState
from interlock.engine.children import LOOK_EVERY, OUTCOMES, change, due_row, told
from interlock.engine.context import attempts, barred, new_id
from interlock.engine.peers import PeerAddress, PeerRefused, Peers, PeerUnreachable
from interlock.engine.ports import Check, ConditionFailed, Equals, OutcomeUnknown, Write
from interlock.engine.records import Delegation, instant, parse_instant
from interlock.engine.run_turn import Refused, TurnRun, TurnStopped
from interlock.oversight import delegation as terms_of
from interlock.oversight.delegation import MAX_DEPTH, MAX_EXCLUDED, MalformedTerms, Outcome, Terms

SEND_SECONDS = 30.0
"""How long a run tries to send; after that nobody does."""
LOST_AFTER = timedelta(seconds=30)
"""Without an answer of its server a child counts as lost."""


@dataclass(frozen=True, slots=True)
class Settled:
    """`task` and `message` are the child's last word, if there is one. `text` says why there is none."""

    outcome: Outcome
    task: Task | None = None
    message: Message | None = None
    text: str | None = None


class Handed:
    """One delegation of a run. Its methods block, and may be called from several threads.

    They raise `TurnStopped` once the run no longer holds its turn: then others see to the child.
    """

    def __init__(
        self,
        run: TurnRun,
        peers: Peers,
        to: str,
        message: Message,
        *,
        lease: timedelta | None = None,
        deadline: datetime | None = None,
        self_approval: bool = False,
    ) -> None:
        """`self_approval`: the run's requesters may approve what it asks leave for, so they may there too.

        A message with a task id goes on with a child that waits. Raises `Refused` for an agent that is not
        known, or terms that break a rule; nothing is stored.
        """
        self._run, self._peers, self._lease = run, peers, lease
        engine, meta = run.engine, run.meta
        try:
            self._address: PeerAddress = peers.resolve_for(meta.tenant, to)
            self._terms = terms_for(run, lease, deadline, self_approval)
        except (PeerRefused, PeerUnreachable, MalformedTerms) as error:
            raise Refused(str(error)) from error
        if lease is not None and message.task_id is not None:
            raise Refused("a lease is granted with a new task only")
        now = engine.clock.now()
        self.record = Delegation(
            tenant=meta.tenant,
            task_id=meta.task_id,
            id=new_id(),
            to=to,
            turn=run.turn,
            fence=run.fence,
            made_at=instant(now),
            send_until=instant(now + timedelta(seconds=SEND_SECONDS)),
            child=message.task_id,
        )
        context = self.record.id if message.task_id is None else None
        self._message = message.model_copy(update={"context_id": context})
        self._heard_at = now
        self._sent = False
        self._changing = threading.Lock()
        self.settled: Settled | None = None

    def note(self) -> None:
        """Records it, on condition that the run holds its turn and is not halted: before anything is sent."""
        self._run.note_delegation(self.record)

    def send(self) -> None:
        """Afterwards the child is known, or it has settled. What is not known is left to be looked for."""
        engine = self._run.engine
        until = parse_instant(self.record.send_until)
        seconds = max((until - engine.clock.now()).total_seconds(), 0.0)
        try:
            sent = self._peers.send(
                self._address, self._message, key=self.record.id, metadata=self._metadata(), seconds=seconds
            )
        except PeerRefused as refused:
            self._settle(Settled(Outcome.FAILED, text=str(refused)))
        except PeerUnreachable:
            self.give_up(Settled(Outcome.UNREACHABLE, text="The agent did not answer."))
        else:
            self._heard_at = engine.clock.now()
            if isinstance(sent, Message):
                self._settle(Settled(Outcome.MESSAGE, message=sent))
            else:
                self._learn(sent)

    def look(self) -> Settled | None:
        """How it stands, from its server. A child that can not be followed any more is given up."""
        if self.settled is not None or not self._sent or self.record.child is None:
            return self.settled
        engine = self._run.engine
        try:
            task = self._peers.get(self._address, self.record.child)
        except PeerRefused as refused:
            outcome = Outcome.UNREACHABLE if refused.code == TaskNotFound.code else Outcome.LOST
            self.give_up(Settled(outcome, text=str(refused)))
        except PeerUnreachable:
            if engine.clock.now() - self._heard_at >= LOST_AFTER:
                self.give_up(Settled(Outcome.LOST, text="The agent does not answer any more."))
        else:
            self._heard_at = engine.clock.now()
            self._take(task)
        return self.settled

    def renew(self) -> None:
        """Sends the same work again, which renews its lease: at a server that has said that it grants one.

        To another it would be more work.
        """
        if self._lease is None or not self.record.ours or self.settled or self._run.stopped.is_set():
            return
        seconds = self._lease.total_seconds() / 3
        try:
            self._peers.send(
                self._address, self._message, key=self.record.id, metadata=self._metadata(), seconds=seconds
            )
        except (PeerRefused, PeerUnreachable):
            return  # whoever follows the child sees what became of it

    def detach(self) -> None:
        """From now on it is nobody's: it goes on whatever becomes of this task.

        Raises `Refused` for leased work, which ends when nobody renews its lease.
        """
        if self._lease is not None:
            raise Refused("leased work ends with its lease, and can not be let go")
        meta = self._run.meta
        holds = (Equals("fence", self._run.fence), Equals("turn", self._run.turn))
        working = Equals("state", TaskState.WORKING.value)
        with self._changing:
            if self.settled is None and self.record.status == Delegation.OPEN:
                # A task that was canceled cancels what it had handed down until then.
                self._change(Check(meta.key, (*holds, working)), status=Delegation.DETACHED)

    def cancel(self) -> None:
        """Raises `Refused` for what was let go."""
        if self.record.status == Delegation.DETACHED:
            raise Refused("it was let go, and is not this task's any more")
        self.give_up(Settled(Outcome.CANCEL_REQUESTED))

    def give_up(self, settled: Settled) -> None:
        """The run looks after it no longer, and it is to be canceled."""
        with self._changing:
            if self.settled is not None:
                return
            if self.record.status == Delegation.OPEN:
                self._change(status=Delegation.CANCELING, outcome=settled.outcome.value)
            self.settled = settled
        self._run.engine.waker.wake_children(self.record.tenant, self.record.task_id)

    def _learn(self, sent: Task) -> None:
        ours = terms_of.TAKEN in (sent.metadata or {})
        with self._changing:
            self._sent = True
            if self.settled is not None:
                # Given up while it was being sent.
                self._disown(sent.id, ours)
                return
            try:
                self._change(child=sent.id, ours=ours)
            except TurnStopped:
                # Stopped meanwhile, by somebody who could not know the child: now it can be told to stop too.
                self._disown(sent.id, ours)
                raise
        self._take(sent)

    def _disown(self, child: str, ours: bool) -> None:
        """It was to be canceled before it was known, and may count as not to be reached by now."""
        engine = self._run.engine
        for _ in attempts(engine.clock):
            item = engine.table.get(self.record.key)
            if item is None:
                return
            current, now = Delegation.read(item), instant(engine.clock.now())
            if current.child == child:
                return
            changed, write = change(
                current, child=child, ours=ours, status=Delegation.CANCELING, retry_at=now
            )
            writes: list[Write] = [write]
            if current.over:
                writes.append(due_row(changed, instant(engine.clock.now() + LOOK_EVERY)))
            try:
                engine.table.write(*writes)
            except (ConditionFailed, OutcomeUnknown):
                continue
            engine.waker.wake_children(current.tenant, current.task_id)
            return

    def _metadata(self) -> JsonObject:
        return {terms_of.KEY: self._terms.to_wire()}

    def _take(self, task: Task) -> None:
        outcome = OUTCOMES.get(task.status.state)
        if outcome is not None:
            self._settle(Settled(outcome, task=task))

    def _settle(self, settled: Settled) -> None:
        waits = settled.outcome is Outcome.INTERRUPTED
        status = Delegation.WAITING if waits else Delegation.SETTLED
        at = instant(self._run.engine.clock.now())
        with self._changing:
            if self.settled is not None:
                return
            if self.record.status == Delegation.OPEN:
                self._change(status=status, outcome=settled.outcome.value, settled_at=at)
            self.settled = settled

    def _change(self, *checks: Check, **changes: Any) -> None:
        self.record = amend(self._run, self.record, *checks, **changes)


def amend(run: TurnRun, seen: Delegation, *checks: Check, **changes: Any) -> Delegation:
    """The record as the run has changed it; a change of its status is told.

    Raises `TurnStopped` where somebody else has changed it: then it is being canceled, and no longer ours.
    """
    for _ in attempts(run.engine.clock):
        changed, write = change(seen, **changes)
        writes: list[Write] = [write, *checks]
        if changed.status != seen.status:
            now = run.engine.clock.now()
            writes.append(told(changed, run.meta, changed.status).put(changed.tenant, now))
        try:
            run.engine.table.write(*writes)
        except ConditionFailed as failed:
            old = failed.old.get(0)
            # Unless it is from an earlier try, whose reply was lost.
            if not old or Delegation.read(old) != changed:
                raise TurnStopped from failed
        except OutcomeUnknown:
            continue
        return changed
    raise AssertionError("attempts end by raising")


def terms_for(run: TurnRun, lease: timedelta | None, deadline: datetime | None, self_approval: bool) -> Terms:
    """Of what a run hands down. Raises `MalformedTerms`."""
    meta = run.meta
    if meta.depth >= MAX_DEPTH:
        raise MalformedTerms(f"work is handed down at most {MAX_DEPTH} times")
    excluded = frozenset(meta.inherited.split()) if self_approval else barred(meta)
    if len(excluded) > MAX_EXCLUDED:
        raise MalformedTerms(f"more than {MAX_EXCLUDED} may not approve")
    if lease is not None:
        terms_of.check_lease(lease)
    ends = [terms_of.check_deadline(deadline)] if deadline is not None else []
    if meta.deadline is not None:
        ends.append(parse_instant(meta.deadline))
    return Terms(meta.depth + 1, excluded, lease, min(ends, default=None), meta.task_id)
