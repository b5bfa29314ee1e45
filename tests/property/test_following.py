"""Who follows a task: streams and web hooks are told its log, in its order, under interleavings and crashes.

The story: a streaming send with a web hook, turns on two workers, two more streams, another web hook that is
added on the way, an answer, a cancel, workers that deliver, a worker that is lost, the sweeper. The receiver
always acknowledges, but whoever called it may die, or be held up, before that is kept.
"""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.world import Broken, Faults, OneSkill, Schedule, StoppedClock, World

from interlock.a2a.errors import A2AError
from interlock.a2a.models import (
    CancelTaskRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from interlock.a2a.models import Role as MessageRole
from interlock.engine import push
from interlock.engine.answer import Answer, admit_answer
from interlock.engine.cancel import cancel_task
from interlock.engine.follow import DirectReply, TaskStream, send_streaming_message, subscribe_to_task
from interlock.engine.ports import Delete, Put, Update, Write
from interlock.engine.push import Push
from interlock.engine.records import Checkpoint, PushConfig, TaskMeta, read_event
from interlock.engine.run_turn import TurnRun
from interlock.engine.send import send_message
from interlock.engine.sweep import sweep
from interlock.engine.view import stream_response
from interlock.oversight.principals import Kind, Principal, Role

AGENT = Principal("bearer:agent", "acme", Kind.SERVICE, frozenset({Role.CALLER}))
ANN = Principal("bearer:ann", "acme", Kind.PERSON, frozenset({Role.APPROVER}))
INLINE, ADDED = "https://hooks.example/inline", "https://hooks.example/added"
NONE: frozenset[str] = frozenset()

EXAMPLES = int(os.environ.get("INTERLOCK_PROPERTY_EXAMPLES", "400")) // 2
ROUNDS = int(os.environ.get("INTERLOCK_PROPERTY_ROUNDS", "1500")) // 3


class TickingClock(StoppedClock):
    """No two events are of the same time, so that each can be told from the others."""

    def now(self) -> Any:
        self.time += timedelta(milliseconds=1)
        return self.time


def speaks_and_asks(run: TurnRun) -> None:
    if run.answer is None:
        run.say("thinking")
        run.ask("Go on?", {"type": "object"})
    else:
        run.say("going on")
        run.finish(TaskState.COMPLETED, "done")


class Plain:
    """Implements `Sealer`: what is sealed is not explored here."""

    def __init__(self) -> None:
        self._number = 0

    def seal(self, secret: bytes, context: str) -> bytes:
        self._number += 1
        return b"%d|%s" % (self._number, secret)

    def unseal(self, sealed: bytes, context: str) -> bytes:
        return sealed.partition(b"|")[2]


@dataclass
class Story:
    """Also implements `Receiver`: what arrives, by URL. `once`: no event may arrive twice."""

    world: World
    once: bool = False
    arrived: dict[str, list[str]] = field(default_factory=dict)
    heard: dict[str, tuple[TaskStream, list[str]]] = field(default_factory=dict)
    parked: list[PushConfig] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.push = Push(self.world.engine, Plain(), self, self.parked.append)
        self.world.deliver = self.deliver_again

    # What is there, looked at without a step.

    def meta(self) -> TaskMeta | None:
        for pk, partition in self.world.table._partitions.items():
            if pk.startswith("T#") and "META" in partition.items:
                return TaskMeta.read(partition.items["META"][0])
        return None

    def rows(self, prefix: str) -> list[tuple[str, Any]]:
        meta = self.meta()
        found = self.world.rows(meta.key.pk) if meta is not None else []
        return [(key.sk, item) for key, item in found if key.sk.startswith(prefix)]

    def log(self) -> list[str]:
        """What a stream says of each event."""
        meta = self.meta()
        assert meta is not None
        return [stream_response(meta, read_event(item), NONE).wire_json() for _, item in self.rows("EVT#")]

    # The receiver.

    def check(self, url: str) -> None:
        pass

    def post(self, url: str, headers: dict[str, str], body: bytes) -> None:
        before = self.arrived.setdefault(url, [])
        if self.once and body.decode() in before:
            raise Broken(f"I8 {url} was sent one event by two workers")
        before.append(body.decode())

    # The actors.

    def send(self) -> str:
        stream = send_streaming_message(
            self.world.engine, OneSkill(), AGENT, self._sent(), extensions=NONE, push=self.push
        )
        assert not isinstance(stream, DirectReply)
        return self.follow("send", stream)

    def send_and_leave(self) -> None:
        send_message(self.world.engine, OneSkill(), AGENT, self._sent(), extensions=NONE, push=self.push)

    def _sent(self) -> SendMessageRequest:
        config = TaskPushNotificationConfig(url=INLINE, id="inline")
        return SendMessageRequest(
            message=Message(message_id="m-1", role=MessageRole.USER, parts=[Part(text="go")]),
            configuration=SendMessageConfiguration(
                task_push_notification_config=config, return_immediately=True
            ),
        )

    def subscribe(self, name: str, who: Principal) -> Callable[[], str]:
        def actor() -> str:
            meta = self.world.wait_for(self.meta)
            request = SubscribeToTaskRequest(id=meta.task_id)
            return self.follow(name, subscribe_to_task(self.world.engine, who, request, extensions=NONE))

        return actor

    def follow(self, name: str, stream: TaskStream) -> str:
        heard: list[str] = []
        self.heard[name] = stream, heard
        while not stream.ended:
            heard += [response.wire_json() for response in stream.read()]
        stream.close()
        return "to the end"

    def add(self) -> None:
        meta = self.world.wait_for(self.meta)
        config = TaskPushNotificationConfig(url=ADDED, id="added", task_id=meta.task_id)
        push.create(self.push, AGENT, config, extensions=NONE)

    def work(self) -> None:
        wakes = self.world.wakes.turns
        self.world.wait_for(lambda: wakes)
        self.world.work(*list(wakes)[self.world.schedule.choose(len(wakes))])

    def answer(self) -> None:
        prompts = self.world.wait_for(lambda: self.rows("ASK#"))
        prompt = Checkpoint.read(prompts[0][1])
        payload: dict[str, Any] = {"yes": True}
        said = {"prompt_id": prompt.ask_id, "payload": payload}
        message = Message(
            message_id="a-1",
            role=MessageRole.USER,
            parts=[Part(text="answer")],
            metadata={"hitl_response_for": said},
        )
        admit_answer(self.world.engine, Answer(ANN, prompt.task_id, prompt.ask_id, payload, message))

    def cancel(self) -> None:
        meta = self.world.wait_for(self.meta)
        for _ in range(3):
            self.world.pause()
        cancel_task(self.world.engine, AGENT, CancelTaskRequest(id=meta.task_id), extensions=NONE)

    def deliver(self, tenant: str, task_id: str) -> None:
        push.deliver(self.push, tenant, task_id, 60)

    def deliver_again(self, tenant: str, task_id: str) -> None:
        """After all who were at work have died, perhaps between a request and its acknowledgement."""
        self.once = False
        self.deliver(tenant, task_id)

    def deliverer(self) -> None:
        """Woken by the stream of the table for any event, and so at any time."""
        meta = self.world.wait_for(lambda: (m := self.meta()) and m.push and m.seq > 1 and m)
        self.deliver(meta.tenant, meta.task_id)

    def time_passes(self) -> None:
        self.world.pause()
        self.world.clock.time += timedelta(minutes=2)

    def sweeper(self) -> None:
        self.world.wait_for(self.meta)
        sweep(self.world.engine)

    def all(self) -> dict[str, Callable[[], Any]]:
        return {
            "send": self.send,
            "worker 1": self.work,
            "deliverer 1": self.deliverer,
            "reader 1": self.subscribe("reader 1", AGENT),
            "answer": self.answer,
            "add": self.add,
            "worker 2": self.work,
            "deliverer 2": self.deliverer,
            "lease lapses": self.time_passes,
            "reader 2": self.subscribe("reader 2", ANN),
            "sweeper": self.sweeper,
            "deliverer 3": self.deliverer,
            "cancel": self.cancel,
            "deliverer 4": self.deliverer,
        }

    # What must hold at rest.

    def at_rest(self) -> None:
        meta = self.meta()
        if meta is None:
            return
        log = self.log()
        for name, (stream, heard) in self.heard.items():
            self._streamed(name, stream, heard, log)
        configs = {str(item["config_id"]): PushConfig.read(item) for _, item in self.rows("PUSH#")}
        if "inline" not in configs:
            raise Broken("I8 a web hook that came with its task is lost")
        if self.parked:
            raise Broken("I8 a web hook that always acknowledges was given up")
        for config in configs.values():
            self._notified(config, meta, log)
        if self.world.due_rows():
            raise Broken("I8 a DUE row is left although all is delivered")

    def _streamed(self, name: str, stream: TaskStream, heard: Sequence[str], log: Sequence[str]) -> None:
        begin = stream._meta.seq
        if list(heard[1:]) != list(log[begin : begin + len(heard) - 1] if heard else []):
            raise Broken(f"I7 {name} was not told the log")
        if self.world.told.get(name) == "to the end" and heard:
            state = read_event(self.rows("EVT#")[begin + len(heard) - 2][1]).status
            if state is None or not (
                state.state.terminal or (name == "send" and state.state is TaskState.INPUT_REQUIRED)
            ):
                raise Broken(f"I7 {name} ended before its end")

    def _notified(self, config: PushConfig, meta: TaskMeta, log: Sequence[str]) -> None:
        url = INLINE if config.config_id == "inline" else ADDED
        numbers = [log.index(body) + 1 for body in self.arrived.get(url, [])]
        firsts = list(dict.fromkeys(numbers))
        if firsts != list(range(firsts[0], meta.seq + 1) if firsts else []):
            raise Broken(f"I8 {url} was sent {numbers} of {meta.seq}")
        if config.delivered != meta.seq:
            raise Broken(f"I8 {url} is at {config.delivered} of {meta.seq}")
        if url == INLINE and firsts[:1] not in ([2], [] if meta.seq == 1 else [2]):
            raise Broken(f"I8 {url} was sent {numbers}, and not from the first on")


def play(
    numbers: Sequence[int],
    *,
    sabotage: Callable[[Write], Write] = lambda write: write,
    fault_at: Mapping[int, int] = {},
    faults: bool = True,
    only: Sequence[str] = (),
) -> Story:
    """Plays the story, or the part of it that `only` names, and checks it at rest. Raises `Broken`."""
    world = World(
        Schedule(numbers),
        speaks_and_asks,
        sabotage=sabotage,
        fault_at=fault_at,
        faults=faults,
        clock=TickingClock(),
    )
    story = Story(world, once=not faults)
    actors = story.all() | {"send and leave": story.send_and_leave}
    try:
        world.run({name: actors[name] for name in only or story.all()})
        story.at_rest()
    except AssertionError as error:
        raise Broken(f"{error}\n" + "\n".join(world.trace)) from error
    return story


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.integers(0, 2**16), max_size=220))
def test_followers_are_told_the_log_whatever_happens(numbers: list[int]) -> None:
    play(numbers)


def schedules(seed: int, rounds: int) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(2**16) for _ in range(chance.randrange(40, 300))] for _ in range(rounds)]


def test_long_random_schedules_reach_every_way_to_follow() -> None:
    reached: set[str] = set()
    for numbers in schedules(1, ROUNDS):
        story = play(numbers)
        for name, (_, heard) in story.heard.items():
            reached |= {f"{name} heard {min(len(heard), 3)}", f"{name}: {story.world.told.get(name)}"}
        for url, bodies in story.arrived.items():
            reached.add(url)
            if len(set(bodies)) < len(bodies):
                reached.add(f"{url} twice")
        reached |= {type(told).__name__ for told in story.world.told.values() if isinstance(told, A2AError)}
    assert reached >= {
        "send: to the end",
        "send heard 3",
        "reader 1: to the end",
        "reader 1 heard 3",
        "reader 2 heard 3",
        "reader 1: None",
        INLINE,
        ADDED,
        f"{INLINE} twice",
        "UnsupportedOperation",
    }


def test_while_nothing_fails_each_event_arrives_once() -> None:
    """Whoever is not slower than a lease lets no other worker in."""
    actors = [name for name in Story(World(Schedule([]), speaks_and_asks)).all() if name != "lease lapses"]
    for numbers in schedules(3, ROUNDS):
        play(numbers, faults=False, only=actors)


NEVER_A_FAULT = [0] * 1000
IN_ORDER = ("send and leave", "worker 1", "deliverer 1", "add", "answer", "worker 2", "deliverer 2")


@pytest.mark.parametrize(
    "fault", [Faults.LOST_REPLY, Faults.NOT_CARRIED_OUT, Faults.DIES_BEFORE, Faults.DIES_AFTER]
)
def test_whatever_step_fails_or_is_the_last_all_is_delivered(fault: int) -> None:
    """Every step of the story in turn."""
    story = play(NEVER_A_FAULT, only=IN_ORDER)
    assert {url: len(bodies) for url, bodies in story.arrived.items()} == {INLINE: 6, ADDED: 3}
    steps = story.world.steps
    assert steps >= 30
    for step in range(1, steps + 1):
        play(NEVER_A_FAULT, only=IN_ORDER, fault_at={step: fault})


def astray(kind: type[Put] | type[Delete], record: str) -> Callable[[Write], Write]:
    def change(write: Write) -> Write:
        if isinstance(write, kind) and record in write.key.pk + write.key.sk:
            return Put(write.key, {}) if kind is Delete else Delete(write.key)
        return write

    return change


def skips_one(write: Write) -> Write:
    if isinstance(write, Update) and "PUSH#" in write.key.sk and "delivered" in write.set:
        return Update(
            write.key, {**write.set, "delivered": int(str(write.set["delivered"])) + 1}, write.remove
        )
    return write


def unmarked(write: Write) -> Write:
    """Events are as if their task had no web hooks."""
    if isinstance(write, Update) and write.key.sk == "META":
        return Update(write.key, {**write.set, "push": False}, write.remove, write.conditions)
    return write


@pytest.mark.parametrize(
    "mistake",
    [astray(Put, "#push#"), astray(Put, "PUSH#"), skips_one, unmarked],
    ids=["no guard", "no configuration", "an event is passed over", "no mark"],
)
def test_a_planted_mistake_is_found(mistake: Callable[[Write], Write]) -> None:
    def explore() -> None:
        for numbers in schedules(2, 300):
            play(numbers, sabotage=mistake)

    with pytest.raises(AssertionError, match=r"I7|I8"):
        explore()
