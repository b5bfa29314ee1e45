"""The methods of 0.3 (A2A 0.3.0, section 7), each over the operation of 1.0 that it became.

They take the gate of that operation with them, so that 0.3 offers what the card declares and nothing else.
There is no method for lists of tasks.
"""

from dataclasses import replace

from interlock.a2a import operations
from interlock.a2a.errors import TaskNotFound
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
from interlock.a2a.service import A2AService, CallContext
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
from interlock.a2a.v0_3.results import Events, Result

MAX_PUSH_CONFIGS = 100
"""In a list: 0.3 has no pages."""


def _send(service: A2AService, context: CallContext, params: MessageSendParams) -> Result:
    response = service.send_message(context, params.current)
    return Result(results.task_or_message(response.task, response.message))


def _stream(service: A2AService, context: CallContext, params: MessageSendParams) -> Events:
    return Events(service.send_streaming_message(context, params.current))


def _resubscribe(service: A2AService, context: CallContext, params: TaskIdParams) -> Events:
    return Events(service.subscribe_to_task(context, SubscribeToTaskRequest(id=params.id)))


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


OPERATIONS = (
    replace(operations.SEND_MESSAGE, name="message/send", request=MessageSendParams, call=_send),
    replace(
        operations.SEND_STREAMING_MESSAGE, name="message/stream", request=MessageSendParams, call=_stream
    ),
    replace(operations.GET_TASK, name="tasks/get", request=TaskQueryParams, call=_get),
    replace(operations.CANCEL_TASK, name="tasks/cancel", request=TaskIdParams, call=_cancel),
    replace(operations.SUBSCRIBE_TO_TASK, name="tasks/resubscribe", request=TaskIdParams, call=_resubscribe),
    replace(
        operations.CREATE_PUSH_CONFIG,
        name="tasks/pushNotificationConfig/set",
        request=TaskPushNotificationConfig,
        call=_set_push,
    ),
    replace(
        operations.GET_PUSH_CONFIG,
        name="tasks/pushNotificationConfig/get",
        request=GetTaskPushNotificationConfigParams,
        call=_get_push,
    ),
    replace(
        operations.LIST_PUSH_CONFIGS,
        name="tasks/pushNotificationConfig/list",
        request=TaskIdParams,
        call=_list_push,
    ),
    replace(
        operations.DELETE_PUSH_CONFIG,
        name="tasks/pushNotificationConfig/delete",
        request=DeleteTaskPushNotificationConfigParams,
        call=_delete_push,
    ),
    replace(
        operations.GET_EXTENDED_CARD,
        name="agent/getAuthenticatedExtendedCard",
        request=Wire,
        call=_extended_card,
    ),
)
