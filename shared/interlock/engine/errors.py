"""What oversight adds to the protocol's errors (hitl-prompt/v1, "Acceptance and rejection")."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import JsonValue

from interlock.a2a.errors import A2AError, PermissionDenied, TaskNotFound, Unavailable
from interlock.engine.ports import ConditionFailed, StoreError, Write
from interlock.oversight import hitl_prompt
from interlock.oversight.schema_gate import Violation


class AnswerRefused(A2AError):
    """The prompt is unknown, or was answered, or is closed for another reason, which `why` names.

    `winner` is the identity whose answer was accepted: told to those who may see the task.
    """

    code = -32010
    http_status = 409
    status = "ABORTED"
    reason = "HITL_ALREADY_ANSWERED_OR_UNKNOWN"
    text = "hitl_already_answered_or_unknown"

    def __init__(self, prompt_id: str, why: str | None = None, winner: str | None = None) -> None:
        data: dict[str, JsonValue] = {"extension": hitl_prompt.URI, "prompt_id": prompt_id}
        if why is not None:
            data["reason"] = why
        super().__init__(extension_data=data, metadata={"winner": winner} if winner else None)


class AnswerInvalid(A2AError):
    """The payload breaks the response schema; the prompt stays open."""

    code = -32011
    http_status = 422
    status = "INVALID_ARGUMENT"
    reason = "HITL_RESPONSE_INVALID"
    text = "hitl_response_invalid"

    def __init__(self, prompt_id: str, violations: Sequence[Violation]) -> None:
        super().__init__(
            extension_data={
                "extension": hitl_prompt.URI,
                "prompt_id": prompt_id,
                "validation_errors": [
                    {"path": v.path, "keyword": v.keyword, "message": v.message} for v in violations
                ],
            }
        )


class UsedUp(PermissionDenied):
    """What a decision carries counts once, and has counted."""

    text = "This was used already"


def used_up_in(failed: ConditionFailed, writes: Sequence[Write], also: Sequence[Write]) -> UsedUp | None:
    """Whether a condition of what goes with a decision did not hold."""
    return UsedUp() if any(writes[number] in also for number in failed.old) else None


class SendCanceled(TaskNotFound):
    """The send of this idempotency key was canceled before it arrived: it made no task, and never will."""

    reason = "SEND_CANCELED"
    text = "The send was canceled before it arrived"


@contextmanager
def store_errors() -> Iterator[None]:
    """A store that does not answer is not the caller's fault, and none of its business: try again."""
    try:
        yield
    except StoreError as error:
        raise Unavailable(retry_after=1) from error
