"""Messages in chats and mails: each checkpoint is shown once in each channel, and once it has ended, how.

Which message that is stands in a row beside the task. It is claimed before anything is posted, and only while
the checkpoint is open, so that who comes later, or comes again, finds the message or whoever is posting it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Protocol

from interlock.engine.context import new_id
from interlock.engine.notices import RenderFailed
from interlock.engine.ports import (
    Check,
    Clock,
    ConditionFailed,
    Equals,
    Key,
    Missing,
    Put,
    StoreError,
    Table,
    Update,
    Write,
)
from interlock.engine.press import APPROVE, DENY, Shown
from interlock.engine.records import Checkpoint, Record, instant, parse_instant, task_of, task_pk
from interlock.engine.shown import Question, question
from interlock.engine.tells import Tells
from interlock.oversight.choices import choices_of
from interlock.oversight.hitl_prompt import visible

CLAIM = timedelta(seconds=30)
"""How long whoever posts a message may take, until somebody else tries."""

MAX_NAME = 128
"""Characters."""

ENDED: Mapping[str, str] = {
    Checkpoint.ANSWERED: "Answered",
    Checkpoint.APPROVED: "Approved",
    Checkpoint.DENIED: "Denied",
    Checkpoint.CHANGES_REQUESTED: "Sent back for changes",
    Checkpoint.EXPIRED: "Its time passed, nothing was run",
    Checkpoint.CANCELED: "Canceled",
    Checkpoint.SUPERSEDED: "Closed by another message",
    Checkpoint.PASSED: "Nobody vetoed, it starts",
    Checkpoint.VETOED: "Vetoed",
}


@dataclass(frozen=True, slots=True)
class Said(Record):
    """A message of one renderer, about the checkpoint or the notice `id`. `message` names it on its platform,
    once it is there; until then whoever wrote `op` posts it, and has until `until`."""

    tenant: str
    task_id: str
    id: str
    renderer: str
    op: str
    until: str
    message: str | None = None

    PREFIX: ClassVar[str] = "SAID#"

    @staticmethod
    def key_of(tenant: str, task_id: str, about: str, renderer: str) -> Key:
        return Key(task_pk(tenant, task_id), f"{Said.PREFIX}{about}#{renderer}")

    @property
    def key(self) -> Key:
        return self.key_of(self.tenant, self.task_id, self.id, self.renderer)


@dataclass(frozen=True, slots=True)
class Button:
    """`value` is what the platform keeps of it, and says when it is pressed. `style`: of one that lets
    something happen, or keeps it from happening."""

    label: str
    value: str
    style: str | None = None

    GO: ClassVar[str] = "go"
    STOP: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True)
class Card:
    """What a message says. `texts` and names are of others, with everything in them visible; `withheld` says
    why something of what is asked is not in `texts`. Without buttons nobody decides there."""

    title: str
    tenant: str
    task_id: str
    agent: str
    skill: str
    mode: str
    requested_by: str
    texts: tuple[str, ...] = ()
    withheld: str | None = None
    deadline: datetime | None = None
    required: int = 1
    buttons: tuple[Button, ...] = ()
    outcome: str | None = None
    link: str | None = None
    shown: Shown | None = None
    place: str | None = None
    """Where the work came from, as its caller says."""


class Surface(Protocol):
    """One channel. Raises `RenderFailed` where the platform does not take it."""

    def fits(self, texts: Sequence[str]) -> bool:
        """Whether a message has room for all of them: else none is shown."""

    def post(self, card: Card) -> str:
        """What the message is named by."""

    def edit(self, message: str, card: Card) -> None: ...

    def follow_up(self, message: str, card: Card) -> str:
        """Another message, beside the one that there is."""


@dataclass(frozen=True, slots=True)
class ChannelRenderer:
    """Implements `Renderer`. `base` is where people reach this deployment; `whole`: the action is shown."""

    table: Table
    clock: Clock
    name: str
    surface: Surface
    base: str | None = None
    whole: bool = False

    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        try:
            self._render(notice_id, document)
        except StoreError as error:
            raise RenderFailed(f"the store does not answer: {type(error).__name__}") from error

    def _render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        tells, tenant, task_id = Tells(document["tells"]), document["tenant"], document["taskId"]
        if "checkpoint" not in document:
            about = Said.key_of(tenant, task_id, notice_id, self.name)
            self._once(about, (), lambda: self.surface.post(self._card(document, None)))
            return
        ask_key = Checkpoint.key_of(tenant, task_id, document["checkpoint"]["id"])
        about = Said.key_of(tenant, task_id, document["checkpoint"]["id"], self.name)
        ask_item, said_item = self.table.get_many([ask_key, about])
        if ask_item is None:
            raise AssertionError("a notice of a checkpoint that is not there")
        asked, said = question(ask_item), Said.read(said_item) if said_item is not None else None
        card = self._card(document, asked)
        if asked.checkpoint.status != Checkpoint.OPEN:
            self._end(said, card)
            return
        still_open = Check(ask_key, (Equals("status", Checkpoint.OPEN),))
        if said is None or said.message is None:
            self._once(about, (still_open,), lambda: self.surface.post(card))
        elif tells in (Tells.REMINDER, Tells.ESCALATED, Tells.HANDED):
            message = said.message
            again = Said.key_of(tenant, task_id, notice_id, self.name)
            self._once(again, (still_open,), lambda: self.surface.follow_up(message, card))

    def _end(self, said: Said | None, card: Card) -> None:
        """Of what was never posted nothing is said."""
        if said is None:
            return
        if said.message is not None:
            self.surface.edit(said.message, card)
        elif parse_instant(said.until) > self.clock.now():
            raise RenderFailed("it is being posted")

    def _once(self, key: Key, conditions: tuple[Write, ...], post: Callable[[], str]) -> None:
        """Posts what nobody has posted, unless somebody is at it."""
        item, now = self.table.get(key), self.clock.now()
        before = Said.read(item) if item is not None else None
        if before is not None and before.message is not None:
            return
        if before is not None and parse_instant(before.until) > now:
            raise RenderFailed("it is being posted")
        tenant, task_id, about = _parts(key)
        claim = Said(tenant, task_id, about, self.name, new_id(), instant(now + CLAIM))
        free = Equals("op", before.op) if before is not None else Missing("v")
        try:
            self.table.write(Put(key, claim.item(), (free,)), *conditions)
        except ConditionFailed as failed:
            raise RenderFailed("somebody else posts it, or it has ended") from failed
        mine = (Equals("op", claim.op),)
        try:
            message = post()
        except RenderFailed:
            self.table.write(Update(key, {"until": instant(now)}, conditions=mine))
            raise
        self.table.write(Update(key, {"message": message}, conditions=mine))

    def _card(self, document: Mapping[str, Any], asked: Question | None) -> Card:
        source = document.get("source", {})
        said = source.get("channelId") or source.get("issueId")
        place = said if isinstance(said, str) else None
        if asked is None:
            return Card(
                title="It has started",
                tenant=document["tenant"],
                task_id=document["taskId"],
                agent=_name(document["agent"]),
                skill=_name(document["skill"]),
                mode=document["mode"],
                requested_by=_name(document["requestedBy"]),
                place=place,
            )
        card = _card_of(asked, Tells(document["tells"]), whole=self.whole, fits=self.surface.fits)
        if self.base is not None:
            found = asked.checkpoint
            link = f"{self.base.rstrip('/')}/inbox/#/waiting/{found.task_id}/{found.ask_id}"
            card = replace(card, link=link)
        return replace(card, place=place)


def checkpoint_card(table: Table, tenant: str, shown: Shown, *, whole: bool) -> Card | None:
    """What there is to be seen of a checkpoint now, if it is still the one that was shown."""
    item = table.get(Checkpoint.key_of(tenant, shown.task_id, shown.ask_id))
    asked = question(item) if item is not None else None
    if asked is None or asked.digest != shown.digest:
        return None
    return _card_of(asked, Tells.ASKED, whole=whole, fits=_anything)


def _anything(texts: Sequence[str]) -> bool:  # noqa: ARG001
    """A page has room for it."""
    return True


def _card_of(asked: Question, tells: Tells, *, whole: bool, fits: Callable[[Sequence[str]], bool]) -> Card:
    found = asked.checkpoint
    summary, prompt = asked.asked.summary if asked.asked is not None else "", asked.envelope.prompt
    texts = [text for text in dict.fromkeys((summary, prompt)) if text]
    if whole and asked.asked is not None:
        texts.append(json.dumps(asked.asked.action, ensure_ascii=False, indent=2))
    seen = tuple(visible(text) for text in texts)
    has_room = fits(seen)
    card = Card(
        title=_title(found, tells),
        tenant=found.tenant,
        task_id=found.task_id,
        agent=_name(found.agent),
        skill=_name(found.skill),
        mode=found.mode or "",
        requested_by=_name(found.requested_by),
        texts=seen if has_room else (),
        withheld=_withheld(asked, whole=whole, fits=has_room),
        deadline=parse_instant(found.deadline) if found.deadline is not None else None,
        required=asked.asked.gate.quorum if asked.asked is not None else asked.envelope.responders.needed,
        shown=Shown(found.task_id, found.ask_id, asked.digest),
    )
    if found.status != Checkpoint.OPEN:
        return replace(card, outcome=_outcome(asked))
    return replace(card, buttons=_buttons(asked, card) if has_room else ())


def _name(text: str) -> str:
    shown = visible(text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if len(shown) <= MAX_NAME else "(too long to be shown here)"


def _parts(key: Key) -> tuple[str, str, str]:
    """Tenant, task, and what is told of."""
    tenant, task_id = task_of(key.pk)
    return tenant, task_id, key.sk.removeprefix(Said.PREFIX).partition("#")[0]


def _title(found: Checkpoint, tells: Tells) -> str:
    if found.status != Checkpoint.OPEN:
        return "This is closed"
    if tells is Tells.REMINDER:
        return "Still waiting for you"
    if tells is Tells.ESCALATED:
        return "Nobody has answered in time"
    if tells is Tells.HANDED and found.claim_by is not None:
        return f"This is for {_name(found.claim_by)}"
    if found.kind == Checkpoint.WINDOW:
        return "This starts unless somebody cancels it"
    if found.dispatch:
        return "May this start?"
    return "Leave is asked for" if found.kind == Checkpoint.APPROVAL else "A question"


def _withheld(asked: Question, *, whole: bool, fits: bool) -> str | None:
    if not fits:
        return "It is too long to be shown whole here: open the inbox to read it and to decide."
    if asked.asked is not None and not whole:
        return "The action itself is not shown here: the inbox has it."
    return None


def _buttons(asked: Question, card: Card) -> tuple[Button, ...]:
    if card.shown is None or asked.checkpoint.kind == Checkpoint.WINDOW:
        return ()
    what = card.shown.encoded()
    if asked.asked is not None:
        approve = Button("Approve", f"{APPROVE}.{what}", Button.GO)
        return approve, Button("Deny", f"{DENY}.{what}", Button.STOP)
    choices = choices_of(asked.envelope.response_schema)
    return tuple(Button(choice.label, f"{number}.{what}") for number, choice in enumerate(choices))


def _outcome(asked: Question) -> str:
    found = asked.checkpoint
    by = asked.approved_by if found.status == Checkpoint.APPROVED else (found.closed_by,)
    named = ", ".join(_name(who) for who in by if who is not None)
    ended = ENDED.get(found.status, found.status)
    return f"{ended} by {named}" if named else ended
