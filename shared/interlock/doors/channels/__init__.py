"""The channels' door: what people press in a chat, say in an issue, or send from the page of a mail's link.

It has no bearer tokens: a platform signs what it sends, and a link of a mail is its own credential. Both are
checked before anything is parsed.
"""

from starlette.applications import Starlette

from interlock.doors.channels import discord, linear, mail, slack
from interlock.doors.channels.door import Door, failed


def create_app(door: Door) -> Starlette:
    routes = [route for channel in (discord, linear, mail, slack) for route in channel.routes(door)]
    return Starlette(routes=routes, exception_handlers={Exception: failed})
