"""A web app behind the Lambda Web Adapter, which hands on over HTTP what a REST API of API Gateway is asked.

The adapter sets `x-amzn-request-context` itself, whatever the caller sent.
"""

import json

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.doors.stage import root_path

REQUEST_CONTEXT = "x-amzn-request-context"


def behind_web_adapter(app: ASGIApp) -> ASGIApp:
    """The app, which sees the API's stage as its root path, and of the event what Mangum would show it."""

    async def mounted(scope: Scope, receive: Receive, send: Send) -> None:
        handed_on = Headers(scope=scope).get(REQUEST_CONTEXT) if scope["type"] == "http" else None
        if handed_on is not None:
            context = json.loads(handed_on)
            root = root_path(context, scope["path"])
            event = {"requestContext": context}
            scope = {**scope, "root_path": root, "path": root + scope["path"], "aws.event": event}
        await app(scope, receive, send)

    return mounted
