"""A web app behind a REST API of API Gateway."""

import logging
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from mangum import Mangum
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.doors.stage import root_path

UNHANDLED_ERRORS = "UnhandledErrors"
_TEXT = ["text/", "application/json", "application/a2a+json", "application/problem+json", "image/svg+xml"]
"""Whatever is not named here, Mangum answers in base64."""

logger = Logger()


def gateway_handler(app: ASGIApp) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """A Lambda handler for the app, which sees the API's stage as its root path."""
    # It would log the same traceback again, without the request's ids.
    logging.getLogger("mangum.http").disabled = True
    return Mangum(_Mounted(app), lifespan="off", text_mime_types=_TEXT)


class _Mounted:
    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            root = root_path(scope["aws.event"]["requestContext"], scope["path"])
            await self.app({**scope, "root_path": root, "path": root + scope["path"]}, receive, send)
        except Exception:
            # Mangum answers for it, so that Lambda counts no error.
            logger.exception("The app failed")
            metrics = Metrics()
            metrics.add_metric(UNHANDLED_ERRORS, MetricUnit.Count, 1)
            metrics.flush_metrics()
            raise
