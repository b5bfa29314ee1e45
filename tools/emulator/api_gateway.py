"""What the emulator's API Gateway lacks for the template's REST API to be called as on AWS."""

from typing import Any

from ministack.services import apigateway_v1


class FunctionFailed(Exception):
    pass


def install() -> None:
    _read_gateway_responses()
    _answer_for_failed_functions()


def _read_gateway_responses() -> None:
    """The responses to what the gateway itself refuses are part of the API's definition, and are skipped."""
    import_api = apigateway_v1._import_rest_api

    def import_with_responses(definition: dict[str, Any], *args: Any) -> str:
        api_id: str = import_api(definition, *args)
        responses = definition.get("x-amazon-apigateway-gateway-responses", {})
        for response_type, response in responses.items():
            apigateway_v1._put_gateway_response(api_id, response_type, response)
        return api_id

    apigateway_v1._import_rest_api = import_with_responses


def _answer_for_failed_functions() -> None:
    """A function's error is shown to the caller, where AWS answers with the response to any 5XX."""
    read, invoke = apigateway_v1._lambda_proxy_response, apigateway_v1._invoke_lambda_proxy_v1

    def read_result(result: dict[str, Any]) -> Any:
        if result.get("error"):
            raise FunctionFailed
        return read(result)

    async def invoke_function(*args: Any, **options: Any) -> Any:
        try:
            return await invoke(*args, **options)
        except FunctionFailed:
            return apigateway_v1._gw_error("DEFAULT_5XX", "Internal server error")

    apigateway_v1._lambda_proxy_response = read_result
    apigateway_v1._invoke_lambda_proxy_v1 = invoke_function


def front(app: Any, port: int) -> Any:
    """The app, with what comes in at `port` led to the only REST API that is deployed.

    An API is served below `/restapis/ID/STAGE/_user_request_/`. At this port its paths begin with the stage,
    as they do behind the names that API Gateway gives: a client that follows the URLs of an agent card
    would else leave the API for that of the emulator.
    """

    async def led(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["server"][1] == port:
            scope = {**scope, **_paths(scope)}
        await app(scope, receive, send)

    return led


def _paths(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: _below_api(scope[name]) for name in ("path", "raw_path") if scope.get(name)}


def _below_api(path: Any) -> Any:
    text = path.decode("latin-1") if isinstance(path, bytes) else path
    _, stage, rest = f"{text}/".split("/", 2)
    apis = [key[-1] for key in apigateway_v1._rest_apis._data]
    led = f"/restapis/{apis[0] if apis else 'none'}/{stage}/_user_request_/{rest[:-1]}"
    return led.encode("latin-1") if isinstance(path, bytes) else led
