"""A2A 0.3.0 over JSON-RPC: its methods and its shapes, over the operations of 1.0.

What 0.3 has no word for is left out (the media type and name of a text), or wrapped (data that is no object).
"""

from interlock.a2a.v0_3.card import merged
from interlock.a2a.v0_3.operations import OPERATIONS

__all__ = ["OPERATIONS", "merged"]
