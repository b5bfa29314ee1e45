"""A deployer's way to the tables of a deployment, with the deployer's own AWS credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError  # noqa: A004

from interlock.adapters.aws import create_client
from interlock.adapters.clock import SystemClock
from interlock.adapters.dynamodb import DynamoTable, dynamodb_client
from interlock.adapters.identities import IdentityStore
from interlock.adapters.schema_worker import SchemaWorker
from interlock.engine.context import Engine
from interlock.engine.ports import Key

if TYPE_CHECKING:
    from types_boto3_cloudformation import CloudFormationClient

CORE_OUTPUT = "CoreTable"
IDENTITIES_OUTPUT = "IdentitiesTable"
AUDIT_OUTPUT = "AuditTable"
AUDIT_KEY_OUTPUT = "AuditKey"


class DeploymentRefused(Exception):
    """AWS said no: no such stack, table or region, or no permission. The text is fit to be shown."""


class DeploymentUnreachable(Exception):
    """AWS did not answer. The text is fit to be shown."""


@contextmanager
def aws_errors() -> Iterator[None]:
    """Raises `DeploymentRefused` and `DeploymentUnreachable` instead of what boto3 raises."""
    try:
        yield
    except (ConnectionError, HTTPClientError) as error:
        raise DeploymentUnreachable(str(error)) from error
    except ClientError as error:
        found = error.response["Error"]
        raise DeploymentRefused(f"{found.get('Code', '')}: {found.get('Message', '')}") from error
    except BotoCoreError as error:
        raise DeploymentRefused(str(error)) from error


def identities_table_of(stack: str) -> str:
    """The table's name, from the outputs of a CloudFormation stack."""
    return output_of(stack, IDENTITIES_OUTPUT)


def output_of(stack: str, name: str) -> str:
    with aws_errors():
        client: CloudFormationClient = create_client("cloudformation")
        described = client.describe_stacks(StackName=stack)
    outputs = described["Stacks"][0].get("Outputs", [])
    for output in outputs:
        if output.get("OutputKey") == name:
            return output["OutputValue"]
    raise DeploymentRefused(f"the stack {stack} has no output {name}")


def identity_store(table_name: str) -> IdentityStore:
    with aws_errors():
        table = DynamoTable(dynamodb_client(), table_name)
    return IdentityStore(table, table)


def core_engine(table_name: str) -> Engine:
    """For what a deployer may decide where nobody else can: it wakes nobody, which others make up for."""
    with aws_errors():
        table = DynamoTable(dynamodb_client(), table_name)
    return Engine(table, table, Unheard(), SystemClock(), SchemaWorker(ahead=False))


class Unheard:
    """Implements `Waker` where no queue is known: the stream and the sweeper find what is not woken."""

    def wake_turn(self, tenant: str, task_id: str, turn: int) -> None:
        pass

    def wake_push(self, tenant: str, task_id: str) -> None:
        pass

    def wake_seal(self, chain: str) -> None:
        pass

    def wake_walk(self, scope: str, generation: int) -> None:
        pass

    def wake_children(self, tenant: str, task_id: str) -> None:
        pass

    def wake_refresh(self, tenant: str, name: str) -> None:
        pass

    def wake_notices(self, tenant: str, task_id: str) -> None:
        pass

    def wake_timer(self, key: Key, at: datetime) -> None:
        pass


def deployer() -> str:
    """Who acts, as AWS has it: `aws:<arn>`, or `aws:unknown` where AWS STS does not say."""
    config = Config(connect_timeout=2, read_timeout=3, retries={"total_max_attempts": 1, "mode": "standard"})
    try:
        return f"aws:{create_client('sts', config=config).get_caller_identity()['Arn']}"
    except (BotoCoreError, ClientError):
        return "aws:unknown"


def audit_table(table_name: str) -> DynamoTable:
    with aws_errors():
        return DynamoTable(dynamodb_client(), table_name)
