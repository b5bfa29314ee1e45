"""What a halt over the twin has left behind."""

import json
from typing import Any

from tests.support.halting import ACME, ALL, DESK, WORK
from tests.support.twin import Deployment

from interlock.engine.facts import FACTS
from interlock.engine.halt import current, found_running
from interlock.engine.records import Halt, Stopped
from interlock.oversight.halts import Scope

SCOPES = (ALL, ACME, DESK, WORK)
"""From the widest to the narrowest."""


def standing(deployment: Deployment, scope: Scope = ACME) -> Halt:
    """The halt of the scope, also if it was lifted."""
    found = current(deployment.table, scope)
    assert found is not None
    return found


def report(deployment: Deployment, scope: Scope = ACME) -> list[Stopped]:
    """What the halt has stopped, so far."""
    return list(found_running(deployment.table, standing(deployment, scope)))


def facts(deployment: Deployment, *kinds: str, chain: str = "acme") -> list[dict[str, Any]]:
    """Those of the kinds, as they are recorded, oldest first."""
    rows = [(key, item) for key, item in deployment.rows().items() if key.pk == f"{FACTS}{chain}"]
    found = [json.loads(str(item["body"])) for _, item in sorted(rows, key=lambda row: row[0].sk)]
    return [fact for fact in found if fact["kind"] in kinds]
