"""The agent card (A2A 1.0.1, sections 4.4, 4.5 and 8), and what it says about the parts of a message.

Nothing empty is ever published: a signature drops empty values that are required, or keeps them, by whom one
asks (section 8.4.1), so the models refuse them.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from interlock.a2a.errors import ContentTypeNotSupported, FieldViolation
from interlock.a2a.models import JsonObject, Message, Wire

PROTOCOL_VERSION = "1.0"
PROTOCOL_VERSION_0_3 = "0.3"

Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1)]
ExtensionUri = Annotated[str, Field(pattern=r"^[!-+\--~]+$")]
"""Visible ASCII without a comma: it travels in a list in a header."""
Scopes = Annotated[dict[Text, Text], Field(min_length=1)]


class AgentInterface(Wire):
    url: Text
    protocol_binding: Text
    protocol_version: Text
    tenant: Text | None = None


class AgentProvider(Wire):
    url: Text
    organization: Text


class AgentExtension(Wire):
    uri: ExtensionUri
    description: Text | None = None
    required: bool | None = None
    params: JsonObject | None = None


class AgentCapabilities(Wire):
    streaming: bool | None = None
    push_notifications: bool | None = None
    extended_agent_card: bool | None = None
    extensions: Annotated[list[AgentExtension], Field(min_length=1)] | None = None


class ScopeList(Wire):
    """`StringList` in the protocol."""

    scopes: Annotated[Texts | None, Field(alias="list")] = None


class SecurityRequirement(Wire):
    """All of the named schemes, each with the scopes it needs."""

    schemes: Annotated[dict[Text, ScopeList], Field(min_length=1)]


SecurityRequirements = Annotated[list[SecurityRequirement], Field(min_length=1)]
"""Any one of them suffices."""


class AgentSkill(Wire):
    id: Text
    name: Text
    description: Text
    tags: Texts
    examples: Texts | None = None
    input_modes: Texts | None = None
    output_modes: Texts | None = None
    security_requirements: SecurityRequirements | None = None


class OneOf(Wire):
    """A protobuf oneof: exactly one member is set."""

    @model_validator(mode="after")
    def _one_member(self) -> Self:
        if sum(getattr(self, name) is not None for name in type(self).model_fields) != 1:
            raise ValueError("exactly one member is required")
        return self


class APIKeySecurityScheme(Wire):
    location: Text
    name: Text
    description: Text | None = None


class HTTPAuthSecurityScheme(Wire):
    scheme: Text
    bearer_format: Text | None = None
    description: Text | None = None


class AuthorizationCodeOAuthFlow(Wire):
    authorization_url: Text
    token_url: Text
    scopes: Scopes
    refresh_url: Text | None = None
    pkce_required: bool | None = None


class ClientCredentialsOAuthFlow(Wire):
    token_url: Text
    scopes: Scopes
    refresh_url: Text | None = None


class DeviceCodeOAuthFlow(Wire):
    device_authorization_url: Text
    token_url: Text
    scopes: Scopes
    refresh_url: Text | None = None


class OAuthFlows(OneOf):
    """Without the implicit and password flows, which the protocol deprecates."""

    authorization_code: AuthorizationCodeOAuthFlow | None = None
    client_credentials: ClientCredentialsOAuthFlow | None = None
    device_code: DeviceCodeOAuthFlow | None = None


class OAuth2SecurityScheme(Wire):
    flows: OAuthFlows
    oauth2_metadata_url: Text | None = None
    description: Text | None = None


class OpenIdConnectSecurityScheme(Wire):
    open_id_connect_url: Text
    description: Text | None = None


class MutualTlsSecurityScheme(Wire):
    description: Text | None = None


class SecurityScheme(OneOf):
    api_key_security_scheme: APIKeySecurityScheme | None = None
    http_auth_security_scheme: HTTPAuthSecurityScheme | None = None
    oauth2_security_scheme: OAuth2SecurityScheme | None = None
    open_id_connect_security_scheme: OpenIdConnectSecurityScheme | None = None
    mtls_security_scheme: MutualTlsSecurityScheme | None = None


class AgentCardSignature(Wire):
    protected: Text
    signature: Text
    header: JsonObject | None = None


class AgentCard(Wire):
    """What an agent says of itself. The interfaces are those of the address it is served from."""

    name: Text
    description: Text
    version: Text
    capabilities: AgentCapabilities
    default_input_modes: Texts
    default_output_modes: Texts
    skills: Annotated[list[AgentSkill], Field(min_length=1)]
    supported_interfaces: Annotated[list[AgentInterface], Field(min_length=1)] | None = None
    provider: AgentProvider | None = None
    documentation_url: Text | None = None
    icon_url: Text | None = None
    security_schemes: Annotated[dict[Text, SecurityScheme], Field(min_length=1)] | None = None
    security_requirements: SecurityRequirements | None = None
    signatures: Annotated[list[AgentCardSignature], Field(min_length=1)] | None = None

    def served_at(self, url: str, *, v0_3: bool = False) -> Self:
        """The card with both bindings at `url`, JSON-RPC preferred; `v0_3` adds JSON-RPC of A2A 0.3."""
        served = [("JSONRPC", PROTOCOL_VERSION), ("HTTP+JSON", PROTOCOL_VERSION)]
        if v0_3:
            served.append(("JSONRPC", PROTOCOL_VERSION_0_3))
        interfaces = [
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding, version in served
        ]
        return self.model_copy(update={"supported_interfaces": interfaces})


def check_media_types(card: AgentCard, message: Message) -> None:
    """Raises `ContentTypeNotSupported` for a part whose declared media type no skill of the card takes.

    What counts are the card's default input modes and those of all skills, compared without parameters; the
    card may say `*/*` or `text/*`. A part that declares no media type is not checked.
    """
    modes = {
        essence(mode)
        for modes in (card.default_input_modes, *(skill.input_modes or () for skill in card.skills))
        for mode in modes
    }
    violations = [
        FieldViolation(f"message.parts[{index}].mediaType", "is not an input mode of the agent card")
        for index, part in enumerate(message.parts)
        if part.media_type is not None and modes.isdisjoint(_ranges(essence(part.media_type)))
    ]
    if violations:
        raise ContentTypeNotSupported(violations=violations)


def essence(media_type: str) -> str:
    """Type and subtype, without parameters, in lower case (RFC 9110, section 8.3.1)."""
    return media_type.partition(";")[0].strip().lower()


def _ranges(media_type: str) -> tuple[str, str, str]:
    """What a list of media types may say to include this one."""
    return media_type, media_type.partition("/")[0] + "/*", "*/*"
