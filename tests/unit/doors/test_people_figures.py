"""Statistics and the search of the trail, at the people's door."""

import pytest
from tests.support.approvals import DIGEST
from tests.support.twin import ANN
from tests.unit.doors.test_people import ApprovalDoor, Door, refusal

from interlock.engine.calls import Calls
from interlock.engine.seal import Sealer, seal


def test_the_figures_are_shown() -> None:
    door = ApprovalDoor()
    door.deployment.clock.advance(90.5)
    door.decide(viewedMs=2999)
    shown = door.get("/people/statistics?days=1").json()
    assert shown == {
        "days": [
            {
                "date": "2026-01-01",
                "approved": 1,
                "denied": 0,
                "answered": 0,
                "changesRequested": 0,
                "expired": 0,
                "canceled": 0,
                "medianWaitSeconds": 90.5,
                "p90WaitSeconds": 90.5,
            }
        ],
        "byPerson": [{"who": ANN.id, "decisions": 1, "approvedUnder3s": 1, "share": 1.0}],
        "sampled": 1,
        "complete": True,
        "now": "2026-01-01T12:01:30.500Z",
    }
    assert len(door.get("/people/statistics").json()["days"]) == 7
    assert door.get("/people/statistics?days=30").status_code == 200


@pytest.mark.parametrize("days", ["0", "31", "-1", "x", ""])
def test_from_1_to_30_days(days: str) -> None:
    refusal(Door().get(f"/people/statistics?days={days}"), 400, "INVALID_PARAMS")


def test_the_figures_are_for_approvers_and_operators() -> None:
    refusal(Door().get("/people/statistics", "nobody"), 403, "PERMISSION_DENIED")


def test_the_trail_is_searched_by_operators() -> None:
    door = ApprovalDoor()
    deployment = door.deployment
    deployment.calls = Calls(deployment.engine)
    door.app = deployment.people_door()
    door.decide()
    deployment.clock.advance(60)
    seal(Sealer(deployment.table, deployment.clock), "acme")
    query = f"?task={door.task_id}&who={ANN.id}&method=people.decide_one&kind=call"
    found = door.get(
        f"/people/audit{query}&after=2026-01-01T12:00:00Z&before=2026-01-01T12:01:00Z", "ops"
    ).json()
    (record,) = found["records"]
    assert (record["schema"], record["taskId"], record["chain"]) == ("a2a-audit/1", door.task_id, "acme")
    assert found["looked"] > 1
    assert "cursor" not in found
    (approval,) = door.get("/people/audit?kind=approval", "ops").json()["records"]
    assert approval["digests"]["action"] == DIGEST
    assert door.get("/people/audit?before=2026-01-01T12:00:00Z", "ops").json()["records"] == []
    refusal(door.get("/people/audit"), 403, "PERMISSION_DENIED")
    assert door.get("/people/audit", "spy").json()["records"] == []


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x",
        "after=now",
        "before=",
        "task=",
        f"task={'t' * 257}",
        f"who={'w' * 273}",
        f"kind={'k' * 129}",
        f"method={'m' * 129}",
        f"after={'2' * 65}",
    ],
)
def test_what_is_malformed_is_refused(query: str) -> None:
    refusal(Door().get(f"/people/audit?{query}", "ops"), 400, "INVALID_PARAMS")
