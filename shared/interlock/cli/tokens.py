"""`interlock tokens`: who may call a deployment, written with the deployer's own AWS credentials."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from pydantic import JsonValue

from interlock.adapters.deployment import (
    DeploymentRefused,
    DeploymentUnreachable,
    aws_errors,
    identities_table_of,
    identity_store,
)
from interlock.adapters.identities import Identity, IdentityExists, IdentityStore, IdentityUnknown
from interlock.cli.output import EXIT_CODES, AsJson, Exit, Failure, failures, print_json, print_table
from interlock.engine.ports import StoreError
from interlock.oversight.principals import Kind, Role

app = typer.Typer(
    help="Create, list and revoke the identities of a deployment.\n\n"
    "AWS credentials, region and AWS_ENDPOINT_URL are taken from the environment, as the AWS CLI does.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
)

TableName = Annotated[
    str | None,
    typer.Option("--table", envvar="INTERLOCK_IDENTITIES_TABLE", help="The identities table."),
]
StackName = Annotated[
    str | None,
    typer.Option("--stack", help="Or the CloudFormation stack whose output IdentitiesTable names it."),
]
Tenant = Annotated[str, typer.Option("--tenant", help="The tenant it belongs to.")]
KindOption = Annotated[Kind, typer.Option("--kind", help="Only a person counts in approvals.")]
Roles = Annotated[list[Role] | None, typer.Option("--role", help="May be repeated. Default: caller.")]
Days = Annotated[int | None, typer.Option("--expires-in", min=1, max=36500, help="Days. Default: never.")]


@app.command(epilog=EXIT_CODES)
def create(
    label: Annotated[str, typer.Argument(help="The identity will be bearer:LABEL.")],
    tenant: Tenant,
    kind: KindOption = Kind.SERVICE,
    roles: Roles = None,
    expires_in: Days = None,
    table: TableName = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Create an identity and print its token: only now, for it is stored as a hash."""
    with _deployment(table, stack, as_json) as identities:
        identity, token = identities.create(
            label, tenant, kind, roles or [Role.CALLER], expires_at=_expiry(expires_in)
        )
        if as_json:
            print_json({**_document(identity), "token": token})
            return
        typer.echo(f"{_sentence(identity)}. Its token is shown only now:", err=True)
        typer.echo(token)


@app.command(epilog=EXIT_CODES)
def allow(
    subject: Annotated[
        str, typer.Argument(help="The `sub` of the issuer's JWTs; the identity will be jwt:SUBJECT.")
    ],
    tenant: Tenant,
    kind: KindOption = Kind.SERVICE,
    roles: Roles = None,
    expires_in: Days = None,
    table: TableName = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Let a subject of the configured OIDC issuer call."""
    with _deployment(table, stack, as_json) as identities:
        identity = identities.allow(
            subject, tenant, kind, roles or [Role.CALLER], expires_at=_expiry(expires_in)
        )
        if as_json:
            print_json(_document(identity))
        else:
            typer.echo(f"{_sentence(identity)}.")


@app.command("list", epilog=EXIT_CODES)
def list_identities(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only this tenant's.")] = None,
    table: TableName = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List identities, by tenant. One that was written just now may be missing for a moment."""
    with _deployment(table, stack, as_json) as identities:
        found: list[Identity] = []
        cursor: str | None = None
        while True:
            page = identities.list(tenant, cursor=cursor)
            found += page.identities
            cursor = page.cursor
            if cursor is None:
                break
        if as_json:
            print_json({"identities": [_document(identity) for identity in found]})
        else:
            print_table(
                ("IDENTITY", "TENANT", "KIND", "ROLES", "CREATED", "EXPIRES"),
                [
                    (
                        identity.principal.id,
                        identity.principal.tenant,
                        identity.principal.kind.value,
                        _roles(identity),
                        _time(identity.created_at),
                        _time(identity.expires_at) if identity.expires_at else "never",
                    )
                    for identity in found
                ],
            )


@app.command(epilog=EXIT_CODES)
def revoke(
    identity: Annotated[str, typer.Argument(help="A label, or a whole identity such as jwt:SUBJECT.")],
    table: TableName = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Delete an identity. Its token, or the issuer's tokens for it, are refused from now on."""
    with _deployment(table, stack, as_json) as identities:
        revoked = identities.revoke(identity if ":" in identity else f"bearer:{identity}")
        if as_json:
            print_json(_document(revoked))
        else:
            typer.echo(f"Revoked {_sentence(revoked)}.")


@contextmanager
def _deployment(table: str | None, stack: str | None, as_json: bool) -> Iterator[IdentityStore]:
    with failures(as_json):
        if (table is None) == (stack is None):
            raise Failure("Name the identities table with --table, or its stack with --stack.", Exit.USAGE)
        try:
            name = table if table is not None else identities_table_of(stack or "")
            with aws_errors():
                yield identity_store(name)
        except DeploymentUnreachable as error:
            raise Failure(f"AWS can not be reached: {error}", Exit.UNREACHABLE) from error
        except DeploymentRefused as error:
            raise Failure(f"AWS refused: {error}") from error
        except StoreError as error:
            raise Failure(
                "The table did not answer. What was asked for may be done or not: list the identities, and"
                " revoke one whose token was not shown.",
                Exit.UNREACHABLE,
            ) from error
        except IdentityExists as error:
            raise Failure("This identity exists already. Revoke it first, or choose another name.") from error
        except IdentityUnknown as error:
            raise Failure("There is no such identity.") from error
        except ValueError as error:
            raise Failure(f"Not valid: {error}.", Exit.USAGE) from error


def _expiry(days: int | None) -> datetime | None:
    return None if days is None else datetime.now(UTC) + timedelta(days=days)


def _document(identity: Identity) -> dict[str, JsonValue]:
    principal = identity.principal
    document: dict[str, JsonValue] = {
        "id": principal.id,
        "tenant": principal.tenant,
        "kind": principal.kind.value,
        "roles": [role.value for role in sorted(principal.roles)],
        "createdAt": _time(identity.created_at),
    }
    if identity.expires_at is not None:
        document["expiresAt"] = _time(identity.expires_at)
    return document


def _sentence(identity: Identity) -> str:
    principal = identity.principal
    until = f", until {_time(identity.expires_at)}" if identity.expires_at else ""
    return f"{principal.id}, {principal.kind.value} of {principal.tenant}: {_roles(identity)}{until}"


def _roles(identity: Identity) -> str:
    return ", ".join(sorted(identity.principal.roles))


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
