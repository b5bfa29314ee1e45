"""Handing work to another agent, from a run: recorded, then sent, followed, and let go or settled."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from interlock.a2a.errors import TaskNotFound
from interlock.a2a.models import JsonObject, Message, Task
from interlock.engine.children import OUTCOMES, change, told
from interlock.engine.context import attempts, barred, new_id
from interlock.engine.peers import PeerAddress, PeerRefused, Peers, PeerUnreachable
from interlock.engine.ports import ConditionFailed, OutcomeUnknown, StoreError, Write
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
    """One delegation of a run. Its methods block; none of them is called by two threads at once.

    Raises `TurnStopped` once the run no longer holds its turn: then others see to the child.
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
    ) -> None:
        """Raises `Refused` for an agent that is not known, or terms that break a rule; nothing is stored."""
        self._run, self._peers, self._lease = run, peers, lease
        meta, engine = run.meta, run.engine
        try:
            self._address: PeerAddress = peers.resolve(to)
            if lease is not None:
                terms_of.check_lease(lease)
        except (PeerRefused, MalformedTerms) as error:
            raise Refused(str(error)) from error
        excluded = barred(meta)
        if meta.depth >= MAX_DEPTH:
            raise Refused(f"work is handed down at most {MAX_DEPTH} times")
        if len(excluded) > MAX_EXCLUDED:
            raise Refused(f"more than {MAX_EXCLUDED} may not approve")
        inherited = parse_instant(meta.deadline) if meta.deadline is not None else None
        ends = [end for end in (deadline, inherited) if end is not None]
        self._terms = Terms(meta.depth + 1, excluded, lease, min(ends, default=None))
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
        )
        self._message = message.model_copy(update={"context_id": self.record.id})
        self._heard_at = now
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
            return
        except PeerUnreachable:
            self.give_up(Settled(Outcome.UNREACHABLE, text="The agent did not answer."))
            return
        self._heard_at = engine.clock.now()
        if isinstance(sent, Message):
            self._settle(Settled(Outcome.MESSAGE, message=sent))
            return
        try:
            self._change(child=sent.id)
        except TurnStopped:
            # Stopped meanwhile, by somebody who could not know the child: now it can be told to stop too.
            self._disown(sent.id)
            raise
        self._take(sent)

    def _disown(self, child: str) -> None:
        with suppress(PeerRefused, PeerUnreachable):
            self._peers.cancel(self._address, child)
        engine = self._run.engine
        item = engine.table.get(self.record.key)
        current = Delegation.read(item) if item is not None else self.record
        if not current.over and current.child is None:
            with suppress(StoreError):
                engine.table.write(change(current, child=child)[1])

    def look(self) -> Settled | None:
        """How it stands, from its server. A child that can not be followed any more is given up."""
        if self.settled is not None or self.record.child is None:
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
        """Sends the same work again, which renews its lease."""
        if self._lease is None or self.settled is not None or self.record.child is None:
            return
        try:
            self._peers.send(
                self._address,
                self._message,
                key=self.record.id,
                metadata=self._metadata(),
                seconds=self._lease.total_seconds() / 3,
            )
        except (PeerRefused, PeerUnreachable):
            return  # whoever follows the child sees what became of it

    def detach(self) -> None:
        """From now on it is nobody's: it goes on whatever becomes of this task."""
        if self.settled is None:
            self._change(status=Delegation.DETACHED)

    def give_up(self, settled: Settled) -> None:
        """The run looks after it no longer, and it is to be canceled."""
        self._change(status=Delegation.CANCELING, outcome=settled.outcome)
        self.settled = settled
        self._run.engine.waker.wake_children(self.record.tenant, self.record.task_id)

    def _metadata(self) -> JsonObject:
        return {terms_of.KEY: self._terms.to_wire()}

    def _take(self, task: Task) -> None:
        outcome = OUTCOMES.get(task.status.state)
        if outcome is not None:
            self._settle(Settled(outcome, task=task))

    def _settle(self, settled: Settled) -> None:
        at = instant(self._run.engine.clock.now())
        self._change(status=Delegation.SETTLED, outcome=settled.outcome, settled_at=at)
        self.settled = settled

    def _change(self, **changes: str) -> None:
        """Decides against whoever cancels it meanwhile: then the run does not hold its turn any more."""
        engine = self._run.engine
        for _ in attempts(engine.clock):
            changed, write = change(self.record, **changes)
            writes: list[Write] = [write]
            if changed.status != self.record.status:
                now = engine.clock.now()
                writes.append(told(changed, self._run.meta, changed.status).put(changed.tenant, now))
            try:
                engine.table.write(*writes)
            except ConditionFailed as failed:
                if failed.old.get(0, {}) != changed.item():
                    raise TurnStopped from failed
            except OutcomeUnknown:
                continue
            self.record = changed
            return
