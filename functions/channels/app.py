"""The channels' door."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging import correlation_paths
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.doors.api_gateway import gateway_handler

logger = Logger()
_serve = gateway_handler(bootstrap.channels_door())


@logger.inject_lambda_context(correlation_id_path=correlation_paths.API_GATEWAY_REST)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return _serve(event, context)
