"""The figures of the history: its newest part, and whether that is all."""

from datetime import timedelta

import pytest
from tests.support.approvals import asking_leave, decide
from tests.support.twin import AGENT, ANN, BEN, NOBODY, OPS, PLATFORM, SPY, START, Deployment, asking

from interlock.a2a.errors import PermissionDenied
from interlock.engine import figures as module
from interlock.engine.figures import figures
from interlock.oversight.principals import Principal
from interlock.oversight.statistics import Decider


def test_what_was_decided_is_in_the_figures_of_its_day() -> None:
    deployment = Deployment(asking_leave())
    for who, said in ((ANN, "approve"), (BEN, "deny")):
        task_id = deployment.send().id
        deployment.clock.advance(30)
        decide(deployment, who, task_id, said)
    deployment.clock.advance(24 * 3600)
    found = figures(deployment.engine, OPS, 2)
    assert [(day.date, dict(day.ends)) for day in found.days] == [
        (START.date(), {"approved": 1, "denied": 1}),
        (START.date() + timedelta(days=1), {}),
    ]
    assert found.days[0].median_wait == timedelta(seconds=30)
    assert found.people == [Decider(ANN.id, 1, 0), Decider(BEN.id, 1, 0)]
    assert (found.sampled, found.complete) == (2, True)
    assert figures(deployment.engine, ANN, 1).sampled == 0
    assert figures(deployment.engine, SPY, 2).sampled == 0


@pytest.mark.parametrize(("sampled", "complete"), [(2, False), (3, True)])
def test_only_the_newest_are_looked_at(monkeypatch: pytest.MonkeyPatch, sampled: int, complete: bool) -> None:
    monkeypatch.setattr(module, "SAMPLED", sampled)
    deployment = Deployment(asking())
    for _ in range(3):
        deployment.cancel(deployment.send().id)
    found = figures(deployment.engine, ANN, 1)
    assert (found.sampled, found.complete) == (sampled, complete)


@pytest.mark.parametrize("who", [AGENT, NOBODY, PLATFORM], ids=lambda who: who.id)
def test_others_see_none(who: Principal) -> None:
    with pytest.raises(PermissionDenied):
        figures(Deployment(asking()).engine, who, 1)
