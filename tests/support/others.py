"""Other agents in memory, as a run that hands work down meets them: a stranger, and a deployment of ours."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from tests.support.twin import PEER, PROMPTS, Deployment

from interlock.a2a.errors import A2AError, TaskNotCancelable, TaskNotFound
from interlock.a2a.models import (
    CancelTaskRequest,
    GetTaskRequest,
    JsonObject,
    ListTasksRequest,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from interlock.engine.cancel import cancel_task
from interlock.engine.context import new_id
from interlock.engine.get import get_task, list_tasks
from interlock.engine.peers import PeerAddress, PeerRefused, PeerUnreachable
from interlock.engine.send import send_message
from interlock.engine.send_key import IDEMPOTENCY_METADATA
from interlock.oversight.principals import Principal

T = TypeVar("T")
NAME = "helper"


def refusal(error: type[A2AError]) -> PeerRefused:
    return PeerRefused(f"the peer refused: {error.text}", code=error.code, reason=error.reason)


@dataclass
class Others(ABC):
    """Implements `Peers`, but for its operations. One agent is known, to one tenant, by `NAME`.

    `before` and `after` are told the name of each operation, before it is done and after; what they raise
    keeps it from being done, or loses its answer.
    """

    calls: list[tuple[str, str]] = field(default_factory=list)
    """Each operation, and the id or the key it was called with."""
    seconds: list[float] = field(default_factory=list)
    """That each send was given."""
    before: Callable[[str], None] = lambda operation: None
    after: Callable[[str], None] = lambda operation: None

    def resolve_for(self, tenant: str, name_or_url: str) -> PeerAddress:
        if (tenant, name_or_url) != ("acme", NAME):
            raise PeerRefused("no peer of this name is configured")
        return PeerAddress("https://helper.example", authorization="Bearer secret")

    @abstractmethod
    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message: ...

    @abstractmethod
    def get(self, to: PeerAddress, task_id: str) -> Task: ...

    @abstractmethod
    def find(self, to: PeerAddress, context_id: str) -> list[Task]: ...

    @abstractmethod
    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task: ...

    @property
    @abstractmethod
    def states(self) -> list[TaskState]:
        """Of all tasks there."""

    def called(self, operation: str) -> list[str]:
        return [what for name, what in self.calls if name == operation]

    def _do(self, operation: str, what: str, work: Callable[[], T]) -> T:
        self.calls.append((operation, what))
        self.before(operation)
        done = work()
        self.after(operation)
        return done


@dataclass
class Stranger(Others):
    """A server that knows nothing of keys and terms. Its tasks do what the test says."""

    tasks: dict[str, Task] = field(default_factory=dict)
    answer: Callable[[Message], Message | TaskState] = lambda message: TaskState.WORKING
    """What a send brings: a direct answer, or a task in this state."""
    heeds: bool = True
    """Whether a cancel ends a task."""
    lists: bool = True

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        self.seconds.append(seconds)

        def work() -> Task | Message:
            answered = self.answer(message)
            if isinstance(answered, Message):
                return answered
            task_id = message.task_id or new_id()
            context = message.context_id or (self.tasks[task_id].context_id if message.task_id else None)
            self.tasks[task_id] = Task(id=task_id, context_id=context, status=TaskStatus(state=answered))
            return self.tasks[task_id]

        return self._do("send", key, work)

    def get(self, to: PeerAddress, task_id: str) -> Task:
        return self._do("get", task_id, lambda: self._task(task_id))

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        def work() -> list[Task]:
            if not self.lists:
                raise PeerRefused("the peer refused: it does not list", code=-32004)
            return [task for task in self.tasks.values() if task.context_id == context_id]

        return self._do("find", context_id, work)

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        def work() -> Task:
            if self._task(task_id).status.state.terminal:
                raise refusal(TaskNotCancelable)
            if self.heeds:
                self.set(task_id, TaskState.CANCELED)
            return self._task(task_id)

        return self._do("cancel", task_id, work)

    def set(self, task_id: str, state: TaskState) -> None:
        self.tasks[task_id] = self._task(task_id).model_copy(update={"status": TaskStatus(state=state)})

    def _task(self, task_id: str) -> Task:
        if task_id not in self.tasks:
            raise refusal(TaskNotFound)
        return self.tasks[task_id]

    @property
    def states(self) -> list[TaskState]:
        return [task.status.state for task in self.tasks.values()]


@dataclass
class Other(Others):
    """Another deployment of ours, called as `who`."""

    deployment: Deployment = field(kw_only=True)
    who: Principal = PEER

    def send(
        self, to: PeerAddress, message: Message, *, key: str, metadata: JsonObject, seconds: float
    ) -> Task | Message:
        self.seconds.append(seconds)
        request = SendMessageRequest(
            message=message,
            configuration=SendMessageConfiguration(return_immediately=True, history_length=0),
            metadata={**metadata, IDEMPOTENCY_METADATA: key},
        )

        def work() -> Task | Message:
            there = self.deployment
            sent = send_message(there.engine, there.agent, self.who, request, extensions=PROMPTS)
            said = sent.task or sent.message
            assert said is not None
            return said

        return self._do("send", key, lambda: _over_the_wire(work))

    def get(self, to: PeerAddress, task_id: str) -> Task:
        def work() -> Task:
            request = GetTaskRequest(id=task_id, history_length=0)
            return get_task(self.deployment.engine, self.who, request, extensions=PROMPTS)

        return self._do("get", task_id, lambda: _over_the_wire(work))

    def find(self, to: PeerAddress, context_id: str) -> list[Task]:
        def work() -> list[Task]:
            request = ListTasksRequest(context_id=context_id)
            return list_tasks(self.deployment.engine, self.who, request, extensions=PROMPTS).tasks

        return self._do("find", context_id, lambda: _over_the_wire(work))

    @property
    def states(self) -> list[TaskState]:
        return [task.status.state for task in self.deployment.listed(self.who).tasks]

    def cancel(self, to: PeerAddress, task_id: str, *, metadata: JsonObject | None = None) -> Task:
        def work() -> Task:
            request = CancelTaskRequest(id=task_id, metadata=metadata)
            return cancel_task(self.deployment.engine, self.who, request, extensions=PROMPTS)

        return self._do("cancel", task_id, lambda: _over_the_wire(work))


def _over_the_wire(work: Callable[[], T]) -> T:
    """Errors as the client of peers has them: what may pass is no answer."""
    try:
        return work()
    except A2AError as error:
        if error.http_status >= 500:
            raise PeerUnreachable("no answer") from error
        raise refusal(type(error)) from error


def failing(operation: str, times: int, error: Exception | None = None) -> Callable[[str], None]:
    """For `before` and `after`: so many times, from the first call on."""
    left: Iterator[int] = iter(range(times))

    def fail(called: str) -> None:
        if called == operation and next(left, None) is not None:
            raise error or PeerUnreachable("no answer")

    return fail
