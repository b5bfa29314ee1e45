"""Whom a question is put to, one after the other (hitl-mode-v1, "Reviewer resolution").

First the agent that dispatched the work, then its own dispatcher, and so on; then people, where they are;
then the operators. The chain is of authenticated identities: a name in somebody's metadata never gets in.
Its order says whom to tell next, not who may answer: people see the question in their inbox at once.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

PEOPLE = "people"
OPERATORS = "operators"
MAX_AGENTS = 8
"""In a chain; those further up are left out."""
PASS_ON = "hitl_pass_on"  # noqa: S105
"""In the metadata of a message of whoever is asked: `{prompt_id}`. So does a reply without content."""

PASSED = "passed"
TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Hop:
    """`who` is an identity, `people` or `operators`; `outcome` how it was passed on, once it was."""

    who: str
    outcome: str | None = None

    @property
    def agent(self) -> bool:
        return self.who not in (PEOPLE, OPERATORS)


def chain_of(owner: str, dispatchers: Sequence[str], *, straight_to_people: bool) -> list[Hop]:
    """`owner` is empty for a person. Whoever is in it twice is asked once, where they are nearest."""
    agents = [] if straight_to_people else [who for who in (owner, *dispatchers) if who]
    nearest = list(dict.fromkeys(agents))[:MAX_AGENTS]
    return [Hop(who) for who in (*nearest, PEOPLE, OPERATORS)]


def current(hops: Sequence[Hop]) -> Hop:
    """Who is asked now. The last never passes on."""
    return next((hop for hop in hops if hop.outcome is None), hops[-1])


def passed(hops: Sequence[Hop], outcome: str) -> list[Hop]:
    """After whoever is asked now has passed the question on, or their time is over."""
    at = hops.index(current(hops))
    return [*hops[:at], replace(hops[at], outcome=outcome), *hops[at + 1 :]]


def passed_to_last(hops: Sequence[Hop]) -> list[Hop] | None:
    """After all but the last were passed over by word. None: the last is asked already."""
    if current(hops) is hops[-1]:
        return None
    return [*(hop if hop.outcome else replace(hop, outcome=PASSED) for hop in hops[:-1]), hops[-1]]


def to_json(hops: Sequence[Hop]) -> str:
    return json.dumps([[hop.who, hop.outcome] if hop.outcome else [hop.who] for hop in hops])


def from_json(text: str) -> list[Hop]:
    rows: list[list[Any]] = json.loads(text)
    return [Hop(*row) for row in rows]
