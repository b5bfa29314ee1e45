"""Opening a checkpoint: what is written when a task begins to wait for people."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from interlock.a2a.models import JsonObject, TaskState
from interlock.engine.context import Engine, agent_message, barred, status
from interlock.engine.facts import PROMPT_OPENED, Fact, text_digest
from interlock.engine.ports import Missing, Put, Write
from interlock.engine.records import Checkpoint, Due, Event, TaskMeta, inbox_view, instant
from interlock.engine.reviewers import opened
from interlock.oversight import approvals, hitl_prompt, reviewers
from interlock.oversight.approvals import Asked, Gate
from interlock.oversight.canonical_json import canonical
from interlock.oversight.modes import Mode
from interlock.oversight.reviewers import Hop

NO_DEADLINE = "9999"
"""Sorts behind every deadline in the inbox."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A checkpoint that is to be opened: a prompt, or with `approval` a request for one. `dispatch`: it asks
    whether the task may start at all."""

    envelope: hitl_prompt.Envelope
    approval: Asked | None = None
    dispatch: bool = False

    def changes(self, meta: TaskMeta) -> Mapping[str, Any]:
        """Of META."""
        changes = {"ask": self.envelope.prompt_id, "asked": meta.asked + 1}
        if self.approval is None:
            return changes
        return {**changes, "approval": True, "required": self.approval.gate.quorum}

    def event(self, meta: TaskMeta, now: datetime) -> Event:
        envelope, asked = self.envelope, self.approval
        message = agent_message(meta, envelope.prompt)
        message.metadata = {hitl_prompt.URI: envelope.to_wire()}
        message.extensions = [hitl_prompt.URI]
        if asked is not None:
            request = approvals.Request(
                envelope.prompt_id, asked.summary, asked.digest, meta.last_author or meta.owner
            )
            message.metadata[approvals.KEY] = request.to_wire()
            if asked.gate.quorum > 1:
                progress: JsonObject = {"approvedBy": [], "required": asked.gate.quorum}
                message.metadata[approvals.QUORUM_KEY] = progress
            message.extensions.append(approvals.URI)
        return Event(status=status(TaskState.INPUT_REQUIRED, now, message))

    def fact(self, meta: TaskMeta) -> Fact:
        envelope, asked = self.envelope, self.approval
        schema = text_digest(json.dumps(envelope.response_schema, sort_keys=True, separators=(",", ":")))
        digests = {"prompt": text_digest(envelope.prompt), "schema": schema}
        detail: dict[str, Any] = {"prompt": envelope.prompt_id, "requestedBy": meta.owner}
        if asked is not None:
            digests["action"] = asked.digest
            detail |= {"required": asked.gate.quorum, "requestedBy": meta.last_author or meta.owner}
        if self.dispatch:
            detail["dispatch"] = True
        return Fact(PROMPT_OPENED, f"agent:{meta.agent}", digests, detail)

    def _checkpoint(self, meta: TaskMeta, now: datetime) -> Checkpoint:
        envelope, asked = self.envelope, self.approval
        deadline = instant(envelope.deadline) if envelope.deadline is not None else None
        return Checkpoint(
            tenant=meta.tenant,
            task_id=meta.task_id,
            ask_id=envelope.prompt_id,
            agent=meta.agent,
            skill=meta.skill,
            requested_by=meta.owner,
            number=meta.asked + 1,
            mode=meta.mode if meta.mode != Mode.AUTONOMOUS else None,
            radius=meta.radius,
            kind=Checkpoint.APPROVAL if asked is not None else Checkpoint.PROMPT,
            dispatch=self.dispatch,
            approval=asked.to_json() if asked is not None else None,
            envelope=json.dumps(envelope.to_wire(), ensure_ascii=False, separators=(",", ":")),
            asked_at=instant(now),
            hops=reviewers.to_json(self._hops(meta)),
            deadline=deadline,
            # Nobody else sees an isolated task, so it is in nobody's inbox.
            view=None if meta.isolated else inbox_view(meta.tenant),
            view_at=f"{deadline or NO_DEADLINE}#{envelope.prompt_id}",
        )

    def _hops(self, meta: TaskMeta) -> list[Hop]:
        """An approval is never put to the agent that wants it."""
        owner = "" if meta.by_person else meta.owner
        straight = meta.to_people or self.approval is not None
        return reviewers.chain_of(owner, meta.dispatchers.split(), straight_to_people=straight)

    def opens(self, engine: Engine, meta: TaskMeta, now: datetime) -> tuple[Checkpoint, list[Write]]:
        """The checkpoint, with its timers and who is told, in the transaction that makes the task wait.

        `meta`: as it was.
        """
        asked, told = opened(engine, meta, self._checkpoint(meta, now), now)
        writes: list[Write] = [Put(asked.key, asked.item(), (Missing("v"),)), *told]
        if asked.due_key is not None and asked.deadline is not None:
            due = Due("deadline", asked.tenant, asked.task_id, asked.ask_id, asked.deadline)
            writes.append(Put(asked.due_key, due.item()))
        return asked, writes


def asking_approval(
    meta: TaskMeta,
    action: JsonObject,
    summary: str,
    question: str | None,
    *,
    gate: Gate,
    now: datetime,
    deadline: datetime | None = None,
    allowed_responders: Sequence[str] | None = None,
    dispatch: bool = False,
) -> Opening:
    """A request for leave to do exactly `action`, of those whom `gate` and `allowed_responders` say.

    Whoever's words the task acts on is excluded, by who they were authenticated as. Raises `ValueError`, fit
    to be shown.
    """
    if not summary.strip() or len(summary) > approvals.MAX_SUMMARY:
        raise ValueError(f"summary must be text of 1 to {approvals.MAX_SUMMARY} characters")
    canonical(summary)
    asked_of = hitl_prompt.Responders.parse(allowed_responders or (hitl_prompt.ANY,))
    if asked_of.named:
        raise ValueError("who may approve says the gate: allowed_responders may name nobody")
    chosen = gate.at_least(asked_of.needed)
    if meta.inherited:
        # Who may not approve for the task that delegated this one may not here, whatever the skill allows.
        chosen = replace(chosen, self_approval=False)
    chosen.check(isolated=meta.isolated)
    asked = Asked(
        action=action,
        summary=summary,
        digest=approvals.digest_of(action),
        gate=chosen,
        requesters=barred(meta),
    )
    envelope = hitl_prompt.validate_emission(
        prompt=question or summary,
        response_schema=dict(approvals.RESPONSE_SCHEMA),
        deadline=deadline,
        allowed_responders=allowed_responders,
        now=now,
    )
    if chosen.quorum > 1:
        envelope = replace(envelope, allowed_responders=(f"consensus:{chosen.quorum}",))
    return Opening(envelope, asked, dispatch)
