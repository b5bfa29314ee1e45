"""A time as people say it on the command line."""

import re
from datetime import UTC, datetime, timedelta

from interlock.a2a.models import timestamp
from interlock.cli.output import Exit, Failure

WHEN = "A date, a time (of here, without an offset), or 8h, 3d, 2w from now."
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_FROM_NOW = re.compile(r"([1-9][0-9]{0,3})([mhdw])", re.ASCII)


def time_of(text: str, *, ago: bool = False) -> str:
    """A timestamp in UTC; `ago`: a span goes back from now. Raises `Failure`."""
    try:
        if found := _FROM_NOW.fullmatch(text):
            span = timedelta(**{UNITS[found[2]]: int(found[1])})
            return timestamp(datetime.now(UTC) + (-span if ago else span))
        return timestamp(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise Failure(f"{text} is no time: {WHEN[0].lower()}{WHEN[1:]}", Exit.USAGE) from None
