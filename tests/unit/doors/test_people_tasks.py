"""A task and what was delegated below it, at the people's door."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.calls import call
from tests.support.twin import Deployment, message, nothing, running

from interlock.a2a.models import TaskState
from interlock.engine import tree as trees
from interlock.engine.ports import Put
from interlock.engine.records import Delegation


class Family:
    """Tasks of one tenant, and which of them has delegated which."""

    def __init__(self) -> None:
        self.deployment = Deployment(running(nothing), at_once=False)
        self.app = self.deployment.people_door()
        self.root = self.deployment.send().id
        self._made = 0

    def delegate(self, parent: str, *, known: bool = True, here: bool = True, **changes: Any) -> str:
        """The id of the child, or where it is elsewhere, of what would be one."""
        self._made += 1
        delegation_id = f"delegation-{self._made}"
        child = self.deployment.send(message("go", context_id=delegation_id)).id if here else "elsewhere"
        made = Delegation(
            tenant="acme",
            task_id=parent,
            id=delegation_id,
            to="self" if here else "https://other.example",
            turn=1,
            fence=1,
            made_at=f"2026-01-01T12:00:{self._made:02}.000000Z",
            send_until="2026-01-01T12:01:00.000000Z",
            child=child if known else None,
            **changes,
        )
        meta = replace(self.deployment.meta(parent), delegates=True)
        self.deployment.table.write(Put(made.key, made.item()), Put(meta.key, meta.item()))
        return child

    def get(self, task_id: str, who: str = "ann") -> Any:
        return call(self.app, "GET", f"/people/tasks/{task_id}/tree", who=who)


@pytest.fixture
def family() -> Family:
    return Family()


def test_a_task_that_has_delegated_nothing_is_a_tree_of_one(family: Family) -> None:
    tree = family.get(family.root).json()
    root = {"level": 0, "taskId": family.root, "agent": "desk", "skill": "work"}
    assert tree == {"nodes": [{**root, "state": "TASK_STATE_SUBMITTED"}], "complete": True}


def test_a_parent_comes_before_its_children_and_they_in_the_order_they_were_made(family: Family) -> None:
    first = family.delegate(family.root)
    second = family.delegate(family.root, status="settled", outcome="completed")
    below = family.delegate(first)
    nodes = family.get(family.root).json()["nodes"]
    assert [(node["level"], node["taskId"]) for node in nodes] == [
        (0, family.root),
        (1, first),
        (2, below),
        (1, second),
    ]
    made_by = nodes[3]["delegation"]
    assert made_by == {
        "id": "delegation-2",
        "to": "self",
        "status": "settled",
        "outcome": "completed",
        "child": second,
    }


def test_of_a_child_elsewhere_or_that_was_never_learned_of_there_is_its_delegation(family: Family) -> None:
    family.delegate(family.root, here=False)
    family.delegate(family.root, here=False, known=False, status="canceling", outcome="unreachable")
    _, elsewhere, unknown = family.get(family.root).json()["nodes"]
    assert "taskId" not in elsewhere
    assert elsewhere["delegation"]["child"] == "elsewhere"
    assert "taskId" not in unknown
    assert "child" not in unknown["delegation"]
    assert unknown["delegation"]["outcome"] == "unreachable"


def test_a_task_that_happens_to_have_the_id_of_a_child_elsewhere_is_not_shown(family: Family) -> None:
    other = family.deployment.send().id
    child = family.delegate(family.root, here=False)
    (key,) = (key for key in family.deployment.rows() if key.sk.startswith("DEL#"))
    made = Delegation.read(family.deployment.rows()[key])
    family.deployment.table.write(Put(key, replace(made, child=other).item()))
    _, node = family.get(family.root).json()["nodes"]
    assert child == "elsewhere"
    assert "taskId" not in node


def test_a_tree_that_is_too_large_says_that_there_is_more(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MAX_NODES", 2)
    family.delegate(family.root)
    assert family.get(family.root).json()["complete"] is True
    family.delegate(family.root)
    tree = family.get(family.root).json()
    assert (len(tree["nodes"]), tree["complete"]) == (2, False)


@pytest.mark.parametrize("who", ["peer", "nobody", "spy", "platform"])
def test_whoever_does_not_see_the_task_does_not_see_its_tree(family: Family, who: str) -> None:
    found, missing = family.get(family.root, who), family.get("none", who)
    assert found.status_code == missing.status_code == 404
    assert found.text.replace(family.root, "none") == missing.text


@pytest.mark.parametrize("who", ["agent", "ann", "ops"])
def test_its_owner_the_approvers_and_operators_do(family: Family, who: str) -> None:
    assert family.get(family.root, who).status_code == 200


class TestCancel:
    def cancel(self, family: Family, who: str) -> Any:
        return call(family.app, "POST", f"/people/tasks/{family.root}/cancel", who=who)

    @pytest.mark.parametrize("who", ["ann", "ops", "agent"])
    def test_whoever_sees_a_task_may_cancel_it(self, family: Family, who: str) -> None:
        assert self.cancel(family, who).json() == {"status": "canceled"}
        assert family.deployment.meta(family.root).task_state is TaskState.CANCELED
        assert self.cancel(family, who).json() == {"status": "canceled"}

    @pytest.mark.parametrize("who", ["peer", "nobody", "spy", "platform"])
    def test_nobody_else(self, family: Family, who: str) -> None:
        with family.deployment.unchanged():
            assert self.cancel(family, who).status_code == 404

    def test_what_has_ended_otherwise_is_not_canceled(self, family: Family) -> None:
        family.deployment.work()
        refused = self.cancel(family, "ann")
        assert (refused.status_code, refused.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
