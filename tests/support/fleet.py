"""Agents that run elsewhere, with a skill in each mode: one of a2a-sdk, and another deployment of ours."""

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, Part, Task, TaskState, TaskStatus
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from starlette.applications import Starlette
from tests.support.receivers import Receiver, receiving, status
from tests.support.story import eventually
from tests.support.twin import Deployment

from interlock.adapters.clock import SystemClock
from interlock.agents import Agent, Mode, Turn
from interlock.engine.sweep import sweep
from interlock.oversight import modes

WINDOW = timedelta(seconds=3)
MODES: Mapping[str, str] = {
    "sitrep": "autonomous",
    "open_pr": "notification",
    "merge_pr": "veto",
    "production_deploy": "gated",
    "publish_post": "compound",
}
DECLARED: Mapping[str, Any] = {
    **{skill: {"mode": mode} for skill, mode in MODES.items()},
    "merge_pr": {"mode": "veto", "vetoTtlMs": WINDOW // timedelta(milliseconds=1)},
    "careless": {"mode": "veto", "vetoTtlMs": "soon"},
}
"""As the agent of a2a-sdk declares it. Of its skill `silent` it says nothing, and `careless` is broken."""
LENIENT: Mapping[str, str] = {"production_deploy": "autonomous", "publish_post": "notification"}
"""What the other deployment asks less for than is wanted of it here."""
QUESTIONS = ("Is the draft good?", "Publish it now?")


def publishes(text: str) -> bool:
    return text.startswith("publish")


class Desk(AgentExecutor):
    """Does what it is told and says so. What it publishes it asks about twice, and `hold` never ends."""

    def __init__(self) -> None:
        self.tasks: dict[str, list[str]] = {}
        """What each was told, in order."""
        self.holding = 0

    @property
    def received(self) -> list[str]:
        return [told[0] for told in list(self.tasks.values())]

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id, message = context.task_id, context.context_id, context.message
        assert task_id is not None
        assert context_id is not None
        assert message is not None
        told = self.tasks.setdefault(task_id, [])
        told.append(context.get_user_input())
        updater = TaskUpdater(event_queue, task_id, context_id)
        if len(told) == 1:
            submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(
                Task(id=task_id, context_id=context_id, status=submitted, history=[message])
            )
        await updater.start_work()
        if told[0] == "hold":
            self.holding += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.holding -= 1
        if publishes(told[0]) and len(told) <= len(QUESTIONS):
            question = updater.new_agent_message([Part(text=QUESTIONS[len(told) - 1])])
            await updater.requires_input(question)
            return
        await updater.add_artifact([Part(text=" / ".join(told))], artifact_id="a-1")
        await updater.complete(updater.new_agent_message([Part(text="done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def desk_app(url: str, desk: Desk) -> Starlette:
    skills = [*DECLARED, "silent"]
    card = ParseDict(
        {
            "name": "desk",
            "description": "A desk elsewhere",
            "version": "1.0.0",
            "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            "capabilities": {"extensions": [{"uri": modes.URI, "params": {"skills": dict(DECLARED)}}]},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": s, "name": s, "description": s, "tags": [s]} for s in skills],
        },
        AgentCard(),
    )
    handler = DefaultRequestHandler(desk, InMemoryTaskStore(), card)
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
        ]
    )


@dataclass
class Sister:
    """Another deployment, called as `agent`, with other tables."""

    received: list[str] = field(default_factory=list)
    holding: int = 0

    def __post_init__(self) -> None:
        agent = Agent("sister", "Another deployment")
        for skill, mode in {**MODES, **LENIENT}.items():
            options: dict[str, Any] = {"veto": WINDOW} if mode == "veto" else {}
            agent.skill(skill, skill, mode=Mode(mode), **options)(self._work)
        self.twin = Deployment(agent, at_once=False)
        self.twin.engine = replace(self.twin.engine, clock=SystemClock())

    async def _work(self, turn: Turn) -> None:
        if not turn.answers:
            self.received.append(turn.text)
        if turn.text.endswith("hold"):
            self.holding += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.holding -= 1
        elif publishes(turn.text) and len(turn.answers) < len(QUESTIONS):
            await turn.ask(QUESTIONS[len(turn.answers)])
        else:
            answers = [str(answer.payload["text"]) for answer in turn.answers]
            await turn.artifact(" / ".join([turn.text, *answers]))
            await turn.complete("done")

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """With workers, and a sweeper that comes round often."""
        over, turns = threading.Event(), list[threading.Thread]()

        def work() -> None:
            while not over.wait(0.02):
                while self.twin.waker.turns:
                    woken = self.twin.waker.turns.pop(0)
                    turns.append(threading.Thread(target=self.twin.run_turn, args=woken))
                    turns[-1].start()

        def sweeps() -> None:
            while not over.wait(0.2):
                sweep(self.twin.engine)

        threads = [threading.Thread(target=what) for what in (work, sweeps)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in (*threads, *turns):
                thread.join()


# People are told

UNAVAILABLE = status(503)


@dataclass
class Hook:
    """A web hook that believes nothing that is not signed with its secret, and knows a repeat by its id.

    The next `failing` requests find it in `trouble`.
    """

    secret: bytes
    failing: int = 0
    trouble: Callable[[BaseHTTPRequestHandler], None] = UNAVAILABLE
    notices: dict[str, Any] = field(default_factory=dict)
    """By their ids."""
    unsigned: int = 0
    server: Receiver | None = None

    @property
    def renderer(self) -> dict[str, str]:
        assert self.server is not None
        secret = f"whsec_{base64.b64encode(self.secret).decode()}"
        return {"kind": "webhook", "url": f"{self.server.url}/hook", "secret": secret}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        assert self.server is not None
        _, _, headers, body = self.server.requests[-1]
        given = {name.lower(): value for name, value in headers.items()}
        if not self.is_signed(given, body):
            self.unsigned += 1
        elif self.failing:
            self.failing -= 1
            self.trouble(handler)
            return
        else:
            self.notices[given["webhook-id"]] = json.loads(body)
        handler.send_response(204)
        handler.end_headers()

    def is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Standard Webhooks 1.0.0, with a minute for what is old."""
        at = headers["webhook-timestamp"]
        signed = f"{headers['webhook-id']}.{at}.".encode() + body
        made = base64.b64encode(hmac.new(self.secret, signed, sha256).digest()).decode()
        fresh = abs(time.time() - int(at)) < 60
        return fresh and f"v1,{made}" in headers["webhook-signature"].split()

    def told(self, task_id: str) -> list[str]:
        """What it was told of a task, in order."""
        return [notice["tells"] for notice in list(self.notices.values()) if notice["taskId"] == task_id]

    def hears(self, task_id: str, *tells: str) -> None:
        eventually(lambda: self.told(task_id)[: len(tells)] == list(tells))


@contextmanager
def hooked(secret: bytes = b"thirty-two bytes of a web hook..") -> Iterator[Hook]:
    hook = Hook(secret)
    with receiving(hook.answer) as hook.server:
        yield hook
