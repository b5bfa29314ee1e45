"""What people do to a checkpoint beside deciding it: they put its deadline off, claim it, or pass it on.

It stays open, and each is one conditional write on it.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from interlock.a2a.errors import A2AError, InvalidParams, PermissionDenied
from interlock.engine.checkpoints import in_time
from interlock.engine.context import Engine, attempts, new_id
from interlock.engine.errors import AnswerRefused
from interlock.engine.halts import Halted, halted_comes_first, halted_in, unless_halted
from interlock.engine.inbox import visible_checkpoint
from interlock.engine.ports import ConditionFailed, Equals, OutcomeUnknown, Put, Write
from interlock.engine.records import Checkpoint, TaskMeta, parse_instant
from interlock.engine.shown import Question, WhyNot, over
from interlock.oversight.principals import Kind, Principal, Role


class Claimed(A2AError):
    """Somebody else says that they look at it."""

    code = -32602
    http_status = 409
    status = "ABORTED"
    reason = "CHECKPOINT_CLAIMED"
    text = "Somebody else looks at it"


@dataclass(frozen=True, slots=True)
class Attended:
    """A checkpoint that is open and in time, with its task, as it was read at `now`."""

    meta: TaskMeta
    question: Question
    now: datetime

    @property
    def checkpoint(self) -> Checkpoint:
        return self.question.checkpoint

    def check_free(self, caller: Principal) -> None:
        """Whoever has passed it on may take that back, and an operator anything. Raises `Claimed`."""
        found = self.checkpoint
        if found.claim_by is None or found.claim_until is None or caller.has(Role.OPERATOR):
            return
        if caller.id in (found.claim_by, found.claim_from):
            return
        if parse_instant(found.claim_until) > self.now:
            raise Claimed(metadata={"who": str(found.claim_by)})


Change = Callable[[Attended], tuple[Checkpoint, list[Write]] | None]
"""The checkpoint as it will be, and what goes with that. None: it is so already. Raises what is told."""


def attend(
    engine: Engine, caller: Principal, task_id: str, ask_id: str, change: Change, *, while_halted: bool
) -> tuple[Question, TaskMeta]:
    """Of who may decide it, or operates the tenant and has not asked for it.

    The revision makes sure that it is changed as it was read. Raises `TaskNotFound`, `AnswerRefused` once it
    is closed or over, `PermissionDenied`, `InvalidParams`.
    """
    op = new_id()
    refused: Halted | None = None
    for _ in attempts(engine.clock):
        question, meta = visible_checkpoint(engine, caller, task_id, ask_id)
        found, now = question.checkpoint, engine.clock.now()
        if found.passed_op == op:
            return question, meta
        if refused is not None:
            raise refused
        with nullcontext() if while_halted else halted_comes_first(engine, meta):
            _check(question, caller, now)
            changed = change(Attended(meta, question, now))
        if changed is None:
            return question, meta
        moved = replace(changed[0], rev=found.rev + 1, passed_op=op)
        still = (Equals("status", Checkpoint.OPEN), Equals("rev", found.rev), *in_time(found, now))
        writes: list[Write] = [Put(moved.key, moved.item(), still), *changed[1]]
        if not while_halted:
            writes.extend(unless_halted(meta))
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes)
            continue
        except OutcomeUnknown:
            continue
        return replace(question, checkpoint=moved), meta
    raise AssertionError("attempts end by raising")


def _check(question: Question, caller: Principal, now: datetime) -> None:
    found = question.checkpoint
    if found.kind == Checkpoint.WINDOW:
        raise InvalidParams("Nothing is asked: whoever is against it cancels the task")
    if found.status != Checkpoint.OPEN:
        raise AnswerRefused(found.ask_id)
    may = question.bars(caller)
    operates = caller.has(Role.OPERATOR) and may is not WhyNot.REQUESTER
    if caller.kind is not Kind.PERSON or not (may is None or operates):
        raise PermissionDenied("You may not decide this, nor operate it")
    if over(found, now):
        raise AnswerRefused(found.ask_id, "expired")
