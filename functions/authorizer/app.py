"""Who calls: asked by the API before it lets a request through, and kept for a minute."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes import event_source
from aws_lambda_powertools.utilities.data_classes.api_gateway_authorizer_event import (
    APIGatewayAuthorizerRequestEvent,
    APIGatewayAuthorizerResponse,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from interlock import bootstrap
from interlock.a2a.errors import Unauthenticated

logger = Logger()


class Unauthorized(Exception):
    """API Gateway answers 401 to an authorizer that fails with exactly this text, and 500 to any other."""

    def __init__(self) -> None:
        super().__init__("Unauthorized")


@logger.inject_lambda_context
@event_source(data_class=APIGatewayAuthorizerRequestEvent)
def handler(event: APIGatewayAuthorizerRequestEvent, context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
    try:
        principal = bootstrap.authenticate(event.headers.get("Authorization"))
    except Unauthenticated:
        raise Unauthorized from None
    arn = event.parsed_arn
    policy = APIGatewayAuthorizerResponse(
        principal_id=principal.id,
        region=arn.region,
        aws_account_id=arn.aws_account_id,
        api_id=arn.api_id,
        stage=arn.stage,
        context={"tenant": principal.tenant},
        partition=arn.partition,
    )
    # The answer is kept for every method: one for this method alone would refuse the next one.
    policy.allow_all_routes()
    return policy.asdict()
