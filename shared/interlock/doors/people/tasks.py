"""A task: all that was delegated below it, its cancel, and going on once its credential has arrived."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path

from interlock.a2a.models import MAX_ID_LENGTH, CancelTaskRequest, Wire
from interlock.doors.people.door import Door
from interlock.engine.cancel import cancel_task
from interlock.engine.errors import store_errors
from interlock.engine.resume import resume_task
from interlock.engine.tree import Node, tree
from interlock.oversight.principals import Principal

TaskId = Annotated[str, Path(min_length=1, max_length=MAX_ID_LENGTH)]


class DelegationBody(Wire):
    """`to` is the agent as the parent named it, `child` its task there. `status` is open, canceling, settled,
    detached, or parked where the cancel was given up; `outcome` is how it ended, or became of its cancel."""

    id: str
    to: str
    status: str
    outcome: str | None = None
    child: str | None = None


class NodeBody(Wire):
    """`level` is 0 for the root. Of a task on another deployment there is only its delegation."""

    level: int
    task_id: str | None = None
    agent: str | None = None
    skill: str | None = None
    state: str | None = None
    delegation: DelegationBody | None = None


class TreeBody(Wire):
    """A parent before its children, oldest first. Not `complete`: there is more than is shown."""

    nodes: list[NodeBody]
    complete: bool


class CanceledBody(Wire):
    status: Literal["canceled"] = "canceled"


class ResumedBody(Wire):
    status: Literal["resumed"] = "resumed"


def router(door: Door) -> APIRouter:
    engine, routes = door.engine, door.router()
    Caller = Annotated[Principal, Depends(door.caller)]  # noqa: N806

    @routes.get("/tasks/{task_id}/tree", response_model_exclude_none=True)
    def get_tree(who: Caller, task_id: TaskId) -> TreeBody:
        """The task, and what it handed to other agents, and they to others."""
        with store_errors():
            nodes, complete = tree(engine, who, task_id)
        return TreeBody(nodes=[_body(node) for node in nodes], complete=complete)

    @routes.post("/tasks/{task_id}/cancel")
    def cancel(who: Caller, task_id: TaskId) -> CanceledBody:
        """Cancels a task, whatever it waits for: within a window of veto, vetoes it."""
        with store_errors():
            cancel_task(engine, who, CancelTaskRequest(id=task_id), extensions=frozenset())
        return CanceledBody()

    @routes.post("/tasks/{task_id}/resume")
    def resume(who: Caller, task_id: TaskId) -> ResumedBody:
        """Goes on with a task that waits for a credential, because it has arrived."""
        with store_errors():
            resume_task(engine, who, task_id)
        return ResumedBody()

    return routes


def _body(node: Node) -> NodeBody:
    task, made_by = node.task, node.made_by
    delegation = None
    if made_by is not None:
        delegation = DelegationBody(
            id=made_by.id,
            to=made_by.to,
            status=made_by.status,
            outcome=made_by.outcome,
            child=made_by.child,
        )
    return NodeBody(
        level=node.level,
        task_id=task.task_id if task is not None else None,
        agent=task.agent if task is not None else None,
        skill=task.skill if task is not None else None,
        state=task.state if task is not None else None,
        delegation=delegation,
    )
