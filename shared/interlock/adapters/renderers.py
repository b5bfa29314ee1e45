"""Ways to people as the deployment's document names them: signed web hooks, topics of Amazon SNS, channels.

A web hook is signed as Standard Webhooks 1.0.0 has it: `webhook-id`, `webhook-timestamp`, and
`webhook-signature` over both and the body. Its receiver refuses what is old, and knows a repeat by the id.
"""

import base64
import hmac
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Annotated, Any, Literal

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from interlock.adapters import peer_directory
from interlock.adapters.aws import create_client
from interlock.adapters.channels.discord import DiscordApi
from interlock.adapters.channels.entries import (
    ChannelEntry,
    DiscordEntry,
    LinearEntry,
    MailEntry,
    SlackEntry,
    Way,
)
from interlock.adapters.channels.linear import LinearApi
from interlock.adapters.channels.mail import MailSurface, ses_client
from interlock.adapters.channels.slack import SlackApi
from interlock.adapters.outbound import Forbidden, NoAnswer, Outbound
from interlock.engine.channels import ChannelRenderer, Surface
from interlock.engine.notices import Renderer, RenderFailed
from interlock.engine.ports import Clock, Table
from interlock.engine.tells import Tells

FRESH_SECONDS = 60.0
"""A document that is changed is used after this at the latest."""
HOOK_SECONDS = 10.0

_log = logging.getLogger(__name__)

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class WebHookEntry(Way):
    """`secret` is 24 to 64 bytes in base64, behind `whsec_`."""

    kind: Literal["webhook"]
    url: Annotated[str, Field(max_length=2048)]
    secret: Annotated[str, Field(pattern=r"^whsec_[A-Za-z0-9+/]{32,88}={0,2}$", repr=False)]


class TopicEntry(Way):
    kind: Literal["sns"]
    topic: Annotated[str, Field(pattern=r"^arn:\S+:sns:\S+$")]


AnyEntry = WebHookEntry | TopicEntry | ChannelEntry
Entry = Annotated[AnyEntry, Field(discriminator="kind")]


class Document(BaseModel):
    """Renderers by name, and who is told where: `surfaces` by the interface that the work came from,
    `default` for all others, `escalation` when nobody has answered. `url` is where people reach this
    deployment, for links."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    renderers: dict[Name, Entry]
    url: Annotated[str, Field(pattern=r"^https?://[!-~]+$", max_length=512)] | None = None
    surfaces: dict[str, tuple[Name, ...]] = {}
    default: tuple[Name, ...] = ()
    escalation: tuple[Name, ...] = ()

    def names(self, tells: Tells, interface: str | None) -> tuple[str, ...]:
        if tells is Tells.ESCALATED and self.escalation:
            return self.escalation
        return self.surfaces.get(interface or "", self.default)


def renderers_of(
    setting: str, messages: "Messages | None" = None, *, local: bool = False
) -> "ConfiguredRenderers":
    """`setting` is the id or ARN of a secret of AWS Secrets Manager, or `file:` and a path."""
    if setting.startswith("file:"):
        read = peer_directory.in_file(Path(setting.removeprefix("file:")))
    else:
        read = peer_directory.in_secret(peer_directory.secrets_client, setting)
    return ConfiguredRenderers(read, Outbound(local=local), cache(sns_client), messages, local=local)


def sns_client(endpoint_url: str | None = None) -> Any:
    """A client of Amazon SNS that gives up early."""
    config = Config(connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 2, "mode": "standard"})
    return create_client("sns", endpoint_url, config)


@dataclass(frozen=True, slots=True)
class Messages:
    """What channels need beside the document: where it is kept which message is whose, and where links lead,
    unless the document says so."""

    table: Table
    clock: Clock
    url: str | None = None


class ConfiguredRenderers:
    """Implements `Renderers`. `local`: channels may be stand-ins on this machine."""

    def __init__(
        self,
        read: Callable[[], bytes],
        outbound: Outbound,
        sns: Callable[[], Any],
        messages: Messages | None = None,
        *,
        ses: Callable[[], Any] | None = None,
        local: bool = False,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._read, self._outbound, self._sns, self._now = read, outbound, sns, now
        self._messages, self._ses, self._local = messages, ses or cache(ses_client), local
        self._known: tuple[float, Document] | None = None
        self._reading = Lock()

    def chosen(self, tells: Tells, interface: str | None, tenant: str) -> Mapping[str, Renderer]:
        document = self._document()
        wanted = document.names(tells, interface)
        chosen: dict[str, Renderer] = {}
        for name in wanted:
            if name in document.renderers and document.renderers[name].serves(tenant):
                chosen |= self._named(name, document)
        return chosen

    def entry(self, name: str) -> AnyEntry | None:
        """Raises `RenderFailed`."""
        return self._document().renderers.get(name)

    def _named(self, name: str, document: Document) -> Mapping[str, Renderer]:
        """One, but of mail one for each person: so that each is told once, whoever else was not yet."""
        entry = document.renderers[name]
        if isinstance(entry, WebHookEntry):
            return {name: WebHookRenderer(self._outbound, entry.url, entry.secret)}
        if isinstance(entry, TopicEntry):
            return {name: TopicRenderer(self._sns, entry.topic)}
        if self._messages is None:
            raise RenderFailed("there is nowhere to keep which message is whose")
        table, clock = self._messages.table, self._messages.clock
        base, whole = document.url or self._messages.url, entry.show == "action"
        surfaces = self._surfaces(name, entry, self._messages, base)
        return {
            name: ChannelRenderer(table, clock, name, surface, base, whole)
            for name, surface in surfaces.items()
        }

    def _surfaces(
        self, name: str, entry: ChannelEntry, messages: Messages, base: str | None
    ) -> dict[str, Surface]:
        match entry:
            case SlackEntry():
                return {name: SlackApi(self._outbound, entry)}
            case DiscordEntry():
                return {name: DiscordApi(self._outbound, entry)}
            case MailEntry():
                return {
                    f"{name}:{who}": MailSurface(
                        self._ses,
                        messages.table,
                        messages.clock,
                        name=name,
                        sender=entry.sender,
                        address=address,
                        who=who,
                        base=base,
                    )
                    for address, who in entry.people.items()
                }
            case LinearEntry():
                return {name: LinearApi(self._outbound, entry)}

    def _document(self) -> Document:
        with self._reading:
            if self._known is not None and self._now() - self._known[0] < FRESH_SECONDS:
                return self._known[1]
            try:
                document = Document.model_validate_json(self._read())
            except ValidationError as error:
                # Without its input, which holds secrets.
                found = error.errors(include_url=False, include_context=False, include_input=False)[:5]
                _log.error("the renderers are not valid", extra={"faults": found})
                raise RenderFailed("the renderers are not valid") from None
            except Exception as error:
                _log.exception("the renderers can not be read")
                raise RenderFailed("the renderers can not be read") from error
            if not self._local and any(getattr(each, "api", None) for each in document.renderers.values()):
                raise RenderFailed("the renderers are not valid: a stand-in is for local use")
            self._known = self._now(), document
            return document


class WebHookRenderer:
    """Implements `Renderer`."""

    def __init__(
        self, outbound: Outbound, url: str, secret: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._outbound, self._url, self._secret, self._clock = outbound, url, secret, clock

    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        at = str(int(self._clock()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": notice_id,
            "webhook-timestamp": at,
            "webhook-signature": signature(self._secret, notice_id, at, body),
        }
        try:
            answer = self._outbound.request("POST", self._url, headers, body, seconds=HOOK_SECONDS)
        except (Forbidden, NoAnswer) as error:
            raise RenderFailed(str(error)) from error
        if not 200 <= answer.status < 300:
            raise RenderFailed(f"the answer was {answer.status}")


def signature(secret: str, message_id: str, at: str, body: bytes) -> str:
    """Standard Webhooks 1.0.0, "Signature scheme", symmetric."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join((message_id.encode(), at.encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, sha256).digest()).decode()


class TopicRenderer:
    """Implements `Renderer`. Subscribers may filter by the attributes `tells`, `tenant` and `agent`."""

    def __init__(self, sns: Callable[[], Any], topic: str) -> None:
        self._sns, self._topic = sns, topic

    def render(self, notice_id: str, document: Mapping[str, Any]) -> None:
        attributes: Any = {
            name: {"DataType": "String", "StringValue": str(document[name])}
            for name in ("tells", "tenant", "agent")
        }
        try:
            self._sns().publish(
                TopicArn=self._topic,
                Message=json.dumps({**document, "id": notice_id}, ensure_ascii=False),
                MessageAttributes=attributes,
            )
        except (BotoCoreError, ClientError, ResponseParserError) as error:
            raise RenderFailed(f"not published: {type(error).__name__}") from error
