"""Approvals bound to an exact action (approval/v1): request, decision, the gate, and the count.

A decision names the action by its digest: SHA-256 over RFC 8785 canonical JSON. Whoever was shown another
action has decided on another digest, and that decision counts for nothing here.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.oversight.canonical_json import canonical, digest

URI = "https://a2a-rust.com/extensions/approval/v1"
KEY = "a2a-rust.com/approval"
"""Key of the request, and of the decision, in a message's metadata."""
QUORUM_KEY = "a2a-rust.com/approval-quorum"
"""Key of the progress on the status message: `{approvedBy, required}`."""

APPROVE, DENY = "approve", "deny"
CHANGES = "changes"
"""Not a decision on the wire: an approver sends the action back, with an edited one or without."""
MAX_SUMMARY = 4096
MAX_COMMENT = 4096
MAX_REQUEST_ID = 256
"""Characters."""
MAX_ACTION = 64 * 1024
"""Bytes of its canonical form: as much as a prompt's schema may have."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

RESPONSE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"enum": [APPROVE, DENY]},
        "comment": {"type": "string", "maxLength": MAX_COMMENT},
    },
    "required": ["decision"],
    "additionalProperties": False,
}
"""Of the hitl-prompt/v1 envelope that goes with a request, for clients that know only that one."""


class MalformedDecision(ValueError):
    """The key is there, and what it holds is no decision: an error, never an absence. Fit to be shown."""


@dataclass(frozen=True, slots=True)
class Request:
    """`requested_by` is whoever's words the run acts on, as authenticated; nobody else sets it."""

    request_id: str
    summary: str
    digest: str
    requested_by: str | None = None

    def to_wire(self) -> dict[str, Any]:
        wire = {"requestId": self.request_id, "summary": self.summary, "digest": self.digest}
        if self.requested_by is not None:
            wire["requestedBy"] = self.requested_by
        return wire


@dataclass(frozen=True, slots=True)
class Decision:
    request_id: str
    decision: str
    digest: str
    comment: str | None = None

    def to_wire(self) -> dict[str, Any]:
        wire = {"requestId": self.request_id, "decision": self.decision, "digest": self.digest}
        if self.comment is not None:
            wire["comment"] = self.comment
        return wire


def parse_decision(metadata: Mapping[str, Any] | None) -> Decision | None:
    """The decision that a message's metadata carries, if any. Raises `MalformedDecision`.

    Unknown members are ignored.
    """
    if metadata is None or KEY not in metadata:
        return None
    wire = metadata[KEY]
    if type(wire) is not dict:
        raise MalformedDecision(f"{KEY} must be an object")
    request_id, decision, digest = (wire.get(name) for name in ("requestId", "decision", "digest"))
    comment = wire.get("comment")
    if type(request_id) is not str or not 0 < len(request_id) <= MAX_REQUEST_ID:
        raise MalformedDecision(f"{KEY}.requestId must be the id of the request")
    if decision not in (APPROVE, DENY):
        raise MalformedDecision(f'{KEY}.decision must be "{APPROVE}" or "{DENY}"')
    if type(digest) is not str or not digest:
        raise MalformedDecision(f"{KEY}.digest must be the digest of the action that was shown")
    if comment is not None and (type(comment) is not str or len(comment) > MAX_COMMENT):
        raise MalformedDecision(f"{KEY}.comment must be text of at most {MAX_COMMENT} characters")
    return Decision(request_id, decision, digest, comment)


def digest_of(action: Mapping[str, Any]) -> str:
    """What an action is named by. Raises `ValueError` if it has no canonical form, or is too large."""
    if len(canonical(action)) > MAX_ACTION:
        raise ValueError(f"an action is at most {MAX_ACTION} bytes")
    return digest(action)


def is_digest(value: Any) -> bool:
    return type(value) is str and _DIGEST.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class Gate:
    """Who may approve what a skill asks for, and how many of them it takes.

    `approvers` are identities; None is every approver of the tenant. Whoever's words the run acts on never
    counts, unless `self_approval` is allowed. Raises `ValueError` for a gate that nobody could pass.
    """

    approvers: frozenset[str] | None = None
    quorum: int = 1
    self_approval: bool = False

    def __post_init__(self) -> None:
        if type(self.quorum) is not int or self.quorum < 1:
            raise ValueError("a quorum is at least 1")
        if self.approvers is not None and self.quorum > len(self.approvers):
            raise ValueError(f"a quorum of {self.quorum} of {len(self.approvers)} approvers")

    def check(self, *, isolated: bool) -> None:
        """`isolated`: only its owner sees a task. Raises `ValueError` where it takes a second caller."""
        if isolated and not self.self_approval:
            raise ValueError("tasks isolated by caller have nobody who could approve; allow self approval")
        if isolated and self.quorum > 1:
            raise ValueError("tasks isolated by caller have one caller, not a quorum")

    def at_least(self, quorum: int) -> "Gate":
        """With the quorum that a request asks for beside that of the gate: the larger counts."""
        if type(quorum) is not int or quorum < 1:
            raise ValueError("a quorum is at least 1")
        return replace(self, quorum=max(self.quorum, quorum))

    def may_decide(
        self, identity: str, *, is_person: bool, is_approver: bool, requesters: Collection[str]
    ) -> bool:
        """`is_approver`: whether the tenant knows the caller as one. Only people decide."""
        if not is_person or (identity in requesters and not self.self_approval):
            return False
        if self.approvers is not None:
            return identity in self.approvers
        return is_approver or (self.self_approval and identity in requesters)


@dataclass(frozen=True, slots=True)
class Changes:
    """An approver sends the action back. `action` is the edited one: the agent asks anew, by its digest."""

    action: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What an approval request asks, and of whom: kept with its checkpoint, never changed."""

    action: dict[str, Any]
    summary: str
    digest: str
    gate: Gate
    requesters: frozenset[str]

    @property
    def excluded(self) -> frozenset[str]:
        """Who has no part in the decision, nor in who decides in whose place."""
        return frozenset() if self.gate.self_approval else self.requesters

    @classmethod
    def from_json(cls, text: str) -> "Asked":
        stored = json.loads(text)
        gate, approvers = stored["gate"], stored["gate"]["approvers"]
        return cls(
            action=stored["action"],
            summary=stored["summary"],
            digest=stored["digest"],
            gate=Gate(
                frozenset(approvers) if approvers is not None else None,
                gate["quorum"],
                gate["selfApproval"],
            ),
            requesters=frozenset(stored["requesters"]),
        )

    def to_json(self) -> str:
        approvers = self.gate.approvers
        gate = {
            "approvers": sorted(approvers) if approvers is not None else None,
            "quorum": self.gate.quorum,
            "selfApproval": self.gate.self_approval,
        }
        members = {
            "action": self.action,
            "summary": self.summary,
            "digest": self.digest,
            "gate": gate,
            "requesters": sorted(self.requesters),
        }
        return json.dumps(members, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Vote:
    """`digest` is that of the action that was shown, `edited` that of what was wanted instead.

    `instead_of` is who is away, and in whose place it was cast. A vote is the same with and without.
    """

    decision: str
    digest: str
    edited: str | None = None
    instead_of: str | None = field(default=None, compare=False)


def approved_by(votes: Mapping[str, Vote], digest: str) -> list[str]:
    """Who has approved exactly this, each person once."""
    return sorted(who for who, vote in votes.items() if vote == Vote(APPROVE, digest))


def requesters(owner: str, last_author: str | None, others: Iterable[str] = ()) -> frozenset[str]:
    """Who may not approve: the task's creator, the author of the last message that was not itself a decision,
    and others: whoever edited the action, and who may not approve for the task that delegated this one."""
    return frozenset({owner, *([last_author] if last_author else []), *others})
