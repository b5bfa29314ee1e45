"""Push notifications for a deployment in memory: a receiver that a test controls, and what delivers to it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.twin import Deployment

from interlock.a2a.models import AuthenticationInfo, TaskPushNotificationConfig
from interlock.adapters.sealing import FileSealer, create_seal_key
from interlock.adapters.webhooks import WebHooks
from interlock.engine.push import DeliveryFailed, Push, deliver
from interlock.engine.records import PushConfig

URL = "https://hooks.example/one"
CREDENTIALS = "s3cret-credentials"
TOKEN = "t0ken-of-the-task"


def asked(**changes: Any) -> TaskPushNotificationConfig:
    given = {
        "url": URL,
        "token": TOKEN,
        "authentication": AuthenticationInfo(scheme="Bearer", credentials=CREDENTIALS),
        **changes,
    }
    return TaskPushNotificationConfig(**given)


@dataclass(frozen=True)
class Arrived:
    url: str
    headers: dict[str, str]
    body: Any

    @property
    def what(self) -> str:
        """The state, or the name of the artifact."""
        if "statusUpdate" in self.body:
            return str(self.body["statusUpdate"]["status"]["state"]).removeprefix("TASK_STATE_")
        return str(self.body["artifactUpdate"]["artifact"]["parts"][0]["text"])


def acknowledge(arrived: Arrived) -> None:
    pass


def fail(arrived: Arrived) -> None:
    raise DeliveryFailed("the answer was 500")


@dataclass
class Inbox:
    """Implements `Receiver`: keeps what arrives, and answers as `then` says, which may raise."""

    then: Callable[[Arrived], object] = acknowledge
    arrived: list[Arrived] = field(default_factory=list)

    def check(self, url: str) -> None:
        WebHooks().check(url)

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        arrived = Arrived(url, headers, json.loads(body))
        self.arrived.append(arrived)
        self.then(arrived)

    def whats(self, url: str = URL) -> list[str]:
        return [arrived.what for arrived in self.arrived if arrived.url == url]


@dataclass
class Outbox:
    """A deployment with push notifications, and their workers."""

    deployment: Deployment
    inbox: Inbox
    push: Push
    parked: list[PushConfig]

    def work(self, seconds: float = 60.0) -> None:
        """Delivers all that was woken for, and what that wakes for."""
        waker = self.deployment.waker
        while waker.pushes:
            self.deliver(*waker.pushes.pop(0), seconds=seconds)

    def deliver(self, tenant: str, task_id: str, seconds: float = 60.0) -> None:
        deliver(self.push, tenant, task_id, seconds)

    def config(self, task_id: str, config_id: str) -> PushConfig:
        return PushConfig.read(self.deployment.rows()[PushConfig.key_of("acme", task_id, config_id)])


def with_push(deployment: Deployment, folder: Path) -> Outbox:
    key, parked, inbox = folder / "seal.key", list[PushConfig](), Inbox()
    create_seal_key(key)
    push = Push(deployment.engine, FileSealer(key), inbox, parked.append)
    deployment.push = push
    return Outbox(deployment, inbox, push, parked)
