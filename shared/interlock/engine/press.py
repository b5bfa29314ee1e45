"""A decision that a person makes where they were told: in a chat, or by a link of a mail.

It is made as any other is, by `decide` and `answer`: the gate, the count, the deadline and the halts hold.
A platform waits for seconds only, so tries end sooner here; whoever presses again is told the same.
"""

import base64
import binascii
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import NAMESPACE_URL, UUID, uuid5

from interlock.a2a.errors import InvalidParams, Unavailable
from interlock.a2a.models import Message, Part, Role
from interlock.engine.answer import Admitted, Answer, admit_answer
from interlock.engine.context import Engine, new_id
from interlock.engine.decide import Deciding, decide
from interlock.engine.errors import AnswerRefused
from interlock.engine.ports import Clock, Write
from interlock.engine.records import Checkpoint
from interlock.engine.shown import question
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.choices import choices_of
from interlock.oversight.principals import Principal

SECONDS = 1.5
"""For all tries of one decision: Slack and Discord wait for three."""
APPROVE, DENY = "a", "d"
MAX_COMMENT = 2000
"""Characters of a reason: what every platform's field takes."""

_DIGEST = "sha256:"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a person was shown: the checkpoint, and the digest of what it asks."""

    task_id: str
    ask_id: str
    digest: str

    def encoded(self) -> str:
        """86 characters, so that it goes into what platforms keep of a button. Ids are UUIDs, as ours are."""
        ids = UUID(self.task_id).bytes + UUID(self.ask_id).bytes
        raw = ids + bytes.fromhex(self.digest.removeprefix(_DIGEST))
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def decoded(cls, text: str) -> "Shown":
        """Raises `ValueError`."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except binascii.Error as error:
            raise ValueError("not what we have shown") from error
        if len(raw) != 64:
            raise ValueError("not what we have shown")
        task_id, ask_id = str(UUID(bytes=raw[:16])), str(UUID(bytes=raw[16:32]))
        return cls(task_id, ask_id, _DIGEST + raw[32:].hex())


@dataclass(frozen=True, slots=True)
class Pressed:
    """`choice` is `APPROVE`, `DENY`, or the number of a choice. `via` names the channel, for the trail.
    `also` goes into the transaction that counts it."""

    by: Principal
    shown: Shown
    choice: str
    via: str
    comment: str | None = None
    also: tuple[Write, ...] = ()


def press(engine: Engine, pressed: Pressed) -> Admitted:
    """Raises what `decide` and `admit_answer` do; then nothing changed, unless it is `Unavailable`."""
    hasty = replace(engine, clock=Hasty(engine.clock, engine.clock.now() + timedelta(seconds=SECONDS)))
    if pressed.choice in (APPROVE, DENY):
        return _decide(hasty, pressed)
    return _answer(hasty, pressed)


def _decide(engine: Engine, pressed: Pressed) -> Admitted:
    said = approvals.APPROVE if pressed.choice == APPROVE else approvals.DENY
    shown = pressed.shown
    decision = approvals.Decision(shown.ask_id, said, shown.digest, pressed.comment or None)
    message = Message(
        message_id=new_id(),
        role=Role.USER,
        parts=[Part(text=pressed.comment or said)],
        task_id=shown.task_id,
        metadata={approvals.KEY: decision.to_wire()},
        extensions=[approvals.URI],
    )
    deciding = Deciding(pressed.by, shown.task_id, message, via=pressed.via, also=pressed.also)
    return decide(engine, deciding)[0]


def _answer(engine: Engine, pressed: Pressed) -> Admitted:
    by, shown = pressed.by, pressed.shown
    item = engine.table.get(Checkpoint.key_of(by.tenant, shown.task_id, shown.ask_id))
    if item is None:
        raise AnswerRefused(shown.ask_id)
    asked = question(item)
    if asked.checkpoint.kind != Checkpoint.PROMPT or asked.digest != shown.digest:
        raise InvalidParams("Something else was shown")
    choices = choices_of(asked.envelope.response_schema)
    if pressed.choice not in map(str, range(len(choices))):
        raise InvalidParams("This is not one of the choices")
    payload = choices[int(pressed.choice)].payload
    message = Message(
        # The same for the same person and choice: pressed twice it is one answer.
        message_id=str(uuid5(NAMESPACE_URL, f"{shown.ask_id}/{by.id}/{pressed.choice}")),
        role=Role.USER,
        parts=[Part(data=payload)],
        task_id=shown.task_id,
        metadata={hitl_prompt.RESPONSE_KEY: {"prompt_id": shown.ask_id, "payload": payload}},
    )
    answer = Answer(by, shown.task_id, shown.ask_id, payload, message, via=pressed.via, also=pressed.also)
    return admit_answer(engine, answer)


@dataclass(frozen=True, slots=True)
class Hasty:
    """Implements `Clock`: whoever would wait until after `until` is sent away instead."""

    clock: Clock
    until: datetime

    def now(self) -> datetime:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        if self.clock.now() + timedelta(seconds=seconds) >= self.until:
            raise Unavailable(retry_after=1)
        self.clock.sleep(seconds)
