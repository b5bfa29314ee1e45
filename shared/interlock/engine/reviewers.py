"""Passing a question on, from one who is asked to the next: by word, or when their time is over."""

from dataclasses import replace
from datetime import datetime, timedelta

from interlock.a2a.errors import InvalidParams, PermissionDenied
from interlock.a2a.models import Message
from interlock.engine.checkpoints import of_due
from interlock.engine.context import Engine, attempts, new_id
from interlock.engine.errors import AnswerRefused
from interlock.engine.expire import unanswered
from interlock.engine.facts import REVIEWER_ASKED, Fact
from interlock.engine.halts import Halted, halted_comes_first, halted_in, unless_halted
from interlock.engine.notices import to_remind
from interlock.engine.ports import ConditionFailed, Delete, Equals, Key, OutcomeUnknown, Put, Write
from interlock.engine.records import Checkpoint, Delegation, Due, TaskMeta, instant
from interlock.engine.tells import Tells, to_tell
from interlock.engine.view import TaskView
from interlock.engine.visibility import visible_task
from interlock.oversight import hitl_prompt, reviewers
from interlock.oversight.delegation import Terms
from interlock.oversight.principals import Principal
from interlock.oversight.reviewers import OPERATORS, PASS_ON, PASSED, PEOPLE, TIMED_OUT, Hop

HOP = "hop"
REJECT = "reject"


def dispatchers_of(engine: Engine, caller: Principal, message: Message, terms: Terms | None) -> str:
    """The agents above the caller, as they were recorded here: the context of delegated work is the
    delegation, which is known to its parent's task and to nobody else.
    """
    if terms is None or terms.parent is None or message.context_id is None:
        return ""
    delegation, parent = engine.table.get_many(
        [
            Delegation.key_of(caller.tenant, terms.parent, message.context_id),
            TaskMeta.key_of(caller.tenant, terms.parent),
        ]
    )
    if delegation is None or parent is None:
        return ""
    meta = TaskMeta.read(parent)
    above = [] if meta.by_person else [meta.owner]
    return " ".join([*above, *meta.dispatchers.split()][: reviewers.MAX_AGENTS])


def passes_on(message: Message) -> bool:
    """Whether a message to a task says so in words, or by having none."""
    if PASS_ON in (message.metadata or {}):
        return True
    only_text = all(part.text is not None for part in message.parts)
    return only_text and not message.text.strip() and hitl_prompt.RESPONSE_KEY not in (message.metadata or {})


def opened(engine: Engine, meta: TaskMeta, ask: Checkpoint, now: datetime) -> tuple[Checkpoint, list[Write]]:
    """A checkpoint as it is opened, and what goes with it where people can be told: who is asked first, and
    until when. Nobody else sees an isolated task.
    """
    asked, writes = asked_next(engine, meta, ask, now)
    return asked, [*writes, *to_remind(ask)] if _tells(engine, meta) else writes


def _tells(engine: Engine, meta: TaskMeta) -> bool:
    return engine.notices and not meta.isolated


def asked_next(
    engine: Engine, meta: TaskMeta, ask: Checkpoint, now: datetime
) -> tuple[Checkpoint, list[Write]]:
    """Tells whoever is asked now, as far as we can: an agent follows its task by itself."""
    hop = reviewers.current(reviewers.from_json(ask.hops))
    if not _tells(engine, meta):
        return ask, []
    if hop.who == OPERATORS:
        return replace(ask, hop_until=None), to_tell(meta, Tells.ESCALATED, now, ask.ask_id)
    writes = to_tell(meta, Tells.ASKED, now, ask.ask_id) if hop.who == PEOPLE else []
    seconds = engine.limits.agent_hop if hop.agent else engine.limits.people_hop
    due = Due(HOP, ask.tenant, ask.task_id, ask.ask_id, instant(now + timedelta(seconds=seconds)))
    return replace(ask, hop_until=due.at), [*writes, Put(due.key, due.item())]


def pass_on(engine: Engine, caller: Principal, task_id: str, message: Message) -> TaskView | None:
    """The question goes on unchanged to the next, for whoever is asked now. None: a message without content
    that is not theirs who are asked, and so an ordinary one.

    Raises `TaskNotFound`, `AnswerRefused`, `PermissionDenied`, `InvalidParams`; then nothing changed.
    """
    named, op = _named(message), new_id()
    refused: Halted | None = None
    for _ in attempts(engine.clock):
        view = visible_task(engine, caller, task_id)
        prompt_id = named or view.meta.ask or ""
        item = engine.table.get(Checkpoint.key_of(caller.tenant, task_id, prompt_id))
        ask = Checkpoint.read(item) if item is not None else None
        if ask is not None and ask.passed_op == op:
            break
        hops = reviewers.from_json(ask.hops) if ask is not None else []
        mine = any(hop.who == caller.id and hop.outcome in (None, PASSED) for hop in hops)
        if named is None and not mine:
            return None
        if refused is not None:
            raise refused
        with halted_comes_first(engine, view.meta):
            if ask is None or ask.status != Checkpoint.OPEN:
                raise AnswerRefused(prompt_id)
            if any(hop == Hop(caller.id, PASSED) for hop in hops):
                return view  # said again
            if reviewers.current(hops).who != caller.id:
                raise PermissionDenied("You are not the one who is asked")
        writes = [*_passed(engine, view.meta, ask, PASSED, caller.id, op), *unless_halted(view.meta)]
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            refused = halted_in(failed, writes)
            continue
        except OutcomeUnknown:
            continue
        break
    if _tells(engine, view.meta):
        engine.waker.wake_notices(caller.tenant, task_id)
    return view


def _named(message: Message) -> str | None:
    said = (message.metadata or {}).get(PASS_ON)
    if said is None:
        return None
    if not isinstance(said, dict) or not hitl_prompt.is_prompt_id(said.get("prompt_id")):
        raise InvalidParams(f"{PASS_ON} must be an object with prompt_id")
    return str(said["prompt_id"])


def _passed(
    engine: Engine, meta: TaskMeta, ask: Checkpoint, outcome: str, by: str | None, op: str
) -> list[Write]:
    now = engine.clock.now()
    hops = reviewers.passed(reviewers.from_json(ask.hops), outcome)
    moved = replace(ask, hops=reviewers.to_json(hops), rev=ask.rev + 1, passed_op=op)
    moved, told = asked_next(engine, meta, moved, now)
    still = (Equals("status", Checkpoint.OPEN), Equals("rev", ask.rev))
    detail = {"prompt": ask.ask_id, "asked": reviewers.current(hops).who, "passed": outcome}
    fact = Fact(REVIEWER_ASKED, by, detail=detail).about(meta).put(meta.tenant, now)
    return [Put(moved.key, moved.item(), still), fact, *told]


def hop_due(engine: Engine, key: Key, due: Due) -> None:
    """The time of whoever is asked is over. Nothing is passed on while halted: the row stays.

    Of several rows of one checkpoint only that counts which was written for who is asked now.
    """
    op = new_id()
    for _ in attempts(engine.clock):
        found = of_due(engine.table, due)
        if found is None:
            continue
        meta, ask = found
        writes: list[Write] = [Delete(key, (Equals("at", due.at),))]
        if ask.status == Checkpoint.OPEN and ask.hop_until == due.at:
            writes += _over(engine, meta, ask, op)
            writes += unless_halted(meta)
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            if halted_in(failed, writes) is not None or engine.table.get(key) is None:
                return
            continue
        except OutcomeUnknown:
            continue
        engine.waker.wake_notices(due.tenant, due.task_id)
        if meta.delegates:
            engine.waker.wake_children(meta.tenant, meta.task_id)
        return


def _over(engine: Engine, meta: TaskMeta, ask: Checkpoint, op: str) -> list[Write]:
    hop: Hop = reviewers.current(reviewers.from_json(ask.hops))
    if hop.who == PEOPLE and engine.limits.unanswered == REJECT:
        return unanswered(meta, ask, "Nobody answered in time: nothing was run.", engine.clock.now(), op)
    return _passed(engine, meta, ask, TIMED_OUT, None, op)
