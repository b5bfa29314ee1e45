"""A turn, as the agent's code sees it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from interlock.a2a.models import Artifact, JsonObject, Message, Part, Role, TaskState
from interlock.agents.approval import Approval
from interlock.agents.delegation import Delegation
from interlock.engine.context import new_id
from interlock.engine.delegate import Handed
from interlock.engine.peers import Peers
from interlock.engine.request_metadata import SKILL_HINT
from interlock.engine.run_turn import AdmittedAnswer, Refused, TurnRun
from interlock.engine.view import history
from interlock.oversight.approvals import Gate

TEXT_ANSWER: JsonObject = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 4096}},
    "required": ["text"],
    "additionalProperties": False,
}
"""The response schema of a prompt that is given none."""

T = TypeVar("T")


class Turn:
    """One run of a skill: from a message or an answer to an end or to the next question.

    Everything that records is written at once, and raises `TurnStopped` when the task was canceled: let that
    pass. `ask`, `request_approval`, `require_auth`, `complete`, `fail` and `reject` end the turn; a function
    that returns without one of them has completed its task.
    """

    def __init__(self, run: TurnRun, gate: Gate, peers: Peers | None = None) -> None:
        self._run = run
        self._gate = gate
        self._peers = peers
        self._approval = Approval(run.approval) if run.approval is not None else None

    @property
    def task_id(self) -> str:
        return self._run.meta.task_id

    @property
    def context_id(self) -> str:
        return self._run.meta.context_id

    @property
    def caller(self) -> str:
        """The authenticated identity that the task belongs to."""
        return self._run.meta.owner

    @property
    def message(self) -> Message:
        """The message that started this turn; if it was resumed, the last one before."""
        return self._run.message

    @property
    def text(self) -> str:
        """The text of the task's first message."""
        return self.history[0].text

    @property
    def history(self) -> list[Message]:
        """All messages so far, with the one that started this turn."""
        return history(self._run.events)

    @property
    def answer(self) -> AdmittedAnswer | None:
        """The answer that started this turn, or None."""
        return self._run.answer

    @property
    def answers(self) -> list[AdmittedAnswer]:
        """All admitted answers of the task, oldest first."""
        return self._run.answers

    @property
    def resumed(self) -> bool:
        """Whether this turn was started without a message: the credential that was missing is there."""
        return self._run.resumed

    @property
    def approval(self) -> Approval | None:
        """The decision that started this turn, or None."""
        return self._approval

    @property
    def stopped(self) -> bool:
        """Whether the task was canceled or taken from this run: then stop. Checked on every write as well."""
        return self._run.stopped.is_set()

    def effect_key(self, name: str) -> str:
        """A UUID for an effect outside (a payment, a deployment), to be sent along as its idempotency key.

        It is the same whenever this turn is run again, and differs for every other turn, task and name.
        """
        meta = self._run.meta
        return str(uuid5(NAMESPACE_URL, f"interlock:{meta.tenant}/{meta.task_id}/{meta.inputs}/{name}"))

    async def say(self, text: str) -> None:
        """A status message; the task goes on."""
        await _recorded(lambda: self._run.say(text))

    async def artifact(
        self,
        content: str | dict[str, Any] | Sequence[Part],
        *,
        name: str | None = None,
        artifact_id: str | None = None,
        append: bool = False,
        last_chunk: bool = True,
    ) -> str:
        """Adds an artifact (text, data or parts), or with `append` a chunk of one. Returns its id."""
        if isinstance(content, str):
            parts = [Part(text=content)]
        elif isinstance(content, dict):
            parts = [Part(data=content)]
        else:
            parts = list(content)
        artifact = Artifact(artifact_id=artifact_id or new_id(), parts=parts, name=name)
        await _recorded(lambda: self._run.add_artifact(artifact, append=append, last_chunk=last_chunk))
        return artifact.artifact_id

    async def ask(
        self,
        prompt: str,
        schema: Mapping[str, Any] | None = None,
        *,
        deadline: datetime | timedelta | None = None,
        allowed_responders: Sequence[str] | None = None,
    ) -> str:
        """Asks a person, and ends the turn; the skill runs again with `turn.answer`. Returns the prompt's id.

        `schema` is the JSON Schema (2020-12) of the answer's payload, an object; without one the payload is
        `{"text": ...}`. `allowed_responders` as in hitl-prompt/v1: `any`, `specific:<identity>`,
        `consensus:<n>`. Raises `Refused`, and stores nothing, if any of it breaks a rule.
        """
        asked = dict(schema) if schema is not None else TEXT_ANSWER
        return await _recorded(
            lambda: self._run.ask(prompt, asked, deadline=deadline, allowed_responders=allowed_responders)
        )

    async def require_auth(self, text: str) -> None:
        """Waits for a credential, which `text` explains, and ends the turn.

        It must come another way than in a message of this task. The skill runs again with `turn.resumed` once
        somebody says that it is there, or with the owner's next message.
        """
        await _recorded(lambda: self._run.require_auth(text))

    async def request_approval(
        self,
        action: Mapping[str, Any],
        summary: str,
        question: str | None = None,
        *,
        quorum: int = 1,
        deadline: datetime | timedelta | None = None,
        allowed_responders: Sequence[str] | None = None,
    ) -> str:
        """Asks for leave to do exactly `action`, a JSON object, and ends the turn. Returns the request's id.

        Who may approve, and how many it takes, says the skill's gate; `quorum` may ask for more, and so may
        `consensus:<n>` of `allowed_responders` (hitl-prompt/v1), on the same count. People read `question`,
        or else the summary. The skill runs again with `turn.approval`. Raises `Refused`, and stores nothing,
        if any of it breaks a rule.
        """
        return await _recorded(
            lambda: self._run.request_approval(
                dict(action),
                summary,
                question,
                gate=self._gate,
                quorum=quorum,
                deadline=deadline,
                allowed_responders=allowed_responders,
            )
        )

    async def delegate(
        self,
        agent: str,
        message: str | Message,
        *,
        skill: str | None = None,
        lease: timedelta | None = None,
        deadline: datetime | timedelta | None = None,
    ) -> Delegation:
        """Hands work to another agent: one that the deployment names, or a URL. The task goes on.

        Comes back once the other's task is known, and at the latest after 5 seconds. `skill` hints which of
        the agent's skills is meant. With `lease`, of 3 seconds to a day, the other stops by itself when this
        turn no longer renews it; at `deadline` it stops in any case. Whoever may not approve what this task
        asks leave for, may not approve it there either. Raises `Refused`, and nothing is sent, if any of it
        breaks a rule.
        """
        if self._peers is None:
            raise Refused("this deployment hands no work to other agents")
        work = message
        if isinstance(work, str):
            work = Message(message_id=new_id(), role=Role.USER, parts=[Part(text=work)])
        if skill is not None:
            work = work.model_copy(update={"metadata": {**(work.metadata or {}), SKILL_HINT: skill}})
        if isinstance(deadline, timedelta):
            deadline = self._run.engine.clock.now() + deadline
        handed = Handed(
            self._run,
            self._peers,
            agent,
            work,
            lease=lease,
            deadline=deadline,
            self_approval=self._gate.self_approval,
        )
        delegation = Delegation(handed, lease.total_seconds() if lease is not None else None)
        await delegation.start()
        return delegation

    async def complete(self, text: str | None = None) -> None:
        await _recorded(lambda: self._run.finish(TaskState.COMPLETED, text))

    async def fail(self, text: str) -> None:
        await _recorded(lambda: self._run.finish(TaskState.FAILED, text))

    async def reject(self, text: str) -> None:
        await _recorded(lambda: self._run.finish(TaskState.REJECTED, text))


async def _recorded(write: Callable[[], T]) -> T:
    """The store is not asynchronous: the write is made in a thread, unless nobody else needs the loop."""
    if len(asyncio.all_tasks()) == 1:
        return write()
    return await asyncio.to_thread(write)
