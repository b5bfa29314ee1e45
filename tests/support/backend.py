"""What is behind the doors, on the emulator: the template's tables and queues, and the functions' handlers.

These run when a test says so, in this process or in one that can be killed.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import boto3
import pytest
from tests.support.emulator import Emulator
from tests.support.story import ROOT, eventually
from tests.support.twin import AGENT, PROMPTS, message
from tests.support.workshop import HALT, NOTES
from tools.emulator.streams import Mapping as StreamMapping
from tools.emulator.streams import StreamReader
from tools.laptop.template import data_template, event_source
from tools.laptop.workers import Context, Handler, deliver, load_handler

from interlock import bootstrap
from interlock.a2a.models import GetTaskRequest, Message, SendMessageConfiguration, SendMessageRequest, Task
from interlock.adapters.clock import SystemClock
from interlock.engine.context import Limits
from interlock.engine.get import get_task
from interlock.engine.ports import Item, Key
from interlock.engine.records import SHARDS, Checkpoint, Run, TaskMeta, due_pk, run_pk
from interlock.engine.send import send_message
from interlock.oversight.hitl_prompt import RESPONSE_KEY
from interlock.oversight.principals import Principal
from interlock.settings import Settings

if TYPE_CHECKING:
    from tools.emulator.streams import Clients
    from types_boto3_sqs.literals import QueueAttributeNameType

COUNTS: tuple["QueueAttributeNameType", ...] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
FUNCTIONS = ("turns", "timers", "stops", "outbox", "fanout")
LEASE_SECONDS = Settings().lease_seconds
WAKE_AGAIN_SECONDS = Limits().wake_again


@cache
def cloudformation(url: str) -> Any:
    return boto3.client("cloudformation", endpoint_url=url)


def create_resources(emulator: Emulator, visibility: int) -> dict[str, str]:
    """The template's tables and queues under names of their own. `visibility` is the queues', in seconds."""
    template = data_template()
    for queue in ("TurnsQueue", "TimersQueue", "StopsQueue"):
        properties = template["Resources"][queue]["Properties"]
        template["Resources"][queue] |= {"Properties": properties | {"VisibilityTimeout": visibility}}
    client, name = cloudformation(emulator.url), f"backend-{uuid4().hex}"
    client.create_stack(StackName=name, TemplateBody=json.dumps(template))

    def outputs() -> dict[str, str] | None:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
        assert stack["StackStatus"] in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE")
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    created = eventually(outputs)
    assert created is not None
    return created


@dataclass(frozen=True)
class Backend:
    """One deployment without doors. Nothing happens in it unless a test lets it happen."""

    emulator: Emulator
    outputs: Mapping[str, str]
    handlers: Mapping[str, Handler]
    notes: Path

    # Callers

    def send(self, text: str | Message, who: Principal = AGENT) -> Task:
        request = SendMessageRequest(
            message=message(text) if isinstance(text, str) else text,
            configuration=SendMessageConfiguration(return_immediately=True),
        )
        sent = send_message(bootstrap.engine(), bootstrap.agent(), who, request, extensions=PROMPTS)
        assert sent.task is not None
        return sent.task

    def answer(self, who: Principal, task_id: str, payload: Mapping[str, Any], **more: Any) -> Task:
        """Answers the prompt that is open."""
        return self.answer_to(self.meta(task_id).ask, task_id, who, payload, **more)

    def answer_to(
        self, prompt_id: str | None, task_id: str, who: Principal, payload: Mapping[str, Any], **more: Any
    ) -> Task:
        said = {"prompt_id": prompt_id, "payload": dict(payload)}
        return self.send(message("answer", task_id=task_id, metadata={RESPONSE_KEY: said}, **more), who)

    def get(self, task_id: str, who: Principal = AGENT) -> Task:
        return get_task(bootstrap.engine(), who, GetTaskRequest(id=task_id), extensions=PROMPTS)

    # Functions

    def work(self) -> int:
        """Runs the functions of turns and timers until their queues are empty. Returns how many batches there
        were."""
        done = 0
        while self._deliver("turns", "TurnsQueue", 1) or self._deliver("timers", "TimersQueue", 10):
            done += 1
        return done

    def walk(self) -> int:
        """Runs the function of the stops until their queue is empty. Returns how many messages there were."""
        done = 0
        while self._deliver("stops", "StopsQueue", 1):
            done += 1
        return done

    def deliver(self) -> int:
        """Runs the function of the outbox until its queue is empty. Returns how many messages there were."""
        done = 0
        while self._deliver("outbox", "OutboxQueue", 1):
            done += 1
        return done

    def _deliver(self, name: str, queue: str, batch_size: int) -> bool:
        sqs = self.emulator.sqs
        return deliver(sqs, self.outputs[queue], batch_size, name, self.handlers[name], wait_seconds=0)

    def sweep(self, after: float = 0.0) -> None:
        """A minute's schedule, `after` seconds from now."""
        with later(after):
            self.handlers["timers"]({"source": "aws.scheduler"}, Context("timers"))

    def fan_out(self) -> None:
        """Reads the table's stream from its beginning to its end."""
        source = event_source("FanoutFunction", "Stream")
        source["DestinationConfig"]["OnFailure"]["Destination"] = self.outputs["FanoutFailuresArn"]
        mapping = StreamMapping.read("fanout", self.outputs["CoreTableStreamArn"], source)
        clients = cast("Clients", boto3.session.Session().client)
        fanout = self.handlers["fanout"]
        StreamReader(mapping, lambda event: fanout(event, Context("fanout")), clients, UntilEmpty()).run()

    @contextmanager
    def worker(self) -> "Iterator[subprocess.Popen[bytes]]":
        """A worker of the turns' queue in a process of its own. Killed in the end, if it still lives."""
        command = [sys.executable, "-m", "tests.support.worker"]
        with subprocess.Popen(command, cwd=ROOT) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def halted_worker(self, point: str) -> "Iterator[subprocess.Popen[bytes]]":
        """A worker that has stopped itself at `point`, see `workshop.HALT`."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(HALT, point)
            with self.worker() as process:
                eventually(lambda: is_stopped(process))
                yield process

    def kill_worker(self, point: str) -> None:
        """Lets a worker come to `point`, and kills it there."""
        with self.halted_worker(point):
            pass

    # What is stored

    def messages(self, queue: str) -> int:
        """How many messages a queue has, those that somebody holds included."""
        url = self.outputs[queue]
        reply = self.emulator.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        counted = [int(reply["Attributes"][name]) for name in COUNTS]
        return sum(counted)

    def lose_messages(self, queue: str = "TurnsQueue") -> int:
        """Takes every message away before anybody has read it. Returns how many."""
        lost, sqs, url = 0, self.emulator.sqs, self.outputs[queue]
        while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            for found in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=found["ReceiptHandle"])
            lost += len(messages)
        return lost

    def letters(self, queue: str) -> list[Any]:
        """At most ten that are there to be read, which nobody else sees for a while."""
        url = self.outputs[queue]
        reply = self.emulator.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return [json.loads(found["Body"]) for found in reply.get("Messages", [])]

    def put(self, queue: str, body: str) -> None:
        self.emulator.sqs.send_message(QueueUrl=self.outputs[queue], MessageBody=body)

    def meta(self, task_id: str) -> TaskMeta:
        item = bootstrap.engine().table.get(TaskMeta.key_of(AGENT.tenant, task_id))
        assert item is not None
        return TaskMeta.read(item)

    def prompts(self, task_id: str) -> list[Checkpoint]:
        pk = TaskMeta.key_of(AGENT.tenant, task_id).pk
        rows = bootstrap.engine().table.query(pk, first="ASK#", last="ASK$").rows
        return [Checkpoint.read(item) for _, item in rows]

    def event_numbers(self, task_id: str) -> list[int]:
        pk = TaskMeta.key_of(AGENT.tenant, task_id).pk
        rows = bootstrap.engine().table.query(pk, first="EVT#", last="EVT$").rows
        return [int(key.sk.removeprefix("EVT#")) for key, _ in rows]

    def run_rows(self) -> list[Run]:
        return [Run.read(item) for number in range(SHARDS) for _, item in self._rows(run_pk(number))]

    def due_rows(self) -> list[Key]:
        return [key for number in range(SHARDS) for key, _ in self._rows(due_pk(number))]

    def _rows(self, pk: str) -> tuple[tuple[Key, Item], ...]:
        return bootstrap.engine().table.query(pk).rows

    def started(self, task_id: str) -> list[str]:
        """The effect key of each time that the agent's code was started for the task."""
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        return [key for task, key in map(str.split, lines) if task == task_id]


class UntilEmpty(threading.Event):
    """Stops a reader at the first pause it makes."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


def is_stopped(process: "subprocess.Popen[bytes]") -> bool:
    pid, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
    assert not pid or os.WIFSTOPPED(status), "the worker ended"
    return bool(pid)


@contextmanager
def later(seconds: float) -> Iterator[None]:
    """The clock of this process is ahead."""
    now = SystemClock.now

    def ahead(clock: SystemClock) -> datetime:
        return now(clock) + timedelta(seconds=seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", ahead)
        yield


@contextmanager
def running_backend(
    emulator: Emulator, folder: Path, *, visibility: int = 1, **settings: str
) -> Iterator[Backend]:
    """`settings` are further variables of the environment, which this process has meanwhile."""
    outputs = create_resources(emulator, visibility)
    notes = folder / "notes"
    environment = {
        "AWS_ENDPOINT_URL": emulator.url,
        "INTERLOCK_TABLE": outputs["CoreTable"],
        "INTERLOCK_IDENTITIES_TABLE": outputs["IdentitiesTable"],
        "INTERLOCK_TURNS_QUEUE": outputs["TurnsQueue"],
        "INTERLOCK_TIMERS_QUEUE": outputs["TimersQueue"],
        "INTERLOCK_STOPS_QUEUE": outputs["StopsQueue"],
        "INTERLOCK_OUTBOX_QUEUE": outputs["OutboxQueue"],
        "INTERLOCK_OUTBOX_DEAD_LETTERS": outputs["OutboxDeadLetters"],
        "INTERLOCK_AGENT": "tests.support.workshop:agent",
        "LOG_LEVEL": "CRITICAL",
        "POWERTOOLS_METRICS_DISABLED": "true",
        NOTES: str(notes),
        **settings,
    }
    with ExitStack() as undone, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        forget_parts()
        undone.callback(forget_parts)
        handlers = {name: load_handler(name, ROOT) for name in FUNCTIONS}
        yield Backend(emulator, outputs, handlers, notes)
        bootstrap.engine().guard.close()  # type: ignore[attr-defined]


def forget_parts() -> None:
    """What `bootstrap` made is of another environment."""
    for part in vars(bootstrap).values():
        if hasattr(part, "cache_clear"):
            part.cache_clear()
