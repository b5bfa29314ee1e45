"""Both servers with in-memory stores and the same agent: it completes, asks, or says many things."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp
from tests.performance import reference_server
from tests.performance.reference_server import MANY

from interlock.a2a.app import create_app
from interlock.a2a.operations import inline
from interlock.a2a.sse import Pace
from interlock.adapters.clock import SystemClock
from interlock.adapters.deployment import Unheard
from interlock.adapters.identities import IdentityStore, TokenCredentials
from interlock.adapters.memory import MemoryTable
from interlock.agents import Agent, Turn
from interlock.agents.executor import PythonExecutor
from interlock.doors.agents import OversightService, agent_card
from interlock.engine.authenticate import authenticate
from interlock.engine.context import Engine, Limits
from interlock.engine.run_turn import run_turn
from interlock.oversight.principals import Kind, Role
from interlock.oversight.schema_gate import Violation

agent = Agent("bench", "Completes each task with a message.")


@agent.skill("bench", "Completes, asks, or says many things, as the text says")
async def bench(turn: Turn) -> None:
    if turn.text.startswith("ask"):
        await turn.ask("Go on?")
        return
    if turn.text.startswith("many"):
        for number in range(MANY):
            await turn.say(f"step {number}")
    await turn.complete("done")


class Worker(Unheard):
    """Implements `Waker`. `at_once`: runs the turn where it is woken for, as the reference does."""

    def __init__(self, *, at_once: bool) -> None:
        self.engine: Engine | None = None
        self.queued: list[tuple[str, str, int]] = []
        self._executor = PythonExecutor(agent)
        self._at_once = at_once

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        if self._at_once:
            self.run(tenant, task_id, turn)
        else:
            self.queued.append((tenant, task_id, turn))

    def run(self, tenant: str, task_id: str, turn: int) -> None:
        assert self.engine is not None
        # The agent's code has a loop of its own, which must not be told that this thread has one already.
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            run_turn(self.engine, self._executor, tenant, task_id, turn, 60)
        finally:
            asyncio._set_running_loop(outer)


class AnyPayload:
    """Implements `SchemaGuard`: a child process's cost is not what is measured here."""

    def check(self, schema: Any) -> None:
        pass

    def validate(self, schema: Mapping[str, JsonValue], payload: JsonValue) -> list[Violation]:
        return []


@dataclass(frozen=True, slots=True)
class Served:
    """An app, the headers of a caller, and who runs the turns; None where they are run at once."""

    app: ASGIApp
    headers: dict[str, str]
    worker: Worker | None = None


def ours(*, threads: bool = False, at_once: bool = True) -> Served:
    """The agents' door."""
    identities, table, waker = MemoryTable(), MemoryTable(), Worker(at_once=at_once)
    _, token = IdentityStore(identities, identities).create("agent", "demo", Kind.SERVICE, [Role.CALLER])
    credentials = TokenCredentials(identities)
    engine = Engine(table, table, waker, SystemClock(), AnyPayload(), Limits(streams=1000))
    waker.engine = engine
    card = agent_card(agent, streaming=True)
    service = OversightService(
        engine,
        agent,
        lambda given: authenticate(given, credentials=credentials, verifier=None, anonymous=None),
        card,
    )
    run = run_in_threadpool if threads else inline
    app = create_app(service, card, run=run, pace=Pace(heartbeat=3600))
    return Served(app, {"authorization": f"Bearer {token}"}, None if at_once else waker)


def reference() -> Served:
    return Served(reference_server.create_app(), {})


def request(method: str, text: str, number: int, *, now: bool = False) -> bytes:
    params: dict[str, Any] = {
        "message": {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": text}]}
    }
    if now:
        params["configuration"] = {"returnImmediately": True}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
