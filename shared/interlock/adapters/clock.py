"""The server's clock."""

import time
from datetime import UTC, datetime


class SystemClock:
    """Implements `Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
