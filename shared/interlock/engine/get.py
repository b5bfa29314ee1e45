"""GetTask and ListTasks (specification 3.1.3, 3.1.4)."""

from interlock.a2a.errors import InvalidParams
from interlock.a2a.models import (
    GetTaskRequest,
    JsonObject,
    ListTasksRequest,
    ListTasksResponse,
    Task,
    TaskState,
    TaskStatus,
    timestamp,
)
from interlock.engine.children import delegations, shown
from interlock.engine.context import Engine
from interlock.engine.ports import Value
from interlock.engine.records import (
    Event,
    TaskMeta,
    event_key,
    instant,
    owner_view,
    parse_instant,
    read_event,
)
from interlock.engine.view import load, present, quorum_progress
from interlock.engine.visibility import check_tenant, visible_task
from interlock.oversight.principals import Principal

DEFAULT_PAGE_SIZE = 50


def get_task(
    engine: Engine, caller: Principal, request: GetTaskRequest, *, extensions: frozenset[str]
) -> Task:
    """Raises `TaskNotFound`, also for a task that the caller may not see."""
    check_tenant(caller, request.tenant)
    view = visible_task(engine, caller, request.id)
    progress = quorum_progress(engine.table, view.meta)
    delegated: list[JsonObject] = []
    if view.meta.delegates:
        delegated = [shown(each) for each in delegations(engine.table, caller.tenant, request.id)]
    return present(
        *view,
        extensions,
        history_length=request.history_length,
        progress=progress,
        delegated=delegated,
    )


def list_tasks(
    engine: Engine,
    caller: Principal,
    request: ListTasksRequest,
    *,
    extensions: frozenset[str],
    agent: str | None = None,
) -> ListTasksResponse:
    """The caller's own tasks, latest status first. Reads an index that may lag by a moment.

    `agent`: only those of this one. Without `historyLength` the tasks come without history. Raises
    `InvalidParams` for a bad page token.
    """
    check_tenant(caller, request.tenant)
    view = owner_view(caller.tenant, caller.id)
    equals: dict[str, Value] = {} if agent is None else {"agent": agent}
    if request.context_id is not None:
        equals["context_id"] = request.context_id
    if request.status is not None and request.status is not TaskState.UNSPECIFIED:
        equals["state"] = request.status.value
    first = instant(request.status_timestamp_after) if request.status_timestamp_after else ""
    size = request.page_size or DEFAULT_PAGE_SIZE
    try:
        page = engine.views.query_view(
            view, first=first, equals=equals, descending=True, limit=size, cursor=request.page_token or None
        )
    except ValueError as error:
        raise InvalidParams("The page token is not valid") from error
    metas = [TaskMeta.read(item) for _, item in page.rows]
    if request.history_length or request.include_artifacts:
        tasks = _whole(engine, metas, request, extensions)
    else:
        tasks = _brief(engine, metas, extensions)
    return ListTasksResponse.model_construct(
        tasks=tasks,
        next_page_token=page.cursor or "",
        page_size=size,
        total_size=engine.views.count_view(view, first=first, equals=equals),
    )


def _whole(
    engine: Engine, metas: list[TaskMeta], request: ListTasksRequest, extensions: frozenset[str]
) -> list[Task]:
    tasks = []
    for meta in metas:
        loaded = load(engine.table, meta.tenant, meta.task_id)
        if loaded is not None:
            shown = present(
                *loaded,
                extensions,
                history_length=request.history_length or 0,
                include_artifacts=bool(request.include_artifacts),
                progress=quorum_progress(engine.table, loaded.meta),
            )
            tasks.append(shown)
    return tasks


def _brief(engine: Engine, metas: list[TaskMeta], extensions: frozenset[str]) -> list[Task]:
    """One read for all status messages of the page."""
    said = [event_key(meta.tenant, meta.task_id, meta.said) for meta in metas if meta.said]
    items = iter(engine.table.get_many(said) if said else [])
    tasks = []
    for meta in metas:
        item = next(items) if meta.said else None
        event = read_event(item) if item is not None else Event(status=bare_status(meta))
        shown = present(
            meta,
            [event],
            extensions,
            history_length=0,
            include_artifacts=False,
            progress=quorum_progress(engine.table, meta),
        )
        tasks.append(shown)
    return tasks


def bare_status(meta: TaskMeta) -> TaskStatus:
    return TaskStatus(state=meta.task_state, timestamp=timestamp(parse_instant(meta.status_at)))
