"""The methods of 0.3 (A2A 0.3.0, section 7), each over the operation of 1.0 that it became.

They take the gate of that operation with them, so that 0.3 offers what the card declares and nothing else.
There is no method for lists of tasks.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from interlock.a2a import operations
from interlock.a2a.card import PROTOCOL_VERSION_0_3
from interlock.a2a.errors import A2AError, PermissionDenied, TaskNotFound, Unauthenticated
from interlock.a2a.models import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    SubscribeToTaskRequest,
    Wire,
)
from interlock.a2a.operations import Operation
from interlock.a2a.service import A2AService, CallContext, EventStream
from interlock.a2a.v0_3 import results
from interlock.a2a.v0_3.card import merged
from interlock.a2a.v0_3.requests import (
    DeleteTaskPushNotificationConfigParams,
    GetTaskPushNotificationConfigParams,
    MessageSendParams,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
)
from interlock.a2a.v0_3.results import Events, Refused, Result

MAX_PUSH_CONFIGS = 100
"""In a list: 0.3 has no pages."""


def _send(service: A2AService, context: CallContext, params: MessageSendParams) -> Result:
    response = service.send_message(context, params.current)
    return Result(results.task_or_message(response.task, response.message))


def _stream(service: A2AService, context: CallContext, params: MessageSendParams) -> Events | Refused:
    return _events(lambda: service.send_streaming_message(context, params.current))


def _resubscribe(service: A2AService, context: CallContext, params: TaskIdParams) -> Events | Refused:
    return _events(lambda: service.subscribe_to_task(context, SubscribeToTaskRequest(id=params.id)))


def _events(opened: Callable[[], EventStream]) -> Events | Refused:
    """Clients of 0.3 that want a stream look for an error in it, and not at an answer that is none."""
    try:
        return Events(opened())
    except (Unauthenticated, PermissionDenied):
        raise
    except A2AError as error:
        return Refused(error)


def _get(service: A2AService, context: CallContext, params: TaskQueryParams) -> Result:
    request = GetTaskRequest(id=params.id, history_length=params.history_length or None)
    return Result(results.task(service.get_task(context, request)))


def _cancel(service: A2AService, context: CallContext, params: TaskIdParams) -> Result:
    request = CancelTaskRequest(id=params.id, metadata=params.metadata)
    return Result(results.task(service.cancel_task(context, request)))


def _set_push(service: A2AService, context: CallContext, params: TaskPushNotificationConfig) -> Result:
    request = params.push_notification_config.current(params.task_id)
    return Result(results.push_config(service.create_push_config(context, request)))


def _get_push(
    service: A2AService, context: CallContext, params: GetTaskPushNotificationConfigParams
) -> Result:
    """Without an id the first one, which is the only one of most clients."""
    if params.push_notification_config_id is not None:
        request = GetTaskPushNotificationConfigRequest(
            task_id=params.id, id=params.push_notification_config_id
        )
        return Result(results.push_config(service.get_push_config(context, request)))
    first = ListTaskPushNotificationConfigsRequest(task_id=params.id, page_size=1)
    configs = service.list_push_configs(context, first).configs
    if not configs:
        raise TaskNotFound("The task has no push notification configuration")
    return Result(results.push_config(configs[0]))


def _list_push(service: A2AService, context: CallContext, params: TaskIdParams) -> Result:
    request = ListTaskPushNotificationConfigsRequest(task_id=params.id, page_size=MAX_PUSH_CONFIGS)
    listed = service.list_push_configs(context, request)
    return Result([results.push_config(config) for config in listed.configs])


def _delete_push(
    service: A2AService, context: CallContext, params: DeleteTaskPushNotificationConfigParams
) -> Result:
    request = DeleteTaskPushNotificationConfigRequest(
        task_id=params.id, id=params.push_notification_config_id
    )
    service.delete_push_config(context, request)
    return Result(None)


def _extended_card(service: A2AService, context: CallContext, _params: Wire) -> Result:
    return Result(merged(service.get_extended_agent_card(context, GetExtendedAgentCardRequest())))


def _method(operation: Operation, name: str, params: type[Wire], call: Callable[..., Any]) -> Operation:
    return replace(operation, name=name, request=params, call=call, version=PROTOCOL_VERSION_0_3)


OPERATIONS = (
    _method(operations.SEND_MESSAGE, "message/send", MessageSendParams, _send),
    _method(operations.SEND_STREAMING_MESSAGE, "message/stream", MessageSendParams, _stream),
    _method(operations.GET_TASK, "tasks/get", TaskQueryParams, _get),
    _method(operations.CANCEL_TASK, "tasks/cancel", TaskIdParams, _cancel),
    _method(operations.SUBSCRIBE_TO_TASK, "tasks/resubscribe", TaskIdParams, _resubscribe),
    _method(
        operations.CREATE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/set",
        TaskPushNotificationConfig,
        _set_push,
    ),
    _method(
        operations.GET_PUSH_CONFIG,
        "tasks/pushNotificationConfig/get",
        GetTaskPushNotificationConfigParams,
        _get_push,
    ),
    _method(operations.LIST_PUSH_CONFIGS, "tasks/pushNotificationConfig/list", TaskIdParams, _list_push),
    _method(
        operations.DELETE_PUSH_CONFIG,
        "tasks/pushNotificationConfig/delete",
        DeleteTaskPushNotificationConfigParams,
        _delete_push,
    ),
    _method(operations.GET_EXTENDED_CARD, "agent/getAuthenticatedExtendedCard", Wire, _extended_card),
)
