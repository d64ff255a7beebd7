"""`./admit cert revoke|suspend|reinstate`: one certificate, or all of a device or user."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from cli.command_context import CommandContext
from cli.commands._cert_rows import full_row
from cli.output import json_option, show_one, tenant_option
from nac.certificates import bulk_revocation
from nac.certificates import service as certificates
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.models import Certificate


def _which(command: Callable[..., None]) -> Callable[..., None]:
    """Arguments of all three commands."""
    for decorate in (
        json_option,
        click.option("--all-of-user", metavar="NAME", help="All certificates issued to this user."),
        click.option("--all-of-endpoint", metavar="MAC", help="All certificates issued to this device."),
        tenant_option,
        click.argument("serial", required=False),
    ):
        command = decorate(command)
    return command


def _change(
    one: Callable[..., Certificate],
    many: Callable[..., bulk_revocation.RevocationResult],
    *,
    serial: str | None,
    tenant: str,
    all_of_endpoint: str | None,
    all_of_user: str | None,
    as_json: bool,
    **more: Any,  # noqa: ANN401 -- whatever else `one` and `many` take
) -> None:
    if sum(each is not None for each in (serial, all_of_endpoint, all_of_user)) != 1:
        raise InvalidInput(
            "No certificate selected.", remedy="Use a serial number, --all-of-endpoint or --all-of-user."
        )
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        arguments = more | {"actor": domain.actor, "tenant_id": tenant_id}
        if serial is not None:
            row = full_row(session, one(session, serial=serial, **arguments))
        else:
            which = bulk_revocation.issued_to_clause(
                session, tenant_id=tenant_id, mac=all_of_endpoint, user_name=all_of_user
            )
            row = asdict(many(session, which=which, **arguments))
    show_one(row, as_json=as_json)


@click.command()
@_which
@click.option("--reason", type=click.Choice(certificates.REVOCATION_REASONS), default="unspecified", show_default=True)
def revoke(**options: Any) -> None:  # noqa: ANN401 -- click's own values
    """Revoke the certificate SERIAL permanently, or all certificates of a device or user.

    Its renewals are revoked too, unless the reason is superseded. Admit asks NASes to disconnect the sessions of these
    certificates.
    """
    _change(certificates.revoke_certificate, bulk_revocation.revoke_all, now=utc_now(), **options)


@click.command()
@_which
def suspend(**options: Any) -> None:  # noqa: ANN401 -- click's own values
    """Suspend the certificate SERIAL, or all certificates of a device or user, until you reinstate them.

    With a serial number, renewals of the certificate stay valid. Admit asks NASes to disconnect the sessions of these
    certificates.
    """
    _change(certificates.suspend_certificate, bulk_revocation.suspend_all, now=utc_now(), **options)


@click.command()
@_which
def reinstate(**options: Any) -> None:  # noqa: ANN401 -- click's own values
    """Reinstate the suspended certificate SERIAL, or all suspended certificates of a device or user."""
    _change(certificates.reinstate_certificate, bulk_revocation.reinstate_all, **options)


COMMANDS = (revoke, suspend, reinstate)
