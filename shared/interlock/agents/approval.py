"""A decision, as the agent's code sees it."""

from collections.abc import Mapping
from typing import Any

from interlock.a2a.models import JsonObject
from interlock.engine.run_turn import AdmittedApproval
from interlock.oversight.approvals import APPROVE, CHANGES
from interlock.oversight.canonical_json import NotCanonical, digest


class ActionChanged(Exception):
    """The action is not the one that was approved."""


class ApprovalUsed(Exception):
    """The approval was consumed before, or is none: the request was denied, or sent back."""


class Approval:
    """A decision that was admitted: by the gate, on the digest of the action that was shown."""

    def __init__(self, admitted: AdmittedApproval) -> None:
        self._admitted = admitted
        self._used = False

    @property
    def approved(self) -> bool:
        return self._admitted.decision == APPROVE

    @property
    def changes_requested(self) -> bool:
        """Sent back. `edited`, if it is there, is another action: ask for it anew."""
        return self._admitted.decision == CHANGES

    @property
    def action(self) -> JsonObject:
        """What was decided on."""
        return self._admitted.action

    @property
    def edited(self) -> JsonObject | None:
        return self._admitted.edited

    @property
    def comment(self) -> str | None:
        return self._admitted.comment

    @property
    def approvers(self) -> tuple[str, ...]:
        """The people whose approvals counted."""
        return self._admitted.approvers

    @property
    def decided_by(self) -> str:
        """Whose vote settled it."""
        return self._admitted.decided_by

    @property
    def instead_of(self) -> Mapping[str, str]:
        """Of those who have decided in the place of somebody who is away: who to in whose place."""
        return self._admitted.instead_of

    def consume(self, action: Mapping[str, Any]) -> None:
        """Call right before doing `action`. Raises `ActionChanged`, or `ApprovalUsed` the second time."""
        if self._used or not self.approved:
            raise ApprovalUsed("there is no unused approval")
        if not self._approves(action):
            raise ActionChanged("the action is not the one that was approved")
        self._used = True

    def _approves(self, action: Mapping[str, Any]) -> bool:
        try:
            return digest(dict(action)) == self._admitted.digest
        except NotCanonical:
            return False
