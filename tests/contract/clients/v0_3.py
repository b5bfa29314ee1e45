# mypy: ignore-errors
"""The official SDK of A2A 0.3 as a client. Runs in tools/a2a-0.3, and prints what it was told, as JSON.

    python v0_3.py URL STREAMING_URL TOKEN

URL answers at once; STREAMING_URL declares streaming, and works while one looks.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientJSONRPCError
from a2a.types import (
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    GetTaskPushNotificationConfigParams,
    Message,
    MessageSendParams,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

PROMPTS = "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1"


def plain(value):
    return value.model_dump(mode="json", exclude_none=True)


def message(text, **more):
    return Message(message_id=str(uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))], **more)


def answer(task, **payload):
    metadata = {
        "hitl_response_for": {
            "prompt_id": task.status.message.metadata[PROMPTS]["prompt_id"],
            "payload": payload,
        }
    }
    return message("answer", task_id=task.id, context_id=task.context_id, metadata=metadata)


async def refusal(call):
    try:
        await call
    except A2AClientJSONRPCError as error:
        return plain(error.error)
    raise AssertionError("it was not refused")


class Caller:
    """A client for the card at `url`, as the SDK makes it; `headers` are of its last answer."""

    def __init__(self, http, url, **config):
        self.http, self.url = http, url
        self.config = ClientConfig(httpx_client=http, **config)
        self.headers = {}
        http.event_hooks["response"] = [self._seen]

    async def _seen(self, response):
        self.headers = dict(response.headers)

    async def connect(self):
        self.card = await A2ACardResolver(self.http, self.url).get_agent_card()
        self.client = ClientFactory(self.config).create(self.card)
        return self

    async def send(self, sent):
        """Every task, message or update that the client was given for it, as JSON and as it was then."""
        events = self.client.send_message(sent)
        return [plain(self._last(event)) async for event in events]

    @staticmethod
    def _last(event):
        return event if not isinstance(event, tuple) else event[1] or event[0]

    async def task(self, sent):
        (event,) = [event async for event in self.client.send_message(sent)]
        return event[0]


async def buffered(caller):
    client = caller.client
    done = await caller.task(message("go"))
    parts = [
        Part(root=TextPart(text="files")),
        Part(root=FilePart(file=FileWithBytes(bytes="aGk=", name="a.txt", mime_type="text/plain"))),
        Part(root=FilePart(file=FileWithUri(uri="https://example.com/a"))),
        Part(root=DataPart(data={"a": [1, None]}, metadata={"m": 1})),
    ]
    files = Message(message_id=str(uuid4()), role=Role.user, parts=parts, context_id="mine")
    sent = await caller.task(files)

    waiting = await caller.task(message("ask"))
    echoed = {name: value for name, value in caller.headers.items() if "a2a-extensions" in name}
    invalid = await refusal(caller.task(answer(waiting, approved="yes", extra=1)))
    answered = await caller.task(answer(waiting, approved=True))
    late = await refusal(caller.task(answer(waiting, approved=True)))

    canceled = await caller.task(message("ask"))
    said = await client.cancel_task(TaskIdParams(id=canceled.id))
    public = caller.card
    extended = await client.get_card()
    unknown = TaskQueryParams(id="none")
    hook = TaskPushNotificationConfig(
        task_id=done.id, push_notification_config=PushNotificationConfig(url="https://example.com/hook")
    )
    return {
        "card": plain(public),
        "extended": plain(extended),
        "done": plain(done),
        "got": plain(await client.get_task(TaskQueryParams(id=done.id, history_length=1))),
        "files": plain(sent),
        "reply": (await caller.send(message("hello")))[0],
        "waiting": plain(waiting),
        "echoed": echoed,
        "invalid": invalid,
        "answered": plain(answered),
        "late": late,
        "canceled": plain(said),
        "unknown": await refusal(client.get_task(unknown)),
        "over": await refusal(client.cancel_task(TaskIdParams(id=done.id))),
        "push": await refusal(client.set_task_callback(hook)),
        "no push": await refusal(client.get_task_callback(GetTaskPushNotificationConfigParams(id=done.id))),
        "no stream": await raw_error(caller, "message/stream", MessageSendParams(message=message("go"))),
    }


async def raw_error(caller, method, params):
    """Where the client wants a stream, it does not look at an error that comes instead of one."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": plain(params)}
    answer = await caller.http.post(caller.card.url, json=request)
    return answer.json()["error"]


async def streaming(caller):
    asked = await caller.send(message("ask"))
    waiting = await caller.client.get_task(TaskQueryParams(id=asked[0]["id"]))
    followed = []

    async def follow():
        async for task, update in caller.client.resubscribe(TaskIdParams(id=waiting.id)):
            followed.append(plain(update or task))
            if len(followed) == 1:
                subscribed.set()

    subscribed = asyncio.Event()
    following = asyncio.create_task(follow())
    await asyncio.wait_for(subscribed.wait(), 20)
    answered = await caller.send(answer(waiting, approved=True))
    await asyncio.wait_for(following, 20)
    over = await refusal(anext(caller.client._transport.resubscribe(TaskIdParams(id=waiting.id))))
    return {"asked": asked, "answered": answered, "followed": followed, "over": over}


async def main(url, streaming_url, token):
    headers = {"Authorization": f"Bearer {token}"}
    told = {}
    for name, address, story in (("buffered", url, buffered), ("streaming", streaming_url, streaming)):
        async with httpx.AsyncClient(headers=headers, timeout=30) as http:
            caller = await Caller(http, address, extensions=[PROMPTS]).connect()
            told[name] = await story(caller)
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
