"""The agents' door: the A2A operations over the engine, for an authenticated caller."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from interlock.a2a.card import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentSkill,
    HTTPAuthSecurityScheme,
    OpenIdConnectSecurityScheme,
    ScopeList,
    SecurityRequirement,
    SecurityScheme,
    check_media_types,
)
from interlock.a2a.errors import (
    ExtendedAgentCardNotConfigured,
    PushNotificationNotSupported,
    UnsupportedOperation,
)
from interlock.a2a.models import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    Empty,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from interlock.a2a.published import PublishedCard
from interlock.a2a.service import CallContext, EventStream
from interlock.agents import Agent
from interlock.agents.agent import DeclaredSkill
from interlock.doors.registered import hinted, registered_card
from interlock.engine import push
from interlock.engine.authenticate import Authenticate
from interlock.engine.calls import Call, Calls
from interlock.engine.cancel import cancel_task
from interlock.engine.context import Directory, Engine
from interlock.engine.errors import store_errors
from interlock.engine.facts import traced
from interlock.engine.follow import send_streaming_message, subscribe_to_task
from interlock.engine.get import get_task, list_tasks
from interlock.engine.push import Push
from interlock.engine.registered import RegisteredAgent
from interlock.engine.registry import AgentNotFound, Registry
from interlock.engine.send import send_message
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.engine.visibility import check_tenant, not_found, visible_meta
from interlock.oversight import approvals, hitl_prompt, modes
from interlock.oversight.principals import Principal


@dataclass(frozen=True, slots=True)
class OversightService:
    """Implements `A2AService`. Every call is authenticated here, whatever stood before it."""

    engine: Engine
    directory: Directory
    identify: Authenticate
    card: AgentCard
    check_parts: bool = False
    """Refuse parts whose media type the card does not name."""
    push: Push | None = None
    """None where push notifications are off; then the card says so, and no operation on them gets here."""
    extended: PublishedCard | None = None
    """What authenticated callers get, where the card declares that there is one."""
    calls: Calls | None = None
    """None where there is no audit trail."""
    registry: Registry | None = None
    """Of the agents that have addresses of their own here, and run elsewhere."""

    @contextmanager
    def _call(
        self, context: CallContext, method: str, task_id: str | None = None, message: Message | None = None
    ) -> Iterator[tuple[Principal, Call]]:
        """Everything that is said of a call beside what it does: who makes it, and that it was made."""
        call = Call(method, task_id=task_id)
        if message is not None:
            call.carries(message)
        noted = self.calls.noted(call) if self.calls is not None else nullcontext()
        with traced(context.traceparent), noted, store_errors():
            call.caller = self.identify(context.credential)
            if self.calls is not None:
                self.calls.admit(call)
            yield call.caller, call

    def authenticate(self, context: CallContext) -> None:
        self.identify(context.credential)

    def agent_card(self, context: CallContext) -> AgentCard:
        """Of the registered agent that the address names."""
        with self._call(context, "GetAgentCard") as (caller, _):
            return registered_card(self._registered(context, caller), self.card)

    def _registered(self, context: CallContext, caller: Principal) -> RegisteredAgent:
        """Raises `AgentNotFound`, the same for an agent of another tenant."""
        if self.registry is None or context.agent is None:
            raise AgentNotFound
        return self.registry.get(caller.tenant, context.agent)

    def _within(self, context: CallContext, caller: Principal, task_id: str) -> None:
        """At an agent's own address there are its tasks only. Raises `AgentNotFound`, `TaskNotFound`."""
        if context.agent is not None:
            name = self._registered(context, caller).record.name
            if visible_meta(self.engine, caller, task_id).agent != name:
                raise not_found(task_id)

    def _addressed(
        self, context: CallContext, caller: Principal, request: SendMessageRequest
    ) -> tuple[Directory, SendMessageRequest]:
        """Who the message is for, and the request as it is kept."""
        if context.agent is None:
            if self.check_parts:
                check_media_types(self.card, request.message)
            return self.directory, request
        registered = self._registered(context, caller)
        if request.message.task_id is not None:
            self._within(context, caller, request.message.task_id)
        if self.check_parts:
            check_media_types(registered_card(registered, self.card), request.message)
        return registered, hinted(request)

    def send_message(self, context: CallContext, request: SendMessageRequest) -> SendMessageResponse:
        with self._call(context, "SendMessage", message=request.message) as (caller, call):
            directory, request = self._addressed(context, caller, request)
            response = send_message(
                self.engine,
                directory,
                caller,
                request,
                extensions=context.extensions,
                idempotency_key=context.idempotency_key,
                push=self._push(context),
            )
            if response.task is not None:
                call.task_id = response.task.id
            return response

    def send_streaming_message(self, context: CallContext, request: SendMessageRequest) -> EventStream:
        with self._call(context, "SendStreamingMessage", message=request.message) as (caller, _):
            directory, request = self._addressed(context, caller, request)
            return send_streaming_message(
                self.engine,
                directory,
                caller,
                request,
                extensions=context.extensions,
                idempotency_key=context.idempotency_key,
                push=self._push(context),
            )

    def subscribe_to_task(self, context: CallContext, request: SubscribeToTaskRequest) -> EventStream:
        with self._call(context, "SubscribeToTask", request.id) as (caller, _):
            self._within(context, caller, request.id)
            return subscribe_to_task(self.engine, caller, request, extensions=context.extensions)

    def create_push_config(
        self, context: CallContext, request: TaskPushNotificationConfig
    ) -> TaskPushNotificationConfig:
        with self._call(context, "CreateTaskPushNotificationConfig", request.task_id) as (caller, _):
            if request.task_id is not None:
                self._within(context, caller, request.task_id)
            return push.create(self._pushes(context), caller, request, extensions=context.extensions)

    def get_push_config(
        self, context: CallContext, request: GetTaskPushNotificationConfigRequest
    ) -> TaskPushNotificationConfig:
        with self._call(context, "GetTaskPushNotificationConfig", request.task_id) as (caller, _):
            self._within(context, caller, request.task_id)
            return push.get(self._pushes(context), caller, request)

    def list_push_configs(
        self, context: CallContext, request: ListTaskPushNotificationConfigsRequest
    ) -> ListTaskPushNotificationConfigsResponse:
        with self._call(context, "ListTaskPushNotificationConfigs", request.task_id) as (caller, _):
            self._within(context, caller, request.task_id)
            return push.list_configs(self._pushes(context), caller, request)

    def delete_push_config(
        self, context: CallContext, request: DeleteTaskPushNotificationConfigRequest
    ) -> Empty:
        with self._call(context, "DeleteTaskPushNotificationConfig", request.task_id) as (caller, _):
            self._within(context, caller, request.task_id)
            return push.delete(self._pushes(context), caller, request)

    def _push(self, context: CallContext) -> Push | None:
        return replace(self.push, version=context.version) if self.push is not None else None

    def _pushes(self, context: CallContext) -> Push:
        found = self._push(context)
        if found is None:
            raise PushNotificationNotSupported
        return found

    def get_task(self, context: CallContext, request: GetTaskRequest) -> Task:
        with self._call(context, "GetTask", request.id) as (caller, _):
            self._within(context, caller, request.id)
            return get_task(self.engine, caller, request, extensions=context.extensions)

    def list_tasks(self, context: CallContext, request: ListTasksRequest) -> ListTasksResponse:
        with self._call(context, "ListTasks") as (caller, _):
            agent = None if context.agent is None else self._registered(context, caller).record.name
            return list_tasks(self.engine, caller, request, extensions=context.extensions, agent=agent)

    def cancel_task(self, context: CallContext, request: CancelTaskRequest) -> Task:
        with self._call(context, "CancelTask", request.id) as (caller, _):
            if IDEMPOTENCY_METADATA not in (request.metadata or {}):
                # Else it may be a send of the caller's own that is canceled, by its key.
                self._within(context, caller, request.id)
            return cancel_task(self.engine, caller, request, extensions=context.extensions)

    def get_extended_agent_card(
        self, context: CallContext, request: GetExtendedAgentCardRequest
    ) -> AgentCard:
        with self._call(context, "GetExtendedAgentCard") as (caller, _):
            check_tenant(caller, request.tenant)
            if context.agent is not None:
                self._registered(context, caller)
                raise UnsupportedOperation
            if self.extended is None or context.address is None:
                raise ExtendedAgentCardNotConfigured
            return self.extended.at(context.address)


def agent_card(
    agent: Agent,
    *,
    streaming: bool = False,
    push_notifications: bool = False,
    oidc_issuer: str | None = None,
    anonymous: bool = False,
) -> AgentCard:
    """The public card of what `agent` declares. `streaming`: whether the transport can stream.

    `oidc_issuer`: whose tokens are accepted beside those of this deployment. `anonymous`: none is needed.
    """
    schemes = {"bearer": SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))}
    if oidc_issuer is not None:
        discovery = f"{oidc_issuer.rstrip('/')}/.well-known/openid-configuration"
        schemes["oidc"] = SecurityScheme(
            open_id_connect_security_scheme=OpenIdConnectSecurityScheme(open_id_connect_url=discovery)
        )
    return AgentCard(
        name=agent.name,
        description=agent.description,
        version=agent.version,
        capabilities=AgentCapabilities(
            streaming=streaming,
            push_notifications=push_notifications,
            extended_agent_card=True,
            extensions=[
                AgentExtension(
                    uri=hitl_prompt.URI,
                    description="Structured prompts for people on INPUT_REQUIRED",
                    required=False,
                    params={},
                ),
                AgentExtension(
                    uri=approvals.URI,
                    description="Approval of exact actions, by digest, on INPUT_REQUIRED",
                    required=False,
                    params={},
                ),
                AgentExtension(
                    uri=modes.URI,
                    description="How much human is in the loop, for each skill",
                    required=False,
                    params={"skills": {s.id: s.declared.to_wire() for s in agent.skills if s.listed}},
                ),
            ],
        ),
        default_input_modes=list(agent.input_modes),
        default_output_modes=list(agent.output_modes),
        skills=[_skill(skill) for skill in agent.skills if skill.listed],
        security_schemes=schemes,
        security_requirements=None
        if anonymous
        else [SecurityRequirement(schemes={name: ScopeList()}) for name in schemes],
    )


def extended_card(agent: Agent, public: AgentCard) -> AgentCard:
    """What `agent` declares, with the skills that its public card does not list."""
    return public.model_copy(update={"skills": [_skill(skill) for skill in agent.skills]})


def _skill(skill: DeclaredSkill) -> AgentSkill:
    return AgentSkill(
        id=skill.id,
        name=skill.name,
        description=skill.description,
        tags=list(skill.tags),
        examples=list(skill.examples) or None,
    )
