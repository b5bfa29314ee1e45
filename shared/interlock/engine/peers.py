"""What the engine needs to hand work to other agents over A2A. `adapters.peers` implements it."""

from dataclasses import dataclass, field
from typing import Protocol

from interlock.a2a.models import JsonObject, Message, Task


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where an agent is: its card is below `url`. `authorization` is a header's value, and never shown."""

    url: str
    tenant: str | None = None
    authorization: str | None = field(default=None, repr=False)


class PeerRefused(Exception):
    """A certain no: nothing runs at the peer because of this call. The text is bounded and fit to be shown.

    `code` is the error's code as JSON-RPC has it, whatever the binding, and `reason` the `ErrorInfo`'s
    (specification 5.4); both None where it was not the peer that said no in the protocol's terms.
    """

    def __init__(self, text: str, *, code: int | None = None, reason: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.reason = reason


class PeerUnreachable(Exception):
    """No answer that can be understood: whether it happened is unknown. The same call may be made again."""


class PeerCards(Protocol):
    """What registering agents needs. Each raises `PeerRefused` or `PeerUnreachable`."""

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        """As `Peers` has it."""

    def card(self, to: PeerAddress) -> JsonObject:
        """The agent card as it is, of an agent that can be called."""


class Peers(Protocol):
    """Operations of other agents. Each raises `PeerRefused` or `PeerUnreachable`, after tries of its own."""

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        """Of a configured name, or of a URL with the credential that is configured for it, if one is: as if
        there were no peers but those that serve the tenant."""

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        """SendMessage, answered as soon as the task is there. The same `key` makes it one send."""

    def get(self, to: PeerAddress, task_id: str) -> Task: ...

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        """ListTasks of one context, for a task whose id was never learned. Neither history nor artifacts."""

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task: ...
