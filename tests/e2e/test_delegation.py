"""What was handed down ends when nobody looks after it any more, wherever its parent's process was killed."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types import a2a_pb2 as pb
from tests.support import sdk_agent
from tests.support.backend import LEASE_SECONDS, Backend, later, running_backend
from tests.support.crowd import FULL
from tests.support.emulator import Emulator
from tests.support.handing import AT_WORK, ENDED
from tests.support.holding import Holding, Way
from tests.support.loopback import served
from tests.support.peers import TASK, cut, peer, result
from tests.support.story import eventually, run_cli
from tests.support.twin import AGENT

from interlock import bootstrap
from interlock.a2a.models import CancelTaskRequest, ListTasksRequest, Task, TaskState
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.identities import IdentityStore
from interlock.engine.cancel import cancel_task
from interlock.engine.children import MAX_LOOKS, delegations
from interlock.engine.errors import SendCanceled
from interlock.engine.get import list_tasks
from interlock.engine.lease import LAPSED
from interlock.engine.records import Delegation
from interlock.oversight import delegation as terms
from interlock.oversight.delegation import Outcome
from interlock.oversight.principals import Kind, Role

OURS, THEIRS = "ours", "theirs"
FATES = list(product((OURS, THEIRS), ("canceled", "given up")))
RECORDED = "2"
"""The write of a worker after which the work is recorded, and was not sent: the first was the claim."""
GIVEN_UP = LEASE_SECONDS + 1
MINUTE = 60.0
ROUNDS = 40
"""Of a sweeper, in which what is to be done must be done."""
LEASE = 3.0


@dataclass
class Scene:
    """A deployment whose agent knows itself as `ours`, and an agent that is not ours as `theirs`."""

    backend: Backend
    doors: dict[str, Holding]
    stranger: sdk_agent.Works
    minutes: int = 0
    """That have passed."""

    @cached_property
    def approver(self) -> str:
        """Somebody's token."""
        table = DynamoTable(dynamodb_client(), self.backend.outputs["IdentitiesTable"])
        return IdentityStore(table, table).create("alice", AGENT.tenant, Kind.PERSON, (Role.APPROVER,))[1]

    def hand(self, to: str, *more: str) -> str:
        return self.backend.send(" ".join(("hand", to, *more))).id

    def cancel(self, task_id: str) -> None:
        cancel_task(bootstrap.engine(), AGENT, CancelTaskRequest(id=task_id), extensions=frozenset())

    def records(self, task_id: str) -> list[Delegation]:
        return delegations(bootstrap.engine().table, AGENT.tenant, task_id)

    def record(self, task_id: str) -> Delegation:
        (record,) = self.records(task_id)
        return record

    def handed(self, task_id: str) -> str | None:
        """The child's task, once it is known."""
        return next((record.child for record in self.records(task_id)), None)

    def how(self, task_id: str) -> tuple[str, str | None]:
        record = self.record(task_id)
        return record.status, record.outcome

    def shown(self, task_id: str) -> Any:
        """On the task itself."""
        return (self.backend.get(task_id).metadata or {})[terms.KEY]

    def children(self) -> list[Task]:
        """Of ours: the caller of the others is nobody."""
        who = bootstrap.anonymous()
        assert who is not None
        request = ListTasksRequest(include_artifacts=False)
        return list_tasks(bootstrap.engine(), who, request, extensions=frozenset()).tasks

    @property
    def working(self) -> bool:
        """Whether the code of a child runs, here or there."""
        return self.stranger.at_work > 0 or any(self.processes(child.id) for child in self.children())

    def processes(self, task_id: str) -> list[int]:
        """That have begun with its code and not ended."""
        notes = [note.split(":") for note in self.backend.started(task_id)]
        ended = [process for what, process in notes if what == ENDED]
        return [int(process) for what, process in notes if what == AT_WORK and process not in ended]

    def pass_minutes(self, until: Callable[[], bool], *, at_once: int = 1) -> None:
        """The sweeper goes round, and what it wakes for is done."""
        for _ in range(ROUNDS):
            if until():
                return
            self.minutes += at_once
            self.backend.sweep(after=self.minutes * MINUTE)
            with later(self.minutes * MINUTE):
                self.backend.deliver()
        raise AssertionError(f"not within {self.minutes} minutes")

    def check_at_rest(self) -> None:
        """Nothing is left that waits to be done."""
        self.pass_minutes(lambda: not self.backend.due_rows(), at_once=10)
        assert self.backend.run_rows() == []


@contextmanager
def setting(emulator: Emulator, folder: Path, way: Way | None = None) -> Iterator[Scene]:
    """The first send to either agent is held on that `way`."""
    known = folder / "peers.json"
    settings: dict[str, Any] = {
        "INTERLOCK_AGENT": "tests.support.handing:agent",
        "INTERLOCK_ANONYMOUS_TENANT": AGENT.tenant,
        "INTERLOCK_LOCAL_WEBHOOKS": "true",
        "INTERLOCK_PEERS": f"file:{known}",
    }
    stranger, doors = sdk_agent.Works(), dict[str, Holding]()

    def ours(url: str) -> Holding:
        doors[OURS] = Holding(bootstrap.agents_door(threads=True), way)
        return doors[OURS]

    def theirs(url: str) -> Holding:
        doors[THEIRS] = Holding(sdk_agent.create_app(url, "JSONRPC", works=stranger), way)
        return doors[THEIRS]

    with ExitStack() as ended:
        backend = ended.enter_context(running_backend(emulator, folder, **settings))
        urls = {name: ended.enter_context(served(app)) for name, app in ((OURS, ours), (THEIRS, theirs))}
        known.write_text(json.dumps({name: {"url": url} for name, url in urls.items()}))
        yield Scene(backend, doors, stranger)


def end(scene: Scene, parent: str, how: str) -> None:
    """What becomes of a task whose process was killed."""
    if how == "canceled":
        scene.cancel(parent)
        scene.backend.deliver()
        state = TaskState.CANCELED
    else:
        # Both wakes are lost: that of the sweeper, and that of the row which goes with the record.
        scene.backend.sweep(after=GIVEN_UP)
        assert scene.backend.lose_messages("OutboxQueue") > 0
        state = TaskState.FAILED
    assert scene.backend.meta(parent).state == state


def fates(*chosen: tuple[str, str]) -> pytest.MarkDecorator:
    """Who works, and what becomes of the parent."""
    return pytest.mark.parametrize(("to", "how"), FATES if FULL else chosen)


@fates((OURS, "canceled"), (THEIRS, "given up"))
def test_a_parent_is_killed_between_record_and_send(
    emulator: Emulator, tmp_path: Path, to: str, how: str
) -> None:
    with setting(emulator, tmp_path) as scene:
        parent = scene.hand(to)
        scene.backend.kill_worker(RECORDED)
        assert scene.how(parent) == (Delegation.OPEN, None)
        end(scene, parent, how)
        scene.pass_minutes(lambda: scene.record(parent).over)
        # Whoever knows no keys can not say that nothing will come of it.
        outcome = Outcome.CANCELED if to == OURS else Outcome.UNREACHABLE
        assert scene.how(parent) == (Delegation.SETTLED, outcome.value)
        (shown,) = scene.shown(parent)
        assert (shown["to"], shown["outcome"]) == (to, outcome.value)
        assert scene.children() == []
        assert scene.stranger.tasks.states == {}
        scene.check_at_rest()


@fates((OURS, "given up"), (THEIRS, "canceled"))
def test_a_parent_is_killed_while_its_send_is_on_its_way(
    emulator: Emulator, tmp_path: Path, to: str, how: str
) -> None:
    with setting(emulator, tmp_path, Way.THERE) as scene:
        parent = scene.hand(to)
        with scene.backend.worker():
            eventually(scene.doors[to].held.is_set)
        end(scene, parent, how)
        if to == OURS:
            scene.pass_minutes(lambda: scene.record(parent).over)
        scene.doors[to].let_go.set()
        eventually(scene.doors[to].answered.is_set)
        if to == OURS:
            assert SendCanceled.reason.encode() in scene.doors[to].answer
            assert scene.children() == []
        else:
            eventually(lambda: scene.stranger.at_work)
            scene.pass_minutes(lambda: scene.record(parent).over)
            assert list(scene.stranger.tasks.states.values()) == [pb.TASK_STATE_CANCELED]
            eventually(lambda: not scene.stranger.at_work)
        assert scene.how(parent) == (Delegation.SETTLED, Outcome.CANCELED.value)
        scene.check_at_rest()


@fates((OURS, "canceled"), (THEIRS, "given up"))
def test_a_parent_is_killed_between_send_and_reply(
    emulator: Emulator, tmp_path: Path, to: str, how: str
) -> None:
    with setting(emulator, tmp_path, Way.BACK) as scene:
        parent = scene.hand(to)
        with scene.backend.worker(), scene.backend.worker():
            eventually(scene.doors[to].held.is_set)
            eventually(lambda: scene.working)
            (process,) = scene.processes(parent)
            os.kill(process, signal.SIGKILL)
            assert scene.record(parent).child is None
            scene.doors[to].let_go.set()
            end(scene, parent, how)
            scene.pass_minutes(lambda: scene.record(parent).over)
            assert scene.how(parent) == (Delegation.SETTLED, Outcome.CANCELED.value)
            eventually(lambda: not scene.working)
        if to == OURS:
            assert [child.status.state for child in scene.children()] == [TaskState.CANCELED]
        else:
            assert list(scene.stranger.tasks.states.values()) == [pb.TASK_STATE_CANCELED]
        scene.check_at_rest()


def test_a_child_that_never_answers_its_cancel_is_parked_and_seen(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.adapters.peers.FIRST_PAUSE_SECONDS", 0.001)
    with setting(emulator, tmp_path) as scene, peer(result({"task": TASK}), cut) as silent:
        parent = scene.hand(silent.url)
        with scene.backend.worker():
            eventually(lambda: scene.handed(parent))
        scene.cancel(parent)
        asked = len(silent.calls)
        scene.backend.deliver()
        assert len(silent.calls) > asked
        assert scene.how(parent) == (Delegation.CANCELING, None)
        scene.pass_minutes(lambda: scene.record(parent).over, at_once=10)
        record = scene.record(parent)
        assert record.looked == MAX_LOOKS - 1
        assert scene.how(parent) == (Delegation.PARKED, Outcome.CANCEL_FAILED.value)
        (letter,) = scene.backend.letters("OutboxDeadLetters")
        assert letter == {"tenant": AGENT.tenant, "task": parent, "delegation": record.id}
        (shown,) = scene.shown(parent)
        assert shown == {
            "id": record.id,
            "to": silent.url,
            "status": "parked",
            "taskId": TASK["id"],
            "outcome": "cancel_failed",
        }
        with served(lambda url: bootstrap.people_door()) as url:
            bearer = {"Authorization": f"Bearer {scene.approver}"}
            tree = httpx.get(f"{url}/people/tasks/{parent}/tree", headers=bearer).raise_for_status().json()
            environment = {"INTERLOCK_URL": url, "INTERLOCK_TOKEN": scene.approver}
            listed = run_cli("tasks", parent, environment=environment, folder=tmp_path).stdout
        assert tree["nodes"][1]["delegation"]["status"] == "parked"
        assert f"  {TASK['id']}  at {silent.url}  [parked: cancel_failed]" in listed.splitlines()
        scene.check_at_rest()


def test_leased_work_goes_on_while_its_parent_lives_and_ends_when_that_is_killed(
    emulator: Emulator, tmp_path: Path
) -> None:
    with setting(emulator, tmp_path) as scene:
        parent = scene.hand(OURS, str(LEASE))
        with scene.backend.worker(), scene.backend.worker():
            child = eventually(lambda: scene.handed(parent))
            assert child is not None
            eventually(lambda: scene.processes(child))
            until = time.monotonic() + LEASE + 1
            while time.monotonic() < until:
                scene.backend.sweep()
                scene.backend.deliver()
                assert scene.backend.meta(child).state == TaskState.WORKING
            (process,) = scene.processes(parent)
            os.kill(process, signal.SIGKILL)

            def lapsed() -> bool:
                scene.backend.sweep()
                return scene.backend.meta(child).state == TaskState.CANCELED

            eventually(lapsed)
            # By itself: nobody knows yet that the parent is lost.
            assert scene.backend.meta(parent).state == TaskState.WORKING
            assert scene.how(parent) == (Delegation.OPEN, None)
            eventually(lambda: not scene.processes(child))
        (ended,) = (task.status for task in scene.children())
        assert ended.message is not None
        assert ended.message.text == LAPSED
