"""A push notification configuration that comes with a message (SendMessageConfiguration)."""

from dataclasses import dataclass

from interlock.a2a.errors import (
    InvalidParams,
    PushNotificationNotSupported,
)
from interlock.a2a.models import (
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from interlock.engine.push import Push, new_config, prepare
from interlock.engine.records import (
    PushConfig,
    TaskMeta,
)
from interlock.oversight.principals import Principal


@dataclass(frozen=True, slots=True)
class InlinePush:
    """The push notification configuration that came with a message."""

    push: Push
    asked: TaskPushNotificationConfig
    extensions: frozenset[str]

    def config(self, caller: Principal, meta: TaskMeta) -> PushConfig:
        """Of a new task."""
        return new_config(self.push, caller, meta, self.asked, self.extensions)

    def prepare(self, caller: Principal, task_id: str) -> PushConfig:
        """Of a task that is there, before the message is admitted."""
        return prepare(self.push, caller, task_id, self.asked, self.extensions)


def inline_push(
    push: Push | None, request: SendMessageRequest, extensions: frozenset[str]
) -> InlinePush | None:
    asked = request.configuration.task_push_notification_config if request.configuration else None
    if asked is None:
        return None
    if push is None:
        raise PushNotificationNotSupported
    if asked.task_id is not None and asked.task_id != request.message.task_id:
        raise InvalidParams("taskPushNotificationConfig.taskId is not the message's")
    return InlinePush(push, asked, extensions)
