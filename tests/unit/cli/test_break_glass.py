"""Break-glass on moto: the halt is written with AWS credentials alone, and what runs is stopped from here."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws
from tests.support.emulator import create_table
from tests.support.twin import AGENT, running
from tests.unit.cli.conftest import Invoke

from interlock.a2a.models import Message, Part, Role, SendMessageRequest
from interlock.adapters.aws import create_client, session
from interlock.adapters.deployment import DeploymentRefused, core_engine
from interlock.adapters.dynamodb import dynamodb_client
from interlock.engine.context import Engine
from interlock.engine.create import create_task
from interlock.engine.facts import fact_pk
from interlock.engine.halt import current
from interlock.engine.halts import Halted
from interlock.engine.records import Halt, Run, run_pk, shard
from interlock.engine.run_turn import claim
from interlock.engine.seal import chains
from interlock.oversight.halts import Scope

ACME = Scope("acme")
GLASS = ("--break-glass",)


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Credentials and region are read anew, as by a command that starts. Nobody is left to be heard of."""
    monkeypatch.setattr("interlock.cli.switch.HEARD_SECONDS", 0.0)
    session.cache_clear()
    yield
    session.cache_clear()


@pytest.fixture
def table() -> Iterator[str]:
    with mock_aws():
        yield create_table(dynamodb_client())


@pytest.fixture
def engine(table: str) -> Engine:
    return core_engine(table)


async def nothing(turn: Any) -> None:
    pass


def sent(engine: Engine, *, claimed: bool) -> str:
    message = Message(message_id="m", role=Role.USER, parts=[Part(text="go")])
    view = create_task(engine, running(nothing), AGENT, SendMessageRequest(message=message), None)
    task_id = view.meta.task_id
    if claimed:
        assert claim(engine, "acme", task_id, 1) is not None
    return task_id


def standing(engine: Engine, scope: Scope = ACME) -> Halt:
    found = current(engine.table, scope)
    assert found is not None
    return found


def facts(engine: Engine, chain: str) -> list[dict[str, Any]]:
    found = [json.loads(str(item["body"])) for _, item in engine.table.query(fact_pk(chain)).rows]
    return [fact for fact in found if fact["kind"] == "halt"]


def test_a_halt_holds_and_stops_what_runs(engine: Engine, table: str, interlock: Invoke) -> None:
    withdrawn, asked = sent(engine, claimed=False), sent(engine, claimed=True)
    options = ("--tenant", "acme", "--reason", "an incident", *GLASS, "--table", table, "--json")
    document = json.loads(interlock("halt", *options).output)
    assert (document["scope"], document["persisted"]) == ("tenant:acme", True)
    assert document["counts"] == {"asked": 1, "confirmed": 0, "abandoned": 0, "withdrawn": 1}
    assert sorted(document["stopped"]) == sorted([withdrawn, asked])
    assert document["by"].startswith("aws:arn:aws:sts::123456789012:")
    (row,) = engine.table.query(run_pk(shard(asked))).rows
    assert Run.read(row[1]).phase == Run.STOPPING
    with pytest.raises(Halted, match="halted: an incident"):
        sent(engine, claimed=False)
    assert standing(engine).walked_at is not None


def test_it_is_on_the_trail_with_who_aws_says_it_was(engine: Engine, table: str, interlock: Invoke) -> None:
    options = ("--all", "--reason", "an incident", *GLASS, "--table", table)
    assert interlock("halt", *options).output == "Halted all: an incident\nNothing was running.\n"
    halted = next(fact for fact in facts(engine, "") if fact["detail"]["action"] == "halt")
    assert halted["actor"]["scheme"] == "operator"
    assert halted["actor"]["subject"].startswith("aws:arn:")
    assert halted["detail"]["reason"] == "an incident"
    assert "" in chains(engine.table)


def test_where_sts_does_not_answer_it_is_done_all_the_same(
    engine: Engine, table: str, interlock: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(service: str, *arguments: Any, **options: Any) -> Any:
        if service == "sts":
            options["endpoint_url"] = "http://127.0.0.1:9"
        return create_client(service, *arguments, **options)

    monkeypatch.setattr("interlock.adapters.deployment.create_client", unreachable)
    options = ("--tenant", "acme", "--reason", "r", *GLASS, "--table", table, "--no-wait")
    assert interlock("halt", *options).exit_code == 0
    assert standing(engine).by == "aws:unknown"
    assert standing(engine).walked_at is None


def test_it_is_lifted_with_the_same_credentials(engine: Engine, table: str, interlock: Invoke) -> None:
    at = (*GLASS, "--table", table)
    interlock("halt", "--skill", "acme/release", "--reason", "r", "--no-wait", *at)
    result = interlock("resume", "--skill", "acme/release", *at)
    assert (result.exit_code, result.output) == (0, "Lifted the halt of skill:acme/release.\n")
    assert standing(engine, Scope("acme", skill="release")).on is None
    assert interlock("resume", "--skill", "acme/release", *at).output == (
        "skill:acme/release was not halted.\n"
    )
    assert interlock("resume", "--tenant", "acme", "--generation", "1", *at).exit_code == 0


def test_what_stands_is_shown_and_looking_changes_nothing(
    engine: Engine, table: str, interlock: Invoke
) -> None:
    at = (*GLASS, "--table", table)
    assert interlock("status", *at).output == "Nothing is halted.\n"
    running = sent(engine, claimed=True)
    interlock("halt", "--tenant", "acme", "--reason", "an incident", "--no-wait", *at)
    result = interlock("status", *at)
    assert result.exit_code == 0, result.output
    assert "tenant:acme" in result.output
    assert "still looking" in result.output
    (halted,) = json.loads(interlock("status", *at, "--json").output)["halts"]
    assert (halted["reason"], halted["generation"]) == ("an incident", 1)
    assert "resumedAt" not in halted
    assert standing(engine).walked_at is None
    (row,) = engine.table.query(run_pk(shard(running))).rows
    assert Run.read(row[1]).phase == Run.CLAIMED
    interlock("resume", "--tenant", "acme", *at)
    assert json.loads(interlock("status", *at, "--json").output)["lifted"][0]["scope"] == "tenant:acme"


def test_the_stack_is_that_of_the_profile(interlock: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []

    def output_of(stack: str, name: str) -> str:
        named.append(stack)
        raise DeploymentRefused(name)

    monkeypatch.setattr("interlock.cli.break_glass.output_of", output_of)
    interlock("profiles", "add", "prod", "https://api.example/prod", "--ask", "--stack", "interlock-prod")
    for arguments in (("status",), ("halt", "--all", "--reason", "r"), ("resume", "--all")):
        assert interlock(*arguments, *GLASS, "-p", "prod").exit_code == 1
    assert interlock("status", *GLASS, "-p", "prod", "--stack", "other").exit_code == 1
    assert named == ["interlock-prod"] * 3 + ["other"]


def test_one_that_was_declared_anew_stays(engine: Engine, table: str, interlock: Invoke) -> None:
    at = (*GLASS, "--table", table)
    for reason in ("first", "second"):
        interlock("halt", "--tenant", "acme", "--reason", reason, "--no-wait", *at)
    result = interlock("resume", "--tenant", "acme", "--generation", "1", *at)
    assert result.exit_code == 1
    assert "halted by another halt" in result.stderr
    assert standing(engine).on


def test_the_table_may_be_named_by_the_environment(engine: Engine, table: str, interlock: Invoke) -> None:
    options = ("--tenant", "acme", "--reason", "r", "--no-wait", *GLASS)
    assert interlock("halt", *options, INTERLOCK_TABLE=table).exit_code == 0
    assert standing(engine).on


@pytest.mark.parametrize(
    "arguments",
    [
        ("--tenant", "acme", "--reason", "r"),
        ("--agent", "desk", "--reason", "r", "--table", "t"),
        ("--skill", "release", "--reason", "r", "--table", "t"),
        ("--tenant", "ACME", "--reason", "r", "--table", "t"),
        ("--tenant", "acme", "--reason", "", "--table", "t"),
        ("--tenant", "acme", "--reason", "two\nlines", "--table", "t"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_meant(table: str, interlock: Invoke, arguments: tuple[str, ...]) -> None:
    result = interlock("halt", *arguments, *GLASS)
    assert result.exit_code == 2, result.output


def test_a_table_that_is_not_there(table: str, interlock: Invoke) -> None:
    result = interlock("halt", "--all", "--reason", "r", *GLASS, "--table", "no-such-table")
    assert result.exit_code == 1
    assert result.stderr.startswith("AWS refused: ResourceNotFoundException")


def test_an_aws_that_is_not_there(interlock: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.context.MAX_ATTEMPTS", 2)
    options = ("--all", "--reason", "r", *GLASS, "--table", "t")
    result = interlock("halt", *options, AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert result.exit_code == 3
    assert "may be done or not" in result.stderr
