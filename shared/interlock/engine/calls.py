"""The trail of calls: who called what, and how it ended, refusals too."""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from interlock.a2a.errors import A2AError, InternalError, Unavailable
from interlock.a2a.models import Message
from interlock.engine.context import Engine
from interlock.engine.facts import CALL, CALL_ADMITTED, PROMPT_REFUSED, Fact, text_digest
from interlock.engine.ports import Put, StoreError, Write
from interlock.engine.seal import register
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.principals import Principal

NOBODY = ""
"""The chain of calls whose caller is not known."""
SEAL_SECONDS = 10.0
"""How long a call waits for its seal, where that is required."""
POLL_SECONDS = 0.05

LOST_CALL = "a call is missing in the audit trail"
"""Logged; an alarm looks for it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_log = logging.getLogger(__name__)


class NotSealed(Unavailable):
    """A seal is required, and was not to be had."""


@dataclass(slots=True)
class Call:
    """One call. `caller` is None until it is known. `decision` names the prompt that it decides, if it does,
    and what was decided; `digests` are of what it carries. `held_up` is False for one that is noted like any
    other, but neither waits for its seal nor is refused without: a halt. `part`: one of several that a single
    request makes, which waits for the seals of all of them. `unnoted`: only a refusal is
    noted, for it tells nothing."""

    method: str
    caller: Principal | None = None
    task_id: str | None = None
    message_id: str | None = None
    decision: Mapping[str, object] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    held_up: bool = True
    part: bool = False
    unnoted: bool = False

    @property
    def chain(self) -> str:
        return self.caller.tenant if self.caller is not None else NOBODY

    def carries(self, message: Message) -> None:
        """What the message says about itself: its names, its digest, and whether it decides something."""
        self.task_id, self.message_id = message.task_id, message.message_id
        self.digests = {"message": text_digest(message.wire_json())}
        metadata = message.metadata or {}
        for key, name in ((approvals.KEY, "requestId"), (hitl_prompt.RESPONSE_KEY, "prompt_id")):
            if key in metadata:
                said = metadata[key]
                members = said if isinstance(said, dict) else {}
                self.decision = {"prompt": members.get(name), "decision": members.get("decision")}
                return

    def fact(self, kind: str, members: Mapping[str, Any] = {}, detail: Mapping[str, Any] = {}) -> Fact:
        names = {"method": self.method, "taskId": named(self.task_id), "messageId": named(self.message_id)}
        by = self.caller.id if self.caller is not None else None
        return Fact(kind, by, self.digests, detail, {**names, **members})


def named(text: object) -> str | None:
    """A name as it may stand in the trail. What callers make up instead of one is their content."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class Calls:
    """`required`: a call is served only if it can be sealed, else it is refused; but for a halt, which
    nothing holds up. Otherwise a call that could not be noted is served, and that is logged and counted."""

    engine: Engine
    required: bool = False
    seal_seconds: float = SEAL_SECONDS
    registered: set[str] = field(default_factory=set)

    @contextmanager
    def noted(self, call: Call) -> Iterator[None]:
        """Notes the call that is made inside, however that ends."""
        try:
            yield
        except A2AError as error:
            self.note(call, error)
            raise
        except Exception:
            self.note(call, InternalError())
            raise
        self.note(call)

    def admit(self, call: Call) -> None:
        """Before anything is done for the caller. Raises `NotSealed`."""
        if call.unnoted:
            return
        try:
            self._register(call.chain)
            if self._holds_up(call):
                self._write(call, [call.fact(CALL_ADMITTED)])
        except StoreError as error:
            self._lost(call, error)

    def note(self, call: Call, error: A2AError | None = None) -> None:
        """After it. Raises `NotSealed`."""
        if call.unnoted and error is None:
            return
        outcome = {"status": "ok"} if error is None else {"status": "error", "error": error.reason}
        facts = [call.fact(CALL, {"outcome": outcome})]
        if error is not None and call.decision is not None:
            detail = {
                "prompt": named(call.decision.get("prompt")),
                "decision": named(call.decision.get("decision")),
                "reason": error.message,
            }
            facts.append(call.fact(PROMPT_REFUSED, {"outcome": outcome}, detail))
        try:
            self._register(call.chain)
            # Who was told after one wait that there is no seal does not wait for another.
            self._write(call, facts, awaiting=not isinstance(error, NotSealed))
        except StoreError as failed:
            self._lost(call, failed)

    def _holds_up(self, call: Call) -> bool:
        return self.required and call.held_up

    def _register(self, chain: str) -> None:
        """Once in each process, before the first fact of the chain: the sweeper finds them by it."""
        if chain not in self.registered:
            register(self.engine.table, chain)
            self.registered.add(chain)

    def _write(self, call: Call, facts: list[Fact], *, awaiting: bool = True) -> None:
        """Tried once: a fact that was written twice would be sealed twice."""
        now = self.engine.clock.now()
        puts: list[Put] = [fact.put(call.chain, now) for fact in facts]
        writes: list[Write] = [*puts]
        self.engine.table.write(*writes)
        if self._holds_up(call) and awaiting and not call.part:
            self._await_seal(call.chain, puts[-1])

    def _await_seal(self, chain: str, last: Put) -> None:
        clock = self.engine.clock
        until = clock.now() + timedelta(seconds=self.seal_seconds)
        self.engine.waker.wake_seal(chain)
        while self.engine.table.get(last.key) is not None:
            if clock.now() >= until:
                raise NotSealed("The call could not be sealed into the audit trail", retry_after=5)
            clock.sleep(POLL_SECONDS)

    def _lost(self, call: Call, error: StoreError) -> None:
        if self._holds_up(call):
            raise NotSealed("The call could not be written to the audit trail", retry_after=5) from error
        _log.error(LOST_CALL, exc_info=error)
