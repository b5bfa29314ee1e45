"""What the deployment's document says of a channel: its address, its secrets, and who is who there.

Two secrets of a kind may hold at once, so that one is replaced without a moment in which neither does.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Identity = Annotated[str, Field(pattern=r"^(bearer|jwt):[!-~]{1,255}$")]
_Secret = Annotated[str, Field(min_length=16, max_length=512, pattern=r"^[!-~]+$")]
Secret = Annotated[_Secret, Field(repr=False)]
Secrets = Annotated[tuple[_Secret, ...], Field(min_length=1, max_length=2, repr=False)]
PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Mailbox = Annotated[str, Field(pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,255}$")]
LocalUrl = Annotated[str, Field(max_length=256, pattern=r"^http://127\.0\.0\.1:\d+(/[A-Za-z0-9._-]+)*$")]
"""Of a stand-in on a laptop: nothing else takes a channel's credentials."""


class Way(BaseModel):
    """To people. `for_tenants`: whose tasks are told of there; without it all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    for_tenants: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    def serves(self, tenant: str) -> bool:
        return self.for_tenants is None or tenant in self.for_tenants


class Channel(Way):
    """`people` says whose identity here an account there is. `show`: only the summary of what leave is asked
    for, or the action itself too."""

    show: Literal["summary", "action"] = "summary"
    api: LocalUrl | None = None


class SlackEntry(Channel):
    """`channels`: the first is told, unless the work came from another one of them."""

    kind: Literal["slack"]
    app: Id
    team: Id
    channels: Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]
    token: Secret
    signing_secrets: Secrets
    people: dict[Id, Identity]


class DiscordEntry(Channel):
    kind: Literal["discord"]
    application: Id
    guild: Id
    channels: Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]
    token: Secret
    public_keys: Annotated[tuple[PublicKey, ...], Field(min_length=1, max_length=2)]
    people: dict[Id, Identity]


class LinearEntry(Channel):
    """`issues`: the first is commented on, unless the work came from another one of them."""

    kind: Literal["linear"]
    organization: Id
    issues: Annotated[tuple[Id, ...], Field(min_length=1, max_length=100)]
    token: Secret
    signing_secrets: Secrets
    people: dict[Id, Identity]


class MailEntry(Channel):
    """Each of `people` gets a mail of their own."""

    kind: Literal["mail"]
    sender: Mailbox
    people: Annotated[dict[Mailbox, Identity], Field(min_length=1, max_length=50)]

    @field_validator("people")
    @classmethod
    def _one_each(cls, people: dict[str, str]) -> dict[str, str]:
        if len(set(people.values())) < len(people):
            raise ValueError("an identity has one address")
        return people


ChannelEntry = SlackEntry | DiscordEntry | LinearEntry | MailEntry
