"""The composition root: the engine over AWS, as the settings of this process say.

Each part is made once per process, when it is first asked for, so that a function pays only for what it uses.
"""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.engine.context import Engine, Limits
from interlock.engine.ports import Key
from interlock.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.applications import Starlette
    from starlette.types import ASGIApp
    from types_boto3_sqs import SQSClient

    from interlock.a2a.signing import Signer
    from interlock.adapters.dynamodb import DynamoTable
    from interlock.adapters.identities import TokenCredentials
    from interlock.adapters.peers import HttpPeers
    from interlock.adapters.renderers import ConfiguredRenderers
    from interlock.adapters.schema_worker import SchemaWorker
    from interlock.agents import Agent
    from interlock.engine.authenticate import TokenVerifier
    from interlock.engine.calls import Calls
    from interlock.engine.pulse import Beat
    from interlock.engine.push import Push, Sealer
    from interlock.engine.registry import Registry
    from interlock.engine.run_turn import Executor
    from interlock.oversight.principals import Principal

WRAP_UP_SECONDS = 10.0
"""Kept back from a worker's time, to record that the agent did not finish in it."""
REQUEST_SECONDS = 20.0
"""Kept back from the time of a delivery, for a request that was begun."""
STOPS_AT_ONCE = 16
"""By one worker; its client has connections for more."""
CANCELS_AT_ONCE = 32
"""Of what one task has delegated, and how long one call of that may take."""
CANCEL_SECONDS = 5.0
CHANNEL_READ_SECONDS = 0.8
"""For one answer of the store while a platform waits, and for the seal of a call where that is required:"""
CHANNEL_SEAL_SECONDS = 1.0
ANONYMOUS = "anonymous:local"


class NoAgent(Exception):
    """The setting names no agent. The text says why."""


class SweepIncomplete(Exception):
    """Some rows could not be handled; they are logged, and stay for the next pass."""


@cache
def settings() -> Settings:
    return Settings.load()


@cache
def agent() -> "Agent":
    """The agent that the setting names, and the canary of drills beside it.

    Raises `NoAgent`; what its own module raises passes through.
    """
    from interlock.agents import Agent, canary

    named = settings().agent
    module, _, attribute = named.partition(":")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise NoAgent(f"INTERLOCK_AGENT={named}: there is no module {error.name}") from error
    found = getattr(loaded, attribute, None)
    if not isinstance(found, Agent):
        raise NoAgent(f"INTERLOCK_AGENT={named}: {attribute} of {module} is not an interlock.Agent")
    # A copy: the module's own agent stays as it is.
    served = replace(found, skills=list(found.skills))
    served.include(canary.agent)
    return served


@cache
def guard() -> "SchemaWorker":
    """Its process is started by those who will need it."""
    from interlock.adapters.schema_worker import SchemaWorker

    return SchemaWorker(ahead=False)


@cache
def queues() -> "SQSClient":
    from interlock.adapters.sqs import sqs_client

    return sqs_client()


@cache
def engine() -> Engine:
    from interlock.adapters.clock import SystemClock
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
    from interlock.adapters.sqs import SqsWaker
    from interlock.engine.facts import WithoutFacts

    chosen, clock = settings(), SystemClock()
    table = DynamoTable(dynamodb_client(), chosen.table)
    return Engine(
        table=WithoutFacts(table) if chosen.audit == "off" else table,
        views=table,
        waker=SqsWaker(
            queues(),
            turns_queue_url=chosen.turns_queue,
            timers_queue_url=chosen.timers_queue,
            outbox_queue_url=chosen.outbox_queue,
            audit_queue_url=chosen.audit_queue,
            stops_queue_url=chosen.stops_queue,
            clock=clock,
        ),
        clock=clock,
        guard=guard(),
        notices=chosen.renderers is not None,
        limits=Limits(
            blocking=chosen.blocking_seconds,
            lease=chosen.lease_seconds,
            streams=chosen.streams,
            agent_hop=chosen.agent_hop_seconds,
            people_hop=chosen.people_hop_seconds,
            unanswered=chosen.unanswered,
        ),
    )


@cache
def credentials() -> "TokenCredentials":
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
    from interlock.adapters.identities import TokenCredentials

    return TokenCredentials(DynamoTable(dynamodb_client(), settings().identities_table))


@cache
def token_verifier() -> "TokenVerifier | None":
    """None unless all three OIDC settings are there. Raises `ValueError` if only some are."""
    chosen = settings()
    given = (chosen.oidc_issuer, chosen.oidc_audience, chosen.oidc_jwks_url)
    issuer, audience, jwks_url = given
    if issuer is None or audience is None or jwks_url is None:
        if any(given):
            raise ValueError("OIDC needs an issuer, an audience and a JWKS URL")
        return None
    from interlock.adapters.oidc import OidcVerifier

    return OidcVerifier(issuer, audience, jwks_url)


@cache
def anonymous() -> "Principal | None":
    from interlock.oversight.principals import Kind, Principal, Role

    tenant = settings().anonymous_tenant
    if tenant is None:
        return None
    return Principal(ANONYMOUS, tenant, Kind.SERVICE, frozenset({Role.CALLER, Role.APPROVER}))


def authenticate(authorization: str | None) -> "Principal":
    """Raises `Unauthenticated` or `Unavailable`."""
    from interlock.engine import authenticate as caller

    return caller.authenticate(
        authorization, credentials=credentials(), verifier=token_verifier(), anonymous=anonymous()
    )


@cache
def calls() -> "Calls | None":
    """None where there is no audit trail."""
    from interlock.engine.calls import Calls

    mode = settings().audit
    return None if mode == "off" else Calls(engine(), required=mode == "required")


@cache
def trail() -> "DynamoTable | None":
    """The audit trail's table, for whoever may read it. None where there is no trail."""
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client

    chosen = settings()
    if chosen.audit == "off":
        return None
    return DynamoTable(dynamodb_client(), chosen.table, chosen.audit_table)


@cache
def signer() -> "Signer | None":
    """Signs the agent card. None unless a key is set."""
    from interlock.adapters.signing import signer_of

    key = settings().signing_key
    return signer_of(key) if key is not None else None


@cache
def push() -> "Push | None":
    """None unless a key to seal configurations with is set."""
    chosen = settings()
    if chosen.seal_key is None:
        return None
    from interlock.adapters.sqs import SqsPark
    from interlock.adapters.webhooks import WebHooks
    from interlock.engine.push import Push

    return Push(
        engine=engine(),
        sealer=sealer(chosen.seal_key),
        receiver=WebHooks(local=chosen.local_webhooks),
        park=SqsPark(queues(), chosen.outbox_dead_letters),
    )


@cache
def peers() -> "HttpPeers":
    from interlock.adapters.peers import peers_of
    from interlock.oversight import approvals, hitl_prompt

    chosen = settings()
    return peers_of(chosen.peers, local=chosen.local_webhooks, extensions=(hitl_prompt.URI, approvals.URI))


@cache
def hasty_peers() -> "HttpPeers":
    """For cancels: who does not answer soon is asked again later."""
    from interlock.adapters.peers import peers_of

    chosen = settings()
    return peers_of(chosen.peers, local=chosen.local_webhooks, call_seconds=CANCEL_SECONDS)


@cache
def registry() -> "Registry":
    """Of the agents elsewhere."""
    from interlock.engine.registry import Registry
    from interlock.oversight.modes import Policy

    chosen = settings()
    policy = Policy(chosen.undeclared_mode, chosen.wide_radius, chosen.wide_mode)
    return Registry(engine(), policy, lambda: agent().known)


def refresh_agent(tenant: str, name: str) -> None:
    registry().refresh(peers(), tenant, name)


def sealer(key: str) -> "Sealer":
    from interlock.adapters.sealing import FileSealer, KmsSealer
    from interlock.adapters.signing import kms_client

    file = key.removeprefix("file:")
    return FileSealer(Path(file)) if file != key else KmsSealer(kms_client, key)


def agents_door(*, threads: bool = False) -> "Starlette":
    """`threads`: many requests come at once, as under uvicorn; on Lambda there is one at a time."""
    from starlette.concurrency import run_in_threadpool

    from interlock.a2a.app import create_app
    from interlock.a2a.operations import inline
    from interlock.a2a.published import PublishedCard
    from interlock.a2a.sse import Pace
    from interlock.doors.agents import OversightService, agent_card, extended_card

    guard().start()
    chosen = settings()
    card = agent_card(
        agent(),
        streaming=chosen.streaming,
        push_notifications=push() is not None,
        oidc_issuer=chosen.oidc_issuer,
        anonymous=chosen.anonymous_tenant is not None,
    )
    extended = PublishedCard(extended_card(agent(), card), v0_3=chosen.a2a_0_3, signer=signer())
    service = OversightService(
        engine(), agent(), authenticate, card, chosen.check_media_types, push(), extended, calls(), registry()
    )
    return create_app(
        service,
        card,
        run=run_in_threadpool if threads else inline,
        public_url=chosen.public_url,
        pace=Pace(longest=chosen.stream_seconds),
        v0_3=chosen.a2a_0_3,
        signer=signer(),
        agent_card=service.agent_card,
    )


def streaming_door() -> "ASGIApp":
    """The agents' door as uvicorn serves it under the Lambda Web Adapter."""
    from interlock.doors.web_adapter import behind_web_adapter

    return behind_web_adapter(agents_door())


def people_door() -> "FastAPI":
    guard().start()
    from interlock.doors.people import create_app

    return create_app(engine(), authenticate, calls(), registry(), trail())


def inbox_door(page: Path) -> "Starlette":
    """`page` is the folder that the page is built into."""
    from interlock.doors.inbox import SignIn, create_app

    chosen = settings()
    if chosen.oidc_issuer is None or chosen.oidc_client_id is None:
        return create_app(page)
    origins = tuple(chosen.oidc_origins.split())
    return create_app(page, SignIn(chosen.oidc_issuer, chosen.oidc_client_id, chosen.oidc_scope, origins))


def feed_door() -> "FastAPI":
    from interlock.doors.people import create_feed

    return create_feed(engine(), authenticate, calls())


@cache
def executor() -> "Executor":
    from interlock.agents.by_agent import ByAgent
    from interlock.agents.executor import PythonExecutor

    guard().start()
    here = PythonExecutor(agent(), renew_every=settings().lease_seconds / 3, peers=peers())
    return ByAgent(agent(), here, remote_executor)


def remote_executor() -> "Executor":
    from interlock.agents.watch import Watch
    from interlock.engine.remote import RemoteExecutor

    return RemoteExecutor(registry(), peers(), Watch(settings().lease_seconds / 3))


def run_turn(tenant: str, task_id: str, turn: int, remaining_seconds: float) -> None:
    from interlock.engine.run_turn import run_turn as run

    seconds = min(settings().turn_seconds, remaining_seconds - WRAP_UP_SECONDS)
    run(engine(), executor(), tenant, task_id, turn, max(seconds, 0.0))


def wake_waiting(tenant: str, task_id: str, turn: int) -> None:
    from interlock.engine.sweep import wake_waiting as wake

    wake(engine(), tenant, task_id, turn)


def wake_delivery(pk: str) -> None:
    """`pk` is the partition of a task that has an event to be delivered."""
    from interlock.engine.records import task_of

    engine().waker.wake_push(*task_of(pk))


def deliver(tenant: str, task_id: str, remaining_seconds: float) -> None:
    from interlock.engine.push import deliver as send

    configured = push()
    if configured is None:
        # Turned off: it rests, and the row that goes with it brings it back.
        return
    send(configured, tenant, task_id, max(remaining_seconds - REQUEST_SECONDS, 0.0))


def cancel_children(tenant: str, task_id: str) -> None:
    """What the task has delegated, and nobody looks after."""
    from concurrent.futures import ThreadPoolExecutor

    from interlock.adapters.sqs import SqsPark
    from interlock.engine.children import Children
    from interlock.engine.children import cancel_children as cancel

    parked = SqsPark(queues(), settings().outbox_dead_letters)
    with ThreadPoolExecutor(CANCELS_AT_ONCE) as pool:
        cancel(Children(engine(), hasty_peers(), parked, pool.map), tenant, task_id)


def deliver_notices(tenant: str, task_id: str) -> None:
    """To the ways to people that the deployment has; where that is turned off again, they rest."""
    from interlock.engine.notices import Telling
    from interlock.engine.notices import deliver_notices as tell

    if settings().renderers is not None:
        tell(Telling(engine(), renderers()), tenant, task_id)


@cache
def renderers() -> "ConfiguredRenderers":
    """Raises `ValueError` where none are set."""
    from interlock.adapters.renderers import Messages, renderers_of

    chosen = settings()
    if chosen.renderers is None:
        raise ValueError("there are no renderers")
    messages = Messages(engine().table, engine().clock, chosen.public_url)
    return renderers_of(chosen.renderers, messages, local=chosen.local_webhooks)


def channels_door() -> "Starlette":
    """Its store gives up sooner than that of other doors: a platform waits for three seconds."""
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
    from interlock.adapters.identities import TokenCredentials
    from interlock.adapters.outbound import Outbound
    from interlock.doors.channels import create_app
    from interlock.doors.channels.door import Door
    from interlock.engine.calls import Calls
    from interlock.engine.facts import WithoutFacts

    guard().start()
    chosen, client = settings(), dynamodb_client(read_seconds=CHANNEL_READ_SECONDS)
    table = DynamoTable(client, chosen.table)
    hasty = replace(engine(), table=WithoutFacts(table) if chosen.audit == "off" else table, views=table)
    noted = Calls(hasty, chosen.audit == "required", CHANNEL_SEAL_SECONDS) if chosen.audit != "off" else None
    identities = TokenCredentials(DynamoTable(client, chosen.identities_table))
    outbound = Outbound(local=chosen.local_webhooks)
    return create_app(Door(hasty, noted, channel_entry, identities.by_id, outbound))


def channel_entry(name: str) -> object:
    """Raises `Unavailable` where the document can not be read."""
    from interlock.a2a.errors import Unavailable
    from interlock.engine.notices import RenderFailed

    if settings().renderers is None:
        return None
    try:
        return renderers().entry(name)
    except RenderFailed as error:
        raise Unavailable from error


def seal(chain: str) -> None:
    from interlock.adapters.clock import SystemClock
    from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
    from interlock.adapters.signing import signer_of
    from interlock.engine.seal import Sealer
    from interlock.engine.seal import seal as into_chain

    chosen = settings()
    table = DynamoTable(dynamodb_client(), chosen.table, chosen.audit_table)
    signs = signer_of(chosen.audit_key) if chosen.audit_key is not None else None
    into_chain(Sealer(table, SystemClock(), signs), chain)


def wake_sealer(pk: str) -> None:
    """`pk` is the partition of a fact that is to be sealed."""
    from interlock.engine.facts import chain_of

    engine().waker.wake_seal(chain_of(pk))


def wake_sealers() -> float:
    """For chains that nobody woke for. Seconds that the oldest fact of all waits."""
    from interlock.engine.seal import wake_for_unsealed

    return wake_for_unsealed(engine())


def walk(scope: str, generation: int, number: int) -> None:
    """Stops what runs in one shard, for one halt."""
    from concurrent.futures import ThreadPoolExecutor

    from interlock.engine.halt import walk as stop_shard
    from interlock.oversight.halts import Scope

    with ThreadPoolExecutor(STOPS_AT_ONCE) as pool:
        stop_shard(engine(), Scope.parse(scope, ""), generation, number, pool.map)


def wake_walk(scope: str, generation: int) -> None:
    engine().waker.wake_walk(scope, generation)


def beat(pk: str, sk: str, raised: "set[Beat]") -> None:
    """Tells people who wait that what has this key changed; `raised` are those who were told already."""
    from interlock.engine.pulse import beats_of, raise_beat

    for found in beats_of(pk, sk):
        if found not in raised:
            raise_beat(engine().table, found)
            raised.add(found)


def handle_due(pk: str, sk: str) -> None:
    from interlock.engine.due import handle_due as handle

    handle(engine(), Key(pk, sk))


def sweep() -> None:
    """Raises `SweepIncomplete`, so that the function's errors show that something stays unhandled."""
    from interlock.engine.sweep import sweep as walk

    failures = walk(engine())
    if failures:
        raise SweepIncomplete(f"{failures} rows could not be handled")
