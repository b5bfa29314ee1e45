"""The people's change feed, which waits: none of the concurrency of their door is taken by it."""

import sys
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel

from interlock import bootstrap
from interlock.doors.api_gateway import gateway_handler

# As in the people's door, before FastAPI is imported.
BaseModel.model_config["defer_build"] = True
sys.modules["pydantic.v1"] = None  # type: ignore[assignment]

logger = Logger()
_serve = gateway_handler(bootstrap.feed_door())


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return _serve(event, context)
