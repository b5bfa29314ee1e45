"""`interlock tokens` on moto."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import boto3
import pytest
from moto import mock_aws
from tests.support.emulator import Emulator, create_table
from tests.unit.cli.conftest import Invoke

from interlock.a2a.errors import Unauthenticated
from interlock.adapters.aws import session
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.identities import IdentityStore, TokenCredentials
from interlock.engine.authenticate import authenticate
from interlock.oversight.principals import Kind, Principal, Role


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Credentials and region are read anew, as by a command that starts."""
    session.cache_clear()
    yield
    session.cache_clear()


@pytest.fixture
def aws() -> Iterator[None]:
    with mock_aws():
        yield


@pytest.fixture
def table(aws: None) -> str:
    return create_table(dynamodb_client())


def who(token: str, table: str) -> Principal:
    credentials = TokenCredentials(DynamoTable(dynamodb_client(), table))
    return authenticate(f"Bearer {token}", credentials=credentials, verifier=None, anonymous=None)


def test_a_token_is_created_shown_and_works(table: str, interlock: Invoke) -> None:
    options = ("--tenant", "acme", "--kind", "person", "--role", "approver", "--role", "operator")
    result = interlock("tokens", "create", "alice", *options, "--table", table)
    assert result.exit_code == 0, result.output
    token = result.stdout.strip()
    assert who(token, table) == Principal(
        "bearer:alice", "acme", Kind.PERSON, frozenset({Role.APPROVER, Role.OPERATOR})
    )
    assert result.stderr == (
        "bearer:alice, person of acme: approver, operator. Its token is shown only now:\n"
    )
    listed = interlock("tokens", "list", "--table", table).output
    assert "bearer:alice" in listed
    assert token not in listed


def test_a_token_as_json_with_the_defaults(table: str, interlock: Invoke) -> None:
    created = json.loads(
        interlock("tokens", "create", "agent", "--tenant", "acme", "--table", table, "--json").output
    )
    assert who(created.pop("token"), table) == Principal(
        "bearer:agent", "acme", Kind.SERVICE, frozenset({Role.CALLER})
    )
    del created["createdAt"]
    assert created == {"id": "bearer:agent", "tenant": "acme", "kind": "service", "roles": ["caller"]}


def test_a_token_may_expire(table: str, interlock: Invoke) -> None:
    arguments = ("create", "ci", "--tenant", "acme", "--expires-in", "30", "--table", table, "--json")
    created = json.loads(interlock("tokens", *arguments).output)
    expires = datetime.fromisoformat(created["expiresAt"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=1)


def test_a_subject_is_allowed(table: str, interlock: Invoke) -> None:
    options = ("--tenant", "acme", "--kind", "person", "--role", "approver", "--table", table)
    result = interlock("tokens", "allow", "auth0|7", *options)
    assert result.output == "jwt:auth0|7, person of acme: approver.\n"
    found = TokenCredentials(DynamoTable(dynamodb_client(), table)).by_subject("auth0|7")
    assert found is not None
    assert found.principal.has(Role.APPROVER)
    assert json.loads(interlock("tokens", "allow", "b", *options, "--json").output)["id"] == "jwt:b"


def test_identities_are_listed_by_tenant(table: str, interlock: Invoke) -> None:
    for label, tenant in (("bob", "acme"), ("alice", "acme"), ("carol", "globex")):
        interlock("tokens", "create", label, "--tenant", tenant, "--table", table)
    listed = json.loads(interlock("tokens", "list", "--tenant", "acme", "--table", table, "--json").output)
    assert [identity["id"] for identity in listed["identities"]] == ["bearer:alice", "bearer:bob"]
    everybody = json.loads(interlock("tokens", "list", "--table", table, "--json").output)
    assert len(everybody["identities"]) == 3


def test_all_pages_are_listed(table: str, interlock: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    for label in ("a", "b", "c"):
        interlock("tokens", "create", label, "--tenant", "acme", "--table", table)
    whole = IdentityStore.list
    monkeypatch.setattr(
        IdentityStore, "list", lambda *given, **options: whole(*given, **{**options, "limit": 2})
    )
    listed = json.loads(interlock("tokens", "list", "--table", table, "--json").output)
    assert len(listed["identities"]) == 3


@pytest.mark.parametrize("named", ["alice", "bearer:alice"])
def test_a_revoked_token_stops(table: str, interlock: Invoke, named: str) -> None:
    token = interlock("tokens", "create", "alice", "--tenant", "acme", "--table", table).stdout.strip()
    result = interlock("tokens", "revoke", named, "--table", table)
    assert result.output == "Revoked bearer:alice, service of acme: caller.\n"
    with pytest.raises(Unauthenticated):
        who(token, table)
    assert interlock("tokens", "revoke", named, "--table", table).exit_code == 1


def test_a_revoked_subject(table: str, interlock: Invoke) -> None:
    interlock("tokens", "allow", "bob", "--tenant", "acme", "--table", table)
    revoked = json.loads(interlock("tokens", "revoke", "jwt:bob", "--table", table, "--json").output)
    assert revoked["id"] == "jwt:bob"


def test_a_label_is_used_once(table: str, interlock: Invoke) -> None:
    interlock("tokens", "create", "alice", "--tenant", "acme", "--table", table)
    result = interlock("tokens", "create", "alice", "--tenant", "globex", "--table", table, "--json")
    assert result.exit_code == 1
    assert "exists already" in json.loads(result.output)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "a b", "--tenant", "acme"],
        ["create", "alice", "--tenant", "Acme"],
        ["create", "alice"],
        ["create", "alice", "--tenant", "acme", "--role", "god"],
        ["create", "alice", "--tenant", "acme", "--kind", "robot"],
        ["create", "alice", "--tenant", "acme", "--expires-in", "0"],
        ["allow", "a#b", "--tenant", "acme"],
        ["list", "--stack", "both"],
    ],
)
def test_wrong_usage(table: str, interlock: Invoke, arguments: list[str]) -> None:
    assert interlock("tokens", *arguments, "--table", table).exit_code == 2


def test_the_table_must_be_named(interlock: Invoke) -> None:
    result = interlock("tokens", "list")
    assert result.exit_code == 2
    assert "--stack" in result.output


def test_the_table_is_named_by_the_environment(table: str, interlock: Invoke) -> None:
    assert interlock("tokens", "list", INTERLOCK_IDENTITIES_TABLE=table).exit_code == 0


def test_a_table_that_is_not_there(aws: None, interlock: Invoke) -> None:
    result = interlock("tokens", "list", "--table", "nowhere", "--json")
    assert result.exit_code == 1
    assert "ResourceNotFoundException" in json.loads(result.output)["error"]["message"]


@pytest.fixture
def stack(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Makes a stack with the outputs given, on the emulator that AWS_ENDPOINT_URL names."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.url)

    def create(**outputs: str) -> str:
        name = f"stack-{uuid4().hex}"
        template = {
            "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {output: {"Value": value} for output, value in outputs.items()},
        }
        client = boto3.client("cloudformation")
        client.create_stack(StackName=name, TemplateBody=json.dumps(template))
        client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
        return name

    return create


def test_the_table_is_found_by_the_stack(stack: Callable[..., str], interlock: Invoke) -> None:
    table = create_table(dynamodb_client())
    name = stack(Other="x", IdentitiesTable=table)
    result = interlock("tokens", "create", "alice", "--tenant", "acme", "--stack", name)
    assert result.exit_code == 0, result.output
    assert who(result.stdout.strip(), table).id == "bearer:alice"
    assert "bearer:alice" in interlock("tokens", "list", "--table", table).output


def test_a_stack_without_identities(stack: Callable[..., str], interlock: Invoke) -> None:
    for name in (stack(Other="x"), stack()):
        result = interlock("tokens", "list", "--stack", name)
        assert result.exit_code == 1
        assert "no output IdentitiesTable" in result.output
    assert interlock("tokens", "list", "--stack", "nowhere").exit_code == 1


@pytest.mark.parametrize("name", ["--table", "--stack"])
def test_aws_is_not_there(interlock: Invoke, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert interlock("tokens", "list", name, "interlock").exit_code == 3


@pytest.mark.parametrize("name", ["--table", "--stack"])
def test_no_credentials(interlock: Invoke, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    result = interlock("tokens", "list", name, "interlock")
    assert result.exit_code == 1
    assert "credentials" in result.output


def test_no_region(interlock: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    result = interlock("tokens", "list", "--table", "interlock")
    assert result.exit_code == 1
    assert "region" in result.output
