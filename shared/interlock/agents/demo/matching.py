"""Which of the demo's skills a message is for."""

from collections.abc import Callable

from interlock.a2a.models import Message


def text_begins_with(*prefixes: str) -> Callable[[Message], bool]:
    return lambda message: message.text.startswith(prefixes)
