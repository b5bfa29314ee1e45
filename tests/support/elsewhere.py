"""Agents elsewhere, in memory: one that does what a test says, and a whole other deployment."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.cards import URL, FakeCards, card
from tests.support.twin import OPS, Deployment, nothing, running

from interlock.a2a.errors import A2AError, TaskNotCancelable, TaskNotFound
from interlock.a2a.models import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    JsonObject,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from interlock.adapters.peers import HttpPeers
from interlock.agents.by_agent import ByAgent
from interlock.engine.cancel import cancel_task
from interlock.engine.children import Children, cancel_children, delegations
from interlock.engine.context import new_id
from interlock.engine.get import get_task, list_tasks
from interlock.engine.peers import PeerAddress, PeerRefused
from interlock.engine.ports import Clock
from interlock.engine.records import Delegation
from interlock.engine.registry import Registry
from interlock.engine.remote import RemoteExecutor
from interlock.engine.run_turn import TurnRun
from interlock.engine.send import send_message
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.modes import Policy
from interlock.oversight.principals import Principal
from interlock.oversight.principals import Role as Caller

FREE = {"go": {"mode": "autonomous"}}


def said(text: str, **more: Any) -> Message:
    return Message(message_id=new_id(), role=Role.AGENT, parts=[Part(text=text)], **more)


@dataclass(frozen=True)
class Sent:
    message: Message
    key: str
    metadata: JsonObject


@dataclass
class Scripted(FakeCards):
    """Implements `Elsewhere`.

    `steps` are what looks at a task find, in turn, the last one for ever: states, or
    whole statuses. `reply` answers without a task. `before` and `after` may raise around each call.
    """

    steps: list[Any] = field(default_factory=lambda: [TaskState.COMPLETED])
    then: list[Any] = field(default_factory=list)
    """The steps once an answer or a message has come."""
    artifacts: list[Artifact] = field(default_factory=list)
    reply: Message | None = None
    before: Callable[[str], None] = lambda _: None
    after: Callable[[str], None] = lambda _: None
    knows_keys: bool = True
    sent: list[Sent] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    canceled: list[str] = field(default_factory=list)

    @contextmanager
    def _called(self, operation: str) -> Iterator[None]:
        self.before(operation)
        yield
        self.after(operation)

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        with self._called("send"):
            self.sent.append(Sent(message, key, metadata))
            if self.reply is not None:
                return self.reply
            if message.task_id is not None:
                self.steps, self.then = self.then or self.steps, []
                return self.tasks[message.task_id].model_copy(deep=True)
            if key in self.keys and self.knows_keys:
                return self.tasks[self.keys[key]]
            task = Task(id=new_id(), context_id=message.context_id, status=self._status())
            self.tasks[task.id] = task
            self.keys[key] = task.id
            return task

    def get(self, to: PeerAddress, task_id: str) -> Task:
        with self._called("get"):
            task = self._known(task_id)
            if task.status.state is not TaskState.CANCELED:
                task.status = self._status()
                task.artifacts = list(self.artifacts)
            return task.model_copy(deep=True)

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        with self._called("find"):
            return [task for task in self.tasks.values() if task.context_id == context_id]

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        with self._called("cancel"):
            task = self._known(self.keys.get((metadata or {}).get(IDEMPOTENCY_METADATA, ""), task_id))  # type: ignore[arg-type]
            if task.status.state.terminal:
                raise PeerRefused("no", code=TaskNotCancelable.code, reason=TaskNotCancelable.reason)
            task.status = TaskStatus(state=TaskState.CANCELED)
            self.canceled.append(task.id)
            return task

    def _known(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise PeerRefused("unknown", code=TaskNotFound.code, reason=TaskNotFound.reason)
        return self.tasks[task_id]

    def _status(self) -> TaskStatus:
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        return step if isinstance(step, TaskStatus) else TaskStatus(state=step)


@dataclass
class Another(FakeCards):
    """Implements `Elsewhere`: another deployment, called as `who`."""

    deployment: Deployment = field(default_factory=lambda: Deployment(running(nothing)))
    who: Principal = field(
        default_factory=lambda: Principal("bearer:interlock", "acme", roles=frozenset({Caller.CALLER}))
    )
    activated: frozenset[str] = frozenset({hitl_prompt.URI, approvals.URI})

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        with _refusing():
            sent = send_message(
                self.deployment.engine,
                self.deployment.agent,
                self.who,
                SendMessageRequest(
                    message=message,
                    configuration=SendMessageConfiguration(return_immediately=True),
                    metadata=metadata,
                ),
                extensions=self.activated,
                idempotency_key=key,
            )
        found = sent.task or sent.message
        assert found is not None
        return found

    def get(self, to: PeerAddress, task_id: str) -> Task:
        with _refusing():
            return get_task(
                self.deployment.engine, self.who, GetTaskRequest(id=task_id), extensions=self.activated
            )

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        request = ListTasksRequest(context_id=context_id)
        with _refusing():
            return list_tasks(self.deployment.engine, self.who, request, extensions=self.activated).tasks

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        request = CancelTaskRequest(id=task_id, metadata=metadata)
        with _refusing():
            return cancel_task(self.deployment.engine, self.who, request, extensions=self.activated)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except A2AError as error:
        raise PeerRefused(error.message, code=error.code, reason=error.reason) from error


class Unwatched:
    """Implements `Watch` where nobody looks from another thread."""

    def over(self, run: TurnRun, seconds: float, stop: Any) -> Any:
        return nullcontext()


class Overseen:
    """A deployment with the agent `far`, registered by its card, which runs elsewhere.

    One in memory has `declared`; a real one is at `url`, and needs a `clock` that is real too.
    """

    def __init__(
        self,
        elsewhere: Scripted | Another | HttpPeers,
        declared: dict[str, Any] | None = None,
        *,
        at_once: bool = True,
        policy: Policy = Policy(),  # noqa: B008 (frozen)
        url: str = URL,
        clock: Clock | None = None,
        **options: Any,
    ) -> None:
        self.elsewhere = elsewhere
        self.deployment = Deployment(running(nothing), at_once=at_once, **options)
        here = self.deployment
        if clock is not None:
            here.engine = replace(here.engine, clock=clock)
        skills = here.agent.known
        self.registry = here.registry = Registry(here.engine, policy, lambda: skills)
        remote = RemoteExecutor(self.registry, elsewhere, Unwatched())
        here.executor = ByAgent(here.agent, here.executor, lambda: remote)
        if not isinstance(elsewhere, HttpPeers):
            elsewhere.cards[URL] = card(declared or FREE)
        self.registry.add(OPS, "far", url)
        self.refreshed()

    def send(self, text: str | Message = "go", **more: Any) -> Task:
        """To the agent elsewhere."""
        here = self.deployment
        local, here.agent = here.agent, self.registry.get("acme", "far")  # type: ignore[assignment]
        try:
            return here.send(text, **more)
        finally:
            here.agent = local

    def refreshed(self) -> None:
        self.registry.refresh(self.elsewhere, "acme", "far")

    def get(self, task_id: str) -> Task:
        return self.deployment.get(task_id)

    def links(self, task_id: str) -> list[Delegation]:
        return delegations(self.deployment.table, "acme", task_id)

    def link(self, task_id: str) -> Delegation:
        (link,) = self.links(task_id)
        return link

    def outbox(self) -> list[Delegation]:
        """What the outbox does for each task that it was woken for. Gives what was parked."""
        parked: list[Delegation] = []
        children = Children(self.deployment.engine, self.elsewhere, parked.append)
        woken, self.deployment.waker.children = self.deployment.waker.children, []
        for tenant, task_id in dict.fromkeys(woken):
            cancel_children(children, tenant, task_id)
        return parked
