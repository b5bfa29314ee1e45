"""Runs the turns of registered agents: the message goes on to the agent, and what it does comes back.

One delegation is bound to the task. Its record says what was forwarded, so that every turn, and a turn that
is run again after its worker was lost, goes on with the same task there; once the task here has ended in any
way, the other is ended too by whoever looks after delegations.
"""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Any, Protocol
from uuid import NAMESPACE_URL, uuid5

from interlock.a2a.errors import TaskNotFound
from interlock.a2a.models import (
    MAX_ID_LENGTH,
    Artifact,
    JsonObject,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from interlock.engine.children import OUTCOMES, delegations
from interlock.engine.context import new_id
from interlock.engine.delegate import amend, terms_for
from interlock.engine.peers import PeerAddress, PeerCards, PeerRefused, Peers, PeerUnreachable
from interlock.engine.records import Delegation, instant, parse_instant
from interlock.engine.registry import AgentNotFound, Registry, address_of
from interlock.engine.request_metadata import SKILL_HINT, SOURCE
from interlock.engine.run_turn import Refused, TurnRun, TurnStopped
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.engine.view import artifacts
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight import delegation as terms_of
from interlock.oversight.delegation import MalformedTerms, Outcome
from interlock.oversight.modes import STAMPS, Declared, Mode

CALL_SECONDS = 20.0
"""A call to the agent may take so long: no new one is begun when less is left of the worker's time."""
SEND_SECONDS = 20.0
GIVE_UP_AFTER = timedelta(minutes=2)
"""Without an answer of its server the agent counts as lost."""
PASSED_ON = timedelta(seconds=20)
"""How long a server that took an answer may go on to show that it waits for it."""
FIRST_LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 2.0
MAX_TEXT = 16_000
"""Characters of a text of theirs."""

TEXT_ANSWER: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 4096}},
    "required": ["text"],
    "additionalProperties": False,
}
"""What a question without a schema of its own is answered with."""

_OURS = STAMPS | {
    hitl_prompt.RESPONSE_KEY,
    approvals.KEY,
    IDEMPOTENCY_METADATA,
    SKILL_HINT,
    SOURCE,
    terms_of.KEY,
}
"""In the metadata of a message: read here, and not for the agent to see as the caller wrote it."""


class Elsewhere(Peers, PeerCards, Protocol):
    """The other agents, and their cards."""


class Watch(Protocol):
    """Looks after a run from another thread: its lease is renewed, and a stop is seen."""

    def over(self, run: TurnRun, seconds: float, stop: Any) -> AbstractContextManager[None]: ...


class _Ended(Exception):
    """The task can not go on. The text says why, and is fit to be shown.

    `outcome` is that of the child, where there is none to be canceled.
    """

    def __init__(self, text: str, outcome: Outcome | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class RemoteExecutor:
    """Implements `Executor` for agents that run elsewhere. May be called from several threads."""

    registry: Registry
    elsewhere: Elsewhere
    watch: Watch

    def execute(self, run: TurnRun, seconds: float) -> None:
        until = run.engine.clock.now() + timedelta(seconds=max(seconds - CALL_SECONDS, seconds / 2))
        relay = _Relay(run, self.registry, self.elsewhere, until)
        with self.watch.over(run, seconds, lambda: None):
            try:
                relay.go_on()
            except _Ended as ended:
                relay.finish(TaskState.FAILED, str(ended), ended.outcome)
            except Refused as refused:
                relay.finish(TaskState.FAILED, f"What the agent says can not be recorded: {refused}.")


class _Relay:
    """One turn of it. `until`: when the worker's time is over, and the next turn goes on."""

    def __init__(self, run: TurnRun, registry: Registry, elsewhere: Elsewhere, until: datetime) -> None:
        self._run, self._registry, self._elsewhere, self._until = run, registry, elsewhere, until
        self._engine = run.engine
        self._link: Delegation | None = None
        self._silent_since: datetime | None = None
        self._passed_on_at: datetime | None = None

    @property
    def link(self) -> Delegation:
        if self._link is None:
            raise AssertionError("nothing was delegated yet")
        return self._link

    def go_on(self) -> None:
        """Until the task has ended, or waits for somebody, or the worker's time is over."""
        task, pause = self._forward(fresh=self._bind()), 0.0
        while not self._run.ended:
            if task is not None and self._take(task):
                return
            if self._now() >= self._until:
                self._hand_on()
                return
            self._engine.clock.sleep(pause)
            pause = min(LONGEST_LOOK_SECONDS, max(FIRST_LOOK_SECONDS, pause * 1.5))
            task = self._look()

    def finish(self, state: TaskState, text: str | None = None, outcome: Outcome | None = None) -> None:
        """The task first: whoever finds it ended sees to a child that has no `outcome` yet."""
        if not self._run.ended:
            self._run.finish(state, text)
        if outcome is not None and self._link is not None:
            self._settle(outcome)

    # The child.

    def _bind(self) -> bool:
        """The delegation of the task; says whether it was made just now."""
        meta = self._run.meta
        bound = [each for each in delegations(self._engine.table, meta.tenant, meta.task_id) if each.bound]
        if bound:
            self._link = bound[-1]
            if self._link.heard_at is not None:
                self._silent_since = parse_instant(self._link.heard_at)
            return False
        try:
            record = self._registry.get(meta.tenant, meta.agent).record
            address_of(self._elsewhere, record)
        except AgentNotFound:
            raise _Ended("The agent is not registered any more.") from None
        except PeerRefused as refused:
            raise _Ended(_sentence(refused)) from refused
        except PeerUnreachable:
            pass  # to send is tried again
        now = self._now()
        link = Delegation(
            tenant=meta.tenant,
            task_id=meta.task_id,
            id=new_id(),
            to=record.to,
            turn=self._run.turn,
            fence=self._run.fence,
            made_at=instant(now),
            send_until=instant(now + GIVE_UP_AFTER + timedelta(seconds=SEND_SECONDS)),
            bound=True,
        )
        self._run.note_delegation(link)
        self._link = link
        return True

    def _forward(self, *, fresh: bool) -> Task | None:
        """Sends what this turn was queued for, unless that was done. The task there, if the answer has it."""
        if self.link.forwarded >= self._run.meta.inputs:
            return None
        if self.link.child is not None:
            return self._forward_more(self.link.child)
        return self._forward_first(sent=not fresh)

    def _forward_first(self, *, sent: bool) -> Task | None:
        """`sent`: it may have been, by a worker that was lost. Then it is looked for, for sent again it might
        be more work."""
        run, metadata = self._run, self._metadata()
        message = self._message(run.events[0].message or run.message, context_id=self.link.id)
        while True:
            try:
                answer: Task | Message | None = self._search() if sent else None
                if answer is None:
                    answer = self._elsewhere.send(
                        self._to(), message, key=self.link.id, metadata=metadata, seconds=SEND_SECONDS
                    )
            except PeerRefused as refused:
                raise _Ended(_sentence(refused), Outcome.FAILED) from refused
            except PeerUnreachable:
                sent = True
                if not self._try_again():
                    return None
                continue
            self._heard()
            if isinstance(answer, Message):
                self._answered(answer)
                return None
            self._adopt(answer)
            return answer

    def _search(self) -> Task | None:
        try:
            found = self._elsewhere.find(self._to(), self.link.id)
        except PeerRefused as refused:
            raise _Ended("It is not known whether the agent has got the message.") from refused
        return self._elsewhere.get(self._to(), found[0].id) if found else None

    def _adopt(self, task: Task) -> None:
        ours, context = terms_of.TAKEN in (task.metadata or {}), task.context_id
        if context is not None and not 0 < len(context) <= MAX_ID_LENGTH:
            context = None
        self._change(child=task.id, context=context, ours=ours, forwarded=self._run.meta.inputs)

    def _forward_more(self, child: str) -> Task | None:
        """An answer, or a message to a task that waits."""
        run, key = self._run, str(uuid5(NAMESPACE_URL, f"{self.link.id}/{self._run.meta.inputs}"))
        if run.resumed:
            # Whoever has given the credential there has said so there.
            self._change(forwarded=run.meta.inputs)
            self._passed_on_at = self._now()
            return None
        # A server of a2a-sdk takes a message without its task's context for one of another context.
        at = {"task_id": child, "context_id": self.link.context}
        message = self._message(run.message, message_id=key, **at)
        while True:
            try:
                if not (self.link.ours or self._still_waits(child)):
                    # It knows no keys, and has got this already.
                    self._change(forwarded=run.meta.inputs)
                    return None
                sent = self._elsewhere.send(
                    self._to(), message, key=key, metadata=self._metadata(), seconds=SEND_SECONDS
                )
            except PeerRefused as refused:
                # It may have gone on without us. If not, it is asked for anew.
                self._change(forwarded=run.meta.inputs, asks="")
                run.say(_sentence(refused))
                return None
            except PeerUnreachable:
                if not self._try_again():
                    return None
                continue
            self._heard()
            self._change(forwarded=run.meta.inputs)
            self._passed_on_at = self._now()
            if isinstance(sent, Message):
                self._say(sent.text)
                return None
            return sent if sent.id == child else None

    def _still_waits(self, child: str) -> bool:
        status = self._elsewhere.get(self._to(), child).status
        metadata = (status.message.metadata if status.message is not None else None) or {}
        return status.state.interrupted and _asked(status, _envelope(metadata)) == self.link.asks

    def _message(self, said: Message, *, message_id: str | None = None, **at: str | None) -> Message:
        answer, asks = self._run.answer, self.link.asks or ""
        metadata: JsonObject = {name: v for name, v in (said.metadata or {}).items() if name not in _OURS}
        parts = said.parts
        if answer is not None and self.link.child is not None:
            kind, _, prompt = asks.partition(":")
            if kind == _PROMPT:
                metadata[hitl_prompt.RESPONSE_KEY] = {"prompt_id": prompt, "payload": answer.payload}
            elif isinstance(text := answer.payload.get("text"), str):
                parts = [Part(text=text)]
        return Message(
            message_id=message_id or str(uuid5(NAMESPACE_URL, self.link.id)),
            role=Role.USER,
            parts=parts,
            metadata=metadata or None,
            **at,
        )

    def _metadata(self) -> JsonObject:
        """Of each request: the terms, the stamps of the mode, the skill that is asked for, and the source."""
        run, meta = self._run, self._run.meta
        try:
            terms = terms_for(run, None, None, self_approval=False)
        except MalformedTerms as error:
            raise _Ended(f"The work can not be handed on: {error}.") from error
        declared = Declared(Mode(meta.mode))
        metadata: JsonObject = {terms_of.KEY: terms.to_wire()}
        skill = None
        try:
            agent = self._registry.get(meta.tenant, meta.agent)
        except AgentNotFound:
            pass
        else:
            known = agent.named(meta.skill)
            if known is not None:
                declared = Declared(declared.mode, known.mode.veto_ttl_ms)
                skill = known.id if self._hinted or len(agent.skills) == 1 else None
        metadata |= declared.stamps()
        if skill is not None:
            metadata[SKILL_HINT] = skill
        if meta.source is not None:
            metadata[SOURCE] = json.loads(meta.source)
        return metadata

    @property
    def _hinted(self) -> bool:
        """Without a hint the agent chooses by itself."""
        first = self._run.events[0].message
        return first is not None and SKILL_HINT in (first.metadata or {})

    def _to(self) -> PeerAddress:
        return self._elsewhere.resolve_for(self._run.meta.tenant, self.link.to)

    # How it stands there.

    def _look(self) -> Task | None:
        """The task there; None where the server does not say, which is borne for a while."""
        child = self.link.child
        if child is None:
            return None
        try:
            task = self._elsewhere.get(self._to(), child)
        except PeerRefused as refused:
            if refused.code == TaskNotFound.code:
                said = "The agent does not know the task any more."
                raise _Ended(said, Outcome.UNREACHABLE) from refused
            self._not_heard(_sentence(refused))
            return None
        except PeerUnreachable:
            self._not_heard("The agent does not answer at the moment.")
            return None
        self._heard()
        return task

    def _try_again(self) -> bool:
        """After a send that was not answered. False: by the next turn, for this one is over."""
        self._not_heard("The agent does not answer at the moment.")
        if self._now() >= self._until:
            self._hand_on()
            return False
        self._engine.clock.sleep(LONGEST_LOOK_SECONDS)
        return True

    def _not_heard(self, text: str) -> None:
        """Said once. Raises `_Ended` when it has lasted too long, `TurnStopped` where the turn is over."""
        self._check()
        now = self._now()
        if self._silent_since is None:
            self._silent_since = now
            self._say(text)
        elif now - self._silent_since >= GIVE_UP_AFTER:
            raise _Ended("The agent does not answer any more.")

    def _heard(self) -> None:
        self._silent_since = None
        self._check()

    def _take(self, task: Task) -> bool:
        """Brings back what is new; says whether this turn has ended by it."""
        state, status = task.status.state, task.status
        for artifact in task.artifacts or []:
            self._bring(artifact)
        if state.terminal:
            text = _text(status.message)
            if text is None and state is TaskState.CANCELED:
                text = "It was canceled where it runs."
            self.finish(state, text, OUTCOMES[state])
            return True
        if not state.interrupted:
            self._passed_on_at = None
            self._say(_text(status.message))
            return False
        return self._waits(status)

    def _waits(self, status: TaskStatus) -> bool:
        """The child waits: so does the task here, with the same question."""
        message = status.message
        metadata = (message.metadata if message is not None else None) or {}
        if approvals.KEY in metadata and status.state is TaskState.INPUT_REQUIRED:
            # Those who approve do so there: an agent's word for it counts nowhere.
            self._say("It waits for an approval where it runs.")
            return False
        envelope = _envelope(metadata)
        asks = _asked(status, envelope)
        answered = self._passed_on_at
        if answered is None and self.link.forwarded and self.link.asks == asks:
            # Its answer may have been sent by a worker that was lost.
            answered = self._passed_on_at = self._now()
        if answered is not None and self.link.asks == asks and self._now() - answered < PASSED_ON:
            return False
        if envelope is not None and envelope.deadline is not None and envelope.deadline <= self._now():
            return False  # its server ends it
        self._change(asks=asks)
        if status.state is TaskState.AUTH_REQUIRED:
            self._run.require_auth(_text(message) or "The agent needs a credential.")
        elif envelope is not None:
            needed = envelope.responders.needed
            self._run.ask(
                envelope.prompt,
                dict(envelope.response_schema),
                deadline=envelope.deadline,
                allowed_responders=[f"consensus:{needed}"] if needed > 1 else None,
            )
        else:
            text = (_text(message) or "The agent asks for more.")[: hitl_prompt.MAX_PROMPT_LENGTH]
            self._run.ask(text, TEXT_ANSWER)
        return True

    def _answered(self, message: Message) -> None:
        """Directly, without a task."""
        if any(part.text is None for part in message.parts):
            self._bring(Artifact(artifact_id=message.message_id, parts=message.parts))
        self.finish(TaskState.COMPLETED, _text(message), Outcome.MESSAGE)

    def _bring(self, artifact: Artifact) -> None:
        """Each once, and again if it has changed."""
        seen = self._seen
        digest = sha256(artifact.wire_json().encode()).hexdigest()
        if seen.get(artifact.artifact_id) != digest:
            self._run.add_artifact(artifact)
            seen[artifact.artifact_id] = digest

    @cached_property
    def _seen(self) -> dict[str, str]:
        there = artifacts(self._run.events)
        return {each.artifact_id: sha256(each.wire_json().encode()).hexdigest() for each in there}

    def _say(self, text: str | None) -> None:
        said = next((e.status.message for e in reversed(self._run.events) if e.status is not None), None)
        if text and (said is None or said.text != text):
            self._run.say(text)

    # The turn.

    def _hand_on(self) -> None:
        since = self._silent_since
        heard = instant(since) if since is not None else None
        if heard != self.link.heard_at:
            self._change(heard_at=heard)
        self._run.hand_on()

    def _settle(self, outcome: Outcome) -> None:
        """What keeps this from being stored, others find out."""
        at = instant(self._now())
        try:
            self._change(status=Delegation.SETTLED, outcome=outcome.value, settled_at=at)
        except TurnStopped:
            return

    def _change(self, **changes: Any) -> None:
        self._link = amend(self._run, self.link, **changes)

    def _check(self) -> None:
        if self._run.stopped.is_set():
            raise TurnStopped

    def _now(self) -> datetime:
        return self._engine.clock.now()


_PROMPT = "prompt"
_MESSAGE = "message"


def _asked(status: TaskStatus, envelope: hitl_prompt.Envelope | None) -> str:
    """What tells one question from the next."""
    if envelope is not None:
        return f"{_PROMPT}:{envelope.prompt_id}"
    return f"{_MESSAGE}:{status.message.message_id if status.message is not None else status.timestamp}"


def _envelope(metadata: Mapping[str, Any]) -> hitl_prompt.Envelope | None:
    """None also for one that is not well formed: then it is a question like any other."""
    if hitl_prompt.URI not in metadata:
        return None
    try:
        return hitl_prompt.Envelope.from_wire(metadata[hitl_prompt.URI])
    except hitl_prompt.PromptRefused:
        return None


def _text(message: Message | None) -> str | None:
    text = message.text if message is not None else ""
    return text[:MAX_TEXT] if text.strip() else None


def _sentence(refused: PeerRefused) -> str:
    text = str(refused)
    return f"{text[:1].upper()}{text[1:]}."
