"""The template on the emulator, with IAM enforced: what each role may really do, and what the API refuses."""

import json
import urllib.error
import urllib.request
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from tests.support.stored import PEERS
from tools.deploy.local import STACK, Stack
from tools.emulator.process import REGION

KEY = {"pk": {"S": "nobody"}, "sk": {"S": "nothing"}}


class Role:
    """Does what a function of the stack does, with the role of that function."""

    def __init__(self, stack: Stack, function: str) -> None:
        resources = stack.client("cloudformation").describe_stack_resource(
            StackName=STACK, LogicalResourceId=f"{function}Role"
        )
        name = resources["StackResourceDetail"]["PhysicalResourceId"]
        role = stack.client("iam").get_role(RoleName=name)["Role"]["Arn"]
        given = stack.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
        self._session = boto3.session.Session(
            given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], region_name=REGION
        )
        self._stack = stack

    def _client(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=self._stack.endpoint)  # type: ignore[call-overload]

    def reads(self, table: str) -> None:
        self._client("dynamodb").get_item(TableName=self._stack.outputs[table], Key=KEY)

    def reads_as_one(self, table: str) -> None:
        get = {"Get": {"TableName": self._stack.outputs[table], "Key": KEY}}
        self._client("dynamodb").transact_get_items(TransactItems=[get])

    def reads_many(self, table: str) -> None:
        self._client("dynamodb").batch_get_item(RequestItems={self._stack.outputs[table]: {"Keys": [KEY]}})

    def writes(self, table: str) -> None:
        self._client("dynamodb").update_item(TableName=self._stack.outputs[table], Key=KEY)

    def deletes(self, table: str) -> None:
        self._client("dynamodb").delete_item(TableName=self._stack.outputs[table], Key=KEY)

    def scans(self, table: str) -> None:
        self._client("dynamodb").scan(TableName=self._stack.outputs[table])

    def sends(self, queue: str) -> None:
        self._client("sqs").send_message(QueueUrl=self._stack.outputs[queue], MessageBody="{}")

    def reads_secret(self, name: str) -> None:
        self._client("secretsmanager").get_secret_value(SecretId=name)


role = cache(Role)


REFUSED = [
    ("A2a", "writes", "IdentitiesTable"),
    ("A2a", "scans", "CoreTable"),
    ("A2a", "sends", "TurnsDeadLetters"),
    ("Operator", "writes", "IdentitiesTable"),
    ("Authorizer", "reads", "CoreTable"),
    ("Authorizer", "writes", "IdentitiesTable"),
    ("Authorizer", "scans", "IdentitiesTable"),
    ("Turns", "reads", "IdentitiesTable"),
    ("Fanout", "deletes", "CoreTable"),
    ("Fanout", "sends", "TimersQueue"),
    ("Channels", "writes", "IdentitiesTable"),
    ("Channels", "deletes", "CoreTable"),
    ("Channels", "scans", "CoreTable"),
    ("Channels", "sends", "StopsQueue"),
    ("Outbox", "reads", "IdentitiesTable"),
    ("Outbox", "scans", "CoreTable"),
    ("Outbox", "sends", "TurnsQueue"),
    ("Turns", "sends", "AuditQueue"),
    ("Timers", "reads", "IdentitiesTable"),
    ("A2a", "writes", "AuditTable"),
    ("Operator", "reads", "AuditTable"),
    ("Timers", "writes", "AuditTable"),
    ("Audit", "writes", "AuditTable"),
    ("Audit", "deletes", "AuditTable"),
    ("Audit", "reads", "IdentitiesTable"),
    ("A2a", "sends", "StopsQueue"),
    ("Turns", "sends", "StopsQueue"),
    ("Stops", "sends", "TurnsQueue"),
    ("Stops", "scans", "CoreTable"),
    ("Stops", "reads", "IdentitiesTable"),
    ("Stops", "writes", "AuditTable"),
    ("Authorizer", "reads_as_one", "CoreTable"),
    ("Audit", "reads_as_one", "CoreTable"),
    *[(function, "reads_secret", PEERS) for function in ("A2a", "Operator", "Timers", "Stops", "Fanout")],
]
ALLOWED = [
    ("A2a", "reads", "IdentitiesTable"),
    ("Authorizer", "reads", "IdentitiesTable"),
    ("Fanout", "reads", "CoreTable"),
    ("Fanout", "writes", "CoreTable"),
    ("Channels", "reads", "IdentitiesTable"),
    ("Channels", "writes", "CoreTable"),
    ("Channels", "sends", "TurnsQueue"),
    ("Fanout", "sends", "OutboxQueue"),
    ("Outbox", "writes", "CoreTable"),
    ("Outbox", "sends", "OutboxDeadLetters"),
    ("Timers", "reads", "CoreTable"),
    *[
        (function, act, "CoreTable")
        for function in ("A2a", "Operator", "Turns", "Timers")
        for act in ("reads_as_one", "reads_many")
    ],
    *[("Stops", act, "CoreTable") for act in ("reads", "reads_many", "writes", "deletes")],
    *[(function, "sends", "StopsQueue") for function in ("Operator", "Fanout", "Timers")],
    *[(function, "reads_secret", PEERS) for function in ("Turns", "Outbox")],
]


@pytest.mark.parametrize(("function", "act", "resource"), REFUSED)
def test_a_role_is_refused_what_its_function_does_not_do(
    deployment: Stack, function: str, act: str, resource: str
) -> None:
    with pytest.raises(ClientError) as refused:
        getattr(role(deployment, function), act)(resource)
    assert refused.value.response["Error"]["Code"] in {"AccessDenied", "AccessDeniedException"}


@pytest.mark.parametrize(("function", "act", "resource"), ALLOWED)
def test_a_role_may_do_what_its_function_does(
    deployment: Stack, function: str, act: str, resource: str
) -> None:
    getattr(role(deployment, function), act)(resource)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nobody"}])
def test_the_gateway_refuses_who_is_not_known_in_the_form_of_the_protocol(
    deployment: Stack, headers: dict[str, str]
) -> None:
    request = urllib.request.Request(f"{deployment.url}/tasks", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as answer:
        assert answer.code == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        body = json.load(answer)
    assert (body["jsonrpc"], body["error"]["code"]) == ("2.0", -32600)
    assert body["error"]["status"] == "UNAUTHENTICATED"


def test_the_card_is_public_and_names_the_address_that_was_called(deployment: Stack) -> None:
    with urllib.request.urlopen(f"{deployment.url}/.well-known/agent-card.json", timeout=60) as answer:
        card = json.load(answer)
    assert {interface["url"].rstrip("/") for interface in card["supportedInterfaces"]} == {deployment.url}
