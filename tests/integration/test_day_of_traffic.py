"""A day of traffic on the audit trail: exported by the command line, and verified by it with no network and
nothing but the public key."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp
from tests.support.bindings import BINDINGS, Client
from tests.support.calls import call
from tests.support.emulator import Emulator, create_table
from tests.support.signers import new_signer
from tests.support.story import run_cli
from tests.support.twin import APPROVAL, START, Deployment, message

from interlock.adapters.dynamodb import DynamoTable
from interlock.adapters.memory import MemoryTable
from interlock.adapters.signing import FileSigner
from interlock.agents import Agent, Turn
from interlock.agents.demo import agent as demo
from interlock.engine import facts
from interlock.engine.calls import Calls
from interlock.engine.facts import fact_pk
from interlock.engine.ports import Put, Table
from interlock.engine.retention import BATCH, MIN_DAYS, Held, hold, purge, release
from interlock.engine.seal import Sealer, checkpoints_pk, export, records_pk, rows, seal
from interlock.engine.sweep import sweep
from interlock.oversight import approvals, hitl_prompt
from interlock.oversight.audit import SCHEMA, as_line, record_hash, sealed

TENANT, OTHER = "acme", "other"
DAY = timedelta(hours=24)
KINDS = {
    facts.CALL,
    facts.TASK_EVENT,
    facts.RUN_STARTED,
    facts.CANCEL_REQUESTED,
    facts.PROMPT_OPENED,
    facts.PROMPT_ANSWERED,
    facts.PROMPT_REFUSED,
    facts.PROMPT_EXPIRED,
    facts.APPROVAL,
}
SECRET = "what nobody but the people of the task may read"

agent = Agent("day", "The demo agents, and one whose questions have a deadline.")


@agent.skill("hurry", "Waits for ten minutes", matches=lambda message: message.text == "hurry")
async def hurry(turn: Turn) -> None:
    await turn.ask("Now?", APPROVAL, deadline=timedelta(minutes=10))


agent.include(demo)


@dataclass
class Traffic:
    """Everything that may be called, by everybody who may call and by some who may not, every 80 seconds."""

    deployment: Deployment
    calls: Counter[str] = field(default_factory=Counter)
    """By tenant; those of nobody under the empty one."""

    def __post_init__(self) -> None:
        self.deployment.calls = Calls(self.deployment.engine)
        self.doors = [Client(self.deployment.agents_door(), binding) for binding in BINDINGS]
        self.people: ASGIApp = self.deployment.people_door()

    def _door(self, who: str) -> Client:
        """They take turns."""
        self.deployment.clock.advance(80)
        self.calls[{"spy": OTHER, "stranger": ""}.get(who, TENANT)] += 1
        return self.doors[self.calls.total() % len(self.doors)]

    def send(self, text: str, who: str = "agent", **more: Any) -> str:
        """The id of the task."""
        said = message(text, **more)
        sent = {"message": json.loads(said.wire_json())}
        outcome = self._door(who).call("SendMessage", sent, who=who)
        return str(outcome.task["id"]) if outcome.error is None else ""

    def get(self, task_id: str, who: str = "agent") -> None:
        self._door(who).call("GetTask", {"id": task_id}, who=who)

    def cancel(self, task_id: str) -> None:
        self._door("agent").call("CancelTask", {"id": task_id})

    def answer(self, task_id: str, payload: Mapping[str, Any], who: str = "ann") -> None:
        said = {"prompt_id": self.deployment.open_prompt(task_id), "payload": payload}
        self.send("answer", who, task_id=task_id, metadata={hitl_prompt.RESPONSE_KEY: said})

    def decide(self, task_id: str, who: str, said: str = "approve", **more: Any) -> None:
        """At either door, in turn."""
        request = self.deployment.open_prompt(task_id)
        (found,) = [one for one in self.deployment.prompts(task_id) if one.ask_id == request]
        digest = json.loads(found.approval or "{}")["digest"]
        wire = {"decision": said, "digest": digest, "comment": SECRET, **more}
        if self.calls.total() % 3 and said != "changes":
            wire = {"requestId": request, **wire}
            self.send("decided", who, task_id=task_id, metadata={approvals.KEY: wire})
        else:
            self._door(who)
            path = f"/people/tasks/{task_id}/checkpoints/{request}/decide"
            call(self.people, "POST", path, who=who, body=wire)

    def inbox(self, who: str) -> None:
        self._door(who)
        call(self.people, "GET", "/people/checkpoints", who=who)

    def round(self, number: int) -> None:
        release_ = self.send(f"release 1.0.{number}")
        self.answer(release_, {"approved": SECRET})
        self.answer(release_, {"approved": True, "comment": SECRET})
        self.get(release_)
        expense = self.send(f"expense {SECRET}")
        for payload in ({"amount": 40}, {"category": "meals"}, {"confirmed": True}):
            self.answer(expense, payload)
        small = self.send(f"refund {number} 40")
        self.decide(small, "agent")
        self.decide(small, "alice")
        large = self.send(f"refund {number} 250", "carol")
        self.decide(large, "carol")
        self.decide(large, "bob", digest="sha256:" + "0" * 64)
        self.decide(large, "alice")
        self.decide(large, "bob")
        denied = self.send(f"refund {number} 99")
        self.decide(denied, "bob", "deny")
        edited = self.send(f"refund {number} 80")
        self.decide(edited, "bob", "changes", edited={"tool": "refund", "order": number, "amount": "8.00"})
        self.decide(edited, "bob")
        self.decide(edited, "alice")
        self.cancel(self.send("release 2.0.0"))
        self.cancel(small)
        self.send("hurry")
        self.deployment.clock.advance(600)
        sweep(self.deployment.engine)
        for who in ("alice", "ops", "nobody", "spy", "stranger"):
            self.inbox(who)
            self.get(large, who)
        self.send(f"refund {number} 10", "spy")


@dataclass(frozen=True)
class Day:
    """The trail of it, and what is known of it from elsewhere."""

    table: MemoryTable
    key: Path
    signer: FileSigner
    facts: int
    calls: int


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    """Sealed after each round."""
    key = tmp_path_factory.mktemp("key") / "audit-key.pem"
    signer = new_signer(key.parent, key.name)
    deployment = Deployment(agent)
    traffic, sealer = Traffic(deployment), Sealer(deployment.table, deployment.clock, signer)
    found = number = 0
    while deployment.clock.now() < START + DAY:
        number += 1
        traffic.round(number)
        found += len(list(rows(deployment.table, fact_pk(TENANT))))
        for chain in (TENANT, OTHER, ""):
            seal(sealer, chain)
    return Day(deployment.table, key, signer, found, traffic.calls[TENANT])


def copy_trail(day: Day, table: Table) -> None:
    for pk in (records_pk(TENANT), checkpoints_pk(TENANT)):
        stored = list(rows(day.table, pk))
        for first in range(0, len(stored), BATCH):
            table.write(*(Put(key, item) for key, item in stored[first : first + BATCH]))


OFFLINE = """
import json, socket, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise PermissionError("there is no network here")

sys.addaudithook(refuse)
try:
    socket.create_connection(("127.0.0.1", 1))
except PermissionError:
    pass
else:
    sys.exit("there is a network")

from typer.testing import CliRunner
from interlock.cli.app import app

for arguments in json.load(sys.stdin):
    done = CliRunner().invoke(app, ["audit", "verify", *arguments, "--json"])
    print(json.dumps([done.exit_code, json.loads(done.stdout)]))
"""


def verified(folder: Path, *files: str) -> list[tuple[int, dict[str, Any]]]:
    """What `interlock audit verify` says of each: exit code and report. In a process of its own that has the
    files of `folder` and no network."""
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        input=json.dumps([[file, "--key", "jwks.json"] for file in files]),
        env={name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def problems(report: dict[str, Any]) -> str:
    return "\n".join(finding["problem"] for finding in report["findings"])


@pytest.fixture(scope="module")
def exported(day: Day, emulator: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the export, signed where it ends, and the public key: all that a verifier has."""
    folder = tmp_path_factory.mktemp("verifier")
    client = emulator.dynamodb
    name = create_table(client)
    copy_trail(day, DynamoTable(client, name))
    options = ("--table", name, "--signing-key", f"file:{day.key}", "--sign", "--out", "day.jsonl")
    environment = {"AWS_ENDPOINT_URL": emulator.url}
    run_cli("audit", "export", "--tenant", TENANT, *options, environment=environment, folder=folder)
    write_key(folder, day.signer)
    return folder


def write_key(folder: Path, signer: FileSigner) -> None:
    (folder / "jwks.json").write_text(json.dumps({"keys": [signer.public_jwk]}))


def read(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "day.jsonl").read_text().splitlines()]


def write(folder: Path, name: str, documents: list[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(as_line(document) + "\n" for document in documents))


def is_record(document: Mapping[str, Any]) -> bool:
    return bool(document["schema"] == SCHEMA)


def test_a_day_is_verified_offline_and_is_whole(day: Day, exported: Path) -> None:
    ((code, report),) = verified(exported, "day.jsonl")
    assert (code, report["findings"]) == (0, [])
    assert report["records"] == report["last"] == report["signed"] == day.facts > 2000

    documents = read(exported)
    records = [document for document in documents if is_record(document)]
    assert {record["kind"] for record in records} == KINDS
    assert sum(record["kind"] == facts.CALL for record in records) == day.calls
    times = [record["time"] for record in records]
    assert times == sorted(times)
    assert times[0] < "2026-01-01T13" < "2026-01-02T11" < times[-1]
    assert len(documents) - len(records) > day.facts // 512, "checkpoints, along the way"
    assert SECRET not in (exported / "day.jsonl").read_text()


Tampering = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def edited(day_: list[dict[str, Any]], *, covered_up: bool = False) -> list[dict[str, Any]]:
    """Somebody else approved. Covered up: with the hash that goes with it."""
    at = next(number for number, document in enumerate(day_) if document.get("kind") == facts.APPROVAL)
    record = {**day_[at], "actor": {"subject": "mallory", "scheme": "bearer"}}
    if covered_up:
        record["hash"] = record_hash(record)
    return [*day_[:at], record, *day_[at + 1 :]]


def resealed(day_: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A refusal is left out, and all records after it are sealed anew. The checkpoints are as they were."""
    left_out = next(document for document in day_ if document.get("kind") == facts.PROMPT_REFUSED)
    anew: list[dict[str, Any]] = []
    for record in filter(is_record, day_):
        if record is not left_out:
            last = anew[-1]["hash"] if anew else None
            anew.append(sealed(record, chain=TENANT, seq=len(anew) + 1, prev=last))
    return [*anew, *(document for document in day_ if not is_record(document))]


def cut_short(day_: list[dict[str, Any]]) -> list[dict[str, Any]]:
    records = [document for document in day_ if is_record(document)]
    return [*records[:-10], *day_[len(records) :]]


def forged(day_: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The chain is cut short, and its last checkpoint says so."""
    *kept, last = cut_short(day_)
    newest = [document for document in kept if is_record(document)][-1]
    return [*kept, {**last, "seq": newest["seq"], "hash": newest["hash"]}]


TAMPERINGS: Mapping[str, tuple[Tampering, str]] = {
    "edited": (edited, "the record was edited: its hash is another"),
    "edited-with-its-hash": (
        lambda day_: edited(day_, covered_up=True),
        "it does not follow the record before",
    ),
    "deleted": (lambda day_: [*day_[:700], *day_[701:]], "records are missing"),
    "reordered": (lambda day_: [*day_[:700], day_[701], day_[700], *day_[702:]], "moved"),
    "doubled": (lambda day_: [*day_[:700], day_[699], *day_[700:]], "slipped in"),
    "resealed": (resealed, "the chain was sealed anew since this checkpoint"),
    "cut-short": (cut_short, "the chain is cut short"),
    "forged": (forged, "the checkpoint is not signed by the trusted key"),
    "unsigned": (lambda day_: list(filter(is_record, day_)), "there is no checkpoint"),
}


def test_whatever_is_done_to_the_export_of_a_day_is_found(day: Day, exported: Path, tmp_path: Path) -> None:
    day_ = read(exported)
    write_key(tmp_path, day.signer)
    for name, (tamper, _) in TAMPERINGS.items():
        write(tmp_path, name, tamper(day_))
    foreign = next(json.loads(line) for line in export(day.table, OTHER))
    write(tmp_path, "foreign", [*day_[:700], foreign, *day_[700:]])
    expected = {name: said for name, (_, said) in TAMPERINGS.items()}
    expected["foreign"] = "it belongs to another chain"
    for name, (code, report) in zip(expected, verified(tmp_path, *expected), strict=True):
        assert code == 1, name
        assert expected[name] in problems(report), name


def test_another_key_than_that_of_the_deployment_vouches_for_nothing(exported: Path, tmp_path: Path) -> None:
    write(tmp_path, "day.jsonl", read(exported))
    write_key(tmp_path, new_signer(tmp_path, "theirs.pem"))
    ((code, report),) = verified(tmp_path, "day.jsonl")
    assert (code, report["signed"]) == (1, 0)
    assert "not signed by the trusted key" in problems(report)


def test_half_a_day_is_purged_when_no_hold_keeps_it_and_the_rest_verifies(day: Day, tmp_path: Path) -> None:
    table = MemoryTable()
    copy_trail(day, table)
    later = START + timedelta(days=MIN_DAYS) + DAY / 2
    hold(table, TENANT, "case 7", later)
    with pytest.raises(Held):
        purge(table, day.signer, TENANT, days=MIN_DAYS, now=later)
    release(table, TENANT)
    purged = purge(table, day.signer, TENANT, days=MIN_DAYS, now=later)
    assert day.facts / 3 < purged < day.facts * 2 / 3

    left = [json.loads(line) for line in export(table, TENANT)]
    write(tmp_path, "left", left)
    write(tmp_path, "without its anchor", left[1:])
    write_key(tmp_path, day.signer)
    (whole, unanchored) = verified(tmp_path, "left", "without its anchor")
    assert whole[0] == 0, whole
    assert (whole[1]["records"], whole[1]["last"]) == (day.facts - purged, day.facts)
    assert unanchored[0] == 1
