"""What waits, or waited, for a person: as the people's door shows it, and how the commands speak to it."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from urllib.parse import quote

from pydantic import JsonValue

from interlock.a2a.models import JsonObject, Wire
from interlock.cli.door import HALTED, TRIES, Door, reason_in
from interlock.cli.output import Failure
from interlock.oversight.canonical_json import NotCanonical, digest

SHORTEST_REFERENCE = 4
MAX_PAGES = 100
LOST = "The answer may be recorded or not. Give it again: it is recorded once."
WINDOW = "window"
"""The kind of what asks nothing, and starts at its deadline."""


class Approval(Wire):
    """What an approval request asks, of whom, and who has approved so far."""

    action: JsonObject
    summary: str
    digest: str
    requesters: list[str]
    approved_by: list[str]
    required: int

    @property
    def progress(self) -> str:
        return f"{len(self.approved_by)} of {self.required}"


class Claim(Wire):
    """Who says that they look at it."""

    who: str
    until: str


class Delivery(Wire):
    status: str
    at: str | None = None


class Next(Wire):
    """What happens by itself if nobody answers."""

    what: str
    at: str | None = None


class Checkpoint(Wire):
    """As the people's door shows it."""

    task_id: str
    checkpoint_id: str
    agent: str
    skill: str
    requested_by: str
    prompt: str
    response_schema: JsonObject
    allowed_responders: list[str]
    needed: int
    votes: int
    asked_at: str
    deadline: str | None = None
    status: str = "open"
    approval: Approval | None = None
    kind: str = "prompt"
    dispatch: bool = False
    digest: str | None = None
    mode: str | None = None
    radius: str | None = None
    claim: Claim | None = None
    may_decide: bool | None = None
    why_not: str | None = None
    extended_by: str | None = None
    if_unanswered: Next | None = None
    closed_at: str | None = None
    decided_by: str | None = None
    outcome: str | None = None
    comment: str | None = None
    delivery: Delivery | None = None

    @property
    def names(self) -> dict[str, JsonValue]:
        return {"taskId": self.task_id, "checkpointId": self.checkpoint_id}

    def check_digest(self) -> None:
        """Raises `Failure` where the digest that is to be sent is not that of what is shown here."""
        approval = self.approval
        if approval is not None:
            shown, expected = approval.action, approval.digest
        elif self.digest is not None:
            shown, expected = {"prompt": self.prompt, "responseSchema": self.response_schema}, self.digest
        else:
            return
        if not _is_of(expected, shown):
            what = "the action" if approval is not None else "the question"
            raise Failure(f"The digest is not that of {what}: nothing was sent.")


class CheckpointPage(Wire):
    checkpoints: list[Checkpoint]
    cursor: str | None = None
    now: str


class Admitted(Wire):
    status: str


class Result(Wire):
    """Of one among several decisions: `status`, or why it was refused."""

    task_id: str
    checkpoint_id: str
    status: str | None = None
    error: dict[str, JsonValue] | None = None

    @property
    def comes_again(self) -> bool:
        """Nothing was decided, and trying again may help."""
        error = self.error or {}
        return error.get("code") == 503 and reason_in(error) != HALTED


class Results(Wire):
    results: list[Result]


class People:
    """What waits for a person, at the people's door."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def open_checkpoints(self) -> list[Checkpoint]:
        return list(self._listed("checkpoints"))

    def closed_checkpoints(self, most: int) -> list[Checkpoint]:
        """The newest first."""
        return list(islice(self._listed("history"), most))

    def _listed(self, path: str) -> Iterator[Checkpoint]:
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self._door.get(CheckpointPage, path, {} if cursor is None else {"cursor": cursor})
            yield from page.checkpoints
            cursor = page.cursor
            if cursor is None:
                break

    def find(self, reference: str) -> Checkpoint:
        (found,) = self.find_all([reference])
        return found

    def find_all(self, named: Sequence[str]) -> list[Checkpoint]:
        """Each by `TASK/CHECKPOINT`, or by a prefix of the id of exactly one open checkpoint; each once."""
        waiting = self.open_checkpoints() if any("/" not in reference for reference in named) else []
        found = (self._found(reference, waiting) for reference in named)
        return list({(one.task_id, one.checkpoint_id): one for one in found}.values())

    def _found(self, reference: str, waiting: Sequence[Checkpoint]) -> Checkpoint:
        task_id, slash, checkpoint_id = reference.partition("/")
        if slash:
            return self._door.get(Checkpoint, _path(task_id, checkpoint_id))
        matching = [c for c in waiting if c.checkpoint_id.startswith(reference)]
        if not matching:
            raise Failure(f"No open checkpoint begins with {reference}.")
        if len(matching) > 1:
            candidates = [f"  {c.checkpoint_id}  {c.prompt}" for c in matching]
            raise Failure(f"Several open checkpoints begin with {reference}:", details=candidates)
        return matching[0]

    def answer(self, checkpoint: Checkpoint, payload: JsonObject) -> str:
        """`accepted` or `counted`.

        The key is made of what is answered and how, so that the same answer, sent again because its reply
        was lost, is told what became of the first, also from another process.
        """
        members = json.dumps(payload, sort_keys=True)
        key = uuid.uuid5(uuid.NAMESPACE_URL, f"{checkpoint.task_id}/{checkpoint.checkpoint_id}/{members}")
        shown = "" if checkpoint.digest is None else f', "digest": {json.dumps(checkpoint.digest)}'
        headers = {"Idempotency-Key": str(key)}
        return self._tell(checkpoint, "answer", f'{{"payload": {members}{shown}}}', headers)

    def decide(self, checkpoint: Checkpoint, said: JsonObject) -> str:
        """`accepted` or `counted`. The same decision of the same person, sent again, is told the same."""
        return self._tell(checkpoint, "decide", json.dumps(said), {})

    def decide_all(self, items: Sequence[JsonObject]) -> list[Result]:
        """In their order. What could not be told of in time is asked again."""
        results: dict[int, Result] = {}
        left = list(range(len(items)))
        for _ in range(TRIES):
            content = json.dumps({"items": [items[number] for number in left]})
            told = self._door.post(Results, "decisions", content, lost=LOST).results
            if len(told) != len(left):
                raise Failure("The reply is not one of an Interlock deployment.")
            results |= dict(zip(left, told, strict=True))
            left = [number for number in left if results[number].comes_again]
            if not left:
                break
        return [results[number] for number in range(len(items))]

    def tell(self, checkpoint: Checkpoint, what: str, said: JsonObject, *, lost: str) -> Checkpoint:
        """What changes a checkpoint and does not close it. Said once: the second time may mean another."""
        path = f"{_path(checkpoint.task_id, checkpoint.checkpoint_id)}/{what}"
        return self._door.post(Checkpoint, path, json.dumps(said), lost=lost, tries=1)

    def claim(self, checkpoint: Checkpoint, *, lost: str) -> Checkpoint:
        return self.tell(checkpoint, "claim", {}, lost=lost)

    def release(self, checkpoint: Checkpoint, *, lost: str) -> Checkpoint:
        path = f"{_path(checkpoint.task_id, checkpoint.checkpoint_id)}/claim"
        return self._door.delete(Checkpoint, path, {}, lost=lost)

    def _tell(self, checkpoint: Checkpoint, what: str, content: str, headers: Mapping[str, str]) -> str:
        path = f"{_path(checkpoint.task_id, checkpoint.checkpoint_id)}/{what}"
        return self._door.post(Admitted, path, content, headers, lost=LOST).status


def references(ids: Sequence[str]) -> dict[str, str]:
    """For each id its shortest prefix that is no other's, at least four characters long."""
    ordered = sorted(set(ids))
    shortest = {}
    for position, one in enumerate(ordered):
        neighbours = ordered[max(position - 1, 0) : position] + ordered[position + 1 : position + 2]
        common = max((_common_length(one, other) for other in neighbours), default=0)
        shortest[one] = one[: max(common + 1, SHORTEST_REFERENCE)]
    return shortest


def _common_length(one: str, other: str) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


def _is_of(expected: str, shown: JsonObject) -> bool:
    try:
        return digest(shown) == expected
    except NotCanonical:
        return False


def _path(task_id: str, checkpoint_id: str) -> str:
    return f"tasks/{quote(task_id, safe='')}/checkpoints/{quote(checkpoint_id, safe='')}"
