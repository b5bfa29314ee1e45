"""The body of a request, read no further than its limit."""

from starlette.requests import ClientDisconnect, Request

from interlock.a2a.errors import InvalidRequest, RequestTooLarge


async def read_body(request: Request, limit: int) -> bytes:
    """`limit` is in bytes.

    Raises `RequestTooLarge` as soon as the length is announced, or has come in, and `InvalidRequest` for a
    body that breaks off.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 15 or int(announced) > limit):
        raise RequestTooLarge
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise RequestTooLarge
    except ClientDisconnect:
        raise InvalidRequest("The request ended early") from None
    return bytes(body)
