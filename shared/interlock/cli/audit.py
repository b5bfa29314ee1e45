"""`interlock audit`: the audit trail of a deployment, with the deployer's own AWS credentials.

`verify` needs nothing of a deployment: an export and the public key are enough.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import chain as joined
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue

from interlock.a2a.errors import Unavailable
from interlock.a2a.models import timestamp
from interlock.a2a.signing import Signer
from interlock.adapters.deployment import (
    AUDIT_KEY_OUTPUT,
    AUDIT_OUTPUT,
    DeploymentRefused,
    DeploymentUnreachable,
    audit_table,
    aws_errors,
    output_of,
)
from interlock.adapters.signing import signer_of
from interlock.adapters.verifying import signed_by, trusted_keys
from interlock.cli.output import EXIT_CODES, AsJson, Exit, Failure, failures, print_json
from interlock.cli.progress import progress
from interlock.engine import retention
from interlock.engine.ports import StoreError, Table
from interlock.engine.seal import export as exported
from interlock.engine.seal import head, sign
from interlock.oversight.audit import Checkpoint, Report, as_line
from interlock.oversight.audit import verify as check

app = typer.Typer(
    help="Export, verify, keep and purge the audit trail.\n\n"
    "AWS credentials, region and AWS_ENDPOINT_URL are taken from the environment, as the AWS CLI does.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)

TableName = Annotated[
    str | None, typer.Option("--table", envvar="INTERLOCK_AUDIT_TABLE", help="The audit table.")
]
StackName = Annotated[
    str | None,
    typer.Option("--stack", help="Or the CloudFormation stack whose outputs name the table and the key."),
]
Tenant = Annotated[
    str, typer.Option("--tenant", help="Whose chain. Empty: of calls whose caller was not known.")
]
SigningKey = Annotated[
    str | None,
    typer.Option(
        "--signing-key",
        envvar="INTERLOCK_AUDIT_KEY",
        help="An id or ARN of AWS KMS, or `file:` and the path of a private key. Default: the stack's.",
    ),
]


@app.command(epilog=EXIT_CODES)
def export(
    tenant: Tenant,
    out: Annotated[Path | None, typer.Option("--out", help="A file. Default: standard output.")] = None,
    sign_head: Annotated[
        bool, typer.Option("--sign", help="Sign where the chain has come to, as the last line.")
    ] = False,
    signing_key: SigningKey = None,
    table: TableName = None,
    stack: StackName = None,
) -> None:
    """Write a chain as JSON lines, records and checkpoints: what `verify` takes."""
    with _trail(table, stack) as trail, ExitStack() as files:
        # Before the records are read: those that come in meanwhile are not vouched for.
        signed = _signed_head(trail, tenant, _signer(signing_key, stack)) if sign_head else []
        target = files.enter_context(out.open("w")) if out is not None else None
        bar = files.enter_context(progress("exported", None, shown=out is not None))
        for line in bar.counted(joined(exported(trail, tenant), signed)):
            if target is not None:
                target.write(line + "\n")
            else:
                typer.echo(line)


def _signed_head(trail: Table, tenant: str, signer: Signer) -> list[str]:
    last = head(trail, tenant)
    if last.hash is None:
        return []
    return [as_line(sign(signer, Checkpoint(tenant, last.seq, last.hash, timestamp(datetime.now(UTC)))))]


@app.command(epilog=EXIT_CODES)
def verify(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="An export.")],
    key: Annotated[
        Path,
        typer.Option("--key", exists=True, dir_okay=False, help="The public key: PEM, a JWK, or a JWK set."),
    ],
    checkpoints: Annotated[
        list[Path] | None,
        typer.Option("--checkpoints", exists=True, dir_okay=False, help="Checkpoints kept elsewhere."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an export, without any network. Exit code 1: something is wrong with it."""
    with failures(as_json), ExitStack() as files:
        try:
            keys = trusted_keys(key)
        except ValueError as error:
            raise Failure(f"{error}.", Exit.USAGE) from error
        opened = [files.enter_context(path.open()) for path in (file, *(checkpoints or []))]
        try:
            with progress("verified", None, shown=not as_json) as bar:
                report = check((line.rstrip("\n") for line in bar.counted(joined(*opened))), signed_by(keys))
        except UnicodeDecodeError as error:
            raise Failure("The export is not text.", Exit.USAGE) from error
        _print(report, as_json)
    if report.findings:
        raise typer.Exit(Exit.FAILED)


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        findings: list[JsonValue] = [
            {"line": found.line, "problem": found.problem} for found in report.findings
        ]
        print_json(
            {
                "chain": report.chain,
                "records": report.records,
                "last": report.last,
                "signed": report.signed,
                "findings": findings,
            }
        )
        return
    for found in report.findings:
        typer.echo(f"line {found.line}: {found.problem}" if found.line else found.problem, err=True)
    if not report.findings:
        signed = f"signed up to {report.signed}" if report.last else "empty"
        typer.echo(f"{report.records} records, the last is {report.last}, {signed}: nothing was changed.")


@app.command("key", epilog=EXIT_CODES)
def public_key(signing_key: SigningKey = None, stack: StackName = None) -> None:
    """Print the public key as a JWK set, for `verify`. Keep it where the deployment can not reach it."""
    with _errors():
        print_json({"keys": [_signer(signing_key, stack).public_jwk]})


@app.command(epilog=EXIT_CODES)
def purge(
    tenant: Tenant,
    older_than: Annotated[
        int, typer.Option("--older-than", min=retention.MIN_DAYS, help="Days, 184 at least.")
    ],
    signing_key: SigningKey = None,
    table: TableName = None,
    stack: StackName = None,
) -> None:
    """Delete old records behind a signed anchor. The newest record stays, and all of them under a hold."""
    with _trail(table, stack) as trail:
        signer = _signer(signing_key, stack)
        try:
            deleted = retention.purge(trail, signer, tenant, days=older_than, now=datetime.now(UTC))
        except retention.Held as error:
            raise Failure("The chain is under a legal hold. Nothing was deleted.") from error
        typer.echo(f"{deleted} records deleted.")


@app.command(epilog=EXIT_CODES)
def hold(
    tenant: Tenant,
    reason: Annotated[str, typer.Option("--reason", help="Why, for whoever asks later.")],
    table: TableName = None,
    stack: StackName = None,
) -> None:
    """Put a chain under a legal hold: nothing of it is purged until it is released."""
    with _trail(table, stack) as trail:
        retention.hold(trail, tenant, reason, datetime.now(UTC))


@app.command(epilog=EXIT_CODES)
def release(tenant: Tenant, table: TableName = None, stack: StackName = None) -> None:
    """Release a chain from its legal hold."""
    with _trail(table, stack) as trail:
        retention.release(trail, tenant)


def _signer(key: str | None, stack: str | None) -> Signer:
    if key is None and stack is None:
        raise Failure("Name the key with --signing-key, or its stack with --stack.", Exit.USAGE)
    return signer_of(key if key is not None else output_of(stack or "", AUDIT_KEY_OUTPUT))


@contextmanager
def _trail(table: str | None, stack: str | None) -> Iterator[Table]:
    with _errors():
        if table is None and stack is None:
            raise Failure("Name the audit table with --table, or its stack with --stack.", Exit.USAGE)
        yield audit_table(table if table is not None else output_of(stack or "", AUDIT_OUTPUT))


@contextmanager
def _errors() -> Iterator[None]:
    with failures(as_json=False):
        try:
            with aws_errors():
                yield
        except DeploymentUnreachable as error:
            raise Failure(f"AWS can not be reached: {error}", Exit.UNREACHABLE) from error
        except DeploymentRefused as error:
            raise Failure(f"AWS refused: {error}") from error
        except StoreError as error:
            raise Failure("The table did not answer. Try again.", Exit.UNREACHABLE) from error
        except Unavailable as error:
            raise Failure("The key did not answer. Nothing was deleted.", Exit.UNREACHABLE) from error
        except (OSError, TypeError, ValueError) as error:
            raise Failure(f"Not to be used: {error}.", Exit.USAGE) from error
