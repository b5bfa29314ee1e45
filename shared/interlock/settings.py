"""What a deployment sets: the environment variables, as one model. `template.yaml` sets the same names."""

import os
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from interlock.oversight.modes import Mode, Radius

PREFIX = "INTERLOCK_"
_ORIGIN = r"https?://[A-Za-z0-9.:-]+"


class Settings(BaseModel):
    """Each field is read from the variable of its name in capitals, behind `INTERLOCK_`. Empty is unset.

    Times are seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str = ""
    """The name of the core table: tasks, checkpoints, halts."""
    identities_table: str = ""
    """The name of the table of who may call."""
    turns_queue: str = ""
    """The URL of the queue that wakes for turns."""
    timers_queue: str = ""
    """The URL of the queue that wakes for what is due."""
    outbox_queue: str = ""
    """The URL of the queue that wakes for what goes out: web hooks, notices, cards, cancels."""
    outbox_dead_letters: str = ""
    """The URL of the queue of deliveries that were given up."""
    audit_queue: str = ""
    """The URL of the queue that wakes for facts to be sealed."""
    stops_queue: str = ""
    """The URL of the queue that wakes for the walk of a halt."""
    audit_table: str = ""
    """The name of the table of the audit trail."""
    audit: Literal["off", "default", "required"] = "default"
    """Whether there is an audit trail; `required` refuses calls that can not be sealed into it."""
    audit_key: str | None = None
    """Signs the checkpoints of the audit trail, named as `signing_key` is. Without it there are none."""
    agent: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] = "interlock.agents.demo:agent"
    """`module:attribute` of the `Agent` that this deployment serves."""
    public_url: str | None = None
    """Where callers reach the agents' door, for the card; else the address they called."""
    anonymous_tenant: str | None = None
    """For local use only: requests without a credential act as this tenant's caller and approver."""
    oidc_issuer: str | None = None
    """The `iss` of accepted JWTs. Without it there are none, and only bearer tokens are accepted."""
    oidc_audience: str | None = None
    """The `aud` of accepted JWTs."""
    oidc_jwks_url: str | None = None
    """Where the issuer publishes its keys."""
    oidc_client_id: str | None = None
    """Of the page: people sign in at the issuer. Without it they do with a token of this deployment."""
    oidc_scope: str = "openid"
    """What the page asks for, so that it gets a token for `oidc_audience`. Separated by spaces."""
    oidc_origins: Annotated[str, Field(pattern=rf"^({_ORIGIN}( {_ORIGIN})*)?$")] = ""
    """What the page calls to sign in beside the issuer's own origin, separated by spaces."""
    blocking_seconds: Annotated[float, Field(gt=0)] = 25.0
    """How long a blocking send waits before it is answered with the task as it is."""
    turn_seconds: Annotated[float, Field(gt=0)] = 840.0
    """The longest that a turn may take. The function's own limit holds as well."""
    lease_seconds: Annotated[float, Field(gt=0)] = 60.0
    """After how long without a sign of life a worker is given up for lost."""
    check_media_types: bool = False
    """Whether a message with a part of a media type that the card does not name is refused."""
    a2a_0_3: bool = False
    """Whether clients of A2A 0.3 are served too, over JSON-RPC; the card then has their members as well."""
    signing_key: str | None = None
    """Signs the agent card, where its address is known: the id or ARN of an AWS KMS key, ECC_NIST_P256 for
    SIGN_VERIFY, or `file:` and the path of a private P-256 key in PEM."""
    seal_key: str | None = None
    """Encrypts the configurations of push notifications, which are off without it: the id or ARN of a
    symmetric AWS KMS key, or `file:` and the path of a file with 32 bytes."""
    peers: str | None = None
    """The agents that work may be handed to, and the credentials for them: the id or ARN of a secret in AWS
    Secrets Manager, or `file:` and the path of a file. A JSON object, by name:
    `{"url": ..., "tenant"?: ..., "authorization"?: ...}`. Without it there are none but by their URLs."""
    undeclared_mode: Mode = Mode.GATED
    """Of a skill of a registered agent whose card declares none (hitl-mode-v1)."""
    wide_radius: Radius | None = None
    """A skill of a registered agent that can touch at least this (blast-v1) is raised to `wide_mode`."""
    wide_mode: Mode = Mode.GATED
    """What such a skill is raised to."""
    renderers: str | None = None
    """The ways to people, and who is told where: the id or ARN of a secret in AWS Secrets Manager, or `file:`
    and the path of a file. A JSON object, see docs/fleet.md. Without it nobody is told: people look at the
    inbox."""
    agent_hop_seconds: Annotated[float, Field(gt=0)] = 300.0
    """How long each agent that dispatched the work has until a question is passed on."""
    people_hop_seconds: Annotated[float, Field(gt=0)] = 1800.0
    """How long people have until it is passed on from them."""
    unanswered: Literal["escalate", "reject"] = "escalate"
    """What becomes of a question that nobody has answered by then."""
    local_webhooks: bool = False
    """For local use only: web hooks and other agents may be plain HTTP, at private addresses too."""
    streaming: bool = False
    """Whether the transport streams: uvicorn does, a buffered Lambda integration does not."""
    stream_seconds: Annotated[float, Field(gt=0)] = 840.0
    """After how long an open stream is ended; its client comes again."""
    streams: Annotated[int, Field(ge=1, le=1000)] = 100
    """How many a tenant may have open at once."""

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Raises `pydantic.ValidationError` for a value that is not of its form."""
        variables = os.environ if environment is None else environment
        given = {
            name.removeprefix(PREFIX).lower(): value
            for name, value in variables.items()
            if name.startswith(PREFIX) and value and name.removeprefix(PREFIX).lower() in cls.model_fields
        }
        return cls.model_validate(given)
