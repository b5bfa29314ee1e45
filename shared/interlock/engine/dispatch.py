"""How a new task starts, by the mode of its skill (hitl-mode-v1): at once, after a window, or once approved.

What starts at once has a RUN row, and the halts are read after it was written. What waits for people has
none: it carries the halts as a condition of its own transaction.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import JsonObject, Message, TaskState
from interlock.engine.checkpoints import NOTHING_ASKED, close_ask, of_due, wake_told
from interlock.engine.context import (
    Engine,
    Skill,
    agent_message,
    attempts,
    move,
    new_id,
    queue_turn,
    status,
)
from interlock.engine.facts import VETO_OPENED, VETO_PASSED, VETO_RESTARTED, Fact
from interlock.engine.halts import halted_in, look, unless_halted
from interlock.engine.notices import to_remind
from interlock.engine.opening import asking_approval
from interlock.engine.ports import ConditionFailed, Delete, Equals, Key, Missing, OutcomeUnknown, Put, Write
from interlock.engine.records import (
    Checkpoint,
    Due,
    Event,
    TaskMeta,
    inbox_view,
    instant,
    parse_instant,
)
from interlock.engine.tells import Tells, to_tell
from interlock.oversight import approvals
from interlock.oversight.canonical_json import canonical
from interlock.oversight.hitl_prompt import Envelope
from interlock.oversight.modes import Mode

WINDOW = "window"
SKEW = timedelta(seconds=1)
"""By how much the clocks of two hosts may differ: a window ends that much later."""
MAX_SHOWN = 8192
"""Bytes of an input that is shown whole to whom it is put before; of a longer one the digest is."""
EXCERPT = 2000
"""Characters of its text that are shown beside that."""


@dataclass(frozen=True, slots=True)
class Start:
    """A new task as it begins: what is written beside META, and the events in their order."""

    meta: TaskMeta
    events: Sequence[Event]
    writes: Sequence[Write]
    facts: Sequence[Fact] = ()
    due: tuple[Key, datetime] | None = None
    """What is to be woken for."""


def start(engine: Engine, meta: TaskMeta, skill: Skill, sent: Event, now: datetime) -> Start:
    """`meta` is that of a task that is about to start at once. Raises `InvalidParams` for an input that can
    not be put before people."""
    mode = skill.declared.mode
    meta = replace(meta, mode=mode.value, told=engine.notices and not meta.isolated)
    if mode is Mode.VETO:
        return _after_window(meta, skill, sent, now)
    if mode in (Mode.GATED, Mode.COMPOUND):
        return _once_approved(engine, meta, skill, sent, now)
    notices = to_tell(meta, Tells.STARTED, now) if mode is Mode.NOTIFICATION and meta.told else []
    return Start(meta, [sent], [queue_turn(meta, now), *notices])


def _once_approved(engine: Engine, meta: TaskMeta, skill: Skill, sent: Event, now: datetime) -> Start:
    """The dispatch itself is a checkpoint, before the first turn."""
    if sent.message is None:
        raise AssertionError("a send without its message")
    note = skill.declared.note
    summary = f"Start {meta.skill} of {meta.agent}"
    question = f"{summary}? {note}" if note else f"{summary}?"
    try:
        action: JsonObject = {"agent": meta.agent, "skill": meta.skill, "input": shown_input(sent.message)}
        opening = asking_approval(meta, action, summary, question, gate=skill.gate, now=now, dispatch=True)
    except ValueError as error:
        raise InvalidParams(f"This message can not be put before people: {error}") from error
    asking = opening.event(meta, now)
    changes = opening.changes(meta)
    waiting = replace(meta, state=TaskState.INPUT_REQUIRED.value, turn=0, seq=2, said=2, **changes)
    _, writes = opening.opens(engine, meta, now)
    return Start(waiting, [sent, asking], writes, [opening.fact(meta)])


def shown_input(message: Message) -> JsonObject:
    """What is approved: the parts, or where they are long their digest with the beginning of the text.

    Raises `ValueError` where they have no canonical form.
    """
    parts = message.wire()["parts"]
    if len(canonical(parts)) <= MAX_SHOWN:
        return {"parts": parts}
    return {"digest": approvals.digest_of({"parts": parts}), "excerpt": message.text[:EXCERPT]}


def _after_window(meta: TaskMeta, skill: Skill, sent: Event, now: datetime) -> Start:
    """Nothing runs until the window has ended; whoever may cancel the task vetoes it until then."""
    ttl = skill.declared.veto_ttl_ms
    end = instant(now + timedelta(milliseconds=ttl))
    ask_id = new_id()
    text = f"Starts {meta.skill} of {meta.agent} at {end}, unless it is canceled."
    told = replace_status(sent, meta, text, now)
    window = Checkpoint(
        tenant=meta.tenant,
        task_id=meta.task_id,
        ask_id=ask_id,
        agent=meta.agent,
        skill=meta.skill,
        requested_by=meta.owner,
        envelope=json.dumps(Envelope(ask_id, text, {"type": "object"}, parse_instant(end)).to_wire()),
        asked_at=instant(now),
        kind=Checkpoint.WINDOW,
        mode=meta.mode,
        radius=meta.radius,
        dispatch=True,
        window_ms=ttl,
        deadline=end,
        view=None if meta.isolated else inbox_view(meta.tenant),
        view_at=f"{end}#{ask_id}",
    )
    waiting = replace(meta, turn=0, said=1, ask=ask_id, asked=1)
    due = _row(window)
    writes: list[Write] = [Put(window.key, window.item(), (Missing("v"),)), Put(due.key, due.item())]
    if meta.told:
        writes += [*to_tell(meta, Tells.ASKED, now, ask_id), *to_remind(window)]
    fact = Fact(VETO_OPENED, meta.owner, detail={"prompt": ask_id, "until": end})
    return Start(waiting, [told], writes, [fact], (due.key, parse_instant(end)))


def replace_status(sent: Event, meta: TaskMeta, text: str, now: datetime) -> Event:
    message = agent_message(meta, text)
    return sent.model_copy(update={"status": status(TaskState.SUBMITTED, now, message)})


def _row(window: Checkpoint) -> Due:
    if window.deadline is None:
        raise AssertionError("a window without an end")
    return Due(WINDOW, window.tenant, window.task_id, window.ask_id, window.deadline)


def pass_window(engine: Engine, key: Key, due: Due) -> None:
    """The end of a window of veto: exactly one of passed and vetoed, by one write and our clock (I6).

    The window is read first and the halts after. While halted nothing is done and the row stays; a window
    that ended before the last resume of what covers it starts anew.
    """
    op = new_id()
    for _ in attempts(engine.clock):
        found = of_due(engine.table, due)
        if found is None:
            continue
        meta, window = found
        gone = Delete(key, (Equals("at", due.at),))
        now = engine.clock.now()
        writes: list[Write] = [gone]
        moved = None
        if window.status == Checkpoint.OPEN and window.deadline is not None:
            moment = look(engine, meta)
            if moment.why is not None:
                return
            end = parse_instant(window.deadline)
            if moment.resumed_at is not None and moment.resumed_at >= window.deadline:
                writes += _anew(meta, window, now, op)
            elif now < end + SKEW:
                engine.waker.wake_timer(key, end + SKEW)
                return
            else:
                moved, passing = _passing(meta, window, now, op)
                writes += passing
            writes += unless_halted(meta)
        try:
            engine.table.write(*writes)
        except ConditionFailed as failed:
            if halted_in(failed, writes) is not None or engine.table.get(key) is None:
                return
            continue
        except OutcomeUnknown:
            continue
        if moved is not None:
            engine.waker.wake_turn(moved.tenant, moved.task_id, moved.turn)
            wake_told(engine.waker, moved)
        return


def _passing(meta: TaskMeta, window: Checkpoint, now: datetime, op: str) -> tuple[TaskMeta, list[Write]]:
    fact = Fact(VETO_PASSED, detail={"prompt": window.ask_id})
    moved, writes = move(meta, None, now=now, op=op, changes={**NOTHING_ASKED, "turn": 1}, fact=fact)
    closed = close_ask(meta, window.ask_id, Checkpoint.PASSED, now, turn=moved.turn)
    return moved, [*writes, *closed, queue_turn(moved, now)]


def _anew(meta: TaskMeta, window: Checkpoint, now: datetime, op: str) -> list[Write]:
    if window.window_ms is None:
        raise AssertionError("a window without a length")
    end = instant(now + timedelta(milliseconds=window.window_ms))
    again = replace(window, deadline=end, rev=window.rev + 1, view_at=f"{end}#{window.ask_id}")
    due = _row(again)
    text = f"Starts {meta.skill} of {meta.agent} at {end}, unless it is canceled."
    event = Event(status=status(TaskState.SUBMITTED, now, agent_message(meta, text)))
    fact = Fact(VETO_RESTARTED, detail={"prompt": window.ask_id, "until": end})
    _, writes = move(meta, event, now=now, op=op, fact=fact)
    still = (Equals("status", Checkpoint.OPEN), Equals("rev", window.rev))
    return [*writes, Put(again.key, again.item(), still), Put(due.key, due.item())]
