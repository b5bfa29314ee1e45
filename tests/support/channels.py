"""A deployment with channels: its outbox, its channels' door, and who is who."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

import httpx
from starlette.applications import Starlette
from tests.support.approvals import asking_leave
from tests.support.calls import call
from tests.support.twin import Deployment, running

from interlock.adapters.identities import IdentityStore, TokenCredentials
from interlock.adapters.memory import MemoryTable
from interlock.adapters.outbound import Outbound
from interlock.adapters.renderers import ConfiguredRenderers, Messages
from interlock.agents import Agent, Turn
from interlock.doors.channels import create_app
from interlock.doors.channels.door import Door
from interlock.engine.calls import Calls
from interlock.engine.notices import Telling, deliver_notices
from interlock.engine.ports import Table
from interlock.oversight.principals import Kind, Role

BASE = "https://interlock.example"
PEOPLE = ("alice", "bob", "carol")


def no_topics() -> Any:
    raise AssertionError("nothing is published here")


def question(prompt: str, schema: Mapping[str, Any] | None = None) -> Agent:
    """An agent that asks it, and completes with any answer."""

    async def work(turn: Turn) -> None:
        if turn.answer is None:
            await turn.ask(prompt, schema)
        else:
            await turn.complete("done")

    return running(work)


def yes_or_no() -> Agent:
    return question("Publish it?", _one("publish", {"type": "boolean"}))


def one_of(*values: str) -> Agent:
    return question("Which one?", _one("colour", {"enum": list(values)}))


def _one(name: str, member: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: member}, "required": [name], "additionalProperties": False}


class Reached(Protocol):
    """Where platforms send what people press."""

    def now(self) -> datetime: ...

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response: ...


@dataclass
class ChannelsPlace:
    """`entries` are the channels by name, all of which are told. The document is read anew each time."""

    entries: Mapping[str, dict[str, Any]]
    agent: Agent = field(default_factory=asking_leave)
    more: Mapping[str, Any] = field(default_factory=dict)
    ses: Any = None
    """The client, where mail is sent."""
    known: Table | None = None
    """The table of identities as the door reads it, if that is another."""

    def __post_init__(self) -> None:
        self.deployment = Deployment(self.agent)
        self.deployment.engine = replace(self.deployment.engine, notices=True)
        self.identities = MemoryTable()
        self.store = IdentityStore(self.identities, self.identities, now=self.deployment.clock.now)
        for label in PEOPLE:
            self.store.create(label, "acme", Kind.PERSON, [Role.APPROVER])
        self.store.create("mallory", "other", Kind.PERSON, [Role.APPROVER])
        self.store.create("robot", "acme", Kind.SERVICE, [Role.APPROVER])

    @property
    def document(self) -> dict[str, Any]:
        return {"renderers": dict(self.entries), "default": list(self.entries), "url": BASE, **self.more}

    @property
    def renderers(self) -> ConfiguredRenderers:
        engine = self.deployment.engine
        messages = Messages(engine.table, engine.clock)
        text = json.dumps(self.document).encode()
        return ConfiguredRenderers(
            lambda: text, Outbound(local=True), no_topics, messages, ses=lambda: self.ses, local=True
        )

    @property
    def app(self) -> Starlette:
        credentials = TokenCredentials(self.known or self.identities, now=self.deployment.clock.now)
        calls = Calls(self.deployment.engine)
        door = Door(
            self.deployment.engine, calls, self.renderers.entry, credentials.by_id, Outbound(local=True)
        )
        return create_app(door)

    def ask(self, **more: Any) -> str:
        """The id of a task that waits, and has been told of."""
        task_id = self.deployment.send(**more).id
        self.deliver(task_id)
        return task_id

    def deliver(self, task_id: str) -> None:
        deliver_notices(Telling(self.deployment.engine, self.renderers), "acme", task_id)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        return call(self.app, "POST", path, body=body, headers=headers)

    def now(self) -> datetime:
        return self.deployment.clock.now()

    def status(self, task_id: str) -> str:
        """Of its last checkpoint."""
        return self.deployment.prompts(task_id)[-1].status
