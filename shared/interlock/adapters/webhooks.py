"""Deliveries to web hooks: one POST each, of whose answer only the status matters."""

import ssl

from interlock.adapters.outbound import CONNECT_SECONDS, Forbidden, NoAnswer, Outbound, Resolve, resolve
from interlock.engine.push import DeliveryFailed

TOTAL_SECONDS = 15.0
"""To the head of the answer."""


class WebHooks:
    """Implements `Receiver`. `local` is for a laptop: addresses of any kind, and plain HTTP."""

    def __init__(
        self,
        *,
        local: bool = False,
        resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        total_seconds: float = TOTAL_SECONDS,
    ) -> None:
        self._outbound = Outbound(local=local, resolve=resolve, tls=tls, connect_seconds=connect_seconds)
        self._total_seconds = total_seconds

    def check(self, url: str) -> None:
        self._outbound.check(url)

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        try:
            answer = self._outbound.request("POST", url, headers, body, seconds=self._total_seconds)
        except (Forbidden, NoAnswer) as error:
            raise DeliveryFailed(str(error)) from error
        if not 200 <= answer.status < 300:
            raise DeliveryFailed(f"the answer was {answer.status}")
