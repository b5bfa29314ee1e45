"""A task and all that was delegated below it, as far as it is known here."""

from collections.abc import Iterator
from dataclasses import dataclass

from interlock.engine.children import delegations
from interlock.engine.context import Engine
from interlock.engine.records import Delegation, TaskMeta
from interlock.engine.visibility import sees, visible_meta
from interlock.oversight.delegation import MAX_DEPTH
from interlock.oversight.principals import Principal

MAX_NODES = 1000


@dataclass(frozen=True, slots=True)
class Node:
    """`level` is 0 for the root. `made_by` is the delegation that made the task, and `task` what is known of
    it: None for one on another deployment, or that was never learned of."""

    level: int
    made_by: Delegation | None
    task: TaskMeta | None


def tree(engine: Engine, caller: Principal, task_id: str) -> tuple[list[Node], bool]:
    """A parent before its children, oldest first. False: there is more than is shown.

    Raises `TaskNotFound`.
    """
    nodes: list[Node] = []
    for node in _below(engine, caller, Node(0, None, visible_meta(engine, caller, task_id))):
        if len(nodes) == MAX_NODES:
            return nodes, False
        nodes.append(node)
    return nodes, True


def _below(engine: Engine, caller: Principal, node: Node) -> Iterator[Node]:
    yield node
    if node.task is None or not node.task.delegates or node.level == MAX_DEPTH:
        return
    for delegation in delegations(engine.table, node.task.tenant, node.task.task_id):
        child = _task(engine, caller, delegation)
        yield from _below(engine, caller, Node(node.level + 1, delegation, child))


def _task(engine: Engine, caller: Principal, delegation: Delegation) -> TaskMeta | None:
    """A child on this deployment, of this tenant: its context is the delegation, which nobody else knows."""
    if delegation.child is None:
        return None
    item = engine.table.get(TaskMeta.key_of(delegation.tenant, delegation.child))
    meta = TaskMeta.read(item) if item is not None else None
    mine = meta is not None and meta.context_id == delegation.id and sees(caller, meta)
    return meta if mine else None
