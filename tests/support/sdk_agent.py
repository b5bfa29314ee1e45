"""An agent served by a2a-sdk: it works until it is cancelled, asks, completes, or replies without a task."""

import asyncio
from collections.abc import Mapping
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette

from interlock.oversight.modes import URI as MODES


class Tasks(InMemoryTaskStore):
    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, int] = {}
        """As they were last stored, by id."""

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        self.states[task.id] = task.status.state


class Works(AgentExecutor):
    def __init__(self) -> None:
        self.tasks = Tasks()
        self.at_work = 0
        """How many work until they are cancelled."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        assert context.message is not None
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        text = context.get_user_input()
        if text == "hello":
            await event_queue.enqueue_event(updater.new_agent_message([Part(text="hello")]))
            return
        task = Task(
            id=context.task_id,
            context_id=context.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            history=[context.message],
        )
        await event_queue.enqueue_event(task)
        await updater.start_work()
        if text == "work":
            self.at_work += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.at_work -= 1
        if text == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="Go on?")]))
            return
        await updater.add_artifact([Part(text="result")], artifact_id="a-1")
        await updater.complete(updater.new_agent_message([Part(text="done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def create_app(
    url: str,
    *bindings: str,
    version: str = "1.0",
    works: Works | None = None,
    modes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Starlette:
    """The app of a server at `url`, whose card has the bindings in this order.

    `modes` are what the card declares of its skills (hitl-mode-v1). The server itself knows nothing of them.
    """
    works = works or Works()
    declared = [] if modes is None else [AgentExtension(uri=MODES, params={"skills": dict(modes)})]
    card = AgentCard(
        name="works",
        description="Works until it is cancelled",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version=version)
            for binding in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, extensions=declared),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=skill, name=skill.capitalize(), description="Works", tags=[skill])
            for skill in modes or ("work",)
        ],
    )
    handler = DefaultRequestHandler(works, works.tasks, card)
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/"),
            *create_rest_routes(handler),
        ]
    )
