"""The peer: the server of a2a-sdk, with an agent that completes, asks, or says many things."""

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette

MANY = 200


class Completes(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        assert context.message is not None
        task = Task(
            id=context.task_id,
            context_id=context.context_id,
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
            history=[context.message],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        text = context.get_user_input()
        if text.startswith("ask"):
            await updater.requires_input(updater.new_agent_message([Part(text="Go on?")]))
            return
        if text.startswith("many"):
            for number in range(MANY):
                said = updater.new_agent_message([Part(text=f"step {number}")])
                await updater.update_status(TaskState.TASK_STATE_WORKING, said)
        await updater.complete(updater.new_agent_message([Part(text="done")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def card() -> AgentCard:
    return AgentCard(
        name="completes",
        description="Completes each task with a message.",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url="http://localhost/", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="complete", name="Complete", description="Completes", tags=["complete"])],
    )


def create_app() -> Starlette:
    own = card()
    handler = DefaultRequestHandler(Completes(), InMemoryTaskStore(), own)
    return Starlette(routes=[*create_agent_card_routes(own), *create_jsonrpc_routes(handler, "/")])
