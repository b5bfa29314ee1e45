"""Interlock: human oversight for A2A agents.

What an agent author needs is exported here, and loaded only when asked for, so that a Lambda
function that imports `interlock.engine` does not pay for agents.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.agents import Agent, Gate, Turn
else:

    def __getattr__(name):
        if name in __all__:
            return getattr(import_module("interlock.agents"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Agent", "Gate", "Turn"]
